"""A Redis Cluster of three masters, and a server that speaks TLS."""
import pathlib
import shutil
import subprocess
import time

from peers import Absent, Failed
from server import Server, Several, free_port

MASTERS, SLOTS = 3, 16384


class Node(Server):
    def options(self):
        self.bus = free_port()
        return ['--cluster-enabled', 'yes', '--cluster-port', str(self.bus),
                '--cluster-config-file', f'nodes-{self.port}.conf']

    def is_whole(self):
        about = self.command('CLUSTER', 'INFO').split()
        return {'cluster_state:ok', f'cluster_known_nodes:{MASTERS}'} <= set(about)


class Cluster(Several):
    """Masters of our own, each with a third of the slots; no replicas."""

    def __init__(self, folder, cores, name='page'):
        super().__init__(folder, cores, name, Node, MASTERS)
        for i, node in enumerate(self.nodes):
            node.command('CLUSTER', 'SET-CONFIG-EPOCH', str(i + 1))
            node.command('CLUSTER', 'ADDSLOTSRANGE', str(SLOTS * i // MASTERS),
                         str(SLOTS * (i + 1) // MASTERS - 1))
        for node in self.nodes[1:]:
            self.nodes[0].command('CLUSTER', 'MEET', '127.0.0.1', str(node.port), str(node.bus))
        self.await_whole()

    def await_whole(self):
        limit = time.monotonic() + 30
        while not all(node.is_whole() for node in self.nodes):
            if time.monotonic() > limit:
                self.end()
                raise Failed('the nodes of the cluster do not meet')
            time.sleep(0.05)

    def uri(self, query=''):
        return f'redis+cluster://{self.places()}{query}'


class Encrypted(Server):
    """A server with a certificate that only this run trusts."""

    def __init__(self, folder, cores, name='page'):
        super().__init__(folder, cores, name)
        if not shutil.which('openssl'):
            raise Absent('openssl is not installed')
        self.key, self.certificate = (pathlib.Path(folder) / f'{name}.{kind}'
                                      for kind in ('key', 'pem'))
        subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt',
                        'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-subj', '/CN=bench',
                        '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', str(self.key),
                        '-out', str(self.certificate)], check=True, capture_output=True)

    def options(self):
        self.tls_port = free_port()
        return ['--tls-port', str(self.tls_port), '--tls-auth-clients', 'no',
                '--tls-cert-file', str(self.certificate), '--tls-key-file', str(self.key),
                '--tls-ca-cert-file', str(self.certificate)]

    def uri(self, query=''):
        return (f'rediss://127.0.0.1:{self.tls_port}?tls.ca_file={self.certificate}'
                f'{query.replace("?", "&")}')

    def end(self):
        self.__exit__()

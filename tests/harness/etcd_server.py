"""An etcd of our own for the tests written in Python, one member or three. The twin of
etcd_server.h, which says more.
"""
import base64
import contextlib
import json
import os
import shutil
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import tap
from zookeeper_server import free_ports

START_S = 60
# The tests are run on other versions, too.
PROGRAM = os.environ.get('DLK_TEST_ETCD_PROGRAM', 'etcd')


def text64(text):
    return base64.b64encode(text.encode()).decode()


class Certificates:
    """The members show theirs, and ask for ours, made by certificates.sh in that directory."""

    def __init__(self, directory):
        at = lambda name: os.path.join(directory, name)  # noqa: E731
        self.context = ssl.create_default_context(cafile=at('ca.pem'))
        self.context.load_cert_chain(at('client.pem'), at('client.key'))
        self.options = ['--cert-file', at('server.pem'), '--key-file', at('server.key'),
                        '--client-cert-auth', '--trusted-ca-file', at('ca.pem')]
        self.settings = f'tls.ca_file={at("ca.pem")}'
        self.known = f'tls.cert_file={at("client.pem")}&tls.key_file={at("client.key")}'


class Member:
    """One process; serves when the others do."""

    def __init__(self, name, port, peer, cluster, directory, options):
        self.port, self.certificates, self.options = port, None, options
        self.directory = directory
        self.command = [
            PROGRAM, '--name', name, '--data-dir', os.path.join(directory, name),
            '--listen-peer-urls', f'http://127.0.0.1:{peer}',
            '--initial-advertise-peer-urls', f'http://127.0.0.1:{peer}',
            '--initial-cluster', cluster, '--unsafe-no-fsync']
        self.process = None

    @property
    def socket(self):
        """Plain, also where the port has TLS; 3.4 names one only so."""
        return os.path.join(self.directory, f'localhost:{self.port}')

    @property
    def url(self):
        return f'http{"s" if self.certificates else ""}://127.0.0.1:{self.port}'

    def launch(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.socket)  # who was killed has left it
        clients = ['--listen-client-urls', f'{self.url},unix://localhost:{self.port}',
                   '--advertise-client-urls', self.url]
        tls = self.certificates.options if self.certificates else []
        self.process = subprocess.Popen([*self.command, *clients, *tls, *self.options],
                                        cwd=self.directory, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def say(self, path, body=None):
        """What it answers by HTTP; None when it doesn't."""
        context = self.certificates.context if self.certificates else None
        try:
            with urllib.request.urlopen(f'{self.url}/{path}', body, timeout=10,
                                        context=context) as answer:
                return answer.read().decode()
        except (OSError, ValueError, urllib.error.HTTPError):
            return None

    def ask(self, path, body):
        """The gateway's answer; None when there is none."""
        said = self.say(f'v3/{path}', json.dumps(body).encode())
        return json.loads(said) if said else None

    def serves(self):
        """A majority stands behind what it reads."""
        said = self.say('health')
        return said is not None and json.loads(said).get('health') == 'true'

    def leads(self):
        return 'etcd_server_is_leader 1' in (self.say('metrics') or '')


class Cluster:
    """All members serve when it is there."""

    def __init__(self, size=1):
        if not shutil.which(PROGRAM):
            raise tap.Skip(f'{PROGRAM} is not installed')
        self.directory = tempfile.mkdtemp(prefix='dlock-etcd-')
        ports = free_ports(2 * size)
        names = [f'm{number}' for number in range(size)]
        cluster = ','.join(f'{name}=http://127.0.0.1:{peer}'
                           for name, peer in zip(names, ports[size:]))
        # One alone may grant leases of 1 s; three are given time to hear each other.
        timing = ['--heartbeat-interval', '50', '--election-timeout', '500'] if size == 1 else []
        self.members = [Member(*member, cluster, self.directory, timing)
                        for member in zip(names, ports, ports[size:])]
        self.hosts = ','.join(f'127.0.0.1:{port}' for port in ports[:size])
        self.url = f'etcd://{self.hosts}'
        self.launch()

    def launch(self):
        for member in self.members:
            member.launch()
        for member in self.members:
            self.await_member(member)

    def launch_without_gateway(self, certificates=None):
        """They all end, and come back with what they know."""
        for member in self.members:
            member.kill()
            member.certificates = certificates
            member.options = [*member.options, '--enable-grpc-gateway=false']
        self.launch()

    def await_member(self, member):
        end = time.monotonic() + START_S
        while not member.serves():
            if time.monotonic() > end:
                self.stop()
                raise AssertionError('etcd does not start')
            time.sleep(0.05)

    def leader(self):
        """The member that says it leads; None: nobody does just now."""
        return next((member for member in self.members if member.leads()), None)

    def ask(self, path, body):
        """The first answer of a member."""
        return next(said for member in self.members for said in [member.ask(path, body)] if said)

    def compact(self):
        """Forgets all revisions but the newest; whoever does so first has done it."""
        revision = self.ask('kv/range', {'key': text64('none')})['header']['revision']
        for member in self.members:
            if member.ask('kv/compaction', {'revision': revision}) is not None:
                return

    def keys(self, prefix):
        """The keys that begin so."""
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        found = self.ask('kv/range', {'key': text64(prefix), 'range_end': text64(end)})
        return [base64.b64decode(kv['key']).decode() for kv in found.get('kvs', [])]

    def stop(self):
        for member in self.members:
            if member.process:
                member.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

"""An etcd of our own for the tests written in Python, one member or three. The twin of
etcd_server.h, which says more.
"""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import tap
from zookeeper_server import free_ports

START_S = 60


def text64(text):
    return base64.b64encode(text.encode()).decode()


class Member:
    """One process; serves when the others do."""

    def __init__(self, name, port, peer, cluster, directory, timing):
        self.port = port
        self.command = [
            'etcd', '--name', name, '--data-dir', os.path.join(directory, name),
            '--listen-client-urls', f'http://127.0.0.1:{port}',
            '--advertise-client-urls', f'http://127.0.0.1:{port}',
            '--listen-peer-urls', f'http://127.0.0.1:{peer}',
            '--initial-advertise-peer-urls', f'http://127.0.0.1:{peer}',
            '--initial-cluster', cluster, '--unsafe-no-fsync', *timing]
        self.process = None

    def launch(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def ask(self, path, body):
        """The gateway's answer; None when there is none."""
        request = urllib.request.Request(f'http://127.0.0.1:{self.port}/v3/{path}',
                                         json.dumps(body).encode())
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.load(answer)
        except (OSError, ValueError, urllib.error.HTTPError):
            return None

    def serves(self):
        """A majority stands behind what it reads."""
        return self.ask('kv/range', {'key': text64('serves')}) is not None


class Cluster:
    """All members serve when it is there."""

    def __init__(self, size=1):
        if not shutil.which('etcd'):
            raise tap.Skip('etcd is not installed')
        self.directory = tempfile.mkdtemp(prefix='dlock-etcd-')
        ports = free_ports(2 * size)
        names = [f'm{number}' for number in range(size)]
        cluster = ','.join(f'{name}=http://127.0.0.1:{peer}'
                           for name, peer in zip(names, ports[size:]))
        # One alone may grant leases of 1 s; three are given time to hear each other.
        timing = ['--heartbeat-interval', '50', '--election-timeout', '500'] if size == 1 else []
        self.members = [Member(*member, cluster, self.directory, timing)
                        for member in zip(names, ports, ports[size:])]
        self.url = 'etcd://' + ','.join(f'127.0.0.1:{port}' for port in ports[:size])
        for member in self.members:
            member.launch()
        for member in self.members:
            self.await_member(member)

    def await_member(self, member):
        end = time.monotonic() + START_S
        while not member.serves():
            if time.monotonic() > end:
                self.stop()
                raise AssertionError('etcd does not start')
            time.sleep(0.05)

    def leader(self):
        """The member that leads, as one of them says."""
        for member in self.members:
            said = member.ask('maintenance/status', {})
            if said and said.get('leader'):
                for other in self.members:
                    own = other.ask('maintenance/status', {})
                    if own and own['header']['member_id'] == said['leader']:
                        return other
        return None

    def keys(self, prefix):
        """The keys that begin so."""
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        found = next(said for member in self.members
                     for said in [member.ask('kv/range', {
                         'key': text64(prefix), 'range_end': text64(end)})] if said)
        return [base64.b64decode(kv['key']).decode() for kv in found.get('kvs', [])]

    def stop(self):
        for member in self.members:
            if member.process:
                member.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

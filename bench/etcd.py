"""The etcd of a run, and what a pair asks of it."""
import json
import os
import pathlib
import shutil
import subprocess
import time
import urllib.request

from peers import Absent, Failed
from server import Page, free_port


class Etcd:
    """One member of our own: loopback, unused ports, its log not flushed to the disk."""

    def __init__(self, folder, cores, name='page'):
        self.folder, self.cores = pathlib.Path(folder), cores
        self.page = Page(folder, name)
        self.data = self.folder / f'{name}-data'
        self.process, self.port, self.starts = None, None, 0
        if not shutil.which('etcd'):
            raise Absent('etcd is not installed')

    def start(self):
        for _ in range(5):  # somebody may take a port before the server does
            self.port, self.starts = free_port(), self.starts + 1
            clients, peers = (f'http://127.0.0.1:{port}' for port in (self.port, free_port()))
            self.process = subprocess.Popen(
                ['etcd', '--data-dir', f'{self.data}-{self.starts}', '--unsafe-no-fsync',
                 '--listen-client-urls', clients, '--advertise-client-urls', clients,
                 '--listen-peer-urls', peers, '--initial-advertise-peer-urls', peers,
                 '--initial-cluster', f'default={peers}'],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                preexec_fn=lambda: os.sched_setaffinity(0, self.cores))
            if self.answers():
                return self
            self.end()
        raise Failed('etcd does not start')

    def answers(self):
        limit = time.monotonic() + 30
        while self.process.poll() is None and time.monotonic() < limit:
            try:
                if self.ask('lease/leases'):
                    return True
            except OSError:
                time.sleep(0.05)
        return False

    def ask(self, path):
        request = urllib.request.Request(f'http://127.0.0.1:{self.port}/v3/{path}', b'{}')
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    @property
    def version(self):
        return self.ask('maintenance/status')['version']

    def counters(self):
        """Each write is a revision."""
        entries, overlaps = self.page.sums()
        revision = int(self.ask('maintenance/status')['header']['revision'])
        return {'calls': {'revision': revision}, 'entries': entries, 'overlaps': overlaps,
                'cpu_us': self.cpu_us()}

    def cpu_us(self):
        """The processor's time of all its threads."""
        return time.clock_gettime((~self.process.pid << 3) | 2) * 1e6  # as clock_getcpuclockid(3)

    def clear(self):
        """What somebody who died has left would stay for the rest of his lease."""
        self.end()
        self.start()
        self.page.vacate()

    def hosts(self):
        return f'127.0.0.1:{self.port}'

    def end(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        self.process = None

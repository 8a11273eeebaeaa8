"""The memcached of a run, and what a pair asks of it."""
import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import time

from peers import Absent, Failed
from server import Page, free_port


class Memcached:
    """A server of our own: loopback, an unused port."""

    def __init__(self, folder, cores, name='page'):
        self.cores = cores
        self.page = Page(folder, name)
        self.process, self.port = None, None
        if not shutil.which('memcached'):
            raise Absent('memcached is not installed')

    def start(self):
        for _ in range(5):  # somebody may take the port before the server does
            self.port = free_port()
            who = ['-u', 'root'] if os.geteuid() == 0 else []
            self.process = subprocess.Popen(
                ['memcached', '-l', '127.0.0.1', '-p', str(self.port), '-U', '0', *who],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                preexec_fn=lambda: os.sched_setaffinity(0, self.cores))
            if self.answers():
                return self
            self.end()
        raise Failed('memcached does not start')

    def answers(self):
        limit = time.monotonic() + 10
        while self.process.poll() is None and time.monotonic() < limit:
            with contextlib.suppress(OSError):
                if self.stats().get('pid') == str(self.process.pid):
                    return True
            time.sleep(0.02)
        return False

    def stats(self):
        with socket.create_connection(('127.0.0.1', self.port), 5) as link, \
                link.makefile('r', encoding='ascii') as answer:
            link.sendall(b'stats\r\n')
            lines = iter(lambda: answer.readline().split(), ['END'])
            return {line[1]: line[2] for line in lines if len(line) > 2}

    @property
    def version(self):
        return self.stats()['version']

    def calls(self):
        """How often it was asked for each thing, however that is called."""
        stats = self.stats()
        names = {'get': 'cmd_get', 'set': 'cmd_set', 'delete': 'delete_hits'}
        return {name: int(stats[key]) for name, key in names.items()}

    def counters(self):
        entries, overlaps = self.page.sums()
        return {'calls': self.calls(), 'entries': entries, 'overlaps': overlaps,
                'cpu_us': self.cpu_us()}

    def cpu_us(self):
        """What all of its threads have used so far."""
        tasks = pathlib.Path(f'/proc/{self.process.pid}/task')
        return sum(int((task / 'schedstat').read_text().split()[0])
                   for task in tasks.iterdir()) / 1000

    def clear(self):
        """What somebody who died has left."""
        with socket.create_connection(('127.0.0.1', self.port), 5) as link:
            link.sendall(b'flush_all\r\n')
            link.recv(16)
        self.page.vacate()

    def uri(self, query=''):
        return f'memcached://127.0.0.1:{self.port}{query}'

    def end(self):
        self.process.kill()
        self.process.wait()

"""Runs the benchmark programs, and the Redis servers they talk to."""
import json
import os
import pathlib
import socket
import subprocess
import time

import machine

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent / 'libdlock' / 'backends' / 'redis'


class Failed(Exception):
    """A program that didn't end well; the text is what it said."""


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


class Server:
    """A redis-server of our own: loopback, an unused port, nothing written to disk."""

    def __init__(self, folder, cores):
        self.folder = folder
        self.cores = cores
        self.version = subprocess.run(['redis-server', '--version'], capture_output=True,
                                      text=True, check=True).stdout.split(' sha=')[0]

    def __enter__(self):
        for _ in range(5):  # somebody may take the port before the server does
            self.port = free_port()
            self.process = subprocess.Popen(
                ['redis-server', '--port', str(self.port), '--bind', '127.0.0.1',
                 '--save', '', '--appendonly', 'no', '--dir', self.folder],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                preexec_fn=lambda: os.sched_setaffinity(0, self.cores))
            if self.answers():
                return self
            self.__exit__()
        raise Failed('redis-server does not start')

    def answers(self):
        limit = time.monotonic() + 10
        while self.process.poll() is None and time.monotonic() < limit:
            try:
                with socket.create_connection(('127.0.0.1', self.port), 1) as link:
                    link.sendall(b'PING\r\n')
                    if link.recv(16).startswith(b'+PONG'):
                        return True
            except OSError:
                time.sleep(0.02)
        return False

    def cpu_us(self):
        """What its main thread, which does all the work, has used so far."""
        schedstat = pathlib.Path(f'/proc/{self.process.pid}/schedstat')
        return int(schedstat.read_text().split()[0]) / 1000

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


class Programs:
    def __init__(self, build, folder, secs):
        self.folder = build.resolve() / 'bench'
        self.files = folder
        self.secs = secs
        self.servers = {}  # by place
        self.backends = self.output(['bench-pairs', '--backends'], machine.CORES).split()

    def output(self, words, cores):
        """The program's standard output; it and its children stay on these cores."""
        done = subprocess.run([str(self.folder / words[0]), *words[1:]],
                              capture_output=True, text=True, timeout=60 + 10 * self.secs,
                              preexec_fn=lambda: os.sched_setaffinity(0, cores), check=False)
        if done.returncode != 0:
            raise Failed(done.stderr.strip() or f'{words[0]}: exit code {done.returncode}')
        return done.stdout

    def run(self, words, place):
        """One run. The place "pinned" is the first core, where the pinned server is as well.

        Adds to cpu_us, the processor's time that one operation took, the server's share of it."""
        cores = machine.CORES[:1] if place == 'pinned' else machine.CORES
        server = self.servers.get(place)
        before = server.cpu_us() if server else 0
        try:
            run = json.loads(self.output([words[0], '--secs', str(self.secs), *words[1:]], cores))
        except subprocess.TimeoutExpired as late:
            raise Failed(f'{words[0]}: not done after {late.timeout:.0f} s') from late
        if server:
            run['server_us'] = (server.cpu_us() - before) / max(1, run['total'])
            run['cpu_us'] += run['server_us']
        return run

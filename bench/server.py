"""The Redis servers of a run, what they count, and the page on which exclusion shows."""
import contextlib
import os
import pathlib
import re
import socket
import struct
import subprocess
import time

from peers import Failed

SPOTS, SPOT = 1024, 8  # as bench.h has it: 64-bit words inside, last, entries, overlaps, and room
MONITORED = re.compile(r'\+(?P<secs>[\d.]+) \[\d+ (?P<who>\S+)\] (?P<words>.*)')
WORD = re.compile(r'"((?:[^"\\]|\\.)*)"')


class Page:
    """What the critical sections of all programs write."""

    def __init__(self, folder, name):
        self.path = pathlib.Path(folder) / name
        self.path.write_bytes(bytes(SPOTS * SPOT * 8))

    def sums(self):
        words = struct.unpack(f'{SPOTS * SPOT}q', self.path.read_bytes())
        return sum(words[2::SPOT]), sum(words[3::SPOT])

    def vacate(self):
        """Who was inside has died there."""
        with self.path.open('r+b') as file:
            for spot in range(SPOTS):
                file.seek(spot * SPOT * 8)
                file.write(bytes(8))


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


class Server:
    """A redis-server of our own: loopback, an unused port, nothing written to disk."""

    def __init__(self, folder, cores, name='page'):
        self.folder = folder
        self.cores = cores
        self.page = Page(folder, name)
        self.version = subprocess.run(['redis-server', '--version'], capture_output=True,
                                      text=True, check=True).stdout.split(' sha=')[0]

    def __enter__(self):
        for _ in range(5):  # somebody may take the port before the server does
            self.port = free_port()
            self.process = subprocess.Popen(
                ['redis-server', '--port', str(self.port), '--bind', '127.0.0.1',
                 '--save', '', '--appendonly', 'no', '--dir', str(self.folder),
                 *self.options()],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                preexec_fn=lambda: os.sched_setaffinity(0, self.cores))
            if self.answers():
                return self
            self.__exit__()
        raise Failed('redis-server does not start')

    def options(self):
        """What else it is started with."""
        return []

    def answers(self):
        limit = time.monotonic() + 10
        while self.process.poll() is None and time.monotonic() < limit:
            try:
                if self.command('PING').startswith('+PONG'):
                    return True
            except OSError:
                time.sleep(0.02)
        return False

    def command(self, *words):
        """A command, and its answer as it comes: a line, or one long string."""
        with socket.create_connection(('127.0.0.1', self.port), 5) as link, \
                link.makefile('rb') as answer:
            link.sendall(request(*words))
            line = answer.readline().decode()
            if line.startswith('$'):
                return answer.read(int(line[1:])).decode()
            return line.strip()

    def cpu_us(self):
        """What its main thread, which does all the work, has used so far."""
        schedstat = pathlib.Path(f'/proc/{self.process.pid}/schedstat')
        return int(schedstat.read_text().split()[0]) / 1000

    def calls(self):
        """How often each command has been called, by clients and by scripts."""
        found = re.findall(r'cmdstat_([^:]+):calls=(\d+)', self.command('INFO', 'commandstats'))
        return {name: int(calls) for name, calls in found if name != 'info'}

    def counters(self):
        entries, overlaps = self.page.sums()
        return {'calls': self.calls(), 'entries': entries, 'overlaps': overlaps,
                'cpu_us': self.cpu_us()}

    def clear(self):
        """What somebody who died has left."""
        self.command('FLUSHALL')
        self.page.vacate()

    def uri(self, query=''):
        return f'redis://127.0.0.1:{self.port}{query}'

    @contextlib.contextmanager
    def monitor(self):
        with socket.create_connection(('127.0.0.1', self.port), 20) as link:
            yield Monitor(self, link)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


class Several:
    """Servers that share a page, and what they count together."""

    def __init__(self, folder, cores, name, kind, count):
        self.page = Page(folder, name)
        self.stack = contextlib.ExitStack()
        self.nodes = [self.stack.enter_context(kind(folder, cores, f'{name}-{i}'))
                      for i in range(count)]

    def places(self):
        return ','.join(f'127.0.0.1:{node.port}' for node in self.nodes)

    def counters(self):
        calls, cpu_us = {}, 0
        for node in self.nodes:
            cpu_us += node.cpu_us()
            for name, count in node.calls().items():
                calls[name] = calls.get(name, 0) + count
        entries, overlaps = self.page.sums()
        return {'calls': calls, 'entries': entries, 'overlaps': overlaps, 'cpu_us': cpu_us}

    def clear(self):
        """What somebody who died has left."""
        for node in self.nodes:
            node.command('FLUSHALL')
        self.page.vacate()

    def end(self):
        self.stack.close()


def request(*words):
    parts = [f'*{len(words)}\r\n'.encode()]
    for word in words:
        parts.append(f'${len(word.encode())}\r\n{word}\r\n'.encode())
    return b''.join(parts)


class Monitor:
    """All that a server is asked, in its order."""

    END = 'that was all'

    def __init__(self, server, link):
        self.server = server
        self.lines = link.makefile('r', encoding='latin-1', newline='\n')
        link.sendall(request('MONITOR'))
        if not self.lines.readline().startswith('+OK'):
            raise Failed('MONITOR is refused')

    def commands(self):
        """Who (a client's address, or lua) and the words of each command up to now."""
        self.server.command('ECHO', self.END)
        for line in self.lines:
            match = MONITORED.match(line.strip())
            words = [unescaped(word) for word in WORD.findall(match['words'])]
            if words[-1] == self.END:
                return
            yield match['who'], words

    def client_commands(self):
        return [words for who, words in self.commands() if who != 'lua']


def unescaped(word):
    return word.encode('latin-1').decode('unicode_escape') if '\\' in word else word


def compare(before, after, run):
    """Puts into a run what the server and the page say of it."""
    total, grants = max(1, run['total']), run.get('grants', run['total'])
    calls = {name: count - before['calls'].get(name, 0) for name, count in after['calls'].items()}
    run['server_us'] = (after['cpu_us'] - before['cpu_us']) / total
    run['cpu_us'] += run['server_us']
    run['scripts_each'] = sum(calls.get(name, 0) for name in ('eval', 'evalsha')) / total
    run['commands_each'] = sum(calls.values()) / total
    run['overlaps'] = after['overlaps'] - before['overlaps']
    run['lost_entries'] = grants - (after['entries'] - before['entries'])

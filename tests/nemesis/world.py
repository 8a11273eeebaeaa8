"""What a run is made of: servers, workers, the fault proxy, the resource and the checker.

Everything is started here and ended by its id; every line between us and a helper program is one
question and one answer.
"""
import contextlib
import ctypes
import json
import os
import signal
import socket
import struct
import subprocess
import time

MS = 1_000_000
DEVNULL = subprocess.DEVNULL


def now():
    """ns of the boot clock, as in the histories."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def die_with_us():
    """In a child: nothing that we start outlives us."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Broken(Exception):
    """The run can't go on: a helper has gone, or something of ours was broken."""


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


class Helper:
    """A program that answers each line with a line."""

    def __init__(self, *argv, first=None):
        self.name = os.path.basename(str(argv[0]))
        self.process = subprocess.Popen([str(a) for a in argv], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)
        if first is not None and not self.read().startswith(first):
            raise Broken(f'{self.name} did not start')

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise Broken(f'{self.name} has gone')
        return line.rstrip('\n')

    def ask(self, line):
        try:
            self.process.stdin.write(line + '\n')
            self.process.stdin.flush()
        except OSError:
            raise Broken(f'{self.name} has gone') from None
        return self.read()

    def end(self):
        """Closes its input, which ends it; returns what it says at the end."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        said = self.process.stdout.read()
        self.process.wait()
        return said


class Log:
    """nemesis.log: a part of the history (histories/README.md)."""

    def __init__(self, directory):
        self.file = open(os.path.join(directory, 'nemesis.log'), 'w', encoding='utf-8')

    def __call__(self, *words):
        line = ' '.join(map(str, words)).replace('\n', ' ')
        self.file.write(f'{now()} {line}\n')
        self.file.flush()

    def close(self):
        self.file.close()


class Redis:
    """A server that keeps its state in an append-only file, and a user for ourselves."""
    CONFIG = ('port {port}\nbind 127.0.0.1\ndir {directory}\nsave ""\nappendonly yes\n'
              'appendfsync everysec\nlogfile {directory}/redis.log\nmaxclients 4000\n'
              'user default on nopass ~* &* +@all\nuser nemesis on >nemesis ~* &* +@all\n')

    def __init__(self, directory):
        self.directory, self.port, self.process, self.link = directory, free_port(), None, None
        os.makedirs(directory)
        self.config = os.path.join(directory, 'redis.conf')
        with open(self.config, 'w', encoding='utf-8') as file:
            file.write(self.CONFIG.format(port=self.port, directory=directory))
        self.start()

    def start(self):
        self.process = subprocess.Popen(['redis-server', self.config], stdin=DEVNULL,
                                        stdout=DEVNULL, stderr=DEVNULL,
                                        preexec_fn=die_with_us)
        end = time.monotonic() + 60
        while time.monotonic() < end and self.process.poll() is None:
            with contextlib.suppress(OSError, Broken):
                if self.call('PING') == 'PONG':
                    return
            time.sleep(0.01)
        raise Broken('redis-server does not start')

    def kill(self):
        self.disconnect()
        self.process.kill()
        self.process.wait()

    def forget(self):
        """While it is down: nothing is left of what it knew."""
        for root, _, files in os.walk(self.directory):
            for name in files:
                if '.aof' in name or name.endswith('.rdb'):
                    os.unlink(os.path.join(root, name))

    def signal(self, number):
        self.process.send_signal(number)

    def disconnect(self):
        if self.link:
            self.link.close()
        self.link = None

    def call(self, *words):
        """Runs one command as our own user; an answer of '-…' is a text as any other."""
        try:
            if not self.link:
                self.link = socket.create_connection(('127.0.0.1', self.port), 20).makefile('rwb')
                self.call('AUTH', 'nemesis', 'nemesis')
            words = [str(w).encode() for w in words]
            self.link.write(b'*%d\r\n' % len(words) +
                            b''.join(b'$%d\r\n%s\r\n' % (len(w), w) for w in words))
            self.link.flush()
            return self.reply()
        except OSError:
            self.disconnect()
            raise

    def reply(self):
        line = self.link.readline()
        if not line:
            raise ConnectionResetError('redis-server hung up')
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b'*':
            return [self.reply() for _ in range(int(rest))]
        if kind == b'$':
            return None if rest == '-1' else self.link.read(int(rest) + 2)[:-2].decode()
        return int(rest) if kind == b':' else rest if kind == b'+' else f'-{rest}'

    def stop(self):
        self.disconnect()
        self.process.kill()
        self.process.wait()


class Skew:
    """What one worker's clocks say wrong; see skew.c."""

    def __init__(self, path):
        self.path = path
        self.set(0, 0)

    def set(self, boot_ppm, wall_ns):
        with open(self.path, 'r+b' if os.path.exists(self.path) else 'wb') as file:
            file.write(struct.pack('=qq', boot_ppm, wall_ns))


class Worker:
    """A process that plays, in one of the places of a run."""

    def __init__(self, place, number, run, seed):
        self.place, self.number = place, number
        self.stopped = self.killed = False
        history = f'worker-{number}.history'
        first = place.backend.first_lock(number)
        self.errors = os.path.join(run.directory, f'worker-{number}.err')
        environment = {**os.environ, 'LD_PRELOAD': run.programs.skew,
                       'NEMESIS_SKEW': place.skew.path}
        argv = [run.programs.worker, f'id={number}', f'uri={place.uri}',
                f'history={run.directory}/{history}', f'page={run.directory}/page',
                f'socket={run.directory}/resource', f'first={first}',
                f'locks={place.backend.locks}', f'clients={place.clients}',
                f'threads={place.threads}', f'ttl_ms={place.backend.ttl_ms}', f'seed={seed}']
        run.log('worker', number, place.backend.name, history)
        with open(self.errors, 'wb') as errors:
            self.process = subprocess.Popen(argv, stdin=DEVNULL, stdout=errors, stderr=errors,
                                            env=environment)

    def signal(self, number):
        if self.process.poll() is None:
            self.process.send_signal(number)

    def kill(self):
        self.killed = True
        self.signal(signal.SIGKILL)

    def stop(self):
        self.stopped = True
        self.signal(signal.SIGSTOP)

    def go_on(self):
        self.stopped = False
        self.signal(signal.SIGCONT)

    def complaints(self):
        with open(self.errors, encoding='utf-8', errors='replace') as file:
            return file.read().strip()


class Spinner:
    """Takes CPU time from everybody."""

    def __init__(self):
        self.process = subprocess.Popen(['sh', '-c', 'while :; do :; done'], stdin=DEVNULL,
                                        preexec_fn=die_with_us)

    def end(self):
        self.process.kill()
        self.process.wait()


class Resource(Helper):
    """The fenced resource: a server, and the page which that makes for the workers."""

    def __init__(self, program, directory):
        super().__init__(program, os.path.join(directory, 'resource'),
                         os.path.join(directory, 'page'), first='ready')

    def sums(self):
        """Ends it: [(lock, accepted, refused, lost updates, same tokens, highest token)]."""
        return [tuple(map(int, line.split())) for line in self.end().splitlines()]


class Checker(Helper):
    """history-check, which follows the run."""

    def __init__(self, program, directory, slack_ms):
        super().__init__(program, directory, '--follow', '--slack', slack_ms)

    def finish(self):
        return json.loads(self.ask('finish'))

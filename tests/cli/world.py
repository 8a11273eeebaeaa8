"""What the tests of the command share: a lock service to use, ways to run dlock, and patience.

A program is called with the executable and the service, "file" or "redis"; it ends every process
it started, by its id.
"""
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import tap

EXECUTABLE = os.path.abspath(sys.argv[1])
SERVICE = sys.argv[2]
SLOW = 4 if os.environ.get('DLK_TEST_SLOW') else 1
LIMIT = 20 * SLOW  # seconds until something that should happen counts as not happening


def wait_until(what, condition, limit=LIMIT):
    """Polls a condition; returns its first true value."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.005)
    raise AssertionError(f'not within {limit} s: {what}')


def is_alive(pid):
    """Whether a process runs; one that has ended and isn't waited for yet doesn't."""
    try:
        with open(f'/proc/{pid}/stat', encoding='ascii', errors='replace') as file:
            return file.read().rpartition(')')[2].split()[0] not in 'ZX'
    except (FileNotFoundError, ProcessLookupError):
        return False


class Redis:
    """A server of our own on a free port of the loopback interface."""

    def __init__(self, *options):
        if shutil.which('redis-server') is None:
            raise tap.Skip('redis-server is not installed')
        with socket.socket() as probe:
            probe.bind(('127.0.0.1', 0))
            self.port = probe.getsockname()[1]
        self.directory = tempfile.mkdtemp(prefix='dlock-redis-')
        self.process = subprocess.Popen(
            ['redis-server', '--bind', '127.0.0.1', '--port', str(self.port), '--save', '',
             '--appendonly', 'no', '--dir', self.directory, *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until('redis-server answers', self.answers)

    def answers(self):
        with contextlib.suppress(OSError):
            return self.command('PING')[:1] in (b'+', b'-')
        return False

    def command(self, *words):
        """Sends one command on a connection of its own; returns the raw reply's first bytes."""
        with socket.create_connection(('127.0.0.1', self.port), 5) as link:
            link.sendall(b''.join([b'*%d\r\n' % len(words)] + [
                b'$%d\r\n%s\r\n' % (len(w.encode()), w.encode()) for w in words]))
            return link.recv(65536)

    @property
    def url(self):
        return f'redis://127.0.0.1:{self.port}'

    def stop(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


class World:
    """One lock service, and what was started against it."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix='dlock-cli-')
        self.started = []
        self.redis = None
        self.skip = None
        self.url = f'file://{self.directory}/locks'
        if SERVICE == 'redis':
            try:
                self.redis = Redis()
                self.url = self.redis.url
            except tap.Skip as why:
                self.skip = why

    def path(self, name):
        return os.path.join(self.directory, name)

    def environment(self, **more):
        """What the command sees: nothing of a surrounding dlock."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith('DLOCK_')}
        return {**clean, 'DLOCK_URL': self.url, 'SHELL': '/bin/sh', **more}

    def start(self, *arguments, **options):
        """Starts dlock; give() it input, or let it run."""
        options.setdefault('stdin', subprocess.DEVNULL)
        options.setdefault('stdout', subprocess.PIPE)
        options.setdefault('stderr', subprocess.PIPE)
        options.setdefault('env', self.environment())
        process = subprocess.Popen([EXECUTABLE, *arguments], **options)
        self.started.append(process)
        return process

    def finish(self, process, limit=LIMIT):
        """Waits for the end of what start() started: (status, stdout, stderr)."""
        out, err = process.communicate(timeout=limit)
        return (process.returncode, (out or b'').decode(errors='replace'),
                (err or b'').decode(errors='replace'))

    def run(self, *arguments, limit=LIMIT, **options):
        """Runs dlock to its end: (status, stdout, stderr)."""
        return self.finish(self.start(*arguments, **options), limit)

    def hold(self, name, *arguments):
        """Starts `dlock hold` and returns it with its line, once it holds."""
        process = self.start('hold', *arguments, name, stdin=subprocess.PIPE)
        line = process.stdout.readline()
        if not line:
            raise AssertionError(f'hold {name}: {process.stderr.read().decode()}')
        return process, json.loads(line)

    def let_go(self, process):
        process.stdin.close()
        process.stdin = None
        tap.equal('status of hold', self.finish(process)[0], 0)

    def inspect(self, name):
        status, out, err = self.run('inspect', '--json', name)
        tap.equal(f'inspect {name}: {err}', status, 0)
        return json.loads(out)

    def wait_for_waiters(self, name, count):
        wait_until(f'{count} wait for {name}',
                   lambda: self.inspect(name).get('waiters', 0) >= count)

    def close(self):
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()
        if self.redis:
            self.redis.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


def main(tests):
    """Runs the functions of a module whose names end the sentence "it …"."""
    world = World()

    def bound(test):
        def run():
            if world.skip:
                raise world.skip
            test(world)
        return run

    try:
        sys.exit(tap.main([(test.__name__, bound(test)) for test in tests]))
    finally:
        world.close()

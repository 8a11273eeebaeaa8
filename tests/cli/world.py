"""What the tests of the command share: a lock service to use, ways to run dlock, and patience.

A program is called with the executable and the service, "file" or "redis"; it ends every process
it started, by its id.
"""
import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

import etcd_server
import tap
import zookeeper_server
from postgres_server import Postgres
from servers import Memcached, Redis
from waiting import LIMIT, SLOW, wait_until

EXECUTABLE = os.path.abspath(sys.argv[1])
SERVICE = sys.argv[2]
# A wait that runs out. Not too short: a server that hasn't said yet that the lock is held makes
# another status of it.
SHORT = '0.3'


def lease(seconds):
    """A lease as long as a test needs it, or as long as everything there needs it to be kept."""
    return str(max(2, 2 * seconds) if SLOW > 1 else seconds)


# On Redis a list is of what clients tell (test_told.py), who do so after a second: where a test
# is of something else it doesn't wait for that.
AT_ONCE = True
# A PostgreSQL without our schema. A test that isn't of how that comes about sets it to False.
BARE = True


def listing(*arguments):
    """The arguments of a command, where one that lists sees at once what is there."""
    if SERVICE == 'redis' and AT_ONCE and arguments and arguments[0] in ('ls', 'top', 'stats'):
        return (arguments[0], '--set', 'redis.list=scan', *arguments[1:])
    return arguments


class TooSlow(Exception):
    """The machine slept through a lease that had to be kept."""


def with_lease_from(ttl, test):
    """Runs test(ttl), and where the machine was too slow for that with longer ones."""
    for _ in range(3):
        try:
            return test(ttl)
        except TooSlow as why:
            print(f'# too slow for a lease of {ttl} s: {why}', flush=True)
            ttl *= 4
    raise AssertionError('no lease of seconds is kept')


def is_alive(pid):
    """Whether a process runs; one that has ended and isn't waited for yet doesn't."""
    try:
        with open(f'/proc/{pid}/stat', encoding='ascii', errors='replace') as file:
            return file.read().rpartition(')')[2].split()[0] not in 'ZX'
    except (FileNotFoundError, ProcessLookupError):
        return False


def only_on(*services):
    """Decorates a test that can be only on these; elsewhere it isn't run, and main() says so."""
    def mark(test):
        test.only_on = services
        return test
    return mark


def beside(make):
    """Decorates test(w, what): make(w) makes something for it, whose close() ends it."""
    def decorate(test):
        @functools.wraps(test)
        def run(w):
            with contextlib.closing(make(w)) as what:
                test(w, what)
        return run
    return decorate


class World:
    """One lock service, and what was started against it."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix='dlock-cli-')
        self.started = []
        self.redis = self.zookeeper = self.memcached = self.etcd = self.postgres = None
        self.where = None  # what the libraries of others are told
        self.skip = None
        self.url = f'file://{self.directory}/locks'
        if SERVICE == 'redis':
            try:
                self.redis = Redis()
                self.url, self.where = self.redis.url, str(self.redis.port)
            except tap.Skip as why:
                self.skip = why
        if SERVICE == 'memcached':
            try:
                self.memcached = Memcached()
                self.url = self.memcached.url
            except tap.Skip as why:
                self.skip = why
        if SERVICE == 'etcd':
            try:
                self.etcd = etcd_server.Cluster()
                self.url = self.etcd.url
            except tap.Skip as why:
                self.skip = why
        if SERVICE == 'postgres':
            try:
                self.postgres = Postgres(bare=BARE)
                self.url = self.postgres.url
            except tap.Skip as why:
                self.skip = why
        if SERVICE == 'zookeeper':
            self.start_zookeeper()

    def start_zookeeper(self):
        try:
            self.zookeeper = zookeeper_server.single()
            self.where = f'127.0.0.1:{self.zookeeper.port}'
            self.url = f'zookeeper://{self.where}'
        except tap.Skip as why:
            self.skip = why

    def server(self):
        """The process that serves, where one does."""
        one = self.redis or self.memcached or self.zookeeper or self.etcd.members[0]
        return one.process

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
        process = subprocess.Popen([EXECUTABLE, *listing(*arguments)], **options)
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
        if self.memcached:
            self.memcached.stop()
        if self.zookeeper:
            self.zookeeper.stop()
        if self.etcd:
            self.etcd.stop()
        if self.postgres:
            self.postgres.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def renew(self):
        """All that was begun is ended, and nothing of it is left."""
        self.close()
        self.__init__()


def main(tests):
    """Runs the functions of a module whose names end the sentence "it …"."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)  # who runs us may ignore them, as nohup does
    world = World()

    def bound(test):
        def run():
            if world.skip:
                raise world.skip
            test(world)
        return run

    here = [test for test in tests if SERVICE in getattr(test, 'only_on', [SERVICE])]
    for test in tests:
        if test not in here:
            print(f'# {test.__name__}: only on {", ".join(test.only_on)}', flush=True)
    try:
        sys.exit(tap.main([(test.__name__, bound(test)) for test in here], world.renew))
    finally:
        world.close()

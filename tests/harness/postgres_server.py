"""A PostgreSQL of our own for the tests written in Python. The twin of postgres_server.h, which
says more."""
import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import tap
from waiting import wait_until
from zookeeper_server import free_ports

START_S = 60
SCHEMA = Path(__file__).resolve().parents[2] / 'libdlock' / 'backends' / 'postgres' / 'schema.sql'


def program(name):
    """Where distributions put it, or PATH."""
    return max(glob.glob(f'/usr/lib/postgresql/*/bin/{name}'), default=name)


class Postgres:
    """With libdlock's schema in the database `postgres`, for the user `postgres`; `bare`: without.
    `of`: a standby of that server, by streaming."""

    def __init__(self, bare=False, of=None):
        if shutil.which(program('postgres')) is None:
            raise tap.Skip('PostgreSQL is not installed')
        self.port = free_ports(1)[0]
        self.directory = tempfile.mkdtemp(prefix='dlock-postgres-')
        self.user = {}
        if os.geteuid() == 0:  # as root it refuses to run
            somebody = pwd.getpwnam('postgres')
            os.chown(self.directory, somebody.pw_uid, somebody.pw_gid)
            self.user = {'user': somebody.pw_uid, 'group': somebody.pw_gid, 'extra_groups': []}
        self.data = os.path.join(self.directory, 'data')
        self.quiet = {'stdin': subprocess.DEVNULL, 'stdout': subprocess.DEVNULL,
                 'stderr': subprocess.DEVNULL, 'cwd': self.directory, **self.user}
        if of:
            subprocess.run([program('pg_basebackup'), '-D', self.data, '-R', '-X', 'stream', '-c',
                            'fast', '--no-sync', '-d',
                            f'host=127.0.0.1 port={of.port} user=postgres'],
                           check=True, **self.quiet)
        else:
            subprocess.run([program('initdb'), '-D', self.data, '-A', 'trust', '-U', 'postgres',
                            '--no-sync', '--locale=C', '-E', 'UTF8'], check=True, **self.quiet)
        self.start()
        if not bare and not of:
            self.psql('-f', SCHEMA).check_returncode()

    def start(self):
        self.process = subprocess.Popen(
            [program('postgres'), '-D', self.data, '-p', str(self.port), '-c',
             'listen_addresses=127.0.0.1', '-c', f'unix_socket_directories={self.directory}',
             '-c', 'fsync=off', '-c', 'shared_buffers=16MB'], **self.quiet)
        wait_until('PostgreSQL serves', lambda: self.process.poll() is not None or
                   self.psql('-c', 'SELECT 1').returncode == 0, START_S)

    def kill(self):
        """Ends it and all of its processes as a kernel that has no memory does, or a power cut."""
        with open(f'/proc/{self.process.pid}/task/{self.process.pid}/children',
                  encoding='ascii') as file:
            pids = [self.process.pid, *map(int, file.read().split())]
        os.kill(pids[0], signal.SIGSTOP)  # it makes no more
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self.process.wait()
        wait_until('they are gone', lambda: not any(os.path.exists(f'/proc/{pid}')
                                                    for pid in pids))

    def set(self, setting, value):
        self.ask(f"ALTER SYSTEM SET {setting} = '{value}'")
        self.ask('SELECT pg_reload_conf()')
        wait_until(setting, lambda: self.ask(f'SHOW {setting}') == value)

    def promote(self):
        tap.equal('promoted', self.ask('SELECT pg_promote()'), 't')

    def ask(self, statement, database='postgres'):
        """What it answers, in psql's plainest words."""
        done = self.psql('-d', database, '-A', '-t', '-c', statement)
        tap.equal(f'{statement}: {done.stderr}', done.returncode, 0)
        return done.stdout.strip()

    def psql(self, *what):
        return subprocess.run(
            [program('psql'), '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-h', '127.0.0.1', '-p',
             str(self.port), '-U', 'postgres', *what], check=False, text=True,
            stdin=subprocess.DEVNULL, capture_output=True)

    @property
    def url(self):
        return self.url_of('postgres', 'postgres')

    def url_of(self, user, database):
        return f'postgres://{user}@127.0.0.1:{self.port}/{database}'

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(3)  # SIGQUIT: at once, with all of its processes
            self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

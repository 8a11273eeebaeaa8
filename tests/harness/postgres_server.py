"""A PostgreSQL of our own for the tests written in Python. The twin of postgres_server.h, which
says more."""
import glob
import os
import pwd
import shutil
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
    """With libdlock's schema in the database `postgres`, for the user `postgres`; `bare`: without."""

    def __init__(self, bare=False):
        if shutil.which(program('postgres')) is None:
            raise tap.Skip('PostgreSQL is not installed')
        self.port = free_ports(1)[0]
        self.directory = tempfile.mkdtemp(prefix='dlock-postgres-')
        self.user = {}
        if os.geteuid() == 0:  # as root it refuses to run
            somebody = pwd.getpwnam('postgres')
            os.chown(self.directory, somebody.pw_uid, somebody.pw_gid)
            self.user = {'user': somebody.pw_uid, 'group': somebody.pw_gid, 'extra_groups': []}
        data = os.path.join(self.directory, 'data')
        quiet = {'stdin': subprocess.DEVNULL, 'stdout': subprocess.DEVNULL,
                 'stderr': subprocess.DEVNULL, 'cwd': self.directory, **self.user}
        subprocess.run([program('initdb'), '-D', data, '-A', 'trust', '-U', 'postgres',
                        '--no-sync', '--locale=C', '-E', 'UTF8'], check=True, **quiet)
        self.process = subprocess.Popen(
            [program('postgres'), '-D', data, '-p', str(self.port), '-c',
             'listen_addresses=127.0.0.1', '-c', f'unix_socket_directories={self.directory}',
             '-c', 'fsync=off', '-c', 'shared_buffers=16MB'], **quiet)
        wait_until('PostgreSQL serves', lambda: self.process.poll() is not None or
                   self.psql('-c', 'SELECT 1').returncode == 0, START_S)
        if not bare:
            self.psql('-f', SCHEMA).check_returncode()

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
        self.process.send_signal(3)  # SIGQUIT: at once, with all of its processes
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

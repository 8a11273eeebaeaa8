"""The PostgreSQL of a run, that of the tests, and what it counts."""
import os
import pathlib
import sys

from peers import Absent
from server import Page

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / 'tests/harness'))

import postgres_server  # noqa: E402
import tap  # noqa: E402

STATEMENTS = 'pg_stat_statements'


class Postgres:
    """A server of our own with libdlock's schema: loopback, an unused port, nothing flushed to the
    disk. `counts`: its statements are counted, which takes time."""

    def __init__(self, folder, cores, name='page', counts=False):
        self.page = Page(folder, name)
        whole = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cores)  # it is inherited
        try:
            self.server = postgres_server.Postgres()
            if counts:
                self.server.ask(f"ALTER SYSTEM SET shared_preload_libraries = '{STATEMENTS}'")
                self.server.kill()
                self.server.start()
                self.server.ask(f'CREATE EXTENSION {STATEMENTS}')
        except tap.Skip as why:
            raise Absent(str(why)) from why
        finally:
            os.sched_setaffinity(0, whole)

    @property
    def version(self):
        return self.server.ask('SHOW server_version').split()[0]

    def calls(self):
        """How often each function of ours was called, in a statement of its own."""
        rows = self.server.ask('SELECT sum(calls), substring(query FROM \'dlock\\.([a-z]+)\') '
                               f'FROM {STATEMENTS} WHERE toplevel GROUP BY 2').splitlines()
        return {name: int(calls) for calls, name in (row.split('|') for row in rows) if name}

    def counters(self):
        entries, overlaps = self.page.sums()
        return {'calls': {}, 'entries': entries, 'overlaps': overlaps, 'cpu_us': self.cpu_us()}

    def cpu_us(self):
        """What all of its processes have used, those that have ended, too."""
        pid = self.server.process.pid
        children = pathlib.Path(f'/proc/{pid}/task/{pid}/children').read_text().split()
        fields = pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
        us = sum(map(int, fields[11:15])) * 1e6 / os.sysconf('SC_CLK_TCK')
        for child in children:
            with_it = pathlib.Path(f'/proc/{child}/schedstat')
            us += int(with_it.read_text().split()[0]) / 1000 if with_it.exists() else 0
        return us

    def clear(self):
        """What somebody who died has left."""
        self.server.ask('TRUNCATE dlock.holders, dlock.line')
        self.page.vacate()

    def uri(self, query=''):
        return f'{self.server.url}{query}'

    def conninfo(self):
        return f'host=127.0.0.1 port={self.server.port} user=postgres dbname=postgres'

    def end(self):
        self.server.stop()

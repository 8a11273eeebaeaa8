"""A peer of libdlock's on PostgreSQL's advisory locks: takes them with psycopg, django-pglocks,
django-pglock and django-pgware, as told line by line. What the lines are stands in ../../peers.py.

    peer.py postgres://postgres@HOST:PORT/DATABASE TTL_MS

Each slot is a thread with a connection of its own; a lock has no lease.
"""
import contextlib
import os
import queue
import random
import sys
import threading
import time
from urllib.parse import urlsplit

import django
import psycopg
from django.conf import settings

URL = urlsplit(sys.argv[1])
WHERE = {'host': URL.hostname, 'port': URL.port, 'user': URL.username,
         'dbname': URL.path[1:]} if URL.hostname else {}
settings.configure(INSTALLED_APPS=['pglock', 'pgactivity'], DATABASES={'default': {
    'ENGINE': 'django.db.backends.postgresql', 'HOST': URL.hostname, 'PORT': URL.port,
    'USER': URL.username, 'NAME': URL.path[1:]}})
django.setup()

# behind what django has to know first
import django_pg_utils.locks
import django_pglocks
import pglock

LIBRARIES = {
    'django-pglocks': lambda name, wait: django_pglocks.advisory_lock(name, wait=wait),
    'django-pglock': lambda name, wait: pglock.advisory(name, **({} if wait else {'timeout': 0})),
    'django-pgware': lambda name, wait: django_pg_utils.locks.advisory_lock(name, wait=wait),
}
# What a program says by itself.
KEYS = {'hashtext': 'hashtext(%s)', 'hashtextextended': 'hashtextextended(%s, 0)',
        'number': '%s::bigint'}


@contextlib.contextmanager
def plain(db, kind, name, wait):
    """As who has no library: "number-read" is shared."""
    word, _, side = kind.partition('-')
    key, names = KEYS[word], (name,)
    if word == 'number' and ',' in name:
        key, names = '%s::int, %s::int', name.split(',')
    shared = '_shared' if side == 'read' else ''
    with db.cursor() as cursor:
        cursor.execute(f'SELECT pg_{"" if wait else "try_"}advisory_lock{shared}({key})', names)
        got = cursor.fetchone()[0] is not False
        yield got
        if got:
            cursor.execute(f'SELECT pg_advisory_unlock{shared}({key})', names)
            if not cursor.fetchone()[0]:
                raise RuntimeError('it was not ours')


class Slot:
    """One owner of locks; does what it is told in that order."""

    def __init__(self, name):
        self.name = name
        self.db = psycopg.connect(**WHERE, autocommit=True)
        self.holds = []
        self.lines = queue.SimpleQueue()
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            words = self.lines.get().split(' ')
            try:
                answer = getattr(self, words[0])(*words[1:])
            except Exception as why:  # whatever it is, whoever told us wants to hear of it
                answer = f'error {type(why).__name__}: {why}'.replace('\n', ' ')
            print(f'{self.name} {answer}\n', end='', flush=True)

    def lock(self, kind, name, wait):
        return (LIBRARIES[kind](name, wait) if kind in LIBRARIES
                else plain(self.db, kind, name, wait))

    def take(self, kind, name, _ttl, wait):
        hold = contextlib.ExitStack()
        if not hold.enter_context(self.lock(kind, name, wait != '0')):
            return 'no'
        self.holds.append(hold)
        return 'ok 0 -'

    def release(self):
        self.holds.pop().close()
        return 'ok'

    def contend(self, kinds, name, _ttl, path, length):
        """Takes the kinds in turn until the time is over, and at least once; notes each entry."""
        kinds, rounds = kinds.split(','), 0
        end = time.monotonic() + int(length) / 1000
        log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        while rounds == 0 or time.monotonic() < end:
            kind = kinds[rounds % len(kinds)]
            self.note(log, '?', kind)
            with self.lock(kind, name, True):
                self.note(log, '+', kind)
                time.sleep(random.randrange(3) / 1000)
                self.note(log, '-', kind)
            time.sleep(random.randrange(10) / 1000)
            rounds += 1
        os.close(log)
        return f'ok {rounds}'

    def note(self, log, what, kind):
        """One write to a file opened for appending: the lines of all have one order."""
        os.write(log, f'{what} {self.name} {kind} 0 {time.time() * 1000:.0f}\n'.encode())


def main():
    slots = {}
    print('ready ok', flush=True)
    for line in sys.stdin:
        name, _, rest = line.strip().partition(' ')
        if name not in slots:
            slots[name] = Slot(name)
        slots[name].lines.put(rest)
    os._exit(0)  # as who dies: nothing is released


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
"""What `inspect` shows of each holder and each waiter, of each kind of lock on each backend: by
looking, on real servers, through the Python package. The result is the page docs/reference/seen.md.

    seen.py             a run whose result isn't the page fails
    seen.py --write     writes the page

A field counts as shown only if it is right: the name and the data that were set, this host and
process, a date within the minute. What isn't shown has a reason (reason_of), else the run fails.
"""
import contextlib
import itertools
import os
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

import dlock
import tap
from backends import uris
from matrix import played_on
from services import services
from waiting import wait_until

PAGE = Path(__file__).resolve().parent.parent.parent / 'docs' / 'reference' / 'seen.md'
FIELDS = ('client', 'host', 'pid', 'since', 'data')
WAIT_S = 30


def lock_of(client, kind, name, **settings):
    if kind in ('read', 'write'):
        return getattr(client.rwlock(name, **settings), kind)
    if kind == 'semaphore':
        return client.semaphore(name, 1, **settings)
    if kind == 'plain semaphore':
        return client.semaphore(name, 1, redis_semaphore='plain', **settings)
    if kind == 'election':
        return client.election(name, **settings)
    return client.lock(name, **({'fair': True} if kind == 'in order' else {}), **settings)


# Who holds, and who is kept out by that.
PARTIES = {kind: (kind, kind) for kind in ('mutex', 'in order', 'semaphore', 'plain semaphore',
                                           'election')}
PARTIES |= {'read': ('read', 'write'), 'write': ('write', 'read')}
KINDS = (*PARTIES, 'condition')

# ---- why something isn't shown ----

# Clients of ours tell it; what they say isn't the service's word, and inspect has that alone.
TOLD = '`told` of `dlock ls --json` has who and since when, on a Redis without a Cluster'
LINE = ('nobody has a place in a line at the service: who waits only its own client knows; '
        f'{TOLD}')
PLAIN = ('Redisson\'s RSemaphore is a number: whose the permits are stands nowhere that can be '
         f'listed; {TOLD}')
SHARED_LINE = ('the line is a list of owners, which Redisson and other clients of ours share: '
               f'there is no room for more; {TOLD}')
MUTEX = ('the layout is another library\'s, with the owner and no more; a Redlock\'s date is its '
         'token, which it has with `redlock.fencing`')
TABLE = ('a row has one text, its holder\'s, and a place none: '
         '[0027](../design/0027-kinds-in-the-table.md)')
CANDIDATE = ('at the service a candidate has what he publishes and no more: the data may say who '
             'he is')
CONDITION_DATA = 'a condition has no `lock.data`'
POSTGRES = 'a row of the line has no column for it'


def family(backend):
    return backend.strip('`').partition(':')[0].partition('+')[0]


def reason_of(backend, kind, who, field):
    """Why this isn't shown; None: nobody knows."""
    service = family(backend)
    if who == 'waiting' and field == 'seen':
        return LINE
    if kind == 'condition' and field == 'data':
        return CONDITION_DATA
    if kind == 'plain semaphore':
        return PLAIN
    if service in ('mem', 'file') and field == 'data':
        return TABLE
    if kind == 'election' and service in ('zookeeper', 'etcd'):
        return CANDIDATE
    if service == 'postgres' and who == 'waiting' and field == 'data':
        return POSTGRES
    if service in ('redis', 'redlock'):
        if who == 'waiting':
            return SHARED_LINE
        return MUTEX if field in ('data', 'since') else None
    return None


# ---- looking ----

def right(field, value, name):
    if field == 'since':
        return abs(int(value) / 1000 - time.time()) < 60
    wanted = {'client': name, 'host': socket.gethostname(), 'pid': os.getpid(),
              'data': f'of {name}'}[field]
    return str(value) == str(wanted)


def shown(told, name):
    """The fields that are there and right; wrong ones fail."""
    for field in FIELDS:
        if field in told and not right(field, told[field], name):
            raise AssertionError(f'{field} of {name}: {told[field]!r}')
    return [field for field in FIELDS if field in told]


class Waiter:
    """Somebody who waits in a thread, until it is his turn or his client is closed."""

    def __init__(self, call):
        self.thread = threading.Thread(target=self.wait, args=(call,))
        self.thread.start()

    @staticmethod
    def wait(call):
        with contextlib.suppress(dlock.ClosedError, dlock.CanceledError):
            call()

    def end(self):
        self.thread.join(WAIT_S)
        tap.equal('who waits has come to an end', self.thread.is_alive(), False)


def look(looker, has):
    """What is told once somebody is seen to wait; where nobody ever is, at once."""
    if has:
        wait_until('a waiter is seen', lambda: looker.inspect().get('waiting'))
    info = looker.inspect()
    waiting = info.get('waiting') or []
    holders = info.get('holders') or []
    return {'holder': shown(holders[0], 'holder') if holders else None,
            'waiting': shown(waiting[0], 'waiter') if waiting else None}


def tells_line(backend, kind):
    service = family(backend)
    if service in ('memcached', 'memlock', 'redlock') or kind in ('plain semaphore', 'semaphore'):
        return service in ('mem', 'file', 'zookeeper', 'etcd', 'postgres')
    if service == 'redis':
        return 'layout' not in backend and kind in ('mutex', 'in order', 'condition')
    return True


def inspect_lock(clients, backend, kind, name):
    holds, waits = PARTIES[kind]
    lock = lock_of(clients['holder'], holds, name, data='of holder')
    hold = lock.hold(timeout=WAIT_S)
    theirs = lock_of(clients['waiter'], waits, name, data='of waiter')
    waiter = Waiter(lambda: theirs.hold(timeout=WAIT_S).release())
    try:
        return look(lock_of(clients['looker'], holds, name), tells_line(backend, kind))
    finally:
        hold.release()
        waiter.end()


def inspect_condition(clients, backend, kind, name):
    lock = clients['waiter'].lock(f'{name}-lock')
    condition = clients['waiter'].condition(lock, name)

    def wait():
        with condition:
            condition.wait(WAIT_S)
    waiter = Waiter(wait)
    try:
        return look(clients['looker'].lock(name), tells_line(backend, kind))
    finally:
        other = clients['holder'].condition(clients['holder'].lock(f'{name}-other'), name)
        with other:
            wait_until('signalled', other.notify)
        waiter.end()


def row_of(uri, backend, kind, name):
    """None: the kind isn't there."""
    with contextlib.ExitStack() as stack:
        clients = {who: stack.enter_context(contextlib.closing(dlock.Client(uri, client_name=who)))
                   for who in ('holder', 'waiter', 'looker')}
        try:
            look_at = inspect_condition if kind == 'condition' else inspect_lock
            return look_at(clients, backend, kind, name)
        except dlock.NotSupportedError:
            return None


def play(places):
    found, numbers = {}, itertools.count()
    for (backend, uri), kind in itertools.product(places.items(), KINDS):
        if kind == 'plain semaphore' and family(backend) != 'redis':
            continue
        try:
            seen = row_of(played_on(uri, 'read/write') if kind in ('read', 'write') else uri,
                          backend, kind, f'seen-{next(numbers)}')
        except AssertionError as wrong:
            raise AssertionError(f'{backend}, {kind}: {wrong}') from wrong
        if seen:
            found[backend, kind] = seen
    return found


# ---- the page ----

HEAD = """# What `inspect` shows of holders and waiters

Written by `tests/matrix/seen.py --write` from a run on real servers, and compared with one by
`make test`. **yes** means: it was there, and right. Where something is missing the note says why.
What the fields are is in [who holds a lock, and who waits](inspect.md); kinds that a backend hasn't
have no row, and [the matrix](matrix.md) says why.

"""


class Notes:
    def __init__(self):
        self.numbers = {}

    def mark(self, why):
        return f'– [{self.numbers.setdefault(why, len(self.numbers) + 1)}](#notes)'


def cells(backend, kind, seen, notes):
    for who in ('holder', 'waiting'):
        there = seen[who]
        if who == 'holder' and kind == 'condition':
            yield from ['nobody holds it'] + [''] * (len(FIELDS) - 1)
            continue
        if who == 'waiting':
            yield 'yes' if there is not None else missing(backend, kind, who, 'seen', notes)
        for field in FIELDS:
            if there is None and who == 'waiting':
                yield ''
            elif there is not None and field in there:
                yield 'yes'
            else:
                yield missing(backend, kind, who, field, notes)


def missing(backend, kind, who, field, notes):
    why = reason_of(backend, kind, who, field)
    if why is None:
        raise AssertionError(f'{backend}, {kind}: {field} ({who}) isn\'t shown, and nobody says '
                             'why')
    return notes.mark(why)


def page_of(found):
    notes, rows = Notes(), {}
    for (backend, kind), seen in found.items():
        rows.setdefault((backend, tuple(cells(backend, kind, seen, notes))), []).append(kind)
    head = ['', 'kinds', *(f'holder: {field}' for field in FIELDS), 'waiters',
            *(f'waiter: {field}' for field in FIELDS)]
    lines = ['| ' + ' | '.join(head) + ' |', '|---' * len(head) + '|']
    for (backend, what), kinds in rows.items():
        lines.append('| ' + ' | '.join([backend, ', '.join(kinds), *what]) + ' |')
    lines += ['', '## Notes', '']
    lines += [f'{number}. {why}' for why, number in notes.numbers.items()]
    return HEAD + '\n'.join(lines) + '\n'


def page_is_what_a_run_shows():
    with tempfile.TemporaryDirectory(prefix='dlock-seen-') as folder, \
            contextlib.ExitStack() as stack:
        found = play(uris(folder, **services(folder, stack)))
    page = page_of(found)
    if sys.argv[1:] == ['--write']:
        PAGE.write_text(page, encoding='utf-8')
    tap.equal(f'{PAGE.name}: see seen.py --write', PAGE.read_text(encoding='utf-8'), page)


if __name__ == '__main__':
    sys.exit(tap.main([('page_is_what_a_run_shows', page_is_what_a_run_shows)]))

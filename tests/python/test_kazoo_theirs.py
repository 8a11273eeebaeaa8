"""kazoo's own tests of its locks, run with dlock.compat.kazoo, not edited.

They come with kazoo's wheel on PyPI. Their base class, which starts a ZooKeeper and connects to it,
is one of ours: its clients make our locks where kazoo's make kazoo's.
"""
import atexit
import itertools
import os
import re
import sys
import threading
import time
import types
import unittest
from pathlib import Path

import fetched
from theirs import Suite, Theirs, page_last, page_of
from world import LIMIT_S, shared_redis, wait_until

FOLDER = Path(os.environ['DLK_FOLDER'])
VERSION, _ = fetched.RELEASES['kazoo']
sys.path.insert(0, str(fetched.found(FOLDER, 'kazoo')))   # before dlock looks for kazoo

import dlock  # noqa: E402
import kazoo.client  # noqa: E402
import kazoo.recipe.lock  # noqa: E402
import zookeeper_server  # noqa: E402
from dlock.compat import kazoo as compat  # noqa: E402

SESSION_S = 15
_servers = []


def server():
    if not _servers:
        _servers.append(zookeeper_server.single())
        atexit.register(_servers[0].stop)
    return _servers[0]


class Client:
    """What their tests do with a KazooClient, for our locks."""

    handler = types.SimpleNamespace(sleep_func=time.sleep)

    def __init__(self, case):
        self.case, self.opened, self.sessions = case, [], set()
        self.numbers = itertools.count(1)

    def start(self):
        pass

    def stop(self):
        for client in self.opened:
            client.close()
        self.opened.clear()

    def connect(self):
        """A client of ours: for each lock, where it is clients that stand in line."""
        if self.case.shared and self.opened:
            return self.opened[0]
        before = self.case.sessions()
        self.opened.append(dlock.Client(self.case.url, log_level='off', **self.case.settings))
        self.sessions |= self.case.sessions() - before
        return self.opened[-1]

    def make(self, kind, path, identifier=None, **more):
        made = self.case.shape(kind)(self.connect(), path, identifier, **more)
        made.wake_event = threading.Event()   # of kazoo's making: is set when a session ends
        self.case.made.append(made)
        return made

    def Lock(self, *args):
        return self.make('Lock', *args)

    def ReadLock(self, *args):
        return self.make('ReadLock', *args)

    def WriteLock(self, *args):
        return self.make('WriteLock', *args)

    def Semaphore(self, *args, **more):
        return self.make('Semaphore', *args, **more)


class KazooTestCase(unittest.TestCase):
    """In the place of kazoo.testing's."""

    shared = True
    settings = {}

    def setUp(self):
        self.clients, self.made, self.events = [], [], []
        self.client = self._get_client()

    def tearDown(self):
        for event in self.events:
            event.set()   # a test that failed has threads that wait for it yet
        for client in self.clients:
            client.stop()

    def _get_client(self):
        self.clients.append(Client(self))
        return self.clients[-1]

    def shape(self, kind):
        return getattr(compat, kind)

    def sessions(self):
        return set()


class Events(Theirs):
    """Their tests wait until a thread of theirs says, still under the lock, that it has it no
    more. If the next one has it before they look, which kazoo is too slow for, they would wait for
    ever: so here they see the one change before the other."""

    name, ended = None, False

    @property
    def active_thread(self):
        if threading.current_thread() is not threading.main_thread() or not self.ended:
            return self.name
        self.ended = False
        return None

    @active_thread.setter
    def active_thread(self, name):
        by_tester = threading.current_thread() is threading.main_thread()
        self.name, self.ended = name, not by_tester and (self.ended or not name)

    def make_event(self):
        self.events.append(threading.Event())
        return self.events[-1]


class OnZooKeeper(Events):
    settings = {'ttl': SESSION_S}

    @property
    def url(self):
        return f'zookeeper://127.0.0.1:{server().port}'

    def sessions(self):
        return {int(number, 16) for number in re.findall(r'sid=0x(\w+)', server().say('cons'))}

    @staticmethod
    def expire(session):
        """Until it is gone: its owner may take it back before it is ended."""
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            try:
                zookeeper_server.expire(server().port, session)
            except ConnectionError:
                continue
            except AssertionError:
                return   # there is none of that number any more
        raise AssertionError(f'the session {session:#x} doesn\'t end')

    def expire_session(self, _make_event):
        held = [lock for lock in self.made if lock.is_acquired and
                lock.client in self.client.opened]
        for session in self.client.sessions:
            self.expire(session)
        wait_until('what was held is lost', lambda: not any(lock.is_acquired for lock in held))
        for lock in self.made:
            lock.wake_event.set()


sys.modules['kazoo.testing'] = types.SimpleNamespace(KazooTestCase=KazooTestCase)
from kazoo.tests import test_lock as theirs_tests  # noqa: E402

SUITE = Suite(
    'kazoo: kazoo/tests/test_lock.py', VERSION,
    'From kazoo\'s wheel in the Python index. Their base class, which starts a ZooKeeper and '
    'connects to it, is one of ours:\n`client.Lock()` makes a `dlock.compat.kazoo.Lock`, and so '
    'on. `Lock`, `ReadLock` and `WriteLock` are run with\n`zookeeper.layout=kazoo`, where those '
    'who stand in line are read from their nodes by kazoo\'s own `contenders()` (of what\nour '
    'nodes say, the `lock.data`), and with a client for each lock as well as with one for all; '
    '`Semaphore` with\n`zookeeper.layout=curator`, because `kazoo` has no semaphores. On a Redis '
    'nobody has an identifier.',
    whole={'TestSequence': 'looks into kazoo\'s own reading of the names of nodes; ours has '
                           'tests of its own, `tests/backends/zookeeper/test_rules.c`'})
LINE = ('wants to see in the line on the server those who wait in one client; there a client has '
        'one place for each lock. It is run with a client for each')
NAMES = ('wants the identifiers of those who hold and wait, which a Redis doesn\'t keep')
SESSION = 'ends ZooKeeper\'s session, and there is none; it is run on ZooKeeper'
NODE_DATA = ('writes into the node in which kazoo keeps the number of leases; ours keeps it in '
             'no node')
EPHEMERAL = {
    'test_lock_ephemeral': 'wants a lock that outlives its holder\'s session (`ephemeral=False`), '
                           'which ours refuses'}


class OnKazoosNodes(OnZooKeeper):
    """Who stands in line is asked by kazoo's own client: ours knows the names of the holders."""

    settings = {'ttl': SESSION_S, 'zookeeper_layout': 'kazoo'}

    def setUp(self):
        super().setUp()
        self.looking = kazoo.client.KazooClient(f'127.0.0.1:{server().port}')
        self.looking.start(LIMIT_S)
        self.addCleanup(self.looking.close)
        self.addCleanup(self.looking.stop)

    def in_line(self, path):
        """The identifiers of those who hold or wait, which we know of ourselves: for each client,
        as it has one place."""
        known = {}
        for lock in self.made:
            if lock.path == path and (lock.is_acquired or lock._op is not None):
                known.setdefault(lock.client, set()).add(lock.data.decode())
        return list(known.values())

    def shape(self, kind):
        case, recipe = self, getattr(kazoo.recipe.lock, kind)

        class Shape(getattr(compat, kind)):
            def contenders(self):
                """Another session than ours may see later who came and who went. If it never does,
                the test says what is wrong."""
                end = time.monotonic() + LIMIT_S
                while True:
                    known = case.in_line(self.path)
                    seen = [text.split('\n', 2)[-1]
                            for text in recipe(case.looking, self.path).contenders()]
                    if (len(seen) == len(known) and {*seen} <= set().union(*known)) or \
                            time.monotonic() > end:
                        return seen
                    time.sleep(0.005)
        return Shape


class Locks(OnKazoosNodes, theirs_tests.KazooLockTests):
    theirs, ours = 'KazooLockTests', 'ZooKeeper, a client for each lock'
    shared, left_out = False, EPHEMERAL


class LocksOfOneClient(OnKazoosNodes, theirs_tests.KazooLockTests):
    theirs, ours = 'KazooLockTests', 'ZooKeeper, one client'
    left_out = EPHEMERAL | dict.fromkeys(['test_lock', 'test_lock_reconnect', 'test_rw_lock'], LINE)


class LocksOnRedis(Events, theirs_tests.KazooLockTests):
    theirs, ours = 'KazooLockTests', 'Redis, one client'
    url = property(lambda self: shared_redis().url)
    left_out = EPHEMERAL | {'test_lock_reconnect': SESSION} | dict.fromkeys(
        ['test_lock', 'test_lock_cancel', 'test_lock_fail_first_call', 'test_lock_non_blocking',
         'test_lock_one', 'test_rw_lock'], NAMES)


class Semaphores(OnZooKeeper, theirs_tests.TestSemaphore):
    theirs, ours = 'TestSemaphore', 'ZooKeeper, a client for each semaphore'
    shared = False
    left_out = {
        'test_inconsistent_max_leases':
            'wants another number of leases to be refused, which the service would have to keep: '
            'Curator\'s layout doesn\'t. It is run with one client, which knows',
        'test_inconsistent_max_leases_other_data': NODE_DATA,
    }


class SemaphoresOfOneClient(OnZooKeeper, theirs_tests.TestSemaphore):
    theirs, ours = 'TestSemaphore', 'ZooKeeper, one client'
    left_out = {'test_inconsistent_max_leases_other_data': NODE_DATA}


class SemaphoresOnRedis(Events, theirs_tests.TestSemaphore):
    theirs, ours = 'TestSemaphore', 'Redis, one client'
    url = property(lambda self: shared_redis().url)
    left_out = {
        'test_inconsistent_max_leases_other_data': NODE_DATA,
        'test_handle_session_loss': SESSION,
    } | dict.fromkeys(['test_holders', 'test_non_blocking', 'test_semaphore_cancel'], NAMES)


SUITE.add(Locks, LocksOfOneClient, LocksOnRedis, Semaphores, SemaphoresOfOneClient,
          SemaphoresOnRedis)


Page = page_of(SUITE, theirs_tests)
load_tests = page_last


if __name__ == '__main__':
    unittest.main()

"""The standard library's own tests of locks, on ours: adapted by subclassing, not edited.

They come with Debian's libpython3.11-testsuite, and with every Python built from source.
"""
import platform
import threading
import types
import unittest

import dlock
from test import lock_tests
from theirs import Suite, Theirs, page_last, page_of
from world import new_file, new_name, shared_redis

SUITE = Suite(
    'CPython: test.lock_tests', platform.python_version(),
    'From Debian\'s package `libpython3.11-testsuite`. The adapter says what `locktype()`, '
    '`condtype()` and `semtype()` make:\na lock of ours with a name of its own, or '
    '`threading.Condition` over one, or a `Condition` of ours.',
    whole={
        'EventTests': 'an event is no lock, and there is none of ours',
        'BarrierTests': 'a barrier is no lock, and there is none of ours',
    })
FORKED = ('ours answers `ForkedError` in a fork\'s child, instead of forgetting who holds it; '
          '`tests/python/test_life.py` has that')
COUNTED = 'wants the number of free permits in the text; ours would have to ask the server for it'
BOUNDED = ('releases what nobody has acquired, and ours is bounded: it is `OverReleaseError`, as '
           'the `BoundedSemaphoreTests` want it')


class OnMemory(Theirs):
    """A client for each test, a name for each lock."""

    url = staticmethod(lambda: 'mem:')

    def setUp(self):
        self.client = dlock.Client(self.url(), log_level='off')
        self.addCleanup(self.client.close)
        super().setUp()


class OnRedis(OnMemory):
    # They wait for 5 and 10 ms. Where the server hasn't answered by then the outcome is unknown, as
    # promised, and not "held".
    of_short_waits = dlock.UnknownOutcomeError
    url = staticmethod(lambda: shared_redis().url)


class OnFile(OnMemory):
    url = staticmethod(new_file)


class LockShape:
    theirs = 'LockTests'
    left_out = {'test_at_fork_reinit': FORKED}

    def locktype(self):
        return self.client.lock(new_name())


class WriteShape(LockShape):
    def locktype(self):
        return self.client.rwlock(new_name()).write


class SeveralShape(LockShape):
    def locktype(self):
        return self.client.multi([self.client.lock(new_name()) for _ in range(3)])


class PermitShape(LockShape):
    def locktype(self):
        return self.client.semaphore(new_name(), 1)


class RLockShape:
    theirs = 'RLockTests'

    def locktype(self):
        return self.client.rlock(new_name())


class ConditionShape:
    theirs = 'ConditionTests'

    def setUp(self):
        super().setUp()
        # Where their tests make a lock to pass in, ours is made.
        ours = types.SimpleNamespace(**vars(threading))
        ours.Lock = lambda: self.client.lock(new_name())
        lock_tests.threading = ours
        self.addCleanup(setattr, lock_tests, 'threading', threading)

    def condtype(self, lock=None):
        return threading.Condition(lock or self.client.rlock(new_name()))


class PlainConditionShape(ConditionShape):
    left_out = {'test_acquire': 'acquires twice what a `Condition` has by itself, which has to be '
                                'reentrant for that: it is run with an `RLock`'}

    def condtype(self, lock=None):
        return threading.Condition(lock or self.client.lock(new_name()))


class OwnConditionShape(ConditionShape):
    def condtype(self, lock=None):
        return self.client.condition(lock or self.client.rlock(new_name()))


class BoundedShape:
    theirs = 'BoundedSemaphoreTests'
    left_out = {'test_repr': COUNTED}

    def semtype(self, value=1):
        return self.client.semaphore(new_name(), value)


class PlainBoundedShape(BoundedShape):
    def semtype(self, value=1):
        return self.client.semaphore(new_name(), value, redis_semaphore='plain')


class SemaphoreShape(BoundedShape):
    theirs = 'SemaphoreTests'
    left_out = {'test_repr': COUNTED, 'test_release_unacquired': BOUNDED}


class LocksInMemory(OnMemory, LockShape, lock_tests.LockTests):
    ours = '`Lock`, `mem:`'


class LocksOnRedis(OnRedis, LockShape, lock_tests.LockTests):
    ours = '`Lock`, `redis:`'


class WritersInMemory(OnMemory, WriteShape, lock_tests.LockTests):
    ours = '`WriteLock`, `mem:`'


class WritersOnRedis(OnRedis, WriteShape, lock_tests.LockTests):
    ours = '`WriteLock`, `redis:`'


class SeveralInMemory(OnMemory, SeveralShape, lock_tests.LockTests):
    ours = '`MultiLock` of three, `mem:`'


class SeveralOnRedis(OnRedis, SeveralShape, lock_tests.LockTests):
    ours = '`MultiLock` of three, `redis:`'


class PermitsInMemory(OnMemory, PermitShape, lock_tests.LockTests):
    ours = '`Semaphore` of one, `mem:`'


class PermitsOnRedis(OnRedis, PermitShape, lock_tests.LockTests):
    ours = '`Semaphore` of one, `redis:`'


class RLocksInMemory(OnMemory, RLockShape, lock_tests.RLockTests):
    ours = '`RLock`, `mem:`'


class RLocksOnRedis(OnRedis, RLockShape, lock_tests.RLockTests):
    ours = '`RLock`, `redis:`'


class ConditionsInMemory(OnMemory, ConditionShape, lock_tests.ConditionTests):
    ours = '`RLock`, `mem:`'


class ConditionsOnRedis(OnRedis, ConditionShape, lock_tests.ConditionTests):
    ours = '`RLock`, `redis:`'


class PlainConditionsInMemory(OnMemory, PlainConditionShape, lock_tests.ConditionTests):
    ours = '`Lock`, `mem:`'


class PlainConditionsOnRedis(OnRedis, PlainConditionShape, lock_tests.ConditionTests):
    ours = '`Lock`, `redis:`'


class OwnConditionsInMemory(OnMemory, OwnConditionShape, lock_tests.ConditionTests):
    ours = '`Condition` of an `RLock`, `mem:`'


class OwnConditionsInAFile(OnFile, OwnConditionShape, lock_tests.ConditionTests):
    ours = '`Condition` of an `RLock`, `file:`'


class OwnConditionsOnRedis(OnRedis, OwnConditionShape, lock_tests.ConditionTests):
    ours = '`Condition` of an `RLock`, `redis:`'


class BoundedSemaphoresInMemory(OnMemory, BoundedShape, lock_tests.BoundedSemaphoreTests):
    ours = '`Semaphore`, `mem:`'


class BoundedSemaphores(OnRedis, BoundedShape, lock_tests.BoundedSemaphoreTests):
    ours = '`Semaphore`, `redis:`'


class PlainBoundedSemaphores(OnRedis, PlainBoundedShape, lock_tests.BoundedSemaphoreTests):
    ours = '`Semaphore`, `redis:`, `redis.semaphore=plain`'


class SemaphoresInMemory(OnMemory, SemaphoreShape, lock_tests.SemaphoreTests):
    ours = '`Semaphore`, `mem:`'


class Semaphores(OnRedis, SemaphoreShape, lock_tests.SemaphoreTests):
    ours = '`Semaphore`, `redis:`'


SUITE.add(LocksInMemory, LocksOnRedis, WritersInMemory, WritersOnRedis, SeveralInMemory,
          SeveralOnRedis, PermitsInMemory, PermitsOnRedis, RLocksInMemory, RLocksOnRedis,
          ConditionsInMemory, ConditionsOnRedis, PlainConditionsInMemory, PlainConditionsOnRedis,
          OwnConditionsInMemory, OwnConditionsInAFile, OwnConditionsOnRedis,
          BoundedSemaphoresInMemory, BoundedSemaphores, PlainBoundedSemaphores,
          SemaphoresInMemory, Semaphores)


Page = page_of(SUITE, lock_tests)
load_tests = page_last


if __name__ == '__main__':
    unittest.main()

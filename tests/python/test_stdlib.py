"""The standard library's own tests of locks, on ours: adapted by subclassing, not edited.

They come with Debian's libpython3.11-testsuite, and with every Python built from source.
"""
import threading
import unittest

import dlock
from test import lock_tests
from world import new_name, shared_redis


class OnMemory:
    """A client for each test, a name for each lock."""

    url = staticmethod(lambda: 'mem:')

    def setUp(self):
        self.client = dlock.Client(self.url(), log_level='off')
        self.addCleanup(self.client.close)
        super().setUp()


class OnRedis(OnMemory):
    url = staticmethod(lambda: shared_redis().url)


class LockShape:
    # Ours answers ForkedError in a fork's child, test_life.py has that; so there is nothing that
    # could be made anew.
    test_at_fork_reinit = None

    def locktype(self):
        return self.client.lock(new_name())


class RLockShape:
    def locktype(self):
        return self.client.rlock(new_name())


class ConditionShape:
    # They measure waits of 0.1 s, which are Python's own: a busy machine takes longer.
    test_timeout = None
    test_waitfor_timeout = None

    def condtype(self, lock=None):
        return threading.Condition(lock if lock is not None else self.client.rlock(new_name()))


class LocksInMemory(OnMemory, LockShape, lock_tests.LockTests):
    pass


class LocksOnRedis(OnRedis, LockShape, lock_tests.LockTests):
    pass


class RLocksInMemory(OnMemory, RLockShape, lock_tests.RLockTests):
    pass


class RLocksOnRedis(OnRedis, RLockShape, lock_tests.RLockTests):
    pass


class ConditionsInMemory(OnMemory, ConditionShape, lock_tests.ConditionTests):
    pass


del OnMemory, OnRedis, LockShape, RLockShape, ConditionShape

if __name__ == '__main__':
    unittest.main()

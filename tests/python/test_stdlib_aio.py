"""asyncio's own tests of its locks, on ours, not edited: what they know as asyncio has our locks.

They come with Debian's libpython3.11-testsuite. Two things of asyncio's can't be had of a service:
its release() and locked() are no coroutines, and after one turn of the loop whoever was next has
the lock. So the adapter releases without waiting for the answer (release='async'), and sleep(0)
goes on until what the loop knows is what the service knows.
"""
import asyncio
import platform
import time
import unittest

import dlock
import dlock.aio
from test.test_asyncio import test_locks
from theirs import Suite, Theirs, page_last, page_of
from world import LIMIT_S, new_name, shared_redis

SUITE = Suite(
    'CPython: test.test_asyncio.test_locks', platform.python_version(),
    'From Debian\'s package `libpython3.11-testsuite`. `asyncio.Lock()` makes a `dlock.aio.Lock` '
    'there, `asyncio.Condition()`\none of asyncio\'s over such a lock, and so on. A release goes '
    'out without waiting for its answer (`release="async"`),\n`locked()` of a lock is our '
    '`owned()`, and `asyncio.sleep(0)` ends when nobody waits for what the service has free.\n'
    'A `Semaphore`, which may be released more often than it was acquired, is one of ours with '
    'some permits taken from the\nbeginning.',
    whole={
        'EventTests': 'an event is no lock, and there is none of ours',
        'BarrierTests': 'a barrier is no lock, and there is none of ours',
    })
RESERVE = 3
TURNS = 5


class World:
    """What the constructors of asyncio's shape, which take no client, make locks on."""
    client = watch = None
    shapes = []


class Waiter:
    """An acquire that hasn't ended, as asyncio has a future for each."""

    def __init__(self):
        self.task = asyncio.current_task()

    def cancelled(self):
        return self.task.cancelling() > 0

    def done(self):
        return self.task.done()


class Shape:
    """What asyncio's locks have in common."""

    def adopt(self, watch):
        self._waiters, self._watch = [], watch
        World.shapes.append(self)

    async def acquire(self):
        waiter = Waiter()
        self._waiters.append(waiter)
        try:
            return await super().acquire()
        finally:
            self._waiters.remove(waiter)

    def release(self):
        releasing = self._drop().release() if self._held else super().release()
        try:
            releasing.send(None)
        except StopIteration:
            return
        raise AssertionError('with release="async" it has nothing to wait for')

    def held(self):
        return sum(len(holds) for holds in self._held.values())

    def is_settled(self):
        """Whether the service knows of no other holds, and has nothing that somebody waits for."""
        free = self.free()
        return self.total - free == self.held() and not (free and self._waiters)


class Lock(Shape, dlock.aio.Lock):
    total = 1

    def __init__(self):
        name = new_name()
        super().__init__(World.client, name, release='async')
        self.adopt(World.watch.lock(name))

    def free(self):
        return 0 if self._watch.locked() else 1

    def locked(self):
        return self.owned()


class BoundedSemaphore(Shape, dlock.aio.Semaphore):
    taken = 0

    def __init__(self, value=1):
        name = new_name()
        self.total = value + self.taken if value >= 0 else value
        super().__init__(World.client, name, self.total, release='async')
        self.adopt(World.watch.semaphore(name, self.total))

    def free(self):
        holders = self._watch.inspect().get('holders', ())
        return self.total - sum(holder.get('count', 1) for holder in holders)

    @property
    def _value(self):
        """What is free when the releases that are under way have arrived, and those have been
        served who wait."""
        end = time.monotonic() + LIMIT_S
        while True:
            free, waiting = self.free(), len(self._waiters)
            released = self.total - free <= self.held() + waiting
            if released and not (free and waiting) or time.monotonic() > end:
                return free
            time.sleep(0.001)

    def locked(self):
        return self._value == 0


class Semaphore(BoundedSemaphore):
    taken = RESERVE

    def __init__(self, value=1):
        super().__init__(value)
        self._reserve = [self._watch.hold() for _ in range(self.taken)]

    def held(self):
        return super().held() + len(self._reserve)

    def release(self):
        try:
            super().release()
        except dlock.OverReleaseError:
            self._reserve.pop().release()


async def sleep(delay):
    """asyncio.sleep(), where a turn of the loop is as long as it takes."""
    if delay:
        return await asyncio.sleep(delay)
    end, settled = time.monotonic() + LIMIT_S, 0
    while settled < 2:
        for _ in range(TURNS):
            await asyncio.sleep(0)
        if all(shape.is_settled() for shape in World.shapes):
            settled += 1
            continue
        settled = 0
        if time.monotonic() > end:
            raise AssertionError(f'not settled within {LIMIT_S} s: {World.shapes}')
        await asyncio.sleep(0.001)


class Asyncio:
    """What their module knows as asyncio."""
    Lock, Semaphore, BoundedSemaphore = Lock, Semaphore, BoundedSemaphore
    sleep = staticmethod(sleep)

    @staticmethod
    def Condition(lock=None):
        return asyncio.Condition(Lock() if lock is None else lock)

    def __getattr__(self, name):
        return getattr(asyncio, name)


test_locks.asyncio = Asyncio()


class OnMemory(Theirs):
    url = staticmethod(lambda: f'mem:{new_name("aio")}')

    def setUp(self):
        url = self.url()
        World.client = dlock.aio.Client(url, log_level='off')
        World.watch = dlock.Client(url, log_level='off')
        World.shapes = []
        self.addCleanup(World.watch.close)

    async def asyncTearDown(self):
        World.shapes = []
        await World.client.close()


class OnRedis(OnMemory):
    url = staticmethod(lambda: shared_redis().url)


class LockShape:
    theirs = 'LockTests'
    left_out = {
        'test_lock_doesnt_accept_loop_parameter':
            'asks for the arguments of asyncio\'s constructors; ours have a client and a name',
        'test_cancel_release_race':
            'looks whether the next waiter has the lock without letting the loop turn once; ours '
            'has to hear from the service. `tests/python/test_aio.py` has the same race, and waits',
    }


class ConditionShape:
    theirs = 'ConditionTests'
    left_out = {
        'test_ambiguous_loops':
            'puts another loop into a private attribute of asyncio\'s; ours belongs to its '
            'client\'s loop, `tests/python/test_aio.py` has that',
    }


class SemaphoreShape:
    theirs = 'SemaphoreTests'
    left_out = {
        'test_repr':
            'wants the number of free permits in the text; ours would have to ask the server',
    }


class LocksInMemory(OnMemory, LockShape, test_locks.LockTests):
    ours = '`aio.Lock`, `mem:`'


class LocksOnRedis(OnRedis, LockShape, test_locks.LockTests):
    ours = '`aio.Lock`, `redis:`'


class ConditionsInMemory(OnMemory, ConditionShape, test_locks.ConditionTests):
    ours = '`aio.Lock`, `mem:`'


class ConditionsOnRedis(OnRedis, ConditionShape, test_locks.ConditionTests):
    ours = '`aio.Lock`, `redis:`'


class SemaphoresInMemory(OnMemory, SemaphoreShape, test_locks.SemaphoreTests):
    ours = '`aio.Semaphore`, `mem:`'
    left_out = SemaphoreShape.left_out | {
        'test_acquire_fifo_order_2':
            'acquires where a permit is free, which takes no turn of the loop in memory; the task '
            'that had its permit before is told with the next one',
    }


class SemaphoresOnRedis(OnRedis, SemaphoreShape, test_locks.SemaphoreTests):
    ours = '`aio.Semaphore`, `redis:`'


SUITE.add(LocksInMemory, LocksOnRedis, ConditionsInMemory, ConditionsOnRedis,
          SemaphoresInMemory, SemaphoresOnRedis)


Page = page_of(SUITE, test_locks)
load_tests = page_last


if __name__ == '__main__':
    unittest.main()

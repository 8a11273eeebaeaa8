"""dlock.compat.kazoo: what kazoo.recipe.lock promises, on whatever service there is."""
import os
import sys
import threading
import unittest
from pathlib import Path

import dlock
from dlock.compat.kazoo import (CancelledError, Lock, LockTimeout, ReadLock, Semaphore,
                                WriteLock)
from world import SHORT_S, new_name, shared_redis, wait_until


class Locks:
    url = None
    settings = {}

    def setUp(self):
        self.client = dlock.Client(self.url, **self.settings)
        self.addCleanup(self.client.close)
        self.path = new_name('/kazoo')

    def lock(self, identifier=None):
        return Lock(self.client, self.path, identifier)

    def test_a_lock_is_acquired_and_released(self):
        lock, other = self.lock('me'), self.lock('you')
        self.assertFalse(lock.is_acquired)
        self.assertTrue(lock.acquire())
        self.assertTrue(lock.is_acquired)
        self.assertGreater(lock.token, 0)
        self.assertFalse(other.acquire(blocking=False))
        self.assertFalse(lock.acquire(blocking=False))   # not reentrant
        self.assertTrue(lock.release())
        self.assertFalse(lock.release())
        with other:
            self.assertTrue(other.is_acquired)
        self.assertFalse(other.is_acquired)

    def test_a_path_is_what_kazoo_makes_of_it(self):
        doubled = self.path.replace('/', '//') + '/'
        with Lock(self.client, doubled) as lock:
            self.assertEqual(lock.path, doubled)
            self.assertFalse(self.lock().acquire(blocking=False))
        for relative in ('/a/../b', './a', '..'):
            for kind in (Lock, ReadLock, WriteLock, Semaphore):
                with self.assertRaises(ValueError):
                    kind(self.client, relative)

    def test_a_wait_that_is_too_long_is_a_lock_timeout(self):
        with self.lock():
            with self.assertRaises(LockTimeout):
                self.lock().acquire(timeout=SHORT_S)

    def test_a_wait_is_cancelled_from_another_thread(self):
        waiting, ends = self.lock(), []

        def wait():
            try:
                waiting.acquire()
            except CancelledError:
                ends.append('cancelled')

        with self.lock():
            thread = threading.Thread(target=wait)
            thread.start()
            wait_until('it waits', lambda: waiting._op is not None)
            waiting.cancel()
            thread.join()
        self.assertEqual(ends, ['cancelled'])
        self.assertTrue(waiting.acquire(timeout=60))
        waiting.release()

    def test_a_waiter_is_served_when_the_holder_releases(self):
        lock, waiting = self.lock(), self.lock()
        lock.acquire()
        thread = threading.Thread(target=waiting.acquire)
        thread.start()
        wait_until('it waits', lambda: waiting._op is not None)
        lock.release()
        thread.join()
        self.assertTrue(waiting.is_acquired)
        waiting.release()

    def test_who_waits_is_among_the_contenders(self):
        lock, waiting = self.lock(), [self.lock() for _ in range(2)]
        lock.acquire()
        threads = [threading.Thread(target=other.acquire) for other in waiting]
        for thread in threads:
            thread.start()
        wait_until('three contend', lambda: len(lock.contenders()) == 3)
        for other in waiting:
            other.cancel()
        for thread in threads:
            thread.join()
        self.assertEqual(len(lock.contenders()), 1)
        lock.release()

    def test_after_a_break_it_is_not_acquired_any_more(self):
        lock = self.lock()
        lock.acquire()
        with dlock.Client(self.url, **self.settings) as operator:
            operator.lock(self.path).break_()
        with self.assertRaises(dlock.LostError):
            lock._hold.verify()
        self.assertFalse(lock.is_acquired)
        self.assertFalse(lock.release())

    def test_what_it_cannot_do_is_refused(self):
        with self.assertRaises(NotImplementedError):
            Lock(self.client, self.path, extra_lock_patterns=['lock-'])
        with self.assertRaises(NotImplementedError):
            self.lock().acquire(ephemeral=False)


class Memory(Locks, unittest.TestCase):
    url = 'mem:kazoo'


class Sides(Locks):
    """Where there are read/write locks."""

    def test_readers_share_and_writers_exclude(self):
        reader, second = ReadLock(self.client, self.path), ReadLock(self.client, self.path)
        writer = WriteLock(self.client, self.path)
        with reader, second:
            self.assertFalse(writer.acquire(blocking=False))
        with writer:
            self.assertFalse(reader.acquire(blocking=False))


class Redis(Sides, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.url = shared_redis().url

    def test_a_semaphore_has_so_many_leases(self):
        leases = [Semaphore(self.client, self.path, f'id-{i}', max_leases=2) for i in range(3)]
        self.assertTrue(leases[0].acquire())
        self.assertTrue(leases[0].acquire())   # has it already
        self.assertTrue(leases[1].acquire())
        self.assertFalse(leases[2].acquire(blocking=False))
        with self.assertRaises(LockTimeout):
            leases[2].acquire(timeout=SHORT_S)
        self.assertEqual(len(leases[0].lease_holders()), 2)
        self.assertTrue(leases[0].release())
        with leases[2]:
            self.assertTrue(leases[2].is_acquired)
        leases[1].release()

    def test_another_number_of_leases_is_a_value_error(self):
        with Semaphore(self.client, self.path, max_leases=2):
            with dlock.Client(self.url) as other, self.assertRaises(ValueError):
                Semaphore(other, self.path, max_leases=3).acquire()


class ZooKeeper(Sides, unittest.TestCase):
    """Over kazoo's own nodes."""

    settings = {'zookeeper_layout': 'kazoo', 'ttl': 15}

    @classmethod
    def setUpClass(cls):
        sys.path.insert(0, str(Path(os.environ['DLK_TOP'], 'tests', 'harness')))
        import zookeeper_server
        cls.server = zookeeper_server.single()
        cls.addClassCleanup(cls.server.stop)
        cls.url = f'zookeeper://127.0.0.1:{cls.server.port}'

    def test_who_contends_is_known_by_its_identifier(self):
        with self.lock('me') as lock:
            self.assertEqual(lock.contenders(), ['me'])
        with self.lock('you') as other:   # though there is the other's handle still
            self.assertEqual(lock.contenders(), ['you'])
            self.assertEqual(other.contenders(), ['you'])

    def test_the_holders_of_leases_are_known_by_their_identifiers(self):
        with dlock.Client(self.url, ttl=15) as client:   # over Curator's nodes
            leases = [Semaphore(client, self.path, f'sem{i}', max_leases=2) for i in (1, 2)]
            with leases[0], leases[1]:
                self.assertEqual(sorted(leases[0].lease_holders()), ['sem1', 'sem2'])

    def test_its_semaphore_is_not_there_yet(self):
        with self.assertRaises(NotImplementedError):
            Semaphore(self.client, self.path, max_leases=2)

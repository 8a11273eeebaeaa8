"""Conditions of both packages: what the standard library's tests don't ask."""
import asyncio
import os
import signal
import threading
import unittest

import dlock
import dlock.aio
from world import (LIMIT_S, SHORT_S, new_file, new_name, shared_etcd, shared_postgres,
                   shared_redis, shared_zookeeper, wait_until)


class Threads(unittest.TestCase):
    new_url = staticmethod(new_file)
    lease = {'ttl': 5}

    def setUp(self):
        self.url = self.new_url()
        self.client, self.other = self.open(), self.open()

    def open(self):
        client = dlock.Client(self.url, log_level='off')
        self.addCleanup(client.close)
        return client

    def pair(self, name):
        """The same lock and condition, of both clients."""
        locks = self.client.lock(name), self.other.lock(name)
        return [client.condition(lock) for client, lock in zip((self.client, self.other), locks)]

    def waiting(self, cond, many):
        line = self.other.lock(cond.name)
        wait_until('they wait', lambda: line.inspect()['waiters'] == many)

    def test_a_signal_of_another_client_wakes_and_the_hold_is_new(self):
        mine, theirs = self.pair(new_name())
        tokens = []

        def run():
            with mine as before:
                self.assertTrue(mine.wait(LIMIT_S))
                mine.held.check()
                tokens.extend([before.token, mine.held.token])
                self.assertEqual(before.state, 'released')

        thread = threading.Thread(target=run)
        thread.start()
        self.waiting(mine, 1)
        with theirs:
            self.assertEqual(theirs.notify(), 1)
            self.assertEqual(theirs.notify_all(), 0)
        thread.join()
        self.assertEqual(len(tokens), 2)
        self.assertLess(*tokens)
        self.assertFalse(mine.lock.locked())

    def test_without_a_signal_the_lock_is_held_again(self):
        mine, _ = self.pair(new_name())
        with mine:
            self.assertFalse(mine.wait(SHORT_S))
            self.assertTrue(mine.lock.owned())
            self.assertFalse(mine.wait(-1))
            self.assertIsNone(mine.wait_for(lambda: None, SHORT_S))
        self.assertFalse(mine.lock.owned())

    def test_a_reentrant_lock_is_given_back_as_a_whole(self):
        lock = self.client.rlock(new_name())
        cond = self.client.condition(lock)
        with lock, lock, cond:
            self.assertFalse(cond.wait(SHORT_S))
            self.assertEqual(lock._recursion_count(), 3)
        self.assertFalse(lock.locked())

    def test_who_holds_nothing_is_refused(self):
        mine, _ = self.pair(new_name())
        for refused in mine.wait, mine.notify, mine.notify_all, lambda: mine.held:
            with self.assertRaises(dlock.NotHeldError):
                refused()
        for wrong in (self.client.semaphore('s', 1), self.client.rwlock('w').read,
                      self.client.multi(['a', 'b']), threading.Lock()):
            with self.assertRaises(TypeError):
                dlock.Condition(wrong)
        with self.assertRaises(ValueError):
            self.client.condition(self.other.lock('x'))
        with self.assertRaises(TypeError):
            self.client.condition(self.client.lock('x'), tll=3)

    def test_a_lock_that_was_lost_isn_t_held_afterwards(self):
        mine, theirs = self.pair(new_name())
        with self.assertRaises(dlock.LostError):
            with mine:
                theirs.lock.break_()
                mine.wait()
        self.assertFalse(mine.lock.owned())

    def test_an_interrupt_ends_the_wait_and_nothing_is_held(self):
        mine, _ = self.pair(new_name())

        def interrupt(*_):
            raise InterruptedError

        before = signal.signal(signal.SIGUSR1, interrupt)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)

        def interrupt_it():
            self.waiting(mine, 1)
            os.kill(os.getpid(), signal.SIGUSR1)

        thread = threading.Thread(target=interrupt_it)
        thread.start()
        with self.assertRaises(InterruptedError):
            with mine:
                mine.wait(LIMIT_S)
        thread.join()
        self.assertFalse(mine.lock.owned())
        wait_until('it is free', lambda: not mine.lock.locked())

    def test_services_without_conditions_say_so(self):
        with dlock.Client('memcached://127.0.0.1', lazy=True) as client:
            with self.assertRaises(dlock.NotSupportedError):
                client.condition(client.lock('x'))

    def test_the_settings_of_a_condition(self):
        lock = self.client.lock(new_name())
        cond = self.client.condition(lock, 'named', cond_owner=True, **self.lease)
        self.assertEqual(cond.name, 'named')
        with cond:
            self.assertEqual(cond.notify(), 0)


class ThreadsInMemory(Threads):
    new_url = staticmethod(lambda: 'mem:')


class ThreadsOnRedis(Threads):
    new_url = staticmethod(lambda: shared_redis().url)


class ThreadsOnZooKeeper(Threads):
    new_url = staticmethod(lambda: shared_zookeeper().url)
    lease = {}  # the session's


class ThreadsOnEtcd(Threads):
    new_url = staticmethod(lambda: shared_etcd().url)
    lease = {}


class ThreadsOnPostgres(Threads):
    new_url = staticmethod(lambda: shared_postgres().url)


class Tasks(unittest.IsolatedAsyncioTestCase):
    new_url = staticmethod(lambda: 'mem:')

    async def asyncSetUp(self):
        self.client = dlock.aio.Client(self.new_url(), log_level='off')
        self.addAsyncCleanup(self.client.close)
        self.lock = self.client.lock(new_name('task'))
        self.cond = self.client.condition(self.lock)

    async def waiting(self, many):
        line = self.client.lock(self.cond.name)
        async with asyncio.timeout(LIMIT_S):
            while (await line.inspect())['waiters'] != many:
                await asyncio.sleep(0.001)

    async def line_up(self, many, results):
        async def run(number):
            async with self.cond:
                results.append((number, await self.cond.wait()))
        tasks = []
        for number in range(many):
            tasks.append(asyncio.create_task(run(number)))
            await self.waiting(number + 1)
        return tasks

    async def test_signals_come_in_order(self):
        results = []
        tasks = await self.line_up(3, results)
        for number in range(3):
            async with self.cond:
                self.assertEqual(await self.cond.notify(), 1)
            await tasks[number]
        self.assertEqual(results, [(number, True) for number in range(3)])

    async def test_all_are_woken(self):
        results = []
        tasks = await self.line_up(4, results)
        async with self.cond:
            self.assertEqual(await self.cond.notify_all(), 4)
        await asyncio.gather(*tasks)
        self.assertEqual(len(results), 4)

    async def test_a_wait_that_runs_out_holds_the_lock_again(self):
        async with self.cond:
            self.assertFalse(await self.cond.wait(SHORT_S))
            self.assertTrue(self.cond.locked())
        self.assertFalse(await self.lock.locked())

    async def test_wait_for_goes_on_until_it_is_so(self):
        said, seen = [], []

        async def fill():
            for _ in range(3):
                await self.waiting(1)
                async with self.cond:
                    said.append(1)
                    await self.cond.notify()

        def is_full():
            seen.append(len(said))
            return len(said) == 3

        filling = asyncio.create_task(fill())
        async with self.cond:
            self.assertTrue(await self.cond.wait_for(is_full))
        await filling
        self.assertEqual(seen, [0, 1, 2, 3])

    async def test_a_cancelled_task_holds_nothing_and_its_signal_goes_on(self):
        results = []
        first, second = await self.line_up(2, results)
        async with self.cond:
            self.assertEqual(await self.cond.notify(), 1)
            await asyncio.sleep(0)
            first.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await first
        await second
        self.assertEqual(results, [(1, True)])
        self.assertFalse(await self.lock.locked())

    async def test_a_task_that_has_lost_what_another_signalled_with_releases_nothing_else(self):
        async def signal_and_take():
            self.assertEqual(await self.cond.notify(), 0)
            await self.lock.break_()
            with self.assertRaises(dlock.LostError):
                await lost.verify()
            await self.lock.acquire()

        lost = await self.lock.__aenter__()
        await asyncio.create_task(signal_and_take())
        with self.assertRaises(dlock.LostError):
            await self.lock.release()
        self.assertTrue(self.lock.owned())
        await self.lock.release()

    async def test_who_holds_nothing_is_refused(self):
        for refused in self.cond.wait, self.cond.notify, self.cond.notify_all:
            with self.assertRaises(dlock.NotHeldError):
                await refused()
        for wrong in self.client.semaphore('s', 1), self.client.rwlock('w').read, object():
            with self.assertRaises(TypeError):
                dlock.aio.Condition(wrong)


class TasksInAFile(Tasks):
    new_url = staticmethod(new_file)


class TasksOnRedis(Tasks):
    new_url = staticmethod(lambda: shared_redis().url)


class TasksOnZooKeeper(Tasks):
    new_url = staticmethod(lambda: shared_zookeeper().url)


class TasksOnEtcd(Tasks):
    new_url = staticmethod(lambda: shared_etcd().url)


class TasksOnPostgres(Tasks):
    new_url = staticmethod(lambda: shared_postgres().url)


if __name__ == '__main__':
    unittest.main()

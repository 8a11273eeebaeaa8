"""dlock.aio: waits that are awaited, withdrawn, and never leave a grant behind."""
import asyncio
import contextlib
import gc
import os
import pickle
import random
import threading
import unittest
import warnings

import dlock
import dlock.aio
import uvloop
from world import LIMIT_S, SHORT_S, Redis as Server, new_file, new_name, shared_redis

ROUNDS = 300


async def until(what, condition):
    """Looks again and again until @condition is true."""
    end = asyncio.get_running_loop().time() + LIMIT_S
    while not condition():
        if asyncio.get_running_loop().time() > end:
            raise AssertionError(f'not within {LIMIT_S} s: {what}')
        await asyncio.sleep(0.005)


async def until_free(lock):
    async with asyncio.timeout(LIMIT_S):
        while await lock.locked():
            await asyncio.sleep(0.005)


def waiting_in(client):
    """How many tasks wait in this client: each has a handler for its event."""
    return len(client._core.handlers)


class Everywhere:
    """What holds on each service; subclasses say which."""

    url = None

    def run_async(self, coroutine):
        return asyncio.run(asyncio.wait_for(coroutine, LIMIT_S))

    def client(self, **settings):
        return dlock.aio.Client(self.url, **settings)

    def test_a_lock_is_held_by_one_task_at_a_time(self):
        async def scene():
            inside = most = 0

            async def work(lock):
                nonlocal inside, most
                for _ in range(5):
                    async with lock as held:
                        inside += 1
                        most = max(most, inside)
                        self.assertGreater(held.token, 0)
                        self.assertGreater(held.remaining, 0)
                        await asyncio.sleep(0)
                        inside -= 1

            async with self.client() as client:
                lock = client.lock(new_name())
                await asyncio.gather(*(work(lock) for _ in range(20)))
                self.assertFalse(lock.owned())
                await until_free(lock)
            self.assertEqual(most, 1)

        self.run_async(scene())

    def test_a_wait_that_ends_says_so_and_leaves_the_lock_alone(self):
        async def scene():
            async with self.client() as client:
                lock = client.lock(new_name())
                async with lock:
                    self.assertFalse(await lock.acquire(blocking=False))
                    self.assertFalse(await lock.acquire(timeout=SHORT_S))
                    with self.assertRaises(dlock.AcquireTimeout):
                        await lock.hold(timeout=SHORT_S)
                    with self.assertRaises(TimeoutError):
                        async with asyncio.timeout(SHORT_S):
                            await lock.acquire()
                    with self.assertRaises(asyncio.TimeoutError):
                        await asyncio.wait_for(lock.acquire(), SHORT_S)
                    self.assertEqual(waiting_in(client), 0)
                self.assertTrue(await lock.acquire(timeout=LIMIT_S))
                await lock.release()
                with self.assertRaises(dlock.NotHeldError):
                    await lock.release()

        self.run_async(scene())

    def test_a_cancelled_wait_is_withdrawn_and_the_next_one_is_served(self):
        async def scene():
            async with self.client() as client:
                lock = client.lock(new_name())
                holder = await lock.hold()
                first = asyncio.create_task(lock.hold())
                second = asyncio.create_task(lock.hold())
                await until('both wait', lambda: waiting_in(client) == 2)
                first.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await first
                await holder.release()
                await (await second).release()
                await until_free(lock)

        self.run_async(scene())

    def test_a_wait_cancelled_in_the_turn_of_the_release_leaves_the_lock_to_one_other(self):
        async def scene():
            async with self.client() as client:
                lock = client.lock(new_name())
                holder = await lock.hold()
                waits = [asyncio.create_task(lock.hold()) for _ in range(3)]
                await until('all wait', lambda: waiting_in(client) == 3)
                waits[0].cancel()
                await holder.release()
                with self.assertRaises(asyncio.CancelledError):
                    await waits[0]
                held = await waits[1]
                self.assertFalse(waits[2].done())
                await held.verify()
                await held.release()
                await (await waits[2]).release()
                await until_free(lock)

        self.run_async(scene())

    def test_cancelled_at_any_moment_nothing_stays_held(self):
        async def scene():
            served = 0

            async def contend(lock):
                nonlocal served
                async with lock:
                    served += 1
                    await asyncio.sleep(0)

            async with self.client() as client:
                locks = [client.lock(new_name()) for _ in range(3)]
                for number in range(ROUNDS):
                    tasks = [asyncio.create_task(contend(locks[number % 3])) for _ in range(2)]
                    random.shuffle(tasks)
                    victim, other = tasks
                    for _ in range(random.randrange(6)):
                        await asyncio.sleep(0)
                    if random.random() < 0.3:
                        await asyncio.sleep(random.random() / 1000)
                    victim.cancel()
                    await asyncio.wait(tasks)
                    self.assertIsNone(other.exception())
                for lock in locks:
                    self.assertFalse(lock.owned())
                    await until_free(lock)
                self.assertEqual(waiting_in(client), 0)
            self.assertGreaterEqual(served, ROUNDS)

        self.run_async(scene())

    def test_a_release_whose_task_is_cancelled_goes_on(self):
        async def scene():
            async with self.client() as client:
                lock = client.lock(new_name())
                for _ in range(20):
                    hold = await lock.hold()
                    task = asyncio.create_task(hold.release())
                    await asyncio.sleep(0)
                    task.cancel()
                    await asyncio.wait([task])
                    self.assertEqual(hold.state, 'released')
                    async with asyncio.timeout(LIMIT_S):
                        await (await lock.hold()).release()

        self.run_async(scene())

    def test_a_task_group_that_fails_withdraws_all_its_waits(self):
        async def fail():
            raise ZeroDivisionError

        async def scene():
            async with self.client() as client:
                lock = client.lock(new_name())
                async with lock:
                    with self.assertRaises(ExceptionGroup):
                        async with asyncio.TaskGroup() as group:
                            for _ in range(50):
                                group.create_task(lock.acquire())
                            await until('all wait', lambda: waiting_in(client) == 50)
                            group.create_task(fail())
                    self.assertEqual(waiting_in(client), 0)
                await until_free(lock)

        self.run_async(scene())

    def test_after_a_break_the_end_of_the_block_raises_lost_error(self):
        async def scene():
            async with self.client() as client, self.client() as operator:
                name, seen = new_name(), []
                lock = client.lock(name)
                with self.assertRaises(dlock.LostError):
                    async with lock as held:
                        held.on_lost(seen.append)
                        await operator.lock(name).break_()
                        with self.assertRaises(dlock.LostError):
                            await held.verify()
                        self.assertTrue(held.lost)
                        await until('it is told', lambda: seen)
                        await held.wait_lost()
                self.assertEqual(seen, [held])
                with self.assertRaises(ZeroDivisionError):   # not masked
                    async with lock as held:
                        await operator.lock(name).break_()
                        with contextlib.suppress(dlock.LostError):
                            await held.verify()
                        raise ZeroDivisionError
                async with client.lock(name, raise_on_loss=False) as held:
                    await operator.lock(name).break_()
                    with contextlib.suppress(dlock.LostError):
                        await held.verify()

        self.run_async(scene())

    def test_a_task_that_lost_its_hold_does_not_release_anothers(self):
        async def scene():
            async with self.client() as client, self.client() as operator:
                lock = client.lock(new_name())
                lost, over = asyncio.Event(), asyncio.Event()

                async def lose():
                    async with lock as held:
                        await operator.lock(lock.name).break_()
                        with contextlib.suppress(dlock.LostError):
                            await held.verify()
                        lost.set()
                        await over.wait()

                loser = asyncio.create_task(lose())
                await lost.wait()
                async with lock as held:
                    over.set()
                    await asyncio.wait([loser])
                    self.assertIsInstance(loser.exception(), dlock.LostError)
                    await held.verify()

        self.run_async(scene())

    def test_closing_ends_every_wait_and_releases_every_hold(self):
        async def scene():
            client = self.client()
            lock = client.lock(new_name())
            held = await lock.hold()
            waits = [asyncio.create_task(lock.acquire()) for _ in range(10)]
            await until('all wait', lambda: waiting_in(client) == 10)
            await client.close()
            await client.close()
            for wait in waits:
                with self.assertRaises(dlock.ClosedError):
                    await wait
            self.assertEqual(held.state, 'released')
            with self.assertRaises(dlock.ClosedError):
                await lock.acquire()
            async with self.client() as other:
                await (await other.lock(lock.name).hold(timeout=LIMIT_S)).release()

        self.run_async(scene())

    def test_what_was_never_connected_is_closed_without_a_word(self):
        async def scene():
            unused = self.client()
            await unused.close()
            self.assertTrue(unused.closed)
            await unused.close()
            async with self.client(lazy=True) as lazy:
                pass
            self.assertTrue(lazy.closed)
            with self.assertRaises(dlock.ClosedError):
                await lazy.lock(new_name()).acquire()

        self.run_async(scene())

    def test_a_block_may_be_left_by_another_task_than_entered_it(self):
        async def scene():
            async with self.client() as client:
                lock = client.lock(new_name())
                hold = await asyncio.create_task(lock.__aenter__())
                self.assertEqual(hold.state, 'held')
                await asyncio.create_task(lock.__aexit__(None, None, None))
                self.assertEqual(hold.state, 'released')
                self.assertFalse(lock.owned())

        self.run_async(scene())

    def test_a_first_try_waits_for_the_first_connection(self):
        async def scene():
            name = new_name()
            for settings in ({}, {'lazy': True}):
                client = self.client(**settings)
                lock = client.lock(name)
                self.assertTrue(await lock.acquire(blocking=False))
                await lock.release()
                await client.close()
            async with self.client(lazy=True) as client:
                await (await client.lock(name).hold(timeout=0)).release()
                several = client.multi([new_name(), new_name()])
                await (await several.hold(timeout=0)).release()

        self.run_async(scene())

    def test_a_client_belongs_to_one_loop_at_a_time(self):
        client = self.client()
        lock = client.lock(new_name())
        self.run_async(lock.acquire())    # its loop is closed afterwards
        failures = []

        async def scene():
            with self.assertRaises(dlock.AcquireTimeout):   # this loop is the client's now
                await lock.hold(timeout=SHORT_S)

            def elsewhere():
                for call in (lock.acquire, client.close):
                    try:
                        asyncio.run(call())
                    except RuntimeError as why:
                        failures.append(str(why))

            await asyncio.to_thread(elsewhere)
            await lock.release()
            await client.close()

        self.run_async(scene())
        self.assertEqual(len(failures), 2)
        for failure in failures:
            self.assertIn('another event loop', failure)

    def test_each_loop_with_a_client_of_its_own_excludes_the_others(self):
        name, inside, most = new_name(), [], []

        async def work():
            async with self.client() as client:
                lock = client.lock(name)
                for _ in range(20):
                    async with lock:
                        inside.append(1)
                        most.append(len(inside))
                        await asyncio.sleep(0)
                        inside.pop()

        threads = [threading.Thread(target=self.run_async, args=(work(),)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(most), 60)
        self.assertEqual(max(most), 1)

    def test_uvloop_serves_as_well(self):
        async def scene():
            served = 0

            async def work(lock):
                nonlocal served
                async with lock:
                    served += 1

            async with self.client() as client:
                lock = client.lock(new_name())
                await asyncio.gather(*(work(lock) for _ in range(200)))
            self.assertEqual(served, 200)

        loop = uvloop.new_event_loop()
        try:
            loop.run_until_complete(asyncio.wait_for(scene(), LIMIT_S))
        finally:
            loop.close()

    def test_a_decorated_coroutine_function_runs_under_the_lock(self):
        async def scene():
            async with self.client() as client:
                lock = client.lock(new_name())

                @lock
                async def doubled(number):
                    """Twice."""
                    self.assertTrue(lock.owned())
                    return 2 * number

                self.assertEqual(await doubled(21), 42)
                self.assertEqual(doubled.__doc__, 'Twice.')
                self.assertFalse(lock.owned())
                with self.assertRaises(TypeError):
                    lock(print)

        self.run_async(scene())

    def test_a_guarded_operation_is_undone_when_the_lock_was_lost(self):
        async def scene():
            async with self.client() as client, self.client() as operator:
                lock, steps = client.lock(new_name()), []

                async def step(name, *_):
                    steps.append(name)

                def guard(run, prepare=lambda: step('prepare')):
                    return dlock.aio.Guard(
                        prepare=prepare, run=run, undo=lambda: step('undo'),
                        commit=lambda token: token, lost=lambda: steps.append('lost'))

                async with lock as held:
                    self.assertEqual(await held.guard(guard(lambda: step('run'))), held.token)
                self.assertEqual(steps, ['prepare', 'run'])
                steps.clear()
                with contextlib.suppress(dlock.LostError):
                    async with lock as held:
                        async def lose():
                            await operator.lock(lock.name).break_()
                            with contextlib.suppress(dlock.LostError):
                                await held.verify()

                        with self.assertRaises(dlock.LostError):
                            await held.guard(guard(lose))
                self.assertEqual(steps, ['prepare', 'undo', 'lost'])
                steps.clear()
                async with lock as held:
                    with self.assertRaises(ZeroDivisionError):
                        await held.guard(guard(lambda: 1 // 0))
                self.assertEqual(steps, ['prepare', 'undo'])
                steps.clear()
                async with lock as held:
                    async def seen_too_late():
                        raise dlock.LostError('the resource has seen a newer token')

                    with self.assertRaises(dlock.LostError):
                        await held.guard(guard(lambda: step('run'), seen_too_late))
                self.assertEqual(steps, ['lost'])

        self.run_async(scene())

    def test_several_locks_are_taken_as_one(self):
        async def scene():
            async with self.client() as client:
                names = [new_name() for _ in range(3)]
                both = client.multi(names)
                async with both as held:
                    self.assertTrue(await both.locked())
                    self.assertTrue(all(held.member_token(i) for i in range(3)))
                    for name in names:
                        self.assertTrue(await client.lock(name).locked())
                for name in names:
                    await until_free(client.lock(name))
                async with client.lock(names[2]):
                    self.assertTrue(await both.locked())
                await until_free(both)

        self.run_async(scene())

    def test_a_candidate_leads_until_it_is_stopped_and_the_next_one_follows(self):
        async def scene():
            async with self.client() as client:
                name, terms = new_name(), []
                hosts = ['host-0', 'host-1', 'host-2']
                candidates = [client.election(name, data=host) for host in hosts]

                def lead_for(candidate, host):
                    async def lead(term):
                        self.assertEqual(await candidate.leader(), host)
                        terms.append((host, term.token))
                        candidate.stop()
                        await asyncio.sleep(LIMIT_S)
                    return lead

                await asyncio.gather(*(each.run(lead_for(each, host))
                                       for each, host in zip(candidates, hosts)))
                self.assertEqual(sorted(host for host, _ in terms), hosts)
                tokens = [token for _, token in terms]
                self.assertEqual(tokens, sorted(set(tokens)))
                self.assertIsNone(await candidates[0].leader())

        self.run_async(scene())

    def test_a_leader_that_loses_its_term_is_cancelled_and_campaigns_again(self):
        async def scene():
            async with self.client() as client, self.client() as operator:
                election, tokens = client.election(new_name()), []

                async def lead(term):
                    tokens.append(term.token)
                    if len(tokens) == 2:
                        election.stop()
                        return
                    await operator.election(election.name).break_()
                    with contextlib.suppress(dlock.LostError):
                        await term.verify()
                    await asyncio.sleep(LIMIT_S)

                await election.run(lead)
                self.assertLess(*tokens)

        self.run_async(scene())

    def test_a_forgotten_hold_warns_and_is_given_back(self):
        async def scene():
            async with self.client() as client:
                lock = client.lock(new_name())
                hold = await lock.hold()
                hold.on_lost(print)
                with warnings.catch_warnings(record=True) as said:
                    warnings.simplefilter('always')
                    del hold
                    gc.collect()
                self.assertEqual([each.category for each in said], [ResourceWarning])
                said.clear()   # a warning keeps what it is about
                await until_free(lock)

        self.run_async(scene())

    def test_a_client_that_is_never_closed_warns(self):
        async def scene():
            client = self.client()
            await client.lock(new_name()).locked()
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter('always')
                del client
                gc.collect()
            self.assertEqual([each.category for each in said], [ResourceWarning])
            await asyncio.sleep(0)   # its descriptor leaves the loop

        self.run_async(scene())

    def test_wrong_arguments_are_refused_by_name(self):
        async def scene():
            async with self.client() as client:
                lock = client.lock(new_name())
                for wrong, call in (
                        ('timeout', lambda: lock.acquire(False, 1)),
                        ('timeout', lambda: lock.acquire(timeout=-2)),
                        ('timeout', lambda: lock.acquire(timeout='1')),
                        ('timeout', lambda: lock.hold(timeout=float('nan')))):
                    with self.assertRaisesRegex((TypeError, ValueError), wrong):
                        await call()
                for wrong, call in (
                        ('name', lambda: client.lock(3)), ('name', lambda: client.lock('')),
                        ('name', lambda: client.lock('a\0b')),
                        ('colour', lambda: client.lock('a', colour='red')),
                        ('permits', lambda: client.semaphore('a', '3')),
                        ('locks', lambda: client.multi([])),
                        ('locks', lambda: client.multi([3])),
                        ('run', lambda: dlock.aio.Guard(run=3, commit=print)),
                        ('client', lambda: dlock.aio.Lock(3, 'a')),
                        ('pickle', lambda: pickle.dumps(client)),
                        ('pickle', lambda: pickle.dumps(lock))):
                    with self.assertRaisesRegex((TypeError, ValueError), wrong):
                        call()
                async with lock as held:
                    with self.assertRaisesRegex(TypeError, 'callback'):
                        held.on_lost(3)
                    with self.assertRaisesRegex(TypeError, 'pickle'):
                        pickle.dumps(held)

        self.run_async(scene())

    def test_what_a_fork_inherits_says_so_and_leaves_the_parent_alone(self):
        async def scene():
            async with self.client() as client:
                lock = client.lock(new_name())
                async with lock as held:
                    task = asyncio.create_task(lock.hold())
                    await until('it waits', lambda: waiting_in(client) == 1)
                    child = os.fork()
                    if child == 0:
                        status = 3
                        try:
                            status = self.in_child(client, lock, held)
                        finally:
                            os._exit(status)
                    status = await asyncio.to_thread(os.waitpid, child, 0)
                    self.assertEqual(os.waitstatus_to_exitcode(status[1]), 0)
                    await held.verify()
                await (await task).release()

        self.run_async(scene())

    @staticmethod
    def in_child(client, lock, held):
        async def calls():
            for call in (lock.acquire, held.release, client.connect):
                try:
                    await call()
                except dlock.ForkedError:
                    continue
                return 1
            return 0

        asyncio._set_running_loop(None)    # the parent's, which isn't running here
        return asyncio.new_event_loop().run_until_complete(calls()) + held.token


class Memory(Everywhere, unittest.TestCase):
    url = 'mem:aio'


class File(Everywhere, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.url = new_file()


class Redis(Everywhere, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.url = shared_redis().url

    def test_readers_share_and_a_writer_excludes_and_steps_down(self):
        async def scene():
            async with self.client() as client:
                lock = client.rwlock(new_name())
                async with lock.read, lock.read:
                    self.assertFalse(await lock.write.acquire(False))
                async with lock.write as held:
                    self.assertFalse(await lock.read.acquire(False))
                    held.downgrade()
                    async with lock.read:
                        pass

        self.run_async(scene())

    def test_a_semaphore_lets_in_as_many_as_it_has_permits(self):
        async def scene():
            inside = most = 0
            full = asyncio.Event()

            async def work(semaphore):
                nonlocal inside, most
                async with semaphore:
                    inside += 1
                    most = max(most, inside)
                    if inside == 3:
                        full.set()
                    await full.wait()   # the first ones don't go before there are so many
                    await asyncio.sleep(0.001)
                    inside -= 1

            async with self.client() as client:
                semaphore = client.semaphore(new_name(), permits=3)
                await asyncio.gather(*(work(semaphore) for _ in range(30)))
            self.assertEqual(most, 3)

        self.run_async(scene())

    def test_a_semaphore_is_released_as_a_bounded_one(self):
        async def scene():
            async with self.client() as client:
                semaphore = client.semaphore(new_name(), permits=3)
                await asyncio.create_task(semaphore.acquire())
                await semaphore.acquire()
                await semaphore.acquire()
                await semaphore.release(2)
                for too_many in (ValueError, dlock.NotHeldError):
                    with self.assertRaisesRegex(too_many, '2'):
                        await semaphore.release(2)
                self.assertTrue(semaphore.owned())
                await semaphore.release()
                with self.assertRaises(ValueError):
                    await semaphore.release()
                for wrong, kind in ((0, ValueError), ('1', TypeError), (None, TypeError)):
                    with self.assertRaisesRegex(kind, 'n: '):
                        await semaphore.release(wrong)

        self.run_async(scene())

    def test_an_exported_hold_is_taken_over(self):
        async def scene():
            async with self.client() as giver, self.client() as taker:
                hold = await giver.lock(new_name()).hold()
                ticket = hold.export()
                self.assertEqual(hold.state, 'released')
                async with await taker.import_hold(ticket) as taken:
                    self.assertGreater(taken.token, hold.token)
                with self.assertRaises(dlock.NotHeldError):
                    await taker.import_hold(ticket)

        self.run_async(scene())

    def test_who_is_asked_to_give_up_hears_of_it(self):
        async def scene():
            async with self.client() as client, self.client() as other:
                lock, asked = client.lock(new_name()), []
                async with lock as held:
                    held.on_revoke(asked.append)

                    async def ask():
                        with contextlib.suppress(dlock.NotSupportedError):
                            await other.lock(lock.name).revoke()   # it may not listen yet

                    while not asked:
                        await ask()
                        await asyncio.sleep(0.01)
                self.assertIs(asked[0], held)

        self.run_async(scene())

    def test_extend_lengthens_the_lease(self):
        async def scene():
            async with self.client(ttl=30) as client, client.lock(new_name()) as held:
                await held.extend(300)
                self.assertGreater(held.remaining, 200)

        self.run_async(scene())

    def test_what_the_server_knows_is_listed(self):
        async def scene():
            async with self.client() as client:
                name = new_name('listed')
                async with client.lock(name):
                    self.assertIn(name, str(await client.list('listed')))
                    self.assertTrue((await client.lock(name).inspect())['held'])
                self.assertIn('verdict', await client.doctor())
                self.assertIn('grants', client.stats())
                self.assertTrue(client.features())

        self.run_async(scene())

    def test_a_server_that_is_not_there_is_an_error_and_not_a_hang(self):
        async def scene():
            with self.assertRaises(ConnectionError):
                async with dlock.aio.Client('redis://127.0.0.1:1', connect=0.5):
                    pass

        self.run_async(scene())


class Leaving(unittest.TestCase):
    """What comes out of ``async with Client(…)`` when the server is gone by its end."""

    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.stop)

    def client(self):
        return dlock.aio.Client(self.server.url, close_ms=100)

    def leave(self, body):
        async def scene():
            async with self.client() as client:
                hold = await client.lock(new_name()).hold()
                self.server.die()
                await body()
            self.assertEqual(hold.state, 'released')

        with self.assertLogs('dlock', 'WARNING') as said:
            try:
                asyncio.run(asyncio.wait_for(scene(), LIMIT_S))
            finally:
                self.assertIn('at the end of <dlock.aio.Client', said.output[-1])

    def test_the_bodys_exception_goes_before_that_of_closing(self):
        async def body():
            raise ValueError('of the body')

        with self.assertRaisesRegex(ValueError, 'of the body'):
            self.leave(body)

    def test_a_cancelled_body_stays_cancelled(self):
        async def body():
            asyncio.current_task().cancel()
            await asyncio.sleep(LIMIT_S)

        with self.assertRaises(asyncio.CancelledError):
            self.leave(body)

    def test_a_timeout_around_the_client_stays_a_timeout(self):
        async def body():
            async with asyncio.timeout(0):
                await asyncio.sleep(LIMIT_S)

        with self.assertRaises(TimeoutError) as raised:
            self.leave(body)
        self.assertNotIsInstance(raised.exception, dlock.DlockError)

    def test_without_an_exception_it_is_logged_as_that_of_a_sync_client(self):
        async def body():
            pass

        self.leave(body)

    def test_a_client_that_is_closed_by_hand_says_that_a_release_is_not_confirmed(self):
        async def scene():
            client = self.client()
            hold = await client.lock(new_name()).hold()
            self.server.die()
            with self.assertRaises(dlock.UnknownOutcomeError):
                await client.close()
            self.assertEqual(hold.state, 'released')

        asyncio.run(asyncio.wait_for(scene(), LIMIT_S))


if __name__ == '__main__':
    unittest.main()

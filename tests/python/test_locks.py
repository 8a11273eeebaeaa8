"""Locks, holds, elections and guards, in memory and on a real Redis."""
import asyncio
import concurrent.futures
import logging
import threading
import time
import unittest

import dlock
from world import LIMIT_S, SHORT_S, Redis, new_file, new_name, shared_redis, wait_until


def in_thread(call, *args):
    """What a call in a thread of its own returns, or raises."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(call, *args).result(LIMIT_S)


class OnRedis(unittest.TestCase):
    def setUp(self):
        self.client = dlock.Client(shared_redis().url)
        self.addCleanup(self.client.close)
        self.other = dlock.Client(shared_redis().url)
        self.addCleanup(self.other.close)


class Everywhere(unittest.TestCase):
    """The same on each backend."""

    def clients(self):
        for url in ('mem:', new_file(), shared_redis().url):
            with self.subTest(url=url), dlock.Client(url) as one, dlock.Client(url) as other:
                yield one, other

    def test_who_holds_it_keeps_others_out(self):
        for one, other in self.clients():
            name = new_name()
            with one.lock(name) as held:
                self.assertEqual((held.state, held.lost, held.name), ('held', False, name))
                self.assertGreater(held.remaining, 0)
                self.assertGreater(held.token, 0)
                held.check()
                held.verify()
                theirs = other.lock(name)
                self.assertFalse(theirs.acquire(blocking=False))
                self.assertFalse(theirs.acquire(timeout=SHORT_S))
                self.assertTrue(theirs.locked())
                with self.assertRaises(dlock.AcquireTimeout) as caught:
                    theirs.hold(timeout=SHORT_S)
                self.assertEqual(caught.exception.lock_name, name)
                self.assertTrue(caught.exception.retriable)
                self.assertEqual(theirs.inspect()['holders'][0]['owner'], held.owner)
            with theirs.hold(timeout=0) as again:
                self.assertGreater(again.token, held.token)
            self.assertFalse(theirs.locked())

    def test_a_first_try_waits_for_the_first_connection(self):
        for url in ('mem:', new_file(), shared_redis().url):
            with self.subTest(url=url), dlock.Client(url, lazy=True) as client:
                lock = client.lock(new_name())
                self.assertTrue(lock.acquire(blocking=False))
                lock.release()

    def test_a_wait_ends_with_the_release(self):
        for one, other in self.clients():
            name = new_name()
            got = []
            hold = one.lock(name).hold()
            theirs = other.lock(name)
            waiter = threading.Thread(target=lambda: got.append(theirs.acquire()))
            waiter.start()
            time.sleep(0.05)
            self.assertEqual(got, [])
            hold.release()
            waiter.join()
            self.assertEqual(got, [True])
            theirs.release()

    def test_a_thread_takes_its_rlock_again_without_asking(self):
        for one, _ in self.clients():
            lock = one.rlock(new_name())
            with lock as outer:
                with lock as inner:
                    self.assertEqual(outer.token, inner.token)
                    self.assertNotEqual(outer, inner)
                self.assertTrue(lock.owned())
            self.assertFalse(lock.owned())

    def test_several_locks_are_taken_as_one(self):
        for one, other in self.clients():
            names = [new_name('a'), new_name('b')]
            with one.multi(names) as both:
                self.assertEqual(both.token, 0)
                tokens = [both.member_token(0), both.member_token(1)]
                self.assertTrue(all(token > 0 for token in tokens), tokens)
                for name in names:
                    self.assertFalse(other.lock(name).acquire(False))
            for name in names:
                other.lock(name).hold(timeout=0).release()

    def test_several_locks_are_locked_while_anybody_holds_one(self):
        for one, other in self.clients():
            names = [new_name('a'), new_name('b')]
            both = one.multi(names)
            self.assertFalse(both.locked())
            with both:
                self.assertTrue(both.locked())
            with other.lock(names[1]):
                self.assertTrue(both.locked())
            self.assertFalse(both.locked())

    def test_one_of_many_leads(self):
        for one, other in self.clients():
            name = new_name()
            election = one.election(name, data='host-7')
            self.assertIsNone(election.leader())
            with election.campaign() as term:
                self.assertEqual(other.election(name).leader(), 'host-7')
                self.assertGreater(term.remaining, 0)
                with self.assertRaises(dlock.AcquireTimeout):
                    other.election(name).campaign(timeout=0)
            terms = []

            def lead(term, terms=terms, election=election):
                terms.append(term.token)
                if len(terms) == 3:
                    election.stop()
            election.run(lead)
            self.assertEqual(sorted(set(terms)), terms)
            self.assertEqual(len(terms), 3)

    def test_asking_gives_dicts(self):
        for one, _ in self.clients():
            with one.lock(new_name('listed')):
                self.assertTrue(one.features()['kinds']['mutex'])
                self.assertIn('verdict', one.doctor())
                self.assertIsInstance(one.stats(), dict)
                self.assertIsInstance(one.list('listed', 10), dict)

    def test_a_decorated_function_runs_under_the_lock(self):
        for one, other in self.clients():
            name = new_name()

            @one.lock(name)
            def double(number, name=name, other=other):
                """Twice."""
                self.assertFalse(other.lock(name).acquire(False))
                return 2 * number
            self.assertEqual((double(21), double.__name__, double.__doc__),
                             (42, 'double', 'Twice.'))
            self.assertFalse(one.lock(name).locked())


class Kinds(OnRedis):
    def test_readers_share_and_a_writer_does_not(self):
        mine, theirs = (client.rwlock('rw') for client in (self.client, self.other))
        with mine.read:
            with theirs.read.hold(timeout=0):
                self.assertFalse(theirs.write.acquire(False))
        with mine.write as held:
            self.assertFalse(theirs.read.acquire(False))
            held.downgrade()
            with theirs.read.hold(timeout=20):
                self.assertFalse(theirs.write.acquire(False))

    def test_a_semaphore_has_as_many_permits_as_it_was_made_with(self):
        mine, theirs = (client.semaphore('sem', 3) for client in (self.client, self.other))
        with mine, mine, theirs:
            self.assertFalse(theirs.acquire(False))
            self.assertEqual(len(mine._holds), 2)
        with self.client.semaphore('sem', 3, take=3):
            self.assertFalse(theirs.acquire(False))
        with self.assertRaises(dlock.ConflictError):
            self.client.semaphore('sem', 4).acquire(False)

    def test_a_block_may_be_left_by_another_thread_than_entered_it(self):
        # As the blocks of generators are that a thread pool runs: FastAPI's dependencies.
        rwlock = self.client.rwlock(new_name())
        for lock in (self.client.lock(new_name()),
                     self.client.semaphore(new_name(), permits=2), rwlock.read, rwlock.write,
                     self.client.multi([new_name(), new_name()]),
                     self.client.election(new_name())):
            with self.subTest(lock=lock):
                hold = in_thread(lock.__enter__)
                self.assertEqual(hold.state, 'held')
                in_thread(lock.__exit__, None, None, None)
                self.assertEqual(hold.state, 'released')
                self.assertFalse(lock.owned())
                self.assertEqual((lock._holds, lock._entered), ([], []))

    def test_a_thread_leaves_its_own_block_before_anothers(self):
        semaphore = self.client.semaphore(new_name(), permits=2)
        with semaphore as mine:
            other = in_thread(semaphore.__enter__)
        self.assertEqual((mine.state, other.state), ('released', 'held'))
        semaphore.__exit__(None, None, None)
        self.assertEqual(other.state, 'released')

    def test_a_semaphore_is_released_as_threadings_bounded_one(self):
        semaphore = self.client.semaphore(new_name(), permits=3)
        for _ in range(3):
            semaphore.acquire()
        semaphore.release(2)
        self.assertEqual(len(semaphore._holds), 1)
        for too_many in (ValueError, dlock.NotHeldError):
            with self.assertRaisesRegex(too_many, '2'):
                semaphore.release(2)
        self.assertTrue(semaphore.owned())   # none or all
        semaphore.release(n=1)
        with self.assertRaises(ValueError):
            semaphore.release()
        for wrong, kind in ((0, ValueError), (-1, ValueError), ('1', TypeError), (True, TypeError),
                            (None, TypeError)):
            with self.subTest(wrong=wrong), self.assertRaisesRegex(kind, 'n: '):
                semaphore.release(wrong)
        other = self.other.semaphore(semaphore.name, permits=3)
        for _ in range(3):
            self.assertTrue(other.acquire(timeout=LIMIT_S))
        other.release(3)

    def test_every_permit_goes_back_though_one_was_lost(self):
        semaphore = self.client.semaphore(new_name(), permits=2)
        holds = [semaphore.hold(), semaphore.hold()]
        semaphore.break_(holds[1].owner)
        with self.assertRaises(dlock.LostError):
            semaphore.release(2)
        self.assertEqual(holds[0].state, 'released')

    def test_a_grant_is_handed_on_by_its_ticket(self):
        lock = self.client.lock('handed')
        given = lock.hold()
        ticket = given.export()
        self.assertEqual(given.state, 'released')
        self.assertFalse(lock.owned())
        with self.other.import_hold(ticket) as taken:
            self.assertGreater(taken.token, given.token)
            self.assertEqual(taken.name, 'handed')
            self.assertFalse(lock.acquire(False))
        with self.assertRaises(dlock.NotHeldError):
            self.other.import_hold(ticket)

    def test_layouts_are_settings(self):
        lock = self.client.lock('laid-out', redis_layout='string', ttl=30)
        with lock:
            said = shared_redis().command('TYPE', 'laid-out')
            self.assertTrue(said.startswith(b'+string'), said)

    def test_a_kept_lock_is_taken_again_without_a_request_until_another_wants_it(self):
        lock, last = self.client.lock('kept', keep=600, ttl=600), 0

        def is_kept():
            with lock:
                pass
            return self.client.stats()['kept'] > 0

        wait_until('it is kept', is_kept)  # once its client can be told that it is wanted
        before = self.client.stats()
        for _ in range(20):
            with lock as held:
                self.assertGreater(held.token, last)
                last = held.token
        now = self.client.stats()
        self.assertEqual(now['local_grants'] - before['local_grants'], 20)
        self.assertLessEqual(now['commands'] - before['commands'], 2)  # for more tokens
        with self.other.lock('kept').hold(timeout=20) as theirs:
            self.assertGreater(theirs.token, last)
        self.assertEqual(self.client.stats()['kept_asked'] - before['kept_asked'], 1)

    def test_an_operator_breaks_a_lock(self):
        lock = self.client.lock('broken')
        hold = lock.hold()
        with self.assertRaises(dlock.NotHeldError):
            self.other.lock('broken').break_('nobody')
        self.other.lock('broken').break_(hold.owner)
        with self.assertRaises(dlock.LostError):
            hold.verify()
        self.assertTrue(hold.lost)
        with self.assertRaises(dlock.LostError):
            lock.release()

    def test_extend_lengthens_and_never_shortens(self):
        with self.client.lock('extended', ttl=5) as held:
            held.extend(60)
            self.assertGreater(held.remaining, 30)
            held.extend(1)
            self.assertGreater(held.remaining, 30)

    def test_wait_idle_waits_without_taking(self):
        lock = self.client.lock('idle')
        self.assertTrue(lock.wait_idle(0))
        with lock:
            self.assertFalse(self.other.lock('idle').wait_idle(0))
            self.assertFalse(self.other.lock('idle').wait_idle(SHORT_S))
        self.assertTrue(self.other.lock('idle').wait_idle(20))


class Losing(OnRedis):
    def lose(self, lock, hold):
        self.other.lock(lock.name).break_()
        with self.assertRaises(dlock.LostError):
            hold.verify()

    def test_leaving_a_block_after_a_loss_raises(self):
        lock = self.client.lock('lost-1')
        with self.assertRaises(dlock.LostError) as caught:
            with lock as held:
                self.lose(lock, held)
        self.assertEqual(caught.exception.lock_name, 'lost-1')
        lock.hold(timeout=0).release()

    def test_the_bodys_exception_goes_before_the_loss(self):
        lock = self.client.lock('lost-2')
        with self.assertLogs('dlock', 'WARNING') as logged:
            with self.assertRaises(ZeroDivisionError):
                with lock as held:
                    self.lose(lock, held)
                    raise ZeroDivisionError
        self.assertIn('lost-2', logged.output[0])

    def test_a_lock_can_be_told_not_to_raise(self):
        lock = self.client.lock('lost-3', raise_on_loss=False)
        with self.assertLogs('dlock', 'WARNING'):
            with lock as held:
                self.lose(lock, held)

    def test_a_hold_tells_once_that_it_is_lost(self):
        lock = self.client.lock('lost-4')
        hold = lock.hold()
        told = []
        hold.on_lost(lambda which: told.append(('first', which)))
        hold.on_lost(lambda which: told.append(('second', which)))
        self.lose(lock, hold)
        wait_until('both are called', lambda: len(told) == 2)
        self.assertEqual(told, [('first', hold), ('second', hold)])
        hold.on_lost(lambda which: told.append(('late', which)))
        self.assertEqual(told[2:], [('late', hold)])
        with self.assertRaises(dlock.LostError):
            hold.release()

    def test_a_failing_callback_is_logged_and_the_next_is_called(self):
        lock = self.client.lock('lost-5')
        hold = lock.hold()
        told = threading.Event()
        hold.on_lost(lambda which: 1 / 0)
        hold.on_lost(lambda which: told.set())
        with self.assertLogs('dlock', 'ERROR') as logged:
            self.lose(lock, hold)
            self.assertTrue(told.wait(60))
        self.assertIn('ZeroDivisionError', logged.output[0])

    def test_a_holder_hears_that_somebody_asks(self):
        hold = self.client.lock('asked').hold()
        asked = threading.Event()
        hold.on_revoke(lambda which: asked.set())

        def revoke():
            try:
                self.other.lock('asked').revoke()
            except dlock.NotSupportedError:
                return False   # a holder is heard a moment after it has armed its first hold
            return True
        wait_until('it is asked', revoke)
        self.assertTrue(asked.wait(60))
        hold.release()

    def test_a_server_that_goes_away_makes_a_hold_suspect_and_then_lost(self):
        server = Redis()
        self.addCleanup(server.stop)
        with dlock.Client(server.url, ttl=4, log_level='off', close=0) as client:
            hold = client.lock('left').hold()
            states = []
            hold.on_suspect(lambda which: states.append('suspect'))
            hold.on_lost(lambda which: states.append('lost'))
            server.die()
            wait_until('both were told', lambda: len(states) == 2)
            self.assertEqual(states, ['suspect', 'lost'])
            self.assertEqual((hold.state, hold.remaining), ('lost', 0))
            with self.assertRaises(dlock.LostError):
                hold.check()
            with self.assertRaises(dlock.BackendError):
                client.lock('other').acquire(timeout=0.2)


class Holding(unittest.TestCase):
    def setUp(self):
        self.client = dlock.Client('mem:')
        self.addCleanup(self.client.close)
        self.lock = self.client.lock(new_name())

    def test_a_hold_may_be_released_inside_its_block(self):
        with self.lock as held:
            held.release()
            self.assertTrue(self.lock.acquire(False))
            self.lock.release()

    def test_blocks_of_one_lock_end_their_own_holds(self):
        lock = self.client.rlock(new_name())
        with lock as outer:
            with lock as inner:
                inner.release()
            self.assertEqual(outer.state, 'held')
        self.assertEqual(outer.state, 'released')

    def test_what_is_taken_again_inside_a_block_is_given_back_at_its_end(self):
        with self.lock:
            self.lock.release()
            self.lock.acquire()
        self.assertFalse(self.lock.owned())

    def test_a_condition_gives_back_what_it_took_behind_a_wait(self):
        for lock in (self.lock, self.client.rlock(new_name())):
            with self.subTest(lock=lock):
                condition = threading.Condition(lock)
                with condition:
                    self.assertFalse(condition.wait(0.01))
                    self.assertTrue(lock.owned())
                self.assertFalse(lock.owned())
        lock = self.client.rlock(new_name())
        condition = threading.Condition(lock)
        with condition, condition:
            condition.wait(0.01)
        self.assertFalse(lock.owned())

    def test_another_thread_may_release_what_this_one_took(self):
        self.lock.acquire()
        thread = threading.Thread(target=self.lock.release)
        thread.start()
        thread.join()
        self.assertFalse(self.lock.owned())

    def test_what_was_taken_again_in_a_block_goes_back_with_it_in_whatever_thread(self):
        def take_again():
            self.lock.__enter__()
            self.lock.release()
            self.lock.acquire()

        in_thread(take_again)
        in_thread(self.lock.__exit__, None, None, None)
        self.assertFalse(self.lock.owned())

    def test_a_lost_block_that_another_thread_leaves_releases_nobody_elses_hold(self):
        lock = self.client.lock(new_name(), ttl=1)
        lost = in_thread(lock.__enter__)
        lock.break_()
        wait_until('it is lost', lambda: lost.lost)
        held = in_thread(lock.__enter__)
        with self.assertRaises(dlock.LostError):
            in_thread(lock.__exit__, None, None, None)
        self.assertEqual(held.state, 'held')
        in_thread(lock.__exit__, None, None, None)
        self.assertEqual(held.state, 'released')

    def test_a_block_that_nobody_entered_is_not_held(self):
        with self.assertRaises(dlock.NotHeldError):
            self.lock.__exit__(None, None, None)
        lock = self.client.rlock(new_name())    # which is its thread's, as threading.RLock
        with lock, self.assertRaises(dlock.NotHeldError):
            in_thread(lock.__exit__, None, None, None)

    def test_threads_that_share_an_object_release_their_own(self):
        errors = []
        inside = []

        def work():
            try:
                for _ in range(200):
                    with self.lock:
                        inside.append(1)
                        if len(inside) != 1:
                            errors.append('overlap')
                        inside.pop()
            except Exception as why:
                errors.append(why)
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
        self.assertEqual(self.lock._holds, [])
        self.assertEqual(self.lock._entered, [])

    def test_an_unfed_lease_is_not_renewed(self):
        lock = self.client.lock(new_name(), renew='fed', ttl=2)
        hold = lock.hold()
        hold.feed()
        wait_until('the lease is over', lambda: hold.lost)
        with self.assertRaises(dlock.LostError):
            hold.feed()


class Guards(OnRedis):
    def setUp(self):
        super().setUp()
        self.steps = []

    def guard(self, **steps):
        def step(name):
            return lambda *args: self.steps.append((name, *args))
        every = {name: step(name) for name in ('prepare', 'run', 'commit', 'undo', 'lost')}
        return dlock.Guard(**{**every, **steps})

    def test_a_guarded_operation_is_committed_with_the_token(self):
        with self.client.lock('guard-1') as held:
            self.assertEqual(held.guard(self.guard(commit=lambda token: token + 1)),
                             held.token + 1)
        self.assertEqual(self.steps, [('prepare',), ('run',)])

    def test_what_fails_is_undone_and_goes_through_unchanged(self):
        def fail():
            raise KeyError('mine')
        with self.client.lock('guard-2') as held:
            with self.assertRaisesRegex(KeyError, 'mine'):
                held.guard(self.guard(run=fail))
            self.assertEqual(self.steps, [('prepare',), ('undo',)])
            self.steps.clear()
            with self.assertRaises(KeyError):
                held.guard(self.guard(prepare=fail))
            self.assertEqual(self.steps, [])

    def test_a_loss_on_the_way_is_undone_and_told(self):
        lock = self.client.lock('guard-3')

        def lose():
            self.other.lock('guard-3').break_()
            try:
                held.verify()
            except dlock.LostError:
                pass
        held = lock.hold()
        with self.assertRaises(dlock.LostError):
            held.guard(self.guard(run=lose))
        self.assertEqual(self.steps, [('prepare',), ('undo',), ('lost',)])

    def test_a_resource_that_refuses_the_token_undoes_it(self):
        def refuse(token):
            raise dlock.LostError('seen a later one')
        with self.client.lock('guard-4') as held:
            with self.assertRaises(dlock.LostError):
                held.guard(self.guard(commit=refuse))
        self.assertEqual(self.steps, [('prepare',), ('run',), ('undo',), ('lost',)])


class Deadlocks(unittest.TestCase):
    """Of locks that are their threads'."""

    def test_two_threads_that_want_each_other_s_lock_and_one_is_told(self):
        with dlock.Client('mem:') as client:
            first, second = client.rlock(new_name('first')), client.rlock(new_name('second'))
            both_have_one = threading.Barrier(2)

            def meet(outer, inner):
                with outer:
                    both_have_one.wait(LIMIT_S)
                    try:
                        with inner:
                            return 'taken'
                    except dlock.errors.DeadlockError as error:
                        return str(error)

            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                there = pool.submit(meet, first, second)
                said = sorted([meet(second, first), there.result(LIMIT_S)])
        self.assertEqual(said[1], 'taken')
        self.assertIn('a deadlock: its holder waits for', said[0])

    def test_an_order_is_learnt_and_what_contradicts_it_is_logged_or_refused(self):
        for how in ('warn', 'error'):
            with self.subTest(how), dlock.Client('mem:', order=how) as client:
                with client.rlock('orders/1'), client.rlock('stock/2'):
                    pass
                with self.assertLogs('dlock', logging.WARNING) as logged, client.rlock('stock/3'):
                    inner = client.rlock('orders/4')
                    if how == 'error':
                        with self.assertRaisesRegex(dlock.errors.DeadlockError,
                                                    "'stock/2' while 'orders/1' was held"):
                            inner.acquire()
                    else:
                        inner.acquire()
                        inner.release()
                    wait_until('a line comes', lambda: logged.records)
                self.assertIn('lock order', logged.output[0])


class Logging(unittest.TestCase):
    def test_log_lines_of_the_library_come_to_logging(self):
        server = Redis()
        self.addCleanup(server.stop)
        with self.assertLogs('dlock', logging.WARNING) as logged:
            with dlock.Client(server.url, log_level='debug', close=0) as client:
                hold = client.lock('logged', ttl=2).hold()
                server.die()
                wait_until('a line comes', lambda: logged.records)
            self.assertEqual(hold.state, 'released')
        self.assertEqual({record.dlock_url for record in logged.records
                          if hasattr(record, 'dlock_url')}, {client.url})

    def test_nothing_is_printed_without_a_handler(self):
        names = [type(handler).__name__ for handler in logging.getLogger('dlock').handlers]
        self.assertIn('NullHandler', names)


class Loops(unittest.TestCase):
    def test_a_sync_lock_works_in_a_thread_of_a_loop(self):
        with dlock.Client('mem:') as client:
            async def use():
                with await asyncio.to_thread(client.lock('x').hold) as held:
                    return held.token
            self.assertGreater(asyncio.run(use()), 0)


if __name__ == '__main__':
    unittest.main()

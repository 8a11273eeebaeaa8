"""Processes, signals, threads and the garbage collector: how what holds a lock comes to its end."""
import contextlib
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import unittest
import warnings
import weakref

import dlock
from world import SHORT_S, new_file, new_name, shared_redis, wait_until

PATIENCE_S = 60


def python(code, *args, **options):
    """Runs a program in a Python of its own."""
    return subprocess.run([sys.executable, '-X', 'dev', '-c', textwrap.dedent(code), *args],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False, **options)


class Program:
    """A Python program that says "ready" and is then sent signals."""

    def __init__(self, code, *args):
        self.process = subprocess.Popen(
            [sys.executable, '-c', textwrap.dedent(code), *args], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.read('ready')

    def read(self, wanted):
        said = self.process.stdout.readline().strip()
        if said != wanted:
            raise AssertionError(f'{said}\n{self.process.communicate()[0]}')

    def end(self):
        said, _ = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, said


class Signals(unittest.TestCase):
    WAITING = '''
        import dlock, sys, threading, signal
        client = dlock.Client(sys.argv[1])
        lock = client.lock(sys.argv[2])
        try:
            threading.Timer(0.05, print, ["ready"], {"flush": True}).start()
            %s
        except KeyboardInterrupt:
            print("interrupted", lock.owned(), flush=True)
    '''

    def interrupted(self, url, wait, lines_up=True):
        name = new_name()
        with dlock.Client(url) as client, client.lock(name):
            program = Program(self.WAITING % wait, url, name)
            if lines_up:
                wait_until('it waits', lambda: client.lock(name).inspect().get('waiters', 1))
            program.process.send_signal(signal.SIGINT)
            code, said = program.end()
            self.assertEqual((code, said.strip()), (0, 'interrupted False'))

    def test_ctrl_c_ends_a_wait_for_a_file(self):
        self.interrupted(new_file(), 'lock.acquire()')

    def test_ctrl_c_ends_a_wait_on_redis(self):
        self.interrupted(shared_redis().url, 'lock.acquire(timeout=600)')

    def test_ctrl_c_ends_a_with_statement_that_waits(self):
        self.interrupted(shared_redis().url, 'lock.__enter__()')

    def test_ctrl_c_ends_a_wait_for_an_idle_lock(self):
        self.interrupted(shared_redis().url, 'lock.wait_idle()', lines_up=False)

    def test_ctrl_c_ends_the_opening_of_a_client(self):
        # A server that takes the connection and never says a word.
        program = Program('''
            import dlock, socket, threading
            listener = socket.create_server(("127.0.0.1", 0))
            try:
                threading.Timer(0.05, print, ["ready"], {"flush": True}).start()
                dlock.Client(f"redis://127.0.0.1:{listener.getsockname()[1]}", connect=600)
            except KeyboardInterrupt:
                print("interrupted", flush=True)
        ''')
        time.sleep(0.1)
        program.process.send_signal(signal.SIGINT)
        self.assertEqual(program.end(), (0, 'interrupted\n'))

    def test_a_handler_that_raises_nothing_ends_no_wait(self):
        name = new_name()
        with dlock.Client('mem:') as client:
            hold = client.lock(name).hold()
            seen = []
            before = signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
            self.addCleanup(signal.signal, signal.SIGUSR1, before)

            def poke():
                for _ in range(5):
                    os.kill(os.getpid(), signal.SIGUSR1)
                    time.sleep(0.02)
                hold.release()
            thread = threading.Thread(target=poke)
            thread.start()
            with client.lock(name):
                thread.join()
            self.assertTrue(seen)

    def test_an_interrupted_acquire_leaves_nothing_behind(self):
        """The alarm may ring anywhere, also between the grant and its being written down."""
        class Rings(Exception):
            pass

        def ring(*_):
            raise Rings
        before = signal.signal(signal.SIGALRM, ring)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        name = new_name()
        with dlock.Client('mem:') as client:
            lock = client.lock(name)
            rang = 0
            for attempt in range(600):
                warnings.simplefilter('ignore', ResourceWarning)
                try:
                    signal.setitimer(signal.ITIMER_REAL, 1e-6 + attempt % 60 * 1e-6)
                    lock.acquire()
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except Rings:
                    rang += 1
                while lock.owned():
                    with contextlib.suppress(Rings):
                        lock.release()
            self.assertGreater(rang, 0)
            client.lock(name).hold(timeout=PATIENCE_S).release()

    def test_what_was_written_down_before_the_interrupt_goes_back_too(self):
        """Nobody was told of it: who catches the interrupt has nothing to release."""
        class Rings(list):
            def append(self, item):
                super().append(item)
                raise KeyboardInterrupt
        with dlock.Client('mem:') as client, warnings.catch_warnings():
            warnings.simplefilter('error', ResourceWarning)
            for written, take in (('_holds', dlock.Lock.acquire), ('_holds', dlock.Lock.hold),
                                  ('_holds', dlock.Lock.__enter__),
                                  ('_entered', dlock.Lock.__enter__)):
                name = new_name()
                lock = client.lock(name)
                setattr(lock, written, Rings())
                with self.subTest(written=written, take=take), \
                        self.assertRaises(KeyboardInterrupt) as caught:
                    take(lock)
                self.assertEqual((lock.owned(), lock._holds, lock._entered), (False, [], []))
                client.lock(name).hold(timeout=PATIENCE_S).release()
                self.assertIsNotNone(caught.exception)   # and it kept nothing meanwhile


class Forks(unittest.TestCase):
    def in_child(self, function):
        """What @function says in a fork's child, as text; "" is fine."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                said = str(function() or '')
            except BaseException as why:
                said = repr(why)
            os.write(write, said.encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as stream:
            said = stream.read()
        _, status = os.waitpid(child, 0)
        self.assertEqual(status, 0)
        return said

    def both(self):
        for url in ('mem:', new_file(), shared_redis().url):
            with self.subTest(url=url), dlock.Client(url) as client:
                yield url, client

    def test_everything_says_forked_in_the_child(self):
        for _, client in self.both():
            lock = client.lock(new_name())
            hold = lock.hold()

            def use(client=client, lock=lock, hold=hold):
                calls = (lock.acquire, lock.release, hold.check, hold.verify, lock.inspect,
                         client.list, lambda: client.lock('other'), client.close, client.stats)
                for number, call in enumerate(calls):
                    try:
                        call()
                        return f'call {number} went through'
                    except dlock.ForkedError:
                        pass
                if (hold.state, hold.token, hold.remaining) != ('lost', 0, 0):
                    return f'{hold!r}'
                return repr(client) and ''
            self.assertEqual(self.in_child(use), '')
            hold.check()
            hold.release()

    def test_a_child_opens_a_client_of_its_own(self):
        for url, client in self.both():
            name = new_name()
            with client.lock(name):
                def use(url=url, name=name):
                    with dlock.Client(url) as own:
                        lock = own.lock(name)
                        held = lock.acquire(timeout=SHORT_S)
                        if held:
                            lock.release()
                        return '' if held == (url == 'mem:') else f'held {held}'
                self.assertEqual(self.in_child(use), '')

    def test_a_childs_end_takes_nothing_from_the_parent(self):
        for _, client in self.both():
            lock = client.lock(new_name())
            with lock as held:
                def collect(lock=lock):
                    warnings.simplefilter('error')
                    del lock
                    gc.collect()
                self.assertEqual(self.in_child(collect), '')
                held.verify()

    def test_a_signal_ends_a_wait_in_a_child_that_a_thread_forked(self):
        class Rings(Exception):
            pass

        def ring(*_):
            raise Rings

        def use():
            signal.signal(signal.SIGALRM, ring)   # its only thread is the main one now
            with dlock.Client('mem:') as client, client.lock('forked'):
                signal.setitimer(signal.ITIMER_REAL, 0.1)
                began = time.monotonic()
                try:
                    client.lock('forked').acquire(timeout=PATIENCE_S)
                except Rings:
                    pass
                return '' if time.monotonic() - began < PATIENCE_S else 'the wait went on'
        said = []
        thread = threading.Thread(target=lambda: said.append(self.in_child(use)))
        thread.start()
        thread.join()
        self.assertEqual(said, [''])

    def test_processes_of_multiprocessing_exclude_each_other(self):
        for start in ('fork', 'spawn'):
            with self.subTest(start=start):
                folder = new_file().removeprefix('file://')
                counter = folder + '.counter'
                with open(counter, 'w', encoding='ascii') as stream:
                    stream.write('0')
                context = multiprocessing.get_context(start)
                workers = [context.Process(target=count_up, args=(f'file://{folder}', counter, 50))
                           for _ in range(3)]
                for worker in workers:
                    worker.start()
                for worker in workers:
                    worker.join()
                self.assertEqual([worker.exitcode for worker in workers], [0, 0, 0])
                with open(counter, encoding='ascii') as stream:
                    self.assertEqual(stream.read(), '150')

    def test_a_prefork_server_opens_its_clients_in_the_workers(self):
        """As gunicorn does: the application is loaded before the fork, used behind it."""
        url = shared_redis().url
        before = dlock.Client(url)
        self.addCleanup(before.close)
        name = new_name()

        def serve():
            with dlock.Client(url) as client, client.lock(name).hold(timeout=PATIENCE_S) as held:
                return held.state
        self.assertEqual([self.in_child(serve) for _ in range(3)], ['held'] * 3)
        before.lock(name).hold(timeout=0).release()

    def test_a_killed_holder_lets_the_next_in(self):
        url = new_file()
        program = Program('''
            import dlock, sys, time
            client = dlock.Client(sys.argv[1])
            hold = client.lock("killed").hold()
            print("ready", flush=True)
            time.sleep(600)
        ''', url)
        with dlock.Client(url) as client:
            held = client.lock('killed').locked()
            program.process.kill()
            program.end()
            self.assertTrue(held)
            client.lock('killed').hold(timeout=PATIENCE_S).release()


def count_up(url, counter, times):
    with dlock.Client(url) as client:
        for _ in range(times):
            with client.lock('counter'):
                with open(counter, encoding='ascii') as stream:
                    number = int(stream.read())
                with open(counter, 'w', encoding='ascii') as stream:
                    stream.write(str(number + 1))


class Ends(unittest.TestCase):
    def ends_well(self, code, *args):
        done = python(code, *args)
        self.assertEqual((done.returncode, done.stdout), (0, 'end\n'), done.stderr)
        return done.stderr

    def test_what_is_open_at_exit_is_released(self):
        url = shared_redis().url
        name = new_name()
        self.ends_well('''
            import dlock, sys
            client = dlock.Client(sys.argv[1])
            lock = client.lock(sys.argv[2])
            lock.acquire()
            print("end")
        ''', url, name)
        with dlock.Client(url) as client:
            client.lock(name).hold(timeout=0).release()

    def ends_beside_waiting_daemons(self, count, wait):
        return self.ends_well(f'''
            import dlock, sys, threading, time
            client = dlock.Client(sys.argv[1])
            lock = client.lock("held")
            lock.acquire()
            started = []
            def wait():
                started.append(1)
                {wait}
            for _ in range({count}):
                threading.Thread(target=wait, daemon=True).start()
            while len(started) < {count}:
                time.sleep(0.001)
            print("end")
        ''', shared_redis().url)

    def test_daemon_threads_that_wait_at_exit_do_no_harm(self):
        self.ends_beside_waiting_daemons(4, '''try:
                    lock.acquire()
                except dlock.ClosedError:
                    pass''')

    def test_daemon_threads_that_wait_at_exit_print_nothing(self):
        self.assertEqual(self.ends_beside_waiting_daemons(8, 'lock.acquire()'), '')

    def test_things_may_be_deleted_while_the_interpreter_ends(self):
        self.ends_well('''
            import dlock, sys
            class Late:
                def __init__(self, *things):
                    self.things = things
                def __del__(self):
                    for thing in self.things:
                        try:
                            thing.release()
                        except Exception:
                            pass
                    del self.things
            client = dlock.Client(sys.argv[1])
            lock = client.lock("late")
            late = Late(lock.hold(), lock)
            sys.late = late
            late.itself = late
            print("end")
        ''', 'mem:')

    def test_callbacks_at_exit_do_no_harm(self):
        self.ends_well('''
            import dlock, sys
            client = dlock.Client(sys.argv[1])
            hold = client.lock("callback").hold()
            hold.on_lost(lambda which: print("lost"))
            hold.on_revoke(print)
            print("end")
        ''', shared_redis().url)


class Collected(unittest.TestCase):
    def test_a_leaked_hold_warns_and_is_released(self):
        for url in ('mem:', shared_redis().url):
            with self.subTest(url=url), dlock.Client(url) as client:
                name = new_name()
                hold = client.lock(name).hold()
                with self.assertWarnsRegex(ResourceWarning, f'{name}.*never released'):
                    del hold
                client.lock(name).hold(timeout=PATIENCE_S).release()

    def test_a_leaked_lock_that_holds_warns_at_once(self):
        with dlock.Client('mem:') as client:
            lock = client.lock(new_name())
            lock.acquire()
            with self.assertWarns(ResourceWarning):
                del lock

    def test_a_leaked_client_warns_and_is_closed(self):
        threads = threading.active_count()
        client = dlock.Client('mem:')
        core = weakref.ref(client._core)
        with self.assertWarnsRegex(ResourceWarning, 'mem:.*never closed'):
            del client
        wait_until('its thread is gone', lambda: threading.active_count() <= threads)
        wait_until('its memory is gone', lambda: core() is None)

    def test_what_is_released_and_closed_warns_of_nothing(self):
        with warnings.catch_warnings():
            warnings.simplefilter('error')
            for _ in range(3):
                client = dlock.Client('mem:')
                with client.lock('x') as held:
                    held.on_lost(print)
                client.close()
                del client, held
                gc.collect()

    def test_locks_are_usable_when_only_they_are_left(self):
        lock = dlock.Client('mem:').lock('alone')
        with lock as held:
            held.check()
        lock.client.close()

    def test_many_pairs_leave_no_memory_behind(self):
        with dlock.Client('mem:') as client:
            def pairs(count):
                for number in range(count):
                    with client.lock(f'memory/{number % 100}') as held:
                        held.on_lost(print)
                    self.assertTrue(held.token)
                gc.collect()
                return resident_kib()
            pairs(3000)
            before = pairs(3000)
            after = pairs(12000)
            self.assertLess(after - before, 2048, 'KiB in 12,000 pairs')
            self.assertEqual(client._core.handlers, {})


class Threads(unittest.TestCase):
    def test_a_wait_lets_other_threads_run(self):
        """If one kept the GIL, the release would never come, and the test never end."""
        for url in ('mem:', new_file(), shared_redis().url):
            with self.subTest(url=url), dlock.Client(url) as client:
                lock = client.lock(new_name())
                hold = lock.hold()
                waiters = [threading.Thread(target=lambda lock=lock: lock.hold().release())
                           for _ in range(8)]
                for waiter in waiters:
                    waiter.start()
                for _ in range(3):
                    time.sleep(0.01)   # lets each of them begin to wait
                self.assertTrue(all(waiter.is_alive() for waiter in waiters))
                hold.release()
                for waiter in waiters:
                    waiter.join()


def resident_kib():
    with open('/proc/self/status', encoding='ascii') as stream:
        return next(int(line.split()[1]) for line in stream if line.startswith('VmRSS'))


if __name__ == '__main__':
    unittest.main()

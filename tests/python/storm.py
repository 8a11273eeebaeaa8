"""Threads, tasks and forked processes that want the same ten locks: storm.py URL SECS SEED.

64 threads and 1,000 tasks of one process, and four processes forked from it, of which one after the
other is interrupted (Ctrl-C) or killed and replaced; tasks are cancelled all the time. Whoever has
a lock visits a resource in shared memory, which refuses tokens below the largest it has seen.
Prints one line of JSON: what was done, and what must not have been.
"""
import asyncio
import gc
import json
import mmap
import os
import random
import signal
import sys
import threading
import time

import dlock
import dlock.aio

NAMES, THREADS, TASKS, PROCESSES = 10, 64, 1000, 4
SETTINGS = {'ttl': 5, 'retry': 0.02, 'log_level': 'error'}
# Words of a name, of the visitors' processes, and of what is counted.
INSIDE, UNTIL_NS, LARGEST, WORDS = 0, 1, 2, 3
KILLED = NAMES * WORDS
COUNTS = KILLED + 1024
VISITS, OVERLAPS, REFUSED, LOST, INTERRUPTED = range(5)


class Resource:
    """Shared by all processes. A number has one writer at a time as long as the locks are right."""

    def __init__(self):
        self.words = memoryview(mmap.mmap(-1, 65536)).cast('q')
        self.counts = COUNTS   # each process counts in a row of its own

    def count(self, what):
        self.words[self.counts + what] += 1

    def sums(self):
        rows = range(COUNTS, len(self.words) - 8, 8)
        return [sum(self.words[row + what] for row in rows) for what in range(5)]

    def visit(self, number, seat, held):
        """@seat: which process it is; 0 never dies."""
        words, at = self.words, number * WORDS
        if held.token < words[at + LARGEST]:
            self.count(REFUSED)
            return
        someone = words[at + INSIDE]
        if someone and not words[KILLED + someone - 1] and \
                time.monotonic_ns() < words[at + UNTIL_NS]:
            self.count(OVERLAPS)
        if held.token == words[at + LARGEST]:
            self.count(OVERLAPS)   # two grants with one token
        words[at + LARGEST] = held.token
        words[at + UNTIL_NS] = time.monotonic_ns() + int(held.remaining * 1e9)
        words[at + INSIDE] = seat + 1
        self.count(VISITS)

    def leave(self, number, seat):
        if self.words[number * WORDS + INSIDE] == seat + 1:
            self.words[number * WORDS + INSIDE] = 0


class Storm:
    def __init__(self, url, secs, seed):
        self.url, self.seed = url, seed
        self.end = time.monotonic() + secs
        self.resource = Resource()
        self.mutex = threading.Lock()   # for the counts of this process' threads and tasks

    def goes_on(self):
        return time.monotonic() < self.end

    # ---- forked processes ----

    def keep_forking(self):
        """Has PROCESSES workers at a time; every now and then one of them ends badly."""
        chance, seat, workers = random.Random(self.seed), 1, {}
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])   # till a worker can take it
        while self.goes_on():
            while len(workers) < PROCESSES:
                pid = os.fork()
                if pid == 0:
                    self.be_worker(seat)
                workers[pid] = seat
                seat += 1
            time.sleep(0.1 + 0.3 * chance.random())
            pid = chance.choice(list(workers))
            if chance.random() < 0.75:
                os.kill(pid, signal.SIGINT)
                continue
            self.resource.words[KILLED + workers.pop(pid)] = 1
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        for pid in workers:
            if os.waitpid(pid, 0)[1] != 0:
                os._exit(1)
        os._exit(0)

    def be_worker(self, seat):
        def unraisable(what, say=sys.unraisablehook):
            """An interrupt in the midst of a finalizer ends there: Python can't do better."""
            if what.exc_type is not KeyboardInterrupt:
                say(what)

        status = 1
        try:
            sys.unraisablehook = unraisable
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
            self.resource.counts = COUNTS + 8 * seat
            chance = random.Random(self.seed * 1000 + seat)
            with dlock.Client(self.url, **SETTINGS) as client:
                while True:
                    try:
                        while self.goes_on():
                            self.work_once(client, seat, chance)
                        break
                    except KeyboardInterrupt:
                        self.resource.count(INTERRUPTED)
                status = 0 if self.nothing_held(client) else 2
            # One that comes when the time is over mustn't get behind what catches it here.
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        except KeyboardInterrupt:
            status = 0   # while it was being closed
        finally:
            sys.stderr.flush()
            os._exit(status)

    def work_once(self, client, seat, chance):
        number = chance.randrange(NAMES)
        try:
            with client.lock(f'storm/{number}').hold(timeout=0.5 * chance.random()) as held:
                signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
                try:
                    self.resource.visit(number, seat, held)
                    self.resource.leave(number, seat)
                finally:
                    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        except (dlock.AcquireTimeout, dlock.UnknownOutcomeError):
            pass
        except dlock.LostError:
            self.resource.count(LOST)

    @staticmethod
    def nothing_held(client):
        """What was interrupted is given back as soon as nobody refers to it any more."""
        gc.collect()
        end = time.monotonic() + 60
        while client.stats()['names'] > 0 and time.monotonic() < end:
            time.sleep(0.01)
        return client.stats()['names'] == 0

    # ---- threads ----

    def be_thread(self, client, number):
        chance = random.Random(self.seed * 100 + number)
        while self.goes_on():
            name = chance.randrange(NAMES)
            try:
                with client.lock(f'storm/{name}').hold(timeout=chance.random()) as held:
                    self.visit(name, held)
            except (dlock.AcquireTimeout, dlock.UnknownOutcomeError):
                pass
            except dlock.LostError:
                self.count(LOST)

    def visit(self, name, held):
        with self.mutex:
            self.resource.visit(name, 0, held)
        with self.mutex:
            self.resource.leave(name, 0)

    def count(self, what):
        with self.mutex:
            self.resource.count(what)

    # ---- tasks ----

    async def be_task(self, client, number):
        chance = random.Random(self.seed * 10000 + number)
        while self.goes_on():
            name = chance.randrange(NAMES)
            try:
                async with client.lock(f'storm/{name}') as held:
                    self.visit(name, held)
                    await asyncio.sleep(0)
            except asyncio.CancelledError:
                asyncio.current_task().uncancel()
            except dlock.UnknownOutcomeError:
                pass
            except dlock.LostError:
                self.count(LOST)

    async def all_tasks(self):
        cancelled, chance = 0, random.Random(self.seed)
        async with dlock.aio.Client(self.url, **SETTINGS) as client:
            tasks = [asyncio.create_task(self.be_task(client, i)) for i in range(TASKS)]
            while self.goes_on():
                for task in chance.sample(tasks, 20):
                    cancelled += task.cancel()
                await asyncio.sleep(0.01)
            over, hanging = await asyncio.wait(tasks, timeout=120)
            for task in over:
                if not task.cancelled():   # it was, before its first step
                    task.result()
            waiting = len(client._core.handlers)
        return {'cancelled': cancelled, 'waiting': waiting + len(hanging)}

    # ---- all ----

    def run(self):
        forker = os.fork()
        if forker == 0:
            self.keep_forking()
        with dlock.Client(self.url, **SETTINGS) as client:
            threads = [threading.Thread(target=self.be_thread, args=(client, i))
                       for i in range(THREADS)]
            for thread in threads:
                thread.start()
            said = asyncio.run(self.all_tasks())
            for thread in threads:
                thread.join()
            held = not self.nothing_held(client)
            died = os.waitstatus_to_exitcode(os.waitpid(forker, 0)[1])
            left = [name for name in range(NAMES) if not self.is_free(client, name)]
        visits, overlaps, refused, lost, interrupted = self.resource.sums()
        return {**said, 'visits': visits, 'overlaps': overlaps, 'refused': refused, 'lost': lost,
                'interrupted': interrupted, 'left': left, 'workers_failed': died, 'held': held,
                'killed': sum(self.resource.words[KILLED:COUNTS])}

    @staticmethod
    def is_free(client, name):
        """A lock whose holder was killed is free when its lease is over."""
        try:
            with client.lock(f'storm/{name}').hold(timeout=60):
                return True
        except dlock.DlockError:
            return False


if __name__ == '__main__':
    print(json.dumps(Storm(sys.argv[1], float(sys.argv[2]), int(sys.argv[3])).run()))

"""Ten thousand tasks that wait on one loop cost memory, and no threads."""
import asyncio
import gc
import os
import unittest

import dlock.aio
from world import LIMIT_S, new_name, shared_redis

MANY = 10_000
PAGE = os.sysconf('SC_PAGE_SIZE')


def threads():
    return len(os.listdir('/proc/self/task'))


def resident():
    with open('/proc/self/statm', encoding='ascii') as file:
        return int(file.read().split()[1]) * PAGE


class Crowd(unittest.TestCase):
    def crowd(self, url, locks):
        """All wait, for one lock or for several; then all are served."""
        async def scene():
            served = 0
            async with dlock.aio.Client(url) as client:
                names = [client.lock(new_name()) for _ in range(locks)]
                holds = [await lock.hold() for lock in names]
                gc.collect()
                base_threads, base_memory = threads(), resident()

                async def wait(lock):
                    nonlocal served
                    async with lock:
                        served += 1

                loop = asyncio.get_running_loop()
                began = loop.time()
                tasks = [asyncio.create_task(wait(names[i % locks])) for i in range(MANY)]
                while len(client._core.handlers) < MANY:
                    await asyncio.sleep(0.01)
                started, waiting = loop.time() - began, threads()
                memory = (resident() - base_memory) / MANY
                began = loop.time()
                for hold in holds:
                    await hold.release()
                await asyncio.gather(*tasks)
                took = loop.time() - began
            print(f'# {url.split(":")[0]}, {locks} locks: {MANY} waiting tasks, {waiting} threads '
                  f'(before: {base_threads}), {memory:.0f} bytes of memory each; started in '
                  f'{started:.2f} s, served in {took:.2f} s')
            self.assertEqual(served, MANY)
            self.assertLessEqual(waiting, base_threads + 2)

        asyncio.run(asyncio.wait_for(scene(), 2 * LIMIT_S))

    def test_ten_thousand_tasks_wait_for_one_lock_in_memory(self):
        self.crowd('mem:crowd', 1)

    def test_ten_thousand_tasks_wait_for_a_hundred_locks_in_memory(self):
        self.crowd('mem:crowd', 100)

    def test_ten_thousand_tasks_wait_for_a_hundred_locks_on_redis(self):
        self.crowd(shared_redis().url, 100)

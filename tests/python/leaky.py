"""What test_leaks.py runs under valgrind: leaky.py URL TIMES [plant]. All that allocates, so many
times; with a last word something is lost on purpose."""
import asyncio
import contextlib
import ctypes
import gc
import sys

import dlock
import dlock.aio
from dlock import _native as native

URL, TIMES = sys.argv[1], int(sys.argv[2])


def threads():
    with dlock.Client(URL) as client:
        for number in range(TIMES):
            lock = client.lock(f'leaky/{number % 7}', ttl=30)
            with lock as held:
                held.on_lost(print)
                lock.acquire(blocking=False)
                with contextlib.suppress(dlock.AcquireTimeout):
                    lock.hold(timeout=0.001)
            with contextlib.suppress(dlock.NotHeldError):
                lock.release()
            with contextlib.suppress(dlock.ConfigError):
                client.lock('leaky', ttl=-1)
            with client.multi([f'leaky/{number % 7}', 'leaky/other']):
                lock.inspect()
            client.stats()


async def tasks():
    async with dlock.aio.Client(URL) as client:
        lock = client.lock('leaky')
        for _ in range(TIMES):
            async with lock as held:
                held.on_lost(print)
                waits = [asyncio.create_task(lock.acquire()) for _ in range(5)]
                await asyncio.sleep(0)
                for wait in waits:
                    wait.cancel()
                await asyncio.wait(waits)
                with contextlib.suppress(dlock.AcquireTimeout):
                    await lock.hold(timeout=0.001)


threads()
asyncio.run(tasks())
if len(sys.argv) > 3:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(native.conf_new()))
gc.collect()

"""A peer of libdlock's on Redis: takes locks with redis-py, as told line by line. What the lines
are stands in ../peers.py.

    peer.py PORT TTL_MS

Each slot is a thread with an event loop of its own, in which both halves of the library, the
blocking one and the asynchronous one, are at home. A lease of 0 is a lock without an end.
"""
import asyncio
import inspect
import os
import queue
import random
import sys
import threading
import time

import redis
import redis.asyncio

PATIENCE_MS = 120_000


async def result_of(call):
    """The answer of either half."""
    return await call if inspect.isawaitable(call) else call


class Slot:
    """One owner of locks; does what it is told in that order."""

    def __init__(self, name, port):
        self.name = name
        self.clients = {'redis-py': redis.Redis(port=port),
                        'redis-py-asyncio': redis.asyncio.Redis(port=port)}
        self.holds = []
        self.lines = queue.SimpleQueue()
        threading.Thread(target=asyncio.run, args=(self.run(),), daemon=True).start()

    async def run(self):
        while True:
            words = self.lines.get().split(' ')
            try:
                answer = await getattr(self, words[0])(*words[1:])
            except Exception as why:  # whatever it is, whoever told us wants to hear of it
                answer = f'error {type(why).__name__}: {why}'
            print(f'{self.name} {answer}\n', end='', flush=True)

    async def take(self, kind, name, ttl, wait):
        lock = self.clients[kind].lock(name, timeout=int(ttl) / 1000 or None, sleep=0.02,
                                       thread_local=False)
        got = await result_of(lock.acquire(blocking=wait != '0',
                                           blocking_timeout=int(wait) / 1000))
        if not got:
            return 'no'
        self.holds.append(lock)
        return f'ok 0 {lock.local.token.decode()}'

    async def release(self):
        await result_of(self.holds.pop().release())
        return 'ok'

    async def contend(self, kinds, name, ttl, path, length):
        """Takes the kinds in turn until the time is over, and at least once; notes each entry."""
        kinds, rounds = kinds.split(','), 0
        end = time.monotonic() + int(length) / 1000
        log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        while rounds == 0 or time.monotonic() < end:
            kind = kinds[rounds % len(kinds)]
            self.note(log, '?', kind)
            if await self.take(kind, name, ttl, PATIENCE_MS) == 'no':
                return 'error waited in vain'
            self.note(log, '+', kind)
            await asyncio.sleep(random.randrange(3) / 1000)
            self.note(log, '-', kind)
            await self.release()
            await asyncio.sleep(random.randrange(3) / 1000)
            rounds += 1
        os.close(log)
        return f'ok {rounds}'

    def note(self, log, what, kind):
        """One write to a file opened for appending: the lines of all have one order."""
        os.write(log, f'{what} {self.name} {kind} 0 {time.time() * 1000:.0f}\n'.encode())


def main():
    slots = {}
    print('ready ok', flush=True)
    for line in sys.stdin:
        name, _, rest = line.strip().partition(' ')
        if name not in slots:
            slots[name] = Slot(name, int(sys.argv[1]))
        slots[name].lines.put(rest)
    os._exit(0)  # as who dies: nothing is released


if __name__ == '__main__':
    main()

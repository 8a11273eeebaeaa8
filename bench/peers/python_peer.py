"""What is written in Python, libdlock's own package included; see bench/peers.py for what is said.

python_peer.py PORT LIBRARY PAGE TTL_MS BASE
"""
import asyncio
import json
import os
import sys
import time

from redis_py_peer import MEASURED, OVER, Page, Race, WARMING

STRING = {'redis_layout': 'string'}


class Threads:
    """Locks of one client, used by threads."""

    def __init__(self, page, base):
        self.page, self.base = Page(page), base

    def obey(self, what, threads, secs, hold_ms='0'):
        if what not in ('pairs', 'one-name'):
            raise ValueError(f'no such command: {what}')
        race = Race(self, int(threads), what == 'one-name', float(hold_ms) / 1000)
        print('ready', flush=True)
        if not sys.stdin.readline():
            sys.exit(0)
        return race.run(float(secs))


class Dlock(Threads):
    def __init__(self, url, page, ttl, base, **settings):
        import dlock
        super().__init__(page, base)
        self.client, self.ttl = dlock.Client(url, **settings), ttl

    def lock(self, name):
        return self.client.lock(name, ttl=self.ttl)


class RedisPy(Threads):
    def __init__(self, port, page, ttl, base):
        import redis
        super().__init__(page, base)
        self.client, self.ttl = redis.Redis(port=port), ttl

    def lock(self, name):
        return self.client.lock(name, timeout=self.ttl)


class FileLocks(Threads):
    def lock(self, name):
        import filelock
        path = os.path.join(os.path.dirname(self.page.path), name.replace('/', '-'))
        return filelock.FileLock(path, thread_local=False)


class Kazoo(Threads):
    def __init__(self, port, page, ttl, base):
        import kazoo.client
        super().__init__(page, base)
        self.client = kazoo.client.KazooClient(f'127.0.0.1:{port}', timeout=ttl)
        self.client.start(60)

    def lock(self, name):
        return self.client.Lock(f'/{name}')


class Tasks:
    """Locks of one client, used by tasks of one event loop."""

    def __init__(self, page, base):
        self.page, self.base = Page(page), base

    def obey(self, what, tasks, secs):
        if what != 'pairs':
            raise ValueError(f'no such command: {what}')
        return asyncio.run(self.race(int(tasks), float(secs)))

    async def race(self, count, secs):
        async with self.open() as client:
            self.phase, self.done = WARMING, [0] * count
            locks = [self.lock(client, f'peer/{number}') for number in range(count)]
            for lock in locks:
                await lock.acquire()
                await lock.release()
            print('ready', flush=True)
            if not sys.stdin.readline():
                sys.exit(0)
            tasks = [asyncio.create_task(self.work(number, lock))
                     for number, lock in enumerate(locks)]
            await asyncio.sleep(secs / 10)
            self.phase = MEASURED
            before, start = self.done[:], time.perf_counter()
            await asyncio.sleep(secs)
            each = [now - then for now, then in zip(self.done[:], before)]
            took = time.perf_counter() - start
            self.phase = OVER
            await asyncio.gather(*tasks)
        return {'rate': sum(each) / took, 'secs': took, 'done': sum(each),
                'total': sum(self.done), 'least': min(each), 'most': max(each)}

    async def work(self, number, lock):
        page, who = self.page, self.base + number + 1
        while self.phase != OVER:
            await lock.acquire()
            page.enter(number, who)
            page.exit(number)
            await lock.release()
            self.done[number] += 1


class AioDlock(Tasks):
    def __init__(self, url, page, ttl, base, **settings):
        super().__init__(page, base)
        self.url, self.ttl, self.settings = url, ttl, settings

    def open(self):
        import dlock.aio
        return dlock.aio.Client(self.url, **self.settings)

    def lock(self, client, name):
        return client.lock(name, ttl=self.ttl)


class AioRedisPy(Tasks):
    def __init__(self, port, page, ttl, base):
        super().__init__(page, base)
        self.port, self.ttl = port, ttl

    def open(self):
        import redis.asyncio
        return redis.asyncio.Redis(port=self.port, max_connections=256)

    def lock(self, client, name):
        return client.lock(name, timeout=self.ttl)


def make(library, port, page, ttl, base):
    redis, file = f'redis://127.0.0.1:{port}', f'file://{os.path.dirname(page)}/python'
    makers = {
        'dlock': lambda: Dlock(redis, page, ttl, base, **STRING),
        'dlock file': lambda: Dlock(file, page, ttl, base),
        'dlock mem': lambda: Dlock('mem:', page, ttl, base),
        'dlock.aio': lambda: AioDlock(redis, page, ttl, base, **STRING),
        'dlock.aio release=async': lambda: AioDlock(redis, page, ttl, base, release='async',
                                                    **STRING),
        'redis-py 8': lambda: RedisPy(port, page, ttl, base),
        'redis-py asyncio': lambda: AioRedisPy(port, page, ttl, base),
        'kazoo': lambda: Kazoo(port, page, ttl, base),
        'filelock': lambda: FileLocks(page, base),
    }
    return makers[library]()


def main():
    port, library, page, ttl_ms, base = sys.argv[1:]
    peer = make(library, int(port), page, int(ttl_ms) / 1000, int(base))
    for line in sys.stdin:
        print(json.dumps(peer.obey(*line.split())), flush=True)


if __name__ == '__main__':
    main()

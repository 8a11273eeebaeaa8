"""redis-py, which bench/run measures libdlock beside; see bench/peers.py for what is said.

redis_py_peer.py PORT redis-py PAGE TTL_MS BASE
"""
import json
import mmap
import sys
import threading
import time

SPOT = 8  # 64-bit words: inside, last, entries, overlaps, and room, as bench.h has it
INSIDE, LAST, ENTRIES, OVERLAPS = range(4)
STARTING, WARMING, MEASURED, OVER = range(4)


class Page:
    def __init__(self, path):
        self.path = path
        with open(path, 'r+b') as file:
            self.words = memoryview(mmap.mmap(file.fileno(), 0)).cast('q')

    def enter(self, spot, who):
        """Says whether the holder before was somebody else."""
        words, at = self.words, spot * SPOT
        if words[at + INSIDE]:
            words[at + OVERLAPS] += 1
        words[at + INSIDE] = who
        changed = words[at + LAST] != who
        words[at + LAST] = who
        words[at + ENTRIES] += 1
        return changed

    def exit(self, spot):
        self.words[spot * SPOT + INSIDE] = 0


class Race:
    """So many workers that take and release: each a name of its own, or all the same one."""

    def __init__(self, peer, threads, one_name, hold_secs):
        self.peer, self.one_name, self.hold_secs = peer, one_name, hold_secs
        self.phase = STARTING
        self.done, self.changes = [0] * threads, [0] * threads
        self.waits = []
        self.ready, self.began = threading.Semaphore(0), threading.Event()
        self.threads = [threading.Thread(target=self.work, args=(i,)) for i in range(threads)]
        for thread in self.threads:
            thread.start()
        for _ in self.threads:
            self.ready.acquire()

    def work(self, number):
        peer, one_name = self.peer, self.one_name
        lock = peer.lock('bench/0' if one_name else f'peer/{number}')
        spot, who = 0 if one_name else number, peer.base + number + 1
        if not one_name:
            lock.acquire()  # so that the connection is there
            lock.release()
        self.ready.release()
        self.began.wait()
        while self.phase != OVER:
            asked = time.perf_counter()
            lock.acquire()
            changed = peer.page.enter(spot, who)
            if one_name:
                self.took(number, time.perf_counter() - asked, changed)
            peer.page.exit(spot)
            lock.release()
            self.done[number] += 1

    def took(self, number, waited, changed):
        if self.phase != WARMING:
            self.waits.append(waited)
        self.changes[number] += changed
        if self.hold_secs:
            time.sleep(self.hold_secs)

    def run(self, secs):
        self.phase = WARMING
        self.began.set()
        time.sleep(secs / 10)
        self.phase = MEASURED
        before, changes, start = self.done[:], sum(self.changes), time.perf_counter()
        time.sleep(secs)
        each = [after - now for after, now in zip(self.done[:], before)]
        changes, took = sum(self.changes) - changes, time.perf_counter() - start
        self.phase = OVER
        for thread in self.threads:
            thread.join()
        return self.result(each, changes, took)

    def result(self, each, changes, secs):
        one_name, waits = self.one_name, sorted(self.waits) or [0]
        done = changes if one_name else sum(each)
        return {
            'rate': done / secs, 'secs': secs, 'done': done,
            'total': sum(self.changes if one_name else self.done), 'grants': sum(self.done),
            'grants_rate': sum(each) / secs, 'changes': changes, 'least': min(each),
            'most': max(each), 'p50_us': waits[len(waits) // 2] * 1e6,
            'p99_us': waits[int(len(waits) * 0.99)] * 1e6, 'max_us': waits[-1] * 1e6,
        }


class Peer:
    def __init__(self, port, page, ttl_ms, base):
        import redis
        self.redis = redis.Redis(port=port)
        self.page, self.ttl, self.base = Page(page), ttl_ms / 1000, base

    def lock(self, name):
        return self.redis.lock(name, timeout=self.ttl)

    def obey(self, what, threads, secs, hold_ms='0'):
        if what not in ('pairs', 'one-name'):
            raise ValueError(f'no such command: {what}')
        race = Race(self, int(threads), what == 'one-name', float(hold_ms) / 1000)
        print('ready', flush=True)
        if not sys.stdin.readline():
            sys.exit(0)
        return race.run(float(secs))


def main():
    port, _, page, ttl_ms, base = sys.argv[1:]
    peer = Peer(int(port), page, int(ttl_ms), int(base))
    for line in sys.stdin:
        print(json.dumps(peer.obey(*line.split())), flush=True)


if __name__ == '__main__':
    main()

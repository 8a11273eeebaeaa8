"""libdlock's Python package in the fleet: contends as tests/interop/peers.py says.

    python_worker.py PORT TTL_MS
"""
import os
import queue
import random
import sys
import threading
import time

import dlock

PATIENCE_S = 0.3


class Slot(threading.Thread):
    """One owner of locks; does what it is told in that order."""

    def __init__(self, name, client):
        super().__init__(daemon=True)
        self.name, self.client = name, client
        self.lines = queue.SimpleQueue()
        self.cancelled = False
        self.start()

    def run(self):
        while True:
            words = self.lines.get().split(' ')
            try:
                answer = self.contend(*words[1:])
            except Exception as why:  # whatever it is, whoever told us wants to hear of it
                answer = f'error {type(why).__name__}: {why}'
            print(f'{self.name} {answer}\n', end='', flush=True)

    def contend(self, kind, name, ttl, path, length):
        """Takes it again and again until the time is over, and at least once."""
        log, rounds = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), 0
        end = time.monotonic() + int(length) / 1000
        lock = self.client.lock(name, ttl=int(ttl) / 1000)
        self.cancelled = False
        try:
            while rounds == 0 or time.monotonic() < end:
                self.note(log, '?', kind, 0)
                hold = self.take(lock)
                if hold is None:
                    return 'no'
                self.note(log, '+', kind, hold.token)
                time.sleep(random.randrange(3) / 1000)
                self.note(log, '-', kind, 0)
                hold.release()
                time.sleep(random.randrange(3) / 1000)
                rounds += 1
        finally:
            os.close(log)
        return f'ok {rounds}'

    def take(self, lock):
        while not self.cancelled:
            try:
                return lock.hold(timeout=PATIENCE_S)
            except (dlock.AcquireTimeout, dlock.UnknownOutcomeError):
                pass  # the last request may be unanswered yet; either way nothing is held
        return None

    def note(self, log, what, kind, token):
        """One write to a file opened for appending: the lines of all have one order."""
        line = f'{what} {self.name} {kind} {token} {time.time() * 1000:.0f}\n'
        os.write(log, line.encode())


def main():
    client = dlock.Client(f'redis://127.0.0.1:{sys.argv[1]}?redis.layout=string'
                          '&client.retry_ms=20')
    slots = {}
    print('ready ok', flush=True)
    for line in sys.stdin:
        name, _, rest = line.strip().partition(' ')
        if name not in slots:
            slots[name] = Slot(name, client)
        if rest == 'cancel':
            slots[name].cancelled = True
        else:
            slots[name].lines.put(rest)
    os._exit(0)  # as who dies: nothing is released


if __name__ == '__main__':
    main()

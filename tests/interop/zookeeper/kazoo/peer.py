"""A peer of libdlock's on ZooKeeper: takes locks with kazoo, as told line by line. What the lines
are stands in ../../peers.py.

    peer.py HOSTS SESSION_MS

Each slot is a thread with a client of its own. The kinds "lock-", "write-" and "read-" are kazoo's
own recipes under Curator's names, as a program that shares locks with Curator has to have them.
"""
import os
import queue
import random
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import CancelledError, LockTimeout
from kazoo.recipe.lock import Lock, ReadLock, WriteLock

PATIENCE_MS = 120_000


class CuratorsLock(Lock):
    """Curator's InterProcessMutex."""
    _NODE_NAME = 'lock-'
    _EXCLUDE_NAMES = ['lock-']


class CuratorsWrite(WriteLock):
    """The write half of Curator's InterProcessReadWriteLock."""
    _NODE_NAME = '__WRIT__'
    _EXCLUDE_NAMES = ['__WRIT__', '__READ__']


class CuratorsRead(ReadLock):
    """The read half of it."""
    _NODE_NAME = '__READ__'
    _EXCLUDE_NAMES = ['__WRIT__']


LOCKS = {
    'lock': Lock, 'write': WriteLock, 'read': ReadLock,
    'lock-': CuratorsLock, 'write-': CuratorsWrite, 'read-': CuratorsRead,
    # Those that wait behind Curator's nodes, which Curator doesn't return.
    'lock+': lambda client, path: Lock(client, path, extra_lock_patterns=['lock-']),
    'write+': lambda client, path: WriteLock(
        client, path, extra_lock_patterns=['__WRIT__', '__READ__']),
    'read+': lambda client, path: ReadLock(client, path, extra_lock_patterns=['__WRIT__']),
}


class Slot:
    """One owner of locks; does what it is told in that order."""

    def __init__(self, name, hosts, session_ms):
        self.name = name
        self.client = KazooClient(hosts=hosts, timeout=session_ms / 1000,
                                  connection_retry={'max_tries': -1},
                                  command_retry={'max_tries': -1})
        self.holds = []
        self.waits = None  # the lock whose wait "cancel" ends
        self.lines = queue.SimpleQueue()
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        self.client.start(60)
        while True:
            words = self.lines.get().split(' ')
            try:
                answer = getattr(self, words[0])(*words[1:])
            except CancelledError:
                answer = 'no'
            except Exception as why:  # whatever it is, whoever told us wants to hear of it
                answer = f'error {type(why).__name__}: {why}'
            print(f'{self.name} {answer}\n', end='', flush=True)

    def cancel(self):
        if self.waits:
            self.waits.cancel()

    def make(self, kind, path):
        kind, _, size = kind.partition(':')
        if kind == 'semaphore':
            return self.client.Semaphore(path, self.name, max_leases=int(size))
        return LOCKS[kind](self.client, path)

    def take(self, kind, path, _, wait):
        lock = self.make(kind, path)
        self.waits = lock
        try:
            got = lock.acquire(blocking=wait != '0', timeout=int(wait) / 1000 or None)
        except LockTimeout:
            got = False
        self.waits = None
        if not got:
            return 'no'
        self.holds.append(lock)
        return self.text_of(lock, path)

    def text_of(self, lock, path):
        """The token: when the node was created, in the server's transactions."""
        node = getattr(lock, 'node', None)
        if node is None:
            return 'ok 0 -'
        return f'ok {self.client.exists(f"{path}/{node}").czxid} {path}/{node}'

    def release(self):
        self.holds.pop().release()
        return 'ok'

    def who(self, kind, path):
        """The data of the nodes in the line, in its order."""
        return 'ok ' + ' '.join(text or '-' for text in self.make(kind, path).contenders())

    def contend(self, kinds, path, ttl, log, length):
        """Takes the kinds in turn until the time is over, and at least once; notes each entry."""
        kinds, rounds = kinds.split(','), 0
        end = time.monotonic() + int(length) / 1000
        log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        while rounds == 0 or time.monotonic() < end:
            kind = kinds[rounds % len(kinds)]
            self.note(log, '?', kind, 0)
            answer = self.take(kind, path, ttl, PATIENCE_MS)
            if answer == 'no':
                return 'error waited in vain'
            self.note(log, '+', kind, answer.split(' ')[1])
            time.sleep(random.randrange(3) / 1000)
            self.note(log, '-', kind, 0)
            self.release()
            time.sleep(random.randrange(3) / 1000)
            rounds += 1
        os.close(log)
        return f'ok {rounds}'

    def note(self, log, what, kind, token):
        """One write to a file opened for appending: the lines of all have one order."""
        line = f'{what} {self.name} {kind.rstrip("-+")} {token} {time.time() * 1000:.0f}\n'
        os.write(log, line.encode())


def main():
    slots = {}
    print('ready ok', flush=True)
    for line in sys.stdin:
        name, _, rest = line.strip().partition(' ')
        if name not in slots:
            slots[name] = Slot(name, sys.argv[1], int(sys.argv[2]))
        if rest == 'cancel':
            slots[name].cancel()
        else:
            slots[name].lines.put(rest)
    os._exit(0)  # as who dies: nothing is released


if __name__ == '__main__':
    main()

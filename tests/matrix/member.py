"""One member of the matrix, with libdlock's Python package: it does what it is told on standard
input, a line at a time, and answers each with a line. matrix.py says what the words mean."""
import sys
import threading

import dlock

WAIT_S = 30


class Member:
    def __init__(self):
        self.client = self.waiter = self.outcome = None
        self.locks, self.holds, self.heard = {}, {}, threading.Event()

    def lock_of(self, kind, name):
        client = self.client
        if kind == 'several':
            return client.multi([name, f'{name}-2'])
        if kind in ('read', 'write'):
            return getattr(client.rwlock(name), kind)
        if kind == 'semaphore':
            return client.semaphore(name, 2)
        if kind == 'election':
            return client.election(name, data='member')
        return client.lock(name, **({'fair': True} if kind == 'in-order' else {}))

    def open(self, _slot, uri):
        self.client = dlock.Client(uri)
        return 'open'

    def close(self, _slot):
        self.client.close()
        return 'closed'

    def take(self, slot, kind, name, wait_ms):
        lock = self.lock_of(kind, name)
        self.holds[slot] = lock.hold(timeout=int(wait_ms) / 1000)
        self.locks[slot] = lock
        return 'held'

    def give(self, slot):
        self.holds.pop(slot).release()
        return 'given'

    def leave(self, _slot, kind, name):
        return f'ticket {self.lock_of(kind, name).hold(timeout=0).export()}'

    def import_(self, slot, ticket):
        self.holds[slot] = self.client.import_hold(ticket)
        return 'held'

    def listen(self, slot):
        self.heard.clear()
        self.holds[slot].on_revoke(lambda _hold: self.heard.set())
        return 'listens'

    def hear(self, _slot):
        return 'heard' if self.heard.wait(WAIT_S) else 'failed nobody asked'

    def revoke(self, _slot, kind, name):
        self.lock_of(kind, name).revoke()
        return 'asked'

    def wait(self, slot, name):
        """Answers at once: whoever is to signal may be in this process, too."""
        condition = self.client.condition(self.locks[slot], name)
        self.waiter = threading.Thread(target=self.wait_in_thread, args=(slot, condition))
        self.waiter.start()
        return 'waits'

    def wait_in_thread(self, slot, condition):
        def wait():
            woken = condition.wait(WAIT_S)
            self.holds[slot] = condition.held
            return 'woken' if woken else 'busy'
        self.outcome = outcome_of(wait)

    def woken(self, _slot):
        self.waiter.join()
        return self.outcome

    def signal(self, _slot, name):
        # As of `threading`'s, whoever notifies has a lock; any one does.
        condition = self.client.condition(self.client.lock(f'{name}-lock-of-{id(self)}'), name)
        with condition:
            return f'signalled {condition.notify()}'

    def inspect(self, _slot, kind, name):
        return 'taken' if self.lock_of(kind, name).inspect().get('holders') else 'free'


def outcome_of(call, *words):
    try:
        return call(*words)
    except dlock.NotSupportedError as why:
        return f'no {why}'
    except (dlock.BusyError, dlock.AcquireTimeout):
        return 'busy'
    except Exception as why:  # whatever it is, whoever told us wants to hear of it
        return f'failed {type(why).__name__}: {why}'


def obey(members, what, which, *words):
    member = members.setdefault(which, Member())
    return outcome_of(getattr(member, {'import': 'import_'}.get(what, what)), *words)


def main():
    members = {}
    for line in sys.stdin:
        print(obey(members, *line.split()).replace('\n', ' '), flush=True)


if __name__ == '__main__':
    main()

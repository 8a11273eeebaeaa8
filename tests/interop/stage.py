"""What the tests beside other libraries share: a server, two processes of each side on it, and
how a wait for the other side's release is measured."""
import time

import redis
from peers import PATIENCE_MS, Side
from world import wait_until


# Nobody asks again by itself before this: the holder's lease has so long to go, and ours look so
# seldom. Who waits for less was told of the release.
HELD_MS = 60_000
NO_LUCK = [f'client.poll_ms={HELD_MS}']
TOLD_MS = HELD_MS // 2
QUIET_S = 0.05


class Stage:
    """The server as a client sees it, and the sides."""

    def __init__(self, world, programs):
        """@programs are commands by the names of the sides."""
        self.world = world
        self.client = redis.Redis(port=world.redis.port)
        self.sides = {name: Side(world, name, argv, NO_LUCK if name == 'ours' else ())
                      for name, argv in programs.items()}
        for side in self.sides.values():
            side.await_start()

    def both_ways(self, number=0, one='ours', other='theirs'):
        """An owner of each side, in either order."""
        first, second = self.sides[one].slot(number), self.sides[other].slot(number)
        return [(first, second), (second, first)]

    def questions(self):
        """How often anybody asked for a lock, or to be told of it."""
        stats = self.client.info('commandstats')
        return sum(stats.get(f'cmdstat_{name}', {'calls': 0})['calls']
                   for name in ('eval', 'evalsha', 'set', 'subscribe'))

    def wait_until_it_sleeps(self, waiter, before, polls):
        """Or else it finds the lock free when it looks once more, and needn't be woken. Redisson
        asks, subscribes and asks again; ours too, unless it listens already."""
        needed = 3 if waiter.side == 'theirs' and not polls else 1
        wait_until('the waiter has asked', lambda: self.questions() >= before + needed)
        seen = 0
        while not polls and seen != self.questions():
            seen = self.questions()
            time.sleep(QUIET_S)

    def woken(self, holder, waiter, name, polls):
        """Of each the slot and the kind, of the waiter its lease as well: it waits for the holder's
        release. @polls: nobody tells it. Returns how many ms it waited from then on."""
        (first, held), (second, wanted, wanted_ms) = holder, waiter
        first.take(held, name, HELD_MS)
        first.expect('take')
        second.take(wanted, name, wanted_ms)
        second.expect(f'{wanted} under {held}', 'no')
        before = self.questions()
        second.take(wanted, name, wanted_ms, PATIENCE_MS)
        self.wait_until_it_sleeps(second, before, polls)
        second.still_waits(f'{wanted} under {held} of {first.name}', HELD_MS / 1000)
        began = time.monotonic()
        first.tell('release')
        _, at = second.expect_when(f'{wanted} after {held}')
        second.tell('release')
        assert at - began < TOLD_MS / 1000, f'{second.name} was not woken for {at - began:.1f} s'
        return (at - began) * 1000

    def close(self):
        for side in self.sides.values():
            side.kill()
        self.client.flushall()


def on_stage_of(programs):
    """Makes a decorator of tests: the stage is set by the first of them and stays, until one
    leaves it in disorder."""
    stages = {}

    def decorate(test):
        def run(world):
            if 'it' not in stages:
                stages['it'] = Stage(world, programs)
            try:
                test(stages['it'])
            except Exception:
                stages.pop('it').close()
                raise
        run.__name__ = test.__name__
        return run
    return decorate

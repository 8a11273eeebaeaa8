"""Beside the real redsync and node-redlock on the same five Redis servers: each side excludes the
other, waits for it and takes over from its dead.

    test_redlock.py DLOCK redis SECONDS OURS KIND=COMMAND…

The commands are programs as peers.py describes them; a KIND without a command, or with one that
can't be run here, is left out."""
import sys
import time

import redis
from peers import PATIENCE_MS, TTL_MS, Side, contend, peers_here, started
from world import Redis, main, wait_until

SECONDS, OURS = float(sys.argv[3]), sys.argv[4]
NODES, DEAD_MS = 5, 3000
PEERS = peers_here(sys.argv[5:])


class Stage:
    """Five servers, and two processes of each side on them."""

    def __init__(self, world):
        self.world = world
        self.nodes = [world.redis, *(Redis() for _ in range(NODES - 1))]
        world.where = ','.join(str(node.port) for node in self.nodes)
        self.sides = {name: Side(world, name, argv)
                      for name, argv in {'ours': [OURS], **PEERS}.items()}
        for side in self.sides.values():
            side.await_start()

    def both_ways(self, kind):
        ours, theirs = self.sides['ours'].slot(0), self.sides[kind].slot(0)
        return [(ours, theirs), (theirs, ours)]

    def keys(self):
        """Of locks: who the killed were is told for some minutes longer."""
        return [key for node in self.nodes for key in redis.Redis(port=node.port).keys()
                if not key.startswith(b'dlock_client:')]

    def close(self):
        for side in self.sides.values():
            side.kill()
        for node in self.nodes[1:]:
            node.stop()


STAGES = []


def on_stage(test):
    """The stage is set by the first and stays, until one leaves it in disorder."""
    def run(world):
        if not STAGES:
            STAGES.append(Stage(world))
        try:
            test(STAGES[0])
        except Exception:
            STAGES.pop().close()
            raise
    run.__name__ = test.__name__
    return run


def each(test):
    """One test for each of the others."""
    def bound(kind):
        @on_stage
        def run(stage):
            test(stage, kind)
        run.__name__ = f'{kind}: {test.__name__}'
        return run
    return [bound(kind) for kind in PEERS]


def kind_of(slot):
    """What a side calls it."""
    return 'string' if slot.side == 'ours' else slot.side


@each
def either_side_keeps_the_other_out_until_it_releases(stage, kind):
    for holder, waiter in stage.both_ways(kind):
        name = f'{kind}-pair'
        holder.take(kind_of(holder), name, TTL_MS, PATIENCE_MS)
        holder.expect('take')
        waiter.tell(f'take {kind_of(waiter)} {name} {TTL_MS} 0', 'no')
        waiter.take(kind_of(waiter), name, TTL_MS, PATIENCE_MS)
        time.sleep(0.3)
        waiter.still_waits(f'{name} is {holder.name}\'s', TTL_MS / 1000)
        began = time.monotonic()
        holder.tell('release')
        _, at = waiter.expect_when('the wait')
        waiter.tell('release')
        print(f'# {waiter.side} had it {(at - began) * 1000:.0f} ms after the release')


@each
def four_of_each_side_are_never_two_inside(stage, kind):
    owners = [(stage.sides[side].slot(number), name) for number in range(4)
              for side, name in (('ours', 'string'), (kind, kind))]
    contend(stage.world, owners, f'{kind}-contended', SECONDS, ttl=30_000)


@each
def the_dead_of_either_side_are_taken_over_from_at_the_end_of_their_lease(stage, kind):
    for dead, heir in (('ours', kind), (kind, 'ours')):
        name = f'dead-of-{dead}-for-{heir}'
        victim = started(stage.world, [OURS] if dead == 'ours' else PEERS[dead], DEAD_MS)
        slot = victim.slot(f'{dead}9')
        began = time.monotonic()
        slot.tell(f'take {kind_of(slot)} {name} {DEAD_MS} {PATIENCE_MS}')
        victim.kill()
        next_one = stage.sides[heir].slot(0)
        next_one.take(kind_of(next_one), name, TTL_MS, PATIENCE_MS)
        _, at = next_one.expect_when(f'what {dead} had')
        next_one.tell('release')
        print(f'# {heir} had what the dead of {dead} had {at - began:.1f} s after it was taken')
        assert at - began > DEAD_MS / 1000 * 0.98


@on_stage
def nothing_is_left(stage):
    wait_until('no lock is left', lambda: not stage.keys())
    STAGES.pop().close()


if __name__ == '__main__':
    main([
        *either_side_keeps_the_other_out_until_it_releases,
        *four_of_each_side_are_never_two_inside,
        *the_dead_of_either_side_are_taken_over_from_at_the_end_of_their_lease,
        nothing_is_left,
    ])

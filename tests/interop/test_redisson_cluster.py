"""Beside the real Redisson on a Redis Cluster of three nodes: mutexes, read/write locks and
what else both have exclude the other side, and its release wakes us and ours wakes it, by
SPUBLISH; with redis.publish=both also beside a peer that knows PUBLISH only.

    test_redisson_cluster.py DLOCK file OURS REDISSON [SECONDS]

OURS and REDISSON are programs as peers.py describes them; SECONDS is how long the contenders of
each kind are at it."""
import atexit
import contextlib
import re
import sys
import time
from types import SimpleNamespace

import redis
import tap
from peers import PATIENCE_MS, TTL_MS, Side, contend
from world import Redis, main, wait_until

OURS, REDISSON = sys.argv[3], sys.argv[4]
SECONDS = float(sys.argv[5]) if len(sys.argv) > 5 else 1.5
NODES = 3
SLOTS = 16384
QUIET_S = 0.05
NEVER_MS = 3_600_000

# What excludes what; each name lies on another node than the one before.
PAIRS = [('mutex', 'mutex'), ('fenced', 'fenced'), ('write', 'write'), ('write', 'read'),
         ('read', 'write'), ('fair', 'fair')]
CONTENDED = {'mutex': 'mutex', 'rw': 'read,read,write'}


class Cluster:
    """Its servers, and what they say."""

    def __init__(self):
        self.servers = [self.start() for _ in range(NODES)]
        self.nodes = [redis.Redis(port=server.port) for server in self.servers]
        for number, node in enumerate(self.nodes):
            node.execute_command('CLUSTER', 'ADDSLOTSRANGE', SLOTS * number // NODES,
                                 SLOTS * (number + 1) // NODES - 1)
            node.execute_command('CLUSTER', 'SET-CONFIG-EPOCH', number + 1)
        for server in self.servers[1:]:
            self.nodes[0].execute_command('CLUSTER', 'MEET', '127.0.0.1', server.port,
                                          server.bus)
        wait_until('the cluster is whole', lambda: all(map(self.is_whole, self.nodes)), 120)

    @staticmethod
    def start():
        # The bus's port is not the server's and 10000: that may be over the highest one.
        for bus in range(12_000 + time.monotonic_ns() % 8_000, 32_000):
            with contextlib.suppress(AssertionError):   # it is taken
                server = Redis('--cluster-enabled', 'yes', '--cluster-port', str(bus),
                               '--cluster-announce-ip', '127.0.0.1',
                               '--cluster-node-timeout', str(NEVER_MS))
                server.bus = bus
                return server
        raise tap.Broken('no port for the bus of a node')

    @staticmethod
    def is_whole(node):
        said = node.execute_command('CLUSTER', 'INFO')
        text = said if isinstance(said, str) else str(said)
        return (re.search(r'cluster_known_nodes\W+3\b', text)
                and re.search(r'cluster_state\W+ok', text))

    @property
    def ports(self):
        return [str(server.port) for server in self.servers]

    def questions(self):
        """How often anybody asked for a lock, or to be told of it."""
        return sum(stats.get(f'cmdstat_{name}', {'calls': 0})['calls']
                   for node in self.nodes for stats in (node.info('commandstats'),)
                   for name in ('eval', 'evalsha', 'subscribe', 'ssubscribe'))

    def where(self, name):
        """The number of the node that has it, or None."""
        return next((number for number, node in enumerate(self.nodes)
                     if self.has(node, name)), None)

    @staticmethod
    def has(node, name):
        try:
            return node.exists(name)
        except redis.ResponseError:  # MOVED
            return False

    def stop(self):
        for server in self.servers:
            server.stop()


class Stage:
    """The cluster, two of ours, and two of theirs of which one may know PUBLISH only."""

    def __init__(self, world):
        self.world, self.cluster, self.sides = world, Cluster(), {}

    def begin(self, ours, theirs):
        world = self.world
        hosts = ','.join(f'127.0.0.1:{port}' for port in self.cluster.ports)
        at_ours = SimpleNamespace(where=f'redis+cluster://{hosts}', started=world.started)
        at_theirs = SimpleNamespace(where=','.join(self.cluster.ports), started=world.started)
        # Ours looks by itself so seldom that a message that doesn't come shows.
        settings = '&'.join([f'client.poll_ms={TTL_MS * 3}', *ours])
        self.sides = {'ours': Side(at_ours, 'ours', [OURS], [settings]),
                      'theirs': Side(at_theirs, 'theirs', [REDISSON], theirs)}
        for side in self.sides.values():
            side.await_start()

    def wait_until_it_sleeps(self, before):
        """Redisson asks, subscribes and asks again; so do ours."""
        wait_until('the waiter has asked', lambda: self.cluster.questions() >= before + 2, 60)
        seen = 0
        while seen != self.cluster.questions():
            seen = self.cluster.questions()
            time.sleep(4 * QUIET_S)

    def woken(self, first, held, second, wanted, name):
        first.tell(f'take {held} {name} {NEVER_MS} 0')
        second.take(wanted, name, 0)
        second.expect(f'{wanted} under {held}', 'no')
        before = self.cluster.questions()
        second.take(wanted, name, 0, PATIENCE_MS)
        self.wait_until_it_sleeps(before)
        second.still_waits(f'{wanted} under {held} of {first.name}', NEVER_MS / 1000)
        began = time.monotonic()
        first.tell('release')
        _, at = second.expect_when(f'{wanted} after {held}')
        second.tell('release')
        return (at - began) * 1000


stages = {}


@atexit.register
def end_all():
    """Who uses the servers first: they would go on dialling them, at the cost of the next stage."""
    while stages:
        _, stage = stages.popitem()
        for side in stage.sides.values():
            side.kill()
        stage.cluster.stop()


def stage_of(world, which):
    """Made by the first test that needs it; one at a time."""
    if which not in stages:
        end_all()
        ours = ['redis.publish=both'] if which == 'plain' else []
        stages[which] = Stage(world)   # there before it begins: end_all() ends what has started
        stages[which].begin(ours, ['plain'] if which == 'plain' else [])
    return stages[which]


def on_stage(test):
    """A stage that was left in disorder, and whose programs may be dead, isn't used again."""
    def run(world):
        try:
            test(world)
        except Exception:
            end_all()
            raise
    run.__name__ = test.__name__
    return run


def keeps_out_and_wakes(which, pairs):
    """Each pair both ways, on every node."""
    def test(world):
        stage, seen, worst = stage_of(world, which), set(), {}
        for number, (held, wanted) in enumerate(pairs):
            name = f'pair-{held}-{wanted}'
            ours, theirs = stage.sides['ours'].slot(number), stage.sides['theirs'].slot(number)
            for first, second in ((ours, theirs), (theirs, ours)):
                took = stage.woken(first, held, second, wanted, name)
                worst[second.side] = max(worst.get(second.side, 0), took)
            ours.tell(f'take {held} {name} 0 0')
            seen.add(stage.cluster.where(name))
            ours.tell('release')
        print(f'# ours woke within {worst["ours"]:.0f} ms of their release, theirs within '
              f'{worst["theirs"]:.0f} ms of ours; on nodes {sorted(seen)}')
        # The holder's lease has no end in sight, and nobody looks by itself before these.
        assert max(worst.values()) < TTL_MS * 2, worst
    test.__name__ = f'each_side_keeps_the_other_out_and_its_release_wakes_it_{which}'
    return test


def contended(what, which):
    """Four of each side, as fast as they can."""
    def test(world):
        stage = stage_of(world, which)
        owners = [(side.slot(number), CONTENDED[what])
                  for number in range(4) for side in stage.sides.values()]
        contend(world, owners, f'contended-{what}-{which}', SECONDS)
    test.__name__ = f'four_of_each_side_at_{what}_are_never_too_many_inside_{which}'
    return test


def names_that_redisson_breaks_on_are_refused_by_ours(world):
    slot = stage_of(world, 'sharded').sides['ours'].slot(0)
    for name in ('a{b', 'x{}y', 't}x'):
        told = ' '.join(slot.tell(f'take mutex {name} 0 0', 'error'))
        assert 'hash tag' in told, told


def nothing_is_left_but_counters_of_tokens(world):
    nodes = stage_of(world, 'sharded').cluster.nodes
    wait_until('no lock is left', lambda: not [
        key for node in nodes for key in node.keys('*')
        if not key.startswith((b'redisson_lock_token:', b'dlock_client:'))])


if __name__ == '__main__':
    main([on_stage(test) for test in (
        keeps_out_and_wakes('sharded', PAIRS),
        names_that_redisson_breaks_on_are_refused_by_ours,
        *[contended(what, 'sharded') for what in CONTENDED],
        nothing_is_left_but_counters_of_tokens,
        keeps_out_and_wakes('plain', PAIRS[:5]),
        contended('mutex', 'plain'),
    )])

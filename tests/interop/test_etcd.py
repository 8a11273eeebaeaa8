"""Beside etcd's own package concurrency, the real one, in its layout: mutexes and elections of both
on one name are never two inside, have tokens that rise (an election's in the order in which their
keys were made), wake each other, and leave no key behind; also while leaders and followers of the
cluster are killed and stopped, and its history is compacted.

    test_etcd.py DLOCK file SECONDS MEMBERS OURS GO

OURS and GO are programs as peers.py describes them; SECONDS is how long the contenders of each kind
are at it, on a cluster of MEMBERS: more than one are hurt all the time."""
import itertools
import random
import signal
import subprocess
import sys
import threading
import time

import etcd_server
import tap
from peers import PATIENCE_MS, Program, contend
from world import main, wait_until

SECONDS, MEMBERS = float(sys.argv[3]), int(sys.argv[4])
OURS, GO = [sys.argv[5]], [sys.argv[6]]
TTL_MS = 20_000
PAUSE_S, ELECTION_S = 0.5, 1  # etcd's own time-out of elections
# A wake-up that gets lost shows; a request that a dying member has cut off may take its time.
SETTINGS = ['client.poll_ms=60000&client.timeout_ms=60000']

_clusters = []


def on_cluster(test):
    """The members are started by the first test and stay."""
    def run(world):
        try:
            if not _clusters:
                _clusters.append(etcd_server.Cluster(MEMBERS))
        except tap.Skip as why:
            world.skip = why
            raise
        world.where = _clusters[0].url
        programs = [Program(world, OURS, TTL_MS, SETTINGS), Program(world, GO, TTL_MS)]
        for program in programs:
            program.await_start()
        try:
            test(world, _clusters[0], *programs)
        finally:
            for program in programs:
                program.kill()
    run.__name__ = test.__name__
    return run


class Nemesis(threading.Thread):
    """Hurts the cluster again and again, and lets it recover: each of its hurts in turn."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.cluster, self.over, self.why = cluster, threading.Event(), None
        self.hurts = [self.leader_killed, self.history_compacted, self.follower_killed,
                      self.leader_stopped, self.history_compacted, self.follower_stopped]
        self.done = dict.fromkeys((hurt.__name__ for hurt in self.hurts), 0)
        if len(cluster.members) > 1:
            self.start()

    def run(self):
        try:
            for hurt in itertools.cycle(self.hurts):
                if self.over.wait(PAUSE_S):
                    return
                hurt()
                self.done[hurt.__name__] += 1
        except AssertionError as why:
            self.why = why

    def leader(self):
        return wait_until('a member leads', self.cluster.leader)

    def follower(self):
        leader = self.leader()
        return random.choice([one for one in self.cluster.members if one is not leader])

    def leader_killed(self):
        self.killed(self.leader())

    def follower_killed(self):
        self.killed(self.follower())

    def leader_stopped(self):
        self.stopped(self.leader())

    def follower_stopped(self):
        self.stopped(self.follower())

    def killed(self, victim):
        victim.kill()
        time.sleep(random.uniform(0, ELECTION_S))
        victim.launch()
        self.cluster.await_member(victim)

    def stopped(self, victim):
        """For less than it takes the others to elect another leader, or for longer."""
        victim.process.send_signal(signal.SIGSTOP)
        time.sleep(random.uniform(0, 3 * ELECTION_S))
        victim.process.send_signal(signal.SIGCONT)
        self.cluster.await_member(victim)

    def history_compacted(self):
        """Who watches from an older revision is told that it is gone."""
        self.cluster.compact()

    def end(self):
        self.over.set()
        if self.ident:
            self.join()
            print('# meanwhile:', ', '.join(f'{count} × {what.replace("_", " ")}'
                                             for what, count in self.done.items()))
            assert self.why or all(self.done.values()), f'not hurt in each way: {self.done}'
        if self.why:
            raise self.why


def one_waits_for_the_other(kind):
    @on_cluster
    def test(_world, cluster, ours, go):
        path = f'pairs/{kind}'
        slots = ours.slot('ours0'), go.slot('go0')
        for first, second in (slots, slots[::-1]):
            first.tell(f'take {kind} {path} 0 {PATIENCE_MS}')
            second.take(kind, path, 0, PATIENCE_MS)
            wait_until('both stand in the line', lambda: len(cluster.keys(f'{path}/')) == 2)
            time.sleep(0.1)
            second.still_waits(f'{first.name} has it', TTL_MS / 1000)
            first.tell('check')
            first.tell('release')
            second.expect(f'{kind} after {first.name}')
            second.tell('check')
            second.tell('release')
        wait_until('no key is left', lambda: cluster.keys(f'{path}/') == [])
    test.__name__ = f'ours_and_gos_{kind}_wait_for_each_other_and_are_woken'
    return test


def all_contend(kind):
    @on_cluster
    def test(world, cluster, ours, go):
        path = f'mix/{kind}'
        owners = [*((ours.slot(f'ours{n}'), kind) for n in range(4)),
                  *((go.slot(f'go{n}'), kind) for n in range(4))]
        nemesis = Nemesis(cluster)
        try:
            log = contend(world, owners, path, SECONDS)
        finally:
            nemesis.end()
        tap.equal('who was inside', sorted(log.entries), ['go', 'ours'])
        wait_until('no key is left', lambda: cluster.keys(f'{path}/') == [])
    test.__name__ = f'eight_on_one_{kind}_are_never_two_inside_and_each_has_a_larger_token'
    return test


@on_cluster
def gos_mutex_has_at_once_what_ours_keeps(_world, cluster, ours, go):
    """Ours would keep it for ten minutes: until somebody's key is there beside its own."""
    path, keeper, waiter = 'pairs/kept', ours.slot('ours0'), go.slot('go0')
    for _ in range(3):
        keeper.tell(f'take keeper {path} 0 {PATIENCE_MS}')
        keeper.tell('release')
        tap.equal('what is kept', len(cluster.keys(f'{path}/')), 1)
        waiter.tell(f'take mutex {path} 0 {PATIENCE_MS}')
        keeper.take('mutex', path, 0, PATIENCE_MS)
        wait_until('both stand in the line', lambda: len(cluster.keys(f'{path}/')) == 2)
        keeper.still_waits('go has it', TTL_MS / 1000)
        waiter.tell('release')
        keeper.expect('mutex after go')
        keeper.tell('release')
        wait_until('no key is left', lambda: cluster.keys(f'{path}/') == [])


@on_cluster
def gos_mutex_waits_for_who_imports_before_it(world, cluster, _ours, go):
    path, waiter = 'pairs/ticket', go.slot('go0')
    world.url = cluster.url
    status, ticket, err = world.run('hold', '--export', path)
    tap.equal(f'hold --export: {err}', status, 0)
    waiter.take('mutex', path, 0, PATIENCE_MS)
    wait_until('both stand in the line', lambda: len(cluster.keys(f'{path}/')) == 2)
    importer = world.start('run', '--import', ticket.strip(), 'sh', '-c',
                           'echo $DLOCK_TOKEN; read line; true', stdin=subprocess.PIPE)
    token = int(importer.stdout.readline())
    time.sleep(0.1)
    waiter.still_waits('the importer has it', TTL_MS / 1000)
    world.let_go(importer)
    theirs, _ = waiter.expect('mutex after the importer')
    assert int(theirs) > token, f'{theirs} after {token}'
    waiter.tell('release')
    wait_until('no key is left', lambda: cluster.keys(f'{path}/') == [])


TESTS = [all_contend('mutex'), all_contend('election')]
if MEMBERS == 1:
    TESTS = [one_waits_for_the_other('mutex'), one_waits_for_the_other('election'),
             gos_mutex_waits_for_who_imports_before_it, gos_mutex_has_at_once_what_ours_keeps,
             *TESTS]

if __name__ == '__main__':
    try:
        main(TESTS)
    finally:
        for one in _clusters:
            one.stop()

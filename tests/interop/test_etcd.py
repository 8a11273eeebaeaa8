"""Beside etcd's own package concurrency, the real one, in its layout: mutexes and elections of both
on one name are never two inside, have tokens that rise (an election's in the order in which their
keys were made), wake each other, and leave no key behind; also while members of the cluster are
killed.

    test_etcd.py DLOCK file SECONDS MEMBERS OURS GO

OURS and GO are programs as peers.py describes them; SECONDS is how long the contenders of each kind
are at it, on a cluster of MEMBERS: of more than one, one is killed every few seconds."""
import random
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
KILL_EACH_S = 4
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


class Killer(threading.Thread):
    """Kills a member, mostly the leader, again and again, and lets it come back."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.cluster, self.over, self.kills, self.why = cluster, threading.Event(), 0, None
        if len(cluster.members) > 1:
            self.start()

    def run(self):
        try:
            while not self.over.wait(KILL_EACH_S):
                victim = self.cluster.leader() if random.random() < 0.7 else None
                victim = victim or random.choice(self.cluster.members)
                victim.kill()
                self.kills += 1
                time.sleep(0.5)
                victim.launch()
                self.cluster.await_member(victim)
        except AssertionError as why:
            self.why = why

    def end(self):
        self.over.set()
        if self.ident:
            self.join()
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
        killer = Killer(cluster)
        try:
            log = contend(world, owners, path, SECONDS)
        finally:
            killer.end()
        tap.equal('who was inside', sorted(log.entries), ['go', 'ours'])
        assert killer.kills > 0 or len(cluster.members) == 1
        print(f'# {killer.kills} members killed meanwhile')
        wait_until('no key is left', lambda: cluster.keys(f'{path}/') == [])
    test.__name__ = f'eight_on_one_{kind}_are_never_two_inside_and_each_has_a_larger_token'
    return test


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
             gos_mutex_waits_for_who_imports_before_it, *TESTS]

if __name__ == '__main__':
    try:
        main(TESTS)
    finally:
        for one in _clusters:
            one.stop()

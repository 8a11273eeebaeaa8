"""Beside real Curator, kazoo and go-zookeeper on one ZooKeeper, in their own layouts: all of them
on one path never are too many inside, enter in the order in which their nodes were made, wake each
other, take over from each other's dead, and leave no node behind.

    test_zookeeper.py DLOCK zookeeper SECONDS OURS CURATOR KAZOO GO

The last four are programs as peers.py describes them; SECONDS is how long the contenders of each
kind are at it. With more than a few, what takes its time is tried too."""
import random
import subprocess
import sys
import time

import tap
import zookeeper_server
from peers import PATIENCE_MS, Log, Program, Side, contend
from world import main, wait_until

SECONDS = float(sys.argv[3])
PROGRAMS = dict(zip(('ours', 'curator', 'kazoo', 'go'), ([path] for path in sys.argv[4:8])))
IS_LONG = SECONDS > 5
SESSION_MS = 20_000
DEAD_MS = 4000
SIZE = 3  # of a semaphore
QUIET_S = 0.3
NO_LUCK = ['client.poll_ms=60000']  # so that a wake-up which gets lost shows
CROWD, HOLDS_S = 15, (0.5, 3.5)

# What all call the same: Curator's layout, and kazoo's, which Curator doesn't see.
CURATORS = {'ours': 'mutex', 'curator': 'mutex', 'kazoo': 'lock-', 'go': 'lock'}
# Who counts on the other's nodes has to wait behind those of ours; kazoo's own count for us.
TOLERANT = {'ours': 'mutex', 'go': 'lock', 'kazoo': 'lock+'}
KAZOOS = {'ours': 'kazoo', 'kazoo': 'lock'}
PAIRS = [  # holder and waiter of the same thing
    *((a, CURATORS[a], b, CURATORS[b]) for a, b in (
        ('ours', 'curator'), ('curator', 'ours'), ('ours', 'kazoo'), ('kazoo', 'ours'),
        ('ours', 'go'), ('go', 'ours'))),
    ('ours', 'kazoo', 'kazoo', 'lock'), ('kazoo', 'lock', 'ours', 'kazoo'),
    ('ours', 'mutex', 'kazoo', 'lock+'), ('kazoo', 'lock', 'ours', 'mutex'),
    ('ours', 'bridge', 'kazoo', 'lock'), ('kazoo', 'lock', 'ours', 'bridge'),
    ('ours', 'bridge', 'curator', 'mutex'), ('curator', 'mutex', 'ours', 'bridge'),
    ('ours', 'write', 'curator', 'read'), ('ours', 'read', 'curator', 'write'),
    ('curator', 'write', 'ours', 'read'), ('curator', 'read', 'ours', 'write'),
    ('ours', 'kazoo-write', 'kazoo', 'read'), ('kazoo', 'write', 'ours', 'kazoo-read'),
    ('ours', 'leases:1', 'curator', 'semaphore:1'),
    ('curator', 'semaphore:1', 'ours', 'leases:1'),
    ('ours', 'latch', 'curator', 'latch'), ('curator', 'latch', 'ours', 'latch'),
    ('ours', 'selector', 'curator', 'selector'), ('curator', 'selector', 'ours', 'selector'),
    ('ours', 'kazoo-election', 'kazoo', 'lock'), ('kazoo', 'lock', 'ours', 'kazoo-election'),
]


class Stage:
    """The server as the test's own hand sees it, and the sides."""

    def __init__(self, world):
        self.world, self.server = world, world.zookeeper
        self.hand = zookeeper_server.Wire(self.server.port)
        self.sides = {name: Side(world, name, argv, NO_LUCK if name == 'ours' else (), 1)
                      for name, argv in PROGRAMS.items()}
        for side in self.sides.values():
            side.await_start()

    def slot(self, side, number=0):
        return self.sides[side].slot(number)

    def line(self, path):
        """The nodes below a path, and below what is there."""
        return [below for child in self.hand.children(path)
                for below in [f'{path.rstrip("/")}/{child}',
                              *self.line(f'{path.rstrip("/")}/{child}')]]

    def ephemeral(self, path):
        return [node for node in self.line(path) if self.owner(node)]

    def owner(self, node):
        """The session of an ephemeral one."""
        stat = self.hand.stat(node)
        return stat.owner if stat else 0

    def watched(self, path):
        """By how many sessions each node below it is, of those that are at all. That a node's
        own session watches it, as who may be asked for it does, wakes nobody else."""
        counts, node = {}, None
        for line in self.server.say('wchp').splitlines():
            if line.startswith('/'):
                node = line
            elif line.strip() and node.startswith(path) and int(line, 16) != self.owner(node):
                counts[node] = counts.get(node, 0) + 1
        return list(counts.values())


_stages = {}


def on_stage(test):
    """The stage is set by the first test and stays, until one leaves it in disorder."""
    def run(world):
        if _stages.get('of') is not world.zookeeper:
            _stages.update(of=world.zookeeper, it=Stage(world))
        try:
            test(_stages['it'])
        except Exception:
            for side in _stages.pop('it').sides.values():
                side.kill()
            _stages.clear()
            raise
    run.__name__ = test.__name__
    return run


def keeps_out_and_wakes(holder, held, waiter, wanted):
    """One test of PAIRS."""
    @on_stage
    def test(stage):
        path = f'/pairs/{holder}-{held}-{waiter}-{wanted}'.replace(':', '').replace('+', 'p')
        first, second = stage.slot(holder, 0), stage.slot(waiter, 1)
        first.tell(f'take {held} {path} 0 {PATIENCE_MS}')
        before = len(stage.line(path)) + len(stage.line(f'{path}-__lock__'))
        second.take(wanted, path, 0, PATIENCE_MS)
        wait_until(f'{waiter} stands in the line',
                   lambda: len(stage.line(path)) + len(stage.line(f'{path}-__lock__')) > before)
        time.sleep(QUIET_S / 3)
        second.still_waits(f'{wanted} under {held} of {holder}', SESSION_MS / 1000)
        began = time.monotonic()
        first.tell('release')
        _, at = second.expect_when(f'{wanted} after {held}')
        second.tell('release')
        print(f'# {waiter} had {wanted} {(at - began) * 1000:.0f} ms after {holder} gave {held} '
              'back')
        wait_until('no node is left', lambda: stage.ephemeral(path) == [])
    test.__name__ = f'{waiter}_{wanted}_waits_for_{holder}_{held}_and_is_woken'
    return test


def has_at_once_what_ours_keeps(waiter):
    """Ours would keep it for ten minutes: until somebody's node is there beside its own."""
    @on_stage
    def test(stage):
        path, wanted = f'/kept/{waiter}', CURATORS[waiter]
        keeper, other = stage.slot('ours'), stage.slot(waiter, 1)
        for _ in range(3):
            keeper.tell(f'take keeper {path} 0 {PATIENCE_MS}')
            keeper.tell('release')
            tap.equal('what is kept', len(stage.ephemeral(path)), 1)
            other.tell(f'take {wanted} {path} 0 {PATIENCE_MS}')
            wait_until('it is the only one', lambda: len(stage.ephemeral(path)) == 1)
            other.tell('release')
            is_over(stage, path)
    test.__name__ = f'{waiter}_has_at_once_what_ours_keeps'
    return test


def owners(stage, kinds, each=2):
    return [(stage.slot(side, number), kind)
            for number in range(each) for side, kind in kinds.items()]


def is_over(stage, path):
    """Nobody has or wants it, and no node says otherwise."""
    wait_until(f'no node is left below {path}',
               lambda: stage.ephemeral(path) + stage.line(f'{path}-__lock__') == [])


@on_stage
def all_four_on_one_mutex_are_never_two_inside_and_enter_in_the_order_of_their_nodes(stage):
    log = contend(stage.world, owners(stage, CURATORS), '/mix/mutex', SECONDS)
    tap.equal('who was inside', sorted(log.entries), sorted(CURATORS))
    is_over(stage, '/mix/mutex')


@on_stage
def ours_waits_for_the_kazoo_that_waits_for_ours(stage):
    contend(stage.world, owners(stage, TOLERANT), '/mix/tolerant', SECONDS)
    is_over(stage, '/mix/tolerant')


@on_stage
def kazoo_as_it_is_and_ours_in_its_layout_are_never_two_inside(stage):
    contend(stage.world, owners(stage, KAZOOS), '/mix/kazoo', SECONDS)
    is_over(stage, '/mix/kazoo')


class Bridged(Log):
    """Curator and kazoo as they are don't see each other; the bridge sees both."""

    def __init__(self, path, size):
        super().__init__(path, size)
        self.tokens = {}

    def excludes(self, one, other):
        return {one.rstrip('0123456789'), other.rstrip('0123456789')} != {'curator', 'kazoo'}

    def enter(self, line, who, kind, token):
        """Tokens rise on either side of the bridge, and for those on it."""
        super().enter(line, who, kind, 0)
        side = who.rstrip('0123456789')
        sides = ('curator', 'ours') if side == 'curator' else ('kazoo', 'ours')
        if token <= max((self.tokens.get(each, 0) for each in sides), default=0) and side == 'ours':
            raise tap.Broken(f'stale token: {line}; the newest are {self.tokens}')
        self.tokens[side] = token


@on_stage
def the_bridge_excludes_curator_and_kazoo_as_they_are(stage):
    kinds = {'ours': 'bridge', 'curator': 'mutex', 'kazoo': 'lock'}
    contend(stage.world, owners(stage, kinds), '/mix/bridge', SECONDS, log=Bridged)
    is_over(stage, '/mix/bridge')


@on_stage
def readers_and_writers_of_three_libraries_never_mix(stage):
    kinds = {'ours': 'read,read,write', 'curator': 'read,write,read',
             'kazoo': 'write-,read-,read-'}
    contend(stage.world, owners(stage, kinds, 3), '/mix/rw', SECONDS)
    is_over(stage, '/mix/rw')


@on_stage
def readers_and_writers_in_kazoos_layout_never_mix(stage):
    kinds = {'ours': 'kazoo-read,kazoo-write', 'kazoo': 'read,write,read'}
    contend(stage.world, owners(stage, kinds, 3), '/mix/kazoo-rw', SECONDS)
    is_over(stage, '/mix/kazoo-rw')


@on_stage
def a_semaphore_never_has_more_inside_than_its_size(stage):
    kinds = {'ours': f'leases:{SIZE}', 'curator': f'semaphore:{SIZE}'}
    contend(stage.world, owners(stage, kinds, 4), '/mix/semaphore', SECONDS, size=SIZE)
    is_over(stage, '/mix/semaphore')


@on_stage
def several_permits_at_once_never_are_more_than_there_are(stage):
    ours = f'leases:{SIZE}:2,leases:{SIZE},leases:{SIZE}:{SIZE}'
    kinds = {'ours': ours, 'curator': f'semaphore:{SIZE}'}
    log = contend(stage.world, owners(stage, kinds, 3), '/mix/several', SECONDS, size=SIZE)
    tap.equal('who was inside', sorted(log.entries), sorted(kinds))
    is_over(stage, '/mix/several')


@on_stage
def curator_sees_each_of_several_permits_and_waits_behind_who_wants_them(stage):
    path, one = '/several/line', f'semaphore:{SIZE}'
    ours, theirs, next_one = stage.slot('ours'), stage.slot('curator', 1), stage.slot('curator', 2)
    ours.tell(f'take leases:{SIZE}:2 {path} 0 {PATIENCE_MS}')
    theirs.tell(f'take {one} {path} 0 {PATIENCE_MS}')
    tap.equal('leases', len(stage.hand.children(f'{path}/leases')), SIZE)
    next_one.tell(f'take {one} {path} 0 500', 'no')
    ours.tell('release')
    tap.equal('leases', len(stage.hand.children(f'{path}/leases')), 1)
    # All of them, while Curator has one: whoever comes later wants but one, and waits behind it.
    ours.take(f'leases:{SIZE}:{SIZE}', path, 0, PATIENCE_MS)
    wait_until('the head has its leases',
               lambda: len(stage.hand.children(f'{path}/leases')) == 1 + SIZE)
    next_one.take(one, path, 0, PATIENCE_MS)
    wait_until('the next is in the line', lambda: len(stage.hand.children(f'{path}/locks')) == 2)
    theirs.tell('release')
    ours.expect_when('all of them')
    next_one.still_waits(one, SESSION_MS / 1000)
    ours.tell('release')
    next_one.expect_when('one after all of them')
    next_one.tell('release')
    is_over(stage, path)


@on_stage
def there_is_one_leader_at_a_time(stage):
    for name, kinds in (('latch', {'ours': 'latch', 'curator': 'latch'}),
                        ('selector', {'ours': 'selector', 'curator': 'selector'})):
        contend(stage.world, owners(stage, kinds, 4), f'/mix/{name}', SECONDS)
        is_over(stage, f'/mix/{name}')


@on_stage
def a_writer_who_becomes_a_reader_lets_readers_in_and_no_writer(stage):
    for reader, writer in (('curator', 'curator'), ('ours', 'ours')):
        first, path = stage.slot('ours', 0), f'/downgrade/{reader}'
        token = int(first.tell(f'take write {path} 0 {PATIENCE_MS}')[0])
        reads, writes = stage.slot(reader, 1), stage.slot(writer, 2)
        reads.take('read', path, 0, PATIENCE_MS)
        wait_until('the reader waits', lambda path=path: len(stage.line(path)) == 2)
        writes.take('write', path, 0, PATIENCE_MS)
        wait_until('the writer waits', lambda path=path: len(stage.line(path)) == 3)
        first.tell('downgrade')
        reads.expect('the reader comes in')
        reads.tell('release')
        time.sleep(QUIET_S)
        writes.still_waits('the other had become a reader', SESSION_MS / 1000)
        first.tell('release')
        later = int(writes.expect('the writer comes in')[0])
        assert later > token, f'the token of the writer, {later}, after {token}'
        writes.tell('release')
        is_over(stage, path)


@on_stage
def either_side_hears_when_the_other_asks_for_its_lock(stage):
    ours, curators = stage.slot('ours', 0), stage.slot('curator', 0)
    node = ours.tell(f'take mutex /revoke/ours 0 {PATIENCE_MS}') and stage.line('/revoke/ours')[0]
    ours.say('revoked')
    curators.tell(f'revoke mutex {node}')
    tap.equal('ours was asked', ours.expect('revoked'), ['yes'])
    ours.tell('release')
    curators.tell(f'take revocable /revoke/curator 0 {PATIENCE_MS}')
    ours.tell('revoke mutex /revoke/curator')
    wait_until('Curator was asked', lambda: curators.tell('revoked') == ['yes'])
    curators.tell('release')


def waits_for_who_imports_before_it(waiter, wanted, layout, sign):
    """Whoever stands in the line when one of ours hands its lock on to another of ours."""
    @on_stage
    def test(stage):
        path, world, other = f'/ticket/{waiter}', stage.world, stage.slot(waiter, 0)
        world.url = f'zookeeper://{world.where}?zookeeper.layout={layout}'
        status, ticket, err = world.run('hold', '--export', '--ttl', '40', path[1:])
        tap.equal(f'hold --export: {err}', status, 0)
        given, = stage.line(path)
        other.take(wanted, path, 0, PATIENCE_MS)
        wait_until('both stand in the line', lambda: len(stage.ephemeral(path)) == 2)
        importer = world.start('run', '--import', ticket.strip(), 'sh', '-c',
                               'echo $DLOCK_TOKEN; read line; true', stdin=subprocess.PIPE)
        importer.stdout.readline()
        nodes = stage.ephemeral(path)
        tap.equal('the giver is out', (len(nodes), given in nodes), (2, False))
        taken, = [node for node in nodes if node[-10:] == given[-10:]]
        tap.equal('its name', (sign in taken, sign in given), (True, True))
        time.sleep(QUIET_S)
        other.still_waits('the importer has it', SESSION_MS / 1000)
        world.let_go(importer)
        other.expect(f'{wanted} after the importer')
        other.tell('release')
        is_over(stage, path)
    test.__name__ = f'{waiter}_waits_for_who_imports_before_it'
    return test


@on_stage
def the_dead_of_either_side_are_taken_over_from_at_the_end_of_their_session(stage):
    cases = [('ours', 'mutex', 'curator', 'mutex'), ('curator', 'mutex', 'ours', 'mutex'),
             ('ours', 'kazoo', 'kazoo', 'lock'), ('kazoo', 'lock', 'ours', 'kazoo'),
             ('go', 'lock', 'ours', 'mutex'), ('ours', 'write', 'curator', 'read'),
             ('curator', 'semaphore:1', 'ours', 'leases:1'),
             ('ours', 'leases:3:3', 'curator', 'semaphore:3'),
             ('ours', 'latch', 'curator', 'latch')]
    victims = {side: Program(stage.world, PROGRAMS[side], DEAD_MS) for side in PROGRAMS}
    for victim in victims.values():
        victim.await_start()
    for number, (dead, held, heir, wanted) in enumerate(cases):
        path = f'/dead/{number}'
        victims[dead].slot(f'dead{number}').tell(f'take {held} {path} 0 {PATIENCE_MS}')
        before = len(stage.line(path))
        stage.slot(heir, number).take(wanted, path, 0, PATIENCE_MS)
        wait_until('the heir waits', lambda path=path, before=before:
                   len(stage.line(path)) > before)
    killed = time.monotonic()
    for victim in victims.values():
        victim.kill()
    for number, (dead, _, heir, wanted) in enumerate(cases):
        _, at = stage.slot(heir, number).expect_when(f'what {dead} had')
        print(f'# {heir} had {wanted} {(at - killed) * 1000:.0f} ms after {dead} was killed')
        stage.slot(heir, number).tell('release')


def gather(stage, path):
    """A crowd behind one who holds it, in the order of their numbers."""
    stage.slot('ours', CROWD).tell(f'take mutex {path} 0 {PATIENCE_MS}')
    for number in range(CROWD):
        stage.slot('ours', number).take('mutex', path, 0, PATIENCE_MS)
        wait_until(f'{number + 1} wait', lambda number=number:
                   len(stage.line(path)) == number + 2)
    wait_until('each watches the one before it', lambda: stage.watched(path) == [1] * CROWD)


@on_stage
def a_crowd_enters_in_the_order_of_its_nodes_and_each_release_wakes_one(stage):
    for name, holds_s in (('at-once', (0, 0)), *([('for-a-while', HOLDS_S)] if IS_LONG else [])):
        path, waits = f'/crowd/{name}', []
        gather(stage, path)
        began = time.monotonic()
        stage.slot('ours', CROWD).tell('release')
        for turn in range(CROWD):
            _, at = stage.slot('ours', turn).expect_when(f'turn {turn}')
            waits.append((at - began) * 1000)
            for later in range(turn + 1, CROWD):
                stage.slot('ours', later).still_waits(f'at turn {turn}', SESSION_MS / 1000)
            tap.equal('the watches that have not fired', stage.watched(path),
                      [1] * (CROWD - turn - 1))
            time.sleep(random.uniform(*holds_s))
            began = time.monotonic()
            stage.slot('ours', turn).tell('release')
        print(f'# {name}: {CROWD} in the order of their nodes, one watch fired for each; '
              f'hand-overs took {min(waits):.1f}/{sum(waits) / len(waits):.1f}/{max(waits):.1f} ms '
              '(min/avg/max)')
        is_over(stage, path)


@on_stage
def no_node_of_anybody_is_left(stage):
    wait_until('no ephemeral node is left',
               lambda: stage.ephemeral('/') == [])


if __name__ == '__main__':
    main([
        *(keeps_out_and_wakes(*pair) for pair in PAIRS),
        *map(has_at_once_what_ours_keeps, ('curator', 'kazoo', 'go')),
        all_four_on_one_mutex_are_never_two_inside_and_enter_in_the_order_of_their_nodes,
        ours_waits_for_the_kazoo_that_waits_for_ours,
        kazoo_as_it_is_and_ours_in_its_layout_are_never_two_inside,
        the_bridge_excludes_curator_and_kazoo_as_they_are,
        readers_and_writers_of_three_libraries_never_mix,
        readers_and_writers_in_kazoos_layout_never_mix,
        a_semaphore_never_has_more_inside_than_its_size,
        several_permits_at_once_never_are_more_than_there_are,
        curator_sees_each_of_several_permits_and_waits_behind_who_wants_them,
        there_is_one_leader_at_a_time,
        a_writer_who_becomes_a_reader_lets_readers_in_and_no_writer,
        either_side_hears_when_the_other_asks_for_its_lock,
        *(waits_for_who_imports_before_it(*case) for case in (
            ('curator', 'mutex', 'curator', '-lock-'), ('go', 'lock', 'curator', '-lock-'),
            ('kazoo', 'lock', 'kazoo', '__lock__'))),
        the_dead_of_either_side_are_taken_over_from_at_the_end_of_their_session,
        a_crowd_enters_in_the_order_of_its_nodes_and_each_release_wakes_one,
        no_node_of_anybody_is_left,
    ])

"""Beside the real libraries of others that take PostgreSQL's advisory locks: each side excludes the
other, under the key that the other makes of a name, and nobody's lock is left behind.

    test_postgres.py DLOCK file SECONDS OURS SIDE=COMMAND…

The commands are programs as peers.py describes them; SECONDS is how long the contenders of each
kind are at it. A SIDE without a command is left out."""
import sys
import time

import tap
from peers import PATIENCE_MS, Program, contend
from postgres_server import Postgres
from world import main, wait_until

SECONDS, OURS = float(sys.argv[3]), [sys.argv[4]]
SIDES = {side: command for side, _, command in (word.partition('=') for word in sys.argv[5:])
         if command}
TTL_MS = 20_000
QUIET_S = 0.2
SETTINGS = ['postgres.layout=advisory&client.retry_ms=10']
NAMES = ['orders/42', 'käse-und-brot,länger-als-zwölf-und-als-vierundzwanzig']
# Which names each can take; who shares is another test.
PLAIN = {'hashtext': NAMES, 'hashtextextended': NAMES,
         'number': ['42', '-9223372036854775808', '7,-1']}
KINDS = {'python': {**PLAIN, 'django-pglocks': NAMES, 'django-pglock': NAMES,
                    'django-pgware': NAMES},
         'go': PLAIN, 'java': PLAIN}
_stages = {}


class Stage:
    """A server, and a program of each side."""

    def __init__(self, world):
        self.world, self.server = world, Postgres(bare=True)
        world.where = self.server.url
        self.sides = {'ours': Program(world, OURS, TTL_MS, SETTINGS),
                      **{side: Program(world, [command], TTL_MS)
                         for side, command in SIDES.items()}}
        for program in self.sides.values():
            program.await_start()

    def held(self):
        return self.server.ask("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' "
                               'AND granted')

    def waiting(self):
        return self.server.ask("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' "
                               'AND NOT granted')

    def both_ways(self, other):
        first, second = self.sides['ours'].slot('ours0'), self.sides[other].slot(f'{other}0')
        return ((first, second), (second, first))

    def close(self):
        for program in self.sides.values():
            program.kill()
        self.server.stop()


def on_stage(test):
    """The stage is set by the first test and stays, until one leaves it in disorder."""
    def run(world):
        if 'it' not in _stages:
            try:
                _stages['it'] = Stage(world)
            except tap.Skip as why:
                world.skip = why
                raise
        try:
            test(_stages['it'])
        except Exception:
            _stages.pop('it').close()
            raise
    run.__name__ = test.__name__
    return run


def each_excludes_the_other(other, kind):
    @on_stage
    def test(stage):
        for name in KINDS[other][kind]:
            for first, second in stage.both_ways(other):
                first.tell(f'take {kind} {name} 0 0')
                second.tell(f'take {kind} {name} 0 0', 'no')
                another = '43' if kind == 'number' else f'{name}x'
                second.tell(f'take {kind} {another} 0 0')
                second.tell('release')
                first.tell('release')
                tap.equal('held', stage.held(), '0')
    test.__name__ = f'{other}, {kind}: each excludes the other by the same name'
    return test


def each_waits_for_the_other(other, kind):
    @on_stage
    def test(stage):
        for first, second in stage.both_ways(other):
            first.tell(f'take {kind} 4711 0 0')
            second.take(kind, '4711', 0, PATIENCE_MS)
            time.sleep(QUIET_S)
            second.still_waits(f'{first.name} has it', TTL_MS / 1000)
            began = time.monotonic()
            first.tell('release')
            _, at = second.expect_when('take')
            print(f'# {second.name} had it {(at - began) * 1000:.0f} ms after {first.name}')
            second.tell('release')
            tap.equal('held', stage.held(), '0')
    test.__name__ = f'{other}, {kind}: each waits for the other'
    return test


def readers_share(other):
    @on_stage
    def test(stage):
        for first, second in stage.both_ways(other):
            first.tell('take number-read 8 0 0')
            second.tell('take number-read 8 0 0')
            first.tell('release')
            first.tell('take number-write 8 0 0' if first.side == 'ours'
                       else 'take number 8 0 0', 'no')
            second.tell('release')
            first.tell('take number-write 8 0 0' if first.side == 'ours'
                       else 'take number 8 0 0')
            second.tell('take number-read 8 0 0', 'no')
            first.tell('release')
            tap.equal('held', stage.held(), '0')
    test.__name__ = f'{other}: readers of both share, and a writer of either shuts out the others'
    return test


def takes_over_from_the_dead(other):
    @on_stage
    def test(stage):
        for side in ('ours', other):
            program = Program(stage.world, OURS if side == 'ours' else [SIDES[other]], TTL_MS,
                              SETTINGS if side == 'ours' else ())
            program.await_start()
            heir = stage.sides[other if side == 'ours' else 'ours'].slot('heir0')
            program.slot(f'{side}9').tell('take number 99 0 0')
            heir.take('number', '99', 0, PATIENCE_MS)
            time.sleep(QUIET_S)
            heir.still_waits(f'{side} has it', TTL_MS / 1000)
            program.kill()
            heir.expect('take from the dead')
            heir.tell('release')
            tap.equal('held', stage.held(), '0')
    test.__name__ = f'{other}: each takes over from the other\'s dead'
    return test


@on_stage
def all_contend_and_are_never_two_inside(stage):
    owners = [(program.slot(f'{side}{number}'), 'number')
              for side, program in stage.sides.items() for number in range(1, 3)]
    log = contend(stage.world, owners, '4712', SECONDS)
    # Who waits inside the server comes before whoever tries: ours have their turn in its pauses.
    tap.equal('who was inside', sorted(log.entries), sorted(stage.sides))
    wait_until('nothing is held', lambda: stage.held() == '0' and stage.waiting() == '0')


@on_stage
def readers_and_writers_of_all_never_mix(stage):
    kinds = {'ours': 'number-read,number-write'}
    owners = [(program.slot(f'{side}{number}'), kinds.get(side, 'number-read,number'))
              for side, program in stage.sides.items() for number in range(1, 3)]
    contend(stage.world, owners, '4713', SECONDS)
    wait_until('nothing is held', lambda: stage.held() == '0' and stage.waiting() == '0')


TESTS = [*(each_excludes_the_other(side, kind) for side in SIDES for kind in KINDS[side]),
         *(each_waits_for_the_other(side, 'number') for side in SIDES),
         *(test(side) for side in SIDES for test in (readers_share, takes_over_from_the_dead)),
         all_contend_and_are_never_two_inside, readers_and_writers_of_all_never_mix]

if __name__ == '__main__':
    try:
        main(TESTS)
    finally:
        if _stages:
            _stages['it'].close()

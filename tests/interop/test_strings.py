"""Beside the real redis-py, redsync, redislock, node-redlock and rueidislock on one Redis, where a
lock is a string: each side excludes the other, waits for it, takes over from its dead, and leaves
what is the other's alone.

    test_strings.py DLOCK redis SECONDS OURS KIND=COMMAND…

The commands are programs as peers.py describes them; SECONDS is how long the contenders of each
kind are at it. A KIND without a command, or with one that can't be run here, is left out."""
import sys
import time

import tap
from peers import PATIENCE_MS, TTL_MS, contend, peers_here, started
from stage import HELD_MS, TOLD_MS, on_stage_of
from world import main, wait_until

SECONDS, OURS = float(sys.argv[3]), sys.argv[4]
DEAD_MS = 3000
HEIR_MS = 300_000
PEERS = peers_here(sys.argv[5:])
on_stage = on_stage_of({'ours': [OURS], **PEERS})


def ours_for(kind):
    """What we call it."""
    return 'rueidis' if kind == 'rueidis' else 'string'


def each(test):
    """One test for each of the others."""
    def bound(kind):
        @on_stage
        def run(stage):
            test(stage, kind, {'ours': ours_for(kind), kind: kind})
        run.__name__ = f'{kind}: {test.__name__}'
        return run
    return [bound(kind) for kind in PEERS]


def keys_of(stage, name):
    """Its one key, or those of rueidislock."""
    return stage.client.keys(f'*{name}')


@each
def either_side_keeps_the_other_out_until_it_releases(stage, kind, kinds):
    worst = {}
    for number in range(2):
        for holder, waiter in stage.both_ways(number, 'ours', kind):
            took = stage.woken((holder, kinds[holder.side]), (waiter, kinds[waiter.side], TTL_MS),
                               f'{kind}-pair', True)
            worst[waiter.side] = max(worst.get(waiter.side, 0), took)
    print(f'# ours had it within {worst["ours"]:.0f} ms of a release of theirs, '
          f'{kind} within {worst[kind]:.0f} ms of ours')


@each
def neither_releases_what_is_the_others(stage, kind, kinds):
    for first, second in stage.both_ways(0, 'ours', kind):
        first.tell(f'take {kinds[first.side]} {kind}-foreign {TTL_MS} 0')
        stage.client.delete(*keys_of(stage, f'{kind}-foreign'))  # as if its lease had ended
        second.tell(f'take {kinds[second.side]} {kind}-foreign {TTL_MS} 0')
        key = keys_of(stage, f'{kind}-foreign')[0]
        owner = stage.client.get(key)
        first.say('release')
        answer, _ = first.hear()
        # What rueidislock's release says depends on whether it has noticed already.
        assert first.side == 'rueidis' or answer.startswith('error'), f'{first.name}: {answer}'
        tap.equal('the owner', stage.client.get(key), owner)
        second.tell('release')


@each
def four_of_each_side_are_never_two_inside(stage, kind, kinds):
    owners = [(stage.sides[side].slot(number), kinds[side])
              for number in range(4) for side in kinds]
    log = contend(stage.world, owners, f'{kind}-contended', SECONDS, ttl=HELD_MS)
    assert log.longest_gap_ms < TOLD_MS, 'nobody woke'


@on_stage
def the_dead_of_either_side_are_taken_over_from_at_the_end_of_their_lease(stage):
    """All of them at once, for the time it takes: a lease may be over before the next begins. Not
    the heir's: nobody renews it, and it is released when all of the dead have started and died."""
    cases = [case for kind in PEERS for case in (('ours', kind), (kind, 'ours'))]
    ends_at = {}
    for number, (dead, heir) in enumerate(cases):
        name, command = f'dead-{number}-of-{dead}', [OURS] if dead == 'ours' else PEERS[dead]
        victim = started(stage.world, command, DEAD_MS)
        kinds = {'ours': ours_for(dead if heir == 'ours' else heir)}
        victim.slot('dead').tell(f'take {kinds.get(dead, dead)} {name} {DEAD_MS} 0')
        ends_at[dead, heir] = time.monotonic() + max(
            (stage.client.pttl(key) for key in keys_of(stage, name)), default=0) / 1000
        stage.sides[heir].slot(number).take(kinds.get(heir, heir), name, HEIR_MS, PATIENCE_MS)
        victim.kill()
    for number, (dead, heir) in enumerate(cases):
        _, at = stage.sides[heir].slot(number).expect_when(f'what {dead} had')
        late_ms = (at - ends_at[dead, heir]) * 1000
        print(f'# {heir} had what the dead of {dead} had {late_ms:.0f} ms after its lease')
        assert late_ms > -100
        stage.sides[heir].slot(number).tell('release')


@on_stage
def a_lock_of_redis_py_without_an_end_is_waited_for_and_never_given_one(stage):
    for kind in PEERS:
        if not kind.startswith('redis-py'):
            continue
        ours, theirs = stage.both_ways(0, 'ours', kind)[0]
        theirs.tell(f'take {kind} endless 0 0')
        ours.tell('take string endless 0 300', 'no')
        tap.equal('its end', stage.client.pttl('endless'), -1)
        ours.take('string', 'endless', 0, PATIENCE_MS)
        theirs.tell('release')
        ours.expect('the wait')
        ours.tell('release')


@on_stage
def all_of_them_at_once_are_never_two_inside(stage):
    kinds = {'ours': 'string', **{kind: kind for kind in PEERS if kind != 'rueidis'}}
    owners = [(side.slot(number), kinds[name])
              for number in range(2) for name, side in stage.sides.items() if name in kinds]
    contend(stage.world, owners, 'all-at-once', SECONDS, ttl=30_000)


@on_stage
def nothing_is_left(stage):
    wait_until('no lock is left', lambda: not [
        key for key in stage.client.keys()
        if not key.startswith((b'redisson_lock_token:', b'dlock_client:'))])


if __name__ == '__main__':
    main([
        *either_side_keeps_the_other_out_until_it_releases,
        *neither_releases_what_is_the_others,
        *four_of_each_side_are_never_two_inside,
        the_dead_of_either_side_are_taken_over_from_at_the_end_of_their_lease,
        a_lock_of_redis_py_without_an_end_is_waited_for_and_never_given_one,
        all_of_them_at_once_are_never_two_inside,
        nothing_is_left,
    ])

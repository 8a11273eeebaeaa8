"""Beside the real Redisson on one Redis, in its own layouts, every kind that both have: each side
excludes the other, waits for it, hears of its release, takes over from its dead, leaves what is
the other's alone, and all of them together leave nothing behind.

    test_redisson.py DLOCK redis OURS REDISSON [SECONDS]

OURS and REDISSON are programs as peers.py describes them; SECONDS is how long the contenders of
each kind are at it. With more than a few, what takes its time is tried too."""
import sys
import threading
import time

import tap
from peers import PATIENCE_MS, TTL_MS, contend, started
from stage import HELD_MS, TOLD_MS, on_stage_of
from world import main, wait_until

OURS, REDISSON = sys.argv[3], sys.argv[4]
SECONDS = float(sys.argv[5]) if len(sys.argv) > 5 else 1.5
IS_LONG = SECONDS > 5
ROUNDS = 10 if IS_LONG else 2
SIZE = 3  # of a semaphore
MAKER = 99  # the number of an owner who never waits

# What excludes itself, and what excludes another.
EXCLUSIVE = [('mutex', 'mutex'), ('fenced', 'fenced'), ('fair', 'fair'), ('write', 'write'),
             ('write', 'read'), ('read', 'write'), ('multi', 'multi'), ('spin', 'spin'),
             ('semaphore', 'semaphore'), ('permits', 'permits')]
# Who contends for what; and of how many one may be inside.
CONTENDED = {'mutex': ('mutex', 1), 'fenced': ('fenced', 1), 'fair': ('fair', 1),
             'rw': ('read,read,write', 1), 'semaphore': ('semaphore', SIZE),
             'permits': ('permits', SIZE)}
# What each is waited for with, when its holder is dead. A plain semaphore isn't among them: it
# knows no owners, and what a dead one had is lost.
TAKEN_OVER = {'mutex': 'mutex', 'fenced': 'fenced', 'fair': 'fair', 'write': 'read',
              'read': 'write', 'multi': 'multi', 'spin': 'spin', 'permits': 'permits'}
DEAD_MS = 3000
# Asking a moment before a lease is over, a waiter at a fair lock of 3.27.2 hears of a negative time
# to sleep and sleeps for all of its own; mended in 3.32.
FORSAKEN = ['fair'] if '3.27' in REDISSON else []

on_stage = on_stage_of({'ours': [OURS], 'theirs': [REDISSON]})


def lease_of(kind):
    """Redisson renews no permit, so that has a lease to be named."""
    return 60_000 if kind == 'permits' else 0


def make(stage, kind, name, size):
    """A semaphore, made by either side."""
    if kind in ('semaphore', 'permits'):
        maker = stage.sides['theirs' if len(name) % 2 else 'ours']
        maker.slot(MAKER).tell(f'size {kind} {name} {size}')


def must_be_full(stage, name, size):
    tap.equal(f'permits of {name}', int(stage.client.get(name)), size)
    stage.client.delete(name)


def left(stage, name):
    """The keys that belong to a name, without the counter of its tokens, which stays a while, as
    the key of a client that was killed does, and what is said of a permit that they gave back for
    us: it ends with what would have been the lease."""
    return [key for key in stage.client.keys(f'*{name}*')
            if not key.startswith((b'redisson_lock_token:', b'dlock_client:')) and
            not (key.startswith(b'dlock_permit:') and 0 < stage.client.pttl(key) <= 30_000)]


def keeps_out_and_wakes(held, wanted):
    """One test of EXCLUSIVE."""
    @on_stage
    def test(stage):
        worst = {}
        for number in range(ROUNDS):
            name = f'pair-{held}-{wanted}-{number}'
            make(stage, held, name, 1)
            for holder, waiter in stage.both_ways(number):
                took = stage.woken((holder, held), (waiter, wanted, lease_of(wanted)), name,
                                   wanted == 'spin')
                worst[waiter.side] = max(worst.get(waiter.side, 0), took)
            if held in ('semaphore', 'permits'):
                must_be_full(stage, name, 1)
        print(f'# {wanted} behind {held}: ours woke within {worst["ours"]:.0f} ms of their '
              f'release, theirs within {worst["theirs"]:.0f} ms of ours')
    test.__name__ = f'{held}_of_either_side_keeps_{wanted}_out_and_its_release_wakes_it'
    return test


def contended(what):
    """One test of CONTENDED: four of each side, as fast as they can."""
    kinds, size = CONTENDED[what]

    @on_stage
    def test(stage):
        name = f'contended-{what}'
        make(stage, kinds, name, size)
        owners = [(side.slot(number), kinds)
                  for number in range(4) for side in stage.sides.values()]
        log = contend(stage.world, owners, name, SECONDS, ttl=HELD_MS, size=size)
        assert log.longest_gap_ms < TOLD_MS, 'nobody woke'
        if size > 1:
            must_be_full(stage, name, size)
    test.__name__ = f'four_of_each_side_at_{what}_are_never_too_many_inside'
    return test


@on_stage
def who_keeps_a_lock_and_those_who_dont_know_of_that_are_never_too_many_inside(stage):
    """Redisson can't ask for it, and has it all the same while ours always want it, too."""
    owners = [(side.slot(number), 'kept' if name == 'ours' else 'fenced')
              for number in range(4) for name, side in stage.sides.items()]
    log = contend(stage.world, owners, 'kept', SECONDS, ttl=HELD_MS)
    assert log.longest_gap_ms < TOLD_MS, 'nobody woke'


@on_stage
def readers_of_both_sides_are_in_together(stage):
    for first, second in stage.both_ways():
        for slot in (first, second):
            slot.tell('take read together 0 0')
        tap.equal('holds', list(stage.client.hgetall('together').values()).count(b'1'), 2)
        first.tell('release')
        first.tell('take write together 0 0', 'no')
        second.tell('release')


@on_stage
def tokens_rise_over_both(stage):
    last = 0
    for number in range(10):
        for slot in stage.both_ways(number)[0]:
            token = int(slot.tell('take fenced tokens 0 0')[0])
            assert token > last, f'{slot.name}: {token} after {last}'
            last = token
            assert 0 < stage.client.pttl('tokens') <= TTL_MS
            slot.tell('release')


@on_stage
def turns_at_a_fair_lock_come_in_the_order_of_asking(stage):
    """Each of a client of its own: the order is among clients."""
    for holder in (started(stage.world, [OURS]).slot('holder'), stage.sides['theirs'].slot(2)):
        holder.tell('take fair turns 0 0')
        line = [stage.sides[side].slot(number) for number in range(2)
                for side in ('theirs', 'ours')]
        for place, slot in enumerate(line, 1):
            slot.take('fair', 'turns', 0, PATIENCE_MS)
            wait_until(f'{place} are in the line', lambda: in_line(stage, 'turns') == place)
        holder.tell('release')
        for slot in line:
            slot.expect('its turn')
            for other in line[line.index(slot) + 1:]:
                other.still_waits(f'it is the turn of {slot.name}', TTL_MS / 1000)
            slot.tell('release')


def in_line(stage, name):
    """How many; the list and the zset are identical at any time."""
    with stage.client.pipeline() as pipe:
        pipe.lrange(f'redisson_lock_queue:{{{name}}}', 0, -1)
        pipe.zrange(f'redisson_lock_timeout:{{{name}}}', 0, -1)
        line, deadlines = pipe.execute()
    tap.equal('the zset', sorted(deadlines), sorted(line))
    return len(line)


@on_stage
def who_gives_up_leaves_the_line_of_a_fair_lock(stage):
    """By time-out, with somebody of the other side behind; ours by cancel as well, of which
    Redisson leaves a ghost in the line."""
    for first, second in stage.both_ways():
        holder = stage.sides['theirs'].slot(2)
        for gives_up in ('time-out', 'cancel')[:2 if first.side == 'ours' else 1]:
            holder.tell('take fair leave 0 0')
            first.take('fair', 'leave', 0, PATIENCE_MS if gives_up == 'cancel' else 1000)
            wait_until('one waits', lambda: in_line(stage, 'leave') == 1)
            second.take('fair', 'leave', 0, PATIENCE_MS)
            if gives_up == 'cancel':
                wait_until('two wait', lambda: in_line(stage, 'leave') == 2)
                first.say('cancel')
            first.expect(gives_up, 'no')
            wait_until('one waits', lambda: in_line(stage, 'leave') == 1)
            holder.tell('release')
            second.expect('its turn')
            second.tell('release')


@on_stage
def permits_of_both_sides_are_counted_together(stage):
    for kind in ('semaphore', 'permits'):
        for number, (first, second) in enumerate(stage.both_ways()):
            name, ttl = f'count-{kind}-{number}', lease_of(kind)
            make(stage, kind, name, SIZE)
            first.tell(f'take {kind} {name} {ttl} 0 2')
            second.tell(f'take {kind} {name} {ttl} 0 2', 'no')
            second.tell(f'take {kind} {name} {ttl} 0')
            first.tell(f'take {kind} {name} {ttl} 0', 'no')
            first.tell('release')
            second.tell(f'take {kind} {name} {ttl} 0 2')
            second.tell('release')
            second.tell('release')
            must_be_full(stage, name, SIZE)


@on_stage
def a_permit_of_ours_has_an_id_that_redisson_knows(stage):
    """16 bytes in Redis, 32 hexadecimal digits in its API."""
    ours, theirs = stage.both_ways()[0]
    theirs.tell('size permits ids 1')
    ours.tell('take permits ids 60000 0')
    permit, = [member.hex() for member in stage.client.zrange('{ids}:timeout', 0, -1)]
    theirs.tell(f'drop permits ids {permit}')
    ours.tell('check', 'no')
    ours.tell('release', 'error')
    must_be_full(stage, 'ids', 1)


def hear(listener, told):
    """Adds the messages that have come."""
    while message := listener.get_message():
        told += [message['data']] if message['type'] == 'message' else []


@on_stage
def an_expired_permit_is_given_back_with_one_message(stage):
    for first, second in stage.both_ways():
        name = f'expires-{first.name}'
        make(stage, 'permits', name, 1)
        with stage.client.pubsub() as listener:
            listener.subscribe(f'redisson_sc:{{{name}}}')
            first.tell(f'take permits {name} 1000 0')
            second.take('permits', name, 60_000, PATIENCE_MS)
            second.expect('its wait')
            told = []
            wait_until('the message', lambda: hear(listener, told) or told)
            time.sleep(0.05)
            hear(listener, told)
        tap.equal('messages', told, [b'1'])
        second.tell('release')
        first.tell('release', 'error')
        must_be_full(stage, name, 1)


@on_stage
def a_multi_lock_that_fails_keeps_none_of_its_members(stage):
    for first, second in stage.both_ways():
        first.tell('take mutex some:2 0 0')
        second.tell('take multi some 0 0', 'no')
        second.tell('take multi some 0 500', 'no')
        wait_until('its first member is free', lambda: not stage.client.exists('some'))
        first.tell('release')
        second.tell('take multi some 0 0')
        first.tell('take mutex some 0 0', 'no')
        first.tell('take mutex some:2 0 0', 'no')
        second.tell('release')


@on_stage
def neither_releases_what_is_the_others(stage):
    for kind in ('mutex', 'fenced', 'fair', 'spin', 'write'):
        for first, second in stage.both_ways():
            first.tell(f'take {kind} foreign 0 0')
            stage.client.delete('foreign')  # as if its lease had ended
            second.tell(f'take {kind} foreign 0 0')
            holders = stage.client.hgetall('foreign')
            first.tell('release', 'error')
            tap.equal('the holder', stage.client.hgetall('foreign'), holders)
            second.tell('release')


@on_stage
def another_kind_on_a_name_of_theirs_is_a_conflict(stage):
    """A plain lock beside a read/write lock is the dangerous pair: Redisson walks over it."""
    ours, theirs = stage.both_ways()[0]
    for theirs_is, ours_is in (('mutex', 'write'), ('mutex', 'read'), ('write', 'mutex'),
                               ('read', 'mutex'), ('mutex', 'permits'), ('mutex', 'semaphore'),
                               ('mutex', 'string')):
        theirs.tell(f'take {theirs_is} two-kinds 0 0')
        told = ' '.join(ours.tell(f'take {ours_is} two-kinds 0 0', 'error'))
        assert 'ECONFLICT' in told, f'{ours_is} under {theirs_is}: {told}'
        theirs.tell('release')


@on_stage
def inspect_shows_who_of_them_holds(stage):
    ours, theirs = stage.both_ways()[0]
    for kind in ('mutex', 'fair', 'write', 'read'):
        theirs.tell(f'take {kind} shown 0 0')
        owner = ours.tell(f'holder {kind} shown')[0]
        assert owner.encode() in [field.removesuffix(b':write')
                                  for field in stage.client.hkeys('shown')], owner
        theirs.tell('release')


def take_over(stage, victim, heirs, kinds):
    """Somebody with a lock of each kind is killed; each is had at the end of its lease."""
    dead = victim.slot('dead')
    for number, kind in enumerate(kinds):
        name = f'dead-{heirs.name}-{kind}'
        make(stage, kind, name, 1)
        dead.tell(f'take {kind} {name} {DEAD_MS if kind == "permits" else 0} 0')
        heirs.slot(number).take(TAKEN_OVER[kind], name, lease_of(kind), PATIENCE_MS)
    # Not before: the clock is read before each lease is.
    ends_at = {kind: time.monotonic() + stage.client.pttl(f'dead-{heirs.name}-{kind}') / 1000
               for kind in kinds if kind != 'permits'}
    killed, took, early_ms = time.monotonic(), {}, {}
    victim.kill()
    for number, kind in enumerate(kinds):
        _, at = heirs.slot(number).expect_when(f'{kind} of the dead')
        took[kind] = (at - killed) * 1000
        early_ms[kind] = (ends_at.get(kind, at) - at) * 1000
        heirs.slot(number).tell('release')
    print(f'# {heirs.name} had the locks of the dead after '
          + ', '.join(f'{kind} {ms:.0f}' for kind, ms in took.items())
          + f' ms; their leases were {DEAD_MS} ms')
    for kind, early in early_ms.items():
        assert early < 100, f'{kind}: taken {early:.0f} ms too early'
    must_be_full(stage, f'dead-{heirs.name}-permits', 1)


@on_stage
def the_dead_of_either_side_are_taken_over_from_at_the_end_of_their_lease(stage):
    """Both at once, for the time it takes."""
    failed = []

    def run(program, heirs, kinds):
        try:
            take_over(stage, started(stage.world, [program], DEAD_MS), heirs, kinds)
        except Exception as why:  # of a thread: told below
            failed.append(f'{type(why).__name__}: {why}')

    kinds = list(TAKEN_OVER)
    threads = [threading.Thread(target=run, args=case) for case in (
        (OURS, stage.sides['theirs'], [kind for kind in kinds if kind not in FORSAKEN]),
        (REDISSON, stage.sides['ours'], kinds))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tap.equal('failures', failed, [])


@on_stage
def a_reader_of_ours_outlives_a_reader_of_theirs_that_cut_its_lease(stage):
    """Redisson's readers set the hash's end to their own at each renewal; ours lift it again."""
    lease_ms = TTL_MS + 2000
    reader = started(stage.world, [OURS], lease_ms).slot('reader')
    victim = started(stage.world, [REDISSON])
    reader.tell('take read cut 0 0')
    victim.slot('reader').tell('take read cut 0 0')
    wait_until('theirs has cut the lease', lambda: 0 < stage.client.pttl('cut') <= TTL_MS - 100)
    victim.kill()
    wait_until('ours has lifted it', lambda: stage.client.pttl('cut') > TTL_MS)
    reader.tell('check')
    other = stage.sides['theirs'].slot(0)
    other.tell('take read cut 0 0')
    other.tell('release')
    reader.tell('check')
    reader.tell('release')


@on_stage
def behind_a_dead_head_of_ours_theirs_gets_the_fair_lock(stage):
    """Redisson asks without a pause as long as the head of the line is silent."""
    victim = started(stage.world, [OURS], TTL_MS, ['redis.fair_wait_ms=10000'])
    holder, heir = stage.both_ways()[0]
    holder.tell('take fair head 0 0')
    victim.slot('head').take('fair', 'head', 0, PATIENCE_MS)
    wait_until('the head waits', lambda: in_line(stage, 'head') == 1)
    heir.take('fair', 'head', 0, PATIENCE_MS)
    wait_until('theirs waits', lambda: in_line(stage, 'head') == 2)
    victim.kill()
    began, before = time.monotonic(), stage.questions()
    holder.tell('release')
    _, at = heir.expect_when('the lock behind a dead head')
    asked = stage.questions() - before
    heir.tell('release')
    print(f'# a dead head of ours was in the way for {(at - began) * 1000:.0f} ms; '
          f'{asked / (at - began):.0f} scripts/s came meanwhile')


@on_stage
def nothing_is_left_but_counters_of_tokens(stage):
    wait_until('no lock is left', lambda: not left(stage, ''))


if __name__ == '__main__':
    main([
        *[keeps_out_and_wakes(held, wanted) for held, wanted in EXCLUSIVE],
        who_keeps_a_lock_and_those_who_dont_know_of_that_are_never_too_many_inside,
        readers_of_both_sides_are_in_together,
        tokens_rise_over_both,
        turns_at_a_fair_lock_come_in_the_order_of_asking,
        who_gives_up_leaves_the_line_of_a_fair_lock,
        permits_of_both_sides_are_counted_together,
        a_permit_of_ours_has_an_id_that_redisson_knows,
        an_expired_permit_is_given_back_with_one_message,
        a_multi_lock_that_fails_keeps_none_of_its_members,
        neither_releases_what_is_the_others,
        another_kind_on_a_name_of_theirs_is_a_conflict,
        inspect_shows_who_of_them_holds,
        a_reader_of_ours_outlives_a_reader_of_theirs_that_cut_its_lease,
        *[contended(what) for what in CONTENDED],
        the_dead_of_either_side_are_taken_over_from_at_the_end_of_their_lease,
        *([behind_a_dead_head_of_ours_theirs_gets_the_fair_lock] if IS_LONG else []),
        nothing_is_left_but_counters_of_tokens,
    ])

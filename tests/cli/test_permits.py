#!/usr/bin/env python3
"""dlock with --permits: so many commands at once, and not one more."""
import json
import os

import tap
import world
from world import LIMIT, SERVICE, lease, wait_until


def as_many_commands_run_as_there_are_permits(w):
    holders = [w.hold('slots', '--permits', '2') for _ in range(2)]
    tap.equal('tokens', [line['token'] for _, line in holders], [0, 0])
    marker = w.path('ran')
    status, _, err = w.run('run', '-n', '--permits', '2', 'slots', '--', 'touch', marker)
    tap.equal(f'a third: {err}', status, 1)
    tap.equal('it ran', os.path.exists(marker), False)
    waiting = w.start('run', '-w', str(LIMIT), '--permits', '2', 'slots', '-c',
                      'echo "token=$DLOCK_TOKEN"')
    tap.equal('it waits', waiting.poll(), None)
    w.let_go(holders[0][0])
    status, out, err = w.finish(waiting)
    tap.equal(f'its turn: {err}', (status, out), (0, 'token=0\n'))
    w.let_go(holders[1][0])


def never_more_than_so_many_are_inside(w):
    inside = w.path('inside')
    os.mkdir(inside)
    script = f'echo > {inside}/$$; ls {inside} | wc -l; sleep 0.02; rm {inside}/$$'
    shells = [w.start('run', '--permits', '3', 'crowd', '-c', script) for _ in range(12)]
    seen = []
    for shell in shells:
        status, out, err = w.finish(shell, LIMIT * 3)
        tap.equal(f'status {err}', status, 0)
        seen.append(int(out))
    tap.equal(f'at once: {seen}', max(seen) <= 3, True)


def inspect_names_the_permits_and_break_takes_one(w):
    holder, _ = w.hold('shown', '--permits', '2')
    status, out, err = w.run('inspect', '--json', '--permits', '2', 'shown')
    tap.equal(f'inspect {err}', status, 0)
    seen = json.loads(out)
    tap.equal('kind, all and free', (seen['kind'], seen['permits'], seen['permits_free']),
              ('semaphore', 2, 1))
    permit = seen['holders'][0]['owner']
    if SERVICE == 'redis':
        tap.equal('an id', len(permit), 32)
    # Who doesn't know what it is finds out.
    for options in ([], ['-s']):
        status, out, err = w.run('inspect', '--json', *options, 'shown')
        tap.equal(f'{options} {err}', status, 0)
        seen = json.loads(out)
        tap.equal('without --permits', (seen['kind'], seen['permits'], seen['permits_free'],
                                        seen['holders'][0]['owner']), ('semaphore', 2, 1, permit))
    out = w.run('inspect', 'shown')[1]
    tap.equal(out, ' 1 of its 2 permits are free.\nHeld by ' in out, True)
    status, _, err = w.run('break', '--force', '--owner', permit, '--permits', '2', 'shown')
    tap.equal(f'break {err}', status, 0)
    status, out, _ = w.run('inspect', '--json', '--permits', '2', 'shown')
    tap.equal('free again', json.loads(out)['permits_free'], 2)
    holder.kill()


@world.only_on('redis')
def what_is_no_lock_is_told_whatever_it_is(w):
    holder = w.start('run', '--permits', '3', '--set', 'redis.semaphore=plain', 'plain', '-c',
                     'echo ready; exec sleep 1000')
    wait_until('it holds', holder.stdout.readline)
    seen = w.inspect('plain')
    tap.equal('plain', (seen['kind'], seen['permits_free'], seen.get('permits')),
              ('semaphore', 2, None))
    leased, _ = w.hold('leased', '--permits', '2')
    for name in ('plain', 'leased'):  # nobody knows whom to ask
        status, _, err = w.run('revoke', name)
        tap.equal(err, (status, 'a semaphore is here' in err), (64, True))
    w.let_go(leased)
    holder.kill()
    w.redis.command('SET', 'text', 'foreign')
    w.redis.command('LPUSH', 'list', 'foreign')
    for name in ('text', 'list'):
        status, _, err = w.run('inspect', name)
        tap.equal(err, (status, name in err, 'WRONGTYPE' in err), (64, True, False))


def a_killed_holders_permit_comes_back(w):
    holder = w.start('run', '--ttl', lease(1), '--permits', '1', 'mourned', '-c',
                     'echo ready; exec sleep 1000')
    wait_until('it holds', holder.stdout.readline)
    holder.kill()
    status, _, err = w.run('run', '-w', str(LIMIT), '--permits', '1', 'mourned', '--', 'true')
    tap.equal(f'next {err}', status, 0)


def wrong_numbers_are_64_and_say_why(w):
    holder, _ = w.hold('three', '--permits', '3')
    for options, says in [
            (['--permits', '-1'], 'lock.permits'),
            (['--permits', '2147483648'], 'lock.permits'),
            (['--permits', 'many'], 'lock.permits'),
            (['--permits', '4'], 'has 3 permits, lock.permits says 4'),
            (['--permits', '3', '--set', 'lock.take=4'], 'lock.take'),
            (['--permits', '0', '--set', 'lock.take=4'], 'lock.take=4'),
            ([], 'three'),
            (['--permits', '3', '--set', 'client.require=fencing'], 'fence')]:
        status, _, err = w.run('run', *options, 'three', '--', 'true')
        tap.equal(f'{options} {err}', (status, says in err), (64, True))
    if SERVICE == 'redis':
        plain = ['--permits', '3', '--set', 'redis.semaphore=plain']
        status, _, err = w.run('run', *plain, 'three', '--', 'true')
        tap.equal(f'another form {err}', (status, 'three' in err), (64, True))
    status, _, err = w.run('run', '--permits', '0', 'nowhere', '--', 'true')
    tap.equal(f'none {err}', (status, 'set lock.permits' in err), (64, True))
    status, _, err = w.run('run', '-n', '--permits', '0', 'three', '--', 'true')
    tap.equal(f'as it is {err}', status, 0)
    w.let_go(holder)


if __name__ == '__main__':
    world.main([
        as_many_commands_run_as_there_are_permits,
        never_more_than_so_many_are_inside,
        inspect_names_the_permits_and_break_takes_one,
        what_is_no_lock_is_told_whatever_it_is,
        a_killed_holders_permit_comes_back,
        wrong_numbers_are_64_and_say_why,
    ])

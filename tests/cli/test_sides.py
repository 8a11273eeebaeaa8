#!/usr/bin/env python3
"""dlock with -s and -x, as flock(1) has them: commands that read together, and one that writes."""
import json
import os

import tap
import world
from world import LIMIT, SERVICE, lease, wait_until


def in_line(w, name):
    """How many others of this name wait, or listen."""
    if SERVICE == 'redis':
        answer = w.redis.command('PUBSUB', 'NUMSUB', 'redisson_rwlock:{%s}' % name)
        return int(answer.split(b':')[-1])
    return int(w.inspect(name)['waiters'])


def shared_commands_run_together_and_an_exclusive_one_alone(w):
    readers = [w.hold('book', '-s') for _ in range(2)]
    tokens = [line['token'] for _, line in readers]
    tap.equal(f'tokens rise: {tokens}', 0 < tokens[0] < tokens[1], True)
    tap.equal('-x is busy', w.run('run', '-n', '-x', 'book', '--', 'true')[0], 1)
    tap.equal('-s is not', w.run('run', '-n', '-s', 'book', '--', 'true')[0], 0)
    w.let_go(readers[0][0])
    tap.equal('-x is still busy', w.run('run', '-n', '-x', 'book', '--', 'true')[0], 1)
    w.let_go(readers[1][0])
    writer, line = w.hold('book', '-x')
    tap.equal(f'token {line["token"]}', line['token'] > tokens[1], True)
    for option in ('-s', '-x'):
        status, _, err = w.run('run', '-n', option, 'book', '--', 'true')
        tap.equal(f'{option} {err}', status, 1)
    w.let_go(writer)


def whoever_waits_runs_when_the_other_side_has_gone(w):
    for first, second in (('-s', '-x'), ('-x', '-s'), ('-x', '-x')):
        holder, _ = w.hold('turns', first)
        waiting = [w.start('run', '-w', str(LIMIT), second, 'turns', '-c', 'echo "$DLOCK_TOKEN"')
                   for _ in range(2)]
        wait_until('both wait', lambda: in_line(w, 'turns') == 2)
        tap.equal('they wait', [one.poll() for one in waiting], [None, None])
        w.let_go(holder)
        for one in waiting:
            status, out, err = w.finish(one)
            tap.equal(f'{second} after {first}: {err}', (status, int(out) > 0), (0, True))


def readers_and_writers_never_meet(w):
    pages = [w.path(f'page{number}') for number in (1, 2)]
    write = ' && '.join(f'echo $$ > {page} && sleep 0.01' for page in pages)
    read = f'cat {pages[0]} && sleep 0.01 && cat {pages[1]}'
    tap.equal('first', w.run('run', '-x', 'pages', '-c', write)[0], 0)
    shells = []
    for number in range(12):
        option, script = ('-x', write) if number % 4 == 0 else ('-s', read)
        shells.append((option, w.start('run', option, 'pages', '-c', script)))
    for option, shell in shells:
        status, out, err = w.finish(shell, LIMIT * 3)
        tap.equal(f'{option} {err}', status, 0)
        tap.equal(f'both pages of one writer: {out.split()}', len(set(out.split())) <= 1, True)


def inspect_ls_and_break_know_it(w):
    readers = [w.hold('shown', '-s') for _ in range(2)]
    for options in ([], ['-s'], ['-x']):
        status, out, err = w.run('inspect', '--json', *options, 'shown')
        tap.equal(f'inspect {options} {err}', status, 0)
        seen = json.loads(out)
        tap.equal('kind', seen['kind'], 'read')
        tap.equal('owners', sorted(one['owner'] for one in seen['holders']),
                  sorted(line['owner'] for _, line in readers))
        tap.equal('tokens', sorted(one['token'] for one in seen['holders']),
                  [line['token'] for _, line in readers])
    _, out, _ = w.run('ls', '--json')
    tap.equal('ls', [one['name'] for one in json.loads(out)['locks']], ['shown'])
    status, _, err = w.run('break', '--force', 'shown')
    tap.equal(f'break of another kind: {err}', status, 64)
    status, _, err = w.run('break', '--force', '-s', '--owner', readers[0][1]['owner'], 'shown')
    tap.equal(f'break of one: {err}', status, 0)
    tap.equal('the other one reads', w.run('run', '-n', '-x', 'shown', '--', 'true')[0], 1)
    status, _, err = w.run('break', '--force', '-x', 'shown')
    tap.equal(f'break of all: {err}', status, 0)
    tap.equal('free', w.run('run', '-n', '-x', 'shown', '--', 'true')[0], 0)
    for holder, _ in readers:
        holder.kill()


def wait_returns_when_the_last_reader_has_gone(w):
    holder, _ = w.hold('awaited', '-s')
    tap.equal('held', w.run('wait', '-n', '-x', 'awaited')[0], 1)
    waiting = w.start('wait', '-w', str(LIMIT), '-s', 'awaited')
    if SERVICE == 'redis':  # who only looks has no place in a line
        wait_until('it listens', lambda: in_line(w, 'awaited') == 1)
    tap.equal('it waits', waiting.poll(), None)
    w.let_go(holder)
    status, _, err = w.finish(waiting)
    tap.equal(f'free {err}', status, 0)


def a_killed_reader_or_writer_is_followed_when_its_lease_is_over(w):
    for option, other in (('-s', '-x'), ('-x', '-s'), ('-x', '-x')):
        holder, _ = w.hold('mourned', option, '--ttl', lease(1))
        holder.kill()
        status, _, err = w.run('run', '-w', str(LIMIT), other, 'mourned', '--', 'true')
        tap.equal(f'{other} after {option}: {err}', status, 0)


def a_plain_lock_and_a_side_of_one_do_not_mix(w):
    marker = w.path('ran')
    plain, _ = w.hold('mixed')
    for option in ('-s', '-x'):
        status, _, err = w.run('run', option, 'mixed', '--', 'touch', marker)
        tap.equal(f'{option} on a plain one: {err}', (status, 'another kind' in err), (64, True))
    w.let_go(plain)
    for option in ('-s', '-x'):
        side, _ = w.hold('mixed', option)
        status, _, err = w.run('run', 'mixed', '--', 'touch', marker)
        tap.equal(f'plain on {option}: {err}', (status, 'another kind' in err), (64, True))
        w.let_go(side)
    tap.equal('nothing ran', os.path.exists(marker), False)


if __name__ == '__main__':
    world.main([
        shared_commands_run_together_and_an_exclusive_one_alone,
        whoever_waits_runs_when_the_other_side_has_gone,
        readers_and_writers_never_meet,
        inspect_ls_and_break_know_it,
        wait_returns_when_the_last_reader_has_gone,
        a_killed_reader_or_writer_is_followed_when_its_lease_is_over,
        a_plain_lock_and_a_side_of_one_do_not_mix,
    ])

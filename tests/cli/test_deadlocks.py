"""dlock doctor --deadlocks, and what top says of them: by what clients tell, as by hand here.

That clients tell so, and end it themselves, is tests/backends/redis/test_deadlock.c."""
import json

import tap
import test_top
import world
from test_told import command, fresh, listed, write

UUIDS = [f'{number:08x}-2222-4333-8444-555555555555' for number in range(60)]


def hold(w, number, name, grant=1):
    """As this client has it, for the server."""
    command(w, 'HSET', name, f'{UUIDS[number]}:{grant}', '1')


def circle(w, size):
    """Client i has lock i and waits for the next one's, the last of all for the shortest time."""
    for i in range(size):
        hold(w, i, f'c{i}')
        write(w, UUIDS[i], f'h 90000 1 1 7 mutex c{i}\n'
              f'w {50000 - 100 * i} 2 0 7 mutex c{(i + 1) % size}\n')


def found(w, *options):
    status, out, err = w.run('doctor', '--deadlocks', '--json', *options)
    deadlocks = json.loads(out).get('deadlocks', [])
    tap.equal(err, status, 1 if deadlocks else 0)
    return deadlocks


def where_nobody_waits_there_is_none(w):
    tap.equal('nobody', w.run('doctor', '--deadlocks'),
              (0, 'no deadlock among what 0 clients tell\n', ''))
    circle(w, 3)
    write(w, UUIDS[0], 'h 90000 1 1 7 mutex c0\n')
    tap.equal('a line', w.run('doctor', '--deadlocks'),
              (0, 'no deadlock among what 3 clients tell\n', ''))


def circles_are_drawn_and_what_ends_them(w):
    for size in (2, 3, 50):
        command(w, 'FLUSHALL')
        circle(w, size)
        one, = found(w)
        tap.equal('size', len(one['waits']), size)
        tap.equal('who', sorted(wait['uuid'] for wait in one['waits']), UUIDS[:size])
        for i, wait in enumerate(one['waits']):
            tap.equal(f'{i}', wait['name'], one['waits'][(i + 1) % size]['has'])
        last = one['waits'][one['last']]
        tap.equal('who came last', last['uuid'], UUIDS[size - 1])
        tap.equal('what ends it', one['break'], {
            'name': f'c{size - 1}', 'kind': 'mutex', 'owner': f'{UUIDS[size - 1]}:1'})
        status, out, err = w.run('doctor', '--deadlocks')
        lines = out.splitlines()
        tap.equal(err, (status, lines[0]), (1, f'deadlock: {size} wait for each other'))
        tap.equal(out, lines[1].startswith('  by hand on there, process 7, thread 7 has c'), True)
        tap.equal('break', lines[-1],
                  f'    dlock break --force --owner {UUIDS[size - 1]}:1 c{size - 1}')
        tap.equal('it does', w.run(*lines[-1].split()[1:])[0], 0)
        tap.equal('and then there is none', found(w), [])


def what_the_server_knows_better_is_no_circle(w):
    circle(w, 2)
    command(w, 'DEL', 'c1')
    tap.equal('nobody has it', found(w), [])
    hold(w, 9, 'c1')
    tap.equal('another has it', found(w), [])
    command(w, 'DEL', 'c1')
    hold(w, 1, 'c1', 5)
    tap.equal('a later grant', found(w), [])


def a_semaphore_is_in_a_circle_when_all_its_permits_are(w):
    def permits(*ids):
        command(w, 'DEL', '{s}:timeout')
        command(w, 'SET', 's', '0')
        for permit in ids:
            command(w, 'ZADD', '{s}:timeout', '99999999999999', permit)

    hold(w, 0, 'x')
    write(w, UUIDS[0], 'h 90000 1 1 7 mutex x\nw 5000 2 0 7 semaphore s\n')
    write(w, UUIDS[1], 'h 90000 1 1 7 semaphore s\nw 4000 2 0 7 mutex x\n')
    permits('a' * 16)
    one, = found(w)
    tap.equal('break', (one['break'], one['waits'][one['last']]['uuid']),
              ({'name': 's', 'kind': 'semaphore'}, UUIDS[1]))
    tap.equal('in words', 'its end ends this' in w.run('doctor', '--deadlocks')[1], True)
    permits('a' * 16, 'b' * 16)
    tap.equal('of one nothing is known', found(w), [])


def of_a_semaphore_each_holder_is_followed(w):
    """Who has its other permit waits for a lock that is in no circle of its own."""
    command(w, 'SET', 's', '0')
    for permit in 'a' * 16, 'b' * 16:
        command(w, 'ZADD', '{s}:timeout', '99999999999999', permit)
    hold(w, 0, 'x', 1)
    hold(w, 0, 'y', 2)
    write(w, UUIDS[0], 'h 90000 1 1 7 mutex x\nh 90000 2 1 7 mutex y\nw 5000 3 0 7 semaphore s\n')
    write(w, UUIDS[1], 'h 90000 1 1 7 semaphore s\nw 4000 2 0 7 mutex x\n')
    write(w, UUIDS[2], 'h 90000 1 1 7 semaphore s\nw 3000 2 0 7 mutex y\n')
    tap.equal('one', len(found(w)), 1)
    command(w, 'DEL', 'y')
    tap.equal('one gets on', found(w), [])


def a_writer_waits_for_every_reader(w):
    for number in (1, 2):
        command(w, 'HSET', 'rw', f'{UUIDS[number]}:1', '1')
    command(w, 'HSET', 'rw', 'mode', 'read')
    hold(w, 0, 'x')
    write(w, UUIDS[0], 'h 90000 1 1 7 mutex x\nw 5000 2 0 7 write rw\n')
    write(w, UUIDS[1], 'h 90000 1 1 7 read rw\n')
    write(w, UUIDS[2], 'h 90000 1 1 7 read rw\nw 4000 2 0 7 mutex x\n')
    one, = found(w)
    tap.equal('who', sorted(wait['uuid'] for wait in one['waits']), [UUIDS[0], UUIDS[2]])
    tap.equal('how', f'break --force -s --owner {UUIDS[2]}:1 rw' in
              w.run('doctor', '--deadlocks')[1], True)


def names_with_escapes_and_garbage_do_no_harm(w):
    hold(w, 0, '\x1b[2Jx')
    hold(w, 1, 'y')
    write(w, UUIDS[0], 'h 90000 1 1 7 mutex %1b[2Jx\nw 5000 2 0 7 mutex y\nw x\n\n')
    write(w, UUIDS[1], 'h 90000 1 1 7 mutex y\nw 4000 2 0 7 mutex %1b[2Jx\nh 1 1 1 1 odd y\n')
    status, out, _ = w.run('doctor', '--deadlocks')
    tap.equal(out, (status, '\x1b' in out), (1, False))
    tap.equal('top', '\x1b' in ''.join(map(str, w.run('top', '--once'))), False)


def top_and_stats_say_so(w):
    circle(w, 2)
    status, out, err = w.run('top', '--once')
    tap.equal(err, (status, 'DEADLOCK, 2 wait for each other:' in err), (0, True))
    tap.equal('top --json', json.loads(w.run('top', '--once', '--json')[1])['deadlocks'], 1)
    tap.equal('stats', json.loads(w.run('stats', '--json')[1])['deadlocks'], 1)
    tap.equal('however few are listed', len(listed(w, '--max', '1')['deadlocks']), 1)
    command(w, 'FLUSHALL')
    tap.equal('none', json.loads(w.run('stats', '--json')[1])['deadlocks'], 0)


def a_screen_shows_it_until_it_ends(w):
    circle(w, 2)
    with test_top.top(w) as screen:
        text = screen.wait_for('DEADLOCK, 2 wait for each other:')
        tap.equal(f'where: {text}', [text.count('DEADLOCK'), len(text.rstrip().split('\n')) <= 24],
                  [1, True])
        screen.resize(40, 8)
        screen.wait_for('DEADLOCK, 2 wait')
        command(w, 'DEL', 'dlock_client:all')
        screen.wait_without('DEADLOCK')


def where_clients_tell_nothing_that_is_said(w):
    for url in ('mem://', w.url + '?redis.client_key=false'):
        status, out, err = w.run('doctor', '--deadlocks', '--url', url)
        tap.equal(err, (status, out, 'not supported: nobody tells' in err), (64, '', True))
    command(w, 'SET', 'dlock_client:all', "somebody's")
    status, out, err = w.run('doctor', '--deadlocks')
    tap.equal(err, (status, 'WRONGTYPE' in err), (64, True))


if __name__ == '__main__':
    world.main([fresh(test) for test in (
        where_nobody_waits_there_is_none,
        circles_are_drawn_and_what_ends_them,
        what_the_server_knows_better_is_no_circle,
        a_semaphore_is_in_a_circle_when_all_its_permits_are,
        of_a_semaphore_each_holder_is_followed,
        a_writer_waits_for_every_reader,
        names_with_escapes_and_garbage_do_no_harm,
        top_and_stats_say_so,
        a_screen_shows_it_until_it_ends,
        where_clients_tell_nothing_that_is_said,
    )])

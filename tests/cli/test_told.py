"""What clients tell of their locks on Redis: ls and top read that, and look at no other keys."""
import json
import re
import time

import tap
import world
from waiting import wait_until

world.AT_ONCE = False
HALF = 18  # characters of a client's uuid, by which its key is called

def command(w, *words):
    return w.redis.command(*words)


def listed(w, *options):
    status, out, err = w.run('ls', '--json', *options)
    tap.equal(err, status, 0)
    return json.loads(out)


def names(w, *options):
    return [one['name'] for one in listed(w, *options).get('locks', [])]


def told(w, state):
    return [(one['name'], one.get('pid')) for one in listed(w).get('told', [])
            if one['state'] == state]


def calls(w, name):
    """How often the server has carried out a command, by INFO commandstats."""
    stats = command(w, 'INFO', 'commandstats')
    found = re.search(rf'cmdstat_{name}:calls=(\d+)', stats.decode())
    return int(found.group(1)) if found else 0


def write(w, uuid, lines, ends=100000, date=None):
    """A client's key, as it would write it."""
    now = int(time.time() * 1000)
    text = f'by hand\tthere\t7\t\n{now if date is None else date} {uuid}\n{lines}'
    command(w, 'SET', f'dlock_client:{uuid[:HALF]}', text)
    command(w, 'ZADD', 'dlock_client:all', str(now + ends), uuid[:HALF])


def who_holds_and_who_waits_is_told(w):
    holder, _ = w.hold('told/a name')
    waiter = w.start('hold', 'told/a name')
    wait_until('told', lambda: names(w) == ['told/a name'])
    wait_until('who waits', lambda: told(w, 'waiting') == [('told/a name', waiter.pid)])
    wait_until('who holds', lambda: told(w, 'held') == [('told/a name', holder.pid)])
    tap.equal('ls', w.run('ls', 'told/'), (0, 'told/a name\n', ''))
    tap.equal('another prefix', names(w, 'tolled/'), [])
    before = calls(w, 'scan')
    w.run('ls')
    tap.equal('no key of others is looked at', calls(w, 'scan'), before)
    waiter.terminate()
    w.finish(waiter)
    wait_until('nobody waits', lambda: told(w, 'waiting') == [])
    w.let_go(holder)
    tap.equal('nothing stays', command(w, 'ZCARD', 'dlock_client:all'), b':0\r\n')


def what_does_not_last_is_not_told_and_costs_nothing(w):
    for _ in range(5):
        tap.equal('run', w.run('run', 'short', 'true')[0], 0)
    tap.equal('nobody tells', command(w, 'EXISTS', 'dlock_client:all'), b':0\r\n')
    status, out, err = w.run('ls')
    tap.equal(err, (status, out, '--scan' in err), (0, '', True))


def what_is_told_is_checked(w):
    """Who died goes on telling for minutes; a lock that somebody else has shows whose it is."""
    dead = '11111111-2222-3333-4444-555555555555'
    other = '22222222-2222-3333-4444-555555555555'
    write(w, dead, 'h 5000 1 1 0 mutex gone\nh 5000 2 1 0 mutex taken\n')
    command(w, 'HSET', 'taken', f'{other}:9', '1')
    locks = listed(w)['locks']
    tap.equal('locks', [(one['name'], one['owner']) for one in locks], [('taken', f'{other}:9')])


def who_has_ended_is_not_asked(w):
    write(w, '11111111-2222-3333-4444-555555555555', 'h 5000 1 1 0 mutex old\n', ends=-1)
    tap.equal('clients', listed(w)['clients'], 0)


def what_makes_no_sense_is_counted(w):
    uuid = '11111111-2222-333%d-4444-555555555555'
    write(w, uuid % 0, 'h 1000 1 1 0 mutex fine\nx\nh 1 1\nw -5 1 1 0 mutex a\nh 1 1 1 1 m %zz\n'
          'h 1 1 1 1 m %00\n+7\nh 1 1 1 1 mutex cut off')
    write(w, uuid % 1, 'w 1000 1 1 0 mutex ahead\n', date=int(time.time() * 1000) + 10**9)
    for number, text in [(2, 'an older client\thost\t3'),
                         (3, 'x\n0\nh 1 1 1 1 mutex a'),  # without a uuid, …
                         (4, f'x\n0 {uuid % 1}\nh 1 1 1 1 mutex a\n')]:  # … of somebody else
        command(w, 'SET', f'dlock_client:{(uuid % number)[:HALF]}', text)
        command(w, 'ZADD', 'dlock_client:all', '9999999999999', (uuid % number)[:HALF])
    command(w, 'RPUSH', f'dlock_client:{(uuid % 5)[:HALF]}', 'a list')
    command(w, 'ZADD', 'dlock_client:all', '9999999999999', (uuid % 5)[:HALF])
    command(w, 'ZADD', 'dlock_client:all', '9999999999999', 'no uuid')
    info = listed(w)
    tap.equal('read', [(one['name'], one['state']) for one in info['told']],
              [('ahead', 'waiting'), ('fine', 'held')])
    tap.equal('whose', (info['told'][1]['uuid'], info['told'][1]['owner']),
              (uuid % 0, f'{uuid % 0}:1'))
    tap.equal('no date is ahead', info['told'][0]['since'] <= info['date'], True)
    tap.equal('not named, not read', (info['untold'], info['unread']), (7, 9))
    tap.equal('said', ('7 more' in w.run('ls')[2], w.run('ls')[0]), (True, 0))


def a_semaphore_is_told_and_asked_about(w):
    holder, _ = w.hold('some', '--permits', '2')
    wait_until('told', lambda: names(w) == ['some'])
    info = listed(w)
    tap.equal('what it is', [(one['kind'], one['taken']) for one in info['locks']],
              [('semaphore', 1)])
    tap.equal('whose', info['locks'][0]['pid'], holder.pid)
    tap.equal('told', [(one['kind'], one['pid'], 'owner' in one) for one in info['told']],
              [('semaphore', holder.pid, False)])
    w.let_go(holder)


def where_it_cannot_be_read_all_keys_are_gone_through(w):
    holder, _ = w.hold('there')
    command(w, 'DEL', 'dlock_client:all')
    command(w, 'SET', 'dlock_client:all', "somebody's")
    status, out, err = w.run('ls')
    tap.equal(err, (status, out.split(), 'gone through all keys' in err), (0, ['there'], True))
    command(w, 'DEL', 'dlock_client:all')
    w.let_go(holder)


def scan_finds_the_locks_of_others_and_says_what_it_took(w):
    command(w, 'HSET', 'of others', '11111111-2222-3333-4444-555555555555:1', '1')
    tap.equal('without', names(w), [])
    status, out, err = w.run('ls', '--scan')
    tap.equal(err, (status, out, bool(re.search(r'in 2 steps of together \d+ ms', err))),
              (0, 'of others\n', True))


def a_client_of_a_thousand_locks_writes_a_bounded_key(w):
    """By hand, as many as a client names; the list is cut where --max says."""
    lines = ''.join(f'h 5000 {i} 1 0 mutex many/{i:04}\n' for i in range(1000))
    write(w, '11111111-2222-3333-4444-555555555555', lines + '+99000\n')
    for i in range(1000):
        command(w, 'HSET', f'many/{i:04}', '11111111-2222-3333-4444-555555555555:1', '1')
    tap.equal('all', len(names(w)), 1000)
    tap.equal('--max', names(w, '--max', '2'), ['many/0000', 'many/0001'])
    tap.equal('more', listed(w)['untold'], 99000)


def more_clients_than_are_asked_are_said_to_be_there(w):
    for i in range(0, 10001, 1000):
        members = [f'{number:08x}-2222-3333' for number in range(i, min(i + 1000, 10001))]
        command(w, 'ZADD', 'dlock_client:all',
                *(word for member in members for word in ('9999999999999', member)))
    status, _, err = w.run('ls')
    tap.equal(err, (status, 'more clients tell' in err), (70, True))
    command(w, 'ZREM', 'dlock_client:all', '00000000-2222-3333')
    tap.equal('all of them', w.run('ls')[0], 0)


def a_refresh_of_top_reads_what_has_changed(w):
    """Of clients that hold a lock each one tells something else between two refreshes."""
    uuid = '{:08x}-2222-3333-4444-555555555555'.format
    for i in range(200):
        write(w, uuid(i), f'h 5000 1 1 0 mutex lock%20{i:03}\n'
              f'w 3000 2 0 0 mutex lock%20{(i + 1) % 200:03}\n', ends=300000)
        command(w, 'HSET', f'lock {i:03}', f'{uuid(i)}:1', '1')
        command(w, 'PEXPIRE', f'lock {i:03}', '600000')
    top = w.start('top', '--json')
    first = json.loads(top.stdout.readline())
    tap.equal('all', (len(first['locks']), first['held'], first['waiting']), (200, 200, 200))
    row = first['locks'][0]
    tap.equal('since when', (row['held_ms'] >= 5000, row['waited_ms'] >= 3000), (True, True))
    before = calls(w, 'getrange'), calls(w, 'hkeys')
    for _ in range(2):
        tap.equal('all', len(json.loads(top.stdout.readline())['locks']), 200)
    tap.equal('nothing is read twice', (calls(w, 'getrange'), calls(w, 'hkeys')), before)
    write(w, uuid(7), 'h 5000 1 1 0 mutex lock%20007\n', ends=300001)
    wait_until('the wait is over', lambda: json.loads(top.stdout.readline())['waiting'] == 199)
    tap.equal('one client, and the lock it waited for', (calls(w, 'getrange'), calls(w, 'hkeys')),
              (before[0] + 1, before[1] + 1))
    command(w, 'ZREM', 'dlock_client:all', uuid(9)[:HALF])  # as who closes does
    command(w, 'DEL', f'dlock_client:{uuid(9)[:HALF]}')
    wait_until('it is gone', lambda: json.loads(top.stdout.readline())['waiting'] == 198)
    tap.equal('the others are known still', calls(w, 'getrange'), before[0] + 1)
    top.terminate()
    w.finish(top)


def who_writes_by_a_clock_that_was_set_back_a_little_is_read(w):
    uuid = '{:08x}-2222-3333-4444-555555555555'.format
    write(w, uuid(1), 'h 5000 1 1 0 mutex stepped\nw 3000 2 0 0 mutex stepped\n', ends=300000)
    command(w, 'HSET', 'stepped', f'{uuid(1)}:1', '1')
    command(w, 'PEXPIRE', 'stepped', '600000')
    top = w.start('top', '--json')
    tap.equal('it waits', json.loads(top.stdout.readline())['waiting'], 1)
    top.stdout.readline()
    write(w, uuid(1), 'h 5000 1 1 0 mutex stepped\n', ends=299500)  # right behind that look
    wait_until('the wait is over', lambda: json.loads(top.stdout.readline())['waiting'] == 0)
    top.terminate()
    w.finish(top)


def who_may_not_count_tries_it_once(w):
    """And then reads who tells with each look."""
    uuid = '00000001-2222-3333-4444-555555555555'
    write(w, uuid, 'h 5000 1 1 0 mutex uncounted\n', ends=300000)
    command(w, 'HSET', 'uncounted', f'{uuid}:1', '1')
    command(w, 'PEXPIRE', 'uncounted', '600000')
    command(w, 'ACL', 'SETUSER', 'few', 'on', '>few', '~*', '&*', '+@all', '-zcount')
    command(w, 'ACL', 'LOG', 'RESET')
    top = w.start('top', '--json', '--url', w.url.replace('://', '://few:few@'))
    for _ in range(4):
        tap.equal('listed', len(json.loads(top.stdout.readline())['locks']), 1)
    tap.equal('tried', re.findall(rb'count\r?\n:(\d+)', command(w, 'ACL', 'LOG')), [b'1'])
    command(w, 'DEL', 'dlock_client:all')
    wait_until('gone', lambda: json.loads(top.stdout.readline())['locks'] == [])
    top.terminate()
    w.finish(top)
    command(w, 'ACL', 'DELUSER', 'few')


def fresh(test):
    def run(w):
        command(w, 'FLUSHALL')
        test(w)
    run.__name__ = test.__name__
    return run


if __name__ == '__main__':
    world.main([fresh(test) for test in (
        who_holds_and_who_waits_is_told,
        what_does_not_last_is_not_told_and_costs_nothing,
        what_is_told_is_checked,
        who_has_ended_is_not_asked,
        what_makes_no_sense_is_counted,
        a_semaphore_is_told_and_asked_about,
        where_it_cannot_be_read_all_keys_are_gone_through,
        scan_finds_the_locks_of_others_and_says_what_it_took,
        a_client_of_a_thousand_locks_writes_a_bounded_key,
        more_clients_than_are_asked_are_said_to_be_there,
        a_refresh_of_top_reads_what_has_changed,
        who_writes_by_a_clock_that_was_set_back_a_little_is_read,
        who_may_not_count_tries_it_once,
    )])

#!/usr/bin/env python3
"""Every program of examples/ does what the documentation says it does.

Usage: test_examples.py FOLDER SERVICE [DLOCK], where SERVICE is mem, file, redis or postgres.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import tap
from postgres_server import Postgres
from servers import Redis
from waiting import LIMIT

FOLDER = Path(sys.argv[1])
SERVICE = sys.argv[2]
COMMAND = sys.argv[3] if len(sys.argv) > 3 else ''
WORK = Path(tempfile.mkdtemp(prefix='dlock-examples-'))


SERVERS = {}


def redis(name):
    if name not in SERVERS:
        SERVERS[name] = Redis()
    return f'{SERVERS[name].directory}/socket'


def postgres():
    if 'postgres' not in SERVERS:
        SERVERS['postgres'] = Postgres()
    return SERVERS['postgres'].url


def url():
    if SERVICE == 'mem':
        return 'mem:'
    if SERVICE == 'postgres':
        return postgres()
    return f'file://{WORK}/locks' if SERVICE == 'file' else f'redis+unix://{redis("locks.sock")}'


def program(name):
    path = FOLDER / name
    if not path.exists():
        raise tap.Skip(f'{name} was not built: what it needs is not installed')
    return str(path)


def run(name, *arguments, status=0):
    """Runs an example to its end and returns what it printed."""
    done = subprocess.run([program(name), *map(str, arguments)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=LIMIT, check=False)
    if done.returncode != status:
        raise AssertionError(f'{name}: exit {done.returncode}, want {status}\n{done.stdout}')
    return done.stdout


def start(name, *arguments):
    return subprocess.Popen([program(name), *map(str, arguments)], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def end(process):
    if process.poll() is None:
        process.send_signal(signal.SIGCONT)
        process.kill()
    process.wait()
    process.stdout.close()


def contains(what, text, *parts):
    for part in parts:
        if not re.search(part, text):
            raise AssertionError(f'{what}: no {part!r} in\n{text}')


# ---- README and tutorial ----

def ten_lines_take_a_lock_and_give_it_back():
    contains('output', run('ten_lines', url()), r'order 42 shipped under token \d+')


def a_page_for_prometheus_tells_what_is_held():
    page = run('metrics', url())
    contains('page', page, r'(?m)^dlock_holds\{.*state="held"\} 1$')
    contains('page', page, r'(?m)^# EOF$')


def an_error_says_what_is_wrong():
    contains('output', run('ten_lines', 'filed:/x', status=1), 'filed')


def the_readmes_line_of_shell_counts():
    if not COMMAND:
        raise tap.Skip('the command was not built')
    readme = (Path(__file__).resolve().parent.parent.parent / 'README.md').read_text('utf-8')
    line = re.search(r'^dlock run .*', readme, re.M)[0]
    (WORK / 'n').write_text('41\n')
    where = {**os.environ, 'PATH': f'{Path(COMMAND).parent}:{os.environ["PATH"]}'}
    tap.run(['sh', '-c', line.replace('/run/lock/app', f'{WORK}/app')], cwd=WORK, env=where,
            timeout=LIMIT)
    tap.equal('n', (WORK / 'n').read_text(), '42\n')


def tutorial_1_takes_and_releases():
    contains('output', run('tutorial_1', url()), r'held, token [1-9]\d*\nreleased')


def tutorial_2_says_that_somebody_else_has_it():
    contains('a free lock', run('tutorial_2', url(), 0), 'held, token')
    holder = start('tutorial_3', url(), 100)
    try:
        contains('the holder', holder.stdout.readline(), 'held')
        contains('once', run('tutorial_2', url(), 0, status=75), 'somebody else')
        contains('for a while', run('tutorial_2', url(), 200, status=75), 'somebody else')
    finally:
        end(holder)


def tutorial_3_works_to_its_end():
    contains('output', run('tutorial_3', url(), 2), 'is ours for [12]\\d\\d\\d ms', 'done')


def lines_until(process, pattern):
    """What a process prints up to a line that matches."""
    seen = []
    for line in process.stdout:
        seen.append(line)
        if re.search(pattern, line):
            return ''.join(seen)
    raise AssertionError(f'no {pattern!r} in\n{"".join(seen)}')


def stops_early(holder):
    """It says that it has lost the lock, and hasn't gone on to the end of its work first."""
    text = lines_until(holder, '^lost: ')
    if re.search(r'(?m)^0 pieces left', text):
        raise AssertionError(f'went on without the lock:\n{text}')


def tutorial_3_notices_that_it_was_stopped_too_long():
    holder = start('tutorial_3', url(), 100)
    try:
        lines_until(holder, 'pieces left')
        holder.send_signal(signal.SIGSTOP)
        # Not for long: as soon as the lease is over somebody else gets the lock.
        contains('another', run('tutorial_2', url(), LIMIT * 1000), 'held, token')
        holder.send_signal(signal.SIGCONT)
        stops_early(holder)
        tap.equal('status', holder.wait(LIMIT), 75)
    finally:
        end(holder)


def tutorial_3_notices_that_its_lock_was_broken():
    if not COMMAND:
        raise tap.Skip('the dlock command was not built')
    holder = start('tutorial_3', url(), 100)
    try:
        lines_until(holder, 'pieces left')
        tap.run([COMMAND, 'break', '--force', '--url', url(), 'greeting'], timeout=LIMIT)
        stops_early(holder)
        tap.equal('status', holder.wait(LIMIT), 75)
    finally:
        end(holder)


# ---- How-to ----

def one_thread_waits_for_many_locks():
    tap.equal('output', run('event_loop', url()), '40 jobs, 5 locks, 1 thread: 0 failed\n')


def forked_workers_lose_no_update():
    if SERVICE == 'mem':
        contains('mem:', run('fork_workers', url(), WORK / 'number', status=64), 'not mem:')
        return
    tap.equal('output', run('fork_workers', url(), WORK / 'number'),
              '4 workers, 25 turns each: 100 added\n')
    tap.equal('the file', (WORK / 'number').read_text(encoding='ascii'), '100\n')


def refuses_a_stale_write(name, *resource):
    """The whole story: who held what, in which order, and that it ended well."""
    text = run(name, url(), *resource)
    contains(name, text, r'(?s)first: held.*first: pauses.*second: held.*second: committed'
             r'.*first: goes on.*first: undone\nfirst: lost the lock\nfirst: DLOCK_ELOST',
             "only the second holder's write is there")
    first, second = map(int, re.findall(r': held, token (\d+)', text))
    if first >= second:
        raise AssertionError(f'tokens don\'t rise: {first}, {second}')


def two_accounts_are_locked_as_one():
    contains('output', run('transfer', url()), r'moved under tokens [1-9]\d* and [1-9]\d*')
    contains('one account twice', run('transfer', url(), 'a', 'a', status=1), 'a is there twice')


def who_comes_for_a_file_waits_until_it_is_put_there():
    inbox = WORK / 'inbox'
    fetches = start('condition', url(), inbox) if SERVICE != 'mem' else None
    try:
        run('condition', url(), inbox, 'put')
        out = fetches.communicate(timeout=LIMIT)[0] if fetches else run('condition', url(), inbox)
    finally:
        if fetches:
            end(fetches)
    contains('output', out, r'fetched under token [1-9]')
    tap.equal('it is still there', inbox.exists(), False)


def the_elected_one_publishes_where_it_is():
    tokens = re.findall(r'piece \d under token (\d+)', out := run('leader', url(), 'here:1'))
    contains('output', out, r'(?m)^here:1 leads$')
    tap.equal('pieces under one token', [len(tokens), len(set(tokens))], [3, 1])


def a_ticket_takes_the_lock_to_another_process():
    ticket = run('hand_off', url()).strip()
    if SERVICE == 'mem':  # of this process, whose locks end with it
        contains('another process', run('hand_off', url(), ticket, status=1), 'nobody gave it out')
        return
    contains('the second', run('hand_off', url(), ticket), r'goes on under token [1-9]')
    contains('a third', run('hand_off', url(), ticket, status=1), 'used before')


def a_file_refuses_a_stale_write():
    stock = WORK / 'stock'
    refuses_a_stale_write('guarded_file', stock)
    tap.equal('contents', int(stock.read_text(encoding='ascii')), 10)
    tap.equal('what lies beside it', sorted(p.name for p in WORK.glob('stock*')),
              ['stock', 'stock.fence'])


def a_damaged_fence_lets_nobody_pass():
    damaged = WORK / 'damaged'
    (WORK / 'damaged.fence').write_text('17', encoding='ascii')
    contains('output', run('guarded_file', url(), damaged, status=1), "can't read the fence")
    tap.equal('there is a file', damaged.exists(), False)


def a_row_in_sqlite_refuses_a_stale_write():
    refuses_a_stale_write('guarded_sqlite', WORK / 'stock.db')


def a_value_in_redis_refuses_a_stale_write():
    refuses_a_stale_write('guarded_redis', redis('locks.sock'))


def a_row_in_postgres_refuses_a_stale_write():
    if SERVICE == 'postgres':  # the lock is where the row is
        refuses_a_stale_write('guarded_postgres')


IN_ONE_PROCESS = (
    ten_lines_take_a_lock_and_give_it_back, a_page_for_prometheus_tells_what_is_held,
    an_error_says_what_is_wrong,
    tutorial_1_takes_and_releases, tutorial_3_works_to_its_end, one_thread_waits_for_many_locks,
    forked_workers_lose_no_update, two_accounts_are_locked_as_one,
    who_comes_for_a_file_waits_until_it_is_put_there,
    the_elected_one_publishes_where_it_is, a_ticket_takes_the_lock_to_another_process,
    a_file_refuses_a_stale_write,
    a_damaged_fence_lets_nobody_pass, a_row_in_sqlite_refuses_a_stale_write,
    a_value_in_redis_refuses_a_stale_write, a_row_in_postgres_refuses_a_stale_write)
AMONG_PROCESSES = (
    the_readmes_line_of_shell_counts,
    tutorial_2_says_that_somebody_else_has_it, tutorial_3_notices_that_it_was_stopped_too_long,
    tutorial_3_notices_that_its_lock_was_broken)


def afresh():
    """What a failed test may have left behind is cleared away."""
    for server in SERVERS.values():
        server.stop()
    SERVERS.clear()
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir()


def main():
    tests = list(IN_ONE_PROCESS + (() if SERVICE == 'mem' else AMONG_PROCESSES))
    if os.environ.get('DLK_SANITIZED'):
        # ThreadSanitizer can't follow threads that a forked child makes, and ends the child.
        # AddressSanitizer (gcc 12) forks its allocator as it stands: when a thread of the parent is
        # inside, the child waits for it for ever.
        tests.remove(forked_workers_lose_no_update)
    try:
        return tap.main([(test.__name__, test) for test in tests], afresh)
    finally:
        for server in SERVERS.values():
            server.stop()
        shutil.rmtree(WORK, ignore_errors=True)


if __name__ == '__main__':
    sys.exit(main())

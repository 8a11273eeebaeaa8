"""dlock top: the screen with its keys, in a real terminal, and the lists elsewhere."""
import contextlib
import functools
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import threading

import tap
import world
from screen import Screen
from waiting import wait_until
from world import SERVICE

HERE = {'LC_ALL': 'C.UTF-8', 'TERM': 'screen', 'NO_COLOR': None, 'COLUMNS': None, 'LINES': None}


@contextlib.contextmanager
def top(w, *options, url=None, width=80, height=24, **environment):
    """dlock top on a screen, behind it its status and whether the terminal is as it was."""
    command = ' '.join(map(shlex.quote, [world.EXECUTABLE, *world.listing('top', *options)]))
    script = (f'trap : INT; echo before; was=$(stty -g); {command}; status=$?; '
              '[ "$(stty -g)" = "$was" ] && echo "ended with $status"; exec sleep 1000')
    clean = {key: None for key in os.environ if key.startswith('DLOCK_')}
    screen = Screen('sh', '-c', script, width=width, height=height,
                    **{**clean, **HERE, 'DLOCK_URL': url or w.url, **environment})
    with contextlib.closing(screen):
        yield screen


def process_in(screen):
    """The process id of dlock itself, which the shell there has started."""
    with open(f'/proc/{screen.pid()}/task/{screen.pid()}/children', encoding='ascii') as file:
        return int(file.read().split()[0])


class Gate:
    """A way to a server that shuts, for good, once its answers have told of `what` twice."""

    def __init__(self, port, what):
        self.what, self.caught, self.open = what, threading.Event(), True
        self.inside = socket.create_connection(('127.0.0.1', port))
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.url = f'redis://127.0.0.1:{self.listener.getsockname()[1]}'
        threading.Thread(target=self.ask, daemon=True).start()

    def ask(self):
        outside = self.listener.accept()[0]
        threading.Thread(target=self.answer, args=(outside,), daemon=True).start()
        with contextlib.suppress(OSError):  # either side may go away
            while asked := outside.recv(65536):
                if self.open:
                    self.inside.sendall(asked)
                else:
                    self.caught.set()

    def answer(self, outside):
        told = b''
        with contextlib.suppress(OSError):
            while got := self.inside.recv(65536):
                told += got
                self.open = told.count(self.what) < 2
                outside.sendall(got)

    def close(self):
        self.listener.close()
        self.inside.close()


def row_of(text, name):
    return next((line for line in text.split('\n') if line.startswith(name)), '')


def it_shows_who_holds_and_for_how_long(w):
    holder, _ = w.hold('seen')
    with top(w) as screen:
        screen.wait_for('seen', '1 held', f':{holder.pid}')
        # A list may say less than the first look at each lock, and comes before it.
        text = screen.wait('it is looked at', lambda now: 'mutex' in row_of(now, 'seen'))
        screen.wait('latency', lambda now: re.search(r'\d [um]s ', now.split('\n')[0]))
        for title in ('NAME', 'KIND', 'HOLDER', 'HELD FOR', 'LEASE LEFT', 'WAITING'):
            tap.equal(f'{title} in {text}', title in text.split('\n')[2], True)
        tap.equal(f'a bar: {text}', '█' in row_of(text, 'seen'), True)
        # It was there before us, and the service tells since when.
        screen.wait('it counts', lambda now: re.search(r' [1-9]\d*s', row_of(now, 'seen')))
        late, _ = w.hold('seen later')
        text = screen.wait('it comes', lambda now: re.search(r' \d+s ', row_of(now, 'seen later')))
        tap.equal(f'seen to come: {text}', '>' in row_of(text, 'seen later'), False)
        w.let_go(late)
        screen.wait_without('seen later')
    w.let_go(holder)


@world.only_on('file')  # on Redis only each client knows who waits in it
def who_waits_comes_first(w):
    holders = [w.hold(name)[0] for name in ('a', 'b', 'wanted')]
    waiting = w.start('hold', 'wanted')
    w.wait_for_waiters('wanted', 1)
    with top(w) as screen:
        text = screen.wait_for('1 waiting')
        tap.equal(f'first: {text}', text.split('\n')[3].startswith('wanted'), True)
        # Where the service doesn't tell since when one waits it is as long as that at least.
        more = '>' if SERVICE == 'redis' else ''
        tap.equal(f'for: {text}', bool(re.search(rf'1, {more}\d+s', row_of(text, 'wanted'))), True)
        screen.type('s')
        text = screen.wait_for('s by name')
        tap.equal(f'by name: {text}', text.split('\n')[3].startswith('a '), True)
        for order in ('wait', 'lease left', 'held for', 'holder', 'what hurts'):
            screen.type('s')
            screen.wait_for(f's by {order}')
    waiting.send_signal(signal.SIGTERM)
    w.finish(waiting)
    for holder in holders:
        w.let_go(holder)


def arrows_move_and_enter_inspects(w):
    holders = [w.hold(f'lock {i}') for i in range(3)]
    with top(w) as screen:
        screen.wait_for('lock 2', '1/3')
        screen.type('s')  # by name
        screen.wait_for('s by name')
        screen.type('Down')
        screen.wait_for('2/3')
        screen.type('Up')
        screen.wait_for('1/3')
        screen.type('Up')
        screen.type('End')
        screen.wait_for('3/3')
        screen.type('Enter')
        text = screen.wait_for('holders.0.owner', 'q back')
        tap.equal(f'its name: {text}', text.split('\n')[2].startswith('lock 2'), True)
        tap.equal(f'its owner: {text}', holders[2][1]['owner'] in text, True)
        screen.type('q')
        screen.wait_for('3/3')
        screen.type('Home')
        screen.wait_for('1/3')
        screen.type('q')
        screen.wait_for('ended with 0')
    for holder, _ in holders:
        w.let_go(holder)


def the_filter_takes_parts_of_names_and_holders(w):
    holders = [w.hold(name)[0] for name in ('apple', 'pear', 'plum')]
    with top(w) as screen:
        screen.wait_for('apple', 'pear', 'plum')
        screen.type('f')
        screen.wait_for('filter: _')
        screen.type('PLU')  # however it is written
        text = screen.wait_without('apple', 'pear')
        tap.equal(f'the others: {text}', 'plum' in text, True)
        screen.type('BSpace', 'BSpace')
        screen.wait_for('apple', 'filter: P_')
        screen.type('x', 'Enter')
        screen.wait_for('nothing passes the filter', 'f filter: Px')
        screen.type('f', 'Escape')
        screen.wait_for('apple', 'pear', 'plum')
        screen.type('f')
        screen.wait_for('filter: _')
        screen.type(f':{holders[1].pid}', 'Enter')
        screen.wait_without('apple', 'plum')
    for holder in holders:
        w.let_go(holder)


def b_breaks_what_is_confirmed(w):
    holder, held = w.hold('fragile')
    with top(w) as screen:
        screen.wait_for('fragile', f':{holder.pid}')
        screen.type('b')
        screen.wait_for('y/n: take fragile from')
        screen.type('n')
        screen.wait_for('not broken: fragile')
        tap.equal('held still', w.inspect('fragile')['holders'][0]['owner'], held['owner'])
        screen.type('b')
        screen.wait_for('y/n: take fragile from')
        screen.type('y')
        screen.wait('it is broken', lambda now: now.rstrip().endswith('\nbroken: fragile'))
        screen.wait_for(', 0 held')
        tap.equal('free', bool(w.inspect('fragile')['held']), False)
    holder.kill()  # it hears of it at its next renewal only
    holder.wait()


def b_breaks_only_whom_the_question_named(w):
    holder, _ = w.hold('passed on')
    with top(w) as screen:
        screen.wait_for('passed on', f':{holder.pid}')
        screen.type('b')
        screen.wait_for('y/n: take passed on from')
        w.let_go(holder)
        heir, held = w.hold('passed on')
        screen.wait_for(f':{heir.pid}')
        screen.type('y')
        screen.wait_for('not broken: passed on')
        tap.equal('the heir', w.inspect('passed on')['holders'][0]['owner'], held['owner'])
    w.let_go(heir)


def b_breaks_a_lock_as_what_it_is(w):
    for option in ('--shared', '--exclusive'):
        holder, _ = w.hold('two sides', option)
        with top(w) as screen:
            screen.wait_for('two sides', f':{holder.pid}', 'read' if 's' in option[2] else 'write')
            screen.type('b')
            screen.wait_for('y/n: take two sides from')
            screen.type('y')
            screen.wait('it is broken', lambda now: now.rstrip().endswith('\nbroken: two sides'))
        holder.kill()


@world.only_on('redis')
def a_key_is_of_the_lock_that_is_seen(w):
    """The list has told of another one, which isn't drawn yet, for its answer hasn't come."""
    holders = [w.hold('seen lock')[0]]
    with contextlib.closing(Gate(w.redis.port, b'another')) as gate, top(w, url=gate.url) as screen:
        screen.wait_for('seen lock', '1 held')
        screen.type('s', 'Home')
        screen.wait_for('s by name')
        holders.append(w.hold('another')[0])
        wait_until('the list has come', gate.caught.is_set)
        screen.type('b')
        screen.wait_for('y/n: take seen lock from')
    for holder in holders:
        w.let_go(holder)


def nothing_to_show_is_told(w):
    with top(w) as screen:
        screen.wait_for('0 locks', 'no locks', '0/0')
        for key in ('Down', 'Enter', 'b', 's', 'PPage'):
            screen.type(key)
        screen.wait_for('s by name')
        screen.type('q')
        screen.wait_for('before', 'ended with 0')


def every_size_has_its_picture(w):
    names = [f'lock {i:02}' for i in range(40)]
    holder = w.start('hold', names[0], stdin=subprocess.PIPE)
    others = [w.hold(name)[0] for name in names[1:]]
    holder.stdout.readline()
    with top(w, width=300, height=60) as screen:
        screen.wait_for('lock 00', 'lock 39', 'TOKEN', '40 held')
        screen.wait('tokens', lambda now: re.search(r'\d{1,19}$', row_of(now, 'lock 39').rstrip()))
        screen.resize(20, 5)
        text = screen.wait('it fits', lambda now: 'NAME' in now and 'KIND' not in now)
        screen.wait('one row', lambda now: len(re.findall('lock', now.split('\n', 2)[2])) == 1)
        tap.equal(f'lines: {text}', max(map(len, text.split('\n'))) <= 20, True)
        screen.type('End')
        screen.wait_for('lock')
        for width, height in ((8, 3), (2, 1), (80, 24)):
            screen.resize(width, height)
        screen.wait_for('KIND', '40/40')
        screen.type('q')
        screen.wait_for('ended with 0')
    for each in (holder, *others):
        w.let_go(each)


def what_others_wrote_stays_in_its_cells(w):
    """Escapes don't get to the terminal, and what is cut is cut between characters."""
    name = 'x\x1b[31m\x07é' + '漢' * 40 + 'e\u0301\u202eend'
    holder, _ = w.hold(name)
    for size in (80, 81, 83):
        with top(w, width=size) as screen:
            text = screen.wait_for('x?[31m?é漢漢', 'mutex', '…')
            row = row_of(text, 'x?')
            tap.equal(f'{row!r}', [c for c in '\x1b\x07\u202e\ufffd' if c in row], [])
            before = row[:row.index('mutex')]
            column = text.split('\n')[2].index('KIND')
            tap.equal(f'{row!r}', len(before) + before.count('漢'), column)
            screen.type('f', '漢', 'Enter')
            screen.wait_for('f filter: 漢', 'x?[31m')
    w.let_go(holder)


def without_utf8_and_colours_it_says_the_same(w):
    name = 'é'
    holder, _ = w.hold(name)
    with top(w, LC_ALL='C') as screen:
        text = screen.wait_for('? ', 'mutex', '####', '1 held')
        tap.equal(f'ASCII: {text}', text.isascii(), True)
        tap.equal('colours', bool(re.search(r'\x1b\[[0-9;]*3[1-6]', screen.text('-e'))), True)
    with top(w, NO_COLOR='1') as screen:
        screen.wait_for('é', 'mutex', '1 held')
        tap.equal('none', re.findall(r'\x1b\[[0-9;]*[34][0-8][;m]', screen.text('-e')), [])
    w.let_go(holder)


def a_terminal_that_can_do_nothing_gets_lists(w):
    holder, held = w.hold('plain')
    for kind in ('dumb', 'unknown', 'no such terminal'):
        with top(w, width=120, TERM=kind) as screen:
            text = screen.wait('two lists', lambda now: now.count('NAME') > 1)
            tap.equal(f'{kind}: {text}', held['owner'] in text, True)
            screen.type('C-c')
            screen.wait_for('ended with 0')
    for level, lists in (('warn', True), ('off', False)):  # a log would be in the picture
        with top(w, width=120, DLOCK_LOG=level) as screen:
            screen.wait_for('plain')
            tap.equal(f'log {level}', 'WAITERS' in screen.wait_for('NAME'), lists)
    w.let_go(holder)


def once_is_one_look(w):
    holder, held = w.hold('once')
    status, out, err = w.run('top', '--once')
    tap.equal(f'{out} {err}', (status, err, out.count('NAME')), (0, '', 1))
    tap.equal(out, [line.split()[-1] for line in out.split('\n') if line.startswith('once')],
              [held['owner']])
    status, out, err = w.run('top', '--once', '--json')
    look = json.loads(out)
    lock = look['locks'][0]
    tap.equal(f'{look} {err}', (status, lock['name'], lock['owner'], look['held'], look['more']),
              (0, 'once', held['owner'], 1, 0))
    other, _ = w.hold('another')
    status, out, err = w.run('top', '--once', '--json', '--max', '1')
    look = json.loads(out)
    tap.equal(f'{look} {err}', (status, len(look['locks']), look['more'], 'may be more' in err),
              (0, 1, 1, True))
    for each in (holder, other):
        w.let_go(each)
    with top(w, '--once') as screen:
        screen.wait_for('before', 'NAME', 'ended with 0')


def json_is_a_stream_of_looks(w):
    holder, held = w.hold('streamed')
    stream = w.start('top', '--json')
    looks = [json.loads(stream.stdout.readline()) for _ in range(3)]
    for look in looks:
        tap.equal(f'{look}', [lock['owner'] for lock in look['locks']], [held['owner']])
        tap.equal(f'{look}', (look['held'], look['lost'], look['request_us'] >= 0), (1, 0, True))
    ages = [look['locks'][0].get('held_ms', -1) for look in looks]
    tap.equal(f'{ages}', ages[0] < ages[1] < ages[2], True)
    stream.send_signal(signal.SIGTERM)
    tap.equal('status', w.finish(stream)[0], 0)
    w.let_go(holder)


def signals_give_the_terminal_back(w):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with top(w) as screen:
            screen.wait_for('no locks')
            os.kill(process_in(screen), number)
            screen.wait_for('before', 'ended with 0')
    with top(w) as screen:
        screen.wait_for('no locks')
        screen.type('C-c')
        screen.wait_for('before', 'ended with 0')


def control_z_stops_it_and_fg_goes_on(w):
    if world.shutil.which('bash') is None:
        raise tap.Skip('bash is not installed')
    screen = Screen('bash', '--norc', '--noprofile', '-i', **HERE, DLOCK_URL=w.url, PS1='prompt> ',
                    DLOCK=world.EXECUTABLE)
    with contextlib.closing(screen):
        screen.wait_for('prompt>')
        screen.type('was=$(stty -g); "$DLOCK" top', 'Enter')
        for _ in range(2):
            screen.wait_for('no locks', '0/0')
            screen.type('C-z')
            screen.wait_for('Stopped')
            screen.type('clear; [ "$(stty -g)" = "$was" ] && echo same=$?', 'Enter')
            screen.wait_for('same=0')
            screen.resize(70, 20)
            screen.type('fg', 'Enter')
        screen.wait_for('no locks', '0/0')
        screen.type('q')
        screen.wait('it ends', lambda now: now.rstrip().endswith('prompt>'))


@world.only_on('redis')
def a_service_that_fails_is_told_and_the_picture_stays(w):
    server = world.Redis()
    with contextlib.ExitStack() as after:
        after.callback(server.stop)
        holder, _ = w.hold('kept in sight', '--url', server.url)
        screen = after.enter_context(top(w, url=server.url))
        screen.wait_for('kept in sight', '1 held')
        server.die()
        screen.wait_for('FAILS for', 'kept in sight')
        screen.type('s')
        screen.wait_for('s by name', 'kept in sight')
        screen.type('Enter')
        screen.wait_for('can\'t inspect kept in sight')
        server.revive()
        screen.wait_for('no locks', '0 held')
        screen.type('q')
        screen.wait_for('ended with 0')
        holder.kill()
        holder.wait()


@world.only_on('redis')
def a_request_that_hangs_holds_no_key(w):
    server = world.Redis()
    with contextlib.ExitStack() as after:
        after.callback(server.stop)
        holder, _ = w.hold('hanging', '--url', server.url)
        screen = after.enter_context(top(w, '--set', 'client.timeout_ms=600000', url=server.url))
        screen.wait_for('hanging', '1 held')
        server.process.send_signal(signal.SIGSTOP)
        screen.wait_for('no answer for')
        screen.type('f')
        screen.wait_for('filter: _')
        screen.type('nowhere', 'Enter')
        screen.wait_for('nothing passes', 'no answer for')
        screen.type('f', 'Escape')
        screen.wait_for('hanging')
        screen.type('Enter')
        screen.wait_for('asking')
        server.process.send_signal(signal.SIGCONT)
        screen.wait_for('holders.0.owner')
        screen.type('q')
        screen.wait_for('1 held')
        server.process.send_signal(signal.SIGSTOP)
        screen.wait_for('no answer for')
        screen.type('q')
        screen.wait_for('ended with 0')
        server.process.send_signal(signal.SIGCONT)
        holder.kill()
        holder.wait()


@world.only_on('redis')  # of others it isn't said what is left
def a_lease_that_runs_out_is_a_loss(w):
    with top(w) as screen:
        screen.wait_for('no locks')
        w.redis.command('HSET', 'dead', 'somebody:1', '1')
        # A loss is told from a release by a look in the second half of the lease: on a machine that
        # is busy, too, one comes within four seconds.
        w.redis.command('PEXPIRE', 'dead', '8000')
        screen.wait_for('dead', '1 held, 0 waiting, 0 lost')
        screen.wait('it is late', lambda now: '!' in row_of(now, 'dead'))
        screen.wait_for('0 held, 0 waiting, 1 lost')


def what_is_left_out_is_told(w):
    holders = [w.hold(f'some {i}')[0] for i in range(3)]
    with top(w, '--max', '2') as screen:
        text = screen.wait_for('2 locks', 'there may be more')
        tap.equal(text, len(re.findall('^some', text, re.MULTILINE)), 2)
    for holder in holders:
        w.let_go(holder)


def a_terminal_that_goes_away_ends_it(w):
    with top(w) as screen:
        screen.wait_for('no locks')
        pid = process_in(screen)
        screen.tmux('kill-server')
        wait_until('it ends', lambda: not world.is_alive(pid))


def afresh(test):
    """A test that fails leaves nothing for the next one to see."""
    @functools.wraps(test)
    def run(w):
        try:
            test(w)
        except AssertionError:
            w.renew()
            raise
    return run


if __name__ == '__main__':
    if world.shutil.which('tmux') is None:
        print('1..0 # SKIP tmux is not installed')
        raise SystemExit(0)
    world.main([afresh(test) for test in (
        it_shows_who_holds_and_for_how_long,
        who_waits_comes_first,
        arrows_move_and_enter_inspects,
        the_filter_takes_parts_of_names_and_holders,
        b_breaks_what_is_confirmed,
        b_breaks_only_whom_the_question_named,
        b_breaks_a_lock_as_what_it_is,
        a_key_is_of_the_lock_that_is_seen,
        nothing_to_show_is_told,
        every_size_has_its_picture,
        what_others_wrote_stays_in_its_cells,
        without_utf8_and_colours_it_says_the_same,
        a_terminal_that_can_do_nothing_gets_lists,
        once_is_one_look,
        json_is_a_stream_of_looks,
        signals_give_the_terminal_back,
        control_z_stops_it_and_fg_goes_on,
        a_service_that_fails_is_told_and_the_picture_stays,
        a_request_that_hangs_holds_no_key,
        a_lease_that_runs_out_is_a_loss,
        what_is_left_out_is_told,
        a_terminal_that_goes_away_ends_it,
    )])

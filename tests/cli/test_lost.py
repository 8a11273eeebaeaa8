"""dlock run loses its lock: nothing of the command outlives the lease, unless it is asked to."""
import contextlib
import os
import shlex
import signal
import time

import tap
import world
from world import LIMIT, SLOW, TooSlow, lease, wait_until, with_lease_from


LOST = 75


class Victim:
    """A command under a lock, with a grandchild, that tells its process ids."""

    def __init__(self, w, name, *options, traps='', grandchild='sleep 1000'):
        self.w, self.name = w, name
        pids = w.path(f'{name}.pids')
        with contextlib.suppress(FileNotFoundError):
            os.unlink(pids)   # of a try before
        script = (f'{traps}\n{grandchild} & echo "$$ $! $DLOCK_TOKEN" > {shlex.quote(pids)}.new;'
                  f'mv {shlex.quote(pids)}.new {shlex.quote(pids)}; wait; wait; exit 3')
        self.process = w.start('run', *options, name, '--', 'sh', '-c', script)
        wait_until('the command is ready',
                   lambda: os.path.exists(pids) or self.process.poll() is not None)
        if self.process.poll() == LOST:
            raise TooSlow(f'{name}: its lease was over before the command was ready')
        tap.equal('it runs', self.process.poll(), None)
        with open(pids, encoding='ascii') as file:
            self.child, self.grandchild, self.token = map(int, file.read().split())

    def is_all_gone(self):
        return not world.is_alive(self.child) and not world.is_alive(self.grandchild)

    def expect_end(self, status):
        got, out, err = self.w.finish(self.process)
        tap.equal(f'status ({err})', got, status)
        return out, err


def broken(w, name):
    status, _, err = w.run('break', '--force', name)
    tap.equal(f'break {err}', status, 0)


def a_broken_lock_kills_the_command_and_answers_75(w):
    for how in ('term', 'kill'):
        victim = Victim(w, f'broken-{how}', f'--on-lost={how}', '--ttl', lease(2))
        broken(w, victim.name)
        _, err = victim.expect_end(75)
        tap.equal(f'one line: {err}', (err.count('\n'), 'lost' in err), (1, True))
        tap.equal('all gone', victim.is_all_gone(), True)


def ignore_lets_the_command_go_on_and_still_answers_75(w):
    go = w.path('go')
    victim = Victim(w, 'ignored', '--on-lost=ignore', '--ttl', lease(1),
                    grandchild=f'sh -c "while ! test -e {go}; do sleep 0.02; done; echo done"')
    broken(w, victim.name)
    # A renewal period later the loss is known; the command runs on.
    line = victim.process.stderr.readline().decode()
    tap.equal(f'says so: {line}', 'lost' in line, True)
    tap.equal('runs on', world.is_alive(victim.child), True)
    with open(go, 'w', encoding='ascii'):
        pass
    out, _ = victim.expect_end(75)
    tap.equal('to its end', out, 'done\n')


def a_stopped_dlock_loses_the_lock_and_the_command(w):
    victim = Victim(w, 'stopped', '--ttl', lease(0.5))
    os.kill(victim.process.pid, signal.SIGSTOP)
    # Not dlock, which is stopped, but its guard ends the command when the lease does.
    wait_until('the command has ended while dlock is stopped', victim.is_all_gone)
    successor, held = w.hold('stopped')
    tap.equal('the next token', held['token'] > victim.token, True)
    time.sleep(float(lease(0.5)))  # the issue's own measure: stopped for two leases
    os.kill(victim.process.pid, signal.SIGCONT)
    victim.expect_end(75)
    w.let_go(successor)


def the_command_never_runs_beside_its_successor(w):
    """The lease is over before anybody else gets the lock, and the command before the lease."""
    victim = Victim(w, 'beside', '--ttl', lease(0.5))
    os.kill(victim.process.pid, signal.SIGSTOP)
    alive = f'kill -0 {victim.child} 2>/dev/null'
    zombie = f'grep -q "^State:.*Z" /proc/{victim.child}/status'
    status, _, err = w.run('run', 'beside', '--', 'sh', '-c', f'! ( {alive} && ! {zombie} )')
    tap.equal(f'the victim had ended ({err})', status, 0)
    os.kill(victim.process.pid, signal.SIGCONT)
    victim.expect_end(75)


def unrenewed(test):
    """Its lease isn't renewed, and the command has to be ready before that is nearly over."""
    def run(w):
        with_lease_from(float(lease(2)), lambda ttl: test(
            w, '--ttl', str(ttl), '--kill-after', '1', '--set', 'lock.renew=off'))
    run.__name__ = test.__name__
    return run


@unrenewed
def a_lease_that_is_not_renewed_ends_with_term_then_kill(w, *options):
    said = w.path('said')
    with contextlib.suppress(FileNotFoundError):
        os.unlink(said)
    victim = Victim(w, 'unrenewed', *options, traps=f'trap "date +%s.%N > {said}" TERM',
                    grandchild='sh -c "trap : TERM; while :; do sleep 0.05; done"')
    wait_until('TERM has come',
               lambda: os.path.exists(said) or victim.process.poll() is not None)
    _, err = victim.expect_end(75)
    tap.equal('TERM has come', os.path.exists(said), True)
    tap.equal('all gone, though both ignored TERM', victim.is_all_gone(), True)
    tap.equal(f'told twice: {err}', err.count('dlock: '), 2)


@unrenewed
def a_command_that_obeys_term_ends_before_its_lease(w, *options):
    victim = Victim(w, 'obeys', *options, traps='trap "echo cleaned up; exit 0" TERM')
    out, _ = victim.expect_end(75)
    tap.equal('it cleaned up', out, 'cleaned up\n')
    tap.equal('the lock was given back', w.run('run', '-n', 'obeys', '--', 'true')[0], 0)


@unrenewed
def what_a_command_that_obeys_term_leaves_behind_is_killed(w, *options):
    victim = Victim(w, 'leaves', *options, traps='trap "exit 0" TERM',
                    grandchild='sh -c "trap : TERM; while :; do sleep 0.05; done" 2>/dev/null')
    victim.expect_end(75)
    tap.equal('all gone', victim.is_all_gone(), True)


def kill_says_nothing_before_the_end_of_the_lease(w):
    victim = Victim(w, 'kill', '--ttl', lease(1), '--on-lost=kill', '--set', 'lock.renew=off',
                    traps='trap "echo TERM" TERM')
    out, _ = victim.expect_end(75)
    tap.equal('no TERM', out, '')
    tap.equal('all gone', victim.is_all_gone(), True)


def a_process_that_left_the_group_is_found(w):
    victim = Victim(w, 'escaped', '--ttl', lease(1), grandchild='setsid sleep 1000')
    broken(w, victim.name)
    victim.expect_end(75)
    wait_until('all gone', victim.is_all_gone)


def a_killed_dlock_leaves_no_orphan(w):
    # A lease so long that its end can't be what ends the command.
    victim = Victim(w, 'orphan', '--ttl', '600', traps='trap "" TERM HUP INT')
    victim.process.kill()
    victim.process.wait()
    wait_until('all gone', victim.is_all_gone)


def a_killed_dlock_leaves_no_stopped_orphan(w):
    victim = Victim(w, 'frozen', '--ttl', '600')
    os.killpg(victim.child, signal.SIGSTOP)
    victim.process.kill()
    victim.process.wait()
    wait_until('all gone', victim.is_all_gone)


@world.only_on('redis')
def a_frozen_server_ends_the_command_in_time(w):
    server = world.Redis()
    try:
        victim = Victim(w, 'frozen-server', '--url', server.url, '--ttl', lease(2),
                        '--kill-after', '1', traps='trap "echo cleaned up; exit 0" TERM')
        server.process.send_signal(signal.SIGSTOP)
        out, err = victim.expect_end(75)
        tap.equal(f'it was told in time: {err}', out, 'cleaned up\n')
        tap.equal('all gone', not world.is_alive(victim.child), True)
    finally:
        server.process.send_signal(signal.SIGCONT)
        server.stop()


# Less than any other time-out of the client: whatever else was waited for would be too long.
SOON = ('--set', 'client.close_ms=300', '--set', 'client.timeout_ms=120000')


def with_a_frozen_server(test):
    """test(w, server, freeze): a server that stands still once freeze() was called."""
    @world.only_on('redis')
    def run(w):
        server = world.Redis()
        try:
            test(w, server, lambda: server.process.send_signal(signal.SIGSTOP))
        finally:
            server.process.send_signal(signal.SIGCONT)
            server.stop()
    run.__name__ = test.__name__
    return run


def expect_unconfirmed(err, seconds):
    tap.equal(f'one line, and it is true: {err}',
              (err.count('\n'), 'repeated' in err, "wasn't confirmed" in err,
               f'in at most {seconds} s' in err), (1, False, True, True))


@with_a_frozen_server
def a_release_that_is_not_confirmed_is_told_within_close_ms(w, server, freeze):
    """What the command answers stays, unless --strict makes a failure of a success."""
    go = w.path('confirm-go')
    for expected, code, options in ((0, 0, []), (69, 0, ['--strict']), (3, 3, ['--strict'])):
        ready = w.path(f'confirm-{expected}')
        process = w.start('run', *SOON, *options, '--url', server.url, '--ttl', '500',
                          f'confirm-{expected}', '--', 'sh', '-c',
                          f'touch {ready}; while ! test -e {go}; do sleep 0.02; done; exit {code}')
        wait_until('it runs', lambda ready=ready: os.path.exists(ready))
        freeze()
        with open(go, 'w', encoding='ascii'):
            pass
        status, _, err = w.finish(process)
        server.process.send_signal(signal.SIGCONT)
        os.unlink(go)
        tap.equal(f'{options} {err}', status, expected)
        expect_unconfirmed(err, 500)


@with_a_frozen_server
def hold_tells_within_close_ms_that_its_release_is_not_confirmed(w, server, freeze):
    for expected, options in ((0, []), (69, ['--strict'])):
        process, _ = w.hold(f'kept-{expected}', *SOON, *options, '--url', server.url,
                            '--ttl', '500')
        freeze()
        process.stdin.close()
        process.stdin = None
        status, _, err = w.finish(process)
        server.process.send_signal(signal.SIGCONT)
        tap.equal(f'{options} {err}', status, expected)
        expect_unconfirmed(err, 500)


@with_a_frozen_server
def a_cut_ends_dlock_within_close_ms_of_its_command(w, server, freeze):
    victim = Victim(w, 'cut', *SOON, '--url', server.url, '--ttl', lease(2), '--kill-after', '1',
                    traps='trap "exit 0" TERM')
    freeze()
    _, err = victim.expect_end(75)
    tap.equal(f'told: {err}', "wasn't confirmed" in err, True)


def a_command_is_kept_for_many_leases(w):
    def kept(ttl):
        lasts = 6 * ttl
        status, out, err = w.run('run', '--ttl', str(ttl), 'kept', '-c',
                                 f'sleep {lasts}; echo kept', limit=LIMIT + lasts)
        if status == 75:
            raise TooSlow(err)
        tap.equal(err, (status, out), (0, 'kept\n'))
    with_lease_from(0.3 * SLOW, kept)


def a_short_stop_of_dlock_does_not_end_the_command(w):
    """Not even where the first lease would have ended, which has long been renewed."""
    go, ready = w.path('short-go'), w.path('short-ready')
    process = w.start('run', '--ttl', '4', 'short-stop', '--', 'sh', '-c',
                      f'touch {ready}; while ! test -e {go}; do sleep 0.02; done; echo kept')
    wait_until('it runs', lambda: os.path.exists(ready))
    time.sleep(3.2)
    process.send_signal(signal.SIGSTOP)
    time.sleep(1.1)
    process.send_signal(signal.SIGCONT)
    with open(go, 'w', encoding='ascii'):
        pass
    status, out, err = w.finish(process)
    tap.equal(err, (status, out), (0, 'kept\n'))


def what_a_command_leaves_in_the_background_goes_on(w):
    pid = w.path('background')
    status, _, _ = w.run('run', 'background', '-c', f'sleep 1000 >/dev/null 2>&1 & echo $! > {pid}')
    tap.equal('status', status, 0)
    with open(pid, encoding='ascii') as file:
        left = int(file.read())
    tap.equal('it runs', world.is_alive(left), True)
    os.kill(left, signal.SIGKILL)


if __name__ == '__main__':
    world.main([
        a_broken_lock_kills_the_command_and_answers_75,
        ignore_lets_the_command_go_on_and_still_answers_75,
        a_stopped_dlock_loses_the_lock_and_the_command,
        the_command_never_runs_beside_its_successor,
        a_lease_that_is_not_renewed_ends_with_term_then_kill,
        a_command_that_obeys_term_ends_before_its_lease,
        what_a_command_that_obeys_term_leaves_behind_is_killed,
        kill_says_nothing_before_the_end_of_the_lease,
        a_process_that_left_the_group_is_found,
        a_killed_dlock_leaves_no_orphan,
        a_killed_dlock_leaves_no_stopped_orphan,
        a_frozen_server_ends_the_command_in_time,
        a_release_that_is_not_confirmed_is_told_within_close_ms,
        hold_tells_within_close_ms_that_its_release_is_not_confirmed,
        a_cut_ends_dlock_within_close_ms_of_its_command,
        a_command_is_kept_for_many_leases,
        a_short_stop_of_dlock_does_not_end_the_command,
        what_a_command_leaves_in_the_background_goes_on,
    ])

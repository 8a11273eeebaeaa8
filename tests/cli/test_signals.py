"""dlock run and signals: passed on while the command runs, the end of a wait before that."""
import os
import shlex
import signal
import socket
import time

import tap
import world
from world import LIMIT, lease, wait_until


def started(w, script, *options, name='signals'):
    """Starts a command and waits until it says so; returns dlock."""
    ready = w.path('ready')
    if os.path.exists(ready):
        os.unlink(ready)
    script = script.replace('READY', f'touch {ready}')
    process = w.start('run', *options, name, '--', 'sh', '-c', script)
    wait_until('the command is ready', lambda: os.path.exists(ready) or process.poll() is not None)
    tap.equal('it runs', process.poll(), None)
    return process


def caught(process):
    """Waits until dlock has blocked its signals: before that they would kill it unasked."""
    def blocked():
        with open(f'/proc/{process.pid}/status', encoding='ascii') as file:
            line = next(line for line in file if line.startswith('SigBlk:'))
        return int(line.split()[1], 16) & (1 << (signal.SIGTERM - 1))
    wait_until('signals are caught', blocked)


def each_signal_reaches_the_command(w):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1,
                   signal.SIGUSR2):
        # `wait` ends when a trapped signal comes; `sleep` in the foreground would not. A shell
        # lets its background jobs ignore INT and QUIT, so this one is ended by hand; before it is
        # a sleep it is a shell with that trap, which would swallow the kill.
        script = (f'trap "echo got; kill \\$!; exit 7" {int(number)}; sleep 1000 & '
                  'until grep -q sleep /proc/$!/comm; do :; done; READY; wait')
        process = started(w, script)
        process.send_signal(number)
        status, out, _ = w.finish(process)
        tap.equal(number.name, (status, out), (7, 'got\n'))


def a_signal_that_kills_the_command_is_its_status(w):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        process = started(w, 'READY; exec sleep 1000')
        process.send_signal(number)
        tap.equal(number.name, w.finish(process)[0], 128 + number)
    tap.equal('the lock is free', w.run('run', '-n', 'signals', '--', 'true')[0], 0)


def a_signal_reaches_the_whole_group(w):
    pids = w.path('pids')
    process = started(w, f'sleep 1000 & echo $! > {pids}; READY; wait')
    with open(pids, encoding='ascii') as file:
        grandchild = int(file.read())
    process.send_signal(signal.SIGTERM)
    tap.equal('status', w.finish(process)[0], 128 + signal.SIGTERM)
    wait_until('the grandchild has ended', lambda: not world.is_alive(grandchild))


def a_signal_ends_the_wait(w):
    holder, _ = w.hold('waited')
    marker = w.path('ran')
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        process = w.start('run', 'waited', '--', 'touch', marker)
        w.wait_for_waiters('waited', 1) if world.SERVICE == 'file' else caught(process)
        process.send_signal(number)
        tap.equal(number.name, w.finish(process)[0], 128 + number)
    tap.equal('the command ran', os.path.exists(marker), False)
    w.let_go(holder)
    tap.equal('nothing is left', w.run('run', '-n', 'waited', '--', 'true')[0], 0)


def a_signal_ends_dlock_wait_too(w):
    holder, _ = w.hold('idle')
    process = w.start('wait', 'idle')
    caught(process)
    process.send_signal(signal.SIGTERM)
    tap.equal('status', w.finish(process)[0], 128 + signal.SIGTERM)
    w.let_go(holder)


def a_signal_ends_connecting(w):
    with socket.socket() as mute:
        mute.bind(('127.0.0.1', 0))
        mute.listen()
        uri = f'redis://127.0.0.1:{mute.getsockname()[1]}?client.connect_ms=600000'
        process = w.start('run', '--url', uri, 'mute', '--', 'true')
        caught(process)
        process.send_signal(signal.SIGTERM)
        tap.equal('status', w.finish(process)[0], 128 + signal.SIGTERM)


def a_signal_that_was_ignored_stays_ignored(w):
    holder, _ = w.hold('nohup')
    quoted = shlex.quote(world.EXECUTABLE)
    script = f'trap "" HUP; exec {quoted} run nohup -- sh -c "kill -HUP \\$\\$; echo on"'
    process = world.subprocess.Popen(['sh', '-c', script], env=w.environment(),
                                     stdin=world.subprocess.DEVNULL,
                                     stdout=world.subprocess.PIPE)
    w.started.append(process)
    caught(process)
    process.send_signal(signal.SIGHUP)
    w.let_go(holder)
    out, _ = process.communicate(timeout=LIMIT)
    tap.equal('status', (process.returncode, out), (0, b'on\n'))


def the_command_starts_with_the_signals_as_they_were(w):
    status, out, _ = w.run('run', 'mask', '--', 'grep', '^Sig[BI]', '/proc/self/status')
    tap.equal('status', status, 0)
    with open('/proc/self/status', encoding='ascii') as file:
        ours = {line.split()[0]: line.split()[1] for line in file if line.startswith('SigBlk')}
    theirs = {line.split()[0]: line.split()[1] for line in out.splitlines()}
    tap.equal('blocked', theirs['SigBlk:'], ours['SigBlk:'])


def no_descriptor_of_ours_reaches_the_command(w):
    status, out, _ = w.run('run', 'fds', '--', 'ls', '/proc/self/fd')
    tap.equal('status', status, 0)
    tap.equal('descriptors', len(out.split()), 4)  # the standard ones and ls's own


def a_stopped_command_leaves_the_lock_held_and_goes_on(w):
    process = started(w, 'READY; kill -STOP $$; echo on; exit 3', '--ttl', lease(1), name='stopped')

    child = wait_until('a child is stopped', lambda: child_of(process.pid))
    time.sleep(1.5 * float(lease(1)))  # longer than the lease
    tap.equal('held still', bool(w.inspect('stopped')['held']), True)
    os.kill(child, signal.SIGCONT)
    status, out, _ = w.finish(process)
    tap.equal('status', (status, out), (3, 'on\n'))


def child_of(pid):
    """The stopped child of a process, or None."""
    with open(f'/proc/{pid}/task/{pid}/children', encoding='ascii') as file:
        for child in file.read().split():
            with open(f'/proc/{child}/stat', encoding='ascii') as stat:
                if stat.read().rpartition(')')[2].split()[0] == 'T':
                    return int(child)
    return None


if __name__ == '__main__':
    world.main([
        each_signal_reaches_the_command,
        a_signal_that_kills_the_command_is_its_status,
        a_signal_reaches_the_whole_group,
        a_signal_ends_the_wait,
        a_signal_ends_dlock_wait_too,
        a_signal_ends_connecting,
        a_signal_that_was_ignored_stays_ignored,
        the_command_starts_with_the_signals_as_they_were,
        no_descriptor_of_ours_reaches_the_command,
        a_stopped_command_leaves_the_lock_held_and_goes_on,
    ])

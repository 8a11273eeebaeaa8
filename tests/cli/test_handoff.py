"""hold --export, run --import, revoke: a lock that goes from one process to another."""
import os
import signal
import subprocess

import tap
import world
from world import SERVICE, lease
from waiting import wait_until

SESSIONS = 'etcd', 'zookeeper'  # whose leases are their clients'
world.BARE = False


def export(w, name, *arguments):
    """The ticket of a lock that nobody holds any more."""
    status, out, err = w.run('hold', '--export', *arguments, name)
    tap.equal(f'hold --export: {err}', (status, out.count('\n'), err), (0, 1, ''))
    return out.strip()


def a_lock_outlives_who_took_it_and_goes_to_whoever_has_the_ticket(w):
    ticket = export(w, 'given')
    tap.equal('nobody else', w.run('run', '-n', 'given', '--', 'true')[0], 1)
    holder = w.inspect('given')['holders'][0]
    status, out, err = w.run('run', '--import', ticket, '--', 'sh', '-c',
                             'echo $DLOCK_NAME $DLOCK_TOKEN $DLOCK_OWNER')
    name, token, owner = out.split()
    tap.equal(err, (status, name), (0, 'given'))
    known = holder.get('token', 0)  # etcd's only its own client can tell
    tap.equal('a larger token', int(token) > known, True)
    tap.equal('another owner', owner != holder['owner'], True)
    tap.equal('free', w.run('run', '-n', 'given', '--', 'true')[0], 0)


def a_ticket_works_once(w):
    ticket = export(w, 'once')
    holder = w.start('run', '--import', ticket, 'sh', '-c', 'echo; read line; true',
                     stdin=subprocess.PIPE)
    holder.stdout.readline()
    status, out, err = w.run('run', '--import', ticket, 'echo', 'twice')
    tap.equal(f'again: {err}', (status, out, err.count('\n')), (1, '', 1))
    tap.equal('-E', w.run('run', '-E', '9', '--import', ticket, 'true')[0], 9)
    tap.equal('still held', w.run('run', '-n', 'once', 'true')[0], 1)
    holder.stdin.close()
    holder.stdin = None
    tap.equal('the holder', w.finish(holder)[0], 0)
    tap.equal('afterwards', w.run('run', '--import', ticket, 'true')[0], 1)


def a_ticket_comes_by_standard_input_and_the_rest_is_the_commands(w):
    ticket = export(w, 'read')
    read, write = os.pipe()
    os.write(write, f'{ticket}\nmine\n'.encode())
    os.close(write)
    status, out, err = w.run('run', '--import', '-', 'cat', stdin=read)
    os.close(read)
    tap.equal(err, (status, out), (0, 'mine\n'))
    status, _, err = w.run('run', '--import', '-', 'true')
    tap.equal(err, (status, err.count('\n')), (64, 1))


def the_lease_is_the_tickets(w):
    ticket = export(w, 'lease', '--ttl', '40')
    own = ['--ttl', '40'] if SERVICE in SESSIONS else []  # there it is the importing client's
    status, out, err = w.run('run', *own, '--import', ticket, '--kill-after', '20', '-c',
                             'echo $DLOCK_TTL_MS')
    tap.equal(err, (status, out), (0, '40000\n'))
    ticket = export(w, 'lapses', '--ttl', '0.2')
    wait_until('it lapses', lambda: w.run('run', '-n', 'lapses', 'true')[0] == 0)
    tap.equal('too late', w.run('run', '--import', ticket, 'true')[0], 1)


def what_is_no_ticket_and_what_has_no_command_is_refused(w):
    tap.equal('no ticket', w.run('run', '--import', 'dlock1.x', 'true')[0], 64)
    ticket = export(w, 'refused')
    tap.equal('no command', w.run('run', '--import', ticket)[0], 64)
    tap.equal('both', w.run('run', '--import', ticket, '-c', 'true', 'true')[0], 64)
    tap.equal('of another command', w.run('hold', '--import', ticket)[0], 64)
    tap.equal('unspoilt', w.run('run', '--import', ticket, 'true')[0], 0)


@world.only_on('file', 'redis', 'etcd', 'postgres')  # on memcached all can
def a_kind_that_cannot_be_handed_on_is_given_back(w):
    status, _, err = w.run('hold', '-x', '--export', 'shared')
    tap.equal(err, (status, err.count('\n')), (64, 1))
    tap.equal('given back', w.run('run', '-n', '-x', 'shared', 'true')[0], 0)


def a_ticket_that_nobody_could_read_is_taken_back(w):
    read, write = os.pipe()
    os.close(read)
    status, _, err = w.run('hold', '--export', 'unread', stdout=write)
    os.close(write)
    tap.equal(err, (status, 'standard output' in err), (70, True))
    tap.equal('free', w.run('run', '-n', 'unread', '--', 'true')[0], 0)


def an_importer_that_is_killed_leaves_nothing(w):
    ticket = export(w, 'killed', '--ttl', lease(1))
    own = ['--ttl', lease(1)] if SERVICE in SESSIONS else []
    holder = w.start('run', *own, '--import', ticket, 'sh', '-c', 'echo; sleep 1000')
    holder.stdout.readline()
    holder.send_signal(signal.SIGKILL)
    tap.equal('next', w.run('run', 'killed', '--', 'true')[0], 0)


def who_holds_a_lock_hears_that_it_is_asked_for(w):
    status, _, err = w.run('revoke', 'wanted')
    tap.equal(err, (status, err.count('\n')), (64 if SERVICE == 'memcached' else 70, 1))
    holder, _ = w.hold('wanted')
    if SERVICE == 'memcached':
        tap.equal('nobody hears', w.run('revoke', 'wanted')[0], 64)
    else:
        wait_until('it is heard', lambda: w.run('revoke', 'wanted')[0] == 0)
        tap.equal('told', b'asks for the lock' in holder.stderr.readline(), True)
        tap.equal('json', w.run('revoke', '--json', 'wanted')[1],
                  '{"name":"wanted","revoked":true}\n')
    tap.equal('still held', w.run('run', '-n', 'wanted', '--', 'true')[0], 1)
    w.let_go(holder)


world.main([
    a_lock_outlives_who_took_it_and_goes_to_whoever_has_the_ticket,
    a_ticket_works_once,
    a_ticket_comes_by_standard_input_and_the_rest_is_the_commands,
    the_lease_is_the_tickets,
    what_is_no_ticket_and_what_has_no_command_is_refused,
    a_kind_that_cannot_be_handed_on_is_given_back,
    a_ticket_that_nobody_could_read_is_taken_back,
    an_importer_that_is_killed_leaves_nothing,
    who_holds_a_lock_hears_that_it_is_asked_for,
])

"""inspect and ls --json: whose process a holder is, and each who waits in a line."""
import json
import re
import socket

import tap
import world
from world import SERVICE

# It has no line, and lists nothing.
MEMCACHED = SERVICE == 'memcached'


def process(pid):
    host = socket.gethostname()
    return {'host': host, 'pid': pid, 'client': f'{host[:100]}:{pid}'}


def same(what, told, pid):
    tap.equal(what, {key: told.get(key) for key in process(pid)}, process(pid))


def a_holder_and_who_waits_are_led_back_to_their_processes(w):
    holder, held = w.hold('shown')
    info = w.inspect('shown')
    tap.equal('owner', info['holders'][0]['owner'], held['owner'])
    same('holder', info['holders'][0], holder.pid)
    tap.equal('as text', str(holder.pid) in w.run('inspect', 'shown')[1], True)
    if not MEMCACHED:
        same('ls --json', json.loads(w.run('ls', 'shown', '--json')[1])['locks'][0], holder.pid)
    if MEMCACHED:
        w.let_go(holder)
    else:
        waiter = w.start('run', 'shown', '--', 'true')
        world.wait_until('one waits', lambda: w.inspect('shown').get('waiting'))
        info = w.inspect('shown')
        same('waiter', info['waiting'][0], waiter.pid)
        tap.equal('one', len(info['waiting']), 1)
        same('still', info['holders'][0], holder.pid)
        w.let_go(holder)
        tap.equal('served', w.finish(waiter)[0], 0)
    tap.equal('free', w.inspect('shown').get('holders'), None)


def people_read_sentences(w):
    """One for whether it is held, one a holder, one a waiter; and nothing that a terminal obeys."""
    name = b"it's \xff\x1b[31m"
    shown = "$'it\\'s \\377\\033[31m'"
    tap.equal('free', w.run('inspect', name)[1].startswith(f'{shown} is free: mutex'), True)
    holder, held = w.hold(name, '--set', 'client.name=orders', '--set', 'lock.data=c\x1b]0;d')
    status, out, err = w.run('inspect', name)
    tap.equal(f'status {err}', status, 0)
    first, second, *_ = out.split('\n')
    tap.equal('held', first.startswith(f'{shown} is held: mutex'), True)
    tap.equal(out, second.startswith(f'Held by orders on {socket.gethostname()}, process '
                                     f'{holder.pid} (owner {held["owner"]})'), True)
    since = 'since' in w.inspect(name)['holders'][0]
    date = re.search(r', since \d{4}(-\d\d){2} \d\d(:\d\d){2} UTC', second)
    tap.equal('since', date is not None, since)
    if SERVICE not in ('zookeeper', 'etcd'):
        tap.equal('the lease', bool(re.search(r'The lease lasts \d+\.\d s more', second)), True)
    tap.equal('data', 'Data: c?]0;d' in second, 'data' in w.inspect(name)['holders'][0])
    tap.equal('no escape', '\x1b' in out, False)
    if not MEMCACHED:
        waiter = w.start('run', name, '--', 'true')
        world.wait_until('one waits', lambda: w.inspect(name).get('waiting'))
        out = w.run('inspect', name)[1]
        tap.equal(out, '\n1 waits.\n1. in the line: ' in out, True)
        tap.equal(out, f'process {waiter.pid} ' in out, True)
    w.let_go(holder)


def who_does_not_get_it_is_told_so_in_json(w):
    holder, _ = w.hold('taken')
    for command, *rest in (['run', '--', 'true'], ['hold']):
        status, out, _ = w.run(command, '-n', '--json', 'taken', *rest)
        tap.equal(command, (status, json.loads(out)), (1, {'name': 'taken', 'obtained': False}))
    tap.equal('without', w.run('run', '-n', 'taken', '--', 'true')[1], '')
    w.let_go(holder)


if __name__ == '__main__':
    world.main([a_holder_and_who_waits_are_led_back_to_their_processes, people_read_sentences,
                who_does_not_get_it_is_told_so_in_json])

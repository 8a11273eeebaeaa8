"""inspect and ls --json: whose process a holder is, and each who waits in a line."""
import json
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


if __name__ == '__main__':
    world.main([a_holder_and_who_waits_are_led_back_to_their_processes])

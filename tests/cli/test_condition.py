"""wait --signal, signal: scripts that wait for a word of others."""
import json

import tap
import world
from world import SHORT


def a_signal_wakes_who_waits_at_a_condition(w):
    if w.postgres:
        w.run('doctor', '--install', w.url)
    status, out, err = w.run('signal', 'filled', '--json')
    tap.equal(f'nobody waits {err}', (status, json.loads(out)),
              (0, {'name': 'filled', 'signalled': 0}))
    waiting = [w.start('wait', '--signal', 'filled', '--json') for _ in range(3)]
    w.wait_for_waiters('filled', 3)
    tap.equal('one', w.run('signal', 'filled'), (0, '', ''))
    world.wait_until('one is woken', lambda: sum(one.poll() is None for one in waiting) == 2)
    status, out, _ = w.run('signal', '--all', '--json', 'filled')
    tap.equal('the others', (status, json.loads(out)), (0, {'name': 'filled', 'signalled': 2}))
    for one in waiting:
        status, out, _ = w.finish(one)
        tap.equal('woken', (status, json.loads(out)), (0, {'name': 'filled', 'signalled': True}))
    tap.equal('-n', w.run('wait', '--signal', '-n', 'filled')[0], 1)
    status, out, _ = w.run('wait', '--signal', '-w', SHORT, '--json', 'filled')
    tap.equal('-w', (status, json.loads(out)), (1, {'name': 'filled', 'signalled': False}))
    tap.equal('-s', w.run('wait', '--signal', '-s', 'filled')[0], 64)
    tap.equal('-n 0', w.run('signal', '-n', '0', 'filled')[0], 64)


if __name__ == '__main__':
    world.main([a_signal_wakes_who_waits_at_a_condition])

"""The service grants less than was asked for: the command lives by what it has got."""
import shlex
import subprocess

import tap
import world
import zookeeper_server
from world import wait_until

ASKED_S, GRANTED_MS = 30, 3000
LOST = 75


class Brief:
    """A ZooKeeper whose sessions last three seconds at most."""

    def __init__(self, w):
        self.w = w
        self.server = zookeeper_server.single(f'maxSessionTimeout={GRANTED_MS}')
        self.env = w.environment(DLOCK_URL=f'zookeeper://127.0.0.1:{self.server.port}')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.thaw()
        self.server.stop()

    def start(self, *arguments):
        return self.w.start(*arguments, env=self.env, stdin=subprocess.PIPE)


def the_command_runs_to_its_own_end_and_knows_the_lease(w):
    with Brief(w) as brief:
        process = brief.start('run', '--ttl', str(ASKED_S), 'brief', '--', 'sh', '-c',
                              'echo $DLOCK_TTL_MS; read line; exit 7')
        told = process.stdout.readline()
        if told:
            process.stdin.write(b'go on\n')
            process.stdin.flush()
        status, _, err = w.finish(process)
        tap.equal(f'status ({err})', status, 7)
        tap.equal('what is said of times that were not asked for', err, '')
        tap.equal('DLOCK_TTL_MS', told.strip().decode(), str(GRANTED_MS))


def when_nothing_renews_it_the_command_is_told_before_its_end(w):
    marks = w.path('told')
    with Brief(w) as brief:
        process = brief.start(
            'run', '--ttl', str(ASKED_S), 'frozen', '--', 'sh', '-c',
            f'trap "echo told > {shlex.quote(marks)}; exit 3" TERM; echo ready; '
            'while :; do sleep 0.05; done')
        tap.equal('it runs', process.stdout.readline(), b'ready\n')
        brief.server.freeze()
        status, _, err = w.finish(process)
        tap.equal(f'status ({err})', status, LOST)
        tap.equal('TERM came first', wait_until('its word', lambda: open(
            marks, encoding='ascii').read()), 'told\n')


def a_kill_after_that_the_lease_is_too_short_for_is_cut_and_said_to_be(w):
    with Brief(w) as brief:
        process = brief.start('run', '--ttl', str(ASKED_S), '--kill-after', '10', 'cut', '--', 'sh',
                              '-c', 'exit 7')
        status, _, err = w.finish(process)
        tap.equal(f'status ({err})', status, 7)
        tap.equal(f'one line: {err}', (err.count('\n'), str(GRANTED_MS) in err, '1500' in err),
                  (1, True, True))


def hold_tells_the_lease_it_has(w):
    with Brief(w) as brief:
        process = brief.start('hold', '--ttl', str(ASKED_S), 'held')
        line = process.stdout.readline().decode()
        tap.equal(f'ttl_ms in {line}', f'"ttl_ms":{GRANTED_MS},' in line, True)
        w.let_go(process)


if __name__ == '__main__':
    world.main([
        the_command_runs_to_its_own_end_and_knows_the_lease,
        when_nothing_renews_it_the_command_is_told_before_its_end,
        a_kill_after_that_the_lease_is_too_short_for_is_cut_and_said_to_be,
        hold_tells_the_lease_it_has,
    ])

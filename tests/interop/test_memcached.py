"""Beside the real pymemcache, and pylibmc where it is installed, on one memcached: they lock by add
and delete, as most do. Each excludes the other, waits for it and takes over from its dead; and ours
leaves what is theirs alone."""
import importlib
import subprocess
import sys
import time

import tap
from waiting import in_threads
from world import EXECUTABLE, LIMIT, main, wait_until

LEASE_S = 60


class Pymemcache:
    """A client for each thread: they share no connection."""

    def __init__(self, port):
        base = importlib.import_module('pymemcache.client.base')
        self.client = base.Client(('127.0.0.1', port))

    def add(self, name, value, seconds):
        return self.client.add(name, value, expire=seconds, noreply=False)

    def delete(self, name):
        return self.client.delete(name, noreply=False)

    def get(self, name):
        value = self.client.get(name)
        return value.decode() if value else None


class Pylibmc:
    def __init__(self, port):
        self.client = importlib.import_module('pylibmc').Client([f'127.0.0.1:{port}'])

    def add(self, name, value, seconds):
        return self.client.add(name, value, time=seconds)

    def delete(self, name):
        return self.client.delete(name)

    def get(self, name):
        value = self.client.get(name)  # bytes where another library has stored it
        return value.decode() if isinstance(value, bytes) else value


def is_here(name):
    try:
        importlib.import_module(name)
        return True
    except ImportError:
        print(f'# left out: {name} is not installed')
        return False


PEERS = [kind for kind, name in ((Pymemcache, 'pymemcache.client.base'), (Pylibmc, 'pylibmc'))
         if is_here(name)]
if not PEERS:
    print('1..0 # SKIP pymemcache is not installed (python3-pymemcache)')
    sys.exit(0)


def each(test):
    """One test for each of the others."""
    def bound(kind):
        def run(world):
            test(world, kind(world.memcached.port), kind.__name__.lower())
        run.__name__ = f'{kind.__name__.lower()}: {test.__name__}'
        return run
    return [bound(kind) for kind in PEERS]


def ours(world, name):
    """How an attempt of ours that doesn't wait ends."""
    return world.run('run', '-n', name, '--', 'true')[0]


@each
def an_add_of_theirs_keeps_us_out_until_they_delete_it(world, peer, kind):
    assert peer.add(f'{kind}-theirs', 'them', LEASE_S)
    tap.equal('our try', ours(world, f'{kind}-theirs'), 1)
    waiting = world.start('run', '-w', str(LIMIT), f'{kind}-theirs', '--', 'true')
    time.sleep(0.2)  # it may as well not have asked yet: then it finds the lock free
    tap.equal('still waiting', waiting.poll(), None)
    assert peer.delete(f'{kind}-theirs')
    tap.equal('our wait', world.finish(waiting)[0], 0)


@each
def a_lock_of_ours_keeps_them_out_until_we_release_it(world, peer, kind):
    process, line = world.hold(f'{kind}-ours')
    assert not peer.add(f'{kind}-ours', 'them', LEASE_S)
    tap.equal('the owner', peer.get(f'{kind}-ours').split(' ')[0], line['owner'])
    world.let_go(process)
    wait_until('their turn', lambda: peer.add(f'{kind}-ours', 'them', LEASE_S))
    assert peer.delete(f'{kind}-ours')


@each
def we_leave_alone_what_is_theirs_by_now(world, peer, kind):
    process, _ = world.hold(f'{kind}-foreign')
    assert peer.delete(f'{kind}-foreign')  # as if our lease had ended
    assert peer.add(f'{kind}-foreign', 'them', LEASE_S)
    process.stdin.close()
    process.stdin = None
    world.finish(process)
    tap.equal('the value', peer.get(f'{kind}-foreign'), 'them')
    assert peer.delete(f'{kind}-foreign')


@each
def the_dead_of_either_side_are_taken_over_from(world, peer, kind):
    process, _ = world.hold(f'{kind}-dead', '--ttl', '1')
    process.kill()
    process.wait()
    wait_until('their turn', lambda: peer.add(f'{kind}-dead', 'them', 1))  # and they die, too
    tap.equal('our wait', world.run('run', '-w', str(LIMIT), f'{kind}-dead', '--', 'true')[0], 0)


COUNT = 'n=$(cat {0}); sleep 0.00$(( $$ % 5 )); echo $((n + 1)) > {0}'


@each
def side_by_side_they_lose_no_update(world, peer, kind):
    name, counter = f'{kind}-both', world.path(f'{kind}-counter')
    with open(counter, 'w', encoding='ascii') as file:
        file.write('0\n')
    rounds, done = 5, []

    def of_theirs():
        own = type(peer)(world.memcached.port)
        for _ in range(rounds):
            wait_until('their turn', lambda: own.add(name, 'them', 600), 6 * LIMIT)
            subprocess.run(['sh', '-c', COUNT.format(counter)], check=True)
            done.append('theirs')
            own.delete(name)
            time.sleep(0.05)

    def of_ours():
        for _ in range(rounds):
            tap.equal('run', subprocess.run(
                [EXECUTABLE, 'run', '-w', '120', name, '--', 'sh', '-c', COUNT.format(counter)],
                env=world.environment(), check=False, stdin=subprocess.DEVNULL).returncode, 0)
            done.append('ours')

    in_threads((of_theirs, of_ours) * 3)
    with open(counter, encoding='ascii') as file:
        tap.equal('the counter', int(file.read()), 6 * rounds)


if __name__ == '__main__':
    main([
        *an_add_of_theirs_keeps_us_out_until_they_delete_it,
        *a_lock_of_ours_keeps_them_out_until_we_release_it,
        *we_leave_alone_what_is_theirs_by_now,
        *the_dead_of_either_side_are_taken_over_from,
        *side_by_side_they_lose_no_update,
    ])

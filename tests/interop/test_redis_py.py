"""Beside the real redis-py on one Redis, in the string layout: each excludes the other, waits for
it, takes over from its dead, and leaves what is the other's alone."""
import subprocess
import sys
import time

import tap
from waiting import in_threads
from world import EXECUTABLE, LIMIT, main, wait_until

try:
    import redis
    from redis.exceptions import LockError
except ImportError:
    print('1..0 # SKIP redis-py is not installed (python3-redis)')
    sys.exit(0)


def peer(world, name, **options):
    """Their lock, and their client. Ours has the layout in its URL from here on."""
    world.url = f'{world.redis.url}?redis.layout=string'
    client = redis.Redis(port=world.redis.port)
    return client, client.lock(name, **options)


def ours(world, name, *options):
    """How an attempt of ours that doesn't wait ends."""
    return world.run('run', '-n', *options, name, '--', 'true')[0]


def a_lock_of_theirs_keeps_us_out_until_they_release_it(world):
    _, lock = peer(world, 'theirs', timeout=60)
    assert lock.acquire(blocking=False)
    tap.equal('our try', ours(world, 'theirs'), 1)
    waiting = world.start('run', '-w', str(LIMIT), 'theirs', '--', 'true')
    time.sleep(0.2)  # it may as well not have asked yet: then it finds the lock free
    tap.equal('still waiting', waiting.poll(), None)
    lock.release()
    tap.equal('our wait', world.finish(waiting)[0], 0)


def a_lock_of_ours_keeps_them_out_until_we_release_it(world):
    _, lock = peer(world, 'ours', timeout=60)
    process, _ = world.hold('ours')
    tap.equal('their try', lock.acquire(blocking=False), False)
    world.let_go(process)
    tap.equal('their try', lock.acquire(blocking=True, blocking_timeout=LIMIT), True)
    lock.release()


def a_lock_of_theirs_without_an_end_is_waited_for_and_never_given_one(world):
    client, lock = peer(world, 'endless', timeout=None)
    assert lock.acquire(blocking=False)
    tap.equal('our try', ours(world, 'endless'), 1)
    waiting = world.start('run', '-w', '0.5', 'endless', '--', 'true')
    tap.equal('our wait', world.finish(waiting)[0], 1)
    tap.equal('its end', client.pttl('endless'), -1)
    lock.release()
    tap.equal('our try', ours(world, 'endless'), 0)


def neither_releases_nor_lengthens_what_is_the_others(world):
    client, lock = peer(world, 'foreign', timeout=60)
    process, line = world.hold('foreign')
    lock.local.token = b'not the owner'
    for attempt in (lock.release, lock.reacquire, lambda: lock.extend(60)):
        try:
            attempt()
        except LockError:
            continue
        raise AssertionError(f'{attempt} succeeded')
    tap.equal('the owner', client.get('foreign').decode(), line['owner'])
    client.set('foreign', 'theirs', px=60000)  # as if our lease had ended
    process.stdin.close()
    process.stdin = None
    world.finish(process)
    tap.equal('the owner', client.get('foreign'), b'theirs')
    client.delete('foreign')


def the_dead_of_either_side_are_taken_over_from_at_the_end_of_their_lease(world):
    client, lock = peer(world, 'dead', timeout=60)
    process, _ = world.hold('dead', '--ttl', '1')
    process.kill()
    process.wait()
    assert lock.acquire(blocking=True, blocking_timeout=LIMIT)
    client.pexpire('dead', 700)  # … and they die with 0.7 s to go
    tap.equal('our wait', world.run('run', '-w', str(LIMIT), 'dead', '--', 'true')[0], 0)


COUNT = 'n=$(cat {0}); sleep 0.00$(( $$ % 5 )); echo $((n + 1)) > {0}'


def side_by_side_they_lose_no_update(world):
    client, _ = peer(world, 'both')
    counter = world.path('counter')
    with open(counter, 'w', encoding='ascii') as file:
        file.write('0\n')
    rounds, done = 12, []

    def keep_pace(side, other):
        """Nobody is first on Redis: a side that is far ahead lets the other have its turns."""
        wait_until(f'{other} have their turns',
                   lambda: done.count(side) < done.count(other) + rounds, 3 * LIMIT)

    def of_theirs():
        for _ in range(rounds):
            keep_pace('theirs', 'ours')
            with client.lock('both', timeout=30):
                subprocess.run(['sh', '-c', COUNT.format(counter)], check=True)
                done.append('theirs')

    def of_ours():
        for _ in range(rounds):
            keep_pace('ours', 'theirs')
            tap.equal('run', subprocess.run(
                [EXECUTABLE, 'run', '-w', '60', 'both', '--', 'sh', '-c', COUNT.format(counter)],
                env=world.environment(), check=False, stdin=subprocess.DEVNULL).returncode, 0)
            done.append('ours')

    in_threads((of_theirs, of_ours) * 4)
    with open(counter, encoding='ascii') as file:
        tap.equal('the counter', int(file.read()), 8 * rounds)
    changes = sum(a != b for a, b in zip(done, done[1:]))
    print(f'# {len(done)} turns, {changes} changes of side')
    assert changes > 1, 'neither waited for the other to be through with everything'


def nothing_is_left_but_counters_of_tokens(world):
    client, _ = peer(world, 'rest')
    wait_until('no lock is left', lambda: not [
        key for key in client.keys()
        if not key.startswith((b'redisson_lock_token:', b'dlock_client:'))])


if __name__ == '__main__':
    main([
        a_lock_of_theirs_keeps_us_out_until_they_release_it,
        a_lock_of_ours_keeps_them_out_until_we_release_it,
        a_lock_of_theirs_without_an_end_is_waited_for_and_never_given_one,
        neither_releases_nor_lengthens_what_is_the_others,
        the_dead_of_either_side_are_taken_over_from_at_the_end_of_their_lease,
        side_by_side_they_lose_no_update,
        nothing_is_left_but_counters_of_tokens,
    ])

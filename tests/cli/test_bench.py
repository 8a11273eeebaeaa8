"""dlock bench: what it measures, and that nothing of it stays."""
import json
import re
import signal
import sys

import tap
import world
from waiting import wait_until
from world import SERVICE

SCENES = ['one_thread', 'names', 'one_name', 'one_name_clients']
QUICK = ('--seconds', '0.2', '--threads', '3')


def measure(w, *arguments):
    status, out, err = w.run('bench', '--json', *QUICK, *arguments)
    tap.equal(f'status: {err}', status, 0)
    return json.loads(out)


def nothing_is_left(w):
    tap.equal('ls', w.run('ls'), (0, '', ''))
    if w.redis:
        for key in re.findall(r'\n(\S*dlock-bench\S*)', w.redis.command('KEYS', '*').decode()):
            left = int(w.redis.command('PTTL', key)[1:])
            # a line that nobody stands in may have ended since, -2
            tap.equal(f'{key} stays {left} ms', left != -1 and left <= 60000, True)


@world.only_on('redis')
def how_long_tokens_are_kept_is_what_the_settings_say(w):
    """Not what stands in the URI as any text."""
    w.redis.command('FLUSHALL')
    measure(w, '--url', w.url + '?client.name=redis.token_keep_ms')
    nothing_is_left(w)
    measure(w, '--url', w.url + '?redis.token_keep_ms=600000')
    keys = re.findall(r'\n(\S*dlock-bench\S*)', w.redis.command('KEYS', '*').decode())
    tap.equal(f'{keys} stay as long as was said',
              any(int(w.redis.command('PTTL', key)[1:]) > 60000 for key in keys), True)
    w.redis.command('FLUSHALL')


def its_numbers_fit_together(w):
    found = measure(w)
    scenes = found['scenes']
    tap.equal('scenes', [scene['scene'] for scene in scenes], SCENES)
    for scene in scenes:
        times = [scene[key] for key in ('min_us', 'median_us', 'p99_us', 'max_us')]
        tap.equal(f'{times}', times, sorted(times))
        tap.equal(f'{scene}', scene['rate'] > 0 and scene['seconds'] >= 0.2, True)
        rate = scene[scene['of']] / scene['seconds']
        tap.equal(f'rate {rate}', abs(scene['rate'] / rate - 1) < 0.01, True)
        tap.equal('hand-overs', scene['hand_overs'] <= scene['pairs'], True)
    tap.equal('threads', [scene['threads'] for scene in scenes], [1, 3, 3, 3])
    tap.equal('clients', [scene['clients'] for scene in scenes], [1, 1, 1, 3])
    tap.equal('names', [scene['names'] for scene in scenes], [1, 3, 1, 1])
    tap.equal('histogram', sum(row['count'] for row in found['histogram']), scenes[0]['pairs'])
    nothing_is_left(w)


def the_floor_is_what_the_requests_take(w):
    found = measure(w)
    asked = {'file': 0, 'redis': 2}[SERVICE]
    tap.equal(f'requests: {found["requests_per_pair"]}',
              asked * 0.95 <= found['requests_per_pair'] <= asked * 1.05, True)
    if asked == 0:
        tap.equal('floor', (found['request_us'], found['floor_rate']), (0, 0))
    else:
        rate = 1e6 / (found['request_us'] * found['requests_per_pair'])
        tap.equal(f'{found}', abs(found['floor_rate'] / rate - 1) < 0.01, True)
        tap.equal('above what was done', found['floor_rate'] >= found['scenes'][0]['rate'], True)


def kept_locks_ask_nobody_where_locks_are_kept(w):
    if SERVICE == 'redis':
        tap.equal('requests', measure(w, '--keep', '5')['requests_per_pair'] < 0.5, True)
        nothing_is_left(w)
    else:
        status, _, err = w.run('bench', *QUICK, '--keep', '5')
        tap.equal(err, (status, 'keeps no locks' in err, err.count('\n')), (64, True, 1))


def people_see_a_picture(w):
    status, out, err = w.run('bench', *QUICK)
    tap.equal(err, status, 0)
    for text in ('1 thread  ', '3 threads, a name each', '3 threads, one name, a client each',
                 'hand-overs', '####'):
        tap.equal(f'{text}: {out}', text in out, True)


def what_it_cannot_do_is_told_before_anything_is_asked(w):
    for wrong in (('--seconds', '0'), ('--seconds', '3601'), ('--seconds', '-1'),
                  ('--threads', '0'), ('--threads', '65'), ('--threads', 'x'), ('--keep', 'x'),
                  ('--keep',), ('a-name',), ('--once',), ('--url', '')):
        status, out, err = w.run('bench', *wrong)
        tap.equal(f'{wrong}: {err}', (status, out, err.count('\n')), (64, '', 1))


def start_long_one(w):
    bench = w.start('bench', '--seconds', '600', '--threads', '3')
    wait_until('it is at work', lambda: 'dlock-bench' in w.run('ls')[1])
    return bench


def a_signal_ends_it(w):
    for number in (signal.SIGINT, signal.SIGTERM):
        bench = start_long_one(w)
        bench.send_signal(number)
        tap.equal(number.name, w.finish(bench), (128 + number, '', ''))
        nothing_is_left(w)


@world.only_on('redis')
def a_signal_ends_it_while_the_service_is_silent(w):
    bench = start_long_one(w)
    w.redis.process.send_signal(signal.SIGSTOP)
    try:
        bench.send_signal(signal.SIGINT)
        tap.equal('SIGINT', w.finish(bench)[0], 128 + signal.SIGINT)
    finally:
        w.redis.process.send_signal(signal.SIGCONT)


@world.only_on('redis')
def a_service_that_goes_is_a_failure(w):
    bench = start_long_one(w)
    w.redis.stop()
    status, out, err = w.finish(bench)
    tap.equal(f'{status} {err}', (status in (1, 69), out, 'dlock: bench: ' in err),
              (True, '', True))
    w.renew()


if __name__ == '__main__':
    sys.exit(world.main([
        its_numbers_fit_together,
        how_long_tokens_are_kept_is_what_the_settings_say,
        the_floor_is_what_the_requests_take,
        kept_locks_ask_nobody_where_locks_are_kept,
        people_see_a_picture,
        what_it_cannot_do_is_told_before_anything_is_asked,
        a_signal_ends_it,
        a_signal_ends_it_while_the_service_is_silent,
        a_service_that_goes_is_a_failure,
    ]))

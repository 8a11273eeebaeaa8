"""What is measured: each row with its bar, and what is only reported."""
import dataclasses
import statistics
import typing

import machine
import peers
from programs import (ON_CLUSTER, ON_ETCD, ON_MEMCACHED, ON_POSTGRES, ON_REDLOCK, ON_TLS,
                      ON_ZOOKEEPER, RAW, RAW_BY_TLS, cores_of)

HOLDS_MS = 5
WAITERS = 16
# The best there is for so many waiters, and what is allowed beyond it.
MOST_P99_MS = 1.3 * (WAITERS - 1) * HOLDS_MS
# A receiver that dies costs its claim, and then what the next one lets pass between two looks:
# client.poll_ms, give or take a quarter.
CLAIM_MS, POLL_MS = 500, 1.25 * 1000
# Of a file, each in a process of its own; on each core all of them together do so much of what one
# does alone.
READERS, LEAST_TOGETHER = 64, 0.8
# A pair takes at most 1.1 times as long in a Cluster.
LEAST_IN_CLUSTER = round(1 / 1.1, 2)
# Longer than any run.
KEPT_MS = 600_000


@dataclasses.dataclass
class Limit:
    """Something of libdlock's runs that may not be larger; without `most` it is only printed."""
    what: str
    key: str
    most: typing.Optional[float] = None


@dataclasses.dataclass
class Row:
    name: str
    place: str  # pinned: all on one core; cross: neighbours on different cores; free: as it comes
    bar: typing.Optional[float]
    ours: list
    floor: list  # a program of ours, or a library and what it is told
    limits: tuple = ()
    cores: int = 1  # each of so many is to do as much as the floor


@dataclasses.dataclass
class Report:
    """What is measured without being compared."""
    name: str
    place: str
    words: list
    limits: tuple = ()


def ours(programs, place, program, query='', *more):
    at = programs.servers[place]
    return [program, '--page', at.page.path, *more, '--uri', at.uri(query)]


def both(bar, free_bar=None):
    return (('pinned', bar), ('free', free_bar))


def redis_rows(programs):
    for name, query, workers, bar in (
            ('redis', '', '1', 0.9),
            ('redis, release=async', '?lock.release=async', '1', 1.1),
            ('redis, 64 threads', '', '64', 1.5)):
        for place, its_bar in both(bar):
            yield Row(name, place, its_bar,
                      ours(programs, place, 'bench-pairs', query, '--workers', workers),
                      [RAW, '', '--workers', workers])


def peer_rows(programs):
    """Side by side with the libraries that keep the same layout."""
    string, rueidis = '?redis.layout=string', '?redis.layout=rueidis&redis.rueidis_majority=1'
    for place, bar in both(0.9):
        yield Row('string', place, bar, ours(programs, place, 'bench-pairs', string),
                  [RAW, string])
    for library, name, query, workers, bar, free_bar in (
            ('redislock', 'string', string, 1, 1.4, None),
            ('redsync', 'string', string, 1, None, None),
            ('redis-py', 'string', string, 1, None, None),
            ('Redisson', 'redisson', '', 1, 3.2, None),
            ('rueidislock', 'string, 64 threads', string, 64, 1.5, 1.0),
            ('rueidislock', 'redisson, 64 threads', '', 64, None, None),
            ('rueidislock', 'rueidis, 64 threads', rueidis, 64, None, None)):
        for place, its_bar in both(bar, free_bar):
            yield Row(f'{name} / {library}', place, its_bar,
                      ours(programs, place, 'bench-pairs', query, '--workers', workers),
                      [library, 'pairs', workers])


def go_rows():
    """Our Go package beside the libraries of Go, goroutine by goroutine."""
    for library, workers, bar, free_bar in (
            ('redislock', 1, 1.05, 1.05), ('redislock', 64, 1.2, None),
            ('rueidislock', 1, None, None), ('rueidislock', 64, 1.2, None)):
        for place, its_bar in both(bar, free_bar):
            name = 'Go string' if workers == 1 else f'Go string, {workers} goroutines'
            yield Row(f'{name} / {library}', place, its_bar,
                      ['go-string', 'pairs', workers], [library, 'pairs', workers])
    yield Row(f'Go one name, {WAITERS} goroutines / redislock', 'pinned', None,
              ['go-redisson', 'one-name', WAITERS, 0], ['redislock', 'one-name', WAITERS, 0],
              (Limit('most/least', 'spread'),))


def kept_rows(programs):
    """Locks that their client keeps (lock.keep_ms), beside those that go back each time, and beside
    one that no other process could have."""
    kept = f'?lock.keep_ms={KEPT_MS}'
    for place, bar in both(30, 30):
        yield Row('redis, kept / redislock', place, bar,
                  ours(programs, place, 'bench-pairs', kept), ['redislock', 'pairs', 1])
    for place, bar in both(20, 20):
        yield Row('Go, kept / redislock', place, bar,
                  ['go-redisson kept', 'pairs', 1], ['redislock', 'pairs', 1])
    # In use without a rest it has a token each microsecond, as the clock has: 0029 says why.
    for name, more, bar in (('redis, kept, rested / mem', ['--rested'], 0.7),
                            ('redis, kept / mem', [], None)):
        yield Row(name, 'pinned', bar, ours(programs, 'pinned', 'bench-pairs', kept, *more),
                  ['bench-pairs', '--uri', 'mem:'])
    for (crowd, processes), bar in zip(crowds(), (10, 2)):
        for place, its_bar in both(bar, bar):
            many = ['--workers', WAITERS, '--processes', processes]
            at = programs.servers[place]
            yield Row(f'one name, kept, {crowd}', place, its_bar,
                      ours(programs, place, 'bench-contention', kept, *many),
                      ['bench-floor-queue', '--page', at.page.path, *many, at.port],
                      (Limit('most/least', 'spread', 1.3 if processes == 1 else None),
                       Limit('commands', 'commands_each')))


def crowds():
    """So many waiters, in one process or spread over several."""
    yield f'{WAITERS} threads', 1
    yield f'4 processes x {WAITERS // 4}', 4


def one_name_rows(programs):
    """One lock that all want, beside a queue kept in the script."""
    for (crowd, processes), free_bar in zip(crowds(), (0.9, 0.8)):
        for place, bar in both(0.6, free_bar):
            pinned = place == 'pinned'
            many = ['--workers', WAITERS, '--processes', processes]
            at = programs.servers[place]
            yield Row(f'one name, {crowd}', place, bar,
                      ours(programs, place, 'bench-contention', '', *many),
                      ['bench-floor-queue', '--page', at.page.path, *many, at.port],
                      (Limit('most/least', 'spread', 1.2 if pinned else None),
                       Limit('EVALSHA', 'scripts_each', 2.5 if pinned else None),
                       Limit('commands', 'commands_each')))


def on_zookeeper(program, query='', *more):
    return [ON_ZOOKEEPER, f'bench-{program}', f'zookeeper://@{query}', *more]


def zookeeper_floor(library, workers):
    return [ON_ZOOKEEPER, 'bench-floor-zookeeper', '@', '--workers', workers, library]


def zookeeper_rows():
    """On one server, which has run for a while before; Curator's layout, which go-zookeeper shares
    and kazoo doesn't."""
    asynchronous = '?lock.release=async'
    for name, query, library, workers, bar in (
            ('zookeeper', '', 'as-is', 1, 1.4),
            ('zookeeper, release=async', asynchronous, 'as-is', 1, 1.7),
            ('zookeeper / tuned floor', '', 'tuned', 1, None),
            ('zookeeper, release=async / tuned floor', asynchronous, 'tuned', 1, None),
            ('zookeeper, 64 threads / tuned floor', '', 'tuned', 64, None)):
        for place, its_bar in both(bar):
            yield Row(name, place, its_bar,
                      on_zookeeper('pairs', query, '--workers', workers),
                      zookeeper_floor(library, workers))
    for library, workers, bar in (('go-zookeeper', 1, 1.1), ('Curator', 1, None),
                                  ('kazoo', 1, None), ('go-zookeeper', 64, None)):
        for place, its_bar in both(bar):
            name = 'zookeeper' if workers == 1 else f'zookeeper, {workers} threads'
            yield Row(f'{name} / {library}', place, its_bar,
                      on_zookeeper('pairs', '', '--workers', workers),
                      [library, 'pairs', workers])
    for place, its_bar in both(100, 100):
        yield Row('zookeeper, kept / go-zookeeper', place, its_bar,
                  on_zookeeper('pairs', f'?lock.keep_ms={KEPT_MS}', '--workers', 1),
                  ['go-zookeeper', 'pairs', 1])
    for library in peers.ZOOKEEPERS:
        for place, its_bar in both(1):
            yield Row(f'zookeeper one name, {WAITERS} threads / {library}', place, its_bar,
                      on_zookeeper('contention', '', '--workers', WAITERS),
                      [library, 'one-name', WAITERS, 0],
                      (Limit('most/least', 'spread', 1.2 if place == 'pinned' else None),
                       Limit('requests', 'commands_each')))


def memcached_rows():
    """The floor is the meta commands on a plain socket."""
    for name, query, workers, bar in (
            ('memcached', '', 1, 0.9),
            ('memcached, release=async', '?lock.release=async', 1, None),
            ('memcached, 64 threads', '', 64, None)):
        for place, its_bar in both(bar):
            yield Row(name, place, its_bar,
                      [ON_MEMCACHED, 'bench-pairs', query, '--workers', workers],
                      [ON_MEMCACHED, 'bench-floor-memcached', None, '--workers', workers])


def on_etcd(program, query='', *more):
    return [ON_ETCD, f'bench-{program}', f'etcd://@{query}', *more]


def etcd_rows():
    """The floor is two transactions of plain libnghttp2. Go's goroutines share a client and, where
    they want different names, a session."""
    for name, query, workers, bar in (
            ('etcd', '', 1, 0.95),
            ('etcd, release=async', '?lock.release=async', 1, None),
            ('etcd, 16 threads', '', 16, None)):
        for place, its_bar in both(bar):
            yield Row(name, place, its_bar, on_etcd('pairs', query, '--workers', workers),
                      [ON_ETCD, 'bench-floor-etcd', '@', '--workers', workers])
    for name, workers, bar in (('etcd', 1, 1.2), ('etcd, 16 threads', 16, 1.5)):
        for place, its_bar in both(bar):
            yield Row(f'{name} / concurrency.Mutex', place, its_bar,
                      on_etcd('pairs', '', '--workers', workers),
                      ['concurrency.Mutex of one session', 'pairs', workers])
    for place, its_bar in both(100, 100):
        yield Row('etcd, kept / concurrency.Mutex', place, its_bar,
                  on_etcd('pairs', f'?lock.keep_ms={KEPT_MS}', '--workers', 1),
                  ['concurrency.Mutex of one session', 'pairs', 1])
    for place, its_bar in both(1.2):
        yield Row(f'etcd one name, {WAITERS} threads / concurrency.Mutex', place, its_bar,
                  on_etcd('contention', '', '--workers', WAITERS),
                  ['concurrency.Mutex', 'one-name', WAITERS, 0],
                  (Limit('most/least', 'spread'), Limit('revisions', 'commands_each')))


def on_postgres(program, *more):
    return [ON_POSTGRES, f'bench-{program}', '', *more]


def postgres_rows():
    """The floor is the same two calls by plain libpq. 64 threads of it have a connection each, or
    take turns at one: then the server has as many processes as for a client of ours."""
    crowd = 'postgres, 64 threads'
    for name, workers, how, bar in (('postgres', 1, 'pairs', 0.9),
                                    (f'{crowd} / one connection', 64, 'shared', 3),
                                    (f'{crowd} / a connection each', 64, 'pairs', 3)):
        for place, its_bar in both(bar):
            yield Row(name, place, its_bar, on_postgres('pairs', '--workers', workers),
                      [ON_POSTGRES, 'bench-floor-postgres', None, '--workers', workers, how])
    for place, its_bar in both(None):
        yield Row(f'postgres one name, {WAITERS} threads / pg_advisory_lock', place, its_bar,
                  on_postgres('contention', '--workers', WAITERS),
                  [ON_POSTGRES, 'bench-floor-postgres', None, '--workers', WAITERS, 'advisory'],
                  (Limit('most/least', 'spread'),))


def redlock_rows():
    """Five servers beside the library that keeps the same layout, which has no tokens."""
    for name, query, its_bar in (('redlock of 5', '', 1.5),
                                 ('redlock of 5, fencing', '?redlock.fencing=on', 1.2)):
        for place, bar in both(its_bar, its_bar):
            yield Row(f'{name} / redsync', place, bar, [ON_REDLOCK, 'bench-pairs', query],
                      ['redsync of 5', 'pairs', 1])


def topology_rows(programs):
    """Libdlock against itself on one server of the kind that the other rows use."""
    rows = (('cluster / one server', 'redis+cluster', ON_CLUSTER, 1, LEAST_IN_CLUSTER),
            ('TLS / plain', 'rediss', ON_TLS, 1, 0.8),
            ('TLS / plain, 64 threads', 'rediss', ON_TLS, 64, 0.9))
    for name, scheme, there, workers, bar in rows:
        if scheme not in programs.backends:
            continue
        for place, its_bar in both(bar):
            yield Row(name, place, its_bar, [there, 'bench-pairs', '', '--workers', workers],
                      ours(programs, place, 'bench-pairs', '', '--workers', workers))
    if 'rediss' in programs.backends:
        for place, _ in both(None):  # what encryption costs whoever does nothing else
            yield Row('raw commands: TLS / plain', place, None, [RAW_BY_TLS, ''], [RAW, ''])


def mem_rows():
    """The bar is meant as the peers were measured: a look at the clock before and after each
    pair. The plain loop says what a pair costs when nothing else is done."""
    yield Row('mem, each pair timed', 'pinned', 0.15,
              ['bench-pairs', '--timed', '--uri', 'mem:'],
              ['bench-floor-local', '--timed', 'mutex'])
    yield Row('mem, plain loop', 'pinned', None,
              ['bench-pairs', '--uri', 'mem:'], ['bench-floor-local', 'mutex'])
    yield Row('mem, read side, each pair timed', 'pinned', None,
              ['bench-pairs', '--kind', 'read', '--timed', '--uri', 'mem:'],
              ['bench-floor-local', '--timed', 'rwlock'])


def processes(count):
    return ['--workers', count, '--processes', count]


def file_uri(programs):
    return f'file://{programs.files}/table'


def file_rows(programs):
    yield Row('file', 'pinned', 1.5, ['bench-pairs', '--uri', file_uri(programs)],
              ['bench-floor-local', f'{programs.files}/flock'])
    for kind, bar in (('read', 1), ('write', 1.5)):
        yield Row(f'file, {kind} side', 'pinned', bar,
                  ['bench-pairs', '--kind', kind, '--uri', file_uri(programs)],
                  ['bench-floor-local', '--kind', kind, f'{programs.files}/flock'])
    readers = ['bench-pairs', '--kind', 'read', '--one-name', '--uri', file_uri(programs)]
    for place in ('pinned', 'free'):
        yield Row(f'file, {READERS} readers / one reader', place, LEAST_TOGETHER,
                  [*readers, *processes(READERS)], readers,
                  cores=len(cores_of(place)))
    for count in ('3', '4', '8'):
        for place, cores in places():
            yield Row(f'file, hand-overs of {count}', place, 0.6,
                      ['bench-handover', *processes(count), *cores, '--uri',
                       file_uri(programs)],
                      ['bench-floor-ring', '--workers', count, *cores])


def python_rows(programs):
    """libdlock's Python package beside the libraries that Python has."""
    if 'redis' in programs.backends:
        for name, own, library, workers, bar in (
                ('Python: string / redis-py', 'dlock', 'redis-py 8', 1, 3),
                ('asyncio: string / redis-py', 'dlock.aio', 'redis-py asyncio', 1, 1.5),
                ('asyncio: release=async / redis-py', 'dlock.aio release=async',
                 'redis-py asyncio', 1, 2.5),
                ('asyncio: 64 tasks / redis-py', 'dlock.aio', 'redis-py asyncio', 64, 3)):
            yield Row(name, 'pinned', bar, [own, 'pairs', workers], [library, 'pairs', workers])
    if 'file' in programs.backends:
        yield Row('Python: file / filelock', 'pinned', 6, ['dlock file', 'pairs', 1],
                  ['filelock', 'pairs', 1])


def places():
    yield 'pinned', []
    if len(machine.CORES) > 1:
        yield 'cross', ['--cores', ','.join(map(str, machine.CORES[:2]))]


def compared(programs):
    """The rows this build can run."""
    if 'redis' in programs.backends:
        yield from redis_rows(programs)
        yield from peer_rows(programs)
        yield from one_name_rows(programs)
        yield from kept_rows(programs)
        yield from go_rows()
    if 'mem' in programs.backends:
        yield from mem_rows()
    if 'file' in programs.backends:
        yield from file_rows(programs)
    yield from python_rows(programs)
    if 'memcached' in programs.backends:
        yield from memcached_rows()
    if 'redlock' in programs.backends:
        yield from redlock_rows()
    if 'redis' in programs.backends:
        yield from topology_rows(programs)
    if 'etcd' in programs.backends:
        yield from etcd_rows()
    if 'postgres' in programs.backends:
        yield from postgres_rows()
    if 'zookeeper' in programs.backends:
        yield from zookeeper_rows()


def redis_reports(programs):
    for name, query in (('redis', ''), ('redis, release=async', '?lock.release=async'),
                        ('string', '?redis.layout=string')):
        yield Report(f'pairs: {name}', 'pinned',
                     ours(programs, 'pinned', 'bench-pairs', query, '--timed'))
    yield Report('pairs: redis floor', 'pinned', [RAW, '', '--timed'])
    for crowd, processes in crowds():
        yield Report(f'holds of {HOLDS_MS} ms: {crowd}', 'pinned',
                     ours(programs, 'pinned', 'bench-contention', '', '--secs', 4 * programs.secs,
                          '--hold-ms', HOLDS_MS, '--workers', WAITERS, '--processes', processes),
                     (Limit('p99 wait, ms', 'p99_ms', MOST_P99_MS),))
    yield Report('killed in mid-hand-over', 'pinned',
                 ['bench-killed', '--count', programs.rounds, '--uri',
                  programs.servers['pinned'].uri()],
                 (Limit('longest delay, ms', 'most_ms', CLAIM_MS + POLL_MS),))
    yield Report(f'one name: string, {WAITERS} threads', 'pinned',
                 ours(programs, 'pinned', 'bench-contention', '?redis.layout=string',
                      '--workers', WAITERS))
    for library in ('Redisson', 'redislock', 'redsync', 'redis-py', 'rueidislock'):
        yield Report(f'one name: {library}, {WAITERS} threads', 'pinned',
                     [library, 'one-name', WAITERS, 0])
    for layout in ('redisson', 'string'):
        yield Report(f'one name: Go, {layout}, {WAITERS} goroutines', 'pinned',
                     [f'go-{layout}', 'one-name', WAITERS, 0])
    yield Report('Go: what a call costs', 'pinned', ['go-string', 'calls'])


def zookeeper_reports(programs):
    for name, query in (('zookeeper', ''), ('zookeeper, release=async', '?lock.release=async')):
        yield Report(f'pairs: {name}', 'pinned', on_zookeeper('pairs', query, '--timed'))
    for crowd, processes in crowds():
        yield Report(f'holds of {HOLDS_MS} ms: zookeeper, {crowd}', 'pinned',
                     on_zookeeper('contention', '', '--secs', 4 * programs.secs, '--hold-ms',
                                  HOLDS_MS, '--workers', WAITERS, '--processes', processes))


def others(programs):
    """What is reported, or checked, without being compared."""
    if 'redis' in programs.backends:
        yield from redis_reports(programs)
    if 'file' in programs.backends:
        yield Report('pairs: file', 'pinned', ['bench-pairs', '--timed', '--uri',
                                               file_uri(programs)])
    if 'mem' in programs.backends:
        yield Report('pairs: mem', 'pinned', ['bench-pairs', '--timed', '--uri', 'mem:'])
    if 'file' in programs.backends:
        for count in ('3', '4', '8'):
            for place, cores in places():
                yield Report(f'FIFO: file, {count} processes', place,
                             ['bench-handover', '--look-every', '1', *processes(count), *cores,
                              '--uri', file_uri(programs)])
    if 'zookeeper' in programs.backends:
        yield from zookeeper_reports(programs)


def checks(limits, runs):
    """Each limit with the median of the runs."""
    found = []
    for limit in limits:
        value = statistics.median(run[limit.key] for run in runs)
        found.append({'what': limit.what, 'value': value, 'most': limit.most,
                      'ok': limit.most is None or value <= limit.most})
    return found


def is_wrong(run):
    """A lock that fails, or an order that isn't FIFO or could not be seen to be."""
    if any(run.get(key, 0) for key in ('overlaps', 'lost_entries', 'stale_tokens',
                                       'overtakings')):
        return True
    return run.get('ordered') == 0


def broken(result):
    return [f'{result["name"]}, {result["place"]}: overlaps, lost entries, repeated tokens or '
            f'wrong order ({side})'
            for side in ('ours', 'floor') for run in result['runs'][side] if is_wrong(run)]

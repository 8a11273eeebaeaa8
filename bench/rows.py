"""What is measured: each row with its bar, and what is only reported."""
import dataclasses
import typing

import machine
from programs import SCRIPTS


@dataclasses.dataclass
class Row:
    name: str
    place: str  # pinned: all on one core; cross: neighbours on different cores; free: as it comes
    bar: typing.Optional[float]
    ours: list
    floor: list


def redis_uri(programs, place, query=''):
    return f'redis://127.0.0.1:{programs.servers[place].port}{query}'


def redis_floor(programs, place, *more):
    return ['bench-floor-redis', *more, str(programs.servers[place].port),
            str(SCRIPTS / 'acquire.lua'), str(SCRIPTS / 'release.lua')]


def redis_rows(programs):
    for name, query, workers, bar in (
            ('redis', '', '1', 0.9),
            ('redis, release=async', '?lock.release=async', '1', 1.1),
            ('redis, 64 threads', '', '64', 1.5)):
        for place in ('pinned', 'free'):
            yield Row(name, place, bar if place == 'pinned' else None,
                      ['bench-pairs', '--workers', workers, '--uri',
                       redis_uri(programs, place, query)],
                      redis_floor(programs, place, '--workers', workers))


def mem_rows():
    """The bar is meant as the peers were measured: a look at the clock before and after each
    pair. The plain loop says what a pair costs when nothing else is done."""
    yield Row('mem, each pair timed', 'pinned', 0.15,
              ['bench-pairs', '--timed', '--uri', 'mem:'],
              ['bench-floor-local', '--timed', 'mutex'])
    yield Row('mem, plain loop', 'pinned', None,
              ['bench-pairs', '--uri', 'mem:'], ['bench-floor-local', 'mutex'])


def file_uri(programs):
    return f'file://{programs.files}/table'


def file_rows(programs):
    yield Row('file', 'pinned', 1.5, ['bench-pairs', '--uri', file_uri(programs)],
              ['bench-floor-local', f'{programs.files}/flock'])
    for count in ('3', '4', '8'):
        for place, cores in places():
            yield Row(f'file, hand-overs of {count}', place, 0.6,
                      ['bench-handover', '--workers', count, *cores, '--uri',
                       file_uri(programs)],
                      ['bench-floor-ring', '--workers', count, *cores])


def places():
    yield 'pinned', []
    if len(machine.CORES) > 1:
        yield 'cross', ['--cores', ','.join(map(str, machine.CORES[:2]))]


def compared(programs):
    """The rows this build can run."""
    if 'redis' in programs.backends:
        yield from redis_rows(programs)
    if 'mem' in programs.backends:
        yield from mem_rows()
    if 'file' in programs.backends:
        yield from file_rows(programs)


def others(programs):
    """Name, place and program of what is reported, or checked, without being compared."""
    if 'redis' in programs.backends:
        for name, query in (('redis', ''), ('redis, release=async', '?lock.release=async')):
            yield (f'pairs: {name}', 'pinned',
                   ['bench-pairs', '--timed', '--uri', redis_uri(programs, 'pinned', query)])
        yield 'pairs: redis floor', 'pinned', redis_floor(programs, 'pinned', '--timed')
    if 'file' in programs.backends:
        yield 'pairs: file', 'pinned', ['bench-pairs', '--timed', '--uri', file_uri(programs)]
    if 'mem' in programs.backends:
        yield 'pairs: mem', 'pinned', ['bench-pairs', '--timed', '--uri', 'mem:']
    if 'redis' in programs.backends:
        for clients in ('1', '4'):
            yield (f'one name: redis, 16 threads, {clients} client{"s"[:clients != "1"]}',
                   'pinned', ['bench-contention', '--workers', '16', '--clients', clients,
                              '--uri', redis_uri(programs, 'pinned')])
    if 'file' in programs.backends:
        for count in ('3', '4', '8'):
            for place, cores in places():
                yield (f'FIFO: file, {count} processes', place,
                       ['bench-handover', '--look-every', '1', '--workers', count, *cores,
                        '--uri', file_uri(programs)])


def is_wrong(run):
    """A lock that fails, or an order that isn't FIFO or could not be seen to be."""
    if any(run.get(key, 0) for key in ('overlaps', 'stale_tokens', 'overtakings')):
        return True
    return run.get('ordered') == 0


def broken(result):
    return [f'{result["name"]}, {result["place"]}: overlaps, repeated tokens or wrong order'
            for run in result['runs']['ours'] if is_wrong(run)]

"""Measurements that are more than a program, run once: what many held locks cost, and who is served
when real Redisson clients wait beside ours."""
import contextlib
import os
import re
import statistics
import time

import peers
import postgres
import redlock
import rows
import zookeeper
from peers import Failed
from programs import cores_of
from server import Server

TTL_MS = 10000
MOST_CPU, MOST_RSS = 3, 5
# Kept locks over held ones.
MOST_KEPT_CPU, MOST_KEPT_RSS = 1.1, 1
# Of 10,000 leases of 10 s on PostgreSQL.
MOST_STATEMENTS = 35
# Every so many hand-overs is open to Redisson's waiters; None: as the library has it.
OPEN_TURN = 'redis.open_turn'
TURNS = (None, 4, 8, 16)
THEIRS, OURS, PROCESSES, BASE = 4, 12, 3, 100
OWNER = re.compile(r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:\d+')


def check(what, value, most):
    return {'what': what, 'value': value, 'most': most, 'ok': value <= most}


# ---- many held locks ----

class Holder:
    """A program that holds locks on a server of its own, and what that takes."""

    def __init__(self, name, program, at):
        self.name, self.program, self.at = name, program, at
        self.marks = []

    def mark(self):
        self.marks.append((time.monotonic(), self.program.cpu_secs(), self.at.calls()))

    def finish(self):
        (start, cpu_before, before), (end, cpu, after) = self.marks
        calls = {name: count - before.get(name, 0) for name, count in after.items()}
        scripts = sum(calls.get(name, 0) for name in ('eval', 'evalsha'))
        measured = {'cpu_percent': 100 * (cpu - cpu_before) / (end - start),
                    'rss_mb': self.program.rss_kib() / 1024,
                    'commands_rate': sum(calls.values()) / (end - start),
                    'scripts_rate': scripts / (end - start)}
        self.program.tell()
        self.run = {**self.program.answer(30), **measured}

    def result(self, *checks):
        return {'name': f'held: {self.name}', 'place': 'pinned', 'run': self.run,
                'checks': list(checks)}


def watch(holders, secs):
    """What they take while they renew, for so long."""
    # Until the first renewals, which bring a kept lock tokens, are over.
    time.sleep(1.2 * TTL_MS / 3000)
    for holder in holders:
        holder.mark()
    rounds = max(1, round(secs / (TTL_MS / 3000)))  # of renewals
    time.sleep(rounds * TTL_MS / 3000)
    for holder in holders:
        holder.mark()
    for holder in holders:
        holder.finish()
    return holders


def hold_together(programs, count, secs, stack, contestants):
    """Has all of them hold their locks at the same time, each against its own server."""
    cores = cores_of('pinned')
    holders = []
    for name, start in contestants:
        at = stack.enter_context(Server(programs.files, cores, f'held-{name}'))
        program = start(at, cores)
        stack.callback(program.end)
        holders.append(Holder(name, program, at))
        program.prepare(*(['held', count] if name in peers.LIBRARIES else []))
    return watch(holders, secs)


def held_by_us(programs, count, secs):
    def ours(at, cores, more=''):
        return peers.Live(programs.command(
            ['bench-held', '--count', count, '--page', at.page.path, '--uri',
             at.uri(f'?lock.ttl_ms={TTL_MS}{more}')]), cores)

    def kept(at, cores):
        return ours(at, cores, f'&lock.keep_ms={rows.KEPT_MS}')

    def floor(at, cores):
        return peers.Live(programs.command(['bench-floor-held', '--count', count, at.port]), cores)

    with contextlib.ExitStack() as stack:
        us, raw, keeper = hold_together(programs, count, secs, stack, (
            ('libdlock', ours), ('raw C', floor), ('libdlock, kept', kept)))

    def over(one, other):
        return (one.run[key] / other.run[key] for key in ('cpu_percent', 'rss_mb'))

    cpu, rss = over(us, raw)
    kept_cpu, kept_rss = over(keeper, us)
    return [us.result(check('CPU / raw C', cpu, MOST_CPU), check('RSS / raw C', rss, MOST_RSS),
                      check('lost', us.run['lost'], 0)),
            raw.result(),
            keeper.result(check('CPU / held', kept_cpu, MOST_KEPT_CPU),
                          check('RSS / held', kept_rss, MOST_KEPT_RSS),
                          check('lost', keeper.run['lost'], 0))]


def held_by(library, programs, count, secs):
    def start(at, _):
        return peers.Player(programs.peers, library, 'pinned', at.port, at.page.path, TTL_MS)

    with contextlib.ExitStack() as stack:
        return [holder.result() for holder in
                hold_together(programs, count, secs, stack, ((library, start),))]


def held_on_postgres(programs, count, secs):
    """How many statements that takes, by pg_stat_statements."""
    cores = cores_of('pinned')
    at = postgres.Postgres(programs.files, cores, 'held-postgres', counts=True)
    with contextlib.ExitStack() as stack:
        stack.callback(at.end)
        program = peers.Live(programs.command(
            ['bench-held', '--count', count, '--page', at.page.path, '--uri',
             at.uri(f'?lock.ttl_ms={TTL_MS}')]), cores)
        stack.callback(program.end)
        program.prepare()
        us, = watch([Holder('postgres', program, at)], secs)
    most = MOST_STATEMENTS * count / 10000
    return [us.result(check('statements/s', us.run['commands_rate'], most),
                      check('lost', us.run['lost'], 0))]


# ---- a program's start ----

STARTS, MOST_START = 200, 4


def start_up(programs):
    """From the start of a process to its end, with and without libdlock; the fastest of many in
    turn, which nobody disturbed."""
    least = {}
    for _ in range(STARTS):
        for who, program in (('ours', 'bench-start'), ('empty', 'bench-floor-start')):
            words = programs.command([program])
            began = time.perf_counter()
            if os.waitpid(os.posix_spawn(words[0], words, os.environ), 0)[1] != 0:
                raise Failed(f'{program} failed')
            took = 1000 * (time.perf_counter() - began)
            least[who] = min(least.get(who, took), took)
    return {'name': 'start', 'place': 'free', 'run': least,
            'checks': [check('an empty process', least['ours'] / least['empty'], MOST_START)]}


# ---- Redisson's waiters beside ours ----

def race(programs, at, secs, hold_ms, turn):
    """Both sides want one lock at the same time; what each of them says afterwards."""
    query = f'?{OPEN_TURN}={turn}' if turn else ''
    theirs = programs.player('Redisson', 'pinned')
    ours = peers.Live(programs.command(
        ['bench-contention', '--cue', '--secs', secs, '--hold-ms', hold_ms, '--page',
         at.page.path, '--workers', OURS, '--processes', PROCESSES, '--base', BASE,
         '--uri', at.uri(query)]), cores_of('pinned'))
    try:
        ours.prepare()
        theirs.prepare('one-name', THEIRS, secs, hold_ms)
        before = at.page.sums()
        ours.tell()
        theirs.tell()
        runs = ours.answer(60 + secs), theirs.answer(60 + secs)
    except peers.PeerFailed:
        programs.clear_away('Redisson', 'pinned')
        raise
    finally:
        ours.end()
    after = at.page.sums()
    return *runs, {'overlaps': after[1] - before[1],
                   'lost_entries': runs[0]['grants'] + runs[1]['grants'] - after[0] + before[0]}


def unheard(commands):
    """How many messages told an owner that it was its turn, and how many of those told didn't wait
    for it: they had been told before, or weren't heard of afterwards."""
    told, silent, again = set(), set(), 0
    for who, words in commands:
        named = OWNER.match(words[-1])
        if words[0].lower() in ('publish', 'spublish') and named:
            again += named[0] in told
            told.add(named[0])
            silent.add(named[0])
        elif who != 'lua':
            silent.difference_update(words)
    return len(told) + again, again + len(silent)


def beside(name, programs, turn):
    at = programs.servers['pinned']
    ours, theirs, page = race(programs, at, 4 * programs.secs, 1, turn)
    return {'name': name, 'place': 'pinned', 'run': {'ours': ours, 'theirs': theirs, **page},
            'checks': []}


def messages(name, programs):
    at = programs.servers['pinned']
    with at.monitor() as monitor:
        ours, theirs, page = race(programs, at, 2 * programs.secs, 5, None)
        told, unheard_of = unheard(monitor.commands())
    return {'name': name, 'place': 'pinned',
            'run': {'ours': ours, 'theirs': theirs, 'told': told, **page},
            'checks': [check('to owners that don\'t wait', unheard_of, 0)]}


# ---- what a pair asks of a ZooKeeper ----

# Requests by their numbers, and what a lock may cost at most: the requests of a pair, round trips.
DELETE = 2
MOST_REQUESTS = 3
TRIPS = (('zookeeper', '', 2), ('zookeeper, release=async', '?lock.release=async', 1))


def wire(name, programs, query, most_trips):
    """Counted between a client and the server, over a link that takes its time."""
    relay = zookeeper.Relay(programs.zookeeper('pinned'))
    try:
        run = programs.run(['bench-pairs', '--uri', f'zookeeper://127.0.0.1:{relay.port}{query}'],
                           'pinned')
    finally:
        relay.close()
    requests, trips = relay.each(DELETE)
    return {'name': name, 'place': 'pinned', 'run': run,
            'checks': [check('requests a pair', requests, MOST_REQUESTS),
                       check('round trips', trips, most_trips)]}


# ---- how long a Redlock takes ----

# An acquire over one node's round trip, at most.
LATENCY_RUNS = 3
LATENCIES = (('redlock of 5', '', 1.5), ('redlock of 5, fencing', '?redlock.fencing=on', 1.5))


def latency(name, programs, query, most):
    """A pair on one node is two round trips; of a Redlock's pair the release is one. What takes its
    time is the way, so nothing needs a core of its own."""
    at = programs.redlock('free')
    lag = redlock.Lag(programs.proxy, at.nodes)
    places = lag.places()
    uris = f'redis://{places[0]}?redis.layout=string', at.uri(query, ','.join(places))
    try:
        runs = [[programs.run(['bench-pairs', '--timed', '--uri', uri], 'free') for uri in uris]
                for _ in range(LATENCY_RUNS)]
    finally:
        lag.close()
    over = statistics.median(2 * many['p50_us'] / one['p50_us'] - 1 for one, many in runs)
    return {'name': f'from 5 ms away: {name}', 'place': 'free', 'run': runs[-1][1],
            'checks': [check('acquire over a round trip', over, most)]}


# ---- how long a signal takes ----

# From the signal of one until another is woken with the lock, over two hand-overs of it, at most.
SIGNAL_RUNS, MOST_SIGNAL = 5, 1.5


def signalled(name, programs, place, cores, command):
    """Two that signal each other, beside two that hand the lock to each other; the runs in turn."""
    signals, hand_overs = [], []
    for _ in range(SIGNAL_RUNS):
        for program, runs in (('signal', signals), ('handover', hand_overs)):
            runs.append(programs.run([*command(program), '--workers', 2, *cores], place))
    over, by_cpu = (
        statistics.median(figure(one, two) for one, two in zip(signals, hand_overs))
        for figure in (lambda one, two: two['rate'] / max(1e-9, 2 * one['rate']),
                       lambda one, two: one['cpu_us'] / max(1e-9, 2 * two['cpu_us'])))
    return {'name': name, 'place': place,
            'run': {'signals_rate': statistics.median(run['rate'] for run in signals),
                    'hand_overs_rate': statistics.median(run['rate'] for run in hand_overs),
                    'by_cpu': by_cpu,
                    'overlaps': sum(run['overlaps'] for run in signals + hand_overs)},
            'checks': [check('over two hand-overs', over, MOST_SIGNAL)]}


def conditions(programs):
    """The backends that have conditions, where they are measured, and the command of a program
    there; each worker is a thread with a client of its own."""
    for scheme, uri in (('mem', 'mem:'), ('file', rows.file_uri(programs))):
        for place, cores in rows.places():
            yield (scheme, place, cores,
                   lambda program, uri=uri: [f'bench-{program}', '--uri', uri])
    for place in ('pinned', 'free'):
        yield ('redis', place, [],
               lambda program, place=place: rows.ours(programs, place, f'bench-{program}'))
        yield 'zookeeper', place, [], rows.on_zookeeper
        yield 'etcd', place, [], rows.on_etcd


# ---- a kept lock is asked for ----

# The wait for one that its client keeps idle, over the wait for one that is released just then.
ASKED_RUNS, MOST_ASKED = 5, 1.5


def asked(name, programs, place, command):
    """The runs in turn; what counts are their medians' ratios."""
    waits = {'kept': [], 'held': []}
    for _ in range(ASKED_RUNS):
        for what, found in waits.items():
            found.append(programs.run([*command, what], place)['p50_us'])
    over = statistics.median(kept / held for kept, held in zip(*waits.values()))
    return {'name': name, 'place': place,
            'run': {what: statistics.median(found) for what, found in waits.items()},
            'checks': [check('over one released just then', over, MOST_ASKED)]}


def askers(programs, place):
    """Each service that has kept locks, and the program on it."""
    if 'redis' in programs.backends:
        yield 'redis', rows.ours(programs, place, 'bench-asked')
    if 'zookeeper' in programs.backends:
        yield 'zookeeper', rows.on_zookeeper('asked')
    if 'etcd' in programs.backends:
        yield 'etcd', rows.on_etcd('asked')


# ---- what Python costs ----

def overhead(name, programs, words, library):
    """How much longer a pair takes from Python than from C; the better of several runs of each."""
    best = {}
    for _ in range(3):
        for who, what in (('C', words), ('Python', [library, 'pairs', 1])):
            run = programs.run(what, 'pinned')
            best[who] = max(best.get(who, 0), run['rate'])
    return {'name': name, 'place': 'pinned', 'run': best,
            'checks': [{'what': 'over C, us a pair', 'most': None, 'ok': True,
                        'value': 1e6 / best['Python'] - 1e6 / best['C']}]}


def overheads(programs):
    yield 'mem', ['bench-pairs', '--uri', 'mem:'], 'dlock mem'
    yield 'file', ['bench-pairs', '--uri', f'file://{programs.files}/overhead'], 'dlock file'
    if 'redis' in programs.backends:
        at = programs.servers['pinned']
        yield 'string', ['bench-pairs', '--page', at.page.path, '--uri',
                         at.uri('?redis.layout=string')], 'dlock'


def all_of(programs, count, secs):
    """Name, the library that may stay alive for it, whether it may fail without us being to blame,
    and what measures it."""
    yield 'start', None, False, lambda: [start_up(programs)]
    for scheme, words, library in overheads(programs):
        name = f'from Python: {scheme}'
        yield (name, library, True,
               lambda name=name, words=words, library=library:
               [overhead(name, programs, words, library)])
    for scheme, place, cores, command in conditions(programs):
        if scheme in programs.backends:
            name = f'signal: {scheme}'
            yield (name, None, False,
                   lambda name=name, place=place, cores=cores, command=command:
                   [signalled(name, programs, place, cores, command)])
    for place in ('pinned', 'free'):
        for service, command in askers(programs, place):
            name = f'asked for: {service}'
            yield (name, None, False,
                   lambda name=name, place=place, command=command:
                   [asked(name, programs, place, command)])
    if 'redlock' in programs.backends:
        for about, query, most in LATENCIES:
            yield (about, None, True,
                   lambda about=about, query=query, most=most:
                   [latency(about, programs, query, most)])
    if 'zookeeper' in programs.backends:
        for about, query, most in TRIPS:
            name = f'wire: {about}'
            yield (name, None, False, lambda name=name, query=query, most=most:
                   [wire(name, programs, query, most)])
    if 'postgres' in programs.backends:
        yield 'held: postgres', None, False, lambda: held_on_postgres(programs, count, secs)
    if 'redis' not in programs.backends:
        return
    yield 'held: libdlock', None, False, lambda: held_by_us(programs, count, secs)
    for library in ('Redisson', 'rueidislock'):
        yield (f'held: {library}', None, True,
               lambda library=library: held_by(library, programs, count, secs))
    for turn in TURNS:
        name = 'beside Redisson: ' + (f'every {turn}th turn open' if turn else 'as it is')
        yield (name, 'Redisson', True,
               lambda name=name, turn=turn: [beside(name, programs, turn)])
    name = 'beside Redisson: messages'
    yield name, 'Redisson', False, lambda: [messages(name, programs)]

"""The faults, and which of them happens when: all drawn from the seed before the run begins.

A fault has a kind, the backend it hurts ('-': all of them), what it may do to the locks there
(none: it hurts one process only; delay; lose: the service may forget some; wipe: it forgets all),
how long it lasts, and what begins and ends it.
"""
import random
import signal

from world import Spinner

EVERY = 2.0  # s between two faults


class Fault:
    def __init__(self, kind, backend, harm, lasts, begin, end=None, detail=''):
        self.kind, self.backend, self.harm, self.lasts = kind, backend, harm, lasts
        self.begin, self.end, self.detail = begin, end, detail
        self.at = 0.0

    def __str__(self):
        until = f' for {self.lasts:.2f} s' if self.lasts else ''
        return f'{self.at:7.1f} s  {self.backend:5}  {self.kind:14} {self.detail}{until}'


# ---- One process ----

def _place(run, backend, index):
    return run.places[backend][index]


def kill(dice, backend, places):
    at = dice.randrange(places)
    return Fault('kill', backend, 'none', 0,
                 lambda run: _place(run, backend, at).worker.kill(), detail=f'place {at}')


def die_inside(dice, backend, places):
    """At one of the points in the table of mem: and file:, in its mutex most often."""
    at = dice.randrange(places)
    return Fault('die inside', backend, 'none', 0,
                 lambda run: _place(run, backend, at).worker.signal(signal.SIGUSR1),
                 detail=f'place {at}')


def stop(dice, backend, places, ttl):
    at, lasts = dice.randrange(places), dice.choice([0.1, 0.5, 0.9, 1.1, 2.0]) * ttl
    stopped = []

    def begin(run):
        stopped.append(_place(run, backend, at).worker)
        stopped[0].stop()
    return Fault('stop', backend, 'none', lasts, begin, lambda run: stopped[0].go_on(),
                 f'place {at}')


def skew(dice, backend, places):
    """The boot clock drifts within the contract, where that isn't the service's own; the wall
    clock jumps anywhere, for one process or, as a machine's does, for all."""
    at = dice.choice([dice.randrange(places), None])
    ppm = dice.randint(-8000, 8000) if backend == 'redis' else 0
    wall = dice.choice([-86400, -3600, -30, 0, 30, 3600, 86400 * 365]) * 1_000_000_000

    def begin(run):
        for place in run.places[backend] if at is None else [_place(run, backend, at)]:
            place.skew.set(ppm, wall)
    where = 'everybody' if at is None else f'place {at}'
    return Fault('clock', backend, 'none', 0, begin,
                 detail=f'{where}: {ppm} ppm, wall clock {wall // 10**9:+} s')


def starve(dice, cores):
    count, lasts, spinners = dice.choice([2, 4]) * cores, dice.uniform(0.5, 3), []

    def begin(_run):
        spinners.extend(Spinner() for _ in range(count))

    def end(_run):
        for spinner in spinners:
            spinner.end()
    return Fault('starve', '-', 'delay', lasts, begin, end, f'{count} spinners')


# ---- The network, by the proxy ----

LASTING = ['hole up', 'hole down', 'hole both', 'stall', 'late', 'latency 40 20', 'slice 7 200',
           'bandwidth 4000', 'refuse', 'ignore']
MOMENTS = ['reset', 'half-open', 'half-close up', 'half-close down', 'half-close both']
PLANS = ['cut-before', 'cut-after', 'cut-reply', 'drop-reply', 'tear-request', 'tear-reply',
         'delay-request 700', 'delay-reply 700']


def _network_line(dice):
    how = dice.random()
    if how < 0.4:
        return dice.choice(LASTING)
    if how < 0.6:
        return dice.choice(MOMENTS)
    return f'{dice.choice(PLANS)} {dice.randint(1, 40)}+ EVALSHA'


def network(dice, _ttl):
    """What the proxy can do; two at once reach states that neither reaches alone."""
    where, lasts = dice.choice(['', '@a ', '@b ']), dice.uniform(0.2, 1.9)
    lines = [where + _network_line(dice) for _ in range(dice.choice([1, 1, 2]))]

    def begin(run):
        for line in lines:
            run.tell_proxy(line)

    def heal(run):
        run.tell_proxy(where + 'pass')
        run.tell_proxy(where + 'forget')
    kind = lines[0].removeprefix(where).split()[0]
    return Fault(kind, 'redis', 'delay', lasts, begin, heal, ', '.join(lines))


# ---- The server ----

def restart(dice, _ttl):
    lasts = dice.choice([0, 0.5, 1.5])
    return Fault('restart', 'redis', 'delay', lasts, lambda run: run.redis.kill(),
                 lambda run: run.redis.start())


def forget(dice, _ttl):
    def begin(run):
        run.redis.kill()
        run.redis.forget()
    return Fault('forget', 'redis', 'wipe', dice.choice([0, 0.5]), begin,
                 lambda run: run.redis.start(), 'killed, started without its file')


def wipe(_dice, _ttl):
    return Fault('wipe', 'redis', 'wipe', 0, lambda run: run.redis.call('FLUSHALL'))


def remove(dice, _ttl):
    name = f'n{dice.randrange(4)}'
    return Fault('remove', 'redis', 'lose', 0, lambda run: run.redis.call('DEL', name),
                 detail=name)


def evict(_dice, _ttl):
    def begin(run):
        run.redis.call('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-random', 'maxmemory', 1)
        run.redis.call('SET', 'filler', 'x')

    def end(run):
        run.redis.call('CONFIG', 'SET', 'maxmemory-policy', 'noeviction', 'maxmemory', 0)
    return Fault('evict', 'redis', 'lose', 0.3, begin, end)


def flush_scripts(_dice, _ttl):
    return Fault('flush scripts', 'redis', 'none', 0,
                 lambda run: run.redis.call('SCRIPT', 'FLUSH'))


def revoke(dice, _ttl):
    rights = dice.choice(['-@all', '-evalsha -eval', '-hset', '-hdel', '-pexpire', '-publish',
                          '-subscribe', 'resetchannels'])
    return Fault('revoke', 'redis', 'delay', dice.uniform(0.3, 1.5),
                 lambda run: run.redis.call('ACL', 'SETUSER', 'default', *rights.split()),
                 lambda run: run.redis.call('ACL', 'SETUSER', 'default', '+@all', 'allchannels'),
                 rights)


def hang_up(dice, _ttl):
    what = dice.choice(['normal', 'pubsub'])
    return Fault('client kill', 'redis', 'delay', 0,
                 lambda run: run.redis.call('CLIENT', 'KILL', 'TYPE', what), detail=what)


def pause(dice, _ttl):
    lasts = dice.uniform(0.2, 1.9)
    return Fault('client pause', 'redis', 'delay', lasts,
                 lambda run: run.redis.call('CLIENT', 'PAUSE', int(lasts * 1000)),
                 lambda run: run.redis.call('CLIENT', 'UNPAUSE'))


def freeze(dice, ttl):
    return Fault('freeze', 'redis', 'delay', dice.choice([0.1, 0.3, 0.6, 1.2]) * ttl,
                 lambda run: run.redis.signal(signal.SIGSTOP),
                 lambda run: run.redis.signal(signal.SIGCONT))


ON_REDIS = [network] * 8 + [restart, forget, wipe, remove, evict, flush_scripts, revoke, hang_up,
                            pause, freeze]


# ---- The schedule ----

def _draw(dice, backend, places, ttl, cores):
    """On each backend half of the faults hit a process, on redis the other half the service."""
    if dice.random() < 0.06:
        return starve(dice, cores)
    if backend == 'redis' and dice.random() < 0.65:
        return dice.choice(ON_REDIS)(dice, ttl)
    how = dice.random()
    if how < 0.35:
        return kill(dice, backend, places)
    if how < 0.6 and backend != 'redis':
        return die_inside(dice, backend, places)
    if how < 0.85:
        return stop(dice, backend, places, ttl)
    return skew(dice, backend, places)


def planted(seconds):
    """What the checkers must find: a service that forgets everything, and nobody is told."""
    faults = [Fault('secret wipe', 'redis', 'none', 0, lambda run: run.redis.call('FLUSHALL'))
              for _ in range(int(seconds / EVERY) - 1)]
    for number, fault in enumerate(faults, 1):
        fault.at = number * EVERY
    return faults


def schedule(seed, seconds, backends, cores):
    """[Fault] in the order of time. `backends`: {name: (places, ttl in s)}; redis is hurt as
    often as the others together, for most faults are its own."""
    dice = random.Random(seed)
    names = sorted(backends)
    weights = [3 if name == 'redis' else 2 if name == 'file' else 1 for name in names]
    busy = dict.fromkeys([*names, '-'], 0.0)
    faults, at = [], EVERY
    while at < seconds - EVERY:
        backend = dice.choices(names, weights)[0]
        for _ in range(50):
            fault = _draw(dice, backend, *backends[backend], cores)
            # Two faults of one service would heal each other; of processes there are many.
            if fault.harm == 'none' and fault.kind != 'flush scripts':
                break
            if busy[fault.backend] <= at and busy['-'] <= at:
                busy[fault.backend] = at + fault.lasts
                break
        else:
            at += EVERY
            continue
        fault.at = at
        faults.append(fault)
        at += EVERY
    return faults

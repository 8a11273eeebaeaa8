#!/usr/bin/env python3
"""Hurts 32 clients on real lock services, one fault every two seconds, and judges what they did.

A run is made of rounds: each has processes and a history of its own, is followed while it
happens, and ends with a look for locks that nobody holds any more. The seed decides which fault
happens when; the table at the end says what came of it. At the first violation the run ends, and
seed, history, fault schedule and the proxy's log are kept.
"""
import argparse
import collections
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # the source tree stays as it is

import faults  # noqa: E402
import report  # noqa: E402
from world import Broken, Checker, Helper, Log, Redis, Resource, Skew, Worker, now  # noqa: E402

TICK = 0.02          # s between two looks at the processes
CHECK_EVERY = 1.0    # s between two looks at the history
ROUND = 120          # s
CLIENTS = 32
FIRST_MEMORY_LOCK = 64


class Backend:
    """A lock service as the workers use it."""

    def __init__(self, name, ttl_ms, poll_ms, promises, locks=6, base=0, claim_ms=0):
        self.name, self.ttl_ms, self.poll_ms, self.promises = name, ttl_ms, poll_ms, promises
        self.locks, self.base, self.claim_ms = locks, base, claim_ms

    def first_lock(self, _number):
        return self.base

    @property
    def settings(self):
        claim = f'&redis.claim_ms={self.claim_ms}' if self.claim_ms else ''
        return (f'lock.ttl_ms={self.ttl_ms}&client.poll_ms={self.poll_ms}&client.timeout_ms=800'
                f'&client.connect_ms=1500&client.backoff_max_ms=400&client.close_ms=4000{claim}')


class Memory(Backend):
    """Each process has locks of its own, which end with it."""

    def first_lock(self, number):
        return FIRST_MEMORY_LOCK + number * self.locks % (4096 - FIRST_MEMORY_LOCK)


BACKENDS = {
    'file': Backend('file', 2000, 500, 'fifo=1 deaths=1', base=0),
    'redis': Backend('redis', 3000, 500, 'fifo=0 deaths=0', base=16, claim_ms=500),
    'mem': Memory('mem', 1000, 500, 'fifo=1 deaths=1', locks=4),
}


class Place:
    """Where one worker plays; when it has died, another one."""

    def __init__(self, backend, uri, clients, threads, skew):
        self.backend, self.uri, self.clients, self.threads = backend, uri, clients, threads
        self.skew, self.worker = skew, None


def share(backends):
    """{name: [(clients, threads)]}: 32 clients in all, two a process; those of mem: in one."""
    others = [name for name in backends if name != 'mem']
    rest = CLIENTS - (8 if 'mem' in backends else 0) if others else 0
    plan = {name: [(2, 3 if i % 3 == 2 else 1) for i in range(rest // len(others) // 2)]
            for name in others}
    if 'mem' in backends:
        plan['mem'] = [(CLIENTS - rest, 1)]
    return plan


# Who judges afterwards what was left behind isn't what is tested, and a machine may stand still.
PATIENTLY = 'client.timeout_ms=30000'


class Violation(Exception):
    """Something that must not happen has happened."""


class Round:
    def __init__(self, programs, backends, seed, seconds, slack_ms, directory):
        self.programs, self.seed, self.seconds, self.directory = programs, seed, seconds, directory
        self.dice = random.Random(seed ^ 0x5eed)
        self.backends = [BACKENDS[name] for name in backends]
        self.workers, self.started, self.deaths = [], 0, collections.Counter()
        self.complaints = []
        os.makedirs(directory)
        self.log = Log(directory)
        self.redis = self.proxy = None
        self.helpers = []
        try:
            self.prepare(backends, slack_ms)
        except BaseException:
            self.clean_up()
            raise

    def keep(self, helper):
        self.helpers.append(helper)
        return helper

    def prepare(self, backends, slack_ms):
        ports = []
        if 'redis' in backends:
            self.redis = Redis(os.path.join(self.directory, 'redis'))
            self.proxy = self.keep(Helper(self.programs.proxy, '--log',
                                          os.path.join(self.directory, 'proxy.log'), '--seed',
                                          self.seed % 2**32))
            ports = [self.tell_proxy(f'listen 0 {self.redis.port} {name}').split()[2]
                     for name in 'ab']
        uris = {'file': [f'file://{self.directory}/locks?'], 'mem': ['mem:?'],
                'redis': [f'redis://127.0.0.1:{port}/?' for port in ports]}
        self.resource = self.keep(Resource(self.programs.resource, self.directory))
        self.leftovers = {}
        plans = share(backends)
        for backend in self.backends:
            self.log('backend', backend.name, f'ttl_ms={backend.ttl_ms}',
                     f'poll_ms={backend.poll_ms}', f'claim_ms={backend.claim_ms}',
                     f'clients={max(clients for clients, _ in plans[backend.name])}',
                     backend.promises)
            if backend.name != 'mem':
                uri = uris[backend.name][0].replace(ports[0] if ports else '-',
                                                    str(self.redis.port) if ports else '-')
                self.leftovers[backend.name] = self.keep(
                    Helper(self.programs.leftovers, uri + PATIENTLY, first='ready'))
        self.checker = self.keep(Checker(self.programs.checker, self.directory, slack_ms))
        self.places = {}
        for name, plan in plans.items():
            backend = BACKENDS[name]
            self.places[name] = [
                Place(backend, uris[name][i % len(uris[name])] + backend.settings, clients,
                      threads, Skew(os.path.join(self.directory, f'skew-{name}-{i}')))
                for i, (clients, threads) in enumerate(plan)]

    # ---- What faults use ----

    def tell_proxy(self, line):
        answer = self.proxy.ask(line)
        if not answer.startswith('ok'):
            raise Broken(f'the proxy: {line}: {answer}')
        return answer

    # ---- Workers ----

    def start_worker(self, place):
        self.started += 1
        place.worker = Worker(place, self.started, self, self.dice.getrandbits(40))

    def look_at(self, place, replace=True):
        """Notes the end of a worker, and starts the next one in its place."""
        worker = place.worker
        status = worker.process.poll()
        if status is None:
            return False
        self.log('ended' if status == 0 else 'dead', worker.number, f'status {status}')
        complaints = worker.complaints()
        if complaints:
            self.log('note', f'worker {worker.number} said: {complaints[:500]}')
            self.complaints.append(complaints.splitlines()[0])
        if status not in (0, -signal.SIGKILL):
            raise Violation(f'worker {worker.number} ended with status {status}: {complaints}')
        self.deaths[place.backend.name] += status != 0
        if replace:
            self.start_worker(place)
        return True

    def all_places(self):
        return [place for places in self.places.values() for place in places]

    # ---- The run ----

    def begin(self, fault, number):
        self.log('fault', number, fault.backend, fault.kind.replace(' ', '-'), fault.harm,
                 fault.detail)
        fault.begin(self)
        if not fault.lasts:
            self.end(fault, number)

    def end(self, fault, number):
        if fault.end:
            fault.end(self)
        self.log('healed', number)

    def check(self):
        answer = self.checker.ask('check')
        if answer.startswith('violation'):
            raise Violation(answer)

    def play(self, schedule):
        for place in self.all_places():
            self.start_worker(place)
        began = time.monotonic()
        waiting, lasting = list(enumerate(schedule)), []
        next_check = CHECK_EVERY
        try:
            while (at := time.monotonic() - began) < self.seconds:
                for item in [x for x in lasting if x[1].at + x[1].lasts <= at]:
                    lasting.remove(item)
                    self.end(item[1], item[0])
                while waiting and waiting[0][1].at <= at:
                    number, fault = waiting.pop(0)
                    self.begin(fault, number)
                    if fault.lasts:
                        lasting.append((number, fault))
                for place in self.all_places():
                    self.look_at(place)
                if at >= next_check:
                    self.check()
                    next_check = at + CHECK_EVERY
                time.sleep(TICK)
        finally:
            for number, fault in lasting:
                self.end(fault, number)
        if self.proxy:
            self.tell_proxy('pass')
            self.tell_proxy('forget')

    def finish(self):
        """Lets everybody end in good order, and looks what they have left."""
        for place in self.all_places():
            place.worker.signal(signal.SIGTERM)
        end, left = time.monotonic() + 60, self.all_places()
        while left and time.monotonic() < end:
            left = [place for place in left if not self.look_at(place, replace=False)]
            time.sleep(TICK)
        if left:
            raise Violation(f'{len(left)} workers don\'t end: '
                            f'{[place.worker.process.pid for place in left]}')
        time.sleep(max(b.ttl_ms for b in self.backends) / 1000 + 1)
        orphans = {name: self.count_leftovers(name) for name in self.leftovers}
        sums = self.checker.finish()
        if sums['violations']:
            raise Violation(sums['first'])
        return sums, orphans, self.judge_resource()

    def count_leftovers(self, name):
        answer = self.leftovers[name].ask('')
        if answer.startswith('error'):
            raise Violation(f'{name}: {answer}')
        if name == 'redis':
            keys = [f'n{i}' for i in range(BACKENDS[name].locks)]
            if self.redis.call('EXISTS', *keys) != 0:
                answer += ' and its key'
        if '"name"' in answer or 'key' in answer:
            raise Violation(f'{name}: an orphan, ttl + 1 s after the last client: {answer}')
        return 0

    def judge_resource(self):
        lost = same = accepted = refused = 0
        for row in self.resource.sums():
            accepted, refused = accepted + row[1], refused + row[2]
            lost, same = lost + row[3], same + row[4]
        if lost or same:
            raise Violation(f'the resource: {lost} lost updates, {same} tokens given twice')
        return {'accepted': accepted, 'refused': refused}

    def clean_up(self):
        """Ends everything, in whatever state it is."""
        for place in self.all_places() if hasattr(self, 'places') else []:
            if place.worker and place.worker.process.poll() is None:
                place.worker.process.kill()
                place.worker.process.wait()
                self.log('dead', place.worker.number, 'at the end of the run')
        if self.redis:
            self.redis.stop()
        for helper in self.helpers:
            if helper.process.poll() is None:
                helper.process.kill()
            helper.process.wait()
            helper.process.stdin.close()
            helper.process.stdout.close()
        self.log.close()


class Programs:
    """Where Meson has put what we start."""

    def __init__(self, build):
        def at(path):
            return os.path.join(os.path.abspath(build), 'tests', path)
        self.worker, self.skew = at('nemesis/nemesis-worker'), at('nemesis/nemesis-skew.so')
        self.leftovers = at('nemesis/nemesis-leftovers')
        self.resource, self.checker = at('histories/oracle-server'), at('histories/history-check')
        self.proxy, self.linearizable = at('proxy/dlock-proxy'), at('histories/linearizable')


class Nemesis:
    def __init__(self, args, say=print):
        self.args, self.say = args, say
        self.programs = Programs(args.build)
        self.table = report.Table(args.backends)
        self.cores = len(os.sched_getaffinity(0))
        self.directory = args.keep or tempfile.mkdtemp(prefix='dlock-nemesis-')
        self.kept = bool(args.keep)

    def schedule(self, number, seconds):
        if self.args.plant:
            return faults.planted(seconds)
        places = {name: (len(plan), BACKENDS[name].ttl_ms / 1000)
                  for name, plan in share(self.args.backends).items()}
        return faults.schedule(self.seed_of(number), seconds, places, self.cores)

    def seed_of(self, number):
        return self.args.seed * 1_000_003 + number

    def lengths(self):
        """s of each round; at least one, the last one as long as it takes."""
        count = max(1, round(self.args.seconds / self.args.round))
        return [self.args.seconds / count] * count

    def run_round(self, number, seconds):
        directory = os.path.join(self.directory, f'round-{number}')
        schedule = self.schedule(number, seconds)
        with_faults = collections.Counter((f.backend, f.kind) for f in schedule)
        one = Round(self.programs, self.args.backends, self.seed_of(number), seconds,
                    self.args.slack_ms, directory)
        try:
            one.play(schedule)
            sums, orphans, resource = one.finish()
            self.table.judged(self.linearize(directory))
        except (Violation, Broken, OSError) as why:
            with open(os.path.join(directory, 'schedule.txt'), 'w', encoding='utf-8') as file:
                file.writelines(f'{fault}\n' for fault in schedule)
            self.kept = True
            raise Violation(f'round {number}, {now() / 1e9:.3f}: {why}') from why
        finally:
            one.clean_up()
        self.table.add(sums, with_faults, orphans, resource, one.deaths, one.complaints, seconds)
        return directory

    def linearize(self, directory):
        """{backend: {verdict: pieces}}: what Porcupine says."""
        done = subprocess.run([self.programs.linearizable, directory], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise Violation(f'not linearizable: {done.stdout}{done.stderr}')
        return {name: {'ok': counts['ok']} for name, counts in json.loads(done.stdout).items()}

    def run(self):
        """True: nothing was violated."""
        self.say(f'seed {self.args.seed}, {self.args.seconds:.0f} s, '
                 f'{" ".join(self.args.backends)}')
        try:
            for number, seconds in enumerate(self.lengths(), self.args.first_round):
                directory = self.run_round(number, seconds)
                self.say(self.table.line(number))
                if not self.args.keep:
                    shutil.rmtree(directory)
        except Violation as why:
            self.say(f'VIOLATION {why}')
            self.say(f'seed {self.args.seed}: histories, log, schedule and the proxy\'s log are '
                     f'kept in {self.directory}')
            return False
        finally:
            if not self.kept:
                shutil.rmtree(self.directory, ignore_errors=True)
            self.say(self.table.text())
        return True


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--hours', type=float, default=0)
    parser.add_argument('--minutes', type=float, default=0)
    parser.add_argument('--seconds', type=float, default=0)
    parser.add_argument('--seed', type=int, default=None)
    parser.add_argument('--backends', default='file,redis,mem')
    parser.add_argument('--build', default='build', help='the build folder')
    parser.add_argument('--round', type=float, default=ROUND, help='s')
    parser.add_argument('--first-round', type=int, default=0,
                        help='begin with this one: to come back to a failure')
    parser.add_argument('--slack-ms', type=int, default=1000, help='how late a machine may be')
    parser.add_argument('--keep', help='a new folder to keep all histories in')
    parser.add_argument('--plant', action='store_true',
                        help='only wipes that the checkers are not told of: must be found')
    parser.add_argument('--schedule', action='store_true', help='only say what would happen')
    args = parser.parse_args(argv)
    args.seconds += args.hours * 3600 + args.minutes * 60
    args.seconds = args.seconds or 60
    args.backends = args.backends.split(',')
    if args.seed is None:
        args.seed = random.SystemRandom().getrandbits(31)
    if not set(args.backends) <= set(BACKENDS):
        parser.error(f'backends are {", ".join(BACKENDS)}')
    return args


def main():
    args = parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # and clean up
    nemesis = Nemesis(args, lambda text: print(text, flush=True))
    if args.schedule:
        for number, seconds in enumerate(nemesis.lengths(), args.first_round):
            print(f'round {number}')
            print('\n'.join(map(str, nemesis.schedule(number, seconds))))
        shutil.rmtree(nemesis.directory)
        return 0
    return 0 if nemesis.run() else 1


if __name__ == '__main__':
    sys.exit(main())

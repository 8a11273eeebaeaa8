"""Runs the benchmark programs and the libraries of others, and adds what the server had to do."""
import json
import os
import pathlib
import re
import subprocess

import cluster
import etcd
import machine
import memcached
import peers
import postgres
import redlock
import server
import zookeeper
from peers import Failed, PeerFailed

# In place of a program: the commands libdlock sends, without libdlock.
RAW = 'raw commands'
RAW_BY_TLS = 'raw commands by TLS'
# Before a program, and what it is to open, in which @ stands for the host and the port.
ON_ZOOKEEPER = 'on ZooKeeper'
# Before a program, and the query of its URI; None: it is told the port.
ON_MEMCACHED = 'on memcached'
ON_ETCD = 'on etcd'
# Before a program of ours, and the query of its URI, or before the floor, and None.
ON_POSTGRES = 'on PostgreSQL'
# Before a program, and the query of its URI.
ON_REDLOCK = 'on a Redlock of five'
ON_CLUSTER = 'on a Cluster'
ON_TLS = 'with TLS'
UUID_OWNER = re.compile(r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:\d+')


def cores_of(place):
    """"pinned" is the first core, where the pinned server is as well."""
    return machine.CORES[:1] if place == 'pinned' else machine.CORES


class Programs:
    def __init__(self, build, folder, secs, rounds, warm_secs):
        self.folder = build.resolve() / 'bench'
        self.proxy = build.resolve() / 'tests/proxy/dlock-proxy'
        self.files = pathlib.Path(folder)
        self.secs = secs
        self.rounds = rounds
        self.warm_secs = warm_secs
        self.servers = {}  # by place: of Redis
        self.zookeepers = {}  # likewise, as soon as one is needed
        self.memcacheds = {}
        self.etcds = {}
        self.postgreses = {}
        self.redlocks = {}
        self.clusters = {}
        self.encrypted = {}
        self.peers = peers.Peers(self.folder / 'peers')
        self.players = {}  # by library and place: those that run
        self.restarts = []  # of players that failed
        self.versions = {}  # of the servers that were started
        self.caught = {}
        self.backends = self.output(['bench-pairs', '--backends'], machine.CORES).split()

    def command(self, words):
        return [str(self.folder / words[0]), *map(str, words[1:])]

    def output(self, words, cores):
        """The program's standard output; it and its children stay on these cores."""
        done = subprocess.run(self.command(words), capture_output=True, text=True,
                              timeout=60 + 10 * self.secs, check=False,
                              preexec_fn=lambda: os.sched_setaffinity(0, cores))
        if done.returncode != 0:
            raise Failed(done.stderr.strip() or f'{words[0]}: exit code {done.returncode}')
        return done.stdout

    def run_ours(self, words, place):
        try:
            return json.loads(self.output([words[0], '--secs', self.secs, *words[1:]],
                                          cores_of(place)))
        except subprocess.TimeoutExpired as late:
            raise Failed(f'{words[0]}: not done after {late.timeout:.0f} s') from late

    def run_peer(self, words, place):
        library, what, threads, *more = words
        return self.player(library, place).play(what, threads, self.secs, *more)

    def zookeeper(self, place):
        """The one of this place, warm."""
        if place not in self.zookeepers:
            at = zookeeper.Zookeeper(self.files, cores_of(place), f'zookeeper-{place}').start()
            self.zookeepers[place], self.versions['ZooKeeper'] = at, at.version
            self.warm(at, place)
        return self.zookeepers[place]

    def memcached(self, place):
        if place not in self.memcacheds:
            at = memcached.Memcached(self.files, cores_of(place), f'memcached-{place}').start()
            self.memcacheds[place], self.versions['memcached'] = at, at.version
        return self.memcacheds[place]

    def redlock(self, place):
        if place not in self.redlocks:
            self.redlocks[place] = redlock.Five(self.files, cores_of(place), f'redlock-{place}')
        return self.redlocks[place]

    def cluster(self, place):
        if place not in self.clusters:
            self.clusters[place] = cluster.Cluster(self.files, cores_of(place), f'cluster-{place}')
        return self.clusters[place]

    def with_tls(self, place):
        if place not in self.encrypted:
            at = cluster.Encrypted(self.files, cores_of(place), f'tls-{place}')
            self.encrypted[place] = at.__enter__()
        return self.encrypted[place]

    def etcd(self, place):
        if place not in self.etcds:
            at = etcd.Etcd(self.files, cores_of(place), f'etcd-{place}').start()
            self.etcds[place], self.versions['etcd'] = at, at.version
        return self.etcds[place]

    def postgres(self, place):
        if place not in self.postgreses:
            at = postgres.Postgres(self.files, cores_of(place), f'postgres-{place}')
            self.postgreses[place], self.versions['PostgreSQL'] = at, at.version
        return self.postgreses[place]

    def warm(self, at, place):
        self.output(['bench-floor-zookeeper', '--page', at.page.path, '--workers', '4', '--secs',
                     self.warm_secs['ZooKeeper'], '--uri', at.hosts(), 'tuned'], cores_of(place))

    def server_of(self, words, place):
        """The one that these words are for; None: they need none."""
        if words[0] in peers.ZOOKEEPERS or words[0] == ON_ZOOKEEPER:
            return self.zookeeper(place)
        if words[0] == ON_MEMCACHED:
            return self.memcached(place)
        if words[0] in peers.ETCDS or words[0] == ON_ETCD:
            return self.etcd(place)
        if words[0] == ON_POSTGRES:
            return self.postgres(place)
        if words[0] in peers.REDLOCKS or words[0] == ON_REDLOCK:
            return self.redlock(place)
        if words[0] == ON_CLUSTER:
            return self.cluster(place)
        if words[0] in (ON_TLS, RAW_BY_TLS):
            return self.with_tls(place)
        return self.servers.get(place)

    def player(self, library, place):
        if (library, place) not in self.players:
            at = self.server_of([library], place)
            player = peers.Player(self.peers, library, place, at.port, at.page.path)
            self.players[library, place] = player
            player.warm_up(self.warm_secs.get(library, 0.2))
        return self.players[library, place]

    def dismiss(self, *kept):
        """Ends the libraries that aren't among these: an idle one isn't quite idle."""
        for key in [key for key in self.players if key not in kept]:
            self.players.pop(key).end()

    def run(self, words, place):
        """One run of one of our programs, of the raw commands, or of a library. A library that
        dies or falls silent is started anew, once: not every one is free of that."""
        library = words[0] if words[0] in peers.LIBRARIES else None
        try:
            return self.run_once(words, place, library)
        except PeerFailed as why:
            self.restarts.append(f'{library}, {place}: {why}')
            self.clear_away(library, place)
        try:
            return self.run_once(words, place, library)
        except PeerFailed as why:
            self.clear_away(library, place)
            raise PeerFailed(f'{library}: {why}') from why

    def clear_away(self, library, place):
        """The remains of a library that died."""
        self.players.pop((library, place)).end()
        at = self.server_of([library], place)
        at.clear()
        if at == self.zookeepers.get(place):
            self.warm(at, place)

    def run_once(self, words, place, library):
        """Adds to cpu_us, the processor's time that one operation took, the server's share of it;
        what the server was asked; and what the page says of exclusion."""
        at = self.server_of(words, place)
        if words[0] == RAW:
            words = self.raw(place, at, at.port, *words[1:])
        elif words[0] == RAW_BY_TLS:
            self.output(['bench-pairs', '--secs', '0.05', '--uri', at.uri('')], cores_of(place))
            words = self.raw(place, at, f'tls:{at.tls_port}', *words[1:])
        elif words[0] == ON_ZOOKEEPER:
            words = self.on_zookeeper(at, *words[1:])
        elif words[0] == ON_ETCD:
            words = self.on_zookeeper(at, *words[1:])
        elif words[0] == ON_MEMCACHED:
            words = self.on_memcached(at, *words[1:])
        elif words[0] == ON_POSTGRES and words[2] is None:
            words = [words[1], '--page', at.page.path, *words[3:-1], at.conninfo(), words[-1]]
        elif words[0] in (ON_POSTGRES, ON_REDLOCK, ON_CLUSTER, ON_TLS):
            words = [words[1], '--page', at.page.path, '--uri', at.uri(words[2]), *words[3:]]
        if library:
            self.player(library, place)  # its start and its warming up don't count
            if words[1] == 'calls':
                return self.player(library, place).calls()
        watched = at and (library or '--page' in words)
        before = at.counters() if watched else None
        run = self.run_peer(words, place) if library else self.run_ours(words, place)
        if watched:
            server.compare(before, at.counters(), run)
        if 'least' in run:
            run['spread'] = run['most'] / max(1, run['least'])
        if 'p99_us' in run:
            run['p99_ms'] = run['p99_us'] / 1000
        return run

    @staticmethod
    def on_zookeeper(at, program, where, *more):
        return [program, '--page', at.page.path, '--uri', where.replace('@', at.hosts()), *more]

    @staticmethod
    def on_memcached(at, program, query, *more):
        where = [at.port] if query is None else ['--uri', at.uri(query)]
        return [program, '--page', at.page.path, *more, *where]

    def close(self):
        self.dismiss()
        for at in (*self.zookeepers.values(), *self.memcacheds.values(), *self.etcds.values(),
                   *self.postgreses.values(), *self.redlocks.values(), *self.clusters.values(),
                   *self.encrypted.values()):
            at.end()

    def catch(self, place, query):
        """The two commands of a pair, as libdlock sends them: words with @L for the lock's name
        and @O for the owner."""
        if (place, query) not in self.caught:
            at = self.servers[place]
            with at.monitor() as monitor:
                self.output(['bench-pairs', '--secs', '0.05', '--uri', at.uri(query)],
                            cores_of(place))
                seen = [words for words in monitor.client_commands()
                        if words[0].lower() == 'evalsha' and 'bench/0' in words]
            first = seen[0][1]
            pair = [[words for words in seen if (words[1] == first) == acquires][-1]
                    for acquires in (True, False)]
            self.caught[place, query] = [
                [UUID_OWNER.sub('@O', word).replace('bench/0', '@L') for word in words]
                for words in pair]
        return self.caught[place, query]

    def raw(self, place, at, port, query='', *more):
        """The same commands in a loop of plain hiredis. Their scripts are on that server."""
        acquire, release = self.catch(place, query)
        return ['bench-floor-redis', '--page', at.page.path, *more, '--', port,
                *acquire, '--', *release]

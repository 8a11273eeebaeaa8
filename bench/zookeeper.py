"""The ZooKeeper of a run, and what a pair asks of it: requests, and round trips."""
import os
import pathlib
import socket
import statistics
import struct
import subprocess
import threading
import time

from peers import Absent, Failed
from server import Page, free_port

JARS = pathlib.Path('/usr/share/java')
JAR, QUIET = JARS / 'zookeeper.jar', JARS / 'slf4j-nop.jar'
PING = 11


class Zookeeper:
    """A server of our own: loopback, an unused port, its log in a temporary folder and not
    flushed to the disk. Its compiler is the one a server has: warm() lets that do its work."""

    def __init__(self, folder, cores, name='page'):
        self.folder, self.cores = pathlib.Path(folder), cores
        self.page = Page(folder, name)
        self.data = self.folder / f'{name}-data'
        self.process, self.port, self.starts = None, None, 0
        if not JAR.exists():
            raise Absent('ZooKeeper\'s server is not installed')

    def start(self):
        for _ in range(5):  # somebody may take the port before the server does
            self.port = free_port()
            if self.launch():
                return self
            self.end()
        raise Failed('ZooKeeper does not start')

    def launch(self):
        """With nothing in it."""
        self.starts += 1
        config = self.folder / f'{self.data.name}-{self.starts}.cfg'
        config.write_text('\n'.join([
            f'dataDir={self.data}-{self.starts}', f'clientPort={self.port}',
            'clientPortAddress=127.0.0.1', 'tickTime=2000', 'maxClientCnxns=0',
            'admin.enableServer=false', '4lw.commands.whitelist=*', '']))
        self.process = subprocess.Popen(
            ['java', '-Xms256m', '-Xmx512m', '-XX:+UseSerialGC', '-XX:-UsePerfData',
             '-Dzookeeper.forceSync=no', '-Dzookeeper.extendedTypesEnabled=true',
             '-cp', f'{JAR}:{QUIET}', 'org.apache.zookeeper.server.ZooKeeperServerMain',
             str(config)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=lambda: os.sched_setaffinity(0, self.cores))
        limit = time.monotonic() + 60
        while self.process.poll() is None and time.monotonic() < limit:
            if 'Mode: standalone' in self.say('srvr') and str(self.data) in self.say('conf'):
                return True
            time.sleep(0.05)
        return False

    def say(self, word):
        """What it answers to a four-letter word, "" when it doesn't."""
        try:
            with socket.create_connection(('127.0.0.1', self.port), 5) as link:
                link.sendall(word.encode())
                return b''.join(iter(lambda: link.recv(65536), b'')).decode()
        except OSError:
            return ''

    @property
    def version(self):
        return self.say('srvr').partition('version: ')[2].partition('-')[0]

    def packets(self):
        for line in self.say('mntr').splitlines():
            if line.startswith('zk_packets_received\t'):
                return int(float(line.split('\t')[1]))
        raise Failed('ZooKeeper counts no packets')

    def cpu_us(self):
        """The processor's time of all its threads."""
        return time.clock_gettime((~self.process.pid << 3) | 2) * 1e6  # as clock_getcpuclockid(3)

    def counters(self):
        entries, overlaps = self.page.sums()
        return {'calls': {'packet': self.packets()}, 'entries': entries, 'overlaps': overlaps,
                'cpu_us': self.cpu_us()}

    def clear(self):
        """What somebody who died has left would stay for the rest of his session."""
        self.end()
        self.start()
        self.page.vacate()

    def hosts(self):
        return f'127.0.0.1:{self.port}'

    def end(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        self.process = None


class Relay:
    """Stands between one client and the server, and counts: requests, and how often a request is
    sent while no answer is awaited, which is the number of round trips that the client makes.
    Answers are kept back a little, as a network does, so that what is sent without waiting for them
    shows as such."""

    DELAY_S = 0.001

    def __init__(self, server):
        self.server = server
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        self.lock = threading.Lock()
        self.awaited = self.trips = 0
        self.asked = []  # (type of the request, how many round trips there had been by then)
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        here, _ = self.listener.accept()
        there = socket.create_connection(('127.0.0.1', self.server.port))
        for link in here, there:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = threading.Thread(target=self.pump, args=(there, here, self.answered))
        back.start()
        self.pump(here, there, self.requested)
        back.join()
        here.close()
        there.close()

    def pump(self, source, target, note):
        """Passes on whole messages. The first one is the greeting, and has no number."""
        kept, greeted = b'', False
        while True:
            try:
                more = source.recv(65536)
            except OSError:
                more = b''
            if not more:
                break
            kept += more
            whole = 0
            while len(kept) >= whole + 4:
                size, = struct.unpack_from('>i', kept, whole)
                if len(kept) < whole + 4 + size:
                    break
                if greeted:
                    note(kept[whole + 4:whole + 4 + size])
                greeted = True
                whole += 4 + size
            if note == self.answered:
                time.sleep(self.DELAY_S)
            try:
                target.sendall(kept[:whole])
            except OSError:
                break
            kept = kept[whole:]
        try:
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it has hung up already

    def requested(self, message):
        number, what = struct.unpack_from('>ii', message)
        with self.lock:
            if what == PING or number < 0:
                return
            self.trips += self.awaited == 0
            self.awaited += 1
            self.asked.append((what, self.trips))

    def answered(self, message):
        number, = struct.unpack_from('>i', message)
        with self.lock:
            self.awaited -= number > 0

    def each(self, last):
        """Requests and round trips of one of the client's rounds, which end with this type of
        request: the median, as a client that was kept from running may fall behind once."""
        ends = [i for i, (what, _) in enumerate(self.asked) if what == last]
        if len(ends) < 2:
            raise Failed('the relay has seen too little')
        rounds = list(zip(ends, ends[1:]))
        return (statistics.median(end - begin for begin, end in rounds),
                statistics.median(self.asked[end][1] - self.asked[begin][1]
                                  for begin, end in rounds))

    def close(self):
        self.thread.join(10)
        self.listener.close()

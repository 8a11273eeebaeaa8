"""A ZooKeeper of our own for the tests written in Python, one server or three, and the test's own
hand at its nodes. The twin of zookeeper_server.h and zookeeper_wire.h, which say more.
"""
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

import tap

JAR, QUIET = '/usr/share/java/zookeeper.jar', '/usr/share/java/slf4j-nop.jar'
START_S = 60
SESSION_MS = 60_000
SECRET, FACTOR, MASK = 0XB3415C00, 0x5DEECE66D, (1 << 48) - 1
CREATE, DELETE, EXISTS, GET, SET, CHILDREN, CLOSE = 1, 2, 3, 4, 5, 8, -11
NO_NODE = -101


def free_ports(count):
    """Ports that were free at the same time, so that they differ."""
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(('127.0.0.1', 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


class Server:
    """Serves when it is there, or at the end of `with`; an ensemble's waits for the others."""

    def __init__(self, port, config=(), main='ZooKeeperServerMain', tick_ms=500):
        if not os.path.exists(JAR) or not shutil.which('java'):
            raise tap.Skip('ZooKeeper is not installed')
        self.port, self.main, self.process = port, main, None
        self.url = f'zookeeper://127.0.0.1:{port}'
        self.jars, self.java = [JAR, QUIET], []  # what else the machine is to be told
        self.directory = tempfile.mkdtemp(prefix='dlock-zookeeper-')
        self.data = os.path.join(self.directory, 'data')
        os.mkdir(self.data)
        with open(os.path.join(self.directory, 'zoo.cfg'), 'w', encoding='ascii') as file:
            file.write('\n'.join([
                f'dataDir={self.data}', f'clientPort={port}', 'clientPortAddress=127.0.0.1',
                f'tickTime={tick_ms}', 'minSessionTimeout=100', 'maxSessionTimeout=60000',
                'maxClientCnxns=0', 'admin.enableServer=false', '4lw.commands.whitelist=*',
                'preAllocSize=64', *config, '']))

    def launch(self):
        self.process = subprocess.Popen(
            ['java', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-Xmx256m',
             '-XX:-UsePerfData', '-Dzookeeper.forceSync=no',
             '-Dznode.container.checkIntervalMs=1000', '-Dzookeeper.extendedTypesEnabled=true',
             *self.java, '-cp', ':'.join(self.jars), f'org.apache.zookeeper.server.{self.main}',
             os.path.join(self.directory, 'zoo.cfg')],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def say(self, word):
        """What it answers to a four-letter word, "" when it doesn't."""
        try:
            with socket.create_connection(('127.0.0.1', self.port), 5) as link:
                if link.getsockname()[1] == self.port:
                    return ''  # nobody listens, and the connection has met itself
                link.sendall(word.encode())
                return b''.join(iter(lambda: link.recv(65536), b'')).decode()
        except OSError:
            return ''

    def mode(self):
        """standalone, leader, follower; "" while it doesn't serve."""
        return self.say('srvr').partition('Mode: ')[2].partition('\n')[0]

    def count(self, key):
        """A number of `mntr`."""
        return next((float(line.split('\t')[1]) for line in self.say('mntr').splitlines()
                     if line.startswith(key + '\t')), -1)

    def await_start(self):
        """Whether it serves in the end; False when it ended instead, as when its port is taken."""
        end = time.monotonic() + START_S
        while time.monotonic() < end and self.process.poll() is None:
            if self.mode() and self.directory in self.say('conf'):
                return True
            time.sleep(0.02)
        return False

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def restart(self):
        self.kill()
        self.launch()
        if not self.await_start():
            raise AssertionError('the ZooKeeper does not come back')

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


def started(make, tries=5):
    """What @make makes of its servers, once all of them serve; ports may be taken meanwhile."""
    for _ in range(tries):
        servers = make()
        for server in servers:
            server.launch()
        if all(server.await_start() for server in servers):
            return servers
        for server in servers:
            server.stop()
    raise AssertionError('ZooKeeper does not start')


def single(*config):
    """One server that serves."""
    return started(lambda: [Server(free_ports(1)[0], config)])[0]


class Ensemble:
    """Three servers that serve together."""

    def __init__(self):
        self.members = started(self.make)
        self.hosts = ','.join(f'127.0.0.1:{server.port}' for server in self.members)

    @staticmethod
    def make():
        ports = free_ports(9)
        config = ['initLimit=25', 'syncLimit=10', 'standaloneEnabled=false',
                  *(f'server.{n + 1}=127.0.0.1:{ports[3 * n + 1]}:{ports[3 * n + 2]}'
                    for n in range(3))]
        servers = [Server(ports[3 * n], config, 'quorum.QuorumPeerMain', 200) for n in range(3)]
        for number, server in enumerate(servers, 1):
            with open(os.path.join(server.data, 'myid'), 'w', encoding='ascii') as file:
                file.write(f'{number}\n')
        return servers

    def leader(self):
        """Waits until there is one."""
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            for server in self.members:
                if server.process and server.mode() == 'leader':
                    return server
            time.sleep(0.02)
        raise AssertionError('the ensemble has no leader')

    def stop(self):
        for server in self.members:
            server.stop()


class Gone(AssertionError):
    """The server answers with this error."""

    def __init__(self, what, code):
        super().__init__(f'{what}: ZooKeeper answers {code}')
        self.code = code


def text(value):
    value = value.encode() if isinstance(value, str) else value
    return struct.pack('>i', len(value)) + value


class Stat:
    """What a server knows of a node."""

    def __init__(self, bytes_):
        (self.czxid, self.mzxid, _, _, self.version, self.cversion, _, self.owner, self.size,
         self.children, _) = struct.unpack('>qqqqiiiqiiq', bytes_)


class Wire:
    """One request at a time, on a connection and with a session of its own, which isn't kept alive
    while nothing is asked."""

    def __init__(self, port, session=0, password=bytes(16)):
        self.port, self.xid = port, 0
        self.greet(session, password)

    def greet(self, session=0, password=bytes(16)):
        self.link = socket.create_connection(('127.0.0.1', self.port), 20)
        self.send(struct.pack('>iqiq', 0, 0, SESSION_MS, session) + text(password) + b'\0')
        _, granted, self.session = struct.unpack('>iiq', self.receive()[:16])
        if granted <= 0:
            raise AssertionError(f'there is no session {session:#x}')

    def send(self, message):
        self.link.sendall(struct.pack('>i', len(message)) + message)

    def receive(self):
        size, = struct.unpack('>i', self.read(4))
        return self.read(size)

    def read(self, size):
        got = b''
        while len(got) < size:
            more = self.link.recv(size - len(got))
            if not more:
                raise ConnectionError('the server hangs up')
            got += more
        return got

    def talk(self, type_, body):
        self.xid += 1
        self.send(struct.pack('>ii', self.xid, type_) + body)
        return self.receive()

    def ask(self, what, type_, body=b''):
        try:
            answer = self.talk(type_, body)
        except OSError:
            if type_ not in (EXISTS, GET, CHILDREN):
                raise
            self.link.close()  # the session is over, and what looks needs none
            self.greet()
            answer = self.talk(type_, body)
        code, = struct.unpack('>i', answer[12:16])
        if code:
            raise Gone(what, code)
        return answer[16:]

    def create(self, path, data='', flags=0):
        """The path it got. Flags: 1 ephemeral, 2 sequential."""
        answer = self.ask(f'create {path}', CREATE, text(path) + text(data) +
                          struct.pack('>ii', 1, 31) + text('world') + text('anyone') +
                          struct.pack('>i', flags))
        return answer[4:].decode()

    def delete(self, path):
        self.ask(f'delete {path}', DELETE, text(path) + struct.pack('>i', -1))

    def stat(self, path):
        """None: there is no such node."""
        try:
            return Stat(self.ask(f'exists {path}', EXISTS, text(path) + b'\0'))
        except Gone as why:
            if why.code == NO_NODE:
                return None
            raise

    def get(self, path):
        answer = self.ask(f'get {path}', GET, text(path) + b'\0')
        size, = struct.unpack('>i', answer[:4])
        return answer[4:4 + max(0, size)].decode()

    def set(self, path, data):
        self.ask(f'set {path}', SET, text(path) + text(data) + struct.pack('>i', -1))

    def children(self, path):
        """Their names, sorted; none where there is no such node."""
        try:
            answer = self.ask(f'children of {path}', CHILDREN, text(path) + b'\0')
        except Gone as why:
            if why.code == NO_NODE:
                return []
            raise
        count, = struct.unpack('>i', answer[:4])
        names, at = [], 4
        for _ in range(count):
            size, = struct.unpack('>i', answer[at:at + 4])
            names.append(answer[at + 4:at + 4 + size].decode())
            at += 4 + size
        return sorted(names)

    def close(self):
        self.ask('close', CLOSE)
        self.link.close()


def password_of(session):
    """The server makes it of the number: java.util.Random, begun with both."""
    seed, password = ((session & (1 << 64) - 1) ^ SECRET ^ FACTOR) & MASK, b''
    for _ in range(4):
        seed = (seed * FACTOR + 0xB) & MASK
        password += struct.pack('<I', seed >> 16 & 0xffffffff)
    return password


def expire(port, session):
    """Ends somebody's session, as if its time were over: at once, and its owner hears of it at its
    next word."""
    Wire(port, session, password_of(session)).close()

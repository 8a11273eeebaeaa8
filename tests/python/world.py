"""What the tests run on: a real Redis server, a file, memory; and how they wait for something."""
import atexit
import contextlib
import itertools
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

LIMIT_S = 60
# A wait that runs out. Not too short: a server that hasn't said yet that the lock is held makes
# another error of it.
SHORT_S = 0.3
STARTS_MAX = 5
_numbers = itertools.count(1)


def wait_until(what, condition, limit=LIMIT_S):
    """Looks again and again until @condition is true; returns what it said."""
    end = time.monotonic() + limit
    while not (said := condition()):
        if time.monotonic() > end:
            raise AssertionError(f'not within {limit} s: {what}')
        time.sleep(0.005)
    return said


def new_name(stem='test'):
    """The name of a lock that no other test has."""
    return f'{stem}/{next(_numbers)}'


class Redis:
    """A server on a free port of the loopback interface, in a folder of its own."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix='dlock-py-'))
        self.port, self.process = None, None
        for _ in range(STARTS_MAX):
            with socket.socket() as probe:
                probe.bind(('127.0.0.1', 0))
                self.port = probe.getsockname()[1]
            self.launch()
            if wait_until('the server answers or has ended', self.outcome) == 'answers':
                self.url = f'redis://127.0.0.1:{self.port}'
                return
            self.stop()   # somebody else got the port meanwhile
        raise AssertionError((self.folder / 'log').read_text())

    def start(self):
        """Again, on the port it had."""
        self.launch()
        wait_until('the server answers', lambda: self.outcome() == 'answers')

    def launch(self):
        log = open(self.folder / 'log', 'ab')
        with log:
            self.process = subprocess.Popen(
                ['redis-server', '--port', str(self.port), '--bind', '127.0.0.1', '--save', '',
                 '--appendonly', 'no', '--dir', str(self.folder)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def outcome(self):
        """"answers", "ended", or nothing yet; it itself, and not another one at its port."""
        if self.process.poll() is not None:
            return 'ended'
        with contextlib.suppress(OSError):
            if f'process_id:{self.process.pid}\r' in self.command('INFO', 'server').decode():
                return 'answers'
        return None

    def command(self, *words):
        """Sends one command; returns the answer as it came."""
        text = b''.join(b'$%d\r\n%s\r\n' % (len(word.encode()), word.encode()) for word in words)
        with socket.create_connection(('127.0.0.1', self.port), LIMIT_S) as link:
            link.sendall(b'*%d\r\n%s' % (len(words), text))
            return link.recv(65536)

    def stop(self):
        """Ends the server; start() brings up an empty one on the same port."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def close(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


_shared = []


def shared_redis():
    """One server for all tests of a program that don't stop it."""
    if not _shared:
        _shared.append(Redis())
        atexit.register(_shared[0].close)
    return _shared[0]


def new_file():
    """The URL of a file that isn't there yet."""
    folder = tempfile.mkdtemp(prefix='dlock-py-')
    atexit.register(shutil.rmtree, folder, True)
    return f'file://{folder}/locks'

"""Servers of our own for the tests written in Python, on free ports of the loopback interface."""
import contextlib
import os
import re
import shutil
import socket
import subprocess
import tempfile

import tap
from waiting import wait_until

START_S = 60


def started(command, question, answer):
    """A server on a free port, of command(port); returns it and the port. By answer(pid), a
    pattern, it is known from another one that got the port first."""
    for _ in range(5):
        with socket.socket() as probe:
            probe.bind(('127.0.0.1', 0))
            port = probe.getsockname()[1]
        process = launched(command(port))
        wait_until(f'{command(port)[0]} serves',
                   lambda process=process, port=port: process.poll() is not None
                   or serves(port, question, answer(process.pid)), START_S)
        if process.poll() is None:
            return process, port
    raise AssertionError(f'{" ".join(command(port))}: it ends')


def launched(command):
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)


def serves(port, question, answer):
    with contextlib.suppress(OSError):
        with socket.create_connection(('127.0.0.1', port), 5) as link:
            link.sendall(question)
            return re.search(answer, link.recv(65536))
    return False


class Redis:
    """Also at a socket in its folder."""

    def __init__(self, *options):
        if shutil.which('redis-server') is None:
            raise tap.Skip('redis-server is not installed')
        self.directory = tempfile.mkdtemp(prefix='dlock-redis-')
        try:
            self.process, self.port = started(lambda port: [
                'redis-server', '--bind', '127.0.0.1', '--port', str(port), '--save', '',
                '--appendonly', 'no', '--dir', self.directory,
                '--unixsocket', f'{self.directory}/socket', *options],
                b'INFO server\r\n', self.is_itself)
        except AssertionError:
            shutil.rmtree(self.directory)
            raise

    @staticmethod
    def is_itself(pid):
        return b'process_id:%d\r|^-NOAUTH' % pid

    @property
    def url(self):
        return f'redis://127.0.0.1:{self.port}'

    @property
    def url_of_socket(self):
        return f'redis+unix://{self.directory}/socket'

    def command(self, *words):
        """Sends one command on a connection of its own; returns the raw reply's first bytes."""
        with socket.create_connection(('127.0.0.1', self.port), 5) as link:
            link.sendall(b''.join([b'*%d\r\n' % len(words)] + [
                b'$%d\r\n%s\r\n' % (len(w.encode()), w.encode()) for w in words]))
            return link.recv(65536)

    def die(self):
        self.process.kill()
        self.process.wait()

    def revive(self):
        """Starts it again where it was, with nothing in it."""
        self.process = launched(self.process.args)
        wait_until('the server serves', lambda: serves(
            self.port, b'INFO server\r\n', self.is_itself(self.process.pid)), START_S)

    def stop(self):
        self.die()
        shutil.rmtree(self.directory, ignore_errors=True)


class Memcached:
    def __init__(self):
        if shutil.which('memcached') is None:
            raise tap.Skip('memcached is not installed')
        who = ['-u', 'root'] if os.geteuid() == 0 else []
        self.process, self.port = started(lambda port: [
            'memcached', '-l', '127.0.0.1', '-p', str(port), '-U', '0', *who],
            b'stats\r\n', lambda pid: b'STAT pid %d\r' % pid)

    @property
    def url(self):
        return f'memcached://127.0.0.1:{self.port}'

    def stop(self):
        self.process.kill()
        self.process.wait()

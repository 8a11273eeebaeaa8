"""dlock top --openmetrics: a page for Prometheus, whatever else connects."""
import errno
import fcntl
import os
import re
import resource
import signal
import socket
import stat
import struct
import sys
import termios
import time

import tap
import world
from waiting import LIMIT, wait_until

REQUEST = b'GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n'
PATIENCE_MS = 5000  # of tools/openmetrics.c


def read_all(end):
    answer = b''
    while part := end.recv(65536):
        answer += part
    return answer.decode()


class Page:
    """dlock top --openmetrics, and how to ask it."""

    def __init__(self, w, *arguments, path=None):
        where = f'unix:{path}' if path else '0'
        self.process = w.start('top', '--openmetrics', where, *arguments)
        self.path = path
        if path:
            wait_until('the socket is there', lambda: os.path.exists(path))
        else:
            line = self.process.stderr.readline().decode()
            self.port = int(re.search(r'http://127\.0\.0\.1:(\d+)/metrics', line)[1])

    def connect(self):
        if self.path:
            end = socket.socket(socket.AF_UNIX)
            end.settimeout(LIMIT)
            wait_until('it listens', lambda: end.connect_ex(self.path) == 0)
            return end
        return socket.create_connection(('127.0.0.1', self.port), timeout=LIMIT)

    def ask(self, request):
        """The status and the body of the answer."""
        with self.connect() as end:
            end.sendall(request)
            answer = read_all(end)
        head, _, body = answer.partition('\r\n\r\n')
        size = re.search(r'Content-Length: (\d+)', head)
        if size and body and int(size[1]) != len(body.encode()):
            raise AssertionError(f'{size[1]} bytes, not {len(body)}')
        return int(head.split(' ')[1]), body

    def get(self):
        status, body = self.ask(REQUEST)
        tap.equal('status', status, 200)
        return body

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(LIMIT)


def the_page_tells_what_is_held_and_what_the_client_counts(w):
    page = Page(w, 'page/')
    tap.equal('none', re.findall(r'^dlock_service_locks\{.*\} (\d+)', page.get(), re.M), ['0'])
    holder, _ = w.hold('page/one')
    wait_until('it is told', lambda: re.search(r'^dlock_service_locks\{service="[^"]*"\} 1$',
                                                     page.get(), re.M))
    text = page.get()
    for line in (r'dlock_service_complete\{.*\} 1', r'dlock_connected\{.*\} 1', '# EOF'):
        if not re.search(f'^{line}$', text, re.M):
            raise AssertionError(f'no {line} in {text}')
    tap.equal('one family each', len(re.findall('^# TYPE', text, re.M)),
              len(set(re.findall(r'^# TYPE (\S+)', text, re.M))))
    tap.equal('ends well', page.close(), 0)
    del holder


def it_serves_a_socket_and_removes_it(w):
    path = w.path('page.sock')
    page = Page(w, path=path)
    if '# EOF\n' not in page.get():
        raise AssertionError('no page')
    tap.equal('is a socket', stat.S_ISSOCK(os.stat(path).st_mode), True)
    tap.equal('ends well', page.close(), 0)
    tap.equal('is gone', os.path.exists(path), False)


def a_socket_that_nobody_listens_at_any_more_is_replaced(w):
    path = w.path('page.sock')
    dead = Page(w, path=path)
    dead.get()
    dead.process.kill()
    dead.process.wait()
    tap.equal('is left', os.path.exists(path), True)
    page = Page(w, path=path)
    if '# EOF\n' not in page.get():
        raise AssertionError('no page')
    # One that is alive keeps its place.
    second = w.start('top', '--openmetrics', f'unix:{path}')
    status, _, err = w.finish(second)
    tap.equal(err, (status, os.strerror(errno.EADDRINUSE) in err), (64, True))
    page.get()
    tap.equal('ends well', page.close(), 0)


def what_is_no_socket_stays(w):
    path = w.path('file')
    with open(path, 'w', encoding='ascii') as file:
        file.write('precious')
    status, _, err = w.finish(w.start('top', '--openmetrics', f'unix:{path}'))
    tap.equal(err, (status, os.strerror(errno.EADDRINUSE) in err), (64, True))
    with open(path, encoding='ascii') as file:
        tap.equal('as it was', file.read(), 'precious')


def processor_seconds(pid):
    with open(f'/proc/{pid}/stat', encoding='ascii') as file:
        fields = file.read().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def without_descriptors_it_rests_and_goes_on(w):
    page = Page(w)
    page.get()
    pid = page.process.pid
    used = max(int(fd) for fd in os.listdir(f'/proc/{pid}/fd')) + 1
    few = max(used, 20)  # poll() wants as many as it is asked about
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (few, hard))
    silent = [page.connect() for _ in range(few)]
    wait_until('they are taken in', lambda: len(os.listdir(f'/proc/{pid}/fd')) >= few)
    try:
        began, before = time.monotonic(), processor_seconds(pid)
        wait_until('it had time to spin', lambda: time.monotonic() > began + 1)
        share = (processor_seconds(pid) - before) / (time.monotonic() - began)
        tap.equal(f'{share} of a processor', share < 0.2, True)
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
        for one in silent:
            one.close()
    page.get()
    tap.equal('ends well', page.close(), 0)


def whatever_is_asked_the_next_one_has_the_page(w):
    page = Page(w)
    for request, status in ((b'GET / HTTP/1.1\r\n\r\n', 404),
                            (b'POST /metrics HTTP/1.1\r\n\r\n', 405),
                            (b'GET /metricsx HTTP/1.1\r\n\r\n', 404), (b'\0\r\n\r\n', 405),
                            (b'GET /metrics?a=b HTTP/1.0\r\n\r\n', 200),
                            (b'HEAD /metrics HTTP/1.1\r\n\r\n', 200), (b'G' * 4096, 431)):
        tap.equal(f'{request[:20]}', page.ask(request)[0], status)
    page.get()
    page.close()


def those_who_say_nothing_keep_nobody_out(w):
    page = Page(w)
    silent = [page.connect() for _ in range(40)]
    try:
        for one in silent[::2]:
            try:
                one.sendall(b'GET /metrics')
            except OSError:
                pass  # dropped already, being the oldest
        page.get()
    finally:
        for one in silent:
            one.close()
    page.get()
    page.close()


def an_address_that_is_none_is_refused(w):
    for where in ('x', '70000', '-1', 'localhost:0', '', '1.2.3.4.5:1', f'unix:{"x" * 200}',
                  'unix:', 'unix:/nowhere/at/all', ':1'):
        process = w.start('top', '--openmetrics', where)
        tap.equal(f'--openmetrics {where}', process.wait(LIMIT), 64)


def what_clients_are_called_breaks_no_line(w):
    for name in ('service=', '",service="', '",version="1"} 2'):
        page = Page(w, '--set', f'client.name={name}')
        lines = [line for line in page.get().splitlines() if line.startswith('dlock_service_')]
        tap.equal(f'lines with {name}', len(lines), 2)
        for line in lines:
            if not re.fullmatch(r'dlock_service_\w+\{service="[^",]*"\} \d', line):
                raise AssertionError(f'{name}: {line}')
        tap.equal('ends well', page.close(), 0)


@world.only_on('redis')
def a_service_that_says_nothing_for_long_has_a_page_all_the_same(w):
    # Longer than a connection that says nothing may stay: those who wait for the page aren't such.
    page = Page(w, '--set', f'client.timeout_ms={PATIENCE_MS + 1000}')
    w.redis.process.send_signal(signal.SIGSTOP)
    try:
        with page.connect() as one, page.connect() as two:
            for part in (REQUEST[:9], REQUEST[9:]):
                one.sendall(part)
                two.sendall(part)
            for end in (one, two):
                text = read_all(end)
                if not text.startswith('HTTP/1.1 200') or '# EOF\n' not in text:
                    raise AssertionError(text)
                tap.equal('of the service', 'dlock_service_locks' in text, False)
    finally:
        w.redis.process.send_signal(signal.SIGCONT)
    page.close()


@world.only_on('redis')
def a_signal_while_the_service_is_asked_is_as_good_an_end_as_any(w):
    page = Page(w, path=w.path('page.sock'))
    w.redis.process.send_signal(signal.SIGSTOP)
    try:
        with page.connect() as end:
            end.sendall(REQUEST)
            wait_until('it is read', lambda: struct.unpack(
                'i', fcntl.ioctl(end, termios.TIOCOUTQ, bytes(4))) == (0,))
            tap.equal('ends well', page.close(), 0)
    finally:
        w.redis.process.send_signal(signal.SIGCONT)
    tap.equal('the socket is gone', os.path.exists(page.path), False)


if __name__ == '__main__':
    sys.exit(world.main([
        the_page_tells_what_is_held_and_what_the_client_counts,
        it_serves_a_socket_and_removes_it,
        a_socket_that_nobody_listens_at_any_more_is_replaced,
        what_is_no_socket_stays,
        without_descriptors_it_rests_and_goes_on,
        whatever_is_asked_the_next_one_has_the_page,
        those_who_say_nothing_keep_nobody_out,
        an_address_that_is_none_is_refused,
        what_clients_are_called_breaks_no_line,
        a_service_that_says_nothing_for_long_has_a_page_all_the_same,
        a_signal_while_the_service_is_asked_is_as_good_an_end_as_any,
    ]))

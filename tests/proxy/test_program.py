#!/usr/bin/env python3
"""dlock-proxy as a program: what its lines do, what bad ones get, and how it ends."""
import os
import resource
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'harness'))
import tap  # noqa: E402

PROGRAM = sys.argv[1]
LIMIT_S = 30


class Echo:
    """A server that says back what it hears."""

    def __init__(self):
        self.listener = socket.create_server(('127.0.0.1', 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        poll, open_ones = select.poll(), {}
        poll.register(self.listener, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd == self.listener.fileno():
                    one = self.listener.accept()[0]
                    open_ones[one.fileno()] = one
                    poll.register(one, select.POLLIN)
                    continue
                try:
                    said = open_ones[fd].recv(65536)
                    open_ones[fd].sendall(said)
                except OSError:
                    said = b''
                if not said:
                    poll.unregister(fd)
                    open_ones.pop(fd).close()


ECHO = Echo()


class Proxy:
    """The program, which ends with the block that it is used in."""

    def __init__(self, *options, **process):
        self.process = subprocess.Popen([PROGRAM, *options], stdin=subprocess.PIPE, bufsize=0,
                                        stdout=subprocess.PIPE, **process)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.stdin.close()
            tap.equal('exit', self.process.wait(LIMIT_S), 0)

    def hear(self):
        line = b''
        while not line.endswith(b'\n'):
            if not select.select([self.process.stdout], [], [], LIMIT_S)[0]:
                raise AssertionError(f'no answer, only {line!r}')
            got = os.read(self.process.stdout.fileno(), 1)
            if not got:
                raise AssertionError(f'it ended, saying {line!r}')
            line += got
        return line.decode().rstrip('\n')

    def say(self, line):
        """One line in, one line out."""
        self.process.stdin.write(line if isinstance(line, bytes) else f'{line}\n'.encode())
        return self.hear()

    def listen(self, rest=''):
        words = self.say(f'listen 0 {ECHO.port} {rest}').split()
        tap.equal('listen', words[0], 'ok')
        return int(words[2])


def connect(port):
    one = socket.create_connection(('127.0.0.1', port), LIMIT_S)
    one.settimeout(LIMIT_S)
    return one


def echoes(one, text=b'hello'):
    one.sendall(text)
    heard = b''
    while len(heard) < len(text):
        heard += (more := one.recv(65536))
        if not more:
            break
    tap.equal('echo', heard, text)


def is_silent(one):
    return not select.select([one], [], [], 0.06)[0]


def error(answer, part):
    if not (answer.startswith('error ') and part in answer):
        raise AssertionError(f'{answer!r} is no error with {part!r} in it')


def eventually(what, ask, want):
    end = time.monotonic() + LIMIT_S
    while (got := ask()) != want and time.monotonic() < end:
        time.sleep(0.005)
    tap.equal(what, got, want)


def stats(proxy, before=''):
    words = proxy.say(f'{before}stats').split()
    tap.equal('stats', words[0], 'ok')
    return {key: int(value) for key, value in (word.split('=') for word in words[1:])}


def each_line_gets_one_answer():
    with Proxy() as p:
        tap.equal('links', p.say('links'), 'ok')
        port = p.listen()
        other = p.listen('second raw')
        tap.equal('links', p.say('links'),
                  f'ok 1 {port} {ECHO.port}; second {other} {ECHO.port}')
        for line in ('', '# a comment', 'pass', 'latency 1', 'latency 1 2', 'latency 1 up',
                     'latency 1 2 both', 'slice 1', 'slice 1 5 down', 'bandwidth 100000',
                     'bandwidth 0 up', 'hole off', 'late', 'stall', 'refuse', 'ignore', 'reset',
                     'half-open', 'half-close down', '@1 cut-before 3', '@1 cut-after 1 GET',
                     '@1 drop-reply 2+ EVAL* key', '@1 delay-reply 5 1 *', 'forget', 'seed 12',
                     'trace on', 'trace off', 'note a  b', 'log off', 'pass', '  pass  '):
            tap.equal(line, p.say(line), 'ok')
        words = p.say('help')
        for line in ('listen', 'half-open', 'quit'):
            if line not in words:
                raise AssertionError(f'{line} is missing in {words}')


def answers_keep_the_order_of_lines():
    with Proxy() as p:
        p.process.stdin.write(b'links\nnonsense\nlinks\r\n')
        tap.equal('first', p.hear(), 'ok')
        error(p.hear(), 'nonsense')
        tap.equal('third', p.hear(), 'ok')


def bad_lines_say_why_and_change_nothing():
    with Proxy() as p:
        error(p.say('latency 5'), 'no link yet')
        port = p.listen()
        one = connect(port)
        echoes(one)
        for line, part in (('bogus', "'bogus'"), ('latency', 'say: latency'), ('latency x', "'x'"),
                           ('latency -1', "'-1'"), ('latency 1 2 3', 'one or two numbers'),
                           ('latency 99999999999999999999', 'number'), ('latency up', 'numbers'),
                           ('latency 1 2 sideways', 'numbers'), ('slice 1x', "'1x'"),
                           ('bandwidth 1 2', 'one number'), ('hole', 'say: hole'),
                           ('hole left', "'left'"), ('half-close off', "'off'"),
                           ('cut-after 0', "'0'"), ('cut-after +', "'+'"),
                           ('cut-after 1 a b c', 'say:'), ('delay-reply 5', 'say:'),
                           ('@2 pass', "no link '2'"), ('@1', 'what shall'), ('@ pass', 'no link'),
                           ('@1 seed 3', "isn't about a link"), ('pass now', 'say: pass'),
                           ('seed -1', "'-1'"), ('trace maybe', "'maybe'"), ('count', 'say: count'),
                           ('log /no/such/folder/x', 'No such file'),
                           ('dump /no/such/folder/x', 'No such file'), ('dump x 0', "'0'"),
                           (f'listen {port} {ECHO.port}', 'taken'), ('listen 0 nowhere', 'target'),
                           ('listen 0 localhost:80', 'target'), ('listen 0 0', 'target'),
                           ('listen 0 127.0.0.1:99999', 'target'), ('listen 99999 80', "'99999'"),
                           ('listen 0 /' + 'x' * 110, 'target'), ('listen 0 80 1', 'of that name'),
                           ('listen 0 80 b smtp', 'no such framing'),
                           ('note ' + 'x' * 1000, 'longer'),
                           ('x' * 10000, 'too long'), (b'pass\0now\n', 'NUL'),
                           (b'\xff\xfe\x1b[31m\n', "'???"), ('a ' * 300, "'a'")):
            error(p.say(line), part)
        echoes(one)
        raw = p.listen('r raw')
        error(p.say('@r cut-after 1'), 'raw')
        error(p.say('cut-after 1'), 'raw')
        echoes(connect(raw))
        tap.equal('deeds', stats(p)['deeds'], 0)


def a_link_has_faults_of_its_own():
    with Proxy() as p:
        one, other = connect(p.listen('a raw')), connect(p.listen('b raw'))
        echoes(one)
        echoes(other)
        tap.equal('hole', p.say('@a hole both'), 'ok')
        one.sendall(b'lost')
        echoes(other)
        if not is_silent(one):
            raise AssertionError('the hole says something')
        eventually('swallowed', lambda: stats(p, '@a ')['swallowed'], 4)
        tap.equal('swallowed', stats(p, '@b ')['swallowed'], 0)
        tap.equal('open', stats(p)['open'], 2)
        tap.equal('pass', p.say('pass'), 'ok')
        try:
            tap.equal('after the hole', one.recv(1), 'a reset')
        except ConnectionResetError:
            pass
        echoes(other)


def requests_are_counted_and_picked():
    ping = b'*1\r\n$4\r\nPING\r\n'
    with Proxy() as p:
        port = p.listen()
        tap.equal('plan', p.say('cut-before 3 ping'), 'ok')
        one = connect(port)
        echoes(one, ping + ping)
        one.sendall(ping)
        try:
            tap.equal('the third', one.recv(1), b'')
        except ConnectionResetError:
            pass
        seen = stats(p)
        tap.equal('requests', (seen['requests'], seen['PING'], seen['deeds']), (3, 3, 1))
        tap.equal('count', p.say('count p*'), 'ok 3')


def the_log_tells_when_what_was_done():
    with tempfile.TemporaryDirectory(prefix='dlock-proxy-') as folder:
        log, dump = Path(folder) / 'log', Path(folder) / 'dump'
        before = time.clock_gettime(time.CLOCK_BOOTTIME)
        with Proxy('--log', str(log)) as p:
            one = connect(p.listen('a raw'))
            echoes(one)
            tap.equal('hole', p.say('hole up'), 'ok')
            tap.equal('note', p.say('note look  here'), 'ok')
            tap.equal('dump', p.say(f'dump {dump} 2'), 'ok')
            one.close()
        after = time.clock_gettime(time.CLOCK_BOOTTIME)
        lines = [line.split(' ', 1) for line in log.read_text(encoding='ascii').splitlines()]
        times = [float(line[0]) for line in lines]
        if times != sorted(times) or times[0] < before - 1e-3 or times[-1] > after + 1e-3:
            raise AssertionError(f'{times} are no times from {before} to {after}')
        texts = [line[1] for line in lines]
        for text in ('a#1 connected', 'a hole up', 'note: look  here'):
            if text not in texts:
                raise AssertionError(f'{text} is missing in {texts}')
        tap.equal('dump', [line.split(' ', 1)[1] for line in
                           dump.read_text(encoding='ascii').splitlines()],
                  ['a hole up', 'note: look  here'])


def talk_to(one, line):
    one.sendall(f'{line}\n'.encode())
    answer = b''
    while not answer.endswith(b'\n') and (more := one.recv(65536)):
        answer += more
    return answer.decode().strip()


def others_give_orders_on_a_control_socket():
    with tempfile.TemporaryDirectory(prefix='dlock-proxy-') as folder:
        path = f'{folder}/control'
        with Proxy('--control', path) as p:
            tap.equal('announced', p.hear(), f'ok control {path}')
            one, other = (socket.socket(socket.AF_UNIX) for _ in range(2))
            one.connect(path)
            other.connect(path)
            port = int(talk_to(one, f'listen 0 {ECHO.port} a raw').split()[2])
            tap.equal('links', talk_to(other, 'links'), f'ok a {port} {ECHO.port}')
            error(talk_to(other, 'no such thing'), "'no'")
            one.close()
            echoes(connect(port))
            tap.equal('quit', talk_to(other, 'quit'), 'ok')
            tap.equal('exit', p.process.wait(LIMIT_S), 0)
        if os.path.exists(path):
            raise AssertionError('the control socket is left over')
    with Proxy('--control', '0') as p:
        port = int(p.hear().split()[2])
        tap.equal('links', talk_to(connect(port), 'links'), 'ok')


def it_ends_with_its_input_unless_it_shall_stay():
    with Proxy() as p:
        p.listen()
        p.process.stdin.close()
        tap.equal('exit', p.process.wait(LIMIT_S), 0)
    p = Proxy('--stay', '--control', '0')
    port = int(p.hear().split()[2])
    p.process.stdin.close()
    one = connect(port)
    tap.equal('it lives', talk_to(one, 'links'), 'ok')
    p.process.terminate()
    tap.equal('exit', p.process.wait(LIMIT_S), 0)
    with Proxy() as p:
        tap.equal('quit', p.say('quit'), 'ok')
        tap.equal('exit', p.process.wait(LIMIT_S), 0)


def who_calls_it_wrongly_is_told():
    for options in (['--bogus'], ['extra']):
        done = subprocess.run([PROGRAM, *options], stdin=subprocess.DEVNULL, check=False,
                              capture_output=True, text=True)
        tap.equal(options, (done.returncode, done.stdout), (2, ''))
        if 'usage' not in done.stderr:
            raise AssertionError(done.stderr)
    done = subprocess.run([PROGRAM, '--control', 'nowhere'], stdin=subprocess.DEVNULL,
                          check=False, capture_output=True, text=True)
    tap.equal('control', done.returncode, 1)


def runs(pid):
    """The share of moments in which some thread of it wants the CPU, whether it gets it or not."""
    moments = 60
    wanted = 0
    for _ in range(moments):
        time.sleep(0.007)
        states = [Path(f'{task}/stat').read_text(encoding='ascii').rsplit(')', 1)[1].split()[0]
                  for task in Path(f'/proc/{pid}/task').iterdir()]
        wanted += 'R' in states
    return wanted / moments


def fate(one):
    """What has become of somebody who said hello."""
    if is_silent(one):
        return 'waits'
    try:
        return 'served' if one.recv(5) == b'hello' else 'turned away'
    except ConnectionResetError:
        return 'turned away'


def run_out_of(descriptors):
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

    with Proxy(preexec_fn=limit) as p:
        port = p.listen('a raw')
        many = [connect(port) for _ in range(descriptors)]
        for one in many:
            one.sendall(b'hello')
        time.sleep(0.2)
        if (share := runs(p.process.pid)) > 0.6:
            raise AssertionError(f'it runs {100 * share:.0f} % of the time for nothing')
        fates = [(one, fate(one)) for one in many]
        served = [one for one, its in fates if its == 'served']
        waits = [one for one, its in fates if its == 'waits']
        if not descriptors / 4 < len(served) < descriptors:
            raise AssertionError(f'{len(served)} of {descriptors} were served')
        tap.equal('open', stats(p)['open'], len(served))
        for one in served:
            echoes(one)
            one.close()
        for one in waits:
            eventually('who waited', lambda one=one: fate(one) != 'waits', True)
            one.close()
        for one in many:
            one.close()
        eventually('open', lambda: stats(p)['open'], 0)
        echoes(connect(port))
    return len(waits)


def without_descriptors_it_neither_spins_nor_forgets_who_waits():
    # With one left a client is turned away, with none it waits: one of both each.
    if run_out_of(40) + run_out_of(41) == 0:
        raise AssertionError('nobody had to wait')


def main():
    tests = [each_line_gets_one_answer, answers_keep_the_order_of_lines,
             bad_lines_say_why_and_change_nothing, a_link_has_faults_of_its_own,
             requests_are_counted_and_picked, the_log_tells_when_what_was_done,
             others_give_orders_on_a_control_socket, it_ends_with_its_input_unless_it_shall_stay,
             who_calls_it_wrongly_is_told,
             without_descriptors_it_neither_spins_nor_forgets_who_waits]
    return tap.main([(test.__name__, test) for test in tests])


if __name__ == '__main__':
    sys.exit(main())

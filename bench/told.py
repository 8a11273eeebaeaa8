#!/usr/bin/env python3
"""What dlock ls and dlock top cost a Redis: 10^6 keys of others, 1,000 clients that tell of 1,000
locks that they hold and 5,000 that they wait for. No row of the bench:
bench/told.py build/tools/dlock

Each figure is of the server's main thread, for one list or refresh: its processor's time, reading
requests and writing answers included; and what INFO commandstats counts, which is commands alone.
"""
import argparse
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time

from server import Server, request

HALF = 18
CLIENTS, WAITS, LEASE_MS = 1000, 5, 30000


class Told(Server):
    def options(self):
        return ['--enable-debug-command', 'yes']

    def pipe(self, commands):
        """Sends commands on one connection and reads as many replies of a line each."""
        with socket.create_connection(('127.0.0.1', self.port), 60) as link, \
                link.makefile('rb') as answers:
            for at in range(0, len(commands), 500):
                part = commands[at:at + 500]
                link.sendall(b''.join(request(*words) for words in part))
                for _ in part:
                    answers.readline()

    def spent(self):
        """(processor's time, time of commands that clients sent), in microseconds."""
        used = {name: int(usec) for name, usec in re.findall(
            r'cmdstat_([^:]+):calls=\d+,usec=(\d+)', self.command('INFO', 'commandstats'))}
        total = sum(used.get(name, 0) for name in ('eval', 'evalsha', 'scan'))
        return self.cpu_us(), total, self.calls().get('eval', 0) + self.calls().get('evalsha', 0)


def uuid(i):
    return f'{i:08x}-1111-4222-8333-444444444444'


def say(i, now, lease):
    """What client i writes: it holds lock i, and waits for the next few."""
    lines = f'h {5000 + i} 1 1 0 mutex lock/{i:04}\n' + ''.join(
        f'w {2000 + i} {k} 0 0 mutex lock/{(i + k) % CLIENTS:04}\n' for k in range(2, WAITS + 2))
    half = uuid(i)[:HALF]
    who = f'web-{i}\thost-{i % 20}\t{1000 + i}\t'
    return [('SET', f'dlock_client:{half}', f'{who}\n{now} {uuid(i)}\n{lines}'),
            ('ZADD', 'dlock_client:all', str(now + 300000), half),
            ('HSET', f'lock/{i:04}', f'{uuid(i)}:1', '1'),
            ('PEXPIRE', f'lock/{i:04}', str(lease))]


def renew(server, second):
    """A tenth of the locks, as clients do that renew at a third of a lease of 30 s."""
    server.pipe([('PEXPIRE', f'lock/{i:04}', str(LEASE_MS))
                 for i in range(second % 10, CLIENTS, 10)])


def tell(server, which):
    """What each says; a lock has as much left as its last renewal leaves it."""
    now = int(time.time() * 1000)
    server.pipe([words for i in which for words in say(i, now, LEASE_MS - i % 10 * 1000)])


def measure(server, dlock, *arguments):
    tell(server, range(CLIENTS))
    before = server.spent()
    own = server.spent()  # what asking costs
    subprocess.run([dlock, '--url', server.uri(), *arguments], stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, check=False)
    after = server.spent()
    show(' '.join(arguments), [b - a - (a - o) for o, a, b in zip(before, own, after)], 1)


def show(what, used, count):
    cpu, commands, calls = (one / count for one in used)
    print(f'{what:42} {cpu / 1000:8.2f} ms of processor {commands / 1000:8.2f} ms of commands'
          f' {calls:7.1f} scripts', flush=True)


def idle_us(server):
    """The processor's time of a second in which nobody asks for anything."""
    before = server.spent()
    time.sleep(2)
    own = server.spent()
    after = server.spent()
    return (own[0] - before[0] - (after[0] - own[0])) / 2


def refreshes(server, dlock, count, changed):
    """A top that runs: each refresh, while so many clients a second tell something else."""
    tell(server, range(CLIENTS))
    idle = idle_us(server)
    top = subprocess.Popen([dlock, '--url', server.uri(), 'top', '--json', '--max', '1000'],
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    used, most = [0, 0, 0], 0
    for second in range(count + 10):
        renew(server, 9 - second % 10)
        tell(server, [(second * changed + k) % CLIENTS for k in range(changed)])
        before = server.spent()
        own = server.spent()
        line = top.stdout.readline()
        after = server.spent()
        assert len(json.loads(line)['locks']) == CLIENTS, line[:300]
        cost = [b - a - (a - o) for o, a, b in zip(before, own, after)]
        cost[0] -= idle
        if second >= 10:  # the first ones have all to read
            used = [u + c for u, c in zip(used, cost)]
            most = max(most, cost[1])
    top.terminate()
    top.wait()
    show(f'top, a refresh, {changed} clients changed', used, count)
    print(f'{"":42} at most {most / 1000:.2f} ms of commands')


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('dlock')
    parser.add_argument('--foreign', type=int, default=10**6)
    parser.add_argument('--refreshes', type=int, default=20)
    options = parser.parse_args()
    cores = os.sched_getaffinity(0)
    with tempfile.TemporaryDirectory() as folder, \
            Told(pathlib.Path(folder), {max(cores)}) as server:
        server.command('DEBUG', 'POPULATE', str(options.foreign), 'foreign')
        tell(server, range(CLIENTS))
        print(f'{server.version}; {options.foreign} keys of others')
        measure(server, options.dlock, 'ls', '--json')
        measure(server, options.dlock, 'ls', 'lock/00')
        measure(server, options.dlock, 'top', '--once')
        for changed in (0, 10, 100, 1000):
            refreshes(server, options.dlock, options.refreshes, changed)


if __name__ == '__main__':
    sys.exit(main())

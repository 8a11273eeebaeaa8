#!/usr/bin/env python3
"""Runs `go test` and reports in TAP, each test, subtest and example as one subtest.

    run.py FOLDER ARGUMENT…       go test ARGUMENT… in FOLDER

With DLK_SERVICES, names of services, it starts one of each and tells the tests in DLOCK_TEST_URLS
where they are.

It is built against the libdlock of DLK_BUILD, a build folder, with the Go that tools/go finds. A
test that fails while the machine stood still has shown nothing: it is void, said to be so, and
tried again (see tests/harness/awake.h)."""
import atexit
import json
import os
import subprocess
import sys
import tempfile
from datetime import datetime

import etcd_server
import golang
import zookeeper_server
from awake import STALLED_S, Watch
from postgres_server import Postgres
from tap import Skip

TRIES_MAX = 6


def comment(lines):
    for line in ''.join(lines).splitlines():
        print(f'# {line}')


class Tap:
    def __init__(self, watch):
        self.number = self.failures = 0
        self.watch, self.tries_left = watch, TRIES_MAX
        self.told = set()
        self.late = False
        self.begin()

    def begin(self):
        """Before each run of go test."""
        self.said, self.parents, self.began = {}, set(), {}
        self.void = set()   # (package, test), of no subtests: what Go can run again
        self.wrong = set()  # packages
        self.tries_left -= 1

    def line(self, good, name, lines=(), after=''):
        if name in self.told:
            return
        self.told.add(name)
        self.number += 1
        self.failures += not good
        comment(lines)
        name = name.replace('#', ' no. ')  # which begins something else in TAP
        print(f'{"" if good else "not "}ok {self.number} - {name}{after}', flush=True)

    def hear(self, event):
        package = event.get('Package', event.get('ImportPath', '')).rpartition('/')[2]
        test, action = event.get('Test'), event['Action']
        key = package, test
        if action in ('output', 'build-output'):
            self.said.setdefault(key, []).append(event['Output'])
        elif test and action == 'run':
            self.began[key] = datetime.fromisoformat(event['Time']).timestamp()
            if '/' in test:
                self.parents.add((package, test.rpartition('/')[0]))
        elif action in ('pass', 'fail', 'skip'):
            self.judge(key, f'{package}: {test or "as a whole"}', action)

    def judge(self, key, name, action):
        """Go's fuzzer takes the end of its own time for a failure when it comes between two inputs:
        it names no input then."""
        lines = self.said.pop(key, [])
        text = ''.join(lines)
        if action == 'fail' and 'fuzz: elapsed' in text and 'Failing input' not in text and \
                'context deadline exceeded' in text:
            self.late, action = True, 'pass'
        if action == 'fail' and not self.is_void(key, lines) and not (self.late and not key[1]):
            self.wrong.add(key[0])
            self.line(False, name, lines)
        elif action == 'skip' and key[1]:
            self.line(True, name, lines, ' # SKIP ' + lines[-1].strip() if lines else ' # SKIP')
        elif action == 'pass' and key[1] and key not in self.parents:
            # What a test has measured is said with -v only.
            self.line(True, name, [text for text in lines if ' waiters on ' in text])

    def is_void(self, key, lines):
        """Whether a failure shows nothing, as the machine stood still since the test began; a race
        is one at any speed, and a panic ends the tests behind it, too."""
        package, test = key
        if test is None:   # as a whole: what has failed in it?
            return package not in self.wrong and any(package == each for each, _ in self.void)
        stood_s = self.watch.longest_since(self.began[key])
        text = ''.join(lines)
        if stood_s < STALLED_S or not self.tries_left or 'race detected' in text or \
                'panic: ' in text:
            return False
        comment(lines)
        print(f'# void: the machine stood still for {stood_s * 1000:.0f} ms; {test} is tried again',
              flush=True)
        self.void.add((package, test.partition('/')[0]))
        return True


def go_test(tap, folder, arguments, env):
    """Runs it once; returns whether Go was content, and what it said of itself."""
    tap.begin()
    argv = [golang.where(), 'test', '-json', '-count=1', *arguments]
    with tempfile.TemporaryFile('w+') as errors, \
         subprocess.Popen(argv, cwd=folder, env=golang.environment(**env), text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=errors) as child:
        for line in child.stdout:
            try:
                tap.hear(json.loads(line))
            except json.JSONDecodeError:
                print(f'# {line.rstrip()}')
        child.wait()
        errors.seek(0)
        return child.returncode == 0, errors.read()


def run_all(tap, folder, flags, packages, **env):
    """Runs it, and again what was void."""
    good, wrong = go_test(tap, folder, [*flags, packages], env)
    while tap.void:
        again = '|'.join(sorted(test for _, test in tap.void))
        good, wrong = go_test(tap, folder, [*flags, f'-run=^({again})$', packages], env)
    # What has been told already isn't told again.
    if not (good or tap.failures > 0 or tap.late) or tap.number == 0:
        tap.line(False, 'go test runs', [wrong or 'no tests'])


def start_services(tap):
    """Where they are. What isn't installed has no tests, and that is said."""
    urls = []
    for name in os.environ.get('DLK_SERVICES', '').split():
        try:
            server = {'zookeeper': zookeeper_server.single, 'etcd': etcd_server.Cluster,
                      'postgres': Postgres}[name]()
        except Skip as why:
            tap.line(True, name, after=f' # SKIP {why}')
            continue
        atexit.register(server.stop)
        urls.append(server.url)
    return ' '.join(urls)


def main():
    tap = Tap(Watch())
    folder, *flags, packages = sys.argv[1:]
    golang.fetch(folder)
    run_all(tap, folder, flags, packages, DLOCK_TEST_URLS=start_services(tap))
    print(f'1..{tap.number}')
    return 1 if tap.failures else 0


if __name__ == '__main__':
    sys.exit(main())

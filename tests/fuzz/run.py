#!/usr/bin/env python3
"""The long fuzzing run: every target, its share of the executions, as many side by side as there
are cores; what each did and the sum of it as TAP.

    run.py CORPUS MILLIONS NAME=PROGRAM...
"""
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
import time

# Of a thousand. What is fast gets most; the API opens clients and starts threads each time, and
# others connect to servers.
SHARES = {'uri': 234, 'conf': 30, 'name': 280, 'memcached': 50, 'resp': 250, 'image': 20,
          'told': 20, 'ticket': 40, 'api': 20, 'sentinel': 2, 'cluster': 2,
          'zookeeper': 10, 'zknames': 12, 'etcd': 10, 'grpc': 20}
PIECE = 700_000       # executions of one process; a target with more runs in several, by seed
SLOWEST_FIRST = ['cluster', 'sentinel', 'api', 'conf', 'image', 'zookeeper', 'etcd', 'grpc', 'resp',
                 'told', 'uri', 'ticket', 'memcached', 'zknames', 'name']

CORPUS, TOTAL = sys.argv[1], int(float(sys.argv[2]) * 1_000_000)
PROGRAMS = dict(arg.split('=', 1) for arg in sys.argv[3:])
PIECES_AT_LEAST = {'sentinel': 2, 'cluster': 2, 'api': 4, 'image': 2, 'conf': 2}
# The short runs of `make test` look for uses after return; here it would take half of the time.
ENV = {**os.environ, 'ASAN_OPTIONS': 'detect_stack_use_after_return=0'}


def pieces():
    """(target, executions, seed), the slow ones first so that none is left alone at the end."""
    for name in (name for name in SLOWEST_FIRST if name in PROGRAMS):
        execs = TOTAL * SHARES[name] // 1000
        count = max(-(-execs // PIECE), PIECES_AT_LEAST.get(name, 1))
        for seed in range(count):
            yield name, -(-execs // count), seed + 1


def run(piece):
    name, execs, seed = piece
    with tempfile.TemporaryDirectory() as findings:
        return piece, subprocess.run(
            [PROGRAMS[name], '--corpus', f'{CORPUS}/{name}', '--execs', str(execs),
             '--seed', str(seed), '--findings', findings],
            capture_output=True, text=True, errors='replace', stdin=subprocess.DEVNULL, env=ENV)


def main():
    if set(PROGRAMS) != set(SHARES) or set(PROGRAMS) != set(SLOWEST_FIRST):
        raise SystemExit(f'Not the targets that have a share: {sorted(PROGRAMS)}')
    began, done, failed, reported = time.monotonic(), 0, False, 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for (name, execs, seed), result in pool.map(run, list(pieces())):
            reported += 1
            fine = result.returncode == 0
            print(f'{"ok" if fine else "not ok"} {reported} - {execs} executions of {name}, '
                  f'seed {seed}, without a finding', flush=True)
            if fine:
                done += execs
                print(*re.findall(r'^# \w+: \d+ executions.*', result.stdout, re.M), sep='\n')
            else:
                failed = True
                print(*(f'# {line}' for line in result.stderr.splitlines()[-60:]), sep='\n')
    seconds = time.monotonic() - began
    print(f'# fuzz: {done} executions over {len(PROGRAMS)} targets in {seconds:.0f} s')
    print(f'1..{reported}')
    return failed


sys.exit(main())

#!/usr/bin/env python3
"""The models of docs/spec, each gone through to its end by Spin: every state of every bound below
is visited, and each planted mistake is found. check_models.py quick|full SPIN CC…"""
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import tap

SPEC = Path(__file__).resolve().parent.parent.parent / 'docs' / 'spec'
MEMORY_MB = 12000
STORED = re.compile(r'^\s*(\S+) states, stored', re.M)
ERRORS = re.compile(r'errors: (\d+)')
ASSERTION = re.compile(r'pan:\d+: (.*)')


@dataclass
class Row:
    """One run: what the model is, and how it ends."""
    name: str
    model: str
    defines: str
    wrong: bool = False    # a mistake is planted
    ends: bool = False     # looks for runs without an end, instead of for wrong states
    full: bool = False     # for make proof


def sound(name, model, defines, **more):
    return Row(name, model, defines, **more)


def wrong(mistake, model, defines, **more):
    return Row(f'{mistake} is found', model, f'{defines} -D{mistake}', wrong=True, **more)


TWO = '-DCLIENTS=2'
ONE_EACH = '-DCLIENTS=2 -DTHREADS=1 -DTICKS=1 -DCUTS=1 -DLOSSES=1 -DSTOPS=1'
ROWS = [
    # Hand-over as it is.
    sound('two clients, again and again', 'lock', f'{TWO} -DROUNDS=2 -DRUN=2'),
    sound('two clients, stops, deaths, wipes, cancels', 'lock',
          f'{TWO} -DSTOPS=1 -DDEATHS=1 -DWIPES=1 -DCANCELS=1'),
    sound('two clients, CANCELS=1', 'lock', f'{TWO} -DCANCELS=1'),
    sound('three clients of one thread, CANCELS=1', 'lock', '-DTHREADS=1 -DCANCELS=1'),
    sound('every run has an end', 'lock', ONE_EACH, ends=True),
    wrong('WRONG_FROM_ANSWER', 'lock', f'{TWO} -DTICKS=2'),
    wrong('WRONG_TOLD_HOLDS', 'lock', f'{TWO} -DTICKS=1'),
    wrong('WRONG_TURN_MISSED', 'lock', TWO),
    wrong('WRONG_OURS_FIRST', 'lock', f'{TWO} -DROUNDS=2 -DRUN=2'),
    # Kept.
    sound('two who keep, again and again', 'lock', f'-DKEEP {TWO} -DROUNDS=2'),
    sound('two who keep, stops, deaths, wipes, cancels', 'lock',
          f'-DKEEP {TWO} -DSTOPS=1 -DDEATHS=1 -DWIPES=1 -DCANCELS=1'),
    sound('two who keep, CANCELS=1', 'lock', f'-DKEEP {TWO} -DCANCELS=1'),
    sound('three of one thread who keep, CANCELS=1', 'lock', '-DKEEP -DTHREADS=1 -DCANCELS=1'),
    sound('every run of those who keep has an end', 'lock', f'-DKEEP -DENDS=1 {ONE_EACH}',
          ends=True),
    wrong('WRONG_UNASKED', 'lock', f'-DKEEP {TWO}'),
    wrong('WRONG_ASKS_ONCE', 'lock', f'-DKEEP {TWO} -DLOSSES=1'),
    wrong('WRONG_OVERTAKEN', 'lock', f'-DKEEP {TWO}'),
    wrong('WRONG_LINE_UNTOLD', 'lock', '-DKEEP'),
    wrong('WRONG_RUN_ON', 'lock', f'-DKEEP {TWO} -DROUNDS=2'),
    wrong('WRONG_BEYOND_LEASE', 'lock', f'-DKEEP {TWO} -DTICKS=2'),
    wrong('WRONG_FROM_ANSWER', 'lock', f'-DKEEP {TWO} -DTICKS=2'),
    wrong('WRONG_TOKEN_SHARED', 'lock', f'-DKEEP {TWO}'),
    wrong('WRONG_NOT_RESERVED', 'lock', f'-DKEEP {TWO} -DENDS=1'),
    # Tokens.
    sound('two clients', 'tokens', f'{TWO} -DEND=7'),
    wrong('WRONG_AHEAD', 'tokens', f'{TWO} -DEND=7'),
    sound('two clients, ROLLBACKS=1', 'tokens', f'{TWO} -DEND=7 -DWIPES=1 -DROLLBACKS=1'),
    wrong('WRONG_FROM_LAST', 'tokens', f'{TWO} -DEND=7 -DROLLBACKS=1'),
    wrong('WRONG_NOT_RESERVED', 'tokens', f'{TWO} -DEND=7'),
    wrong('WRONG_MISSING_IS_ZERO', 'tokens', f'{TWO} -DEND=7'),
    wrong('WRONG_SMALL_IS_OURS', 'tokens', f'{TWO} -DEND=7'),
    wrong('WRONG_SHARED', 'tokens', f'{TWO} -DEND=7'),
    # At length: three clients of two threads, and one thing that goes wrong, wherever it can.
    sound('three clients', 'tokens', '', full=True),
    sound('three clients of two threads, hand-over, nothing goes wrong', 'lock', '', full=True),
    sound('three clients of two threads, hand-over, WIPES=1', 'lock', '-DWIPES=1', full=True),
    sound('three clients of two threads, hand-over, LOSSES=1', 'lock', '-DLOSSES=1', full=True),
    sound('three clients of two threads, hand-over, DEATHS=1', 'lock', '-DDEATHS=1', full=True),
    sound('three clients of two threads, hand-over, STOPS=1', 'lock', '-DSTOPS=1', full=True),
    sound('three clients of two threads, hand-over, CANCELS=1', 'lock', '-DCANCELS=1', full=True),
    sound('three clients of two threads, hand-over, CUTS=1', 'lock', '-DCUTS=1', full=True),
    sound('three clients of two threads, kept, nothing goes wrong', 'lock', '-DKEEP', full=True),
    sound('three clients of two threads, kept, WIPES=1', 'lock', '-DKEEP -DWIPES=1', full=True),
    sound('three clients of two threads, kept, LOSSES=1', 'lock', '-DKEEP -DLOSSES=1', full=True),
    sound('three clients of two threads, kept, DEATHS=1', 'lock', '-DKEEP -DDEATHS=1', full=True),
    sound('three clients of two threads, kept, ENDS=1', 'lock', '-DKEEP -DENDS=1', full=True),
    sound('three clients of two threads, kept, CANCELS=1', 'lock', '-DKEEP -DCANCELS=1', full=True),
    sound('three clients of two threads, kept, TICKS=1', 'lock', '-DKEEP -DTICKS=1', full=True),
]


def verify(row, spin, compiler):
    """Makes the verifier of a row, runs it, and returns what it said."""
    defines = row.defines.split()
    with tempfile.TemporaryDirectory(prefix='dlock-spec-') as folder:
        tap.run([spin, '-a', *defines, SPEC / f'{row.model}.pml'], cwd=folder)
        kind = ['-DNP'] if row.ends else ['-DSAFETY']
        tap.run([*compiler, '-O1', '-w', *kind, '-DCOLLAPSE', f'-DMEMLIM={MEMORY_MB}',
                 '-DVECTORSZ=2048', '-o', 'pan', 'pan.c'], cwd=folder)
        options = ['-m2000000', '-w26' if row.full else '-w22', *(['-l'] if row.ends else [])]
        done = subprocess.run(['./pan', *options], cwd=folder, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
    return done.stdout


def judge(row, said):
    errors = ERRORS.search(said)
    if not errors:
        raise AssertionError(f'no verdict:\n{said}')
    found = ASSERTION.search(said)
    if row.wrong:
        if errors.group(1) == '0':
            raise AssertionError(f'the mistake was not found:\n{said}')
        print(f'# {row.name}: {found.group(1) if found else "?"}')
        return
    if errors.group(1) != '0':
        raise AssertionError(f'{found.group(1) if found else "?"}\n{said}')
    for half in ('max search depth too small', 'out of memory', 'Search not completed'):
        if half in said:
            raise AssertionError(f'not gone through to the end: {half}\n{said}')
    print(f'# {row.name}: {float(STORED.search(said).group(1)):,.0f} states')


def main():
    amount, spin, compiler = sys.argv[1], sys.argv[2], sys.argv[3:]
    rows = [row for row in ROWS if not row.full or amount == 'full']
    return tap.main([(f'{row.model}: {row.name}',
                      lambda row=row: judge(row, verify(row, spin, compiler))) for row in rows])


if __name__ == '__main__':
    sys.exit(main())

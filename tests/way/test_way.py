#!/usr/bin/env python3
"""The way of an acquire, and of a release, through the library: which files, in which order.

    tests/way/test_way.py build/tests/way/way                      on a Redis of its own
    tests/way/test_way.py build/tests/way/way URI [mutex|read|write]     only shows it

The test is that on Redis few files are passed: whoever follows a lock with a finger reads so many.
It is a lock that nobody else wants, on a connection that is there, in a program with one thread.
Not counted are headers, and util/, which knows nothing of locks.
"""
import os
import subprocess
import sys
from pathlib import Path

import servers
import tap

LIBRARY = Path(__file__).resolve().parent.parent.parent / 'libdlock'
MOST = {'acquire': 18, 'release': 19}
LEAST = 10
TRIES = 5
FORBIDDEN = 77


def files_of(program, addresses):
    """The file of the library that each address was compiled from. It is known by the end of its
    path: what a cache of compilers gives says where another build was."""
    unique = sorted(set(addresses))
    said = subprocess.run(['addr2line', '-e', program], input='\n'.join(unique), text=True,
                          capture_output=True, check=True).stdout.splitlines()
    files = {}
    for address, line in zip(unique, said, strict=True):
        _, known, file = os.path.normpath(line.rpartition(':')[0]).rpartition('/libdlock/')
        if known and (LIBRARY / file).is_file():
            files[address] = file
    return files


def way(program, uri, kind, call):
    """The files in the order in which they are entered, and what is counted besides."""
    done = subprocess.run([program, uri, kind, call], text=True, capture_output=True, check=False)
    if done.returncode == FORBIDDEN:
        raise tap.Skip(done.stderr.strip())
    if done.returncode != 0:
        raise AssertionError(f'{call}: {done.stderr.strip()}')
    lines = done.stdout.splitlines()
    addresses = [line for line in lines if line.startswith('0x')]
    files, entered = files_of(program, addresses), []
    for address in addresses:
        file = files.get(address, '')
        if file.endswith('.c') and not file.startswith('util/') and entered[-1:] != [file]:
            entered.append(file)
    return entered, [line for line in lines if not line.startswith('0x')]


def show(call, entered, counts):
    """Prints them, each where it is entered first."""
    files = list(dict.fromkeys(entered))
    folders = [os.path.dirname(file) for file in entered]
    changes = sum(a != b for a, b in zip(folders, folders[1:]))
    print(f'# {call}: {len(files)} files, {changes} changes of folder; {", ".join(counts)}')
    print(f'#   {" ".join(files)}', flush=True)
    return files


def passes_few(program, call):
    """Several tries: where an answer is late, who waits for it passes further files."""
    server = servers.Redis()
    try:
        for _ in range(TRIES):
            files = show(call, *way(program, server.url, 'mutex', call))
            if len(files) <= MOST[call]:
                break
    finally:
        server.stop()
    # Few would be a mistake of the test.
    if not LEAST <= len(files) <= MOST[call]:
        raise AssertionError(f'{call} passes {len(files)} files, not {LEAST} to {MOST[call]}')


def main():
    program, *what = sys.argv[1:]
    if what:
        uri, kind = (*what, 'mutex')[:2]
        for call in MOST:
            entered, counts = way(program, uri, kind, call)
            show(call, entered, counts)
            print(f'#   all of it: {" ".join(entered)}')
        return 0
    return tap.main([(f'{call}_on_redis_passes_at_most_{most}_files',
                      lambda call=call: passes_few(program, call)) for call, most in MOST.items()])


if __name__ == '__main__':
    sys.exit(main())

"""TAP for the tests written in Python: each function is one subtest and its name the promise.

A test that fails while the machine stood still has shown nothing: it is void, said to be so, and
tried again (see awake.h, and harness.h for those in C).
"""
import math
import subprocess
import time
import traceback

from awake import STALLED_S, Watch

TRIES_MAX = 6


class Skip(Exception):
    """The machine lacks what this test needs; the text says what."""


class Broken(AssertionError):
    """A promise that no clock excuses: the test isn't tried again. But for leases of @lease_s: a
    machine that stood still for longer has ended them."""

    def __init__(self, text, lease_s=math.inf):
        super().__init__(text)
        self.lease_s = lease_s


def run(argv, **options):
    """Runs a command without a terminal and returns its output; raises with it on failure."""
    options.setdefault('stdin', subprocess.DEVNULL)
    done = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors='replace', check=False,
                          **options)
    if done.returncode != 0:
        raise AssertionError(f'{" ".join(map(str, argv))}: exit {done.returncode}\n{done.stdout}')
    return done.stdout


def equal(what, got, want):
    if got != want:
        raise AssertionError(f'{what}: got {got!r}, want {want!r}')


def passes(name, test, tries_left, watch, afresh):
    """Runs a test, again where a try is void; returns what its line says behind its name, or None
    when it has failed."""
    began = time.time()
    try:
        test()
        return ''
    except Skip as why:
        return f' # SKIP {why}'
    except Exception as why:  # whatever it is, it is this test's failure and not the others'
        longest = watch.longest_since(began)
        text = str(why) if isinstance(why, AssertionError) else traceback.format_exc()
        for line in text.splitlines():
            print(f'# {line}', flush=True)
        least = why.lease_s if isinstance(why, Broken) else STALLED_S
        if isinstance(why, Broken) and longest < least:
            print('# no clock excuses this', flush=True)   # tools/tally.py knows it by that
        if longest < least or tries_left == 0:
            return None
    print(f'# void: the machine stood still for {longest * 1000:.0f} ms; {name} is tried again',
          flush=True)
    if afresh:
        afresh()
    return passes(name, test, tries_left - 1, watch, afresh)


def main(tests, afresh=None):
    """Runs (name, function) pairs and returns the exit code of the program. @afresh clears away
    what a failed test may have left behind, before it is tried again."""
    failures, watch = 0, Watch()
    for number, (name, test) in enumerate(tests, 1):
        said = passes(name, test, TRIES_MAX - 1, watch, afresh)
        failures += said is None
        print(f'{"not " if said is None else ""}ok {number} - {name}{said or ""}', flush=True)
    print(f'1..{len(tests)}', flush=True)
    return 1 if failures else 0

#!/usr/bin/env python3
"""Each bug that is put back must be caught: run.py SOURCE [PART OF A NAME ...]

A bug is a patch in this folder. Its lines before the first "diff --git" say, as comments:

    # what it is, in a sentence
    # caught by: NAME OF A TEST IN MESON[: NAME OF A SUBTEST | : ARGUMENTS]
    # saying: WHAT THE TEST HAS TO PRINT ABOUT IT

the second as often as there are tests that must catch it, the third seldom. Arguments begin with
"--" or a digit; the test's program gets them behind its own.

The tree is copied, built without optimization, and each bug is put in, looked for by the test it
names, and taken out again; of all else nothing is built. Caught is what makes a subtest fail, the
named one if one is named, or the whole test crash or run out of time; with arguments a subtest has
to fail. A bug that no longer applies fails: it has to be planted where its code is now, or to go
with it.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / 'harness'))
import tap  # noqa: E402  (where it is, is known only now)
from tree import copy  # noqa: E402

# What a bug looks like to Meson: "not ok", killed by a signal or by the test's own timeout.
CAUGHT = ('FAIL', 'ERROR', 'TIMEOUT', 'INTERRUPT')
WITH = ['-Dtests=enabled', '-Dpeers=disabled', '-Dbindings=disabled']


@dataclass
class Bug:
    patch: Path
    what: str
    test: str
    only: str     # of its subtests, or arguments
    saying: str

    def name(self):
        return f'{self.patch.stem}_is_caught_by_{self.test}'

    def is_seen_by(self, failed):
        """Is it among what has failed? A test that crashed names nothing; but nor does one that
        doesn't know its arguments."""
        if re.match(r'--|\d', self.only):
            return bool(failed)
        return not failed or not self.only or self.only in failed


def read(patch):
    """As many as there are tests which must catch it."""
    head = patch.read_text(encoding='utf-8').split('diff --git')[0]
    says = [line[1:].strip() for line in head.splitlines() if line.startswith('#')]
    caught = [re.fullmatch(r'caught by: ([^:]+)(?:: (.+))?', line) for line in says]
    named = [found for found in caught if found]
    if not named or caught[0]:
        raise AssertionError(f'{patch.name} begins with what it is and with "# caught by: TEST"')
    saying = [line.removeprefix('saying: ') for line in says if line.startswith('saying: ')]
    return [Bug(patch, says[0], found[1].strip(), (found[2] or '').strip(), ''.join(saying))
            for found in named]


def result_of(build, bug):
    """What Meson says of the test with the bug in, and what the test printed."""
    results = build / 'meson-logs' / 'testlog.json'
    results.unlink(missing_ok=True)
    only = ['--test-args', bug.only] if bug.only else []
    ran = subprocess.run(['meson', 'test', '-C', build, '--num-processes', '1', *only, bug.test],
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False,
                         stderr=subprocess.STDOUT, text=True, errors='replace')
    if not results.exists() or not results.read_text(encoding='utf-8').strip():
        raise AssertionError(f'{bug.test} did not run:\n{ran.stdout[-2000:]}')
    entry = json.loads(results.read_text(encoding='utf-8').splitlines()[0])
    return entry['result'], entry.get('stdout', '')


def caught(tree, build, bug):
    began = time.monotonic()
    tap.run(['git', 'apply', '--whitespace=nowarn', bug.patch], cwd=tree)
    try:
        result, said = result_of(build, bug)
    finally:
        tap.run(['git', 'apply', '--whitespace=nowarn', '-R', bug.patch], cwd=tree)
    failed = re.findall(r'^not ok (?:\d+ )?- (.+)$', said, re.MULTILINE)
    if result not in CAUGHT or not bug.is_seen_by(failed):
        raise AssertionError(f'{bug.what}: not caught by {bug.test} {bug.only}: {result}\n'
                             + said[-2000:])
    if bug.saying not in said:
        raise AssertionError(f'{bug.what}: caught, but nowhere is said "{bug.saying}":\n'
                             + said[-2000:])
    print(f'# {bug.what}: {result.lower()}{": " if failed else ""}{", ".join(failed[:3])}'
          f' ({time.monotonic() - began:.0f} s)', flush=True)


def main():
    source, parts = Path(sys.argv[1]).resolve(), sys.argv[2:]
    patches = sorted(HERE.glob('*.patch'))
    bugs = [bug for patch in patches for bug in read(patch)
            if not parts or any(part in bug.name() for part in parts)]
    with tempfile.TemporaryDirectory(prefix='dlock-planted-') as folder:
        tree = Path(folder) / 'tree'
        tree.mkdir()
        copy(source, tree)
        tap.run(['git', 'init', '-q'], cwd=tree)  # git apply is told where its tree begins
        build = tree / 'build'
        tap.run(['meson', 'setup', '--buildtype=plain', '-Dc_args=-O1', *WITH, build], cwd=tree)
        return tap.main([(bug.name(), lambda bug=bug: caught(tree, build, bug)) for bug in bugs])


if __name__ == '__main__':
    sys.exit(main())

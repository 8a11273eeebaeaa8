#!/usr/bin/env python3
"""The fuzzing driver finds what is planted for it: a broken property, a hang, a leak. It says so,
writes the input down, and replaying the file shows the same again.

    test_driver.py fuzz_planted [leaks]
"""
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM, LEAKS = sys.argv[1], 'leaks' in sys.argv[2:]
failed, reported = False, 0


def run(*args):
    return subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=True,
                          errors='replace', timeout=120)


def check(name, held, shown):
    global failed, reported
    reported += 1
    print(f'{"ok" if held else "not ok"} {reported} - {name}')
    if not held:
        failed = True
        print(*(f'# {line}' for line in shown.splitlines()[-20:]), sep='\n')


with tempfile.TemporaryDirectory() as name:
    top = Path(name)
    corpus, findings = top / 'corpus', top / 'findings'
    corpus.mkdir()
    findings.mkdir()
    (corpus / 'near').write_bytes(b'loc-----')
    (corpus / 'far').write_bytes(b'--------')
    began = ['--corpus', corpus, '--findings', findings]

    first = run(*began, '--execs', 2_000_000, '--seed', 1)
    files = list(findings.iterdir())
    check('a broken property is found by mutation', first.returncode != 0 and
          'a crash' in first.stderr, first.stderr)
    check('its input is written to one file', len(files) == 1 and
          files[0].read_bytes()[:5] == b'lockc' and files[0].read_bytes().hex() in first.stderr,
          first.stderr)
    again = run(*files)
    check('replaying the file shows it again', again.returncode != 0 and
          'a crash' in again.stderr, again.stderr)
    second = run(*began, '--execs', 2_000_000, '--seed', 1)
    check('the same seed finds the same input', first.stderr == second.stderr, second.stderr)

    fine = run(*began, '--execs', 10, '--seed', 3)
    check('a run without a finding says how many executions it had', fine.returncode == 0 and
          '10 executions' in fine.stdout and fine.stdout.rstrip().endswith('1..2'), fine.stdout)

    hang = top / 'hang'
    hang.write_bytes(b'hangs!')
    stuck = run('--limit', 2, hang)
    check('an input that does not end is told', stuck.returncode != 0 and
          "doesn't end" in stuck.stderr and b'hangs!'.hex() in stuck.stderr, stuck.stderr)
    if LEAKS:
        leak = top / 'leak'
        leak.write_bytes(b'leaks!')
        lost = run(leak)
        check('an input that leaves memory behind is told', lost.returncode != 0 and
              'leaves memory behind' in lost.stderr, lost.stderr)

print(f'1..{reported}')
sys.exit(failed)

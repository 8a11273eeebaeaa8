"""The nemesis as a test: a short run or (NEMESIS_MINUTES) a long one must violate nothing, and
what is planted must be found."""
import os
import shutil
import subprocess
import sys
import tempfile

import tap

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = sys.argv[1]
# What a machine that stands still may be the cause of; anything else that is found has no excuse.
LATE = ('was overtaken by', 'waits since', 'still believes in')
MINUTES = float(os.environ.get('NEMESIS_MINUTES', 0.25))


def nemesis(*arguments):
    """Runs it: (exit code, what it said)."""
    done = subprocess.run([sys.executable, os.path.join(HERE, 'nemesis.py'), '--build', BUILD,
                           *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


def needs():
    if shutil.which('redis-server') is None:
        raise tap.Skip('redis-server is not installed')
    if not os.path.exists(os.path.join(BUILD, 'tests', 'histories', 'linearizable')):
        raise tap.Skip('Go is not installed')


def the_same_seed_is_the_same_schedule():
    plans = [nemesis('--schedule', '--seed', seed, '--seconds', '300') for seed in '445']
    tap.equal('exit codes', [code for code, _ in plans], [0, 0, 0])
    if plans[0] != plans[1] or plans[0] == plans[2]:
        raise AssertionError(f'{plans[0][1]}\nand\n{plans[1][1]}\nand\n{plans[2][1]}')
    if plans[0][1].count(' s  ') < 120:
        raise AssertionError(f'too few faults in 300 s:\n{plans[0][1]}')


def a_violation_ends_the_run_and_everything_about_it_is_kept():
    needs()
    scratch = tempfile.mkdtemp(prefix='dlock-nemesis-test-')
    try:
        code, said = nemesis('--plant', '--seed', '1', '--seconds', '60', '--backends', 'redis',
                             '--keep', os.path.join(scratch, 'kept'))
        tap.equal(f'exit code\n{said}', code, 1)
        for word in ('VIOLATION', 'hold it at once', 'seed 1'):
            if word not in said:
                raise AssertionError(f'{word} is not in\n{said}')
        kept = os.listdir(os.path.join(scratch, 'kept', 'round-0'))
        for name in ('nemesis.log', 'schedule.txt', 'proxy.log', 'worker-1.history'):
            if name not in kept:
                raise AssertionError(f'{name} is not among {kept}')
    finally:
        shutil.rmtree(scratch)


def faults_every_two_seconds_violate_nothing():
    needs()
    code, said = nemesis('--minutes', str(MINUTES), '--slack-ms', '1500')
    found = [line for line in said.splitlines() if 'VIOLATION' in line]
    if any(not any(word in line for word in LATE) for line in found):
        raise tap.Broken(said)
    if code != 0:
        raise AssertionError(said)
    for line in said.splitlines():
        print(f'# {line}', flush=True)


if __name__ == '__main__':
    TESTS = [faults_every_two_seconds_violate_nothing]
    if 'NEMESIS_MINUTES' not in os.environ:
        TESTS = [the_same_seed_is_the_same_schedule,
                 a_violation_ends_the_run_and_everything_about_it_is_kept, *TESTS]
    sys.exit(tap.main([(test.__name__, test) for test in TESTS]))

"""Each bug of a Redlock that is put back must be caught, or the simulator proves nothing.

    planted.py SIM-REDLOCK POINT.H
"""
import re
import subprocess
import sys

SIM, HEADER = sys.argv[1:]
BUGS = ['FASTEST_NODE', 'RELEASE_WHERE_GRANTED', 'MINORITY_MENDED']
SEEDS = 3000  # at most; each is caught within a few hundred


def number_of(bug):
    """Its place in the enum."""
    with open(HEADER, encoding='utf-8') as file:
        return re.findall(r'^ +DLK_BUG_([A-Z_]+),', file.read(), re.MULTILINE).index(bug)


def main():
    missed = 0
    print(f'1..{len(BUGS)}')
    for number, bug in enumerate(BUGS, 1):
        done = subprocess.run([SIM, str(SEEDS), str(number_of(bug))], capture_output=True,
                              text=True, check=False)
        caught = done.returncode == 1 and 'not ok 1' in done.stdout
        print('\n'.join(line for line in done.stdout.splitlines() if line.startswith('#')))
        print(f"{'ok' if caught else 'not ok'} {number} - {bug.lower()}_is_caught", flush=True)
        missed += not caught
    return 1 if missed else 0


if __name__ == '__main__':
    sys.exit(main())

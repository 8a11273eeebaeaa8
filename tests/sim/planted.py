"""Each bug that is put back must be caught, and told as a story: a simulator that misses one of
them proves nothing.

    planted.py SIM-PLANTED POINT.H [etcd]     etcd: its own, and no others
"""
import concurrent.futures
import os
import re
import subprocess
import sys

SIM, HEADER, *ABOUT = sys.argv[1:]
SECONDS = 120  # at most; most are caught within one

# Those of decisions, and of which kind of lock, where it matters; tests/crash has those of the
# table.
BUGS = {
    'VALIDITY_FROM_ANSWER': None, 'RETRY_WITH_NEW_OWNER': None, 'GRANT_WITHOUT_RECHECK': None,
    'RELEASE_HITS_NEXT': None, 'RENEWAL_RECREATES': 'mutex', 'CANCEL_FORGETS': None,
    'LOST_WAKE_UP': 'mutex', 'WALL_CLOCK': None, 'RENEWAL_OUTLIVES': None,
    'TOKEN_AFTER_WIPE': 'mutex', 'PLACE_IS_KEPT': 'fair', 'HANDOVER_UNCLAIMED': 'handover',
    'READERS_UNMARKED': 'rw', 'REPLICAS_UNAWAITED': 'replicated',
}
# Those of sessions and nodes, and a watch that fires between the look and the wait.
ON_ZOOKEEPER = {
    'WAKE_IS_TURN': 'zookeeper', 'OLD_SESSIONS_NODE': 'zookeeper', 'WRONG_WRITER': 'curator-rw',
    'LOST_WAKE_UP': 'zookeeper',
}
# Those of items that may be another's by now.
ON_MEMCACHED = {
    'RENEWAL_BY_TOUCH': 'mc-mutex', 'PLAIN_DELETE': 'mc-mutex', 'OLD_CONNECTIONS_CAS': 'mc-mutex',
    'LAG_OF_A_SECOND': 'mc-mutex',
}
# Those of leases and keys.
ON_ETCD = {
    'GRANT_AFTER_EXPIRY': 'etcd-election', 'DELETE_UNGUARDED': 'etcd', 'RENEWAL_UNPROVED': 'etcd',
    'WAKE_IS_TURN': 'etcd',
}
# What is caught is the bug, and nothing that this build has by itself.
WITHOUT = (['5'], ['0', '--runs', '48', '--mode', 'zookeeper'],
           ['0', '--runs', '28', '--mode', 'memcached'])
WITHOUT_ON_ETCD = (['0', '--runs', '32', '--mode', 'etcd'],)


def numbers():
    """What point.h calls the bugs, in the order of its enum."""
    with open(HEADER, encoding='utf-8') as file:
        names = re.findall(r'^ +DLK_BUG_([A-Z_]+),', file.read(), re.MULTILINE)
    return {name: number for number, name in enumerate(names)}


def run(number, kind):
    about = ['--mode', kind] if kind else []
    return subprocess.run([SIM, str(SECONDS), '--plant', str(number), *about],
                          capture_output=True, text=True, check=False)


def story(output):
    """The failure, what it was shrunk to, and its time-line, as comments of TAP."""
    told = re.search(r'^# failed.*?(?=^# operations)', output, re.MULTILINE | re.DOTALL)
    lines = told.group().splitlines() if told else ['no story']
    return '\n'.join(line if line.startswith('#') else f'# {line}' for line in lines)


def rows_and_clean():
    if ABOUT == ['etcd']:
        return ([(bug, kind, f'{bug.lower()}_is_caught_on_etcd') for bug, kind in ON_ETCD.items()],
                WITHOUT_ON_ETCD)
    rows = [(bug, kind, f'{bug.lower()}_is_caught') for bug, kind in BUGS.items()]
    rows += [(bug, kind, f'{bug.lower()}_is_caught_on_zookeeper')
             for bug, kind in ON_ZOOKEEPER.items()]
    rows += [(bug, kind, f'{bug.lower()}_is_caught_on_memcached')
             for bug, kind in ON_MEMCACHED.items()]
    return rows, WITHOUT


def main():
    number_of, missed = numbers(), 0
    rows, without = rows_and_clean()
    print(f'1..{len(rows) + len(without)}')
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        runs = pool.map(run, (number_of[row[0]] for row in rows), (row[1] for row in rows))
        for number, (row, done) in enumerate(zip(rows, runs), 1):
            caught = done.returncode == 1 and 'not ok 1 - no_seed_breaks_a_promise' in done.stdout
            print(story(done.stdout))
            print(f"{'ok' if caught else 'not ok'} {number} - {row[2]}", flush=True)
            missed += not caught
    for number, how in enumerate(without, len(rows) + 1):
        clean = subprocess.run([SIM, *how, '--plant', '0'], capture_output=True, check=False)
        print(f"{'not ok' if clean.returncode else 'ok'} {number} - without_a_bug_there_is_no_alarm"
              f"{'_on_' + how[-1] if '--mode' in how else ''}", flush=True)
        missed += clean.returncode != 0
    return 1 if missed else 0


if __name__ == '__main__':
    sys.exit(main())

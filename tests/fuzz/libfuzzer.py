#!/usr/bin/env python3
"""Every target under libFuzzer, for so many seconds each, as many side by side as there are cores.
What it finds that reaches more is kept in GROWN, and is where the next run goes on.

    libfuzzer.py CORPUS GROWN SECONDS NAME=PROGRAM...
"""
import concurrent.futures
import os
import re
import subprocess
import sys
from pathlib import Path

CORPUS, GROWN, SECONDS = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
PROGRAMS = [arg.split('=', 1) for arg in sys.argv[4:]]


def run(target):
    name, program = target
    grown, findings = GROWN / name, GROWN / f'{name}-findings'
    grown.mkdir(parents=True, exist_ok=True)
    findings.mkdir(exist_ok=True)
    # No more of the same kind of memory than ASan has to keep, nor an input that takes for ever.
    return name, subprocess.run(
        [program, f'-max_total_time={SECONDS}', '-timeout=20', '-rss_limit_mb=2048',
         '-malloc_limit_mb=1024', '-use_value_profile=1', '-print_final_stats=1',
         f'-artifact_prefix={findings}/', grown, CORPUS / name],
        capture_output=True, text=True, errors='replace', stdin=subprocess.DEVNULL, check=False)


def number(of, said):
    found = re.findall(of, said)
    return int(found[-1]) if found else 0


def main():
    total, failed, reported = 0, False, 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for name, ran in pool.map(run, PROGRAMS):
            reported += 1
            done = number(r'stat::number_of_executed_units: (\d+)', ran.stderr)
            # One that has run nothing has shown nothing.
            fine = ran.returncode == 0 and done > 0
            failed |= not fine
            total += done
            print(f'{"ok" if fine else "not ok"} {reported} - libFuzzer finds nothing in {name}',
                  flush=True)
            print(f'# {name}: {done} executions, {number(r" cov: ([0-9]+)", ran.stderr)} edges, '
                  f'{number(r" corp: ([0-9]+)", ran.stderr)} inputs')
            if not fine:
                print(*(f'# {line}' for line in ran.stderr.splitlines()[-60:]), sep='\n')
    print(f'# libFuzzer: {total} executions over {len(PROGRAMS)} targets, {SECONDS} s each')
    print(f'1..{reported}')
    return failed


sys.exit(main())

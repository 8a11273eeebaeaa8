#!/usr/bin/env python3
"""What becomes of an explorer whose workers die: test_workers.py EXPLORE"""
import os
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'harness'))
import tap  # noqa: E402  (where it is, is known only now)

EXPLORE = sys.argv[1]
SCENE = 'a_renewal_comes_in_time'


def workers_of(explorer):
    children = Path(f'/proc/{explorer.pid}/task/{explorer.pid}/children')
    try:
        return [int(pid) for pid in children.read_text(encoding='ascii').split()]
    except FileNotFoundError:
        return []


def kill(worker):
    try:
        os.kill(worker, signal.SIGKILL)
    except ProcessLookupError:
        pass                       # it has been reaped since it was listed


def is_over(explorer):
    """Leaves it to be reaped, so its number isn't another's yet."""
    return os.waitid(os.P_PID, explorer.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)


def a_worker_that_is_killed_is_a_failed_scene_with_its_reason():
    """In the proof: there each of the scene's two passes runs for a minute, if it is left alone."""
    with subprocess.Popen([EXPLORE, SCENE], env=dict(os.environ, DLK_EXPLORE='proof'),
                          stdout=subprocess.PIPE, text=True) as explorer:
        while not is_over(explorer):
            for pid in workers_of(explorer):
                kill(pid)
        said = explorer.stdout.read().splitlines()
    tap.equal('exit', explorer.returncode, 1)
    reason = '# FAILED: its worker was killed by signal 9, Killed'
    tap.equal('what it says', said, ['1..1', reason, reason, f'not ok 1 - {SCENE}'])


def no_worker_outlives_its_explorer():
    with subprocess.Popen([EXPLORE, SCENE], env=dict(os.environ, DLK_EXPLORE='proof'),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as explorer:
        while not workers_of(explorer):
            tap.equal('over', is_over(explorer), None)
        explorer.kill()
        explorer.stderr.read()     # its end: whoever had the pipe has gone


sys.exit(tap.main([(test.__name__, test) for test in (
    a_worker_that_is_killed_is_a_failed_scene_with_its_reason,
    no_worker_outlives_its_explorer)]))

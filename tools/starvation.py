"""For how long at once the machine let somebody of ours wait for a processor; for tools/test.

The tests look at themselves (tests/harness/awake.h, starved.h) and try again where they failed for
that. This sees what they can't: a program that Meson ended by the clock on the wall, and those that
have no such harness, as Go's.
"""
import os
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'tests/harness'))
import starved  # noqa: E402 pylint: disable=wrong-import-position

EVERY_S = 0.5
PROCESSES_MAX = 1000


class Machine(threading.Thread):
    """Looks at all that this process has started, and at whether it itself wakes in time."""

    def __init__(self):
        super().__init__(daemon=True)
        self.stretches = []   # (from, to), as time.time(), of a second and more
        self.start()

    def run(self):
        look = starved.Look(PROCESSES_MAX)
        while True:
            late = look.nap(os.getpid(), EVERY_S)
            if late >= starved.STARVED_S:
                self.stretches.append((time.time() - late, time.time()))

    def longest_within(self, began, ended):
        """Of the stretches that have some of it, in seconds; 0 if there is none."""
        return max((to - since for since, to in list(self.stretches)
                    if since < ended and to > began), default=0.0)

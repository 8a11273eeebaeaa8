"""Watching how long the machine stands still, for the tests in Python; see awake.h.

A process for each core, for a virtual machine may have one of its cores stopped while the others go
on; and none of them waits for this one's interpreter, as a thread would. One more looks who of us
wants to run and doesn't, for a second or more (starved.py).
"""
import atexit
import contextlib
import mmap
import os
import signal
import time

import starved
from starved import now

NAP_S = 0.005
STALLED_S = 0.1          # what is shorter excuses nothing
STALLS_MAX = 64          # of each core, the last ones are kept
SEEN, COUNT, STALLS = range(3)
WORDS = STALLS + 2 * STALLS_MAX


class Watch:
    """Begun before anything else is: the watchers are forks of this process."""

    def __init__(self):
        cores = sorted(os.sched_getaffinity(0))
        self.words = memoryview(mmap.mmap(-1, 8 * WORDS * (len(cores) + 1))).cast('q')
        self.rows = range(0, WORDS * (len(cores) + 1), WORDS)
        self.parent, self.pids = os.getpid(), []
        for row, core in zip(self.rows, [*cores, None]):
            self.words[row + SEEN] = time.time_ns()
            pid = os.fork()
            if pid == 0 and core is None:
                self.keep_looking(row)
            elif pid == 0:
                self.keep_watch(row, core)
            self.pids.append(pid)
        atexit.register(self.end)

    def keep_looking(self, row):
        """In the child, which ends with its parent."""
        try:
            os.closerange(0, 4096)
            look = starved.Look()
            while os.getppid() == self.parent:
                # When it is to be seen next: what it misses because it gets nothing, too, counts.
                self.words[row + SEEN] = time.time_ns() + int(starved.STARVED_S * 1e9)
                late = look.nap(self.parent)
                if late >= starved.STARVED_S:
                    self.note(row, late)
        finally:
            os._exit(0)

    def keep_watch(self, row, core):
        """In the child, which ends with its parent."""
        try:
            with contextlib.suppress(OSError):  # then it watches whichever core it is on
                os.sched_setaffinity(0, [core])
            os.closerange(0, 4096)  # who reads the program's output waits for its end only
            seen = now()
            while os.getppid() == self.parent:
                time.sleep(NAP_S)
                late, seen = now() - seen - NAP_S, now()
                if late >= STALLED_S:
                    self.note(row, late)
                self.words[row + SEEN] = time.time_ns()
        finally:
            os._exit(0)

    def note(self, row, late):
        count = self.words[row + COUNT]
        place = row + STALLS + 2 * (count % STALLS_MAX)
        self.words[place], self.words[place + 1] = time.time_ns(), int(late * 1e9)
        self.words[row + COUNT] = count + 1

    def longest_since(self, began):
        """Of the stalls that ended after @began, a time.time(), or go on; in seconds."""
        longest, began = 0.0, int(began * 1e9)
        for row in self.rows:
            going_on = time.time_ns() - self.words[row + SEEN] - int(NAP_S * 1e9)
            longest = max(longest, going_on / 1e9)  # the watcher may wake after us
            for place in range(row + STALLS, row + WORDS, 2):
                if self.words[place] >= began:
                    longest = max(longest, self.words[place + 1] / 1e9)
        return longest

    def end(self):
        if os.getpid() != self.parent:
            return
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        self.pids = []

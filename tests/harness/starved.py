"""Who of a test's processes wants to run and doesn't, for awake.py; see starved.h."""
import contextlib
import os
import time

EVERY_S = 0.25
STARVED_S = 1.0     # less is usual where many share a core
PROCESSES_MAX = 64
THREADS_MAX = 64


def now():
    """Seconds, those in which the machine was suspended with them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def threads_of(pid):
    with contextlib.suppress(OSError):
        return os.listdir(f'/proc/{pid}/task')[:THREADS_MAX]
    return []


def read(pid, thread, what):
    """'' for who has ended."""
    with contextlib.suppress(OSError):
        with open(f'/proc/{pid}/task/{thread}/{what}', encoding='utf-8', errors='replace') as file:
            return file.read()
    return ''


def family(pid, most):
    """A process, and all that it and they have started, but for us; @most so many."""
    pids = [pid]
    for one in pids:
        for thread in threads_of(one):
            pids += [int(child) for child in read(one, thread, 'children').split()]
        if len(pids) > most:
            break
    return [one for one in pids[:most] if one != os.getpid()]


class Look:
    """What is seen of them all, each time."""

    def __init__(self, most=PROCESSES_MAX):
        self.most = most    # processes that are looked at
        self.waiting = {}   # thread: its state, how long it had run, and since when

    def longest(self, pid, at):
        """For how long somebody hasn't run by @at who wanted to, or stands in the kernel."""
        waiting = {}
        for one in family(pid, self.most):
            for thread in threads_of(one):
                state = read(one, thread, 'stat').rpartition(')')[2].strip()[:1]
                if state not in ('R', 'D'):
                    continue
                ran = read(one, thread, 'schedstat').partition(' ')[0]
                before = self.waiting.get(thread)
                same = before and before[:2] == (state, ran)
                waiting[thread] = (state, ran, before[2] if same else at)
        self.waiting = waiting
        return max((at - since for _, _, since in waiting.values()), default=0.0)

    def nap(self, pid, every_s=EVERY_S):
        """Returns for how long by its end somebody, or who naps, has waited for a processor."""
        began = now()
        time.sleep(every_s)
        return max(self.longest(pid, now()), now() - began - every_s)

#!/usr/bin/env python3
"""Runs files of unittest and reports in TAP, each test as one subtest: run.py FILE…

A test that fails while the machine stood still has shown nothing: it is void, said to be so, and
tried again (see tests/harness/awake.h).
"""
import faulthandler
import importlib.util
import itertools
import mmap
import os
import signal
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'harness'))
from awake import STALLED_S, Watch  # noqa: E402

# Beyond this a test hangs; where, is more than the time-out of the whole program says. What counts
# is the time in which the machine didn't stand still.
HANGS_S = 150
TICK_S = 1
TRIES_MAX = 6
SHORT_TRIES_MAX = 60  # they are over in no time


class HangWatch:
    """A process that has this one say where it is, and end, when a test takes too long."""

    def __init__(self):
        self.running = memoryview(mmap.mmap(-1, 8)).cast('q')   # the number of a test, or 0
        self.numbers = itertools.count(1)
        parent, pid = os.getpid(), os.fork()
        if pid == 0:
            try:
                os.closerange(0, 4096)   # who reads the program's output waits for its end only
                self.keep_watch(parent)
            finally:
                os._exit(0)

    def keep_watch(self, parent):
        test, spent_s = 0, 0
        while os.getppid() == parent:
            time.sleep(TICK_S)   # for however long: it is one
            spent_s = spent_s + TICK_S if test == self.running[0] != 0 else 0
            test = self.running[0]
            if spent_s > HANGS_S:
                os.kill(parent, signal.SIGABRT)   # which faulthandler hears without the GIL

    def begin(self):
        self.running[0] = next(self.numbers)

    def end(self):
        self.running[0] = 0


class Tap(unittest.TestResult):
    """A test's own name is the promise; what it printed or raised are comments before its line."""

    def __init__(self, watch, hangs):
        super().__init__()
        self.watch, self.hangs, self.began, self.tries = watch, hangs, 0.0, 0
        self.wrong, self.skipped_for, self.is_of_short_waits = [], None, False
        self.class_began, self.class_tries, self.class_is_void = 0.0, 0, False

    def run_class(self, tests):
        """The tests of a class; all of them again where its setUpClass has shown nothing."""
        self.class_tries = 0
        while True:
            self.class_began, self.class_is_void = time.time(), False
            self._previousTestClass = None   # else it counts as set up
            unittest.TestSuite(tests).run(self)
            self.class_tries += 1
            if not self.class_is_void:
                return

    def startTest(self, test):
        super().startTest(test)
        self.wrong, self.skipped_for, self.began = [], None, time.time()
        self.is_of_short_waits = False
        self.hangs.begin()

    def stopTest(self, test):
        """The only place where all that has gone wrong is known: in the test and its clean-up."""
        self.hangs.end()
        super().stopTest(test)
        self.tries += 1
        stood_s = self.watch.longest_since(self.began) if self.wrong else 0
        is_void, most = stood_s >= STALLED_S, TRIES_MAX
        why = f'the machine stood still for {stood_s * 1000:.0f} ms'
        if not is_void and self.is_of_short_waits and len(self.wrong) == 1:
            is_void, why = True, 'a server was slower than the test waits'
            most = SHORT_TRIES_MAX
        if is_void and self.tries < most:
            self.comment(self.wrong)
            print(f'# void: {why}; {test.id()} is tried again', flush=True)
            self.testsRun -= 1
            type(test)(test._testMethodName).run(self)
            return
        self.tries = 0
        self.say(test)

    @staticmethod
    def comment(texts):
        for line in '\n'.join(texts).splitlines():
            print(f'# {line}')

    def say(self, test):
        self.comment(self.wrong)
        after = '' if self.skipped_for is None else f' # SKIP {self.skipped_for}'
        name = test.id().replace('#', '')
        print(f'{"not " if self.wrong else ""}ok {self.testsRun} - {name}{after}', flush=True)
        self.failures += [(test, text) for text in self.wrong]

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.wrong.append(f'{subtest}\n{self._exc_info_to_string(err, test)}')

    def addError(self, test, err):
        if isinstance(test, unittest.TestCase):
            self.wrong.append(self._exc_info_to_string(err, test))
            # What a test says of itself whose waits are shorter than a server's answer may take.
            self.is_of_short_waits = isinstance(err[1], getattr(test, 'of_short_waits', ()))
            return
        self.wrong = [self._exc_info_to_string(err, test)]   # of setUpClass: it has no number yet
        stood_s = self.watch.longest_since(self.class_began)
        if stood_s >= STALLED_S and self.class_tries + 1 < TRIES_MAX and \
                test.id().startswith('setUpClass'):
            self.class_is_void = True
            self.comment(self.wrong)
            print(f'# void: the machine stood still for {stood_s * 1000:.0f} ms; {test.id()} is '
                  'tried again', flush=True)
            return
        self.testsRun += 1
        self.say(test)

    def addFailure(self, test, err):
        self.wrong.append(self._exc_info_to_string(err, test))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.skipped_for = reason

    def addUnexpectedSuccess(self, test):
        self.wrong.append('was expected to fail')


def load(path):
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return unittest.defaultTestLoader.loadTestsFromModule(module)


def main():
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs us may ignore it: nohup
    watch, hangs = Watch(), HangWatch()
    result = Tap(watch, hangs)
    for name in sys.argv[1:]:
        for of_class in load(Path(name).resolve()):
            result.run_class(list(of_class))
    print(f'1..{result.testsRun}', flush=True)
    left = [thread.name for thread in threading.enumerate()
            if not thread.daemon and thread is not threading.main_thread()]
    if left:
        print(f'# threads left behind: {left}')
    return 0 if result.wasSuccessful() and not left else 1


if __name__ == '__main__':
    sys.exit(main())

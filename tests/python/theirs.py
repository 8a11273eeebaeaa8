"""Others' test cases in unittest, run on locks of ours; what ran goes on the page that
tests/harness/others.py writes.

A class of theirs is adapted by a subclass that has Theirs first among its bases, and made known to
its suite by suite.add(class). The last test of a program is the page.
"""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'harness'))
import others  # noqa: E402


class Theirs:
    """Remembers which of its tests have passed."""

    def run(self, result=None):
        before = len(result.failures), result.testsRun
        done = super().run(result)
        if (len(result.failures), result.testsRun) == (before[0], before[1] + 1):
            getattr(type(self), "passed", set()).add(self._testMethodName)
        return done


class Suite(others.Suite):
    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.classes, self.stale = [], []

    def add(self, *classes):
        for each in classes:
            each.left_out = getattr(each, 'left_out', {})
            names = unittest.defaultTestLoader.getTestCaseNames(each)
            self.stale += [f'{each.__name__}.{name}' for name in each.left_out
                           if name not in names]
            each.passed, each.all = set(), [name for name in names if name not in each.left_out]
            for name in each.left_out:
                setattr(each, name, None)   # which is no test to the loader
            self.classes.append(each)

    def known(self):
        """The classes of theirs that are run, or left out as a whole."""
        return {each.theirs for each in self.classes} | {*self.whole}

    @staticmethod
    def classes_of(module):
        """Those that have tests; what begins with Base is run in its subclasses."""
        return {name for name, each in vars(module).items()
                if isinstance(each, type) and issubclass(each, unittest.TestCase)
                and each.__module__ == module.__name__ and not name.startswith('Base')}

    def test_the_page(self, case):
        """The lists and the page are true; whether all that ran has passed, the others say."""
        case.assertEqual(self.stale, [], 'left out, but not there any more')
        for each in self.classes:
            case.assertGreater(len(each.all), 0, each)
            case.assertEqual(each.passed, {*each.all}, each)
        self.parts = [others.Part(each.theirs, each.ours, sorted(each.all), each.left_out)
                      for each in self.classes]
        others.settle(self)


def page_of(suite, module):
    """The last test case of such a file: it runs all of theirs, and the page says what has run."""
    class Page(unittest.TestCase):
        def test_every_class_of_theirs_is_run_or_left_out(self):
            self.assertEqual(suite.known(), Suite.classes_of(module))

        def test_the_page_says_what_has_run(self):
            suite.test_the_page(self)
    return Page


def page_last(_loader, standard, _pattern):
    """What load_tests is in such a file."""
    return unittest.TestSuite(sorted(
        (tests for tests in standard if tests.countTestCases()),
        key=lambda tests: type(next(iter(tests))).__name__ == 'Page'))

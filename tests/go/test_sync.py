#!/usr/bin/env python3
"""Go's own tests of package sync, on locks of ours: read from the Go that runs them, with two of
their imports replaced (by the package in sync/), and under the race detector.
"""
import re
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

import golang
import others
import run
import tap as harness
from awake import Watch
from servers import Redis

HERE = Path(__file__).resolve().parent
PATH = 'github.com/libdlock/libdlock/bindings/go'
FILES = ('mutex_test.go', 'rwmutex_test.go', 'cond_test.go')
LIMIT = '-timeout=240s'
TITLE = 'Go: package sync'

ABOUT = '''
Read from the Go that runs them, `src/sync` below its GOROOT, at the time of the test. Their
`. "sync"` is a package in which `Mutex` and `RWMutex` are ours by way of `dlock.SyncLocker`, each
with a name of its own, `Cond` is Go's over these, and `Runtime_Semacquire` takes a permit of a
`dlock.Semaphore`. They run in full, under the race detector; their benchmarks aren't run.'''
WHOLE = {
    'example_pool_test.go, pool_test.go': 'a pool is no lock, and there is none of ours',
    'example_test.go': 'shows once and wait group, which aren\'t locks',
    'map_bench_test.go, map_reference_test.go, map_test.go':
        'a map is no lock, and has none of ours',
    'once_test.go, oncefunc_test.go': 'what is done once within a process is no lock',
    'runtime_sema_test.go': 'has benchmarks and no tests',
    'export_test.go': 'has no tests; what of it theirs need, the adapter has',
    'waitgroup_test.go': 'a wait group is no lock, and there is none of ours',
}
MISUSE = {'TestMutexMisuse': 'wants a fault that `recover()` can\'t catch; ours is a panic, and '
                             '`TestASyncLockerLocks` of `bindings/go` has that'}


class Tap(run.Tap):
    """Remembers what has passed."""

    def __init__(self, watch):
        super().__init__(watch)
        self.good = set()

    def line(self, good, name, lines=(), after=''):
        if good:
            self.good.add(name)
        super().line(good, name, lines, after)


def tests_of(file):
    return re.findall(r'^func (Test\w+)\(', file.read_text(encoding='utf-8'), re.MULTILINE)


def replaced(text, old, new, times):
    if text.count(old) != times:
        raise AssertionError(f'{old!r} is there {text.count(old)} times')
    return text.replace(old, new)


def make_module(theirs, folder):
    """A module whose tests are theirs; returns its folder, whose name is its package's."""
    name = f'example.org/{folder.name}'
    shutil.copytree(HERE / 'sync', folder)
    (folder / 'go.mod').write_text(
        f'module {name}\n\ngo 1.24\n\nrequire {PATH} v0.0.0\n\n'
        f'replace {PATH} => {golang.MODULE}\n')
    for file in FILES:
        text = replaced((theirs / file).read_text(encoding='utf-8'), '. "sync"', f'. "{name}"', 1)
        text = replaced(text, '"internal/testenv"', f'"{name}/testenv"', file == 'mutex_test.go')
        (folder / file).write_text(text, encoding='utf-8')


def run_on(tap, theirs, folder, url, left_out):
    """Runs all but what is left out; returns the parts of the page, a file of theirs each."""
    make_module(theirs, folder)
    skip = '|'.join(left_out)
    run.run_all(tap, folder, ['-race', LIMIT, f'-skip=^({skip})$'], '.', DLOCK_URL=url)
    parts, known = [], set()
    for file in FILES:
        names = tests_of(theirs / file)
        known |= {*names}
        ran = [name for name in names if name not in left_out]
        missing = [name for name in ran if f'{folder.name}: {name}' not in tap.good]
        if missing:
            raise AssertionError(f'{folder.name}: not passed: {", ".join(missing)}')
        why = {name: left_out[name] for name in names if name in left_out}
        parts.append(others.Part(file, f'`{folder.name.partition("_")[2]}:`', ran, why))
    stale = {*left_out} - known
    if stale:
        raise AssertionError(f'left out, but not there any more: {", ".join(sorted(stale))}')
    return parts


def check_files(theirs, version):
    """That each file of theirs is run or left out. A newer Go may have more."""
    known = {*FILES, *(', '.join(WHOLE)).split(', ')}
    there = {file.name for file in theirs.glob('*_test.go')}
    if known - there or (others.page_version(TITLE) == version and there - known):
        raise AssertionError(f'files that aren\'t known or aren\'t there: {known ^ there}')


def main():
    version = harness.run([golang.where(), 'env', 'GOVERSION'],
                          env=golang.environment()).strip().removeprefix('go')
    root = harness.run([golang.where(), 'env', 'GOROOT'], env=golang.environment()).strip()
    theirs = Path(root) / 'src' / 'sync'
    suite = others.Suite(TITLE, version, ABOUT, whole=WHOLE)
    tap, wrong = Tap(Watch()), ''
    with tempfile.TemporaryDirectory(prefix='dlock-go-') as work:
        server = Redis()
        try:
            suite.parts += run_on(tap, theirs, Path(work, 'on_mem'), 'mem:theirs', MISUSE)
            suite.parts += run_on(tap, theirs, Path(work, 'on_redis'), server.url_of_socket,
                                   MISUSE)
            check_files(theirs, version)
            others.settle(suite)
        except Exception as why:
            wrong = str(why) if isinstance(why, AssertionError) else traceback.format_exc()
        finally:
            server.stop()
    tap.line(not wrong, 'the page says what has run', [wrong])
    print(f'1..{tap.number}')
    return 1 if tap.failures else 0


if __name__ == '__main__':
    sys.exit(main())

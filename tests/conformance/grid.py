#!/usr/bin/env python3
"""Runs the conformance grid: every row in every column, each cell in a process of its own.

A cell passes, fails, or says why it can't apply; one that says nothing fails. The result is the
page docs/reference/conformance.md, and a run whose result differs from the page fails. With
--write the page is written; with --brief other kinds, layouts and topologies than the plain mutex
are asked for their promises alone, with --quick all columns of the C binding; both without the
page. `grid.py --row T1 --row A5` runs some rows. The executables come in the environment
(meson.build).
"""
import argparse
import concurrent.futures
import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TOP / 'tests' / 'harness'))

import awake
import etcd_server
import tap
import zookeeper_server

PAGE = TOP / 'docs' / 'reference' / 'conformance.md'
GRID = os.environ['DLK_GRID']
LIMIT_S = 240  # a cell ends itself before
TRIES = 5      # alone, of a cell that failed while the machine stood still

# These come from outside; others are a fault of the program's, whatever the machine did.
FOREIGN = (signal.SIGPIPE, signal.SIGALRM, signal.SIGKILL)

Column = namedtuple('Column', 'backend kind layout binding')
Row = namedtuple('Row', 'id name what')
Cell = namedtuple('Cell', 'verdict reason said seconds')

GROUPS = [
    ('P', 'Promises', 'What a lock promises when nothing goes wrong, or only what users do wrong.'),
    ('A', 'Ambiguity', 'Was it done or not? Requests and answers that get lost, waits that are '
     'given up.'),
    ('T', 'Time', 'Pauses, suspended machines, clocks that jump or drift, renewals that fail.'),
    ('N', 'Network and server', 'Connections and servers that fail, and servers that forget.'),
    ('W', 'Waiting and wake-up', 'Notifications that get lost, waiters and holders that die.'),
    ('C', 'Process and C library', 'Forks, signals, threads, memory, descriptors, names, hostile '
     'peers.'),
    ('F', 'Fencing', 'Tokens that are equal or go back.'),
    ('S', 'Conditions', 'What a wait for a signal promises and has to survive, beside the '
     'column\'s lock.'),
]

# What stands below every other kind, layout and topology.
PLAIN = [('mem', 'table'), ('file', 'table'), ('redis', 'redisson'), ('redis', 'string'),
         ('redlock', 'string')]

# What --quick leaves out: the same code as its mutex.
ETCDS_OTHERS = [('etcd', kind) for kind in ('write', 'semaphore', 'election')]

# The catalogue of faults is closed: a row that vanishes is missed.
FAULTS = ([f'A{n}' for n in range(1, 14)] + [f'T{n}' for n in range(1, 15)] +
          [f'N{n}' for n in range(1, 26)] + [f'W{n}' for n in range(1, 10)] +
          [f'C{n}' for n in range(1, 15)] + [f'F{n}' for n in range(1, 5)])


def order(row):
    letters = [group[0] for group in GROUPS]
    return letters.index(row.id[0]), int(row.id[1:])


def what_there_is():
    columns, rows, absent = [], [], []
    for line in subprocess.run([GRID, '--list'], stdout=subprocess.PIPE, text=True,
                               check=True).stdout.splitlines():
        kind, *rest = line.split('\t')
        if kind == 'row':
            rows.append(Row(*rest))
        else:
            columns.append(Column(*rest))
        if kind == 'absent':
            absent.append(len(columns) - 1)
    return columns, absent, sorted(rows, key=order)


def shown_elsewhere(said):
    """The tests that a cell stands on, as "file test"; raises when one isn't there any more."""
    for file, test in re.findall(r'^# shown by (\S+) (\S+)$', said, re.M):
        path = TOP / 'tests' / file
        if not path.exists() or not re.search(rf'\b{test}\b', path.read_text(encoding='utf-8')):
            raise AssertionError(f'tests/{file} has no test {test}')
        yield f'tests/{file}: {test}'


def judge(status, said):
    if status == 0:
        return 'PASS', '; '.join(shown_elsewhere(said))
    if status == 3:
        return 'AGAIN', 'the machine stood still'
    if status == 77:
        return 'SKIP', 'the server is not installed'
    reason = re.search(r'^# cannot (.+)$', said, re.M)
    if status == 2 and reason:
        return 'N/A', reason[1]
    return 'FAIL', f'ended with {status}'


def excused(watch, cell, status, began):
    """A hang, or an end by somebody else, while the machine stood still says nothing."""
    foreign = status is None or -status in FOREIGN
    if cell.verdict == 'FAIL' and foreign and watch.longest_since(began) >= awake.STALLED_S:
        return cell._replace(verdict='AGAIN')
    return cell


def run_cell(watch, row, number):
    """One cell; its process ends with us."""
    began, began_at, status = time.monotonic(), time.time(), None
    process = subprocess.Popen([GRID, row.id, str(number)], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        said = process.communicate(timeout=LIMIT_S)[0].decode(errors='replace')
        status = process.returncode
        verdict, reason = judge(status, said)
    except subprocess.TimeoutExpired as why:
        process.kill()
        process.wait()
        process.stdout.close()  # a process of its own may hold the other end yet
        said, verdict, reason = (why.output or b'').decode(errors='replace'), 'FAIL', 'hangs'
    except AssertionError as why:
        verdict, reason = 'FAIL', str(why)
    cell = Cell(verdict, reason, said, time.monotonic() - began)
    return excused(watch, cell, status, began_at)


def run_again(watch, row, number, cell):
    """Alone, because the machine stood still in the crowd; a few times at most."""
    for _ in range(TRIES):
        if cell.verdict != 'AGAIN':
            return cell
        cell = run_cell(watch, row, number)
    return cell._replace(verdict='FAIL') if cell.verdict == 'AGAIN' else cell


def name_of(column):
    return '/'.join(column)


class Tap:
    """Numbers the tests and says how they went."""

    def __init__(self):
        self.count = self.failed = 0

    def test(self, name, fine, said='', skip=''):
        self.count += 1
        self.failed += not fine
        if not fine:
            for line in said.splitlines():
                print(f'# {line}')
        print(f'{"" if fine else "not "}ok {self.count} - {name}{skip and " # SKIP " + skip}')
        sys.stdout.flush()

    def end(self):
        print(f'1..{self.count}')
        return 1 if self.failed else 0


def tell(tap, where, cell):
    if cell.verdict == 'SKIP':
        tap.test(where, True, skip=cell.reason)
    elif cell.verdict == 'N/A':
        print(f'# {where} says nothing here: {cell.reason}')
    else:
        tap.test(where, cell.verdict == 'PASS', f'{cell.reason}\n{cell.said}')


@contextlib.contextmanager
def shared_server(columns):
    """One ZooKeeper and one etcd for all cells that don't mistreat theirs: each costs a second."""
    servers = []
    wanted = {column.backend for _, column in columns}
    with contextlib.suppress(tap.Skip):
        if 'zookeeper' in wanted:
            servers.append(zookeeper_server.single())
            os.environ['DLK_TEST_ZOOKEEPER'] = str(servers[-1].port)
    with contextlib.suppress(tap.Skip):
        if 'etcd' in wanted:
            servers.append(etcd_server.Cluster())
            os.environ['DLK_TEST_ETCD'] = str(servers[-1].members[0].port)
    processes = [getattr(server, 'members', [server])[0].process for server in servers]
    os.environ['DLK_TEST_SERVERS'] = ' '.join(str(process.pid) for process in processes)
    try:
        yield
    finally:
        for server in servers:
            server.stop()


def is_wanted(row, column, brief):
    """In brief: all of a plain mutex, of other kinds, layouts and topologies the promises."""
    plain = column.kind == 'mutex' and (column.backend, column.layout) in PLAIN
    return not brief or row.id[0] == 'P' or plain


def run_all(tap, rows, columns, args):
    """All cells, so many at once; told in their order, but for those that have to run again."""
    result, again, watch = {}, [], awake.Watch()
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        coming = [(row, number, column, pool.submit(run_cell, watch, row, number))
                  for row in rows for number, column in columns
                  if is_wanted(row, column, args.brief)]
        for row, number, column, cell in coming:
            where = f'{row.id} {row.name} {name_of(column)}'
            result[row.id, number] = cell = cell.result()
            if cell.verdict == 'AGAIN':
                again.append((row, number, where, cell))
            else:
                tell(tap, where, cell)
    for row, number, where, cell in again:
        print(f'# {where} runs again, alone: the machine stood still')
        for line in cell.said.splitlines():
            print(f'# {line}')
        result[row.id, number] = cell = run_again(watch, row, number, cell)
        tell(tap, where, cell)
    return result


def print_grid(rows, columns, result):
    print('#\n# ' + ' ' * 5 + ' '.join(f'{name_of(c):22}' for _, c in columns))
    for row in rows:
        print(f'# {row.id:4} ' + ' '.join(
            f'{result[row.id, number].verdict if (row.id, number) in result else "-":22}'
            for number, _ in columns))
    every = [cell.verdict for cell in result.values()]
    print('# ' + ', '.join(f'{every.count(v)} {v}' for v in ('PASS', 'N/A', 'FAIL')))
    print(f'# {sum(cell.seconds for cell in result.values()):.0f} s in all')
    slowest = sorted(result.items(), key=lambda item: -item[1].seconds)[:8]
    print('# slowest: ' + ', '.join(
        f'{key[0]} {name_of(dict(columns)[key[1]])} {cell.seconds:.1f} s' for key, cell in slowest))


INTRO = '''\
# What is proved where

Written by `tests/conformance/grid.py --write` from a run of the conformance suite. Each row is
written once and runs in every column, in a process and with a lock service of its own:

- **PASS**: a test has proved it in that run. With a note, the tests named there prove it, too; that
  they exist is checked here, that they pass by `make test`.
- **N/A**: it can't happen there; the note says why.

`make test` fails when a cell fails or a column is missing, and runs of the kinds, layouts and
topologies beside the plain mutex the promises; `make proof` runs all cells, and fails when what
they have shown isn't this page.
The rows are what a lock promises ([what each backend does not
promise](../explanation/promises.md)) and the faults that it has to survive. A column is a
backend, a kind of lock, a layout, and a binding: `C` is the library, `dlock` the command, which
stands on it.
'''


class Notes:
    """Reasons, each with a number, in the order in which the page needs them."""

    def __init__(self):
        self.numbers = {}

    def mark(self, cell):
        if not cell.reason:
            return cell.verdict
        number = self.numbers.setdefault(cell.reason, len(self.numbers) + 1)
        return f'{cell.verdict} [{number}](#notes)'


def page_of(rows, columns, result):
    """The page, from what has run. No numbers that differ from run to run."""
    notes = Notes()
    out = [INTRO]
    for letter, title, text in GROUPS:
        part = [row for row in rows if row.id[0] == letter]
        out += [f'## {title}', '', text, '',
                '| | | ' + ' | '.join('<br>'.join(column) for _, column in columns) + ' |',
                '|---|---|' + '---|' * len(columns)]
        for row in part:
            cells = ' | '.join(notes.mark(result[row.id, number]) for number, _ in columns)
            out.append(f'| {row.id} | {row.what} | {cells} |')
        out.append('')
    out += ['## Notes', '']
    out += [f'{number}. {reason}' for reason, number in notes.numbers.items()]
    return '\n'.join(out) + '\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--write', action='store_true', help='write the page')
    parser.add_argument('--quick', action='store_true', help='the promises of the C binding alone')
    parser.add_argument('--brief', action='store_true',
                        help='of other kinds, layouts and topologies only the promises')
    parser.add_argument('--own', action='store_true',
                        help='a grid with a service of its own: all rows of that column alone')
    parser.add_argument('--row', action='append', help='only this row; may be repeated')
    parser.add_argument('--column', type=int, help='only the column of this number')
    parser.add_argument('--backend', help='only the columns of this backend')
    parser.add_argument('--jobs', type=int, default=12, help='cells at once; they mostly wait')
    args = parser.parse_args()
    tap = Tap()
    there, absent, rows = what_there_is()
    columns = [(number, column) for number, column in enumerate(there) if number not in absent]
    ids = [row.id for row in rows]
    missing = [fault for fault in FAULTS if fault not in ids]
    tap.test('every fault of the catalogue has a row', not missing, ' '.join(missing))
    tap.test('no row stands there twice', len(ids) == len(set(ids)))
    if not args.own:
        covered = subprocess.run([GRID, '--coverage'], stdout=subprocess.PIPE, text=True,
                                 check=False)
        tap.test('whatever backend, kind and layout the library has, it has a column',
                 covered.returncode == 0, covered.stdout)
    if args.quick:
        # What a Java machine costs is spent once, on all that there is of ZooKeeper.
        columns = [(n, c) for n, c in columns if c.binding == 'C' and c.backend != 'zookeeper'
                   and (c.backend, c.kind) not in ETCDS_OTHERS]
        rows = [row for row in rows if row.id[0] == 'P']
    if args.row:
        rows = [row for row in rows if row.id in args.row]
    if args.backend:
        columns = [(n, c) for n, c in columns if c.backend == args.backend]
    if args.column is not None:
        columns = [(n, c) for n, c in columns if n == args.column]
    with shared_server(columns):
        result = run_all(tap, rows, columns, args)
    print_grid(rows, columns, result)
    whole = not args.own and len(result) == len(there) * len(what_there_is()[2])
    if whole and 'SKIP' not in {cell.verdict for cell in result.values()}:
        page = page_of(rows, columns, result)
        if args.write and not tap.failed:
            PAGE.write_text(page, encoding='utf-8')
        current = PAGE.exists() and PAGE.read_text(encoding='utf-8') == page
        tap.test('docs/reference/conformance.md is what this run has shown', current,
                 'tests/conformance/grid.py --write brings it up to date')
    return tap.end()


if __name__ == '__main__':
    sys.exit(main())

#!/usr/bin/env python3
"""Plants small bugs, one at a time, and says which of them no test sees.

The tree is copied into the build folder, and built there. For each area of areas.toml its changes
(changes.py) are taken in an order that the seed alone decides, until so many lie in lines that the
area's tests reach; each is put in, what depends on it is built anew, and the tests run, the
quickest first, up to the first that fails or takes too long. Where none does, the program is made
to end at that line: if no test sees even that, the line is unreached, and doesn't count.

Left out, too: what the compiler refuses, with its warnings, or makes the same code of; and what
equivalent.txt says changes nothing, with the reason. Each entry there has to be a change that may
still be made.

Results are kept: a run goes on where the last one ended, and asks again about those that survived
when anything has changed since. Exit status 1 when an area is below its goal.
"""
import argparse
import collections
import fnmatch
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

from changes import Change, changed, changes, trapped

HERE = Path(__file__).resolve().parent
SETUP = ['meson', 'setup', '--native-file=tools/developer.ini', '-Dwerror=true']
LONG = {'proof', 'proof-asan', 'soak'}     # the same as others, for minutes
PATIENCE = 5        # times what a test takes, and
PATIENCE_S = 20.0   # this much more, is too long


class Stale(Exception):
    """An entry of the list of equivalent ones that is none."""


def sources_of(source, patterns):
    """The files of an area, each name with its text."""
    names = {path.relative_to(source).as_posix() for pattern in patterns
             for path in source.glob(pattern)}
    return {name: (source / name).read_text(encoding='utf-8') for name in sorted(names)}


def equivalent(path, source):
    """What the list says of each change in it; raises where it is no change that could be made."""
    reasons, known = {}, {}
    entries = path.read_text(encoding='utf-8').split('\n\n') if path.exists() else []
    for entry in entries:
        lines = [line for line in entry.splitlines() if not line.startswith('#')]
        if not lines:
            continue
        if (len(lines) < 4 or lines[1][:2] != '- ' or lines[2][:1] != '+' or
                ': ' not in lines[0] + ' '):
            raise Stale(f'{path.name}: "FILE: FUNCTION", "- LINE", "+ LINE" and a reason, not:\n'
                        f'{entry}')
        file, _, function = lines[0].partition(':')
        change = Change(file, function.strip(), lines[1][2:], lines[2][2:])
        if file not in known:
            there = source / file
            known[file] = set(changes(file, there.read_text(encoding='utf-8'))
                              if there.exists() else ())
        if change not in known[file]:
            raise Stale(f'{path.name}: no such change can be made any more:\n{change}')
        reasons[change] = ' '.join(lines[3:])
    return reasons


def sync(source, tree):
    """Copies what git knows or would take; leaves alone what is the same, so that it isn't built.
    Answers what stands for the tree, as far as it can make a difference to a test."""
    listed = subprocess.run(['git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard'],
                            cwd=source, capture_output=True, check=True).stdout.decode()
    there = hashlib.sha256()
    for name in sorted(filter(None, listed.split('\0'))):
        ours, copy = source / name, tree / name
        if not ours.is_file():
            copy.unlink(missing_ok=True)
            continue
        data = ours.read_bytes()
        if not name.startswith(('docs/', 'tests/mutants/')):
            there.update(name.encode() + b'\0' + hashlib.sha256(data).digest())
        if not copy.exists() or copy.read_bytes() != data:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(data)
            copy.chmod(ours.stat().st_mode & 0o777)
    return there.hexdigest()


def suites(test):
    return {suite.split(':')[-1] for suite in test['suite']}


class Tests:
    """The programs of the copy: built and run one by one."""

    def __init__(self, folder, setup, jobs):
        self.jobs = jobs
        self.tree, self.build = folder / 'tree', folder / 'tree' / 'build'
        self.times_file = folder / 'times.json'
        if not (self.build / 'build.ninja').exists():
            subprocess.run([*SETUP, *setup, self.build], cwd=self.tree, check=True,
                           stdout=subprocess.DEVNULL)
        else:
            subprocess.run(['ninja', '-C', self.build, '--quiet', 'build.ninja'], check=True,
                           stdout=subprocess.DEVNULL)
        # Sources that Meson reads at configure time make it run again whenever one changes.
        rules = (self.build / 'build.ninja').read_text(encoding='utf-8')
        (self.build / 'mutants.ninja').write_text(
            re.sub(r'^build build\.ninja: .*\n(?: .*\n)*', '', rules, flags=re.M), encoding='utf-8')
        shown = subprocess.run(['meson', 'introspect', '--tests', '--targets', self.build],
                               check=True, capture_output=True)
        known = json.loads(shown.stdout)
        files = {target['id']: target['filename'] for target in known['targets']}
        self.all = {test['name']: test for test in known['tests']
                    if not suites(test) & LONG}
        for test in self.all.values():
            test['needs'] = [os.path.relpath(file, self.build)
                             for target in test['depends'] for file in files[target]]
        commands = json.loads((self.build / 'compile_commands.json').read_text())
        self.object_of = {}     # the one that the tests of its folder use, which come first
        for command in commands:
            path = os.path.relpath((self.build / command['file']).resolve(), self.tree.resolve())
            if path not in self.object_of or \
                    command['output'].startswith(f'tests/{Path(path).parent.name}/'):
                self.object_of[path] = command['output']
        self.times = json.loads(self.times_file.read_text()) if self.times_file.exists() else {}

    def make(self, targets):
        """None, or what the compiler said."""
        made = subprocess.run(['ninja', '-C', self.build, '-f', 'mutants.ninja', '--quiet',
                               '-j', str(self.jobs), *targets], check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors='replace')
        return made.stdout if made.returncode else None

    def code_of(self, name):
        """What the compiler makes of a file, without where it stands; None if it refuses it."""
        target = self.object_of.get(name)
        if not target:
            return ''
        if self.make([target]):
            return None
        bare = self.build / 'bare.o'
        subprocess.run(['objcopy', '--strip-debug', self.build / target, bare], check=True)
        return hashlib.sha256(bare.read_bytes()).hexdigest()

    def run(self, name, limit):
        """How it ended, 'passed', 'failed' or 'too long', and after how many seconds."""
        test = self.all[name]
        argv = test['cmd']
        if name.startswith('sim'):  # it says that it has failed, and then seeks the shortest way
            argv = ['stdbuf', '-oL', *argv]
        began = time.monotonic()
        child = subprocess.Popen(argv, cwd=test['workdir'] or self.build, stdin=subprocess.DEVNULL,
                                 env=os.environ | test['env'], stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, start_new_session=True)
        signal.setitimer(signal.ITIMER_REAL, limit)
        ended = 'passed'
        try:
            for line in child.stdout:
                if line.startswith((b'not ok', b'# failed: ')):
                    ended = 'failed'
                    break
            else:
                ended = 'failed' if child.wait() else 'passed'
        except TimeoutError:
            ended = 'too long'
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            try:
                os.killpg(child.pid, signal.SIGKILL)    # with what it has started
            except ProcessLookupError:
                pass
            child.stdout.close()
            child.wait()
        return ended, time.monotonic() - began

    def order(self, patterns):
        """The tests of an area, the quickest first, which pass as things are."""
        wanted = [name for name, test in self.all.items()
                  if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
        new = [name for name in wanted if name not in self.times]
        said = self.make(sorted({file for name in wanted for file in self.all[name]['needs']}))
        if said:
            raise SystemExit(f'the tree does not build:\n{said}')
        for name in new:
            ended, took = self.run(name, 600)
            if ended != 'passed':
                ended, took = self.run(name, 600)
            if ended != 'passed':
                print(f'# left out, as it fails without any bug: {name}', flush=True)
            self.times[name] = took if ended == 'passed' else None
            self.times_file.write_text(json.dumps(self.times, indent=1))
        return sorted((name for name in wanted if self.times[name] is not None),
                      key=self.times.get)

    def seen_by(self, names, twice=True):
        """The first test that fails, None, or '' when it doesn't build; and if it took too long."""
        for name in names:
            if self.make(self.all[name]['needs']):
                return '', False
            limit = PATIENCE * self.times[name] + PATIENCE_S
            ended, _ = self.run(name, limit)
            # What has its own clocks and servers may fail for other reasons, but hardly twice.
            if ended != 'passed' and twice and 'unit' not in suites(self.all[name]):
                ended, _ = self.run(name, limit)
            if ended != 'passed':
                return name, ended == 'too long'
        return None, False


def likely(file, names, first, before):
    """The tests in their order, those before all others that have seen a bug of the same file, that
    areas.toml says or whose names have most words in common with those of the file and folder."""
    parts = {Path(file).stem, Path(file).parent.name}
    said = {name for part, name in first.items() if part in parts}
    words = set('-'.join(parts).replace('_', '-').split('-'))
    return sorted(names, key=lambda name: (
        name not in before, name not in said,
        -len(words & set(name.replace('_', '-').split('-')))))


def asked(tests, change, text, names):
    """What becomes of one change: the outcome, and which test saw it."""
    place = tests.tree / change.file
    try:
        code = tests.code_of(change.file)
        place.write_text(changed(text, change), encoding='utf-8')
        new_code = tests.code_of(change.file)
        if new_code is None:
            return 'refused', ''
        if new_code and new_code == code:
            return 'same', ''
        by, late = tests.seen_by(names)
        if by is not None:
            return ('caught', by + ', which took too long' * late) if by else ('refused', '')
        place.write_text(trapped(text, change), encoding='utf-8')
        reached, _ = tests.seen_by(names, twice=False)
        return ('unreached', '') if reached is None else ('survived', reached)
    finally:
        place.write_text(text, encoding='utf-8')


class Results:
    """What became of each change, a line each; survivors of another tree are asked again."""

    def __init__(self, path, state):
        self.path, self.state, self.kept = path, state, {}
        for line in path.read_text(encoding='utf-8').splitlines() if path.exists() else ():
            entry = json.loads(line)
            if entry['outcome'] in ('caught', 'same', 'refused') or entry['tree'] == state:
                self.kept[entry['change']] = entry

    def seers_of(self, file):
        return {entry['by'] for entry in self.kept.values()
                if entry['outcome'] == 'caught' and entry['change'].startswith(file + ':')}

    def add(self, change, outcome, by, seconds):
        entry = {'change': str(change), 'outcome': outcome, 'by': by, 'tree': self.state,
                 'seconds': round(seconds, 1)}
        self.kept[str(change)] = entry
        with open(self.path, 'a', encoding='utf-8') as file:
            file.write(json.dumps(entry) + '\n')


def area(name, plan, args, tests, results, reasons):
    """Prints what became of the changes of an area; False when too few were caught."""
    texts = sources_of(args.source, plan['files'])
    found = [change for file, text in texts.items() if not args.part or args.part in file
             for change in changes(file, text)]
    found.sort(key=lambda c: hashlib.sha256(f'{args.seed}\n{c}'.encode()).digest())
    if not found:
        return True
    names, count, seconds, survivors = None, collections.Counter(), 0.0, []
    for change in found:
        if count['caught'] + count['survived'] >= (args.count or plan['count']):
            break
        if change in reasons:
            count['equivalent'] += 1
            continue
        entry = results.kept.get(str(change))
        if not entry:
            if time.time() >= args.until:
                break
            names = names if names is not None else tests.order(plan['tests'])
            began = time.monotonic()
            order = likely(change.file, names, plan.get('first', {}), results.seers_of(change.file))
            outcome, by = asked(tests, change, texts[change.file], order)
            results.add(change, outcome, by, time.monotonic() - began)
            entry = results.kept[str(change)]
            print(f'# {outcome:9} {entry["seconds"]:6.1f} s  {change.file}:{change.line + 1}  '
                  f'{change.old}  ==>  {change.new or "(dropped)"}  {by}', flush=True)
        count[entry['outcome']] += 1
        seconds += entry['seconds']
        if entry['outcome'] == 'survived':
            survivors.append(change)
    planted = count['caught'] + count['survived']
    ratio = 100 * count['caught'] / planted if planted else 100
    for change in survivors:
        print(f'survived at line {change.line + 1} of\n{change}')
    print(f'{name}: {planted} planted, {count["caught"]} caught, {count["survived"]} survived, '
          f'{ratio:.1f} % (goal {plan["goal"]} %); beside them {count["equivalent"]} equivalent, '
          f'{count["same"]} the same code, {count["refused"]} refused by the compiler, '
          f'{count["unreached"]} unreached; {seconds / 60:.0f} min', flush=True)
    return ratio >= plan['goal']


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--source', type=Path, default=HERE.parent.parent)
    parser.add_argument('--areas', type=Path, default=HERE / 'areas.toml')
    parser.add_argument('--equivalent', type=Path, default=HERE / 'equivalent.txt')
    parser.add_argument('--build', default='build', help='prefix of the build folder')
    parser.add_argument('--part', help='only files whose path has this in it, or one area: PART:')
    parser.add_argument('--count', type=int, help='so many in each area')
    parser.add_argument('--seed', default='1', help='which ones')
    parser.add_argument('--jobs', type=int, default=1, help='of the compiler; tests run one by one')
    parser.add_argument('--minutes', type=float, default=1e6, help='begin nothing new after that')
    parser.add_argument('--only-list', action='store_true', help='check equivalent.txt')
    args = parser.parse_args()
    args.source, args.until = args.source.resolve(), time.time() + 60 * args.minutes
    plan = tomllib.loads(args.areas.read_text(encoding='utf-8'))
    try:
        reasons = equivalent(args.equivalent, args.source)
    except Stale as why:
        print(why)
        return 1
    if args.only_list:
        print(f'{len(reasons)} equivalent ones')
        return 0
    chosen = {name: what for name, what in plan['area'].items()
              if not (args.part or '').endswith(':') or name == args.part[:-1]}
    args.part = None if (args.part or '').endswith(':') else args.part

    def too_long(_number, _frame):
        raise TimeoutError
    signal.signal(signal.SIGALRM, too_long)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))    # which takes the bug out again
    folder = Path(f'{args.build}-mutants').resolve()
    (folder / 'tree').mkdir(parents=True, exist_ok=True)
    state = sync(args.source, folder / 'tree')
    tests = Tests(folder, plan['setup'], args.jobs)
    results = Results(folder / 'results.jsonl', state)
    fine = [area(name, what, args, tests, results, reasons) for name, what in chosen.items()]
    return 0 if all(fine) else 1


if __name__ == '__main__':
    sys.exit(main())

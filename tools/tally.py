"""Counts TAP subtests, and finds what to show of a program that failed; for tools/test."""
import re
from dataclasses import dataclass, field

SANITIZER_EXIT = 86      # tells a sanitizer's verdict from a test's own exit code


@dataclass
class Tally:
    passed: int = 0
    failed: list = field(default_factory=list)    # (where, text that helps)
    skipped: list = field(default_factory=list)   # (where, reason)
    void: list = field(default_factory=list)      # (where, why a try didn't count)

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.void += other.void

    def line(self):
        return f'{self.passed} passed, {len(self.failed)} failed, {len(self.skipped)} skipped'


TAP_TEST = re.compile(r'(not )?ok \d+\b *(?:- )?([^#]*?)\s*(?:#\s*(skip\S*|todo)\b\s*(.*))?$',
                      re.IGNORECASE)
TAP_PLAN = re.compile(r'1\.\.(\d+)\s*(?:#\s*skip\S*\s*(.*))?$', re.IGNORECASE)


def count_tap(program, stdout, tally):
    """Adds one program's subtests; returns how many it ran and how many it announced.

    Comments belong to the test whose line comes after them. What follows a failure is shown as
    well, as it may tell more of it; but it may be the next test's.
    """
    seen, planned, failure, said = 0, None, None, []
    for line in stdout.splitlines():
        if test := TAP_TEST.match(line):
            seen += 1
            bad, name, directive, reason = test.groups()
            where, failure = f'{program}: {name or seen}', None
            said, before = [], '\n'.join(said[-40:])
            if directive and directive.lower() != 'todo':
                tally.skipped.append((where, reason or 'no reason given'))
            elif bad:
                failure = len(tally.failed)
                tally.failed.append((where, before))
            else:
                tally.passed += 1
        elif plan := TAP_PLAN.match(line):
            planned = int(plan.group(1))
            if planned == 0:
                tally.skipped.append((program, plan.group(2) or 'no reason given'))
        elif line.startswith('Bail out!'):
            tally.failed.append((program, line))
        elif line.startswith('#'):
            said.append(line)
            if line.startswith('# void: '):
                tally.void.append((program, line[8:]))
            if failure is not None:
                where, text = tally.failed[failure]
                after = '' if len(said) > 1 else '# and afterwards:\n'
                tally.failed[failure] = (where, f'{text}\n{after}{line}')
    return seen, planned


def tail(text, lines=40):
    return '\n'.join((text or '').splitlines()[-lines:])


def excerpt(stderr, lines=60):
    """The head of a sanitizer's report, which says what and where; else the end of it all."""
    said = (stderr or '').splitlines()
    for number, line in enumerate(said):
        if re.search(r'(ERROR|WARNING): \w+Sanitizer|runtime error:', line):
            return '\n'.join(said[number:number + lines])
    return tail(stderr)


def excusable(entry):
    """Whether a machine that stood still may be why a program failed. Two owners at once, a crash,
    a sanitizer's or a race detector's finding are never that."""
    said = (entry.get('stdout') or '') + (entry.get('stderr') or '')
    if re.search(r'^# no clock excuses this$|(ERROR|WARNING): \w+Sanitizer|runtime error:'
                 '|DATA RACE', said, re.MULTILINE):
        return False
    return entry['result'] == 'TIMEOUT' or entry.get('returncode') in (0, 1)


def count_program(label, entry, tally):
    program = f'{label}: {entry["name"]}'
    stdout, code = entry.get('stdout') or '', entry.get('returncode')
    before = len(tally.failed)
    seen, planned = count_tap(program, stdout, tally)
    why = None
    if entry['result'] in ('TIMEOUT', 'INTERRUPT'):
        why = entry['result'].lower()
    elif code is not None and (code < 0 or code == SANITIZER_EXIT or code > 128):
        why = f'ended with {code}'
    elif planned is not None and planned != seen:
        why = f'announced {planned} tests, ran {seen}'
    elif seen and planned is None:
        why = 'ended before its plan'
    elif entry['result'] in ('FAIL', 'ERROR', 'UNEXPECTEDPASS') and len(tally.failed) == before:
        why = f'{entry["result"].lower()}, exit code {code}'
    if why:
        said = tail(stdout, 10) + '\n' + excerpt(entry.get('stderr'))
        tally.failed.append((f'{program}: {why}', said))
    elif len(tally.failed) > before:
        where, text = tally.failed[-1]
        tally.failed[-1] = (where, text + '\n' + excerpt(entry.get('stderr')))
    elif seen == 0 and planned is None:
        # Not TAP: the program is one test, and 77 is how it says that it can't run here.
        if entry['result'] == 'SKIP' and code == 0:
            tally.failed.append((f'{program}: announced no tests', ''))
        elif entry['result'] == 'SKIP':
            tally.skipped.append((program, tail(stdout, 1) or 'no reason given'))
        else:
            tally.passed += 1

#!/usr/bin/env python3
"""Each kind of lock on each backend, from each language and the shell: what is there, shown by
using it, on real servers. The result is the page docs/reference/matrix.md.

    matrix.py DLOCK MEMBER PYTHON GO             a run whose result isn't the page fails
    matrix.py DLOCK MEMBER PYTHON GO --write     writes the page

A cell is a scene of two clients: one from the language that is asked, the other in C, in a process
of its own. Each scene is played twice, with the parts exchanged, so that whoever can hold a lock
can also be kept out. A `member` is a program that does what it is told, a line at a time (member.c,
member.py, go/main.go); the shell's are commands. A line has the words

    WHAT CLIENT HOLD …    and WHAT with what follows is    open URI, close, take KIND NAME WAIT_MS,
    give, leave KIND NAME (to a ticket), import TICKET, listen, hear, revoke KIND NAME,
    wait CONDITION, woken, signal CONDITION, inspect KIND NAME

and the answer is what has happened, "busy", "no" with what the library says of what it lacks, or
"failed".
"""
import contextlib
import itertools
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import tap
from backends import uris
from services import services
from waiting import wait_until

TOP = Path(__file__).resolve().parent.parent.parent
PAGE = TOP / 'docs' / 'reference' / 'matrix.md'
WAIT_MS = 20000
OURS, SHELL = 'C', 'shell'

# What no command is for, and what does it instead.
NO_COMMAND = {
    'election': 'there is no command for it: what runs under `dlock run` leads as long as it runs',
    'several as one': 'a command takes one name: `dlock run a dlock run b …`, in one order '
                      'everywhere',
}
ONE_PROCESS = '`mem:` is the memory of one process, and a command is one'


class Absent(Exception):
    """The library says that this isn't there."""


def checked(said, what):
    word, _, rest = said.partition(' ')
    if word == 'no':
        raise Absent(rest)
    if word == 'failed' or not word:
        raise AssertionError(f'{" ".join(map(str, what))}: {said}')
    return said


# ---- who plays ----

class Program:
    """A member's process, which may have several clients."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)

    def tell(self, *words):
        self.process.stdin.write(' '.join(map(str, words)) + '\n')
        self.process.stdin.flush()

    def answer(self):
        return self.process.stdout.readline().strip()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Member:
    def __init__(self, program, number, uri):
        self.program, self.number = program, number
        self.does('open', 0, uri)

    def does(self, what, hold, *words):
        self.program.tell(what, self.number, hold, *words)
        return checked(self.program.answer(), (what, *words))

    def close(self):
        self.does('close', 0)


class Shell:
    """The commands that do what a member does."""

    KINDS = {'mutex': [], 'in-order': ['--set', 'lock.fair=true'], 'read': ['-s'], 'write': ['-x'],
             'semaphore': ['--permits', '2']}

    def __init__(self, dlock, uri):
        self.dlock, self.uri = dlock, uri
        self.holds, self.running = {}, None

    def launch(self, command, *words):
        return subprocess.Popen([self.dlock, command, '--url', self.uri, *map(str, words)],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    @staticmethod
    def outcome(process):
        """What a command that has ended without a word says."""
        _, told = process.communicate()
        said = ' '.join(told.split())
        return {0: 'done', 1: 'busy', 64: f'no {said}'}.get(process.returncode, f'failed {said}')

    def held(self, hold, process):
        line = process.stdout.readline().strip()
        if not line:
            return self.outcome(process)
        self.holds[hold] = process
        return f'held {line}'

    def take(self, hold, kind, name, wait_ms):
        return self.held(hold, self.launch('hold', '-w', int(wait_ms) / 1000, *self.KINDS[kind],
                                           name))

    def give(self, hold):
        process = self.holds.pop(hold)
        process.stdin.close()
        process.stdin = None
        return self.outcome(process).replace('done', 'given')

    def leave(self, _hold, kind, name):
        process = self.launch('hold', '--export', '-n', *self.KINDS[kind], name)
        ticket = process.stdout.readline().strip()
        said = self.outcome(process)
        return f'ticket {ticket}' if said == 'done' else said

    def import_(self, hold, ticket):
        return self.held(hold, self.launch('run', '--import', ticket,
                                           'sh', '-c', 'echo held; cat'))

    def listen(self, _hold):
        return 'listens'  # each hold of the command does

    def hear(self, hold):
        return 'heard' if self.holds[hold].stderr.readline() else 'failed it has ended'

    def revoke(self, _hold, kind, name):
        said = self.outcome(self.launch('revoke', *self.KINDS[kind], name))
        return said.replace('done', 'asked')

    def wait(self, _hold, name):
        self.running = self.launch('wait', '--signal', '-w', WAIT_MS / 1000, name)
        return 'waits'

    def woken(self, _hold):
        return self.outcome(self.running).replace('done', 'woken')

    def signal(self, _hold, name):
        process = self.launch('signal', '--json', name)
        told = process.stdout.readline()
        said = self.outcome(process)
        return f'signalled {json.loads(told)["signalled"]}' if said == 'done' else said

    def inspect(self, _hold, kind, name):
        process = self.launch('inspect', '--json', *self.KINDS[kind], name)
        told = process.stdout.readline()
        said = self.outcome(process)
        if said != 'done':
            return said
        return 'taken' if json.loads(told).get('holders') else 'free'

    def does(self, what, hold, *words):
        call = getattr(self, {'import': 'import_'}.get(what, what))
        return checked(call(hold, *words), (what, *words))

    def close(self):
        for process in self.holds.values():
            process.kill()
            process.wait()


# ---- the scenes ----

def is_excluded(a, b, kind, name):
    """a keeps b out as long as it holds it."""
    a.does('take', 0, kind, name, 0)
    tap.equal(f'{kind} while it is held', b.does('take', 1, kind, name, 0), 'busy')
    a.does('give', 0)
    b.does('take', 1, kind, name, WAIT_MS)
    b.does('give', 1)


def of(kind):
    return lambda a, b, name: is_excluded(a, b, kind, name)


def reading_and_writing(a, b, name):
    is_excluded(a, b, 'write', name)
    a.does('take', 0, 'read', name, WAIT_MS)
    b.does('take', 0, 'read', name, WAIT_MS)
    a.does('give', 0)
    tap.equal('a writer beside a reader', a.does('take', 1, 'write', name, 0), 'busy')
    b.does('give', 0)
    a.does('take', 1, 'write', name, WAIT_MS)
    tap.equal('a reader beside a writer', b.does('take', 1, 'read', name, 0), 'busy')
    a.does('give', 1)


def two_permits(a, b, name):
    a.does('take', 0, 'semaphore', name, WAIT_MS)
    b.does('take', 0, 'semaphore', name, WAIT_MS)
    tap.equal('a third', b.does('take', 1, 'semaphore', name, 0), 'busy')
    a.does('give', 0)
    b.does('take', 1, 'semaphore', name, WAIT_MS)
    b.does('give', 0)
    b.does('give', 1)


def several(a, b, name):
    """Whoever has all of them keeps out who wants one, and the other way round."""
    a.does('take', 0, 'several', name, 0)
    tap.equal('one of them', b.does('take', 1, 'mutex', f'{name}-2', 0), 'busy')
    a.does('give', 0)
    b.does('take', 1, 'mutex', f'{name}-2', WAIT_MS)
    tap.equal('all of them', a.does('take', 0, 'several', name, 0), 'busy')
    b.does('give', 1)


def signalled(a, b, name):
    """a waits, b signals: until somebody was there."""
    condition, with_lock = f'{name}-condition', not isinstance(a, Shell)
    if with_lock:
        a.does('take', 0, 'mutex', name, 0)
    a.does('wait', 0, condition)
    wait_until('somebody waits',
               lambda: b.does('signal', 0, condition) == 'signalled 1')
    tap.equal('signalled', a.does('woken', 0), 'woken')
    if with_lock:
        a.does('give', 0)


def handed_on(a, b, name):
    ticket = a.does('leave', 0, 'mutex', name).partition(' ')[2]
    tap.equal('left, and not taken', a.does('take', 0, 'mutex', name, 0), 'busy')
    b.does('import', 1, ticket)
    tap.equal('taken by the ticket', a.does('take', 0, 'mutex', name, 0), 'busy')
    b.does('give', 1)


def asked_for(a, b, name):
    """b asks a. That nobody listens and that nobody can is one answer; and who has just begun to
    listen is heard of a moment later."""
    can = [Absent] if b.cast.can_revoke else []
    a.does('take', 0, 'mutex', name, 0)
    a.does('listen', 0)

    def asked():
        with contextlib.suppress(*can):
            return b.does('revoke', 1, 'mutex', name) == 'asked'
        return False
    wait_until('who holds it is asked', asked)
    tap.equal('asked for', a.does('hear', 0), 'heard')
    a.does('give', 0)


def inspected(a, b, name):
    tap.equal('before', b.does('inspect', 1, 'mutex', name), 'free')
    a.does('take', 0, 'mutex', name, 0)
    tap.equal('held', b.does('inspect', 1, 'mutex', name), 'taken')
    a.does('give', 0)


SCENES = {
    'mutex': of('mutex'),
    'in order': of('in-order'),
    'read/write': reading_and_writing,
    'semaphore': two_permits,
    'election': of('election'),
    'several as one': several,
    'condition': signalled,
    'handed on': handed_on,
    'asked for': asked_for,
    'inspected': inspected,
}


# ---- all of it ----

class Cast:
    """Who plays on one backend."""
    clients = itertools.count()

    def __init__(self, uri, dlock, programs):
        self.uri, self.dlock, self.programs = uri, dlock, programs
        self.members, self.pairs = [], {}
        self.ours = self.join(Member(programs[OURS], next(self.clients), uri))
        self.can_revoke = self.ours.does('has', 0, 'revoke') == 'yes'

    def pair(self, language):
        """One of this language, and one in C; both in one process where they share its memory."""
        if language == SHELL:
            if self.uri.startswith('mem:'):
                raise Absent(ONE_PROCESS)
            return self.join(Shell(self.dlock, self.uri)), self.ours
        program = self.programs[language]
        one = self.join(Member(program, next(self.clients), self.uri))
        if self.uri.startswith('mem:'):
            return one, self.join(Member(program, next(self.clients), self.uri))
        return one, self.ours

    def join(self, member):
        member.cast = self
        self.members.append(member)
        return member

    def close(self):
        for member in self.members:
            member.close()


def reason_of(text, uri):
    """What the library says, without names and places that are of this run only."""
    return re.sub(r'matrix-\d+\S*', 'it', text.replace(uri, 'it'))


def cell(cast, language, kind, numbers):
    """None, or why it isn't there."""
    try:
        if language == SHELL and kind in NO_COMMAND:
            raise Absent(NO_COMMAND[kind])
        if language not in cast.pairs:
            cast.pairs[language] = cast.pair(language)
        one, other = cast.pairs[language]
        for a, b in ((one, other), (other, one)):
            SCENES[kind](a, b, f'matrix-{next(numbers)}')
    except Absent as why:
        return reason_of(str(why), cast.uri)
    return None


def played_on(uri, kind):
    """The pattern of a read/write lock's nodes says which side, and only that one's does."""
    return uri.replace('{seq}', '{side}{seq}') if kind == 'read/write' else uri


def play(uris_by_name, dlock, programs):
    """A dict of backend and kind: a dict of language: None or a reason."""
    numbers, found = itertools.count(), {}
    for backend, uri in uris_by_name.items():
        with contextlib.ExitStack() as stack:
            casts = {there: stack.enter_context(contextlib.closing(Cast(there, dlock, programs)))
                     for there in {played_on(uri, kind) for kind in SCENES}}
            for kind, language in itertools.product(SCENES, (*programs, SHELL)):
                try:
                    why = cell(casts[played_on(uri, kind)], language, kind, numbers)
                except AssertionError as wrong:
                    raise AssertionError(f'{backend}, {kind}, {language}: {wrong}') from wrong
                found.setdefault((backend, kind), {})[language] = why
    return found


# ---- the page ----

HEAD = """# Each kind on each backend, from each language

Written by `tests/matrix/matrix.py --write` from a run on real servers, and compared with one by
`make test`. **yes** means: from C, Python, Go and the shell, each beside a program in C; each could
hold it, and was kept out. Where a word is missing the note says why, mostly in the library's own
words.

What the kinds are is in [kinds](../explanation/kinds.md), which backend keeps which promise under
which fault in [what is proved where](conformance.md).

"""


class Notes:
    def __init__(self):
        self.numbers = {}

    def mark(self, why):
        """Links a cell to its note, each reason once."""
        return f'[{self.numbers.setdefault(why, len(self.numbers) + 1)}](#notes)'


def words(found, notes):
    """What C hasn't nobody has, and the library's own words say why."""
    there = [language for language, why in found.items() if why is None]
    reasons = [found[OURS]] if found[OURS] else filter(None, found.values())
    marks = ' '.join(notes.mark(why) for why in dict.fromkeys(reasons))
    said = 'yes' if len(there) == len(found) else ', '.join(there) or '–'
    return f'{said} {marks}'.strip()


def page_of(found):
    notes = Notes()
    lines = ['| | ' + ' | '.join(SCENES) + ' |', '|---' * (len(SCENES) + 1) + '|']
    for backend in dict.fromkeys(backend for backend, _ in found):
        cells = (words(found[backend, kind], notes) for kind in SCENES)
        lines.append(f'| {backend} | ' + ' | '.join(cells) + ' |')
    lines += ['', '## Notes', '']
    lines += [f'{number}. {why}' for why, number in notes.numbers.items()]
    return HEAD + '\n'.join(lines) + '\n'


def main():
    dlock, member, python, go, *how = sys.argv[1:]
    here = Path(__file__).resolve().parent
    commands = {OURS: [member], 'Python': [python, here / 'member.py'], 'Go': [go]}

    def page_is_what_a_run_shows():
        with tempfile.TemporaryDirectory(prefix='dlock-matrix-') as folder, \
                contextlib.ExitStack() as stack:
            programs = {language: stack.enter_context(contextlib.closing(Program(command)))
                        for language, command in commands.items()}
            found = play(uris(folder, **services(folder, stack)), dlock, programs)
        page = page_of(found)
        if how == ['--write']:
            PAGE.write_text(page, encoding='utf-8')
        tap.equal(f'{PAGE.name}: see matrix.py --write', PAGE.read_text(encoding='utf-8'), page)

    return tap.main([('page_is_what_a_run_shows', page_is_what_a_run_shows)])


if __name__ == '__main__':
    sys.exit(main())

"""The page of what others' own tests say of our locks: docs/reference/others-tests.md.

A suite of theirs has a section, which the program that runs it checks when it has run it, or writes
where DLK_WRITE_PAGE is set. Whatever their file has is run, but for what a list of ours leaves out,
each with its reason; a name in such a list that they don't have any more is an error.
"""
import fcntl
import os
import re
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
PAGE = TOP / 'docs' / 'reference' / 'others-tests.md'
REASON_MIN = 20   # letters: less is none
WIDTH = 118

INTRO = '''\
# What others' tests say of our locks

Lock libraries come with tests of what their users count on. `make test` runs those of others on
locks of ours, unedited, through an adapter that gives our calls the names of theirs: whole files,
fetched from where they are published or read where they are installed, none of it copied into this
project. What can't be so with ours is left out, by name and with its reason; whatever else one of
their files has is run.

Written by the tests that run them; a test fails when its section isn't what it has run:
`DLK_WRITE_PAGE=1 meson test -C build --suite python --suite go` brings the page up to date. A test
counts once for each kind of lock and each service that it has run on.
'''
HEAD = '| suite | version | passed | left out |\n|---|---|---|---|\n'
ROW = re.compile(r'^\| \[(?P<title>.+)\]\(#.+\) \| (?P<version>.+?) \| \d+ \| \d+ \|$',
                 re.MULTILINE)


@dataclass
class Part:
    """One class, or file, of theirs on one lock of ours."""
    theirs: str
    ours: str
    passed: list
    left_out: dict   # name: why


@dataclass
class Suite:
    """What one section is made of; one whose version isn't ours to choose is compared with that of
    the page only where it is the same."""
    title: str
    version: str
    about: str
    whole: dict = field(default_factory=dict)   # what of theirs is left out as a whole: why
    parts: list = field(default_factory=list)

    def count(self):
        return (sum(len(part.passed) for part in self.parts),
                sum(len(part.left_out) for part in self.parts))

    def row(self):
        slug = re.sub(r'[^\w\- ]', '', self.title.lower()).replace(' ', '-')
        passed, left_out = self.count()
        return f'| [{self.title}](#{slug}) | {self.version} | {passed} | {left_out} |'

    def section(self):
        out = [f'## {self.title}', '', self.about.strip(), '',
               '| of theirs | on | passed | left out |', '|---|---|---|---|']
        out += [f'| `{part.theirs}` | {part.ours} | {len(part.passed)} | {len(part.left_out)} |'
                for part in self.parts]
        if self.whole or any(part.left_out for part in self.parts):
            out += ['', '| left out | of those on | because |', '|---|---|---|']
        out += [f'| `{theirs}{":" if "." in theirs else "."}{name}` | {self.places(theirs, ours)} '
                f'| {why} |' for (theirs, name, why), ours in self.left_out().items()]
        out += [f'| all of {code(name)} | all | {why} |' for name, why in self.whole.items()]
        out += ['', 'Passed:', '', *self.passed()]
        return '\n'.join(out)

    def left_out(self):
        """(theirs, name, why) of each, in their order, with the locks of ours that it is about."""
        found = {}
        for part in self.parts:
            for name, why in part.left_out.items():
                found.setdefault((part.theirs, name, why), []).append(part.ours)
        return found

    def places(self, theirs, ours):
        run = [part.ours for part in self.parts if part.theirs == theirs]
        return 'all' if run == ours else '; '.join(ours)

    def passed(self):
        """The names of what has passed anywhere, a line for each of theirs."""
        found = {}
        for part in self.parts:
            names = found.setdefault(part.theirs, [])
            names += [name for name in part.passed if name not in names]
        for theirs, names in found.items():
            text = f'- {theirs}: {", ".join(f"`{name}`" for name in sorted(names))}'
            yield textwrap.fill(text, WIDTH, subsequent_indent='  ', break_long_words=False,
                                break_on_hyphens=False)

    def wrong(self):
        """What there is to say against the lists that leave out."""
        reasons = [*self.whole.items()]
        for part in self.parts:
            reasons += part.left_out.items()
        return [f'{name}: no reason' for name, why in reasons if len(why) < REASON_MIN]


def code(names):
    return ', '.join(f'`{name}`' for name in names.split(', '))


def split(text):
    """The page as (its table's rows, its sections), each by title."""
    _, *sections = re.split(r'^## ', text, flags=re.MULTILINE)
    sections = {section.partition('\n')[0]: f'## {section}' for section in sections}
    return {match['title']: match for match in ROW.finditer(text)}, sections


def join(rows, sections):
    titles = sorted(sections, key=str.lower)
    return '\n'.join([INTRO, HEAD + '\n'.join(rows[title] for title in titles), '',
                      *(sections[title].rstrip() + '\n' for title in titles)])


def page_version(title):
    """The version of a suite that the page is of."""
    found, _ = split(PAGE.read_text(encoding='utf-8') if PAGE.exists() else '')
    return found[title]['version'] if title in found else None


def settle(suite):
    """Writes the suite's section of the page, or raises AssertionError where it isn't true."""
    wrong = suite.wrong()
    if wrong:
        raise AssertionError('; '.join(wrong))
    with open(__file__, 'rb') as mine:
        fcntl.flock(mine, fcntl.LOCK_EX)   # other suites write their sections
        settle_page(suite)


def settle_page(suite):
    text = PAGE.read_text(encoding='utf-8') if PAGE.exists() else ''
    found, sections = split(text)
    there = found.get(suite.title)
    rows = {title: match[0] for title, match in found.items()}
    rows[suite.title], sections[suite.title] = suite.row(), suite.section()
    page = join(rows, sections)
    if os.environ.get('DLK_WRITE_PAGE'):
        PAGE.write_text(page, encoding='utf-8')
    elif there and there['version'] != suite.version:
        print(f'# {PAGE.name} is of {suite.title} {there["version"]}; this is {suite.version}')
    elif page != text:
        raise AssertionError(f'{PAGE.name} isn\'t what was run: DLK_WRITE_PAGE=1 brings it up to '
                             'date, see there')

#!/usr/bin/env python3
"""The tables of backends on the pages, against what the library itself answers.

    test_tables.py BUILD             compares
    test_tables.py BUILD --write     brings the written ones up to date

A written table stands between "<!-- backends: COLUMN, … -->" and "<!-- end of backends -->"; that
of the promises, with what no library knows, is compared where a word of it is one of the library's.
"""
import re
import sys
from pathlib import Path

import features
import tap

TOP = Path(__file__).resolve().parent.parent.parent
WRITTEN = re.compile(r'(<!-- backends: (.*?) -->\n)(.*?)(<!-- end of backends -->)', re.S)
PAGES = [TOP / 'README.md', TOP / 'docs/explanation/kinds.md']
PROMISES = TOP / 'docs/explanation/promises.md'
# Services as sentences call them, by their schemes, and what isn't a service of its own.
SERVICES = {'mem': 'memory', 'file': 'file', 'redis': 'Redis', 'postgres': 'PostgreSQL',
            'zookeeper': 'ZooKeeper', 'etcd': 'etcd', 'memcached': 'memcached'}
MANY = {'redlock', 'memlock'}
# Who says what there is, and with what it begins; to the end of that paragraph.
SUMMARIES = {
    'README.md': 'Correct distributed locks',
    'bindings/python/README.md': 'Correct distributed locks',
    'bindings/python/dlock/__init__.py': 'Correct distributed locks',
    'bindings/go/doc.go': 'Package dlock', 'pyproject.toml': 'description = "',
    'debian/control': 'Description: distributed locks over',
    'packaging/conan/conanfile.py': "description = '",
    'packaging/vcpkg/libdlock/vcpkg.json': '"description": "',
}
# Neither has its client for C.
WITHOUT = {'packaging/conan/conanfile.py': {'ZooKeeper'},
           'packaging/vcpkg/libdlock/vcpkg.json': {'ZooKeeper'}}
GRADES = '| | reaches | class (`client.require`) | holder killed | order of waiters |'


def yes(said, *keys):
    """Whether all of it is there."""
    return 'yes' if all(said[key] == '1' for key in keys) else '–'


COLUMNS = {
    'mutex': lambda said: yes(said, 'kinds.mutex'),
    'read/write': lambda said: yes(said, 'kinds.read', 'kinds.write'),
    'semaphore': lambda said: yes(said, 'kinds.semaphore'),
    'election': lambda said: yes(said, 'kinds.election'),
    'condition': lambda said: yes(said, 'kinds.condition'),
    'in order': lambda said: yes(said, 'fair'),
    'token': lambda said: yes(said, 'tokens'),
    'handed on': lambda said: yes(said, 'handoff'),
    'asked for': lambda said: yes(said, 'revoke'),
    'extended': lambda said: yes(said, 'extend'),
    'class': lambda said: said['class'],
}


def table(columns, known, all_rows):
    """In Markdown. Without all_rows only what has a name of its own, no variants by settings."""
    names = [name.strip() for name in columns.split(',')]
    lines = ['| | ' + ' | '.join(names) + ' |', '|---' * (len(names) + 1) + '|']
    for backend, said in known.items():
        if all_rows or ',' not in backend:
            cells = (COLUMNS[name](said) for name in names)
            lines.append(f'| {backend} | ' + ' | '.join(cells) + ' |')
    return '\n'.join(lines) + '\n'


def renewed(page, known):
    """The page's text with its written tables as they should be."""
    return WRITTEN.sub(lambda match: match[1] + table(match[2], known, page.name != 'README.md') +
                       match[4], page.read_text(encoding='utf-8'))


def rows(page, head):
    """The table of the page under this heading of columns: first column -> cells."""
    text = page.read_text(encoding='utf-8')
    body = re.search(rf'^{re.escape(head)}\n[|-]+\n((?:\|.*\n)+)', text, re.M)[1]
    cells = ([cell.strip() for cell in line.strip('|').split('|')] for line in body.splitlines())
    return {first: rest for first, *rest in cells}


def main():
    build, *how = sys.argv[1:]
    library = features.Library(Path(build) / 'libdlock' / 'libdlock.so.0')

    def written_tables_are_what_the_library_answers():
        known = features.of_each_backend(library)
        for page in PAGES:
            text = page.read_text(encoding='utf-8')
            if not WRITTEN.search(text):
                raise AssertionError(f'{page.name}: no table of backends')
            tap.equal(f'{page.name}: run test_tables.py --write', text, renewed(page, known))

    def promises_name_each_backend_with_its_class():
        known = features.of_each_backend(library)
        said = rows(PROMISES, GRADES)
        tap.equal('backends', list(said), [name for name in known if ',' not in name])
        for name, (_, grade, _, order) in said.items():
            tap.equal(f'{name}: class', grade.split()[0].rstrip(';,'), known[name]['class'])
            tap.equal(f'{name}: in order', order.startswith('first come'),
                      known[name]['fair'] == '1')

    def schemes():
        return {re.match(r'`([a-z]+)', name)[1] for name in features.of_each_backend(library)}

    def each_summary_names_each_service():
        tap.equal('services that have a name here', schemes() - MANY, set(SERVICES))
        for place, begins in SUMMARIES.items():
            text = (TOP / place).read_text(encoding='utf-8')
            said = re.split(r'\n *\n|",\n|"\n', text.partition(begins)[2], maxsplit=1)[0]
            missing = {name for name in SERVICES.values() if name not in said}
            tap.equal(f'{place}: not named', missing, WITHOUT.get(place, set()))

    def the_manual_names_each_scheme():
        manual = (TOP / 'tools/dlock.1').read_text(encoding='utf-8')
        named = set(re.findall(r'^\.It Pa ([a-z]+)', manual, re.M))
        # Locks in the memory of a command are nobody else's.
        tap.equal('schemes that it does not name', schemes() - named - {'mem'}, set())

    if how == ['--write']:
        known = features.of_each_backend(library)
        for page in PAGES:
            page.write_text(renewed(page, known), encoding='utf-8')
        return 0
    return tap.main([(test.__name__, test) for test in (
        written_tables_are_what_the_library_answers,
        promises_name_each_backend_with_its_class,
        each_summary_names_each_service, the_manual_names_each_scheme)])


if __name__ == '__main__':
    sys.exit(main())

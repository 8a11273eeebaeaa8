#!/usr/bin/env python3
"""What packages are called: on the Python index dlock is another project's, so ours is libdlock
there, and only the import is dlock. Go's modules have the path of their folder."""
import re
import sys
import tomllib
from pathlib import Path

import tap

TOP = Path(__file__).resolve().parent.parent.parent
OF_OTHERS = re.compile(r'\bpip3?\s+install\b[^\n`]*[\n]?[^\n`]*?(?<![\w./-])dlock(?![\w./-])')
EXTRA = re.compile(r'\bdlock\[\w+\]|\blibdlock\[(\w+)\]')
GO = TOP / 'bindings' / 'go'


def texts():
    """What is said to users: pages, the package's own comments, and what builds it."""
    names = [TOP / 'pyproject.toml', *TOP.glob('*.md'), *(TOP / 'docs').rglob('*.md')]
    names += (TOP / 'bindings' / 'python').rglob('*.py')
    for name in sorted(names):
        yield name.relative_to(TOP), name.read_text(encoding='utf-8')


def the_search_finds_what_it_is_for():
    for wrong in ('pip install dlock', 'pip install -U dlock', 'python -m pip install dlock[x]',
                  'pip install redis dlock', 'pip install\ndlock[prometheus]',
                  'pip install dlock==1'):
        if not OF_OTHERS.search(wrong):
            raise AssertionError(f'not found: {wrong!r}')
    for right in ('pip install libdlock', 'pip install .', 'pip install . # in dlock.git',
                  'pip install libdlock[prometheus]`, then `import dlock'):
        if OF_OTHERS.search(right):
            raise AssertionError(f'found: {right!r}')


def nobody_is_told_to_install_the_project_called_dlock():
    for name, text in texts():
        wrong = OF_OTHERS.search(text)
        if wrong:
            raise AssertionError(f'{name}: the package is libdlock: {wrong[0]!r}')


def the_distribution_is_libdlock_and_has_the_extras_that_are_named():
    project = tomllib.loads((TOP / 'pyproject.toml').read_text(encoding='utf-8'))['project']
    tap.equal('the name in pyproject.toml', project['name'], 'libdlock')
    for name, text in texts():
        for extra in EXTRA.finditer(text):
            if extra[1] not in project['optional-dependencies']:
                raise AssertionError(f'{name}: no such extra: {extra[0]}')


def go_modules_have_the_path_of_their_folder():
    version = re.search(r"version: '([\d.]+)'", (TOP / 'meson.build').read_text())[1]
    for folder in (GO, GO / 'dlockmetrics'):
        text = (folder / 'go.mod').read_text()
        path = f'github.com/libdlock/libdlock/{folder.relative_to(TOP)}'
        tap.equal(f'{folder.name}: module', re.search(r'^module (\S+)$', text, re.M)[1], path)
        # It counts only here, so with it nobody would see that others can't fetch the module.
        if 'replace' in text:
            raise AssertionError(f'{folder.name}: go.mod replaces')
    needs = re.search(r'libdlock/bindings/go v(\S+)', (GO / 'dlockmetrics' / 'go.mod').read_text())
    tap.equal('the release that dlockmetrics needs', needs[1], version)


if __name__ == '__main__':
    sys.exit(tap.main([(test.__name__, test) for test in (
        the_search_finds_what_it_is_for, nobody_is_told_to_install_the_project_called_dlock,
        the_distribution_is_libdlock_and_has_the_extras_that_are_named,
        go_modules_have_the_path_of_their_folder)]))

#!/usr/bin/env python3
"""The man pages of the functions, as the build has made them: test_man.py FOLDER."""
import re
import shutil
import subprocess
import sys
from pathlib import Path

import tap

TOP = Path(__file__).resolve().parent.parent.parent
PAGES = sorted(Path(sys.argv[1]).glob('*.3'))
HEADER = TOP / 'libdlock/include/dlock/dlock.h'


def shown(page):
    """As `man` shows it, in one line."""
    if not shutil.which('mandoc'):
        raise tap.Skip('no mandoc here')
    text = tap.run(['mandoc', '-T', 'utf8', '-O', 'width=200', page])
    return ' '.join(re.sub('.\b', '', text).split())


def each_function_has_a_page():
    names = re.findall(r'^ +(dlock_\w+);', (TOP / 'libdlock/dlock.map').read_text(), re.M)
    tap.equal('pages', [page.stem for page in PAGES], sorted(names))


def no_page_has_a_warning():
    if not shutil.which('mandoc'):
        raise tap.Skip('no mandoc here')
    done = subprocess.run(['mandoc', '-T', 'lint', '-W', 'warning', *PAGES], text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
    tap.equal('what mandoc says', done.stdout, '')


def a_page_says_what_the_header_says():
    """All words of the comment, whatever their order."""
    text = HEADER.read_text(encoding='utf-8')
    for page in PAGES:
        above = r'/\*\*((?:(?!\*/).)*)\*/\nDLOCK_API[^;]*?\b'
        comment = re.search(above + page.stem + r'\(', text, re.S)[1]
        words = set(re.findall(r'[A-Za-z_]{3,}', re.sub(r'@\w+', '', comment)))
        missing = words - set(re.findall(r'[A-Za-z_]{3,}', shown(page)))
        tap.equal(f'{page.name}: words of the header that it lacks', sorted(missing), [])


def a_page_shows_how_it_is_called():
    for page in PAGES:
        said = re.search(r'SYNOPSIS (.*?) DESCRIPTION', shown(page))[1]
        if '#include <dlock/dlock.h>' not in said or f'{page.stem}(' not in said:
            raise AssertionError(f'{page.name}: {said}')


if __name__ == '__main__':
    sys.exit(tap.main([(test.__name__, test) for test in (
        each_function_has_a_page, no_page_has_a_warning, a_page_says_what_the_header_says,
        a_page_shows_how_it_is_called)]))

#!/usr/bin/env python3
"""The documentation against what it talks about.

Each block of C in it is a piece of a compiled file of examples/, said by a comment above it:

    <!-- examples/FILE.c:REGION -->     between "/* doc: REGION */" and "/* end: REGION */"
    <!-- examples/FILE.c -->            all of it, without such lines

`tests/docs/test_listings.py --write` brings the listings up to date. The other tests look at
links and at the names of functions, codes and settings.
"""
import re
import sys
import textwrap
from pathlib import Path

import tap

TOP = Path(__file__).resolve().parent.parent.parent
PAGES = [TOP / name for name in ('README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'CHANGELOG.md')]
PAGES += sorted((TOP / 'docs').rglob('*.md'))
LINKED = PAGES + sorted((TOP / 'tests').rglob('*.md')) + sorted((TOP / 'bench').rglob('*.md'))
LISTING = re.compile(r'(?:<!-- (?P<place>\S+) -->\n)?```c\n(?P<code>.*?)^```$', re.M | re.S)
MARKER = re.compile(r'^\s*/\* (doc|end): (\w+) \*/\n', re.M)
LINK = re.compile(r'\]\(([^)\s]+)\)')


def where(page):
    return page.relative_to(TOP)


def listing_of(place):
    """The text that a marker names."""
    name, _, region = place.partition(':')
    if not re.fullmatch(r'examples/\w+\.[ch]', name):
        raise AssertionError(f'{place}: listings come from examples/')
    text = (TOP / name).read_text(encoding='utf-8')
    if not region:
        return MARKER.sub('', text)
    parts = re.findall(rf'^\s*/\* doc: {region} \*/\n(.*?)^\s*/\* end: {region} \*/\n', text,
                       re.M | re.S)
    if len(parts) != 1:
        raise AssertionError(f'{place}: {len(parts)} regions of this name')
    return MARKER.sub('', textwrap.dedent(parts[0]))


def listings():
    for page in PAGES:
        for match in LISTING.finditer(page.read_text(encoding='utf-8')):
            yield page, match


def every_listing_is_a_piece_of_a_compiled_file():
    for page, match in listings():
        if not match['place']:
            raise AssertionError(f'{where(page)}: C without a file:\n{match["code"]}')
        tap.equal(f'{where(page)}: {match["place"]}', match['code'], listing_of(match['place']))


def readme_shows_ten_lines():
    places = [match['place'] for page, match in listings() if page.name == 'README.md']
    tap.equal('listings of the README', places, ['examples/ten_lines.c:body'])
    code = [line for line in listing_of(places[0]).splitlines() if line.strip()]
    if len(code) > 11:
        raise AssertionError(f'the ten lines are {len(code)}')


def every_region_is_shown_somewhere():
    shown = {match['place'] for _, match in listings()}
    for source in sorted((TOP / 'examples').glob('*.[ch]')):
        for region in re.findall(r'/\* doc: (\w+) \*/', source.read_text(encoding='utf-8')):
            if f'examples/{source.name}:{region}' not in shown:
                raise AssertionError(f'{source.name}: region {region} is shown nowhere')


def anchors_of(page):
    """The names that headings get, as the usual renderers of Markdown make them. In a listing there
    are none."""
    text = re.sub(r'^ *```.*?^ *```$', '', page.read_text(encoding='utf-8'), flags=re.M | re.S)
    heads = re.findall(r'^#+ (.*)$', text, re.M)
    return {re.sub(r'[^\w\- ]', '', head.lower()).replace(' ', '-') for head in heads}


def every_link_leads_somewhere():
    for page in LINKED:
        for link in LINK.findall(page.read_text(encoding='utf-8')):
            if re.match(r'[a-z]+:', link):
                continue
            path, _, anchor = link.partition('#')
            target = (page.parent / path).resolve() if path else page
            if not target.exists():
                raise AssertionError(f'{where(page)}: {link} leads nowhere')
            if anchor and anchor not in anchors_of(target):
                raise AssertionError(f'{where(page)}: {link}: no such heading')


def every_page_is_reached_from_the_readme():
    seen, todo = set(), [TOP / 'README.md']
    while todo:
        page = todo.pop()
        if page in seen or page.suffix != '.md' or not page.exists():
            continue
        seen.add(page)
        for link in LINK.findall(page.read_text(encoding='utf-8')):
            if not re.match(r'[a-z]+:', link) and link.partition('#')[0]:
                todo.append((page.parent / link.partition('#')[0]).resolve())
    missing = [str(where(page)) for page in PAGES if page not in seen]
    tap.equal('pages that no link leads to', missing, [])


def the_index_names_every_page_once():
    """But for the decisions, which have an index of their own."""
    index = TOP / 'docs' / 'README.md'
    linked = [(index.parent / link).resolve()
              for link in LINK.findall(index.read_text(encoding='utf-8'))]
    pages = [page for page in PAGES if page.is_relative_to(index.parent) and page != index]
    pages = [page for page in pages if not re.match(r'\d{4}-', page.name)]
    wrong = [str(where(page)) for page in pages if linked.count(page) != 1]
    tap.equal('pages of docs/ that its README names not once', wrong, [])


def names_of_functions_and_codes_exist():
    header = (TOP / 'libdlock/include/dlock/dlock.h').read_text(encoding='utf-8')
    known = set(re.findall(r'\b(?:dlock|DLOCK)_\w+', header))
    for page in PAGES:
        text = page.read_text(encoding='utf-8')
        for name in re.findall(r'\b(dlock_\w+)\(|\b(DLOCK_E\w+)', text):
            name = name[0] or name[1]
            if name not in known and not name.endswith('_'):
                raise AssertionError(f'{where(page)}: the header has no {name}')


def names_of_settings_exist():
    settings = (TOP / 'docs/reference/settings.md').read_text(encoding='utf-8')
    known = set(re.findall(r'^\| `([a-z.0-9_]+)`', settings, re.M))
    parts = '|'.join(sorted({key.partition('.')[0] for key in known}))
    for page in PAGES:
        for key in re.findall(rf'\b((?:{parts})\.[a-z][a-z0-9_]*)\s*=',
                              page.read_text(encoding='utf-8')):
            if key not in known:
                raise AssertionError(f'{where(page)}: no setting is called {key}')
        for key in re.findall(rf'`((?:{parts})\.[a-z][a-z0-9_]*)`',
                              page.read_text(encoding='utf-8')):
            if key not in known and not key.endswith(('.c', '.h', '.md', '.lua', '.pml')):
                raise AssertionError(f'{where(page)}: no setting is called {key}')


def the_picture_of_the_ratios_is_that_of_their_table():
    tap.run([sys.executable, TOP / 'bench' / 'picture.py', '--check'])


def write():
    """Brings every listing up to date."""
    for page in PAGES:
        text = page.read_text(encoding='utf-8')
        new = LISTING.sub(lambda match: match[0] if not match['place'] else
                          f'<!-- {match["place"]} -->\n```c\n{listing_of(match["place"])}```', text)
        if new != text:
            page.write_text(new, encoding='utf-8')
            print(f'{where(page)}: written')


if __name__ == '__main__':
    if sys.argv[1:] == ['--write']:
        write()
        sys.exit(0)
    sys.exit(tap.main([(test.__name__, test) for test in (
        every_listing_is_a_piece_of_a_compiled_file, readme_shows_ten_lines,
        every_region_is_shown_somewhere, every_link_leads_somewhere,
        every_page_is_reached_from_the_readme, the_index_names_every_page_once,
        names_of_functions_and_codes_exist, names_of_settings_exist,
        the_picture_of_the_ratios_is_that_of_their_table)]))

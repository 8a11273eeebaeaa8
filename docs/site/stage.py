"""The sources of the site, made from the pages as they lie in the repository.

Pages keep their places below docs/; what is linked to and lies elsewhere gets one of the site's, or
a link to the repository. The menus are the order of docs/README.md, so there is no second list.
"""
import os
import re
import shutil
from pathlib import Path

import c_page
import go_page
import python_page

# What a page is called on the site, where that isn't its place below docs/.
PLACES = {'README.md': 'index.md', 'docs/README.md': 'pages.md', 'CHANGELOG.md': 'changes.md',
          'CONTRIBUTING.md': 'contributing.md', 'SECURITY.md': 'security.md',
          'RELEASING.md': 'releasing.md'}
# What is made anew here, from the same comments as the file; and folders that have a page.
INSTEAD = {'libdlock/include/dlock/dlock.h': 'reference/c.md', 'bindings/go': 'reference/go.md',
           'docs/reference/python.md': 'reference/python.rst'}
MENUS = {'': 'Begin', 'how-to': 'How do I …?', 'explanation': 'What do I get?',
         'reference': 'What is it called?', 'design': 'How is it made?', 'others': 'The project'}
LINK = re.compile(r'(!?)\[((?:[^][]|\[[^]]*\])*)\]\(([^)\s]+)\)')
FENCED = re.compile(r'(^ *```.*?^ *```$)', re.M | re.S)


class Stage:
    def __init__(self, top, out, source):
        self.top, self.out, self.source = top, out, source
        self.pages = {path: self.place(path) for path in self.sources()}

    def sources(self):
        found = [self.top / name for name in PLACES]
        for folder in ('docs', 'tests', 'bench'):
            found += sorted((self.top / folder).rglob('*.md'))
        return list(dict.fromkeys(found))

    def place(self, path):
        name = path.relative_to(self.top).as_posix()
        if name in PLACES or name in INSTEAD:
            return PLACES.get(name) or INSTEAD[name]
        return re.sub(r'(^|/)README\.md$', r'\1index.md', name.removeprefix('docs/'))

    def target(self, page, link):
        """A link of a page as one of the site's."""
        if re.match(r'[a-z]+:', link) or link.startswith('#'):
            return link
        path, sharp, anchor = link.partition('#')
        found = (page.parent / path).resolve()
        if not found.exists():
            raise SystemExit(f'{page.relative_to(self.top)}: {link} leads nowhere')
        name = found.relative_to(self.top).as_posix()
        if found.is_dir() and name not in INSTEAD and (found / 'README.md') in self.pages:
            found /= 'README.md'
        place = self.pages.get(found) or INSTEAD.get(name)
        if found.suffix in ('.svg', '.png'):
            place = name.removeprefix('docs/')
            (self.out / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(found, self.out / place)
        if place is None:
            kind = 'tree' if found.is_dir() else 'blob'
            return f'{self.source}/{kind}/main/{name}{sharp}{anchor}'
        if name in INSTEAD:   # it has other headings
            sharp = anchor = ''
        return os.path.relpath(place, Path(self.pages[page]).parent) + sharp + anchor

    def text_of(self, page):
        """The page, relinked but for its listings."""
        parts = FENCED.split(page.read_text(encoding='utf-8'))
        parts[::2] = [self.relinked(page, part) for part in parts[::2]]
        return ''.join(parts)

    def relinked(self, page, text):
        def one(match):
            inner = self.relinked(page, match[2]) if match[2].startswith('![') else match[2]
            return f'{match[1]}[{inner}]({self.target(page, match[3])})'
        return LINK.sub(one, text)

    def menus(self):
        """The pages of each menu, in the order in which the indices name them."""
        order = []
        for index in ('docs/README.md', 'docs/design/README.md'):
            page = self.top / index
            for _, _, link in LINK.findall(page.read_text(encoding='utf-8')):
                path = (page.parent / link.partition('#')[0]).resolve()
                place = self.pages.get(path) or INSTEAD.get(
                    path.relative_to(self.top).as_posix())
                order += [place] if place and place not in order else []
        order += [place for place in self.pages.values() if place not in order]
        order.remove('index.md')
        menus = {name: [] for name in MENUS}
        for place in order:
            folder = Path(place).parts[0] if '/' in place else ''
            known = folder if folder in MENUS and place not in PLACES.values() else 'others'
            menus['' if place in ('tutorial.md', 'pages.md') else known].append(place)
        return menus

    def toctrees(self):
        text = []
        for name, places in self.menus().items():
            text += ['```{toctree}', ':hidden:', f':caption: {MENUS[name]}', '']
            text += [re.sub(r'\.\w+$', '', place) for place in places] + ['```', '']
        return '\n'.join(text)

    def write(self, place, text):
        """Only what is new, so that Sphinx reads no more than that."""
        path = self.out / place
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding='utf-8') != text:
            path.write_text(text, encoding='utf-8')

    def everything(self):
        written = {}
        for page, place in self.pages.items():
            if place not in INSTEAD.values():
                written[place] = self.text_of(page)
        written['index.md'] += '\n' + self.toctrees()
        written.update(c_page.pages(self.top / 'libdlock/include/dlock/dlock.h'))
        written['reference/python.rst'] = python_page.page()
        written['reference/go.md'] = go_page.page(self.top)
        for path in [*self.out.rglob('*.md'), *self.out.rglob('*.rst')]:
            if path.relative_to(self.out).as_posix() not in written:
                path.unlink()
        for place, text in written.items():
            self.write(place, text)

#!/usr/bin/env python3
"""The site: test_site.py FOLDER builds it there, looks at its files, and at its pages in a browser.

What a browser sees is looked at by browser.html, in Chromium without a window, which sends what it
found back to us.
"""
import functools
import http.server
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import tap
from waiting import SLOW

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
FOLDER = Path(sys.argv[1])
HTML = FOLDER / 'html'
LIMIT_S = 180 * SLOW
# Words, and the page that a search for them has to name.
WANTED = {'dlock_hold_verify': '/reference/c/hold.html',
          'fencing token': '/how-to/guard-a-resource.html',
          'asyncio': '/how-to/python-asyncio.html', 'flock': '/how-to/shell-scripts.html'}


class Links(HTMLParser):
    """The places of a page, and where its links lead."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.links = set(), []
        self.feed(path.read_text(encoding='utf-8'))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids.add(attrs.get('id'))
        for name in ('href', 'src'):
            if attrs.get(name):
                self.links.append(attrs[name])


def pages():
    return sorted(HTML.rglob('*.html'))


@functools.cache
def links_of(path):
    return Links(path)


def it_is_built_without_a_warning():
    tap.run([sys.executable, TOP / 'tools' / 'docs', FOLDER])
    if len(pages()) < 60:
        raise AssertionError(f'{len(pages())} pages')


def no_link_within_it_is_dead():
    count = 0
    for page in pages():
        for link in links_of(page).links:
            if re.match(r'[a-z]+:|//', link):
                continue
            path, anchor = unquote(urlsplit(link).path), unquote(urlsplit(link).fragment)
            target = (page.parent / path).resolve() if path else page
            count += 1
            if not target.exists() or (anchor and target.suffix == '.html' and
                                       anchor not in links_of(target).ids):
                raise AssertionError(f'{page.relative_to(HTML)}: {link} leads nowhere')
    if count < 1000:
        raise AssertionError(f'only {count} links were looked at')


def nothing_is_loaded_from_elsewhere():
    for page in pages():
        text = page.read_text(encoding='utf-8')
        for tag in re.findall(r'<(?:script|img|iframe)[^>]*src="[a-z]*:?//[^"]*"'
                              r'|<link[^>]*rel="stylesheet"[^>]*href="[a-z]*:?//[^"]*"', text):
            raise AssertionError(f'{page.relative_to(HTML)}: {tag}')


def each_call_of_the_header_is_explained():
    said = {place for page in (HTML / 'reference' / 'c').glob('*.html')
            for place in links_of(page).ids if place}
    names = re.findall(r'^ +(dlock_\w+);', (TOP / 'libdlock/dlock.map').read_text(), re.M)
    missing = [name for name in names if f'c.{name}' not in said]
    tap.equal('functions without a place in the reference', missing, [])


class Server(http.server.ThreadingHTTPServer):
    """Serves the site and browser.html, and hears what that has found."""

    def __init__(self):
        handler = functools.partial(Handler, directory=str(HTML))
        super().__init__(('127.0.0.1', 0), handler)
        self.found = None
        self.done = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_arguments):
        pass

    def answer(self, kind, data):
        self.send_response(200)
        self.send_header('Content-Type', kind)
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        try:
            self.give()
        except ConnectionError:
            pass   # the browser went on to the next page

    def give(self):
        if self.path == '/__browser':
            self.answer('text/html; charset=utf-8', (HERE / 'browser.html').read_bytes())
        elif self.path == '/__what':
            names = ['/' + str(page.relative_to(HTML)) for page in pages()
                     if page.name not in ('search.html', 'genindex.html', 'py-modindex.html')]
            self.answer('application/json', json.dumps({
                'list': names, 'wanted': WANTED, 'diagrams': '/explanation/how-it-works.html',
                'tables': '/reference/conformance.html'}).encode())
        else:
            super().do_GET()

    def do_POST(self):
        self.server.found = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        self.answer('text/plain', b'')
        self.server.done.set()


@functools.cache
def seen_in_a_browser():
    """What browser.html has found, or that it came to no end."""
    browser = shutil.which('chromium') or shutil.which('google-chrome')
    if not browser:
        raise tap.Skip('no chromium here')
    server = Server()
    with tempfile.TemporaryDirectory(prefix='dlock-browser-') as folder, \
            open(f'{folder}/said', 'w+', encoding='utf-8', errors='replace') as said:
        child = subprocess.Popen(
            [browser, '--headless=new', '--no-sandbox', '--disable-gpu', '--no-first-run',
             '--disable-dev-shm-usage', '--disable-background-networking', '--mute-audio',
             f'--user-data-dir={folder}/profile',
             f'http://127.0.0.1:{server.server_port}/__browser'],
            stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        try:
            if server.done.wait(LIMIT_S):
                return server.found
        finally:
            child.terminate()
            child.wait(30)
            server.shutdown()
            server.server_close()
        said.seek(0)
        return {'wrong': {'browser': ['it came to no end', *said.read().splitlines()[-5:]]}}


def looked_at(what, least):
    found = seen_in_a_browser()
    for part in (what, 'browser'):
        if found['wrong'].get(part):
            raise AssertionError('\n'.join(found['wrong'][part][:20]))
    if found['seen'].get(what, 0) < least:
        raise AssertionError(f'{found["seen"].get(what, 0)} were looked at, not {least}')


def every_page_renders():
    looked_at('pages', 120)


def every_diagram_is_drawn():
    looked_at('diagrams', 12)


def no_page_is_wider_than_a_narrow_screen():
    looked_at('narrow', 120)


def the_search_finds():
    looked_at('search', len(WANTED))


def light_and_dark_differ_and_diagrams_follow():
    looked_at('colours', 2)


def the_table_of_conformance_can_be_filtered():
    looked_at('filter', 2)


if __name__ == '__main__':
    sys.exit(tap.main([(test.__name__, test) for test in (
        it_is_built_without_a_warning, no_link_within_it_is_dead, nothing_is_loaded_from_elsewhere,
        each_call_of_the_header_is_explained, every_page_renders, every_diagram_is_drawn,
        no_page_is_wider_than_a_narrow_screen, the_search_finds,
        light_and_dark_differ_and_diagrams_follow, the_table_of_conformance_can_be_filtered)]))

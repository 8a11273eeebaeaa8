#!/usr/bin/env python3
"""The fence in the transaction as users of Python and Go write it: what comes too late is refused
with DL001, and is not in the table; without the check it would be. What the page shows is theirs.

Usage: test_guarded.py GO_PROGRAM, with dlock, psycopg and SQLAlchemy in PYTHONPATH.
"""
import importlib.util
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import tap
from postgres_server import Postgres
from waiting import LIMIT

TOP = Path(__file__).resolve().parent.parent.parent
EXAMPLES = TOP / 'examples'
GO_PROGRAM = sys.argv[1]
SERVER = []


def url():
    if not SERVER:
        SERVER.append(Postgres())
    return SERVER[0].url


def play(*command):
    done = subprocess.run([*map(str, command), url()], stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT,
                          check=False)
    return done.stdout


def refuses(*command):
    tap.equal(f'{command[-1]}', play(*command).splitlines()[-2:],
              ['refused with DL001', 'pieces: 10'])


def need(*modules):
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise tap.Skip(f'no {module} for this Python')


def psycopg_refuses_a_stale_write():
    need('psycopg')
    refuses(sys.executable, EXAMPLES / 'guarded_psycopg.py')


def sqlalchemy_refuses_it_at_the_commit():
    need('psycopg2', 'sqlalchemy')
    refuses(sys.executable, EXAMPLES / 'guarded_sqlalchemy.py')


def go_refuses_a_stale_write():
    refuses(GO_PROGRAM)


def without_the_check_it_comes_through():
    """Else what the others show would be nothing."""
    need('psycopg')
    text = (EXAMPLES / 'guarded_psycopg.py').read_text(encoding='utf-8')
    out = play(sys.executable, '-c', re.sub(r'db.execute\(.SELECT dlock.*', 'pass', text))
    tap.equal('without', out.splitlines()[-2:], ['a stale write came through', 'pieces: 15'])


def what_the_pages_show_is_what_runs():
    shown = 0
    for page in sorted((TOP / 'docs').rglob('*.md')):
        for place, region, code in re.findall(
                r'<!-- (examples/guarded_[\w/]+\.(?:py|go)):(\w+) -->\n```\w+\n(.*?)^```$',
                page.read_text(encoding='utf-8'), re.M | re.S):
            text = (TOP / place).read_text(encoding='utf-8').expandtabs(4)
            part = re.search(rf'^(?:#|//) doc: {region}\n(.*?)^(?:#|//) end: {region}$', text,
                             re.M | re.S)[1]
            tap.equal(f'{page.name}: {place}', code, textwrap.dedent(part).strip('\n') + '\n')
            shown += 1
    tap.equal('shown', shown, 4)


if __name__ == '__main__':
    try:
        sys.exit(tap.main([(test.__name__, test) for test in (
            psycopg_refuses_a_stale_write, sqlalchemy_refuses_it_at_the_commit,
            go_refuses_a_stale_write, without_the_check_it_comes_through,
            what_the_pages_show_is_what_runs)]))
    finally:
        for server in SERVER:
            server.stop()

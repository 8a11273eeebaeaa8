"""The demo: the numbers it ends with, on a lock file, Redis and PostgreSQL, as text and on a
terminal."""
import os
import pty
import re
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

import tap
import world
from world import LIMIT, SERVICE

TOP = Path(__file__).resolve().parent.parent.parent


def environment(w):
    if SERVICE == 'file':  # a table of its own, as `make demo` does it
        return {k: v for k, v in w.environment(TMPDIR=w.directory).items() if k != 'DLOCK_URL'}
    return w.environment(TMPDIR=w.directory)


def check(w, out):
    """The last lines: nothing lost, tokens rising, two killed, the lock handed on."""
    count = re.search(r'^count (\d+), expected (\d+), lost updates (-?\d+)', out, re.M)
    tap.equal(f'a result in {out}', count is not None, True)
    if count.group(3) != '0':
        raise tap.Broken(f'lost updates: {count.group(3)}')
    tap.equal(f'count {count.group(1)}', int(count.group(1)) > 8, True)
    rising = re.search(r'^tokens: \d+ grants, strictly rising', out, re.M)
    tap.equal('tokens', rising is not None, True)
    kills = re.findall(r'^kill -9 of worker (\d).* after ([0-9.]+) ms \(ttl (\d+) ms\)', out, re.M)
    tap.equal(f'killed {kills}', len(kills), 2)
    for _, took, ttl in kills:
        print(f'# handed on after {took} ms (ttl {ttl} ms)', flush=True)
        if SERVICE == 'file':
            tap.equal(f'{took} of {ttl} ms is less than a third', float(took) < int(ttl) / 3, True)
    tap.equal('a stale write', 'killed worker\'s token was refused' in out, True)
    if SERVICE == 'file':
        tap.equal('how to use Redis', 'DLOCK_URL=redis://127.0.0.1:6379 make demo' in out, True)
    left = [name for name in os.listdir(w.directory) if name.startswith('dlock-demo')]
    tap.equal('left behind', left, [])


def plain_text_when_it_is_no_terminal(w):
    done = subprocess.run([world.EXECUTABLE, '2'], env=environment(w), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=LIMIT, check=False)
    tap.equal(f'status {done.stderr}', done.returncode, 0)
    tap.equal('escapes', '\x1b' in done.stdout, False)
    holder = re.search(r'worker \d (\(pid \d+\) )?holds', done.stdout)
    tap.equal('says who holds', holder is not None, True)
    tap.equal('says who dies', len(re.findall(r'killed with -9$', done.stdout, re.M)), 2)
    check(w, done.stdout)


def a_picture_on_a_terminal(w):
    ours, theirs = pty.openpty()
    process = subprocess.Popen([world.EXECUTABLE, '2'], stdin=theirs, stdout=theirs, stderr=theirs,
                               env={**environment(w), 'TERM': 'xterm'})
    w.started.append(process)
    os.close(theirs)
    out = b''
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        out += part
    os.close(ours)
    tap.equal('status', process.wait(LIMIT), 0)
    text = out.decode().replace('\r\n', '\n')
    tap.equal('drawn over itself', '\x1b[9A' in text, True)
    tap.equal('a dead worker is seen', '✗' in text, True)
    check(w, text)


def its_picture_is_drawn_from_a_run(w):
    """As docs/demo.svg is: what the terminal shows in the end, without names of this machine."""
    file = Path(w.directory) / 'demo.svg'
    tap.run([sys.executable, TOP / 'tools' / 'demo-picture', world.EXECUTABLE, file, '2'],
            env=environment(w), timeout=LIMIT)
    for name in (file, TOP / 'docs' / 'demo.svg'):
        text = name.read_text(encoding='utf-8')
        shown = ''.join(xml.etree.ElementTree.fromstring(text).itertext()).replace('\xa0', ' ')
        workers = re.findall(r'worker \d  (\w+) +\d+ turns', shown)
        tap.equal('ends of workers', sorted(workers), 6 * ['done'] + 2 * ['killed'])
        tap.equal('nothing is lost', 'lost updates 0' in shown, True)
        tap.equal('escapes, names of this machine', re.findall(r'\x1b|/tmp|\d+-\d{6}', shown), [])


def an_interrupt_leaves_nothing_behind(w):
    process = subprocess.Popen([world.EXECUTABLE], env=environment(w), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE)
    w.started.append(process)
    process.stdout.readline()
    world.wait_until('the first grant', lambda: b'holds' in process.stdout.readline())
    with open(f'/proc/{process.pid}/task/{process.pid}/children', encoding='ascii') as file:
        workers = [int(pid) for pid in file.read().split()]
    tap.equal('workers', len(workers), 8)
    process.terminate()
    process.communicate(timeout=LIMIT)
    tap.equal('status', process.returncode, 128 + 15)
    tap.equal('workers left', [pid for pid in workers if world.is_alive(pid)], [])
    left = [name for name in os.listdir(w.directory) if name.startswith('dlock-demo')]
    tap.equal('left behind', left, [])


def an_absent_service_is_a_failure(w):
    done = subprocess.run([world.EXECUTABLE, '2'], stdin=subprocess.DEVNULL, capture_output=True,
                          env={**environment(w), 'DLOCK_URL': 'redis://127.0.0.1:1'}, text=True,
                          timeout=LIMIT, check=False)
    tap.equal('status', done.returncode, 1)
    tap.equal(f'says why: {done.stderr}', ': open: ' in done.stderr, True)


if __name__ == '__main__':
    world.main([
        plain_text_when_it_is_no_terminal,
        a_picture_on_a_terminal,
        *[its_picture_is_drawn_from_a_run][:SERVICE == 'file'],   # it is of a file
        an_interrupt_leaves_nothing_behind,
        an_absent_service_is_a_failure,
    ])

#!/usr/bin/env python3
"""Makes what the tests of the Python package run in: set_up.py SOURCE-TREE FOLDER.

    FOLDER/dist     the sdist, made from a copy of the tree, and the wheel, made from that sdist
                    without a network
    FOLDER/venv     what requirements.txt pins, and the wheel
    FOLDER/fresh    the wheel alone, as a user has it: not even pip
    FOLDER/theirs   releases of others whose own tests are run

Nothing is done while the sources are as they were the last time.
"""
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import fetched

HERE = Path(__file__).resolve().parent
LEFT_OUT = shutil.ignore_patterns('.git', 'build*', '.cache', '__pycache__')
GIT = ['git', '-c', 'user.name=tests', '-c', 'user.email=tests@localhost',
       '-c', 'init.defaultBranch=main', '-c', 'safe.directory=*', '-c', 'commit.gpgsign=false']


def run(argv, **options):
    done = subprocess.run([str(each) for each in argv], stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          **options)
    if done.returncode != 0:
        sys.exit(f'{" ".join(map(str, argv))}: exit {done.returncode}\n{done.stdout}')
    return done.stdout


def is_source(path):
    return path.is_file() and '__pycache__' not in path.parts


def fingerprint(top):
    """Of all that the sdist, the wheel and the environments are made from."""
    names = [top / name for name in ('meson.build', 'meson_options.txt', 'pyproject.toml',
                                     'README.md')]
    for folder in ('libdlock', 'bindings/python', 'bindings/swig', 'pkgconfig', 'cmake'):
        names += sorted(filter(is_source, (top / folder).rglob('*')))
    names += [HERE / 'requirements.txt', HERE / 'fetched.py', Path(__file__).resolve()]
    text = hashlib.sha256(sys.version.encode())
    for name in names:
        text.update(f'{name}\0'.encode() + name.read_bytes())
    return text.hexdigest()


def offline():
    """Words that cut a command off from the network, where this machine allows it."""
    words = ['unshare', '--net', '--map-root-user']
    able = shutil.which('unshare') and subprocess.run(
        [*words, 'true'], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        check=False).returncode == 0
    return words if able else []


def make_sdist(top, folder, python, env):
    """meson dist packs what is committed: a copy of the tree, committed as it is."""
    copy = folder / 'source'
    shutil.copytree(top, copy, ignore=LEFT_OUT, symlinks=True)
    run([*GIT, 'init', '-q'], cwd=copy)
    run([*GIT, 'add', '-A'], cwd=copy)
    run([*GIT, 'commit', '-q', '-m', 'the tree under test'], cwd=copy)
    code = 'import mesonpy, sys; mesonpy.build_sdist(sys.argv[1])'
    run([python, '-c', code, folder / 'dist'], cwd=copy, env=env)
    return next((folder / 'dist').glob('*.tar.gz'))


def make_all(top, folder):
    for name in ('source', 'dist', 'venv', 'fresh'):
        shutil.rmtree(folder / name, ignore_errors=True)
    run([sys.executable, '-m', 'venv', folder / 'venv'])
    run([sys.executable, '-m', 'venv', '--without-pip', folder / 'fresh'])
    tools = folder / 'venv' / 'bin'
    python = tools / 'python'
    pip = [python, '-m', 'pip', '--disable-pip-version-check', '--quiet']
    run([top / 'tools' / 'fetch', *pip, 'install', '--only-binary=:all:', '-r',
         HERE / 'requirements.txt'])
    for name in fetched.RELEASES:
        if not fetched.found(folder, name):
            run(fetched.fetching(top, folder, python, name))
    env = {**os.environ, 'PATH': f'{tools}:{os.environ["PATH"]}'}
    for name in ('CC', 'CXX', 'CFLAGS', 'LDFLAGS'):
        env.pop(name, None)
    sdist = make_sdist(top, folder, python, env)
    run([*offline(), *pip, 'wheel', '--no-index', '--no-build-isolation', '--no-deps',
         '--wheel-dir', folder / 'dist', sdist], env=env)
    wheel = next((folder / 'dist').glob('*.whl'))
    for where in ('venv', 'fresh'):
        run([*pip, '--python', folder / where / 'bin' / 'python', 'install', '--no-index',
             '--no-deps', wheel])
    shutil.rmtree(folder / 'source')


def main():
    top, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    stamp, now = folder / 'stamp', fingerprint(top)
    if stamp.exists() and stamp.read_text() == now:
        return
    folder.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    make_all(top, folder)
    stamp.write_text(now)


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
"""The Go package as a stranger meets it: a module outside the tree that builds with pkg-config
alone, and what is said where something is missing. DLK_BUILD is the build folder, DLK_SWIG the
swig that makes the generated part.

    test_module.py VERSION_H_FOLDER
"""
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import golang
import tap
from servers import Redis

BUILD = Path(os.environ['DLK_BUILD'])
PATH = 'github.com/libdlock/libdlock/bindings/go'

PROGRAM = '''package main

import (
    "context"
    "fmt"
    "log"
    "os"

    dlock "github.com/libdlock/libdlock/bindings/go"
)

func main() {
%s
    fmt.Println("held", hold.Check(), hold.Token() > 0)
}
'''


def readme_lines():
    text = (golang.TOP / 'README.md').read_text(encoding='utf-8')
    return re.search(r'```go\n(.*?)```', text, re.S)[1]


class World:
    """An outside module, and an install that was moved."""

    def __init__(self, work):
        self.work = work
        self.install = work / 'prefix'
        self.module = work / 'outside'
        self.copies = 0

    def make_install(self):
        if self.install.exists():
            return
        stage = self.work / 'stage'
        tap.run(['meson', 'install', '--no-rebuild', '-C', BUILD, '--destdir', stage])
        library = next(stage.rglob('libdlock.so')).parent
        include = next(stage.rglob('dlock.h')).parent.parent
        shutil.move(os.path.commonpath([library, include]), self.install)

    def environment(self, **more):
        self.make_install()
        return golang.environment(pkgconfig=next(self.install.rglob('dlock.pc')).parent,
                                  libraries=next(self.install.rglob('libdlock.so')).parent,
                                  CGO_LDFLAGS='-O2 -g', **more)

    def go(self, *words, env=None):
        return tap.run([golang.where(), *words], cwd=self.module, env=env or self.environment())

    def make_module(self):
        if self.module.exists():
            return
        self.module.mkdir()
        (self.module / 'main.go').write_text(PROGRAM % readme_lines().rstrip('\n'))
        self.go('mod', 'init', 'example.org/outside')
        self.go('mod', 'edit', f'-require={PATH}@v0.0.0')
        self.copy_package()

    def copy_package(self):
        """Go's cache doesn't know what pkg-config says: only in a new folder is the package new."""
        self.copies += 1
        copy = self.work / f'package{self.copies}'
        shutil.copytree(golang.MODULE, copy)
        self.go('mod', 'edit', f'-replace={PATH}={copy}')

    def build(self, *flags, env=None):
        self.make_module()
        program = self.work / f'program{"".join(flags).replace("=", "-")}'
        self.go('build', *flags, '-o', str(program), '.', env=env)
        return program

    def refused(self, **env):
        """What go build says, which must fail."""
        self.make_module()
        self.copy_package()
        done = subprocess.run([golang.where(), 'build', PATH], text=True, cwd=self.module,
                              env={**self.environment(), **env}, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        if done.returncode == 0:
            raise AssertionError('it builds')
        return done.stdout


def repository_with_tags(folder):
    """The modules in a repository of their own, tagged as for a release."""
    version = re.search(r"version: '([\d.]+)'", (golang.TOP / 'meson.build').read_text())[1]
    shutil.copytree(golang.MODULE, folder / 'bindings' / 'go')
    git = ['git', '-C', folder, '-c', 'user.name=tests', '-c', 'user.email=tests@localhost',
           '-c', 'commit.gpgsign=false']
    tap.run([*git, 'init', '-q'])
    tap.run([*git, 'add', '-A'])
    tap.run([*git, 'commit', '-q', '-m', 'the modules under test'])
    for module in ('bindings/go', 'bindings/go/dlockmetrics'):
        tap.run([*git, 'tag', f'{module}/v{version}'])
    return f'v{version}'


def says(text, *words):
    for word in words:
        if word not in text:
            raise AssertionError(f'no {word!r} in: {text}')


def main():
    with tempfile.TemporaryDirectory(prefix='dlock-go-') as folder:
        work = Path(folder)
        world = World(work)

        def the_readmes_ten_lines_build_outside_and_run_on_each_service():
            program = world.build()
            server = Redis()
            try:
                for url in ('mem:', f'file://{work}/table', server.url_of_socket):
                    tap.equal(url, tap.run([program], env={**world.environment(),
                                                           'DLOCK_URL': url}),
                              'held <nil> true\n')
            finally:
                server.stop()

        def the_tag_dlock_static_needs_no_shared_library():
            program = world.build('-tags=dlock_static')
            env = {**world.environment(), 'LD_LIBRARY_PATH': '', 'DLOCK_URL': 'mem:'}
            tap.equal('it says', tap.run([program], env=env), 'held <nil> true\n')
            if 'libdlock' in tap.run(['ldd', program], env=env):
                raise AssertionError('it wants libdlock.so')

        def go_get_finds_both_modules_by_the_tags_of_a_release():
            version = repository_with_tags(work / 'repository')
            config, user = work / 'gitconfig', work / 'user'
            config.write_text(f'[safe]\ndirectory = *\n[url "{work}/repository"]\n'
                              'insteadOf = https://github.com/libdlock/libdlock\n')
            user.mkdir()
            # A cache of its own: another tree has other modules of this version. No network.
            env = {**world.environment(), 'GIT_CONFIG_GLOBAL': str(config), 'GOPROXY': 'off',
                   'GOPRIVATE': 'github.com/libdlock/*', 'GOMODCACHE': str(work / 'modules')}
            go = functools.partial(tap.run, cwd=user, env=env)
            go([golang.where(), 'mod', 'init', 'example.org/user'])
            go([golang.where(), 'get', f'{PATH}@latest'])
            says((user / 'go.mod').read_text(), f'{PATH} {version}')
            says(go([golang.where(), 'mod', 'download', '-json', f'{PATH}/dlockmetrics@latest']),
                 f'dlockmetrics@{version}')

        def without_libdlock_the_build_says_what_to_install():
            (work / 'empty').mkdir()
            says(world.refused(PKG_CONFIG_PATH=str(work / 'empty'),
                               PKG_CONFIG_LIBDIR=str(work / 'empty')), 'dlock', 'not found')

        def without_cgo_the_build_says_so():
            says(world.refused(CGO_ENABLED='0'),
                 'libdlock_needs_cgo__set_CGO_ENABLED_1_and_install_a_C_compiler')

        def an_older_libdlock_is_refused_by_the_build():
            old = work / 'old'
            shutil.copytree(world.install, old)
            version = next(old.rglob('version.h'))
            version.write_text(re.sub(r'(VERSION_NUM) \d+', r'\1 1', version.read_text()))
            pc = str(next(old.rglob('dlock.pc')).parent)
            says(world.refused(PKG_CONFIG_PATH=pc), 'needs libdlock 0.1.0 or later')

        def an_older_libdlock_is_refused_at_run_time_with_both_versions():
            source, shim = work / 'shim.c', work / 'shim.so'
            source.write_text('unsigned dlock_version_num(void) { return 1; }\n'
                              'const char *dlock_version(void) { return "0.0.1"; }\n')
            tap.run(['gcc', '-shared', '-fPIC', source, '-o', shim])
            env = {**world.environment(), 'DLOCK_URL': 'mem:', 'LD_PRELOAD': str(shim)}
            done = subprocess.run([world.build()], env=env, text=True, check=False,
                                  capture_output=True, stdin=subprocess.DEVNULL)
            if done.returncode != 1:
                raise AssertionError(f'exit {done.returncode}: {done.stderr}')
            built = tap.run(['pkg-config', '--modversion', 'dlock'],
                            env=world.environment()).strip()
            says(done.stderr, built, '0.0.1', 'older')

        def what_swig_makes_of_the_interface_is_what_is_committed():
            swig = os.environ['DLK_SWIG']
            says(tap.run([swig, '-version']), '4.5.')
            tree = work / 'tree'
            here = tree / 'bindings' / 'go'
            shutil.copytree(golang.MODULE / 'internal', here / 'internal')
            shutil.copytree(golang.TOP / 'bindings' / 'swig', tree / 'bindings' / 'swig')
            shutil.copytree(golang.TOP / 'libdlock' / 'include', tree / 'libdlock' / 'include')
            for name in ('cdlock.go', 'cdlock_wrap.c'):
                (here / 'internal' / 'cdlock' / name).unlink()
            tap.run([golang.MODULE / 'generate', swig, sys.argv[1], here],
                    env=golang.environment())
            for name in ('cdlock.go', 'cdlock_wrap.c'):
                made = here / 'internal' / 'cdlock' / name
                committed = golang.MODULE / 'internal' / 'cdlock' / name
                if made.read_text() != committed.read_text():
                    raise AssertionError(f'{name} differs: run bindings/go/generate')

        def gofmt_and_vet_have_nothing_to_say():
            env = golang.environment()
            gofmt = shutil.which('gofmt', path=env['PATH'])
            folders = [golang.MODULE, golang.TOP / 'bench', golang.TOP / 'tests']
            tap.equal('not formatted', tap.run([gofmt, '-l', *folders], env=env), '')
            for flags, packages in ((['-unsafeptr=false'], ['./...']),
                                    ([], ['.', './dlocktest', './internal/testredis'])):
                tap.run([golang.where(), 'vet', *flags, *packages], cwd=golang.MODULE, env=env)

        tests = (the_readmes_ten_lines_build_outside_and_run_on_each_service,
                 the_tag_dlock_static_needs_no_shared_library,
                 go_get_finds_both_modules_by_the_tags_of_a_release,
                 without_libdlock_the_build_says_what_to_install,
                 without_cgo_the_build_says_so,
                 an_older_libdlock_is_refused_by_the_build,
                 an_older_libdlock_is_refused_at_run_time_with_both_versions,
                 what_swig_makes_of_the_interface_is_what_is_committed,
                 gofmt_and_vet_have_nothing_to_say)
        return tap.main([(test.__name__, test) for test in tests])


if __name__ == '__main__':
    sys.exit(main())

"""What a stranger gets: `meson install` into a fresh prefix, that prefix moved elsewhere, and
programs outside the tree built with nothing but what pkg-config says.

The prefix is moved on purpose: dlock.pc is relocatable, and so is the dlock command."""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import tap
from servers import Redis

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
LIMIT_S = 60
WARNINGS = ['-Wall', '-Wextra', '-pedantic', '-Wconversion', '-Wshadow', '-Wundef', '-Werror']


class Install:
    """The moved prefix, and how programs are built against it."""

    def __init__(self, build, work):
        self.build = build
        self.work = work
        stage = work / 'stage'
        tap.run(['meson', 'install', '--no-rebuild', '-C', build, '--destdir', stage])
        libdir = next(stage.rglob('libdlock.so')).parent
        include = next(stage.rglob('dlock.h')).parent.parent
        old = Path(os.path.commonpath([libdir, include]))
        self.prefix = work / 'moved'
        shutil.move(old, self.prefix)
        shutil.rmtree(stage)
        self.libdir = self.prefix / libdir.relative_to(old)
        self.include = self.prefix / include.relative_to(old)
        self.pkgconfig = next(self.prefix.rglob('dlock.pc')).parent
        self.cli = self.prefix / 'bin' / 'dlock'

    def environment(self, linkage):
        env = {**os.environ, 'PKG_CONFIG_PATH': str(self.pkgconfig)}
        if linkage == 'shared':
            env['LD_LIBRARY_PATH'] = str(self.libdir)
        if linkage == 'uninstalled':
            env['PKG_CONFIG_PATH'] = str(self.build / 'meson-uninstalled')
            env['LD_LIBRARY_PATH'] = str(self.build / 'libdlock')
        return env

    def static_flags(self, env):
        flags = tap.run(['pkg-config', '--static', '--cflags', '--libs', 'dlock'], env=env).split()
        return ['-static', *flags]

    def compile(self, source, linkage):
        env = self.environment(linkage)
        static = linkage == 'static'
        compiler = {'.c': ['gcc', '-std=c11'], '.cpp': ['g++', '-std=c++17']}[source.suffix]
        program = self.work / f'{source.suffix[1:]}-{linkage}'
        flags = self.static_flags(env) if static else \
            tap.run(['pkg-config', '--cflags', '--libs', 'dlock'], env=env).split()
        # glibc warns that a static getaddrinfo needs its shared parts at run time.
        warnings = WARNINGS[:-1] if static else WARNINGS
        tap.run([*compiler, *warnings, '-g', source, '-o', program, *flags], env=env)
        return program, env


def walk(program, env, uri, name, take_away):
    """Runs a consumer; takes the lock away when it says that it holds it."""
    child = subprocess.Popen([program, uri, name], env=env, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = []
    for line in child.stdout:
        said.append(line)
        if line == 'held\n':
            take_away()
            child.stdin.write('taken\n')
            child.stdin.flush()
    child.stdin.close()
    if child.wait(LIMIT_S) != 0:
        raise AssertionError(f'{program.name} {uri}: exit {child.returncode}\n' + ''.join(said))
    if not uri.startswith('mem:') and 'held\n' not in said:
        raise AssertionError('the consumer never held the lock\n' + ''.join(said))


class Suite:
    def __init__(self, install, work):
        self.install, self.work = install, work
        self.redis = None
        self.programs = {}

    def program(self, language, linkage):
        key = (language, linkage)
        if key not in self.programs:
            self.programs[key] = self.install.compile(HERE / f'consumer.{language}', linkage)
        return self.programs[key]

    def consume(self, language, linkage, backend):
        def test():
            program, env = self.program(language, linkage)
            name = f'orders/{language}-{linkage}'
            if backend == 'mem':
                walk(program, env, 'mem:', name, lambda: None)
            elif backend == 'file':
                uri = f'file://{self.work}/table'
                walk(program, env, uri, name, lambda: tap.run(
                    [self.install.cli, 'break', '--force', '--url', uri, name], env=env))
            else:
                self.redis = self.redis or Redis()
                uri = self.redis.url
                walk(program, env, uri, name, lambda: tap.equal(
                    'keys deleted', self.redis.command('DEL', name), b':1\r\n'))
        return test

    def header(self, compiler, standard):
        def test():
            if shutil.which(compiler) is None:
                raise tap.Skip(f'no {compiler}')
            language = 'c++' if '++' in standard else 'c'
            source = self.work / f'alone.{"cpp" if language == "c++" else "c"}'
            source.write_text('#include <dlock/dlock.h>\n#include <dlock/dlock.h>\n'
                              'int main(void);\n'
                              'int main(void) { return dlock_version()[0] == 0; }\n')
            extra = [] if language == 'c++' else ['-Wstrict-prototypes', '-Wmissing-prototypes']
            tap.run([compiler, f'-std={standard}', *WARNINGS, *extra, '-fsyntax-only',
                     f'-I{self.install.include}', source])
        return test

    def moved_pc_names_the_new_place(self):
        text = (self.install.pkgconfig / 'dlock.pc').read_text()
        first = text.splitlines()[0]
        if not first.startswith('prefix=${pcfiledir}/'):
            raise AssertionError(f'not relocatable: {first}')
        flags = tap.run(['pkg-config', '--cflags', '--libs', 'dlock'],
                        env=self.install.environment('shared')).split()
        for option, folder in (('-L', self.install.libdir), ('-I', self.install.include)):
            if not any(Path(flag[2:]).resolve() == folder.resolve()
                       for flag in flags if flag.startswith(option)):
                raise AssertionError(f'no {option}{folder} in: {" ".join(flags)}')

    def cflags_are_ours_alone(self):
        flags = tap.run(['pkg-config', '--cflags', 'dlock'],
                        env=self.install.environment('shared')).split()
        foreign = [flag for flag in flags if not flag.startswith('-I') or
                   Path(flag[2:]).resolve() != self.install.include.resolve()]
        tap.equal('flags of others', foreign, [])

    def installed_version_is_one(self):
        """Header, library, dlock.pc and the moved command agree on the version."""
        version = tap.run(['pkg-config', '--modversion', 'dlock'],
                          env=self.install.environment('shared')).strip()
        header = (self.install.include / 'dlock' / 'version.h').read_text()
        if f'"{version}"' not in header:
            raise AssertionError(f'version.h does not say {version}')
        real = (self.install.libdir / 'libdlock.so').resolve().name
        tap.equal('library file', real, f'libdlock.so.{version}')
        clean = {k: v for k, v in os.environ.items() if k != 'LD_LIBRARY_PATH'}
        said = tap.run([self.install.cli, 'version'], env=clean)
        if version not in said:
            raise AssertionError(f'dlock version: {said}')

    def the_tutorial_works_as_it_is_pasted(self):
        """Its first block with this prefix, what it compiles, and its programs that end."""
        page = (TOP / 'docs' / 'tutorial.md').read_text().replace('/tmp/', f'{self.work}/')
        blocks = re.findall(r'^```(\w*)\n(.*?)^```$', page, re.M | re.S)
        first, *rest = [text for language, text in blocks if not language]
        setting_up = first.replace('make install PREFIX=$HOME/dlock\n', '')
        typed = [line[2:] for block in rest for line in block.splitlines()
                 if line.startswith(('$ cc ', '$ ./tutorial_1', '$ ./guarded_file'))]
        tap.equal('lines typed', len(typed), 6)
        home = self.work / 'home'
        home.mkdir()
        shutil.copytree(self.install.prefix, home / 'dlock', symlinks=True)
        env = {'HOME': str(home), 'PATH': os.environ['PATH']}
        said = tap.run(['bash', '-euc', setting_up + '\n'.join([*typed, 'dlock version'])],
                       env=env, cwd=TOP)
        for words in ('held, token ', 'released\n', "only the second holder's write is there",
                      '(library '):
            if words not in said:
                raise AssertionError(f'no {words!r} in: {said}')

    def tests(self):
        found = [
            ('the_moved_pc_file_points_to_where_it_lies', self.moved_pc_names_the_new_place),
            ('who_compiles_gets_no_flags_of_the_libraries_inside', self.cflags_are_ours_alone),
            ('header_library_pc_and_moved_command_agree_on_the_version',
             self.installed_version_is_one),
            ('the_tutorial_works_as_it_is_pasted', self.the_tutorial_works_as_it_is_pasted)]
        for compiler, standard in [(c, s) for c in ('gcc', 'clang') for s in ('c99', 'c11')] + \
                                  [('g++', 'c++17'), ('clang++', 'c++17')]:
            found.append((f'the_header_compiles_alone_as_{standard}_with_{compiler}',
                          self.header(compiler, standard)))
        for linkage in ('shared', 'static', 'uninstalled'):
            for language in ('c', 'cpp'):
                for backend in ('mem', 'file', 'redis'):
                    found.append((f'a_{linkage}_{language}_program_takes_reenters_times_out_and_'
                                  f'loses_a_{backend}_lock',
                                  self.consume(language, linkage, backend)))
        return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('build', type=Path, help='the build folder to install from')
    build = parser.parse_args().build.resolve()
    with tempfile.TemporaryDirectory(prefix='dlock-install-') as folder:
        work = Path(folder)
        suite = Suite(Install(build, work), work)
        try:
            return tap.main(suite.tests())
        finally:
            if suite.redis:
                suite.redis.stop()


if __name__ == '__main__':
    sys.exit(main())

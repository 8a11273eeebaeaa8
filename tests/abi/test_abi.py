"""The promises of the shared library as a file: the names it exports, their ABI against the
baseline of the last release, and how it was linked."""
import argparse
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import names
import tap


class Library:
    def __init__(self, source, shared, static, lazy):
        self.source = source
        self.include = source / 'libdlock' / 'include'
        self.shared = shared
        self.static = static
        self.lazy = lazy

    def readelf(self, *options):
        return tap.run(['readelf', '--wide', *options, self.shared])

    def names_are_the_same_in_header_map_and_library(self):
        header = names.in_header((self.include / 'dlock' / 'dlock.h').read_text())
        script = names.in_map((self.source / 'libdlock' / 'dlock.map').read_text())
        library = names.in_library(self.shared)
        if len(header) < 50:
            raise AssertionError(f'only {len(header)} names found in dlock.h: is it parsed right?')
        problems = []
        for what, found in (('dlock.map', set(script)), ('the library', set(library))):
            problems += [f'{name}: in dlock.h, not in {what}' for name in sorted(header - found)]
            problems += [f'{name}: in {what}, not in dlock.h' for name in sorted(found - header)]
        problems += [f'{name}: bound to {library[name]}, not {node}'
                     for name, node in script.items() if library.get(name, node) != node]
        if problems:
            raise AssertionError('\n'.join(problems))

    def static_library_defines_only_names_of_ours(self):
        shown = tap.run(['nm', '--defined-only', '--extern-only', '--portability', self.static])
        foreign = {line.split()[0] for line in shown.splitlines()
                   if len(line.split()) > 1 and not re.match(r'(dlock|dlk)_', line)}
        # sdt.h's anchor of the probes: weak, one of all objects, and hidden in libdlock.so.
        tap.equal('foreign names', sorted(foreign - {'_.stapsdt.base'}), [])

    def abi_is_that_of_the_baseline(self):
        if platform.machine() != 'x86_64':
            raise tap.Skip('the baseline is of x86_64')
        if shutil.which('abidiff') is None:
            raise tap.Skip('no abidiff')
        # What debug information doesn't describe abidiff doesn't compare, and says so with a 0.
        if '.debug_info' not in self.readelf('--sections'):
            raise AssertionError('the library has no .debug_info: build it with -g')
        shown = tap.run(['abidw', '--exported-interfaces-only', '--headers-dir', self.include,
                         '--drop-private-types', self.shared])
        tap.equal('functions without a description', names.undescribed(shown), [])
        compared = subprocess.run(
            ['abidiff', '--exported-interfaces-only', '--no-added-syms', '--hd1', self.include,
             '--hd2', self.include, self.source / 'tests' / 'abi' / 'dlock.abi', self.shared],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False)
        # Exactly 0: a renumbered enum exits 4, as does an addition.
        if compared.returncode != 0:
            raise AssertionError(f'abidiff: exit {compared.returncode}\n{compared.stdout}')

    def soname_is_libdlock_so_0(self):
        tap.equal('SONAME', re.findall(r'SONAME.*\[(.*)\]', self.readelf('--dynamic')),
                  ['libdlock.so.0'])

    def relocations_are_read_only_and_bound_at_load(self):
        if 'GNU_RELRO' not in self.readelf('--segments'):
            raise AssertionError('no GNU_RELRO segment')
        if not re.search(r'BIND_NOW|FLAGS_1.*NOW', self.readelf('--dynamic')):
            raise AssertionError('not linked with -z now')

    def stack_is_not_executable_and_no_segment_is_writable_code(self):
        segments = re.findall(r'^ +(LOAD|GNU_STACK) .*? ([RWE ]+?) +0x\w+$',
                              self.readelf('--segments'), re.MULTILINE)
        stack = [flags.strip() for kind, flags in segments if kind == 'GNU_STACK']
        tap.equal('stack', stack, ['RW'])
        bad = [flags for kind, flags in segments if 'W' in flags and 'E' in flags]
        tap.equal('writable code', bad, [])
        if 'TEXTREL' in self.readelf('--dynamic'):
            raise AssertionError('text relocations: some object is not position-independent')

    def no_search_path_is_built_in(self):
        tap.equal('RPATH', re.findall(r'\((?:RPATH|RUNPATH)\).*', self.readelf('--dynamic')), [])

    def needs_only_libc_and_the_libraries_of_its_services(self):
        needed = re.findall(r'NEEDED.*\[(.*)\]', self.readelf('--dynamic'))
        ours = (r'lib(c|pthread|gcc_s|hiredis|zookeeper_mt|ssl|crypto|nghttp2|protobuf-c)\.so'
                r'|ld-linux')
        foreign = [name for name in needed if not re.match(ours, name)]
        tap.equal('foreign libraries', foreign, [])

    def what_few_programs_need_is_not_loaded_with_it(self):
        if not self.lazy:
            raise tap.Skip('built with -Dlazy=false')
        needed = re.findall(r'NEEDED.*\[(.*)\]', self.readelf('--dynamic'))
        early = [name for name in needed if re.match(r'lib(ssl|crypto|nghttp2|protobuf-c)', name)]
        tap.equal('needed from the start', early, [])
        # A build that lets names be undefined would fail only when it is used.
        shown = tap.run(['nm', '--dynamic', '--undefined-only', self.shared])
        tap.equal('undefined names of theirs',
                  re.findall(r' U ((?:SSL|X509|BIO|ERR|EVP|nghttp2|protobuf_c)_\w+)', shown), [])

    def the_static_library_loads_nothing(self):
        shown = tap.run(['nm', '--undefined-only', '--portability', self.static])
        tap.equal('what loads', re.findall(r'^(dl(?:open|sym)) U', shown, re.MULTILINE), [])

    def calls_are_fortified_and_stacks_guarded(self):
        shown = self.readelf('--dyn-syms')
        for symbol, flag in (('__stack_chk_fail', '-fstack-protector-strong'),
                             ('_chk@', '-D_FORTIFY_SOURCE')):
            if symbol not in shown:
                raise AssertionError(f'no {symbol} in the library: built without {flag}?')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--source', type=Path, required=True)
    parser.add_argument('--shared', type=Path, required=True)
    parser.add_argument('--static', type=Path, required=True)
    parser.add_argument('--lazy', action='store_true', help='built with -Dlazy=true')
    args = parser.parse_args()
    library = Library(args.source, args.shared, args.static, args.lazy)
    tests = [(name, getattr(library, name)) for name, member in vars(Library).items()
             if callable(member) and name not in ('__init__', 'readelf')]
    return tap.main(tests)


if __name__ == '__main__':
    sys.exit(main())

"""What a configuration is when nothing is asked for, and what it says of what is missing: the
wheel's ends with a sentence that names the package, Meson's own goes on without and lists what was
left out."""
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path

import tap

TOP = Path(__file__).resolve().parent.parent.parent
INSTALLED = (r'libdlock\.so\.[\d.]+', r'libdlock\.a', 'include/dlock/dlock.h',
             'include/dlock/version.h', 'bin/dlock', 'man1/dlock.1', 'pkgconfig/dlock.pc',
             'cmake/dlock/dlockConfig.cmake', 'bash-completion/completions/dlock',
             'site-functions/_dlock', 'vendor_completions.d/dlock.fish')


def wheel_options():
    """Those of pip, but for the package itself: that needs a newer Meson and SWIG."""
    project = tomllib.loads((TOP / 'pyproject.toml').read_text(encoding='utf-8'))
    options = project['tool']['meson-python']['args']['setup']
    return [option for option in options if not option.startswith('-Dpython=')]


def configured(work, *options):
    """Where pkg-config finds nothing: the exit status, and all that was said. (OpenSSL and
    ZooKeeper are found without it.)"""
    (work / 'empty').mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=work) as folder:
        done = subprocess.run(['meson', 'setup', folder, *options], cwd=TOP, text=True, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT,
                              env={**os.environ, 'PKG_CONFIG_PATH': '',
                                   'PKG_CONFIG_LIBDIR': str(work / 'empty')})
    return done.returncode, done.stdout


def expect(done, status, *words):
    got, said = done
    short = re.sub(r' *: ', ': ', said)
    if got != status or not all(word in short for word in words):
        raise AssertionError(f'exit {got}, not {status} and {words}:\n{said}')


def only_what_is_installed_is_built(folder, targets):
    """And nothing twice, but what libdlock.so and libdlock.a have in two ways."""
    useless = [target['name'] for target in targets
               if target['build_by_default'] and not target['installed']]
    tap.equal('built and not installed', useless, [])
    compiled = Counter(os.path.normpath(folder / name) for name in re.findall(
        r' -c (\S+\.c)\b', tap.run(['ninja', '-n', '-v', '-C', folder])))
    loading = {name for target in targets if target['name'] in ('dlock-loading', 'dlock-list')
               for sources in target['target_sources'] for name in sources.get('sources', ())}
    print(f'# {compiled.total()} files are compiled')
    twice = {name for name, times in compiled.items() if times > 1}
    tap.equal('compiled twice', twice - loading, set())


def main():
    with tempfile.TemporaryDirectory(prefix='dlock-configure-') as folder:
        work, wheel = Path(folder), wheel_options()

        def a_wheel_without_redis_is_refused_and_the_package_named():
            expect(configured(work, *wheel), 1, 'redis needs hiredis: install libhiredis-dev',
                   '-Csetup-args=-Dredis=disabled')

        def who_does_without_says_so():
            expect(configured(work, *wheel, '-Dredis=disabled', '-Dtls=disabled',
                              '-Dzookeeper=disabled', '-Detcd=disabled',
                              '-Dpostgres=disabled'), 0,
                   'redis: no, disabled', 'tls: no, disabled', 'memcached: yes')

        def by_meson_alone_what_is_left_out_is_listed():
            expect(configured(work), 0,
                   'redis: no, for want of libhiredis-dev', 'etcd: no, for want of lib',
                   'postgres: no, for want of libpq-dev')

        def without_a_word_it_is_a_release_of_what_users_install():
            folder = work / 'plain'
            tap.run(['meson', 'setup', folder], cwd=TOP)
            known = {what: json.loads(tap.run(['meson', 'introspect', f'--{what}', folder]))
                     for what in ('buildoptions', 'tests', 'installed', 'targets')}
            options = {option['name']: option['value'] for option in known['buildoptions']}
            tap.equal('build type', options['buildtype'], 'release')
            tap.equal('tests', known['tests'], [])
            installed = set(known['installed'].values())
            for wanted in INSTALLED:
                if not any(re.search(f'/{wanted}$', path) for path in installed):
                    raise AssertionError(f'{wanted} is not among what is installed: {installed}')
            programs = [target['name'] for target in known['targets']
                        if target['type'] == 'executable' and target['installed']]
            tap.equal('programs that are installed', programs, ['dlock'])
            only_what_is_installed_is_built(folder, known['targets'])

        def what_conan_takes_of_the_tree_is_enough():
            recipe = (TOP / 'packaging/conan/conanfile.py').read_text(encoding='utf-8')
            patterns = re.search(r'for pattern in \((.*?)\):', recipe, re.S)[1]
            without = re.search(r"for part in \(('zookeeper'.*?)\):", recipe)[1]
            alone = work / 'conan'
            alone.mkdir()
            for pattern in re.findall(r"'([^']+)'", patterns):
                tap.run(['cp', '-a', TOP / pattern.removesuffix('/*'), alone])
            tap.run(['meson', 'setup', alone / 'build', alone, '-Dmem=enabled',
                     *(f'-D{part}=disabled' for part in re.findall(r"'(\w+)'", without))])

        def make_install_puts_the_library_where_this_system_looks():
            multiarch = tap.run(['gcc', '-print-multiarch']).strip()
            if not multiarch:
                raise tap.Skip('no multiarch here')
            programs, said = work / 'programs', work / 'said'
            programs.mkdir()
            for name in ('meson', 'ninja', 'ldconfig'):   # Meson finds it only by dpkg-dev
                (programs / name).write_text(f'#!/bin/sh\necho {name} "$@" >>{said}\n')
                (programs / name).chmod(0o755)
            env = {**os.environ, 'PATH': f'{programs}:{os.environ["PATH"]}', 'DESTDIR': ''}
            for destdir in ('', work / 'stage'):
                said.write_text('')
                tap.run(['make', '-C', TOP, 'install', f'BUILD={work}/made', 'PREFIX=/p',
                         f'DESTDIR={destdir}'], env=env)
                first, *rest = said.read_text().splitlines()
                tap.equal('configured by', first, 'meson setup --prefix=/p '
                          f'--libdir=lib/{multiarch} {work}/made-release')
                tap.equal('the loader is told', rest[-1] == 'ldconfig',
                          os.geteuid() == 0 and not destdir)

        return tap.main([(test.__name__, test) for test in (
            a_wheel_without_redis_is_refused_and_the_package_named, who_does_without_says_so,
            by_meson_alone_what_is_left_out_is_listed, what_conan_takes_of_the_tree_is_enough,
            make_install_puts_the_library_where_this_system_looks,
            without_a_word_it_is_a_release_of_what_users_install)])


if __name__ == '__main__':
    sys.exit(main())

"""Debian's packages: built from a copy of the tree, judged by lintian, and used by debian/tests:
unpacked into a folder, or (--clean) installed by apt into a chroot that debootstrap makes."""
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import tap
import tree
from chroot import Chroot

TOP = Path(__file__).resolve().parent.parent.parent
PACKAGES = ('dlock', 'libdlock-dev', 'libdlock0', 'python3-dlock')
# Debian's own tools and Python, whatever else is first in the path here.
PATH = '/usr/lib/ccache:/usr/sbin:/usr/bin:/sbin:/bin'


class Packages:
    def __init__(self, work):
        self.work, self.source = work, work / 'libdlock'
        self.source.mkdir()
        tree.copy(TOP, self.source)
        env = {'PATH': PATH, 'HOME': str(work), 'LC_ALL': 'C.UTF-8'}
        if 'CCACHE_DIR' in os.environ:
            env['CCACHE_DIR'] = os.environ['CCACHE_DIR']
        tap.run(['dpkg-buildpackage', '-us', '-uc', '-b'], cwd=self.source, env=env)
        self.files = {name: next(work.glob(f'{name}_*.deb')) for name in PACKAGES}
        self.root = work / 'root'

    def unpacked(self):
        """What runs programs of the packages where they are only unpacked."""
        if not self.root.exists():
            for file in self.files.values():
                tap.run(['dpkg', '-x', file, self.root])
        libdir = next(self.root.glob('usr/lib/*/libdlock.so')).parent
        return {'PATH': f'{self.root}/usr/bin:{PATH}', 'HOME': str(self.work),
                'LD_LIBRARY_PATH': str(libdir), 'PKG_CONFIG_SYSROOT_DIR': str(self.root),
                'PKG_CONFIG_PATH': str(libdir / 'pkgconfig'),
                'PYTHONPATH': f'{self.root}/usr/lib/python3/dist-packages'}

    def content(self, name):
        lines = tap.run(['dpkg', '-c', self.files[name]]).splitlines()
        return {line.split()[5] for line in lines if not line.startswith('d')}

    def field(self, name, field):
        return tap.run(['dpkg', '-f', self.files[name], field]).strip()


def with_repository(packages):
    """A new Debian 12 with apt's sources and these packages as a repository, and nothing else."""
    system = Chroot.made(packages.work / 'chroot')
    repository = system.root / 'repository'
    repository.mkdir()
    for file in packages.files.values():
        shutil.copy(file, repository)
    tap.run(['sh', '-c', 'dpkg-scanpackages --multiversion . > Packages'], cwd=repository)
    (system.root / 'etc/apt/sources.list.d/dlock.list').write_text(
        'deb [trusted=yes] file:/repository ./\n')
    for part in ('debian/tests', 'examples'):
        shutil.copytree(packages.source / part, system.root / 'source' / part)
    system.run('apt-get update')
    return system


def depends_of(packages, test):
    """What debian/tests/control says that a test needs."""
    text = (packages.source / 'debian/tests/control').read_text(encoding='utf-8')
    return re.search(rf'^Tests: {test}\nDepends: (.*)$', text, re.M)[1].replace(',', '')


def tests_of_what_is_built(packages):
    def lintian_has_nothing_to_say():
        said = tap.run(['lintian', '--no-cfg', '--allow-root', '--fail-on', 'error,warning',
                        '--pedantic', next(packages.work.glob('*.changes'))])
        tap.equal('lintian', [line for line in said.splitlines() if line[:2] in ('E:', 'W:')], [])

    def no_two_packages_have_the_same_file():
        owners = {}
        for name in PACKAGES:
            for path in packages.content(name):
                owners.setdefault(path, []).append(name)
        tap.equal('of several', {k: v for k, v in owners.items() if len(v) > 1}, {})

    def each_package_has_what_its_name_says():
        for name, wanted in {
                'libdlock0': [r'/libdlock\.so\.0$'],
                'libdlock-dev': [r'/libdlock\.so$', r'/libdlock\.a$', r'/dlock\.pc$',
                                 r'/dlockConfig\.cmake$', r'/dlock/dlock\.h$',
                                 r'/dlock_lock_acquire\.3\.gz$'],
                'dlock': ['/usr/bin/dlock$', r'/dlock\.1\.gz$',
                          '/bash-completion/completions/dlock$',
                          '/zsh/vendor-completions/_dlock$', r'/dlock\.fish$',
                          '/usr/share/dlock/postgres.sql$'],
                'python3-dlock': [r'/dlock/__init__\.py$', r'\.dist-info/METADATA$']}.items():
            content = packages.content(name)
            for pattern in wanted:
                if not any(re.search(pattern, path) for path in content):
                    raise AssertionError(f'{name} has no {pattern}')

    def python_uses_the_library_of_libdlock0():
        packages.unpacked()
        module = next(packages.root.glob('usr/lib/python3/dist-packages/dlock/_native*.so'))
        dynamic = tap.run(['readelf', '--dynamic', module, packages.root / 'usr/bin/dlock'])
        tap.equal('needs libdlock', dynamic.count('Shared library: [libdlock.so.0]'), 2)
        tap.equal('a path of its own', 'RUNPATH' in dynamic or 'RPATH' in dynamic, False)
        for name in ('python3-dlock', 'dlock'):
            if 'libdlock0 (>= ' not in packages.field(name, 'Depends'):
                raise AssertionError(packages.field(name, 'Depends'))

    def the_command_has_its_screen():
        if 'libncursesw6' not in packages.field('dlock', 'Depends'):
            raise AssertionError(packages.field('dlock', 'Depends'))

    def what_is_loaded_is_recommended():
        recommended = packages.field('libdlock0', 'Recommends')
        if not re.fullmatch(r'libssl\d+, libnghttp2-\d+, libprotobuf-c\d+, libpq\d+', recommended):
            raise AssertionError(f'Recommends: {recommended}')

    return [lintian_has_nothing_to_say, no_two_packages_have_the_same_file,
            each_package_has_what_its_name_says, python_uses_the_library_of_libdlock0,
            the_command_has_its_screen, what_is_loaded_is_recommended]


def main():
    clean = '--clean' in sys.argv[1:]
    for tool in ('dpkg-buildpackage', 'dh_python3', 'lintian', *(['debootstrap'] if clean else [])):
        if shutil.which(tool, path=PATH) is None:
            print(f'1..0 # SKIP no {tool}')
            return 0
    with tempfile.TemporaryDirectory(prefix='dlock-debian-') as folder:
        packages = Packages(Path(folder))
        tests, chroot = [], []

        def installed(test):
            if not chroot:
                chroot.append(with_repository(packages))
            needed = depends_of(packages, test)
            chroot[0].run(f'apt-get install --no-install-recommends -y {needed}')
            chroot[0].run(f'debian/tests/{test}', '/source')

        def unpacked(test):
            tap.run([packages.source / 'debian/tests' / test], cwd=packages.source,
                    env=packages.unpacked())

        how = installed if clean else unpacked
        for test in ('command', 'python', 'library'):   # what needs most comes last
            tests.append((f'{how.__name__}_{test}_works', lambda test=test: how(test)))
        if not clean:
            tests += [(test.__name__, test) for test in tests_of_what_is_built(packages)]
        return tap.main(tests)


if __name__ == '__main__':
    sys.exit(main())

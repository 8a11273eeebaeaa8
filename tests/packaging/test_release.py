"""tools/release, in a copy of the tree that is a repository of its own: what it refuses; with
--whole all that it makes, twice."""
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import tap
import tree

TOP = Path(__file__).resolve().parent.parent.parent
GIT = ('git', '-c', 'user.name=tests', '-c', 'user.email=tests@localhost', '-c',
       'init.defaultBranch=main', '-c', 'commit.gpgsign=false')
FILES = (r'libdlock-[\d.]+\.tar\.gz', r'libdlock-[\d.]+-cp3\d+-abi3-manylinux_2_28_\S+\.whl',
         r'libdlock-[\d.]+\.spdx\.json', r'libdlock0_[\d.]+_\w+\.deb',
         r'libdlock-dev_[\d.]+_\w+\.deb', r'dlock_[\d.]+_\w+\.deb',
         r'python3-dlock_[\d.]+_\w+\.deb', 'SHA256SUMS')


class Repository:
    def __init__(self, work):
        self.top = work / 'libdlock'
        self.top.mkdir()
        tree.copy(TOP, self.top)
        tap.run([*GIT, 'init', '-q'], cwd=self.top)
        self.commit()

    def commit(self):
        tap.run([*GIT, 'add', '-A'], cwd=self.top)
        tap.run([*GIT, 'commit', '-q', '-m', 'the tree under test'], cwd=self.top)

    def change(self, name, old, new):
        path = self.top / name
        text = path.read_text(encoding='utf-8')
        if old not in text:
            raise AssertionError(f'{name} has no {old!r}')
        path.write_text(text.replace(old, new, 1), encoding='utf-8')

    def back(self):
        tap.run([*GIT, 'reset', '-q', '--hard'], cwd=self.top)

    def release(self, *options):
        done = subprocess.run([sys.executable, 'tools/release', *options], cwd=self.top, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        return done.returncode, done.stdout

    def refuses(self, why):
        status, said = self.release()
        if status != 1 or why not in said or (self.top / 'build-dist').exists():
            raise AssertionError(f'exit {status}, not 1 and {why!r}:\n{said}')


def refusals(repository):
    text = (repository.top / 'meson.build').read_text(encoding='utf-8')
    version = re.search(r"version: '([^']+)'", text)[1]

    def all_places_have_the_version_of_this_tree():
        tap.equal('tools/release --number', repository.release('--number'), (0, version + '\n'))

    def a_heading_without_a_day_is_refused():
        repository.change('CHANGELOG.md', f'## {version} (', f'## {version} (un')
        repository.refuses("'CHANGELOG.md': 'none'")
        repository.back()

    def two_versions_are_refused_and_the_places_named():
        for place in ('debian/changelog', 'pyproject.toml', 'packaging/conan/conanfile.py',
                      'packaging/vcpkg/libdlock/vcpkg.json', 'CHANGELOG.md',
                      'bindings/go/dlockmetrics/go.mod'):
            heading = '## ' if place == 'CHANGELOG.md' else ''
            repository.change(place, heading + version, heading + '9.9.9')
            repository.refuses(f"'{place}': '9.9.9'")
            repository.back()

    def a_place_without_a_version_is_named():
        repository.change('debian/changelog', version, '')
        repository.refuses("'debian/changelog': 'none'")
        repository.back()

    def what_is_not_committed_is_refused():
        (repository.top / 'new').write_text('of nobody yet\n', encoding='utf-8')
        repository.refuses('what is not committed')
        (repository.top / 'new').unlink()

    return [all_places_have_the_version_of_this_tree, a_heading_without_a_day_is_refused,
            two_versions_are_refused_and_the_places_named, a_place_without_a_version_is_named,
            what_is_not_committed_is_refused]


def files(repository):
    out = repository.top / 'build-dist'

    def one(pattern):
        found = [path for path in out.iterdir() if re.fullmatch(pattern, path.name)]
        tap.equal(f'files that are {pattern}', len(found), 1)
        return found[0]

    def it_is_the_same_a_second_time():
        status, said = repository.release('--twice')
        if status != 0 or 'the same a second time' not in said:
            raise AssertionError(f'exit {status}:\n{said}')

    def there_is_one_of_each_and_nothing_else():
        tap.equal('files', {one(pattern) for pattern in FILES}, {*out.iterdir()})

    def the_sums_are_those_of_the_files():
        sums = {}
        for line in (out / 'SHA256SUMS').read_text(encoding='utf-8').splitlines():
            digest, name = line.split('  ')
            sums[name] = digest
        tap.equal('sums', sums, {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
                                 for path in out.iterdir() if path.name != 'SHA256SUMS'})

    def the_sources_are_those_of_the_commit():
        committed = set(tap.run([*GIT, 'ls-files', '-z'], cwd=repository.top).split('\0')) - {''}
        with tarfile.open(one(FILES[0])) as packed:
            names = {name.partition('/')[2] for name in packed.getnames()
                     if not packed.getmember(name).isdir()}
        tap.equal('files of the sdist', names, committed | {'PKG-INFO'})

    def the_bill_of_materials_names_each_file_and_nothing_that_is_not_there():
        bill = json.loads(one(FILES[2]).read_text(encoding='utf-8'))
        packages = {package['SPDXID']: package for package in bill['packages']}
        for path in out.iterdir():
            if path.suffix in ('.whl', '.gz', '.deb'):
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                package, = [each for each in packages.values()
                            if each.get('packageFileName') == path.name]
                tap.equal(path.name, package['checksums'][0]['checksumValue'], digest)
        ends = {end for relation in bill['relationships']
                for end in (relation['spdxElementId'], relation['relatedSpdxElement'])}
        tap.equal('ends of relationships', ends, {*packages, 'SPDXRef-DOCUMENT'})
        wheel = one(FILES[1]).name
        inside = {packages[relation['relatedSpdxElement']]['name']
                  for relation in bill['relationships']
                  if relation['relationshipType'] == 'CONTAINS'
                  and packages[relation['spdxElementId']]['name'] == wheel}
        tap.equal('inside of the wheel', inside,
                  {'hiredis', 'openssl', 'zookeeper-client-c', 'nghttp2', 'protobuf-c'})

    def the_wheel_has_what_etcd_needs_beside_it_and_no_other_library():
        with zipfile.ZipFile(one(FILES[1])) as wheel:
            grafted = {re.sub(r'.*/(lib[a-z0-9]+(?:-c)?).*', r'\1', name)
                       for name in wheel.namelist() if name.startswith('libdlock.libs/lib')}
            licences = {Path(name).stem for name in wheel.namelist() if '/licenses/' in name
                        and not name.endswith('/')}
        tap.equal('libraries', grafted, {'libnghttp2', 'libprotobuf-c'})
        tap.equal('licences', licences, {'LICENSE', 'hiredis', 'openssl', 'zookeeper', 'nghttp2',
                                         'protobuf-c'})

    def no_path_of_this_machine_is_in_a_file():
        with tempfile.TemporaryDirectory() as folder:
            for path in out.iterdir():
                into = Path(folder) / path.name
                into.mkdir()
                unpack = {'.deb': ['dpkg', '-x', path, into],
                          '.gz': ['tar', '-xzf', path, '-C', into],
                          '.whl': [sys.executable, '-m', 'zipfile', '-e', path, into]}
                tap.run(unpack.get(path.suffix, ['cp', path, into]))
            found = subprocess.run(['grep', '-rlaF', str(repository.top), folder], check=False,
                                   capture_output=True, text=True).stdout
        tap.equal('files with a path of this machine', found, '')

    return [it_is_the_same_a_second_time, there_is_one_of_each_and_nothing_else,
            the_sums_are_those_of_the_files, the_sources_are_those_of_the_commit,
            the_bill_of_materials_names_each_file_and_nothing_that_is_not_there,
            the_wheel_has_what_etcd_needs_beside_it_and_no_other_library,
            no_path_of_this_machine_is_in_a_file]


def main():
    with tempfile.TemporaryDirectory(prefix='dlock-release-') as folder:
        repository = Repository(Path(folder))
        tests = files if '--whole' in sys.argv[1:] else refusals
        return tap.main([(test.__name__, test) for test in tests(repository)])


if __name__ == '__main__':
    sys.exit(main())

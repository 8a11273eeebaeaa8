"""The pastes of docs/how-to/install.md, each into a new Debian 12 with nothing but a folder of the
files of a release. How long each takes, downloads included, is printed; nothing is asserted of it.

    test_first_lock.py [--files FOLDER]     where tools/release has made them already
"""
import argparse
import re
import shutil
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import tap
from chroot import Chroot
from test_release import Repository

TOP = Path(__file__).resolve().parent.parent.parent
PAGE = TOP / 'docs' / 'how-to' / 'install.md'
WAYS = ('apt', 'pip', 'go', 'pkg-config', 'CMake', 'static', 'sources')
MODULE = 'github.com/libdlock/libdlock/bindings/go'
HELD = re.compile(r'held|held, token [1-9]\d*|order 42 shipped under token [1-9]\d*')


def pastes():
    text = PAGE.read_text(encoding='utf-8')
    return dict(re.findall(r'^<!-- paste: (\S+) -->\n```\n(.*?)^```$', text, re.M | re.S))


def publish(proxy, version):
    """Our Go module as Go's proxy will have it when the release is tagged."""
    at, source = proxy / MODULE / '@v', TOP / 'bindings' / 'go'
    at.mkdir(parents=True)
    (at / 'list').write_text(f'v{version}\n')
    (at / f'v{version}.info').write_text(f'{{"Version":"v{version}"}}')
    shutil.copy(source / 'go.mod', at / f'v{version}.mod')
    with zipfile.ZipFile(at / f'v{version}.zip', 'w') as packed:
        for path in sorted(source.rglob('*')):
            name = path.relative_to(source)
            if path.is_file() and name.parts[0] != 'dlockmetrics':
                packed.write(path, f'{MODULE}@v{version}/{name}')


class World:
    def __init__(self, work, files):
        self.work, self.files, self.bare = work, files, None

    def make_files(self):
        if self.files is None:
            repository = Repository(self.work)
            status, said = repository.release()
            if status != 0:
                raise AssertionError(said)
            self.files = repository.top / 'build-dist'

    def system(self, way):
        """A new one, which knows what apt has."""
        if self.bare is None:
            self.bare = Chroot.made(self.work / 'bare')
            self.bare.run('apt-get update')
            shutil.copytree(self.files, self.bare.root / 'release')
        return self.bare.copy(self.work / way)

    def with_go(self, system):
        """Go as it is here, and the module as if it were published. Returns the environment."""
        if shutil.which('go') is None:
            raise tap.Skip('no go')
        source, = self.files.glob('libdlock-*.tar.gz')
        publish(system.root / 'proxy', re.fullmatch(r'libdlock-(.*)\.tar\.gz', source.name)[1])
        shutil.copytree(tap.run(['go', 'env', 'GOROOT']).strip(), system.root / 'usr/local/go',
                        symlinks=True)
        return {'PATH': '/usr/local/go/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'HOME': '/root',
                'GOPROXY': 'file:///proxy', 'GONOSUMDB': '*', 'GOTOOLCHAIN': 'local'}

    def paste(self, way, text):
        system = self.system(way)
        env = self.with_go(system) if way == 'go' else {}
        began = time.monotonic()
        said = system.run(text, '/release', **env)
        took = time.monotonic() - began
        if not HELD.fullmatch(said.splitlines()[-1]):
            raise AssertionError(f'no lock was held at the end of: {said}')
        print(f'# first lock by {way}: {took:.1f} s', flush=True)
        shutil.rmtree(system.root)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--files', type=Path)
    files = parser.parse_args().files
    if shutil.which('debootstrap') is None:
        print('1..0 # SKIP no debootstrap')
        return 0
    with tempfile.TemporaryDirectory(prefix='dlock-first-') as folder:
        world = World(Path(folder), files)
        tests = [('the_page_has_each_way', lambda: tap.equal('ways', tuple(pastes()), WAYS)),
                 ('a_release_is_made', world.make_files)]
        for way, text in pastes().items():
            tests.append((f'one_paste_takes_the_first_lock_by_{way.lower().replace("-", "_")}',
                          lambda way=way, text=text: world.paste(way, text)))
        return tap.main(tests)


if __name__ == '__main__':
    sys.exit(main())

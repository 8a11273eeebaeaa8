"""What a CMake project gets of find_package(dlock), when an install was moved and only
CMAKE_PREFIX_PATH says where it is."""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import tap
from test_install import HERE, Install, walk

PROJECT = '''cmake_minimum_required(VERSION 3.16)
project(consumer LANGUAGES C)
find_package(dlock %s REQUIRED)
add_executable(shared %s/consumer.c)
target_link_libraries(shared PRIVATE dlock::dlock)
add_executable(static %s/consumer.c)
target_link_libraries(static PRIVATE dlock::dlock_static)
'''


class Project:
    def __init__(self, prefix, work):
        self.prefix, self.work, self.built = prefix, work, None

    def configure(self, name, version=''):
        """CMake's exit status, what it said, and the folder to build in."""
        folder = self.work / name
        folder.mkdir()
        (folder / 'CMakeLists.txt').write_text(PROJECT % (version, HERE, HERE))
        env = {key: value for key, value in os.environ.items()
               if key not in ('PKG_CONFIG_PATH', 'LD_LIBRARY_PATH')}
        done = subprocess.run(['cmake', '-S', folder, '-B', folder / 'build',
                               f'-DCMAKE_PREFIX_PATH={self.prefix}'], env=env, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        return done.returncode, done.stdout, folder / 'build'

    def program(self, name):
        if self.built is None:
            status, said, folder = self.configure('project', '0.1')
            if status != 0:
                raise AssertionError(said)
            tap.run(['cmake', '--build', folder])
            self.built = folder
        return self.built / name

    def needs_shared_libdlock(self, name):
        return 'libdlock.so.0' in tap.run(['readelf', '--dynamic', self.program(name)])

    def run(self, name):
        env = {key: value for key, value in os.environ.items() if key != 'LD_LIBRARY_PATH'}
        walk(self.program(name), env, 'mem:', f'orders/{name}', lambda: None)


def main():
    build = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix='dlock-cmake-') as folder:
        work = Path(folder)
        project = Project(Install(build, work).prefix, work)

        def dlock_dlock_is_the_shared_library():
            project.run('shared')
            tap.equal('needs libdlock.so.0', project.needs_shared_libdlock('shared'), True)

        def dlock_dlock_static_brings_what_it_needs():
            project.run('static')
            tap.equal('needs libdlock.so.0', project.needs_shared_libdlock('static'), False)

        def without_a_shared_library_dlock_dlock_is_the_static_one():
            prefix = work / 'static'
            shutil.copytree(project.prefix, prefix, ignore=shutil.ignore_patterns('libdlock.so*'))
            (work / 'alone').mkdir()
            alone = Project(prefix, work / 'alone')
            alone.run('shared')
            tap.equal('needs libdlock.so.0', alone.needs_shared_libdlock('shared'), False)

        def a_release_that_is_too_old_is_refused():
            status, said, _ = project.configure('newer', '0.9')
            if status == 0 or 'requested version "0.9"' not in said:
                raise AssertionError(f'exit {status}: {said}')

        return tap.main([(test.__name__, test) for test in (
            dlock_dlock_is_the_shared_library, dlock_dlock_static_brings_what_it_needs,
            without_a_shared_library_dlock_dlock_is_the_static_one,
            a_release_that_is_too_old_is_refused)])


if __name__ == '__main__':
    sys.exit(main())

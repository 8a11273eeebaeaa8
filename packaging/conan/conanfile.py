"""libdlock for Conan 2: see packaging/README.md."""
import os

from conan import ConanFile
from conan.tools.files import copy
from conan.tools.gnu import PkgConfigDeps
from conan.tools.layout import basic_layout
from conan.tools.meson import Meson, MesonToolchain

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')


class Libdlock(ConanFile):
    name = 'libdlock'
    version = '0.1.0'
    description = 'Distributed locks over memory, a file, Redis, PostgreSQL, etcd or memcached'
    license = 'Apache-2.0'
    url = 'https://github.com/libdlock/libdlock'
    settings = 'os', 'arch', 'compiler', 'build_type'
    options = {'shared': [True, False], 'redis': [True, False], 'tls': [True, False],
               'etcd': [True, False], 'postgres': [True, False]}
    default_options = {'shared': True, 'redis': True, 'tls': True, 'etcd': True, 'postgres': True}

    def export_sources(self):
        for pattern in ('meson.build', 'meson_options.txt', 'LICENSE', 'libdlock/*', 'pkgconfig/*',
                        'cmake/*', 'tools/*'):
            copy(self, pattern, TOP, self.export_sources_folder)

    def configure(self):
        self.settings.rm_safe('compiler.libcxx')
        self.settings.rm_safe('compiler.cppstd')

    def requirements(self):
        if self.options.redis:
            self.requires('hiredis/[>=0.14 <2]')
        if self.options.tls:
            self.requires('openssl/[>=3 <4]')
        if self.options.etcd:
            self.requires('libnghttp2/[>=1.40 <2]')
            self.requires('protobuf-c/[>=1.3 <2]')
        if self.options.postgres:
            self.requires('libpq/[>=14 <18]')

    def build_requirements(self):
        self.tool_requires('meson/[>=1.2 <2]')
        if self.options.etcd:
            self.tool_requires('protobuf-c/[>=1.3 <2]')

    def layout(self):
        basic_layout(self)

    def generate(self):
        PkgConfigDeps(self).generate()
        toolchain = MesonToolchain(self)
        for part in ('redis', 'tls', 'etcd', 'postgres'):
            there = self.options.get_safe(part)
            toolchain.project_options[part] = 'enabled' if there else 'disabled'
        for part in ('zookeeper', 'cli', 'man'):
            toolchain.project_options[part] = 'disabled'
        toolchain.generate()

    def build(self):
        meson = Meson(self)
        meson.configure()
        meson.build()

    def package(self):
        copy(self, 'LICENSE', self.source_folder, os.path.join(self.package_folder, 'licenses'))
        Meson(self).install()

    def package_info(self):
        self.cpp_info.libs = ['dlock']
        self.cpp_info.set_property('pkg_config_name', 'dlock')
        self.cpp_info.set_property('cmake_file_name', 'dlock')
        self.cpp_info.set_property('cmake_target_name', 'dlock::dlock')
        self.cpp_info.system_libs = ['pthread', 'dl']

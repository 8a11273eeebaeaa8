"""The Go of these tests, and the libdlock that it finds."""
import os
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
MODULE = TOP / 'bindings' / 'go'


def where():
    """The path of a Go that is new enough."""
    done = subprocess.run([TOP / 'tools' / 'go', '--where'], text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, check=True)
    return done.stdout.strip()


def environment(pkgconfig=None, libraries=None, **more):
    """pkg-config and the loader find the build folder DLK_BUILD, or what is given. Go's cache
    doesn't know what pkg-config said, but what the linker is told: that says where it is."""
    build = Path(os.environ['DLK_BUILD'])
    libraries = libraries or build / 'libdlock'
    return {**os.environ,
            'PATH': f'{os.path.dirname(where())}:{os.environ["PATH"]}',
            'PKG_CONFIG_PATH': str(pkgconfig or build / 'meson-uninstalled'),
            'LD_LIBRARY_PATH': str(libraries),
            'CGO_LDFLAGS': f'-O2 -g -Wl,-rpath,{libraries}',
            'CGO_ENABLED': '1', 'GOTOOLCHAIN': 'local', 'GOROOT': '',
            'GOFLAGS': '-modcacherw -buildvcs=false', **more}


def fetch(folder):
    """What the module there needs of others, before a clock runs. (In a workspace, as dlockmetrics
    is one, `go mod download` would bring what nobody builds, too.)"""
    packages = ['list', '-deps', '-test', './...']
    subprocess.run([TOP / 'tools' / 'fetch', where(), *packages], cwd=folder,
                   env=environment(), stdin=subprocess.DEVNULL, stdout=sys.stderr, check=True)

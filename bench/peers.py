"""The libraries of others that libdlock is measured beside: how they come here, and how they run.

Each is a program that stays alive, so that a virtual machine is warm when it counts. It is
told, line by line, "pairs THREADS SECS", "one-name THREADS SECS HOLD_MS" or "held COUNT"; it
prepares, says "ready", waits for a line, runs, and answers with one line of JSON, with the keys
that the C programs use. They come from their own languages' registries, redis-py from Debian.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import threading
import time

import machine

HERE = pathlib.Path(__file__).resolve().parent
SOURCES = HERE / 'peers'
DEBIAN_PYTHON = '/usr/bin/python3'
INTEROP = HERE.parent / 'tests' / 'interop'
JVM_WARM_SECS = 5
GO = HERE.parent / 'tools' / 'go'


class Failed(Exception):
    """A program that didn't end well; the text is what it said."""


class PeerFailed(Failed):
    """A library of others that died, or fell silent."""


class Absent(Failed):
    """A library that isn't on this machine; the text is why."""


def tool(name):
    path = shutil.which(name)
    if not path:
        raise Absent(f'{name} is not installed')
    return path


def done(words, **more):
    """What a command prints."""
    end = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300, **more)
    if end.returncode != 0:
        said = (end.stderr.strip() or end.stdout.strip()).splitlines()
        raise Absent(f'{os.path.basename(words[0])}: {said[-1] if said else end.returncode}')
    return end.stdout.strip()


# Debian's own Go builds versions of that time, and not all of the libraries.
NEWEST_GO = (1, 25)


def go_is_new(go):
    found = re.match(r'go(\d+)\.(\d+)', done([go, 'env', 'GOVERSION']))
    return found is not None and (int(found[1]), int(found[2])) >= NEWEST_GO


def make_go(target):
    """The program, and the version of each library in it."""
    tool('go')
    go, output, sources = done([str(GO), '--where']), target / 'go-peer', SOURCES / 'go'
    versions = [] if go_is_new(go) else ['-modfile=go-1.19.mod']
    done([go, 'build', *versions, '-o', str(output), '.'], cwd=sources)
    listed = done([go, 'list', *versions, '-m', 'all'], cwd=sources)
    return [str(output)], dict(line.split(' ', 1) for line in listed.splitlines()
                               if ' ' in line)


def make_java(target, library, pom, artifact):
    """The library as its own registry has it, by the versions that the tests are run with."""
    maven, compiler, java = tool('mvn'), tool('javac'), tool('java')
    name = f'{library}Peer'
    path, classes = target / f'{library}.classpath', target / library
    sources = [SOURCES / 'Peer.java', SOURCES / f'{name}.java']
    if not path.exists() or path.stat().st_mtime < max(
            file.stat().st_mtime for file in (pom, *sources)):
        done([maven, '-q', '-B', '-f', str(pom), 'dependency:build-classpath',
              f'-Dmdep.outputFile={path}'])
        done([compiler, '-cp', path.read_text(), '-d', str(classes), *map(str, sources)])
        os.utime(path)
    jars = path.read_text().split(os.pathsep)
    version = next(jar for jar in jars if f'/{artifact}/' in jar).split('/')[-2]
    return [java, '-cp', os.pathsep.join([str(classes), *jars]), name], {library: version}


def make_redisson(target):
    return make_java(target, 'Redisson', INTEROP / 'redisson' / 'pom.xml', 'redisson/redisson')


def make_curator(target):
    return make_java(target, 'Curator', INTEROP / 'zookeeper' / 'curator' / 'pom.xml',
                     'curator/curator-recipes')


def make_python(_):
    version = done([DEBIAN_PYTHON, '-c', 'import redis; print(redis.__version__)'])
    return [DEBIAN_PYTHON, str(SOURCES / 'redis_py_peer.py')], {'redis-py': version}


def newest(*folders):
    """When the last of these sources was written."""
    return max(path.stat().st_mtime for folder in folders for path in folder.rglob('*')
               if path.is_file())


def make_own_python(target):
    """libdlock's Python package, as pip builds it, beside the libraries from PyPI."""
    top, venv = HERE.parent, target / 'python'
    python, stamp = venv / 'bin' / 'python', venv / 'made'
    sources = top / 'libdlock', top / 'bindings' / 'python', top / 'bindings' / 'swig'
    if (not stamp.exists() or stamp.stat().st_mtime < newest(*sources)
            or stamp.read_text() != str(PYPI)):
        done([DEBIAN_PYTHON, '-m', 'venv', '--clear', str(venv)])
        pip = [str(python), '-m', 'pip', '--quiet', '--disable-pip-version-check', 'install']
        done([*pip, *(f'{name}=={version}' for name, version in PYPI.items())])
        done([*pip, str(top)])
        stamp.write_text(str(PYPI))
    return ([str(python), str(SOURCES / 'python_peer.py')],
            {**PYPI, 'dlock': done([str(python), '-c', 'import dlock; print(dlock.__version__)'])})


PYPI = {'redis': '8.1.0', 'hiredis': '3.5.0', 'filelock': '4.2.11', 'kazoo': '2.11.0'}


def make_binding(target):
    """Our Go package in the same program as the Go libraries, over the libdlock of this build."""
    build, output = target.parent.parent, target / 'go-dlock'
    go = done([str(GO), '--where'])
    done([go, 'build', '-tags', 'dlock', '-o', str(output), '.'], cwd=SOURCES / 'go',
         env={**os.environ, 'GOTOOLCHAIN': 'local', 'GOROOT': '', 'CGO_ENABLED': '1',
              'PKG_CONFIG_PATH': str(build / 'meson-uninstalled'),
              'CGO_LDFLAGS': f'-Wl,-rpath,{build / "libdlock"}'})
    return [str(output)], {'libdlock': 'v' + done(['pkg-config', '--modversion', 'dlock'], env={
        **os.environ, 'PKG_CONFIG_PATH': str(build / 'meson-uninstalled')})}


# Library: how it is made, and the name under which the maker tells its version.
LIBRARIES = {
    'Redisson': (make_redisson, 'Redisson'),
    'Curator': (make_curator, 'Curator'),
    'redislock': (make_go, 'github.com/bsm/redislock'),
    'redsync': (make_go, 'github.com/go-redsync/redsync/v4'),
    'redsync of 5': (make_go, 'github.com/go-redsync/redsync/v4'),
    'rueidislock': (make_go, 'github.com/redis/rueidis'),
    'concurrency.Mutex': (make_go, 'go.etcd.io/etcd/client/v3'),
    'concurrency.Mutex of one session': (make_go, 'go.etcd.io/etcd/client/v3'),
    'go-zookeeper': (make_go, 'github.com/go-zookeeper/zk'),
    'redis-py': (make_python, 'redis-py'),
    'go-string': (make_binding, 'libdlock'),
    'go-redisson': (make_binding, 'libdlock'),
    'go-redisson kept': (make_binding, 'libdlock'),
    'redis-py 8': (make_own_python, 'redis'),
    'redis-py asyncio': (make_own_python, 'redis'),
    'filelock': (make_own_python, 'filelock'),
    'kazoo': (make_own_python, 'kazoo'),
    'dlock': (make_own_python, 'dlock'),
    'dlock file': (make_own_python, 'dlock'),
    'dlock mem': (make_own_python, 'dlock'),
    'dlock.aio': (make_own_python, 'dlock'),
    'dlock.aio release=async': (make_own_python, 'dlock'),
}

# Those that lock on an etcd, on a ZooKeeper; the others, as far as they need a server, on a Redis.
ETCDS = 'concurrency.Mutex', 'concurrency.Mutex of one session'
ZOOKEEPERS = 'Curator', 'go-zookeeper', 'kazoo'
REDLOCKS = 'redsync of 5',


class Peers:
    """Makes each library's program once, when it is first asked for."""

    def __init__(self, target):
        self.target = target
        self.made = {}
        self.versions = {}
        target.mkdir(parents=True, exist_ok=True)

    def command(self, library):
        maker, key = LIBRARIES[library]
        if maker not in self.made:
            try:
                self.made[maker] = maker(self.target)
            except (Absent, OSError, subprocess.TimeoutExpired) as why:
                self.made[maker] = Absent(str(why))
        made = self.made[maker]
        if isinstance(made, Absent):
            raise Absent(f'{library} is not here: {made}')
        command, versions = made
        if key not in versions:
            raise Absent(f'{library} is not here: this machine\'s compiler is too old for it')
        self.versions[library] = versions[key].lstrip('v')
        return command


class Live:
    """A program that speaks the protocol: one of the peers, or one of ours that waits for a cue."""

    failure = Failed

    def __init__(self, command, cores, patience=60):
        self.patience = patience
        self.late = False
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, preexec_fn=lambda: os.sched_setaffinity(0, cores))
        self.said = []
        self.listener = threading.Thread(target=self.listen, daemon=True)
        self.listener.start()

    def listen(self):
        for line in self.process.stderr:
            self.said = [*self.said[-5:], line.strip()]

    def give_up(self):
        self.late = True
        self.process.kill()

    def hear(self, patience):
        """A line; who doesn't say one in time is ended, so that nothing hangs on it."""
        watch = threading.Timer(patience, self.give_up)
        watch.start()
        line = self.process.stdout.readline()
        watch.cancel()
        if not line:
            self.process.wait()
            self.listener.join(1)
            why = f'silent for {patience:.0f} s' if self.late else ' '.join(self.said)
            raise self.failure(why or f'exit code {self.process.returncode}')
        return line.strip()

    def tell(self, line=''):
        try:
            self.process.stdin.write(line + '\n')
            self.process.stdin.flush()
        except OSError:
            pass  # it is gone, which hear() will say

    def prepare(self, *words):
        if words:
            self.tell(' '.join(map(str, words)))
        line = self.hear(self.patience)
        if line != 'ready':
            raise self.failure(f'said {line!r} instead of ready')

    def answer(self, patience):
        return json.loads(self.hear(patience))

    def cpu_secs(self):
        """The processor's time of all its threads, those that have ended included."""
        return time.clock_gettime((~self.process.pid << 3) | 2)  # as clock_getcpuclockid(3)

    def rss_kib(self):
        status = pathlib.Path(f'/proc/{self.process.pid}/status').read_text()
        return int(status.partition('VmRSS:')[2].split()[0])

    def end(self):
        try:
            self.process.stdin.close()
        except OSError:
            pass
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.listener.join(1)
        self.process.stdout.close()
        self.process.stderr.close()


class Player(Live):
    """A peer, warm."""

    failure = PeerFailed

    def __init__(self, peers, library, place, port, page, ttl_ms=30000, base=0):
        self.library = library
        command = peers.command(library)
        cores = machine.CORES[:1] if place == 'pinned' else machine.CORES
        super().__init__([*command, str(port), library.lower(), str(page), str(ttl_ms),
                          str(base)], cores)
        self.warm = False

    def warm_up(self, secs):
        if not self.warm:
            self.play('pairs', 4, secs)
            self.play('pairs', 1, secs / 2)
        self.warm = True

    def calls(self):
        """What single calls cost; of our Go package only."""
        self.prepare('calls')
        self.tell()
        return self.answer(60)

    def play(self, what, threads, secs, *more):
        self.prepare(what, threads, secs, *more)
        cpu = self.cpu_secs()
        self.tell()
        run = self.answer(12 + 3 * secs)
        run['cpu_us'] = (self.cpu_secs() - cpu) * 1e6 / max(1, run['total'])
        return run

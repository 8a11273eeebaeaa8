"""What the tests run on: a real Redis server, a file, memory; and how they wait for something."""
import atexit
import functools
import itertools
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'harness'))
import waiting  # noqa: E402
import zookeeper_server  # noqa: E402
from etcd_server import Cluster  # noqa: E402
from postgres_server import Postgres  # noqa: E402
from servers import Redis  # noqa: E402

LIMIT_S = 60
# A wait that runs out. Not too short: a server that hasn't said yet that the lock is held makes
# another error of it.
SHORT_S = 0.3
_numbers = itertools.count(1)


def wait_until(what, condition, limit=LIMIT_S):
    return waiting.wait_until(what, condition, limit)


def new_name(stem='test'):
    """The name of a lock that no other test has."""
    return f'{stem}/{next(_numbers)}'


@functools.cache
def shared(kind):
    """One server for all tests of a program that don't stop it."""
    server = kind()
    atexit.register(server.stop)
    return server


def shared_redis():
    return shared(Redis)


def shared_etcd():
    return shared(Cluster)


def shared_postgres():
    return shared(Postgres)


def shared_zookeeper():
    return shared(zookeeper_server.single)


def new_file():
    """The URL of a file that isn't there yet."""
    folder = tempfile.mkdtemp(prefix='dlock-py-')
    atexit.register(shutil.rmtree, folder, True)
    return f'file://{folder}/locks'

"""Correct distributed locks over memory, a file, Redis, PostgreSQL, ZooKeeper, etcd, memcached.

In the package ``libdlock``.

::

    import dlock

    with dlock.Client("redis://127.0.0.1", ttl=30) as client:
        with client.lock("orders/42") as held:
            ship(42, held.token)

For asyncio the same names are in :mod:`dlock.aio`.
"""
from __future__ import annotations

import logging

from . import _native as native
from .client import Client
from .condition import Condition
from .election import Election
from .errors import (
    AccessError, AcquireTimeout, BackendError, BusyError, CanceledError, ClosedError, ConfigError,
    ConflictError, DeadlockError, DlockError, ForkedError, GuardError, LimitError, LostError,
    NoMemoryError, NotHeldError, NotSupportedError, OverReleaseError, PendingError, ProtocolError,
    QuorumError, UnavailableError, UnknownOutcomeError)
from .guard import Guard
from .hold import Hold
from .lock import Lock, MultiLock, ReadLock, RLock, RWLock, Semaphore, WriteLock

__all__ = [
    'AccessError', 'AcquireTimeout', 'BackendError', 'BusyError', 'CanceledError', 'Client',
    'ClosedError', 'Condition', 'ConfigError', 'ConflictError', 'DeadlockError', 'DlockError',
    'Election', 'ForkedError', 'Guard', 'GuardError', 'Hold', 'LimitError', 'Lock', 'LostError',
    'MultiLock', 'NoMemoryError', 'NotHeldError', 'NotSupportedError', 'OverReleaseError',
    'PendingError', 'ProtocolError', 'QuorumError', 'RLock', 'RWLock', 'ReadLock', 'Semaphore',
    'UnavailableError', 'UnknownOutcomeError', 'WriteLock', '__version__', 'backends', 'metrics',
    'version',
]

if native.version_num() < native.BUILT_NUM:
    raise ImportError(f'libdlock {native.version()} is older than the one dlock was built for')

__version__ = native.version()
logging.getLogger('dlock').addHandler(logging.NullHandler())


def version() -> str:
    """The version of libdlock that is loaded."""
    return native.version()


def backends() -> list[str]:
    """The schemes of URLs that this build can open."""
    return native.backends().split()


def metrics() -> str:
    """What all clients of this process count and do now, for Prometheus: OpenMetrics text; no I/O.

    Its ``Content-Type`` is ``application/openmetrics-text; version=1.0.0; charset=utf-8``.
    """
    return native.client_metrics(None)

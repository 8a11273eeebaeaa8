"""``kazoo.recipe.lock`` over a dlock client: ``Lock``, ``ReadLock``, ``WriteLock``, ``Semaphore``.

::

    from dlock.compat.kazoo import Lock      # was: from kazoo.recipe.lock import Lock
    client = dlock.Client('zookeeper://127.0.0.1:2181', zookeeper_layout='kazoo')
    with Lock(client, '/lockpath', 'my-identifier'): ...

With ``zookeeper_layout='kazoo'`` these share their nodes with kazoo's. What is deliberately
different:

- The client is a :class:`dlock.Client`. A path is the name of a lock on any of its services; of
  ``/a//b/`` kazoo makes ``/a/b``, and so it is here.
- ``is_acquired`` is False again when the lock was lost; kazoo's stays True. ``release()`` is False
  then.
- ``ephemeral=False`` is refused: a lock that its holder's death doesn't end has no holder.
- ``contenders()`` knows the identifiers of the holders, where the service keeps them (Redis
  doesn't); those of the waiters are empty texts. What kazoo's own ``contenders()`` reads from a
  node of ours has the identifier behind two lines of our own.
- ``Semaphore`` needs a service that has semaphores; ``zookeeper_layout='kazoo'`` hasn't in this
  version: NotSupportedError.
- ``extra_lock_patterns`` must be empty: which nodes count, ``zookeeper_layout`` says.
- ``Lock`` has a ``token``, the fencing token.
"""
from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .. import errors, _native as native
from .._core import wait
from .._settings import wait_ms
from ..client import Client
from ..hold import Hold
from ..lock import Lock as OurLock

if TYPE_CHECKING:
    class LockTimeout(Exception):
        """As ``kazoo.exceptions.LockTimeout``, which it is where kazoo is installed."""

    class CancelledError(Exception):
        """As ``kazoo.exceptions.CancelledError``, which it is where kazoo is installed."""
else:
    try:
        from kazoo.exceptions import CancelledError, LockTimeout
    except ImportError:
        class LockTimeout(Exception):
            """As ``kazoo.exceptions.LockTimeout``, which it is where kazoo is installed."""

        class CancelledError(Exception):
            """As ``kazoo.exceptions.CancelledError``, which it is where kazoo is installed."""

__all__ = ['CancelledError', 'Lock', 'LockTimeout', 'ReadLock', 'Semaphore', 'WriteLock']


def _name_of(path: str) -> str:
    """What kazoo makes of a path: without empty parts; relative ones are refused."""
    parts = [part for part in path.split('/') if part]
    if '.' in parts or '..' in parts:
        raise ValueError('relative paths not allowed')
    return ('/' if path.startswith('/') else '') + '/'.join(parts)


class _Contender:
    """What locks and semaphores have in common: one hold at a time, and a wait to cancel."""

    def __init__(self, client: Client, path: str, identifier: object, lock: OurLock) -> None:
        self.client = client
        self.path = path
        self.data = str(identifier or '').encode('utf-8')
        self.cancelled = False
        self._lock = lock
        self._hold: Hold | None = None
        self._op: native.Op | None = None
        self._turn = threading.Lock()    # one thread at a time acquires by way of this object
        self._guard = threading.Lock()   # cancelled, _op

    @property
    def is_acquired(self) -> bool:
        """Whether it is held, by the clock."""
        hold = self._hold
        return hold is not None and native.hold_check(hold._native) == native.OK

    @property
    def token(self) -> int:
        """The fencing token of what is held; 0 when nothing is."""
        hold = self._hold
        return 0 if hold is None else hold.token

    def cancel(self) -> None:
        """Ends an acquire that waits in another thread with CancelledError."""
        with self._guard:
            self.cancelled = True
            if self._op is not None:
                native.op_cancel(self._op)

    def _acquire(self, blocking: bool, timeout: float | None) -> bool:
        began = time.monotonic()
        limit = wait_ms(blocking, -1 if timeout is None or not blocking else timeout)
        if not self._turn.acquire(blocking, -1 if limit < 0 or not blocking else limit / 1000):
            return False
        try:
            if self.is_acquired and not blocking:
                return False
            if limit > 0:
                limit = max(0, limit - int((time.monotonic() - began) * 1000))
            return self._wait(limit, blocking, timeout)
        finally:
            self._turn.release()

    def _wait(self, limit: int, blocking: bool, timeout: float | None) -> bool:
        had = self.is_acquired
        with self._guard:
            if self.cancelled:
                self.cancelled = False
                raise CancelledError()
            op = self._op = native.lock_acquire_start(self._lock._native, limit)
        try:
            code = wait(op)
        finally:
            with self._guard:
                self._op = None
        handle = native.op_take_hold(op)
        if handle is not None:
            self._hold = Hold(handle, self.client)
            return True
        if code == native.ECANCELED and self.cancelled:
            self.cancelled = False
            raise CancelledError()
        if code not in (native.EBUSY, native.ETIMEDOUT):
            raise errors.from_op(op, self.path)
        if blocking and not had:
            raise LockTimeout(f'Failed to acquire {self.path} after {timeout} seconds')
        return False

    def release(self) -> bool:
        """Releases it; False when it wasn't held, or not any more."""
        hold, self._hold = self._hold, None
        if hold is None:
            return False
        try:
            hold.release()
        except (errors.LostError, errors.NotHeldError):
            return False
        return True

    def _holders(self) -> list[str]:
        seen = self._lock.inspect()
        return [str(holder.get('data', '')) for holder in seen.get('holders', [])]

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.release()

    def __repr__(self) -> str:
        return f'<dlock.compat.kazoo.{type(self).__name__} {self.path!r}>'


class Lock(_Contender):
    """A lock with the signature of ``kazoo.recipe.lock.Lock``; not reentrant.

    :param client: a :class:`dlock.Client`
    :param path: the name of the lock
    :param identifier: shown by ``contenders()``
    :param extra_lock_patterns: must be empty
    """

    def __init__(self, client: Client, path: str, identifier: object = None,
                 extra_lock_patterns: Sequence[str] = ()) -> None:
        if extra_lock_patterns:
            raise errors.NotSupportedError(
                'extra_lock_patterns: zookeeper_layout says which nodes count')
        super().__init__(client, path, identifier, self._make(client, path, identifier))

    @staticmethod
    def _make(client: Client, path: str, identifier: object) -> OurLock:
        return client.lock(_name_of(path), **_data(identifier))

    def acquire(self, blocking: bool = True, timeout: float | None = None,
                ephemeral: bool = True) -> bool:
        """Acquires the lock and says whether it did.

        :param blocking: False tries once
        :param timeout: seconds; None waits without limit
        :param ephemeral: must be True
        :raises LockTimeout: it wasn't free within *timeout*
        :raises CancelledError: cancel() was called
        """
        if not ephemeral:
            raise errors.NotSupportedError('ephemeral: a lock ends with its holder')
        return self._acquire(blocking, timeout)

    def contenders(self) -> list[str]:
        """The identifiers of the holders, and an empty text for each that waits."""
        waiters = self._lock.inspect().get('waiters', 0)
        return self._holders() + [''] * int(waiters or 0)

    def __enter__(self) -> Lock:
        self.acquire()
        return self


class ReadLock(Lock):
    """The side of a read/write lock that its holders share: ``kazoo.recipe.lock.ReadLock``."""

    @staticmethod
    def _make(client: Client, path: str, identifier: object) -> OurLock:
        return client.rwlock(_name_of(path), **_data(identifier)).read


class WriteLock(Lock):
    """The exclusive side of a read/write lock: ``kazoo.recipe.lock.WriteLock``."""

    @staticmethod
    def _make(client: Client, path: str, identifier: object) -> OurLock:
        return client.rwlock(_name_of(path), **_data(identifier)).write


class Semaphore(_Contender):
    """A semaphore with the signature of ``kazoo.recipe.lock.Semaphore``.

    :param client: a :class:`dlock.Client`
    :param path: the name of the semaphore
    :param identifier: shown by ``lease_holders()``
    :param max_leases: how many may hold it at a time
    """

    def __init__(self, client: Client, path: str, identifier: object = None,
                 max_leases: int = 1) -> None:
        lock = client.semaphore(_name_of(path), max_leases, **_data(identifier))
        super().__init__(client, path, identifier, lock)
        self.max_leases = max_leases

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Acquires a lease and says whether it did; True when this object has one already.

        :param blocking: False tries once
        :param timeout: seconds; None waits without limit
        :raises LockTimeout: none was free within *timeout*
        :raises CancelledError: cancel() was called
        :raises ValueError: the semaphore has another number of leases
        """
        self.cancelled = False
        if self.is_acquired:
            return True
        try:
            return self._acquire(blocking, timeout)
        except errors.ConflictError as why:
            raise ValueError(f'Inconsistent max leases: {why}') from why

    def lease_holders(self) -> list[str]:
        """The identifiers of those that hold a lease."""
        return self._holders()

    def __enter__(self) -> Semaphore:
        self.acquire()
        return self


def _data(identifier: object) -> dict[str, Any]:
    text = str(identifier or '')
    return {'data': text} if text else {}

"""Locks for threads: the shapes of threading.Lock and its kin, over a lock service."""
from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from . import _native as native, errors
from ._core import finish, finish_info, patience, refuse_pickling, this_thread, wait
from ._keywords import LockSettings
from ._settings import (
    Seconds, check_counts, check_name, check_releases, check_text, make_conf, settings_of,
    tells, wait_ms)
from .hold import Hold

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .client import Client

F = TypeVar('F', bound=Callable[..., Any])


class Lock:
    """A lock that one holder has at a time, in the shape of :class:`threading.Lock`: not
    reentrant, and whoever has the object may release it.

    ::

        with client.lock("orders/42", ttl=30) as held:
            ship(42, held.token)

    The object remembers what it holds, so ``acquire()`` and ``release()`` work without a
    :class:`Hold`; several threads may share it. ``@client.lock("nightly")`` before a function
    takes the lock around each call.

    :param client: a :class:`Client`
    :param name: any text without NUL
    :param raise_on_loss: whether leaving a ``with`` block raises LostError when the lock was lost
    :param settings: such as ``ttl=30`` (the lease, in seconds), ``renew="fed"``, ``fair=True``,
        ``redis_layout="string"``; see the page of settings
    """

    _kind = native.MUTEX
    _fixed: Mapping[str, str] = {'lock.owner': 'none'}

    @tells(LockSettings)
    def __init__(self, client: Client, name: str, *, raise_on_loss: bool = True,
                 **settings: Unpack[LockSettings]) -> None:
        check_client(client)
        self._begin(client, check_name(name), raise_on_loss)
        self._native = client._core.new_lock(self._kind, self.name, settings, self._fixed)

    def _begin(self, client: Client, name: str, raise_on_loss: bool) -> None:
        self.client = client
        self.name = name
        self._raise_on_loss = raise_on_loss
        self._holds: list[Hold] = []
        self._entered: list[Hold] = []
        self._ref = weakref.ref(self)

    # ---- taking it ----

    def acquire(self, blocking: bool = True, timeout: Seconds | None = -1) -> bool:
        """Takes the lock; returns whether it is held now.

        :param blocking: False tries once
        :param timeout: seconds to wait; -1 and None wait without limit
        :raises BackendError: the service couldn't be asked within the time-out
        """
        return self._acquire(wait_ms(blocking, timeout), False) is not None

    def hold(self, timeout: Seconds | None = -1) -> Hold:
        """Takes the lock and returns the hold, which is a context manager:
        ``with lock.hold(timeout=5) as held:``.

        :param timeout: seconds to wait; 0 tries once, -1 and None wait without limit
        :raises AcquireTimeout: somebody else held it to the end
        """
        hold = self._acquire(wait_ms(True, timeout), True)
        assert hold is not None   # and not cast(), behind which an interrupt could come
        return hold

    def _acquire(self, ms: int, must: bool,
                 awaited: Callable[[native.Op], int] | None = None) -> Hold | None:
        """@awaited is whoever waits in its own way."""
        handle: native.Hold | None = None
        hold: Hold | None = None
        try:
            handle, op = native.lock_acquire(self._native, ms, 0 if awaited else patience())
            if op is not None:
                code = (awaited or wait)(op)
                handle = native.op_take_hold(op)
            if handle is not None:
                hold = Hold(handle, self.client, self._ref, self._raise_on_loss)
                self._holds.append(hold)
                return hold
        except BaseException:
            # An interrupt: what was granted goes back as soon as nobody refers to it, and a
            # traceback would refer to it for long.
            handle = None
            self._take_back(hold)
            raise
        assert op is not None   # either of them there is
        if code in (native.EBUSY, native.ETIMEDOUT) and not must:
            return None
        raise errors.not_acquired(op, self.name)

    def _take_back(self, hold: Hold | None) -> None:
        """Nobody was told of it, as an interrupt came just behind the grant."""
        if hold is None:
            return
        self._forget(hold)
        if hold in self._entered:
            self._entered.remove(hold)
        native.hold_release_start(hold._native)   # goes on without us

    # ---- giving it back ----

    def release(self) -> None:
        """Gives back what this object holds: the calling thread's newest hold first.

        :raises NotHeldError: it holds nothing
        :raises LostError: the lock was no longer yours
        """
        self._pick()._give_back()

    def _pick(self) -> Hold:
        """Takes the hold to release from the list; no two callers get the same."""
        while True:
            hold = self._newest()
            if hold is None:
                raise errors.NotHeldError(f'release of {self.name!r}, which isn\'t held',
                                          lock_name=self.name)
            if self._forget(hold):
                return hold

    def _newest(self) -> Hold | None:
        """The hold to release, or to signal with: the calling thread's, or else another's."""
        return _newest_of(self._holds, this_thread()) or self._of_others()

    def _of_others(self) -> Hold | None:
        return self._holds[-1] if self._holds else None

    def _forget(self, hold: Hold) -> bool:
        try:
            self._holds.remove(hold)
        except ValueError:
            return False
        return True

    def __enter__(self) -> Hold:
        hold: Hold | None = None
        try:
            hold = self._acquire(native.FOREVER, True)
            assert hold is not None
            self._entered.append(hold)
        except BaseException:
            self._take_back(hold)
            raise
        return hold

    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None,
                 traceback: TracebackType | None) -> None:
        hold = self._leave_one()
        if hold not in self._holds:
            hold = self._retaken(hold._thread) or hold
        hold.__exit__(exc_type, exc, traceback)

    def _leave_one(self) -> Hold:
        """Takes the block that ends out of the list: the calling thread's newest, or else another
        thread's. An object can't know which one's, so one whose hold is lost goes first: nobody's
        work is left without its lock."""
        me = this_thread()
        while True:
            hold = _newest_of(self._entered, me) or self._left_by_others()
            if hold is None:
                raise errors.NotHeldError(f'{self.name!r}: __exit__ without __enter__',
                                          lock_name=self.name)
            try:
                self._entered.remove(hold)
            except ValueError:
                continue   # another thread has left it this moment
            return hold

    def _left_by_others(self) -> Hold | None:
        entered = tuple(reversed(self._entered))
        return min(entered, key=lambda hold: not hold.lost, default=None)

    def _retaken(self, thread: int) -> Hold | None:
        """What this thread took in place of what it gave back inside of a block, as
        threading.Condition does, and whoever calls release() and acquire() there."""
        entered = tuple(self._entered)
        for hold in reversed(tuple(self._holds)):
            if hold._thread == thread and hold not in entered:
                return hold
        return None

    def __call__(self, function: F) -> F:
        """As a decorator: each call of the function runs while the lock is held."""
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError('function: a coroutine needs a lock of dlock.aio')
        if inspect.isgeneratorfunction(function):
            raise TypeError('function: a generator would run after the lock was released')

        @functools.wraps(function)
        def locked(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)
        return cast(F, locked)

    # ---- asking ----

    def owned(self) -> bool:
        """Whether this object holds the lock now. No round trip."""
        return any(native.hold_check(hold._native) == native.OK for hold in tuple(self._holds))

    def locked(self) -> bool:
        """Whether anybody holds the lock, as the service knows it."""
        return bool(self.inspect().get('held'))

    def inspect(self) -> dict[str, Any]:
        """Who holds the lock and who waits, as the service knows it: ``held``, ``kind``,
        ``holders`` (``owner``, ``token``, ``remaining_ms``, ``count``, ``data``, ``client``,
        ``host``, ``pid``, ``since`` in ms since 1970), ``waiters`` (those of this
        client, and of others those in the service's line), ``waiting`` (``owner``, ``client``,
        ``host``, ``pid``, ``since``, ``data`` of those in the line); of a semaphore
        ``permits``, how many there are, and ``permits_free``, how many of them nobody has. What
        is absent is unknown."""
        return finish_info(native.lock_inspect_start(self._native), self.name)

    @property
    def settings(self) -> dict[str, Any]:
        """What it goes by, of what may be said of one lock: its own settings over its client's.

        :raises NotSupportedError: of a multi-lock; ask its members
        """
        return settings_of(native.lock_settings(self._native))

    def wait_idle(self, timeout: Seconds | None = -1) -> bool:
        """Waits until nobody holds the lock, without taking it; returns whether that was so."""
        op = native.lock_wait_idle_start(self._native, wait_ms(True, timeout))
        code = wait(op)
        if code in (native.EBUSY, native.ETIMEDOUT):
            return False
        if code != native.OK:
            raise errors.from_op(op, self.name)
        return True

    def break_(self, owner: str | None = None) -> None:
        """Takes the lock away from its holder. For operators: the victim notices at its next
        renewal, so only the fencing token keeps a resource safe meanwhile.

        :param owner: as :meth:`inspect` showed it; None for whoever holds it
        :raises NotHeldError: nobody holds it, or another than @owner
        """
        if owner is not None:
            check_text('owner', owner)
        finish(native.lock_break_start(self._native, owner), self.name)

    def revoke(self) -> None:
        """Asks the holders to give the lock up: their :meth:`Hold.on_revoke` is called."""
        finish(native.lock_revoke_start(self._native), self.name)

    def __repr__(self) -> str:
        state = 'locked' if self.owned() else 'unlocked'
        return (f'<{state} dlock.{type(self).__name__} object at {id(self):#x} '
                f'name={self.name!r}>')

    def __reduce__(self) -> Any:
        refuse_pickling(self)


class RLock(Lock):
    """A lock in the shape of :class:`threading.RLock`: the thread that has it may take it again,
    without a round trip, and only that thread may release it."""

    _fixed = {'lock.owner': 'thread'}

    def _of_others(self) -> Hold | None:
        return None

    def _left_by_others(self) -> Hold | None:
        return None

    # threading.Condition asks for these.

    def _recursion_count(self) -> int:
        me = this_thread()
        return sum(hold._thread == me for hold in tuple(self._holds))

    def _is_owned(self) -> bool:
        return self._recursion_count() > 0

    def _release_save(self) -> int:
        count = self._recursion_count()
        if count == 0:
            self.release()
        for _ in range(count):
            self.release()
        return count

    def _acquire_restore(self, count: int) -> None:
        for _ in range(count):
            self.acquire()


class ReadLock(Lock):
    """The side of a :class:`RWLock` that its holders share."""

    _kind = native.READ


class WriteLock(Lock):
    """The side of a :class:`RWLock` that keeps out everybody else."""

    _kind = native.WRITE


class RWLock:
    """A read/write lock: ``with lock.read:`` shares, ``with lock.write as held:`` excludes, and
    ``held.downgrade()`` turns the second into the first."""

    def __init__(self, client: Client, name: str, *, raise_on_loss: bool = True,
                 **settings: Unpack[LockSettings]) -> None:
        self.client = client
        self.name = name
        self.read = ReadLock(client, name, raise_on_loss=raise_on_loss, **settings)
        self.write = WriteLock(client, name, raise_on_loss=raise_on_loss, **settings)

    def __repr__(self) -> str:
        return f'<dlock.RWLock read={self.read!r} write={self.write!r}>'

    def __reduce__(self) -> Any:
        refuse_pickling(self)


class Semaphore(Lock):
    """A number of permits, in the shape of :class:`threading.BoundedSemaphore`.

    :param permits: how many there are; None takes the semaphore as it is
    :param take: how many one acquire takes
    """

    _kind = native.SEMAPHORE
    _fixed: Mapping[str, str] = {}

    def __init__(self, client: Client, name: str, permits: int | None = None, *, take: int = 1,
                 raise_on_loss: bool = True, **settings: Unpack[LockSettings]) -> None:
        check_client(client)
        self._begin(client, check_name(name), raise_on_loss)
        self.permits = permits
        self.take = take
        numbers = {'permits': permits, 'take': take}
        check_counts(**numbers)
        self._native = client._core.new_lock(self._kind, self.name, {**settings, **numbers},
                                             self._fixed)


    def release(self, n: int = 1) -> None:
        """Gives back what @n acquires of this object took, the calling thread's newest first; all
        of them, or none when there are fewer.

        :raises OverReleaseError: it holds fewer; a ValueError, and a NotHeldError
        :raises LostError: one was no longer yours; the others are given back all the same
        """
        check_releases(n)
        failed: errors.DlockError | None = None
        for hold in self._pick_many(n):
            try:
                hold._give_back()
            except errors.DlockError as why:
                failed = failed or why
        if failed is not None:
            raise failed

    def _pick_many(self, n: int) -> list[Hold]:
        picked: list[Hold] = []
        try:
            while len(picked) < n:
                picked.append(self._pick())
        except errors.NotHeldError:
            self._holds.extend(reversed(picked))
            raise errors.OverReleaseError(
                f'release of {n} of {self.name!r}, of which {len(picked)} are held',
                lock_name=self.name) from None
        return picked


class MultiLock(Lock):
    """Several locks as one: all or nothing, in an order that can't deadlock. A member's loss is
    the loss of all; ``held.member_token(i)`` is the token of one.

    :param locks: 1 to 64 locks, no name twice; those of several clients will do
    """

    def __init__(self, locks: Sequence[Lock], *, raise_on_loss: bool = True,
                 **settings: Unpack[LockSettings]) -> None:
        members = list(locks)
        for lock in members:
            if not isinstance(lock, Lock) or isinstance(lock, MultiLock):
                raise TypeError(f'locks: plain locks are needed, not {type(lock).__name__}')
        if not members:
            raise errors.ConfigError('locks: at least one is needed')
        self.locks = tuple(members)
        self._begin(members[0].client, '+'.join(lock.name for lock in members), raise_on_loss)
        self._native = native.multi_new([lock._native for lock in members],
                                        make_conf(settings, {}))

    def locked(self) -> bool:
        """Whether anybody holds any of them, as their services know it."""
        return any(lock.locked() for lock in self.locks)


def _newest_of(holds: list[Hold], thread: int) -> Hold | None:
    """The last of them that this thread took."""
    for hold in reversed(tuple(holds)):
        if hold._thread == thread:
            return hold
    return None


def check_client(client: object) -> None:
    """Raises TypeError unless @client is a Client."""
    from .client import Client
    if not isinstance(client, Client):
        raise TypeError(f'client: a dlock.Client is needed, not {type(client).__name__}')

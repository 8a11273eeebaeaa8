"""Locks for coroutines: what is waited for is awaited."""
from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .. import _native as native, errors
from .._core import info_of, refuse_pickling
from .._keywords import LockSettings
from .._settings import (
    Seconds, check_counts, check_name, check_releases, check_text, make_conf, settings_of,
    tells, wait_ms)
from .hold import Hold

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .client import Client

__all__ = ['Lock', 'MultiLock', 'RWLock', 'ReadLock', 'Semaphore', 'WriteLock']

F = TypeVar('F', bound=Callable[..., Awaitable[Any]])


class Lock:
    """A lock between tasks, processes and machines; made by :meth:`Client.lock`.

    Shaped like :class:`asyncio.Lock`: one object may be shared by any number of tasks, each
    ``acquire()`` is an owner of its own, and the object isn't reentrant: who wants to pass the
    lock on to a function passes the :class:`Hold`.

    ::

        async with client.lock('orders/42') as held:
            await ship(42, held.token)

    It can also decorate a coroutine function, which then runs under the lock.
    """

    _kind = native.MUTEX
    _fixed: Mapping[str, str] = {'lock.owner': 'none'}

    @tells(LockSettings)
    def __init__(self, client: Client, name: str, *, raise_on_loss: bool = True,
                 **settings: Unpack[LockSettings]) -> None:
        check_client(client)
        self._begin(client, check_name(name), raise_on_loss)
        self._native = client._core.new_lock(self._kind, name, settings, self._fixed)

    def _begin(self, client: Client, name: str, raise_on_loss: bool) -> None:
        self.client = client
        self.name = name
        self._loop = client._loop
        self._raise_on_loss = raise_on_loss
        # By the task that acquired, so that a task which lost its hold can't release another's.
        self._held: dict[asyncio.Task[Any] | None, list[Hold]] = {}

    async def acquire(self, blocking: bool = True, timeout: Seconds | None = -1) -> bool:
        """Takes the lock; returns whether it is held now.

        :param blocking: False tries once
        :param timeout: seconds to wait; -1 and None wait without limit
        :raises BackendError: the service couldn't be asked within the time-out
        """
        hold = await self._acquire(wait_ms(blocking, timeout), False)
        if hold is None:
            return False
        self._keep(hold)
        return True

    async def hold(self, timeout: Seconds | None = -1) -> Hold:
        """Takes the lock and returns the hold, which is yours to release:
        ``async with await lock.hold(timeout=5) as held:``.

        :param timeout: seconds to wait; 0 tries once, -1 and None wait without limit
        :raises AcquireTimeout: somebody else held it to the end
        """
        return cast(Hold, await self._acquire(wait_ms(True, timeout), True))

    async def _acquire(self, wait: int, must: bool) -> Hold | None:
        op = await self._loop.finish(native.lock_acquire_start(self._native, wait))
        handle = native.op_take_hold(op)
        if handle is not None:
            return Hold(handle, self._loop, self._raise_on_loss)
        if native.op_result(op) in (native.EBUSY, native.ETIMEDOUT) and not must:
            return None
        raise errors.not_acquired(op, self.name)

    async def release(self) -> None:
        """Releases what this task acquired last, or else what another one did.

        :raises dlock.NotHeldError: nothing is held by way of this object
        :raises dlock.LostError: it was lost meanwhile
        """
        await self._drop().release()

    def owned(self) -> bool:
        """Whether something acquired by way of this object is still ours, by the clock."""
        return any(native.hold_check(hold._native) == native.OK
                   for holds in self._held.values() for hold in holds)

    async def locked(self) -> bool:
        """Asks the server whether anybody holds it."""
        return bool((await self.inspect()).get('held'))

    @property
    def settings(self) -> dict[str, Any]:
        """What it goes by, of what may be said of one lock: its own settings over its client's.

        :raises NotSupportedError: of a multi-lock; ask its members
        """
        return settings_of(native.lock_settings(self._native))

    async def inspect(self) -> dict[str, Any]:
        """Who holds the lock and who waits, as the service knows it: ``held``, ``kind``,
        ``holders`` (``owner``, ``token``, ``remaining_ms``, ``count``, ``data``, ``client``,
        ``host``, ``pid``, ``since`` in ms since 1970), ``waiters`` (those of this
        client, and of others those in the service's line), ``waiting`` (``owner``, ``client``,
        ``host``, ``pid``, ``since``, ``data`` of those in the line); of a semaphore
        ``permits``, how many there are, and ``permits_free``, how many of them nobody has. What
        is absent is unknown."""
        op = await self._ask(native.lock_inspect_start(self._native))
        return info_of(native.op_take_info(op))

    async def break_(self, owner: str | None = None) -> None:
        """Takes the lock away from its holder. For operators: the victim may overlap the next.

        :param owner: as :meth:`inspect` showed it; None for whoever holds it
        """
        if owner is not None:
            check_text('owner', owner)
        await self._ask(native.lock_break_start(self._native, owner))

    async def revoke(self) -> None:
        """Asks the holders to give the lock up; see :meth:`Hold.on_revoke`."""
        await self._ask(native.lock_revoke_start(self._native))

    async def wait_idle(self, timeout: Seconds | None = -1) -> bool:
        """Waits until nobody holds the lock, without taking it; returns whether that was so."""
        wait = wait_ms(True, timeout)
        op = await self._loop.finish(native.lock_wait_idle_start(self._native, wait))
        code = native.op_result(op)
        if code in (native.EBUSY, native.ETIMEDOUT):
            return False
        if code != native.OK:
            raise errors.from_op(op, self.name)
        return True

    async def __aenter__(self) -> Hold:
        hold = await self.hold()
        self._keep(hold)
        return hold

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        traceback: TracebackType | None) -> None:
        await self._drop()._leave(error)

    def __call__(self, function: F) -> F:
        if not inspect.iscoroutinefunction(function):
            raise TypeError('function: a lock of dlock.aio decorates coroutine functions')

        @functools.wraps(function)
        async def under_the_lock(*args: Any, **kwargs: Any) -> Any:
            async with self:
                return await function(*args, **kwargs)

        return cast(F, under_the_lock)

    async def _ask(self, op: native.Op) -> native.Op:
        op = await self._loop.finish(op)
        if native.op_result(op) != native.OK:
            raise errors.from_op(op, self.name)
        return op

    def _keep(self, hold: Hold) -> None:
        self._held.setdefault(asyncio.current_task(), []).append(hold)

    def _whose(self) -> asyncio.Task[Any] | None:
        """Whose newest hold is the next to release: this task's, or else another's."""
        held = self._held
        if not held:
            raise errors.make(native.ENOTHELD, f'{self.name!r} isn\'t held by this object',
                              lock_name=self.name)
        task = asyncio.current_task()
        return task if task in held else next(reversed(held))

    def _newest(self) -> Hold:
        """The hold to release, or to signal with."""
        return self._held[self._whose()][-1]

    def _drop(self) -> Hold:
        """Takes it out."""
        task = self._whose()
        hold = self._held[task].pop()
        if not self._held[task]:
            del self._held[task]
        return hold

    def __reduce__(self) -> Any:
        refuse_pickling(self)

    def __repr__(self) -> str:
        state = 'locked' if self.owned() else 'unlocked'
        return (f'<dlock.aio.{type(self).__name__} object at {id(self):#x} name={self.name!r} '
                f'[{state}]>')


class ReadLock(Lock):
    """The side of a :class:`RWLock` that its holders share."""

    _kind = native.READ


class WriteLock(Lock):
    """The side of a :class:`RWLock` that keeps out everybody else."""

    _kind = native.WRITE


class RWLock:
    """A read/write lock: ``async with lock.read:`` shares, ``async with lock.write as held:``
    excludes, and ``held.downgrade()`` turns the second into the first."""

    def __init__(self, client: Client, name: str, *, raise_on_loss: bool = True,
                 **settings: Unpack[LockSettings]) -> None:
        self.client = client
        self.name = name
        self.read = ReadLock(client, name, raise_on_loss=raise_on_loss, **settings)
        self.write = WriteLock(client, name, raise_on_loss=raise_on_loss, **settings)

    def __repr__(self) -> str:
        return f'<dlock.aio.RWLock read={self.read!r} write={self.write!r}>'

    def __reduce__(self) -> Any:
        refuse_pickling(self)


class Semaphore(Lock):
    """A number of permits. Each acquire is a grant of its own, and can't fence.

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
        self._native = client._core.new_lock(self._kind, name, {**settings, **numbers},
                                             self._fixed)


    async def release(self, n: int = 1) -> None:
        """Gives back what *n* acquires of this object took, this task's newest first; all of them,
        or none when there are fewer.

        :raises dlock.OverReleaseError: it holds fewer; a ValueError, and a NotHeldError
        :raises dlock.LostError: one was lost meanwhile; the others are given back all the same
        """
        check_releases(n)
        held = sum(len(holds) for holds in self._held.values())
        if held < n:
            raise errors.OverReleaseError(
                f'release of {n} of {self.name!r}, of which {held} are held', lock_name=self.name)
        holds = [self._drop() for _ in range(n)]
        done = await asyncio.gather(*(hold.release() for hold in holds), return_exceptions=True)
        for failed in done:
            if failed is not None:
                raise failed


class MultiLock(Lock):
    """Several locks as one: all or nothing, in an order that can't deadlock. A member's loss is
    the loss of all; ``held.member_token(i)`` is the token of one.

    :param locks: 1 to 64 locks of this event loop, no name twice; those of several clients will do
    """

    def __init__(self, locks: Sequence[Lock], *, raise_on_loss: bool = True,
                 **settings: Unpack[LockSettings]) -> None:
        members = list(locks)
        for lock in members:
            if not isinstance(lock, Lock) or isinstance(lock, MultiLock):
                raise TypeError(f'locks: locks of dlock.aio are needed, not '
                                f'{type(lock).__name__}')
        if not members:
            raise errors.ConfigError('locks: at least one is needed')
        self.locks = tuple(members)
        self._begin(members[0].client, '+'.join(lock.name for lock in members), raise_on_loss)
        self._native = native.multi_new([lock._native for lock in members],
                                        make_conf(settings, {}))

    async def locked(self) -> bool:
        """Asks the servers whether anybody holds any of them."""
        return any(await asyncio.gather(*(lock.locked() for lock in self.locks)))


def check_client(client: object) -> None:
    """Raises TypeError unless *client* is a Client of dlock.aio."""
    from .client import Client
    if not isinstance(client, Client):
        raise TypeError(f'client: a dlock.aio.Client is needed, not {type(client).__name__}')

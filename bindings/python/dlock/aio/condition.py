"""Conditions for coroutines: the shape of asyncio.Condition, over a lock service."""
from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from .. import _native as native, errors
from .._core import info_of, refuse_pickling
from .._settings import Seconds, check_name, seconds_to_ms
from ..condition import EVERYBODY
from .hold import Hold
from .lock import Lock, MultiLock, ReadLock, Semaphore

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._keywords import ConditionSettings

__all__ = ['Condition']

T = TypeVar('T')


class Condition:
    """A condition beside a lock, in the shape of :class:`asyncio.Condition`; made by
    :meth:`Client.condition`. What asks the service is awaited, :meth:`notify` as well.

    ::

        filled = client.condition(lock)
        async with filled:
            while not queue.items():
                await filled.wait()
            await take(queue)

    Signals come in the order of the line. One of a waiter that dies, or can't have the lock any
    more, goes to the next. A wait may end without a signal, rarely: wait in a loop, or by
    :meth:`wait_for`. A task that is cancelled in :meth:`wait` doesn't hold the lock afterwards.

    :param lock: a :class:`Lock` or the write side of a :class:`RWLock`
    :param name: among the names of locks; None: that of the lock, with ``/condition`` behind it
    :raises NotSupportedError: this service has no conditions
    """

    def __init__(self, lock: Lock, name: str | None = None,
                 **settings: Unpack[ConditionSettings]) -> None:
        if not isinstance(lock, Lock) or isinstance(lock, (MultiLock, ReadLock, Semaphore)):
            raise TypeError('lock: a Lock or WriteLock of dlock.aio is needed, not '
                            f'{type(lock).__name__}')
        self.client = lock.client
        self.lock = lock
        self.name = check_name(f'{lock.name}/condition' if name is None else name)
        self._loop = lock._loop
        self._native = lock.client._core.new_cond(self.name, settings)

    async def acquire(self, blocking: bool = True, timeout: Seconds | None = -1) -> bool:
        """The lock's."""
        return await self.lock.acquire(blocking, timeout)

    async def release(self) -> None:
        """The lock's."""
        await self.lock.release()

    async def wait(self, timeout: Seconds | None = None) -> bool:
        """Gives the lock back, waits for a signal, and takes the lock again; whether there was one
        in time. The lock is held again either way.

        :param timeout: seconds to wait for the signal; taking the lock again isn't bounded
        :raises NotHeldError: the lock isn't held; a RuntimeError
        :raises LostError: the lock was lost, and isn't held
        """
        ms = native.FOREVER if timeout is None else max(seconds_to_ms('timeout', timeout), 0)
        hold = self.lock._drop()
        handle = None
        try:
            op = await self._loop.finish(
                native.cond_wait_start(self._native, hold._native, ms))
            handle = native.op_take_hold(op)
        finally:
            # Where there is none, the end of a block finds the one that was given back.
            self.lock._keep(hold if handle is None else
                            Hold(handle, self._loop, self.lock._raise_on_loss))
        code = native.op_result(op)
        if code not in (native.OK, native.ETIMEDOUT):
            raise errors.from_op(op, self.name)
        return code == native.OK

    async def wait_for(self, predicate: Callable[[], T]) -> T:
        """Waits until *predicate* says something true, and returns that."""
        while not (result := predicate()):
            await self.wait()
        return result

    async def notify(self, n: int = 1) -> int:
        """Signals the first *n* who wait; how many there were.

        :raises NotHeldError: the lock isn't held; a RuntimeError
        :raises LostError: it was lost: nothing is signalled
        """
        held = self.lock._newest()
        if n < 1:
            return 0
        op = await self._loop.finish(
            native.cond_signal_start(self._native, min(n, EVERYBODY), held._native))
        if native.op_result(op) != native.OK:
            raise errors.from_op(op, self.name)
        return int(info_of(native.op_take_info(op))['signalled'])

    async def notify_all(self) -> int:
        """Signals all who wait; how many there were. Raises as :meth:`notify`."""
        return await self.notify(EVERYBODY)

    def locked(self) -> bool:
        """Whether the lock is held by way of its object, by the clock."""
        return self.lock.owned()

    async def __aenter__(self) -> Hold:
        return await self.lock.__aenter__()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        traceback: TracebackType | None) -> None:
        await self.lock.__aexit__(kind, error, traceback)

    def __reduce__(self) -> Any:
        refuse_pickling(self)

    def __repr__(self) -> str:
        return f'<dlock.aio.Condition {self.name!r} of {self.lock!r}>'

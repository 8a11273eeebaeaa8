"""Conditions for threads: the shape of threading.Condition, over a lock service."""
from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from . import _native as native, errors
from ._core import finish_info, refuse_pickling, wait
from ._settings import Seconds, check_name, seconds_to_ms
from .hold import Hold
from .lock import Lock, MultiLock, ReadLock, RLock, Semaphore

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._keywords import ConditionSettings

T = TypeVar('T')
EVERYBODY = 2**63 - 1


class Condition:
    """A condition beside a lock, in the shape of :class:`threading.Condition`: whoever has the lock
    may give it back, wait for word of another holder, of any process, and have it again.

    ::

        filled = client.condition(lock)
        with filled:
            while not queue.items():
                filled.wait()
            take(queue)

    Signals come in the order of the line. One of a waiter that dies, or can't have the lock any
    more, goes to the next. A wait may end without a signal, rarely: wait in a loop, or by
    :meth:`wait_for`.

    :param lock: a :class:`Lock`, :class:`RLock` or the write side of a :class:`RWLock`
    :param name: among the names of locks; None: that of the lock, with ``/condition`` behind it
    :param settings: ``ttl``, how long a signal stays with a waiter that can't be heard of
    :raises NotSupportedError: this service has no conditions
    """

    def __init__(self, lock: Lock, name: str | None = None,
                 **settings: Unpack[ConditionSettings]) -> None:
        check_lock(lock)
        self.client = lock.client
        self.lock = lock
        self.name = check_name(f'{lock.name}/condition' if name is None else name)
        self.acquire = lock.acquire
        self.release = lock.release
        self._native = lock.client._core.new_cond(self.name, settings)

    @property
    def held(self) -> Hold:
        """The calling thread's hold of the lock, a new one after each wait.

        :raises NotHeldError: it has none
        """
        hold = self.lock._newest()
        if hold is None:
            raise errors.NotHeldError(f'{self.lock.name!r} isn\'t held',
                                      lock_name=self.lock.name)
        return hold

    # ---- waiting ----

    def wait(self, timeout: Seconds | None = None) -> bool:
        """Gives the lock back, waits for a signal, and takes the lock again; whether there was one
        in time. The lock is held again either way.

        :param timeout: seconds to wait for the signal; taking the lock again isn't bounded
        :raises NotHeldError: the lock isn't held; a RuntimeError
        :raises LostError: the lock was lost, and isn't held
        """
        ms = native.FOREVER if timeout is None else max(seconds_to_ms('timeout', timeout), 0)
        lock = self.lock
        hold = lock._pick()
        times = self._release_others()
        op = native.cond_wait_start(self._native, hold._native, ms)
        try:
            code = wait(op)
            handle = native.op_take_hold(op)
            if handle is not None:
                lock._holds.append(Hold(handle, self.client, lock._ref, lock._raise_on_loss))
        except BaseException:
            # An interrupt: a lock that was granted goes back as soon as nobody refers to it.
            handle = None
            raise
        if handle is None and native.hold_check(hold._native) == native.OK:
            lock._holds.append(hold)   # it failed before the lock was given back
        if lock.owned():
            for _ in range(times):
                lock.acquire()
        if handle is None:
            raise errors.from_op(op, self.name)
        return code == native.OK

    def _release_others(self) -> int:
        """Of a reentrant lock: the thread's other holds, which are taken again later. How many."""
        if not isinstance(self.lock, RLock):
            return 0
        return self.lock._release_save() if self.lock._is_owned() else 0

    def wait_for(self, predicate: Callable[[], T], timeout: Seconds | None = None) -> T:
        """Waits until @predicate says something true, or to the end of @timeout; what it said."""
        end = None
        if timeout is not None:
            end = time.monotonic() + seconds_to_ms('timeout', timeout) / 1000
        result = predicate()
        while not result:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                break
            self.wait(left)
            result = predicate()
        return result

    # ---- signalling ----

    def notify(self, n: int = 1) -> int:
        """Signals the first @n who wait; how many there were.

        :raises NotHeldError: the lock isn't held; a RuntimeError
        :raises LostError: it was lost: nothing is signalled
        """
        held = self.held
        if n < 1:
            return 0
        info = finish_info(native.cond_signal_start(self._native, min(n, EVERYBODY),
                                                    held._native), self.name)
        return int(info['signalled'])

    def notify_all(self) -> int:
        """Signals all who wait; how many there were. Raises as :meth:`notify`."""
        return self.notify(EVERYBODY)

    # ---- as a context manager: the lock ----

    def __enter__(self) -> Hold:
        return self.lock.__enter__()

    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.lock.__exit__(exc_type, exc, traceback)

    def __repr__(self) -> str:
        return f'<dlock.Condition {self.name!r} of {self.lock!r}>'

    def __reduce__(self) -> Any:
        refuse_pickling(self)


def check_lock(lock: object) -> None:
    """Raises TypeError unless @lock can be given back for a condition."""
    if not isinstance(lock, Lock) or isinstance(lock, (MultiLock, ReadLock, Semaphore)):
        raise TypeError(f'lock: a Lock, RLock or WriteLock is needed, not {type(lock).__name__}')

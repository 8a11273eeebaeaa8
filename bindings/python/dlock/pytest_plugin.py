"""Fixtures of pytest for code that uses dlock: no server, and the faults that locks are for.

The plugin is there when dlock is installed::

    def test_a_lost_lock_stops_the_job(dlock_memory):
        job = Job(dlock_memory.client)
        with dlock_memory.client.lock('job') as held:
            dlock_memory.expire('job')
            assert not job.step(held)

Locks lie in the memory of this process, in a place of this test's own. Nothing in here waits for a
lease to end: a fault is done to the lock at once, and the holder's client is told as it would be.
"""
from __future__ import annotations

import contextlib
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from . import _native as native, errors
from .client import Client
from .hold import Hold
from .lock import Lock

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._keywords import ClientSettings, LockSettings

__all__ = ['Memory', 'dlock_memory']

TOLD_S = 30   # until a callback that hangs isn't waited for any longer
_numbers = itertools.count(1)


class _CutLock(Lock):
    """A lock whose client can be cut off, and whose holds are known to the kit."""

    def _acquire(self, ms: int, must: bool,
                 awaited: Callable[[native.Op], int] | None = None) -> Hold | None:
        client = self.client
        assert isinstance(client, MemoryClient)
        client.check_link()
        hold = super()._acquire(ms, must, awaited)
        if hold is not None:
            client.kit.holds.add(hold)
        return hold


class MemoryClient(Client):
    """A client of memory that :meth:`Memory.partition` can cut off."""

    def __init__(self, kit: Memory, **settings: Unpack[ClientSettings]) -> None:
        self.kit = kit
        self.is_cut = False
        super().__init__(kit.url, **settings)

    def lock(self, name: str, *, raise_on_loss: bool = True,
             **settings: Unpack[LockSettings]) -> Lock:
        """As :meth:`dlock.Client.lock`."""
        return _CutLock(self, name, raise_on_loss=raise_on_loss, **settings)

    def check_link(self) -> None:
        """Raises UnavailableError while the client is cut off."""
        if self.is_cut:
            raise errors.make(native.EUNAVAIL, 'partition(): the service can\'t be reached')


class Memory:
    """Locks in memory, and what can happen to them. The fixture ``dlock_memory`` is one."""

    def __init__(self) -> None:
        self.url = f'mem:pytest-{os.getpid()}-{next(_numbers)}'
        self.holds: weakref.WeakSet[Hold] = weakref.WeakSet()
        self._stack = contextlib.ExitStack()
        self._operator = self._stack.enter_context(Client(self.url))
        self.client = self.new_client()

    def new_client(self, **settings: Any) -> MemoryClient:
        """Another client of the same locks, as another process would have it."""
        client = MemoryClient(self, **settings)
        self._stack.enter_context(client)
        return client

    def expire(self, name: str) -> None:
        """Ends the lease of whoever holds *name*: the next one can have it, the holder knows.

        Its ``held.state`` is ``'lost'``, its ``on_lost`` callbacks have been called, and the end
        of its ``with`` is going to raise LostError.

        :raises dlock.NotHeldError: nobody holds it
        """
        with self.pause_holder(name):
            pass

    @contextlib.contextmanager
    def pause_holder(self, name: str) -> Iterator[None]:
        """Within the block the lease is over and the holder hasn't noticed, as when its process
        stood still: another client can have the lock, and the holder's ``check()`` still passes.
        Only the fencing token tells the two apart. At the end of the block the holder notices.

        :raises dlock.NotHeldError: nobody holds it
        """
        holders = [hold for hold in list(self.holds)
                   if hold.name == name and hold.state in ('held', 'suspect')]
        told = [self._told(hold) for hold in holders]
        self._operator.lock(name).break_()
        try:
            yield
        finally:
            for hold, event in zip(holders, told):
                with contextlib.suppress(errors.LostError, errors.NotHeldError):
                    hold.verify()
                if hold.state == 'lost':
                    event.wait(TOLD_S)

    @staticmethod
    def _told(hold: Hold) -> threading.Event:
        """Set when those callbacks that the hold has now have been called."""
        event = threading.Event()
        hold.on_lost(lambda _hold: event.set())
        return event

    @contextlib.contextmanager
    def partition(self, client: Client | None = None) -> Iterator[None]:
        """Within the block the service can't be reached: an acquire of *client* (of
        :attr:`client`) raises UnavailableError at once. What it holds, it goes on holding until
        the lease is over: for that, :meth:`expire` it."""
        cut = self.client if client is None else client
        if not isinstance(cut, MemoryClient):
            raise TypeError('client: one of dlock_memory is needed')
        cut.is_cut = True
        try:
            yield
        finally:
            cut.is_cut = False

    def close(self) -> None:
        """Closes all its clients."""
        self._stack.close()


@pytest.fixture
def dlock_memory() -> Iterator[Memory]:
    """Locks in memory, and a fault kit: :class:`dlock.pytest_plugin.Memory`."""
    memory = Memory()
    yield memory
    memory.close()

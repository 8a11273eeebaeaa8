"""The operations of one client on one event loop.

Nothing waits in a thread: the client's event descriptor is a reader of the loop, and each
operation that has not finished at once is a future that its DONE event resolves.
"""
from __future__ import annotations

import asyncio
import os
import warnings
import weakref

from .. import _native as native, errors
from .._core import Core, next_tag

__all__ = ['Loop']

# The longest that the loop stands still for one operation, and how seldom at least it may.
MOMENT_MS = 1
MOST_MISSED = 1023


def _drain(reference: weakref.ref[Core]) -> None:
    core = reference()
    if core is not None:
        core.drain()


class Loop:
    """Ties a client to the first loop that awaits something of it.

    The loop reads a duplicate of the descriptor, which is ours to close: the client's own is gone
    when the client is closed, and its number may be somebody else's by then.
    """

    __slots__ = ('_fd', '_loop', '_missed', '_skip', '_under_way', 'core')

    def __init__(self, core: Core) -> None:
        self.core = core
        self._loop: asyncio.AbstractEventLoop | None = None
        self._fd = -1
        self._under_way = 0
        self._missed = self._skip = 0

    def bind(self) -> asyncio.AbstractEventLoop:
        """The running loop, which is the client's from now on."""
        running = asyncio.get_running_loop()
        if self._loop is running:
            return running
        if not self.core.is_ours():
            raise errors.make(native.EFORKED)
        if self._loop is not None and not self._loop.is_closed():
            raise RuntimeError(
                'this dlock.aio.Client belongs to another event loop: open one for each loop')
        self.leave()
        fd = self.core.event_fd()
        if fd < 0:
            raise errors.make(native.ECLOSED)
        self._fd = os.dup(fd)
        running.add_reader(self._fd, _drain, weakref.ref(self.core))
        self._loop = running
        return running

    def leave(self) -> None:
        """Takes the descriptor out of its loop."""
        fd, self._fd = self._fd, -1
        loop, self._loop = self._loop, None
        if fd < 0:
            return
        # In a fork's child the loop's selector is the parent's: to touch it would end its reading.
        if loop is not None and not loop.is_closed() and self.core.is_ours():
            loop.remove_reader(fd)
        os.close(fd)

    async def finish(self, op: native.Op) -> native.Op:
        """Waits for *op* and returns it, finished.

        A wait that is cancelled, or ends with its loop, drops the operation: the request is
        withdrawn, and what it was granted meanwhile is given back.
        """
        loop = self._loop
        if loop is None or loop is not asyncio.get_running_loop():
            loop = self.bind()
        if native.op_result(op) != native.EPENDING:
            return op
        self._under_way += 1
        tag = 0
        try:
            if self._under_way == 1 and self._drives():
                # Others that are ready start theirs first, so that these leave together.
                await asyncio.sleep(0)
                if self._under_way == 1 and self._drive(op):
                    return op
            tag = next_tag()
            if native.op_notify(op, tag) != native.EPENDING:
                return op
            future = loop.create_future()

            def done(_what: int, _code: int, _token: int, _text: str) -> None:
                if not future.done():
                    future.set_result(None)

            self.core.handlers[tag] = done
            await future
        except BaseException:
            self.core.handlers.pop(tag, None)
            # The traceback keeps this frame for as long as somebody keeps the exception.
            native.op_cancel(op)
            del op
            raise
        finally:
            self._under_way -= 1
        return op

    def _drives(self) -> bool:
        """Whether to wait a moment for an answer instead of asking the selector for it.

        Where only one operation is under way and the server is near, that saves the hops from the
        engine's thread to the loop's. Where the answers don't come in that moment, it is tried
        ever more seldom.
        """
        if self._skip:
            self._skip -= 1
            return False
        return True

    def _drive(self, op: native.Op) -> bool:
        if native.op_wait(op, MOMENT_MS) != native.EPENDING:
            self._missed = 0
            return True
        self._missed = min(2 * self._missed + 1, MOST_MISSED)
        self._skip = self._missed
        return False

    def __del__(self) -> None:
        if self._fd < 0:
            return
        fd, loop = self._fd, self._loop
        warnings.warn('a dlock.aio.Client was not closed', ResourceWarning, source=self,
                      stacklevel=2)
        if loop is None or loop.is_closed() or not self.core.is_ours():
            os.close(fd)
            return

        def remove() -> None:
            loop.remove_reader(fd)
            os.close(fd)

        try:
            loop.call_soon_threadsafe(remove)
        except RuntimeError:  # it was closed this very moment
            os.close(fd)

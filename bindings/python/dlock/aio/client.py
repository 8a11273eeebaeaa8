"""A lock service, as a coroutine sees it."""
from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .. import _native as native, errors
from .._core import Core, info_of, logger, refuse_pickling
from .._keywords import ClientSettings, LockSettings
from .._settings import check_text, tells
from ._loop import Loop
from .condition import Condition
from .election import Election
from .hold import Hold
from .lock import Lock, MultiLock, RWLock, Semaphore

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._keywords import ConditionSettings

__all__ = ['Client']


class Client:
    """One lock service, its connections, and its place in one event loop.

    Making it does no I/O. ``async with Client(url) as client`` connects and closes; without that,
    :meth:`connect` connects, or else the first request does. A client belongs to the first loop
    that awaits something of it, until that loop is closed.

    :param url: as for :class:`dlock.Client`
    :param settings: as keyword arguments: ``ttl=30``, ``redis_layout='string'``, …
    """

    @tells(ClientSettings, LockSettings)
    def __init__(self, url: str, **settings: Unpack[ClientSettings]) -> None:
        self._core = Core(url, settings)
        self._loop = Loop(self._core)

    @property
    def url(self) -> str:
        """Where it is connected, without the password."""
        return self._core.url

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._core.closed

    @property
    def settings(self) -> dict[str, Any]:
        """What it goes by, by key as on the page of settings: ``client.settings["lock.ttl_ms"]``.
        Made of the defaults, the URL over them, and what it was given over both. A secret is
        ``"***"``."""
        return self._core.settings()

    async def connect(self) -> None:
        """Connects, authenticates, and checks what was required; without effect when connected."""
        await self._ask(native.client_connect_start(self._core.native))

    async def close(self) -> None:
        """Ends every wait with ``ClosedError``, releases every hold, and stops.

        Closing twice is fine.

        :raises dlock.UnknownOutcomeError: a release wasn't confirmed within ``close`` seconds
        """
        if self._core.closed:
            return
        if self._core.is_ours():
            self._loop.bind()   # first: a closed client has no descriptor to hear its end by
        try:
            await self._ask(self._core.start_close())
        finally:
            while not self._core.drain():   # the waits that this has ended
                pass
            self._loop.leave()

    def lock(self, name: str, *, raise_on_loss: bool = True,
             **settings: Unpack[LockSettings]) -> Lock:
        """A mutex; nothing is sent before it is acquired."""
        return Lock(self, name, raise_on_loss=raise_on_loss, **settings)

    def rwlock(self, name: str, *, raise_on_loss: bool = True,
               **settings: Unpack[LockSettings]) -> RWLock:
        """A read/write lock."""
        return RWLock(self, name, raise_on_loss=raise_on_loss, **settings)

    def semaphore(self, name: str, permits: int | None = None, *, take: int = 1,
                  raise_on_loss: bool = True, **settings: Unpack[LockSettings]) -> Semaphore:
        """A semaphore of so many *permits*; None takes it as it is."""
        return Semaphore(self, name, permits, take=take, raise_on_loss=raise_on_loss, **settings)

    def condition(self, lock: Lock, name: str | None = None,
                  **settings: Unpack[ConditionSettings]) -> Condition:
        """A :class:`Condition` beside a lock of this client."""
        if isinstance(lock, Lock) and lock.client is not self:
            raise ValueError('lock: it is another client\'s')
        return Condition(lock, name, **settings)

    def election(self, name: str, *, raise_on_loss: bool = True,
                 **settings: Unpack[LockSettings]) -> Election:
        """An :class:`Election`; the setting ``data`` is published while leading."""
        return Election(self, name, raise_on_loss=raise_on_loss, **settings)

    def multi(self, locks: Sequence[Lock | str], *, raise_on_loss: bool = True,
              **settings: Unpack[LockSettings]) -> MultiLock:
        """A :class:`MultiLock` of locks, or of names of locks of this client."""
        if isinstance(locks, str):
            raise TypeError('locks: a sequence is needed, not str')
        members = [self.lock(each, **settings) if isinstance(each, str) else each
                   for each in locks]
        return MultiLock(members, raise_on_loss=raise_on_loss, **settings)

    async def import_hold(self, ticket: str, *, raise_on_loss: bool = True) -> Hold:
        """Takes over what :meth:`Hold.export` gave away, under a new and larger token.

        :raises NotHeldError: the ticket was used, has lapsed, or nobody gave it out
        """
        op = await self._ask(native.client_import_start(self._core.native,
                                                        check_text('ticket', ticket)))
        handle = native.op_take_hold(op)
        assert handle is not None
        return Hold(handle, self._loop, raise_on_loss)

    async def list(self, prefix: str = '', limit: int = 1000) -> dict[str, Any]:
        """The locks whose names begin with *prefix*, at most *limit*, as the service knows
        them."""
        if isinstance(limit, bool) or not isinstance(limit, int):
            raise TypeError(f'limit: an int is needed, not {type(limit).__name__}')
        op = await self._ask(native.client_list_start(self._core.native,
                                                      check_text('prefix', prefix), limit))
        return info_of(native.op_take_info(op))

    async def doctor(self) -> dict[str, Any]:
        """Looks at the server as an operator would: ``verdict`` and ``findings``."""
        op = await self._ask(native.client_doctor_start(self._core.native))
        return info_of(native.op_take_info(op))

    def stats(self) -> dict[str, Any]:
        """What the client has counted since it was made; no I/O."""
        return info_of(native.client_stats(self._core.native))

    def metrics(self) -> str:
        """What it counts and does now, for Prometheus: OpenMetrics text; no I/O."""
        return native.client_metrics(self._core.native)

    def features(self) -> dict[str, Any]:
        """What this backend, as configured, can do; no I/O."""
        return info_of(native.client_features(self._core.native))

    async def _ask(self, op: native.Op) -> native.Op:
        op = await self._loop.finish(op)
        if native.op_result(op) != native.OK:
            raise errors.from_op(op)
        return op

    async def __aenter__(self) -> Client:
        if self._core.wants_connect:
            try:
                await self.connect()
            except BaseException:
                await self._close_at_the_end()
                raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        traceback: TracebackType | None) -> None:
        await self._close_at_the_end()

    async def _close_at_the_end(self) -> None:
        """Of a block: what closing failed with never stands in the place of what ended the block,
        nor does it turn a block that is done into one that has failed."""
        try:
            await self.close()
        except errors.DlockError as error:
            logger.warning('at the end of %r: %s', self, error)

    def __reduce__(self) -> Any:
        refuse_pickling(self)

    def __repr__(self) -> str:
        return f'<dlock.aio.Client {self.url!r}{" closed" if self.closed else ""}>'

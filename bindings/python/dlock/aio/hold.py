"""A grant as a coroutine sees it."""
from __future__ import annotations

import asyncio
import inspect
import warnings
import weakref
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Generic, Literal, TypeVar, Union

from .. import _native as native, errors
from .._core import Handler, logger, next_tag, refuse_pickling
from .._settings import Seconds, check_steps, seconds_to_ms
from ._loop import Loop

__all__ = ['Guard', 'Hold']

T = TypeVar('T')
MaybeAwaitable = Union[T, Awaitable[T]]

State = Literal['held', 'suspect', 'lost', 'released']
_STATES: dict[int, State] = {native.HELD: 'held', native.SUSPECT: 'suspect',
                             native.LOST: 'lost', native.RELEASED: 'released'}


def _heard_by(hold: Hold) -> Handler:
    """A handler that doesn't keep the hold: one that nobody has any more has to be released."""
    reference = weakref.ref(hold)

    def heard(what: int, _code: int, _token: int, _text: str) -> None:
        listening = reference()
        if listening is not None:
            listening._heard(what)

    return heard


async def _outcome(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


class Guard(Generic[T]):
    """An operation that takes effect only while the lock is held; :meth:`Hold.guard` runs it.

    The steps are plain functions or coroutine functions. Only ``run`` and ``commit`` are needed.

    :param run: does the work where it can still be undone
    :param commit: makes it final; is given the token, and raises LostError when the resource
        refuses it
    :param prepare: records the state before
    :param undo: restores the state before
    :param lost: is called when the lock was lost on the way
    """

    __slots__ = ('commit', 'lost', 'prepare', 'run', 'undo')

    def __init__(self, *, run: Callable[[], MaybeAwaitable[Any]],
                 commit: Callable[[int], MaybeAwaitable[T]],
                 prepare: Callable[[], MaybeAwaitable[Any]] | None = None,
                 undo: Callable[[], MaybeAwaitable[Any]] | None = None,
                 lost: Callable[[], MaybeAwaitable[Any]] | None = None) -> None:
        check_steps(run=run, commit=commit, prepare=prepare, undo=undo, lost=lost)
        self.run = run
        self.commit = commit
        self.prepare = prepare
        self.undo = undo
        self.lost = lost

    async def run_under(self, hold: Hold) -> T:
        """Check, prepare, run, check, commit; returns what commit returned."""
        try:
            hold.check()
            await _outcome(self.prepare and self.prepare())
        except errors.LostError:
            await _outcome(self.lost and self.lost())
            raise
        try:
            await _outcome(self.run())
            hold.check()
            done: T = await _outcome(self.commit(hold.token))
        except BaseException as error:
            try:
                await _outcome(self.undo and self.undo())
            finally:
                if isinstance(error, errors.LostError):
                    await _outcome(self.lost and self.lost())
            raise
        return done


class Hold:
    """A grant: its token, how long it is certain, and what becomes of it.

    Made by :meth:`Lock.hold`, by ``async with lock`` and by :meth:`Client.import_hold`. As a
    context manager it is released at the end. Everything that isn't a coroutine asks this
    machine's clock only, and never waits.
    """

    __slots__ = ('_native', '_loop', '_tag', '_callbacks', '_raise_on_loss', '__weakref__')

    def __init__(self, handle: native.Hold, loop: Loop,
                 raise_on_loss: bool = True) -> None:
        self._native = handle
        self._loop = loop
        self._tag = 0
        self._callbacks: dict[int, list[Callable[[Hold], object]]] = {}
        self._raise_on_loss = raise_on_loss

    # ---- what the clock knows ----

    @property
    def token(self) -> int:
        """The fencing token: later grants have larger ones. 0 when this grant can't fence."""
        return native.hold_token(self._native)

    def member_token(self, index: int) -> int:
        """The token of one member of a multi-lock, in the order given to :meth:`Client.multi`."""
        return native.hold_member_token(self._native, index)

    @property
    def remaining(self) -> float:
        """Seconds for which the lock is certainly yours if no renewal succeeds any more."""
        return native.hold_remaining_ms(self._native) / 1000

    @property
    def ttl(self) -> float:
        """The lease in seconds, as the service has granted it: less than was asked for where it
        gives less, as a ZooKeeper with a shorter maxSessionTimeout does."""
        return native.hold_ttl_ms(self._native) / 1000

    @property
    def state(self) -> State:
        """``'held'``, ``'suspect'``, ``'lost'`` or ``'released'``."""
        return _STATES.get(native.hold_state(self._native), 'lost')

    @property
    def lost(self) -> bool:
        """Whether the lock was lost: not yours any more, without your doing."""
        return native.hold_check(self._native) == native.ELOST or self.state == 'lost'

    @property
    def owner(self) -> str:
        """The id under which the server knows this grant."""
        return native.hold_owner(self._native)

    @property
    def name(self) -> str:
        """The lock's name, without the client's prefix."""
        return native.hold_name(self._native)

    def check(self) -> None:
        """Raises :class:`dlock.LostError` or :class:`dlock.NotHeldError` unless it is yours."""
        self._expect(native.hold_check(self._native))

    def feed(self) -> None:
        """Says that the work moves: with ``renew='fed'`` a lease is only renewed after this."""
        self._expect(native.hold_feed(self._native))

    def downgrade(self) -> None:
        """Turns a write hold into a read hold; no other writer comes in between."""
        native.hold_downgrade(self._native)

    def export(self) -> str:
        """Gives the grant away: the ticket is a secret for :meth:`Client.import_hold`."""
        ticket = native.hold_export(self._native)
        self._forget()
        return ticket

    # ---- what the server is asked ----

    async def release(self) -> None:
        """Gives the lock back. Raises what came of it; it isn't yours afterwards in any case.

        A task that is cancelled meanwhile stops waiting; the release goes on behind it.
        """
        await self._ask(native.hold_release_start(self._native))
        self._forget()

    async def verify(self) -> None:
        """Asks the server whether it still has this grant as ours; renews nothing."""
        await self._ask(native.hold_verify_start(self._native))

    async def extend(self, ttl: Seconds) -> None:
        """Makes the lease *ttl* seconds long from now on, up to ``max_hold``; never shorter than
        what remains."""
        ms = seconds_to_ms('ttl', ttl)
        await self._ask(native.hold_extend_start(self._native, ms))

    # ---- what is heard of it ----

    def on_lost(self, callback: Callable[[Hold], object]) -> None:
        """Has the loop call ``callback(hold)`` when the lock is lost; at once if it is already."""
        self._listen(native.EVENT_LOST, callback)

    def on_suspect(self, callback: Callable[[Hold], object]) -> None:
        """Has the loop call ``callback(hold)`` when the lease wasn't renewed for half its time."""
        self._listen(native.EVENT_SUSPECT, callback)

    def on_revoke(self, callback: Callable[[Hold], object]) -> None:
        """Has the loop call ``callback(hold)`` when somebody asks for the lock."""
        self._listen(native.EVENT_REVOKE, callback)

    async def wait_lost(self) -> None:
        """Waits until the lock is lost; raises :class:`dlock.NotHeldError` once released."""
        if self.state == 'released':
            self.check()
        future = asyncio.get_running_loop().create_future()

        def lost(_hold: Hold) -> None:
            if not future.done():
                future.set_result(None)

        self.on_lost(lost)
        await future

    async def guard(self, guard: Guard[T]) -> T:
        """Runs an operation so that it takes effect only while the lock is held; returns what its
        commit returned. What a step raises passes through, after ``undo`` where there is something
        to undo. Never releases the hold."""
        return await guard.run_under(self)

    # ---- within ----

    def _expect(self, code: int) -> None:
        if code != native.OK:
            raise errors.make(code, lock_name=self.name)

    async def _ask(self, op: native.Op) -> None:
        op = await self._loop.finish(op)
        if native.op_result(op) != native.OK:
            raise errors.from_op(op, self.name)

    def _listen(self, what: int, callback: Callable[[Hold], object]) -> None:
        if not callable(callback):
            raise TypeError(f'callback must be callable, not {type(callback).__name__}')
        loop = self._loop.bind()
        code = native.OK
        if not self._tag:
            self._tag = next_tag()
            self._loop.core.handlers[self._tag] = _heard_by(self)
            code = native.hold_notify(self._native, self._tag)
        if code == native.OK:
            code = native.hold_check(self._native)
        if code == native.OK:
            self._callbacks.setdefault(what, []).append(callback)
            return
        self._forget()
        if code != native.ELOST:
            self._expect(code)
        if what == native.EVENT_LOST:
            loop.call_soon(callback, self)

    def _heard(self, what: int) -> None:
        for callback in self._callbacks.get(what, ()):
            try:
                callback(self)
            except Exception:
                logger.exception('a callback of the lock %r failed', self.name)
        if what == native.EVENT_LOST:
            self._forget()

    def _forget(self) -> None:
        """Lets go of the callbacks: nothing more is heard."""
        if self._tag:
            self._loop.core.handlers.pop(self._tag, None)
        self._callbacks.clear()

    async def __aenter__(self) -> Hold:
        return self

    async def __aexit__(self, kind: type[BaseException] | None,
                        error: BaseException | None,
                        traceback: TracebackType | None) -> None:
        await self._leave(error)

    async def _leave(self, error: BaseException | None) -> None:
        """Releases it, if that wasn't done inside; never raises in the place of *error*. A release
        that wasn't answered is logged: the library repeats it, and the work was done while the
        lock was held."""
        try:
            await self.release()
        except errors.NotHeldError:
            pass
        except errors.DlockError as why:
            if error is None and isinstance(why, errors.LostError) and self._raise_on_loss:
                raise
            if not isinstance(why, errors.ClosedError):
                logger.warning('at the end of %r: %s', self, why)

    def __del__(self, _state: Callable[[native.Hold], int] = native.hold_state,
                _alive: tuple[int, ...] = (native.HELD, native.SUSPECT)) -> None:
        handle = getattr(self, '_native', None)
        if handle is None:
            return
        if self._tag:
            self._forget()
        if _state(handle) in _alive:
            warnings.warn(f'{self!r} was never released', ResourceWarning, source=self,
                          stacklevel=2)

    def __reduce__(self) -> Any:
        refuse_pickling(self)

    def __repr__(self) -> str:
        return (f'<dlock.aio.Hold of {self.name!r} {self.state} token={self.token} '
                f'remaining={self.remaining}>')

"""A hold: what an acquire gives, and what says whether the lock is still yours."""
from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from . import _native as native, errors
from ._core import finish, logger, next_tag, patience, refuse_pickling, this_thread, wait
from ._settings import Seconds, seconds_to_ms

if TYPE_CHECKING:
    from .client import Client
    from .guard import Guard
    from .lock import Lock

T = TypeVar('T')
State = Literal['held', 'suspect', 'lost', 'released']
_STATES: dict[int, State] = {native.HELD: 'held', native.SUSPECT: 'suspect',
                             native.LOST: 'lost', native.RELEASED: 'released'}


class Hold:
    """A reference to a grant of a lock. ``with lock as held`` gives one, and so do
    :meth:`Lock.hold() <dlock.Lock.hold>` and :meth:`Client.import_hold()
    <dlock.Client.import_hold>`.

    What it says of itself costs no round trip: it is decided by this machine's clock, without
    trusting any message. Nobody else can get the lock while :attr:`remaining` is above 0, as
    long as the server keeps its state; write with :attr:`token` where the resource can compare.

    Methods may be called from any thread. As a context manager it is released at the end.
    """

    __slots__ = ('__weakref__', '_callbacks', '_client', '_lock', '_native', '_raise_on_loss',
                 '_tag', '_thread')

    def __init__(self, handle: native.Hold, client: Client, lock: weakref.ref[Lock] | None = None,
                 raise_on_loss: bool = True) -> None:
        self._client = client
        self._lock = lock
        self._raise_on_loss = raise_on_loss
        self._thread = this_thread()
        self._tag = 0
        self._callbacks: list[tuple[int, Callable[[Hold], object]]] = []
        self._native = handle   # the last: what is interrupted before is nobody's hold yet

    # ---- what it knows ----

    @property
    def token(self) -> int:
        """The fencing token: later grants of this name have larger ones; 0 can't fence."""
        return native.hold_token(self._native)

    @property
    def remaining(self) -> float:
        """Seconds for which the lock is yours for certain if no renewal succeeds any more."""
        return native.hold_remaining_ms(self._native) / 1000

    @property
    def ttl(self) -> float:
        """The lease in seconds, as the service has granted it: less than was asked for where it
        gives less, as a ZooKeeper with a shorter maxSessionTimeout does."""
        return native.hold_ttl_ms(self._native) / 1000

    @property
    def state(self) -> State:
        """``held``; ``suspect``: not renewed for half the lease; ``lost``; ``released``."""
        return _STATES.get(native.hold_state(self._native), 'lost')

    @property
    def lost(self) -> bool:
        """Whether the lock is no longer yours, without your doing."""
        return native.hold_check(self._native) == native.ELOST or self.state == 'lost'

    @property
    def owner(self) -> str:
        """The id under which the server knows this grant."""
        return native.hold_owner(self._native)

    @property
    def name(self) -> str:
        """The name of the lock; of a multi-lock all names, with ``+`` between them."""
        return native.hold_name(self._native)

    def member_token(self, index: int) -> int:
        """The token of one member of a multi-lock, in the order they were given."""
        if isinstance(index, bool) or not isinstance(index, int):
            raise TypeError(f'index: an int is needed, not {type(index).__name__}')
        return native.hold_member_token(self._native, index) if index >= 0 else 0

    def __repr__(self) -> str:
        return (f'<dlock.Hold of {self.name!r} {self.state} token={self.token} '
                f'remaining={self.remaining}>')

    # ---- what it does ----

    def check(self) -> None:
        """Raises LostError or NotHeldError unless the lock is still yours. No round trip: call it
        often."""
        self._raise_unless_ok(native.hold_check(self._native))

    def feed(self) -> None:
        """Says that the work still moves: with ``renew="fed"`` a lease is only renewed after
        this. Raises as :meth:`check`."""
        self._raise_unless_ok(native.hold_feed(self._native))

    def release(self) -> None:
        """Gives the lock back. Whatever comes of it, the lock isn't yours afterwards.

        :raises LostError: it was no longer yours
        :raises NotHeldError: it was released before
        :raises UnknownOutcomeError: unanswered; it is repeated in the background
        :raises UnavailableError: not sent yet; likewise
        """
        lock = self._lock and self._lock()
        if lock:
            lock._forget(self)
        self._give_back()

    def _give_back(self) -> None:
        """Releases what its lock has forgotten."""
        op = native.hold_release(self._native, patience())
        code = native.OK if op is None else wait(op)
        if self._tag:
            self._disarm()
        if op is not None and code != native.OK:
            raise errors.from_op(op, self.name)

    def verify(self) -> None:
        """Asks the server whether the lock is still yours, and renews nothing. For what the clock
        can't know: a wiped server, an operator's break."""
        finish(native.hold_verify_start(self._native), self.name)

    def extend(self, ttl: Seconds) -> None:
        """Makes the lease @ttl seconds long from now on, up to ``max_hold``; never shorter than
        what remains."""
        ms = seconds_to_ms('ttl', ttl)
        finish(native.hold_extend_start(self._native, ms), self.name)

    def downgrade(self) -> None:
        """Turns this write hold into a read hold, and lets no other writer in between."""
        native.hold_downgrade(self._native)

    def export(self) -> str:
        """Gives the lock away: this hold is released, and whoever imports the ticket has the lock
        (:meth:`Client.import_hold() <dlock.Client.import_hold>`). The ticket is a secret. One
        that nobody imports lapses with the lease."""
        ticket = native.hold_export(self._native)
        lock = self._lock and self._lock()
        if lock:
            lock._forget(self)
        if self._tag:
            self._disarm()
        return ticket

    def guard(self, guard: Guard[T]) -> T:
        """Runs an operation so that it takes effect only while the lock is held; returns what its
        commit returned. See :class:`dlock.Guard`."""
        return guard.run_under(self)

    # ---- what it tells ----

    def on_lost(self, callback: Callable[[Hold], object]) -> None:
        """Calls @callback with this hold when the lock is lost; at once if it is already.

        Callbacks run one after the other on the client's thread ``dlock-events``: be quick, and
        let go of the lock's resource rather than of the lock. Events inform: whether the lock is
        still yours, :meth:`check` says."""
        self._on(native.EVENT_LOST, callback)

    def on_suspect(self, callback: Callable[[Hold], object]) -> None:
        """Calls @callback with this hold when it hasn't been renewed for half its lease."""
        self._on(native.EVENT_SUSPECT, callback)

    def on_revoke(self, callback: Callable[[Hold], object]) -> None:
        """Calls @callback with this hold when somebody asks for the lock (``Lock.revoke``)."""
        self._on(native.EVENT_REVOKE, callback)

    def _on(self, what: int, callback: Callable[[Hold], object]) -> None:
        if not callable(callback):
            raise TypeError(f'callback: {callback!r} can\'t be called')
        self._callbacks.append((what, callback))
        if self._tag:
            lost = native.hold_check(self._native) == native.ELOST
        else:
            lost = self._arm() == native.ELOST
        # Either this thread or the one of the events gets to call it: whoever removes it.
        if lost and what == native.EVENT_LOST and self._take(callback):
            callback(self)

    def _take(self, callback: Callable[[Hold], object]) -> bool:
        try:
            self._callbacks.remove((native.EVENT_LOST, callback))
        except ValueError:
            return False
        return True

    def _arm(self) -> int:
        tag = next_tag()
        me = weakref.ref(self)

        def handle(what: int, _code: int, _token: int, _text: str) -> None:
            hold = me()
            if hold is not None:
                hold._tell(what)

        self._tag = tag
        self._client._listen()
        self._client._core.handlers[tag] = handle
        code = native.hold_notify(self._native, tag)
        if code != native.OK:
            self._disarm()
        return code

    def _disarm(self) -> None:
        self._client._core.handlers.pop(self._tag, None)

    def _tell(self, what: int) -> None:
        if what == native.EVENT_LOST:
            self._disarm()
        for entry in tuple(self._callbacks):
            if entry[0] != what or (what == native.EVENT_LOST and not self._take(entry[1])):
                continue
            try:
                entry[1](self)
            except Exception:
                logger.exception('a callback of %r has failed', self)

    # ---- its end ----

    def __enter__(self) -> Hold:
        return self

    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None,
                 traceback: TracebackType | None) -> None:
        """Releases it, if that wasn't done inside. After a loss LostError is raised, but never
        over an exception of the body. A release that wasn't answered is logged: the library
        repeats it, and the work was done while the lock was held."""
        try:
            self.release()
        except errors.NotHeldError:
            pass   # released, exported or handed on inside
        except errors.DlockError as error:
            loud = isinstance(error, errors.LostError) and self._raise_on_loss
            if loud and exc_type is None:
                raise
            if not isinstance(error, errors.ClosedError):
                logger.warning('at the end of %r: %s', self, error)

    def _raise_unless_ok(self, code: int) -> None:
        if code != native.OK:
            raise errors.make(code, lock_name=self.name)

    def __reduce__(self) -> Any:
        refuse_pickling(self)

    def __del__(self, _state: Callable[[native.Hold], int] = native.hold_state,
                _alive: tuple[int, ...] = (native.HELD, native.SUSPECT)) -> None:
        handle = getattr(self, '_native', None)
        if handle is None:
            return
        if self._tag:
            self._disarm()
        if _state(handle) in _alive:
            warnings.warn(f'{self!r} was never released', ResourceWarning, source=self,
                          stacklevel=2)

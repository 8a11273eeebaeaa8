"""A client: one lock service, and what makes locks on it."""
from __future__ import annotations

import select
import threading
import warnings
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _native as native, errors
from ._core import Core, finish, finish_info, info_of, logger, refuse_pickling, wait
from ._keywords import ClientSettings, LockSettings
from ._settings import check_text, tells
from .condition import Condition
from .election import Election
from .hold import Hold
from .lock import Lock, MultiLock, RLock, RWLock, Semaphore

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._keywords import ConditionSettings


class Client:
    """A connection to a lock service.

    ::

        with dlock.Client("redis://127.0.0.1", ttl=30) as client:
            with client.lock("orders/42") as held:
                ship(42, held.token)

    :param url: ``mem:``, ``file:///run/lock/app``, ``redis://[user:password@]host[:port][/db]``,
        ``postgres://``, ``zookeeper://``, ``etcd://``, ``memcached://`` and their variants: all
        that this build has are in ``dlock.backends()``
    :param settings: such as ``ttl=30``, ``prefix="app/"``, ``redis_layout="string"``,
        ``require="fencing"``; settings of locks are the defaults of this client's locks
    :raises BackendError: it can't be reached
    :raises ConfigError: the URL or a setting is wrong

    Objects may be shared between threads. They belong to the process that made them: in a fork's
    child they raise ForkedError, open a client there. Close it at the end; what is still open
    when the interpreter ends is closed then.
    """

    @tells(ClientSettings, LockSettings)
    def __init__(self, url: str, **settings: Unpack[ClientSettings]) -> None:
        self._listener: threading.Thread | None = None
        self._core = Core(url, settings)
        if self._core.wants_connect:
            try:
                self.connect()
            except BaseException:
                self._core.start_close()
                raise
        if settings.get('log_level') != 'off':
            self._listen()

    def connect(self) -> None:
        """Connects, if ``lazy=True`` left that for later; without effect when connected."""
        finish(native.client_connect_start(self._core.native))

    def close(self) -> None:
        """Ends every wait with ClosedError and releases every hold. Closing twice is fine.

        :raises UnknownOutcomeError: a release wasn't confirmed in time; it ends with its lease
        """
        finish(self._core.start_close())

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._core.closed

    @property
    def url(self) -> str:
        """Where it is connected, without the password."""
        return self._core.url

    @property
    def settings(self) -> dict[str, Any]:
        """What it goes by, by key as on the page of settings: ``client.settings["lock.ttl_ms"]``.
        Made of the defaults, the URL over them, and what it was given over both. A secret is
        ``"***"``."""
        return self._core.settings()

    # ---- locks ----

    def lock(self, name: str, *, raise_on_loss: bool = True,
             **settings: Unpack[LockSettings]) -> Lock:
        """A :class:`Lock`. Nothing is sent before it is acquired."""
        return Lock(self, name, raise_on_loss=raise_on_loss, **settings)

    def rlock(self, name: str, *, raise_on_loss: bool = True,
              **settings: Unpack[LockSettings]) -> RLock:
        """An :class:`RLock`, which a thread may take again."""
        return RLock(self, name, raise_on_loss=raise_on_loss, **settings)

    def rwlock(self, name: str, *, raise_on_loss: bool = True,
               **settings: Unpack[LockSettings]) -> RWLock:
        """An :class:`RWLock`, shared by readers."""
        return RWLock(self, name, raise_on_loss=raise_on_loss, **settings)

    def semaphore(self, name: str, permits: int | None = None, *, take: int = 1,
                  raise_on_loss: bool = True, **settings: Unpack[LockSettings]) -> Semaphore:
        """A :class:`Semaphore` of so many permits."""
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

    def import_hold(self, ticket: str) -> Hold:
        """Takes over what :meth:`Hold.export` gave away, under a new and larger token.

        :raises NotHeldError: the ticket was used, has lapsed, or nobody gave it out
        """
        op = native.client_import_start(self._core.native, check_text('ticket', ticket))
        finish(op)
        handle = native.op_take_hold(op)
        assert handle is not None
        return Hold(handle, self)

    # ---- asking ----

    def list(self, prefix: str = '', limit: int = 1000) -> dict[str, Any]:
        """The locks whose names begin with @prefix, at most @limit, as the service knows them."""
        if isinstance(limit, bool) or not isinstance(limit, int):
            raise TypeError(f'limit: an int is needed, not {type(limit).__name__}')
        return finish_info(native.client_list_start(
            self._core.native, check_text('prefix', prefix), limit))

    def doctor(self) -> dict[str, Any]:
        """What an operator would look at: ``verdict`` 0 fine, 1 warning, 2 unsafe, and
        ``findings`` (``id``, ``severity``, ``text``)."""
        return finish_info(native.client_doctor_start(self._core.native))

    def stats(self) -> dict[str, Any]:
        """What it has counted: grants, waits, renewals, losses, commands, bytes, histograms."""
        return info_of(native.client_stats(self._core.native))

    def metrics(self) -> str:
        """What it counts and does now, for Prometheus: OpenMetrics text; no I/O."""
        return native.client_metrics(self._core.native)

    def features(self) -> dict[str, Any]:
        """What this service, as configured, can do: kinds, tokens, fairness, hand-off, class."""
        return info_of(native.client_features(self._core.native))

    # ---- events ----

    def _listen(self) -> None:
        """Starts the thread that reads this client's events. It knows the core alone, so that it
        keeps no client alive."""
        if self._listener is None and not self._core.closed and self._core.is_ours():
            self._listener = threading.Thread(target=_read_events, args=(self._core,),
                                              name='dlock-events', daemon=True)
            self._listener.start()

    # ---- its end ----

    def __enter__(self) -> Client:
        return self

    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None,
                 traceback: TracebackType | None) -> None:
        try:
            self.close()
        except errors.DlockError as error:
            logger.warning('at the end of %r: %s', self, error)

    def __repr__(self) -> str:
        state = 'closed ' if self.closed else '' if self._core.is_ours() else 'forked '
        return f'<{state}dlock.Client {self.url!r}>'

    def __reduce__(self) -> Any:
        refuse_pickling(self)

    def __del__(self) -> None:
        core = getattr(self, '_core', None)
        if core is None or core.closed or not core.is_ours():
            return
        warnings.warn(f'{self!r} was never closed', ResourceWarning, source=self, stacklevel=2)
        wait(core.start_close())


def _read_events(core: Core) -> None:
    """The thread dlock-events: until the client is closed."""
    ended = False

    def end() -> None:
        nonlocal ended
        ended = True

    core.on_closed = end
    poller = select.poll()
    poller.register(core.event_fd(), select.POLLIN)
    while not ended:
        poller.poll()
        while not core.drain() and not ended:
            pass

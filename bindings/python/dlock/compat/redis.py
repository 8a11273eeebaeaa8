"""``redis.lock.Lock`` of redis-py, held by libdlock: the same arguments, the same keys.

::

    from dlock.compat.redis import Lock      # was: from redis.lock import Lock
    with redis_client.lock('orders/42', timeout=30, lock_class=Lock): ...

The lock is taken over a connection of libdlock's own, to the server that the redis-py client is
connected to; programs that still use redis-py's Lock exclude these and are excluded by them. What
is deliberately different:

- Without ``timeout`` the key has a lease of 30 s that is renewed, where redis-py's key stays for
  ever when its process dies.
- What a process holds is given back when the process ends, or at ``close()``, but for what somebody
  else may have by now: a lock with a ``timeout`` whose ``local.token`` was read. While the process
  runs, a lock with a ``timeout`` whose object is forgotten stays for that time, as redis-py's does;
  one without is given back when the object is collected.
- A fork's child can extend what its parent holds if the parent has read ``local.token`` before the
  fork; else reading it there, ``extend()`` and ``reacquire()`` raise LockError.
- ``token`` of ``acquire()`` must be None: it is libdlock that names owners, so that a name can't
  come twice. ``local.token`` of the lock is that name.
- ``timeout`` is at least 0.1 s.
- ``extend(…, replace_ttl=True)`` and ``reacquire()`` never shorten a lease.
- ``sleep`` is kept to when something tells nobody of a release; else the waiter is woken.
- A grant has a fencing token: the property ``fencing_token``.
"""
from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, NoReturn

from redis import exceptions as theirs

from .. import _native as native, errors
from .._core import SLICE_MS, wait
from .._settings import seconds_to_ms, wait_ms
from ..client import Client
from ..hold import Hold
from ..lock import Lock as OurLock

__all__ = ['Lock', 'close']

LEASE_S = 30.0
SLEEP_MAX_MS = 60_000
MARGIN_MS = 2
PRUNED_AT = 64   # grants whose time may be over

# Lengthens the lease of whoever has this token; never shortens it. A key without an end has all the
# time there is. ARGV: the token, milliseconds, '1' for from now on and not from the present end on.
EXTEND = '''
if redis.call('get', KEYS[1]) ~= ARGV[1] then
    return 0
end
local left = redis.call('pttl', KEYS[1])
local wanted = tonumber(ARGV[2]) + (ARGV[3] == '1' and 0 or left)
if left >= 0 and wanted > left then
    redis.call('pexpire', KEYS[1], wanted)
end
return 1
'''

_log = logging.getLogger('dlock')


class _Service:
    """The client for one server, and what was granted by way of it: token → hold.

    A lock of redis-py lives in its key and not in the object, so grants with a timeout are kept;
    of the others is only known what their objects keep.
    """

    def __init__(self, url: str, settings: dict[str, Any]) -> None:
        self.client = Client(url, **settings)
        self.mutex = threading.Lock()
        self.known: weakref.WeakValueDictionary[bytes, Hold] = weakref.WeakValueDictionary()
        self.latest: weakref.WeakValueDictionary[str, Hold] = weakref.WeakValueDictionary()
        self.kept: dict[bytes, Hold] = {}
        # When the keys end, by our clock: of the grant, whichever object and thread has its token.
        self.ends: weakref.WeakKeyDictionary[Hold, float] = weakref.WeakKeyDictionary()

    def add(self, hold: Hold, keep: bool) -> bytes:
        token = hold.owner.encode()
        with self.mutex:
            self.known[token] = self.latest[hold.name] = hold
            if keep:
                if len(self.kept) >= PRUNED_AT:
                    self.kept = {old: grant for old, grant in self.kept.items()
                                 if not grant.lost}
                self.kept[token] = hold
        return token

    def find(self, token: bytes) -> Hold | None:
        """What we still look after; what was handed out we don't."""
        with self.mutex:
            hold = self.known.get(token)
        return None if hold is None or hold.state == 'released' else hold

    def holder(self, name: str) -> Hold | None:
        """Who of this process has the lock, and so keeps its others waiting."""
        with self.mutex:
            hold = self.latest.get(name)
        return hold if hold is not None and hold.state in ('held', 'suspect') else None

    def hand_out(self, token: bytes, hold: Hold) -> None:
        """Somebody else may have its token: it isn't ours any more to give back, and its end isn't
        known here. What a fork's child finds kept its parent will delete, whoever extends it."""
        if token not in self.kept:
            return
        try:
            hold.export()
        except (errors.LostError, errors.NotHeldError, errors.ClosedError):
            return
        except errors.ForkedError as why:
            raise theirs.LockError('the parent gives this lock back, unless it reads local.token '
                                   'before the fork') from why
        except errors.DlockError as why:
            raise theirs.LockError(f'its token can\'t be handed out: {why}') from why
        with self.mutex:
            self.kept.pop(token, None)

    def take(self, token: bytes) -> Hold | None:
        hold = self.find(token)
        with self.mutex:
            self.kept.pop(token, None)
            self.known.pop(token, None)
        return hold


_services: dict[tuple[Any, ...], _Service] = {}
_services_mutex = threading.Lock()


def close() -> None:
    """Closes this process' connections and gives back what was acquired over them. The next
    acquire opens anew."""
    with _services_mutex:
        closing = list(_services.values())
        _services.clear()
    for service in closing:
        service.client.close()


def _forget_parent() -> None:
    """In a fork's child the parent's connections are of no use."""
    global _services, _services_mutex
    _services, _services_mutex = {}, threading.Lock()


os.register_at_fork(after_in_child=_forget_parent)


def _sleep_ms(sleep: float) -> int:
    """Whatever it is, redis-py minds it only when it sleeps."""
    return int(min(max(1, sleep * 1000), SLEEP_MAX_MS))


def _wait(op: native.Op, sleep: float, service: _Service, name: str) -> int:
    """As dlock's own wait, but that whoever of this process has the lock is looked at now and then.
    Who hears so that it was lost lets others here go on."""
    look: native.Op | None = None
    every = _sleep_ms(sleep)
    if threading.current_thread() is threading.main_thread():
        every = min(every, SLICE_MS)   # signal handlers run between two of them
    next_look = time.monotonic() + sleep
    try:
        while native.op_wait(op, every) == native.EPENDING:
            if time.monotonic() < next_look:
                continue
            next_look = time.monotonic() + sleep
            if look is None or native.op_result(look) != native.EPENDING:
                holder = service.holder(name)
                look = None if holder is None else native.hold_verify_start(holder._native)
    except BaseException:
        native.op_cancel(op)
        wait(op)
        native.op_take_hold(op)   # and drop it
        raise
    return wait(op)


class _Grant(NamedTuple):
    """What an object has of one: its token, what keeps it from being collected, and what is to be
    done before the token is used by anybody else."""

    token: bytes | str | None = None
    hold: Hold | None = None
    hand_out: Callable[[], None] | None = None


class _Own:
    """The ``local`` of a lock: what was acquired by way of it.

    redis-py's is read, and written, by whoever hands a token on to another object or process. From
    then on a lock with a ``timeout`` lives in its key alone, as redis-py's do: others may extend
    it, and it may outlive this process.
    """

    _has: _Grant = _Grant()   # is replaced as a whole: another thread may read it meanwhile

    @property
    def token(self) -> bytes | str | None:
        has = self._has
        if has.hand_out is not None:
            has.hand_out()
        return has.token

    @token.setter
    def token(self, token: bytes | str | None) -> None:
        self._has = _Grant(token, self._has.hold)

    def peek(self) -> bytes | None:
        """The token for our own use."""
        token = self._has.token
        return token.encode() if isinstance(token, str) else token

    def take(self, token: bytes, hold: Hold, hand_out: Callable[[], None] | None) -> None:
        self._has = _Grant(token, hold, hand_out)

    def drop(self) -> None:
        self._has = _Grant()


class _OwnOfThread(_Own, threading.local):
    """The same, of each thread."""


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _name(value: object) -> str:
    try:
        return _text(value)
    except UnicodeDecodeError:
        raise errors.ConfigError(f'name: {value!r} isn\'t UTF-8') from None


def _where(redis: Any, sleep: float) -> tuple[str, dict[str, Any]]:
    """The URL and the settings that reach the server of a redis-py client."""
    pool = getattr(redis, 'connection_pool', None)
    known = getattr(pool, 'connection_kwargs', None)
    if known is None or hasattr(pool, 'sentinel_manager'):
        raise errors.NotSupportedError(
            f'redis: {type(redis).__name__} isn\'t a client of a single server')
    if 'SSL' in getattr(pool, 'connection_class', type).__name__:
        raise errors.NotSupportedError('redis: TLS isn\'t in this build of libdlock')
    settings: dict[str, Any] = {'redis_layout': 'string', 'redis_db': int(known.get('db') or 0),
                                'retry_ms': _sleep_ms(sleep)}
    provider = known.get('credential_provider')
    user, password = known.get('username'), known.get('password')
    if provider is not None:
        given = provider.get_credentials()
        user, password = given if len(given) == 2 else (None, given[0])
    if user:
        settings['auth_username'] = _text(user)
    if password:
        settings['auth_password'] = _text(password)
    if known.get('socket_timeout'):
        settings['timeout'] = float(known['socket_timeout'])
    if known.get('socket_connect_timeout'):
        settings['connect'] = float(known['socket_connect_timeout'])
    if known.get('path'):
        return f'redis+unix://{known["path"]}', settings
    host = known.get('host', 'localhost')
    return f'redis://{f"[{host}]" if ":" in host else host}:{known.get("port", 6379)}', settings


def _service(redis: Any, sleep: float) -> _Service:
    url, settings = _where(redis, sleep)
    key = (url, *sorted(settings.items()))
    with _services_mutex:
        if key not in _services:
            _services[key] = _Service(url, settings)
        return _services[key]


class Lock:
    """A lock with the signature of ``redis.lock.Lock``."""

    def __init__(self, redis: Any, name: str, timeout: float | None = None, sleep: float = 0.1,
                 blocking: bool = True, blocking_timeout: float | None = None,
                 thread_local: bool = True, raise_on_release_error: bool = True) -> None:
        """
        :param redis: a ``redis.Redis``, whose connection's parameters are taken over
        :param name: the key
        :param timeout: the longest life of a lock in seconds; None: as long as it is renewed
        :param sleep: seconds between two looks at a lock that somebody else has
        :param blocking: whether ``acquire()`` waits
        :param blocking_timeout: how long in seconds; None: without limit
        :param thread_local: whether a thread sees only what it acquired itself
        :param raise_on_release_error: whether the end of ``with`` raises what release() raised
        """
        self.redis = redis
        self.name = name
        self.timeout = timeout
        self.sleep = sleep
        self.blocking = blocking
        self.blocking_timeout = blocking_timeout
        self.thread_local = bool(thread_local)
        self.raise_on_release_error = raise_on_release_error
        self.local: _Own = _OwnOfThread() if self.thread_local else _Own()
        self._of: tuple[_Service, OurLock] | None = None
        self._pid = 0

    def __enter__(self) -> Lock:
        if self.acquire():
            return self
        raise self._error('Unable to acquire lock within the time specified')

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        try:
            self.release()
        except theirs.LockError as why:
            if self.raise_on_release_error and error is None:
                raise
            _log.warning('leaving the lock %r: %s', self.name, why)

    def acquire(self, sleep: float | None = None, blocking: bool | None = None,
                blocking_timeout: float | None = None, token: str | None = None) -> bool:
        """Acquires the lock and says whether it did.

        :param sleep: as for the constructor
        :param blocking: as for the constructor; False tries once
        :param blocking_timeout: as for the constructor
        :param token: must be None
        """
        if token is not None:
            raise self._error('token: libdlock names owners itself; see its local.token')
        sleep = self.sleep if sleep is None else sleep
        wait = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        if not (self.blocking if blocking is None else blocking):
            wait = 0
        elif wait is None:
            wait = -1
        elif sleep > wait:
            wait = 0  # redis-py wouldn't wait for a look that comes too late
        return self._take(wait, sleep)

    def do_acquire(self, token: str) -> bool:
        """Tries once."""
        return self._take(0, self.sleep)

    def locked(self) -> bool:
        """Asks the server whether anybody holds it."""
        return bool(self._asked(lambda: self._lock().locked()))

    def owned(self) -> bool:
        """Asks the server whether it is still held by this object."""
        hold = self._hold()
        if hold is None:
            return self._owned_elsewhere()

        def verify() -> bool:
            hold.verify()
            return True

        try:
            return bool(self._asked_of(hold, verify, self._owned_elsewhere))
        except theirs.LockError:
            return False

    def _owned_elsewhere(self) -> bool:
        """Whether the key has our token, which another process acquired."""
        token = self.local.peek()
        if token is None:
            return False
        seen = self._asked(lambda: self._lock().inspect())
        return any(holder.get('owner') == _text(token) for holder in seen.get('holders', ()))

    @property
    def fencing_token(self) -> int:
        """The fencing token of what this object holds; 0 when it holds nothing."""
        token = self.local.peek()
        hold = None if token is None else self._service().known.get(token)
        return 0 if hold is None else hold.token

    def release(self) -> None:
        """Releases what this object (this thread by it, with ``thread_local``) acquired."""
        token = self.local.peek()
        if token is None:
            raise self._error('Cannot release a lock that\'s not owned or is already unlocked.')
        self.local.drop()
        self.do_release(token)

    def do_release(self, expected_token: bytes | str) -> None:
        """Releases the grant with this token, whichever object or process acquired it."""
        token = expected_token if isinstance(expected_token, bytes) else expected_token.encode()
        hold = self._service().take(token)

        def release() -> None:
            if hold is not None:
                try:
                    hold.release()
                    return
                except errors.NotHeldError:
                    pass   # a thread has handed it out meanwhile: the key has it yet
            self._lock().break_(token.decode())

        self._asked(release)

    def extend(self, additional_time: float, replace_ttl: bool = False) -> bool:
        """Adds so many seconds to the lease; with *replace_ttl* it ends so many from now on."""
        self._check_timeout('extend')
        return self.do_extend(additional_time, replace_ttl)

    def do_extend(self, additional_time: float, replace_ttl: bool) -> bool:
        """Extends without the checks of extend()."""
        seconds_to_ms('additional_time', additional_time)   # or says what is wrong with it
        hold = self._hold()
        if hold is None:
            return self._extend_key(additional_time, replace_ttl)
        lease = additional_time + (0.0 if replace_ttl else self._left(hold))

        def extend() -> bool:
            hold.extend(lease)
            self._ends(hold, lease)
            return True

        return bool(self._asked_of(hold, extend, lambda: self._extend_key(lease, True)))

    def _extend_key(self, additional_time: float, replace_ttl: bool) -> bool:
        """Of what another process acquired, or one of this process has handed out."""
        token = self.local.token
        if token is None or not self.redis.eval(EXTEND, 1, self.name, token,
                                                int(additional_time * 1000), int(replace_ttl)):
            raise theirs.LockNotOwnedError('Cannot extend a lock that\'s no longer owned',
                                           lock_name=self.name)
        return True

    def reacquire(self) -> bool:
        """Sets the lease to ``timeout`` from now on."""
        self._check_timeout('reacquire')
        return self.do_reacquire()

    def do_reacquire(self) -> bool:
        """Reacquires without the checks of reacquire()."""
        assert self.timeout is not None
        return self.do_extend(self.timeout, replace_ttl=True)

    # ---- within ----

    def _service(self) -> _Service:
        return self._bound()[0]

    def _lock(self) -> OurLock:
        return self._bound()[1]

    def _bound(self) -> tuple[_Service, OurLock]:
        """The client and its lock; those of this process."""
        if self._of is None or self._pid != os.getpid() or self._of[0].client.closed:
            service = self._asked(lambda: _service(self.redis, self.sleep))
            settings: dict[str, Any] = {'ttl': LEASE_S}
            if self.timeout:
                settings = {'ttl_ms': int(self.timeout * 1000), 'renew': 'off'}
            self._of = service, service.client.lock(_name(self.name), **settings)
            self._pid = os.getpid()
        return self._of

    def _take(self, wait: float, sleep: float) -> bool:
        service, lock = self._bound()
        hold = self._asked(lambda: self._acquired(wait, sleep))
        if hold is None:
            return False
        if self.timeout:
            lock._forget(hold)   # it is kept by its token, until its time is over
        token = service.add(hold, bool(self.timeout))
        self.local.take(token, hold, partial(service.hand_out, token, hold) if self.timeout
                        else None)
        if self.timeout:
            self._ends(hold, None)
        return True

    def _acquired(self, wait: float, sleep: float) -> Hold | None:
        """Waits, and asks every *sleep* seconds whether the key is still that of the one here who
        holds the lock: others here wait for him, whatever somebody did to the key."""
        service, lock = self._bound()
        ms = wait_ms(True, wait)
        if ms != 0:
            return lock._acquire(ms, False, lambda op: _wait(op, sleep, service, lock.name))
        hold, holder = lock._acquire(0, False), service.holder(lock.name)
        if hold is not None or holder is None:
            return hold
        try:
            holder.verify()
        except errors.DlockError:
            return lock._acquire(0, False)
        return None

    def _hold(self) -> Hold | None:
        token = self.local.peek()
        return None if token is None else self._service().find(token)

    def _ends(self, hold: Hold, lease: float | None) -> None:
        """Notes when the key ends on the server, which is a little after our hold is certain."""
        now = time.monotonic()
        if lease is None:
            assert self.timeout is not None
            margin = self.timeout / 100 + MARGIN_MS / 1000
            lease = min(hold.remaining + margin, self.timeout)
        self._service().ends[hold] = now + lease

    def _left(self, hold: Hold) -> float:
        ends = self._service().ends.get(hold, 0.0)
        return max(ends - time.monotonic(), hold.remaining, 0.0)

    def _check_timeout(self, verb: str) -> None:
        if self.local.peek() is None:
            raise self._error(f'Cannot {verb} an unlocked lock')
        if self.timeout is None:
            raise self._error(f'Cannot {verb} a lock with no timeout')

    def _error(self, text: str) -> theirs.LockError:
        return theirs.LockError(text, lock_name=self.name)

    def _asked_of(self, hold: Hold, ask: Callable[[], Any], by_key: Callable[[], Any]) -> Any:
        """What *ask* says of the hold, or *by_key* if a thread has handed it out meanwhile: what is
        asked by then is answered as if the hold was lost."""
        def either() -> Any:
            try:
                return ask()
            except (errors.LostError, errors.NotHeldError):
                if hold.state != 'released':
                    raise
            return by_key()

        return self._asked(either)

    def _asked(self, ask: Callable[[], Any]) -> Any:
        """What *ask* returns; what it raises as redis-py would."""
        try:
            return ask()
        except errors.DlockError as why:
            self._translate(why)

    def _translate(self, why: errors.DlockError) -> NoReturn:
        text = str(why)
        if isinstance(why, (errors.LostError, errors.NotHeldError)):
            raise theirs.LockNotOwnedError(text, lock_name=self.name) from why
        if isinstance(why, errors.UnknownOutcomeError):
            raise theirs.TimeoutError(text) from why
        if isinstance(why, errors.UnavailableError):
            raise theirs.ConnectionError(text) from why
        if isinstance(why, errors.AccessError):
            raise theirs.AuthenticationError(text) from why
        if isinstance(why, (errors.ConfigError, errors.NotSupportedError)):
            raise why
        raise theirs.LockError(text, lock_name=self.name) from why

    def __repr__(self) -> str:
        return f'<dlock.compat.redis.Lock {self.name!r}>'

"""What can go wrong, as exceptions: one class for each code of libdlock.

Each derives from DlockError and, where Python has a usual name for such a failure, from that
as well: ``except TimeoutError``, ``except ConnectionError`` and ``except ValueError`` work.
"""
from __future__ import annotations

from typing import NoReturn

from . import _native as native

__all__ = [
    'AccessError', 'AcquireTimeout', 'BackendError', 'BusyError', 'CanceledError', 'ClosedError',
    'ConfigError', 'ConflictError', 'DeadlockError', 'DlockError', 'ForkedError', 'GuardError',
    'LimitError', 'LostError', 'NoMemoryError', 'NotHeldError', 'NotSupportedError',
    'OverReleaseError', 'PendingError', 'ProtocolError', 'QuorumError', 'UnavailableError',
    'UnknownOutcomeError',
]


class DlockError(Exception):
    """The base of all of them.

    :ivar code: the number of libdlock's code (``dlock.errors.DlockError.name`` is its name)
    :ivar lock_name: the lock it is about, or None
    :ivar backend: what the server itself said, unchanged; often empty
    """

    code: int = 0

    def __init__(self, text: str = '', *, code: int | None = None, lock_name: str | None = None,
                 backend: str = '') -> None:
        super().__init__(text)
        if code is not None:
            self.code = code
        self.lock_name = lock_name
        self.backend = backend

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ''

    def __reduce__(self) -> tuple[object, ...]:
        state = {'code': self.code, 'lock_name': self.lock_name, 'backend': self.backend}
        return type(self), self.args, state

    @property
    def name(self) -> str:
        """The stable name of the code, such as ``DLOCK_EBUSY``."""
        return native.errname(self.code)

    @property
    def retriable(self) -> bool:
        """Whether the same call may succeed later without anything being mended."""
        return self.code in _RETRIABLE


class AcquireTimeout(DlockError, TimeoutError):
    """Somebody else held the lock to the end of the wait."""

    code = native.ETIMEDOUT


class BusyError(DlockError):
    """The grant still has other holds, so that can't be done now."""

    code = native.EBUSY


class CanceledError(DlockError):
    """The wait was cancelled; nothing is held."""

    code = native.ECANCELED


class LostError(DlockError):
    """The lock isn't yours any more: its validity is over, or the server gave it to another."""

    code = native.ELOST


class NotHeldError(DlockError, RuntimeError):
    """It was released before, or isn't held by the one you named."""

    code = native.ENOTHELD


class OverReleaseError(NotHeldError, ValueError):
    """A semaphore was released more often than it was acquired; a ValueError, as that of
    threading.BoundedSemaphore."""


class DeadlockError(DlockError, RuntimeError):
    """The wait could never end: the calling thread holds the lock already, or its holder waits,
    itself or by way of others, for what the calling thread holds."""

    code = native.EDEADLK


class PendingError(DlockError):
    """Not finished yet."""

    code = native.EPENDING


class BackendError(DlockError, ConnectionError):
    """The base of what a service failed to do: :class:`UnavailableError` and the others."""


class UnavailableError(BackendError):
    """The service can't be reached, and nothing of the call is left there."""

    code = native.EUNAVAIL


class UnknownOutcomeError(BackendError):
    """It may have happened, or happen yet: not answered, or cut off in the service's line. The
    library cleans up behind."""

    code = native.EUNKNOWN


class ConfigError(DlockError, ValueError):
    """A name, a URI or a setting is wrong; the text says which and why."""

    code = native.EINVAL


class NotSupportedError(DlockError, NotImplementedError):
    """This backend, layout or build can't do that."""

    code = native.ENOTSUP


class AccessError(DlockError, PermissionError):
    """Wrong credentials, or a right is missing; the text names it."""

    code = native.EACCES


class ConflictError(DlockError):
    """Another layout or another kind of lock is in use under this name."""

    code = native.ECONFLICT


class QuorumError(BackendError):
    """Too few of the servers answered."""

    code = native.EQUORUM


class LimitError(DlockError, OverflowError):
    """A counter or a buffer is at its end."""

    code = native.EOVERFLOW


class ClosedError(DlockError, RuntimeError):
    """The client was closed."""

    code = native.ECLOSED


class ForkedError(DlockError, RuntimeError):
    """The object was made before a fork and this is the child: open a client here."""

    code = native.EFORKED


class ProtocolError(BackendError):
    """The peer doesn't speak the protocol we expect."""

    code = native.EPROTO


class GuardError(DlockError):
    """A step of a guarded operation failed in C."""

    code = native.EUSER


class NoMemoryError(DlockError, MemoryError):
    """Out of memory."""

    code = native.ENOMEM


_RETRIABLE = frozenset({native.EBUSY, native.ETIMEDOUT, native.EUNAVAIL, native.EUNKNOWN,
                        native.EQUORUM})
_CLASSES: dict[int, type[DlockError]] = {
    cls.code: cls for cls in (
        AcquireTimeout, BusyError, CanceledError, LostError, NotHeldError, DeadlockError,
        PendingError, UnavailableError, UnknownOutcomeError, ConfigError, NotSupportedError,
        AccessError, ConflictError, QuorumError, LimitError, ClosedError, ForkedError,
        ProtocolError, GuardError, NoMemoryError)
}


def make(code: int, text: str = '', backend: str = '',
         lock_name: str | None = None) -> DlockError:
    """The exception for a code; a code that this version doesn't know is a plain DlockError."""
    cls = _CLASSES.get(code, DlockError)
    return cls(text or native.strerror(code), code=code, lock_name=lock_name, backend=backend)


def from_op(op: native.Op, lock_name: str | None = None) -> DlockError:
    """The exception of an op that has failed."""
    code, text, backend = native.op_error(op) or (native.op_result(op), '', '')
    return make(code, text, backend, lock_name)


def not_acquired(op: native.Op, lock_name: str) -> DlockError:
    """As from_op(), for an acquire: busy with a wait of 0 is a time-out, too."""
    error = from_op(op, lock_name)
    if error.code == native.EBUSY:
        return AcquireTimeout(str(error), code=error.code, lock_name=lock_name,
                              backend=error.backend)
    return error


def raise_code(code: int, text: str, backend: str) -> NoReturn:
    """Called by the generated layer when a function with an out-parameter has failed."""
    raise make(code, text, backend)

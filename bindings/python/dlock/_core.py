"""What dlock and dlock.aio share: an opened client, the one place that reads its events, and how
a thread waits for an op.

Handles are only ever freed by the garbage collector, so no call can meet a freed one. An op that
is dropped is cancelled, and what it was granted is given back; so whoever is interrupted between
an op's start and the taking of its hold has only to let go of it.
"""
from __future__ import annotations

import atexit
import itertools
import json
import logging
import os
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from . import _native as native, errors
from ._settings import check_text, make_conf, settings_of

logger = logging.getLogger('dlock')
_LEVELS = {native.LOG_ERROR: logging.ERROR, native.LOG_WARN: logging.WARNING,
           native.LOG_INFO: logging.INFO, native.LOG_DEBUG: logging.DEBUG}

# Signal handlers run in the main thread only, and between its bytecodes.
SLICE_MS = 50
EVENTS_AT_ONCE = 256

# Takes what, code, token and text of an event.
Handler = Callable[[int, int, int, str], None]

_tags = itertools.count(1)


def next_tag() -> int:
    """A number for op_notify() or hold_notify() that no event ever had."""
    return next(_tags)


class _Here(threading.local):
    """A number for each thread. Its ident may be given to the next one when it has ended."""

    def __init__(self) -> None:
        self.number = next(_tags)


_here = _Here()


def this_thread() -> int:
    """A number that no other thread ever has."""
    return _here.number


class _Main:
    ident = threading.main_thread().ident
    ending = False   # the interpreter: what is left are daemon threads


def patience() -> int:
    """How many ms the calling thread may wait in one piece."""
    return SLICE_MS if threading.get_ident() == _Main.ident else native.FOREVER


def wait(op: native.Op) -> int:
    """Waits for an op and returns its code. Whatever a signal handler raises ends the wait: the
    op is cancelled then, and what it was granted all the same is given back."""
    code = native.op_result(op)
    if threading.get_ident() != _Main.ident:
        if code == native.EPENDING:
            native.op_wait(op, native.FOREVER)
            code = native.op_result(op)
        if code == native.ECLOSED and _Main.ending:
            # Closed by _close_all(). Python stops such a thread for good at one of its next steps;
            # this one just doesn't come to raise, and print, an exception before that.
            threading.Event().wait()
        return code
    if code != native.EPENDING:
        return code
    try:
        while native.op_wait(op, SLICE_MS) == native.EPENDING:
            pass
    except BaseException:
        native.op_cancel(op)
        native.op_wait(op, native.FOREVER)   # prompt: a cancelled op needs no network
        native.op_take_hold(op)
        raise
    return native.op_result(op)


def finish(op: native.Op, lock_name: str | None = None) -> None:
    """Waits for an op and raises what it failed with."""
    if wait(op) != native.OK:
        raise errors.from_op(op, lock_name)


def finish_info(op: native.Op, lock_name: str | None = None) -> dict[str, Any]:
    """Waits for an op that asks something and returns the answer."""
    finish(op, lock_name)
    return info_of(native.op_take_info(op))


def info_of(text: str | None) -> dict[str, Any]:
    """An info of libdlock as a dict: dotted keys are nested, numbered ones are lists."""
    info: dict[str, Any] = json.loads(text) if text else {}
    return info


def refuse_pickling(thing: object) -> Any:
    """For __reduce__: connections and holds belong to the process that made them."""
    raise TypeError(f'cannot pickle {type(thing).__name__!r} object: it belongs to this process; '
                    'open a client in the other one (a hold: export it and import the ticket)')


class Core:
    """One client of libdlock, made but not connected: connecting is an op like any other, which
    Ctrl-C and cancellation can end."""

    def __init__(self, url: str, settings: Mapping[str, object]) -> None:
        check_text('url', url)
        conf = make_conf(settings, {})
        self.handlers: dict[int, Handler] = {}
        self.on_connection: Callable[[int, str], None] | None = None
        self.on_closed: Callable[[], None] | None = None
        self.pid = os.getpid()
        self.closed = False
        self.native = native.client_new(url, conf)
        self.url = native.client_uri(self.native)
        self.wants_connect = not self.settings()['client.lazy']
        _open.add(self)

    def settings(self) -> dict[str, Any]:
        """What it goes by."""
        return settings_of(native.client_settings(self.native))

    def new_lock(self, kind: int, name: str, settings: Mapping[str, object],
                 fixed: Mapping[str, str]) -> native.Lock:
        """The handle of a lock."""
        return native.lock_new(self.native, kind, name, make_conf(settings, fixed))

    def new_cond(self, name: str, settings: Mapping[str, object]) -> native.Cond:
        """The handle of a condition."""
        return native.cond_new(self.native, name, make_conf(settings, {}))

    def start_close(self) -> native.Op:
        """Closing as an op; its handlers get what is left, then CLOSED comes."""
        self.closed = True
        _open.discard(self)
        return native.client_close_start(self.native)

    def is_ours(self) -> bool:
        """Whether it was opened in this process, and not in one that has forked since."""
        return self.pid == os.getpid()

    def event_fd(self) -> int:
        """Readable while drain() has something to do. -1 in a fork's child."""
        return native.client_event_fd(self.native)

    def drain(self, limit: int = EVENTS_AT_ONCE) -> bool:
        """Hands up to @limit events to their handlers. Returns whether that were all."""
        for _ in range(limit):
            event = native.client_next_event(self.native)
            if event is None:
                return True
            what, tag, code, token, text = event
            if what == native.EVENT_DONE:
                handler = self.handlers.pop(tag, None)
            elif tag:
                handler = self.handlers.get(tag)
            else:
                handler = self._own_event
            if handler is None:
                continue   # the op was cancelled, or the hold released, meanwhile
            try:
                handler(what, code, token, text)
            except Exception:
                logger.exception('a callback for an event of %s has failed', self.url)
        return False

    def _own_event(self, what: int, code: int, token: int, text: str) -> None:
        if what == native.EVENT_LOG:
            logger.log(_LEVELS.get(token, logging.WARNING), '%s', text,
                       extra={'dlock_url': self.url})
        elif what == native.EVENT_CONNECTION:
            logger.debug('%s: %s', self.url, text)
            if self.on_connection is not None:
                self.on_connection(code, text)
        elif what == native.EVENT_OVERFLOW:
            logger.warning('%s: %d log lines or changes of the connection were dropped',
                           self.url, token)
        elif what == native.EVENT_CLOSED and self.on_closed is not None:
            self.on_closed()


_open: weakref.WeakSet[Core] = weakref.WeakSet()


def _close_all() -> None:
    """At the interpreter's end: what is held is given back now, not when its lease ends."""
    _Main.ending = True
    closing = [core.start_close() for core in list(_open) if core.is_ours()]
    for op in closing:
        wait(op)


def _after_fork() -> None:
    """In the child: its only thread is the main one, and no client is its own."""
    _Main.ident = threading.get_ident()
    _open.clear()


atexit.register(_close_all)
if hasattr(os, 'register_at_fork'):
    os.register_at_fork(after_in_child=_after_fork)

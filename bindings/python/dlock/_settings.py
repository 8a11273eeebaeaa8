"""Keyword arguments to settings, and the checks that arguments of all calls share.

A setting may be written with its full name, ``redis_layout`` for ``redis.layout``; those of
``lock.`` and ``client.`` also without that; and one that counts milliseconds also without its
``_ms``, in seconds: ``ttl=30``, ``lock_ttl=30`` and ``lock_ttl_ms=30_000`` are the same.
Values and ranges are checked in C.
"""
from __future__ import annotations

import difflib
import functools
import inspect
import json
import os
import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, Union

from . import _native as native

Seconds = Union[float, timedelta]
Setting = Union[str, int, float, bool, timedelta, 'os.PathLike[str]']

# Longer is a mistake, for threading as well.
WAIT_MAX_S = threading.TIMEOUT_MAX

F = TypeVar('F', bound=Callable[..., Any])

if TYPE_CHECKING:
    from .errors import ConfigError


@functools.cache
def keywords() -> dict[str, tuple[str, bool]]:
    """The keywords there are: the key each sets, and whether its value is in seconds."""
    table: dict[str, Any] = json.loads(native.conf_dump(None))
    known: dict[str, tuple[str, bool]] = {}
    for section, keys in table.items():
        for key in keys:
            names = [f'{section}_{key}']
            if section in ('lock', 'client'):
                names.append(key)
            for name in names:
                known[name] = (f'{section}.{key}', False)
                if name.endswith('_ms') and key[:-3] not in keys:
                    known[name[:-3]] = (f'{section}.{key}', True)
    return known


def tells(*tables: type) -> Callable[[F], F]:
    """For what takes the settings of these tables: its help() shows what each of them means."""
    def told(function: F) -> F:
        texts = [inspect.cleandoc(table.__doc__) for table in tables if table.__doc__]
        function.__doc__ = '\n\n'.join(texts) or None   # without one under -OO
        return function
    return told


@functools.cache
def _booleans() -> frozenset[str]:
    """The keys whose values are True and False."""
    table: dict[str, Any] = json.loads(native.conf_dump(None))
    return frozenset(f'{section}.{key}' for section, keys in table.items()
                     for key, about in keys.items() if about['type'] == 'bool')


def settings_of(text: str) -> dict[str, Any]:
    """The values of what somebody goes by, by key."""
    table: dict[str, dict[str, Any]] = json.loads(text)
    values = {f'{section}.{key}': value for section, keys in table.items()
              for key, value in keys.items()}
    return {key: value == 'true' if key in _booleans() else value
            for key, value in values.items()}


def make_conf(settings: Mapping[str, object], fixed: Mapping[str, str]) -> native.Conf | None:
    """The conf that keyword arguments and @fixed keys make; None when there are none."""
    if not settings and not fixed:
        return None
    conf = native.conf_new()
    for name, value in settings.items():
        if value is None:
            continue
        if name not in keywords():
            likely = difflib.get_close_matches(name, keywords(), 1)
            hint = f'; did you mean {likely[0]!r}?' if likely else ''
            raise TypeError(f'{name!r} is no setting{hint}')
        key, in_seconds = keywords()[name]
        if in_seconds:
            native.conf_set_int(conf, key, seconds_to_ms(name, value))
        else:
            native.conf_set(conf, key, setting_text(name, value))
    for key, text in fixed.items():
        native.conf_set(conf, key, text)
    return conf


def setting_text(name: str, value: object) -> str:
    """A setting's value as libdlock reads it."""
    if isinstance(value, bool):
        return 'true' if value else 'false'
    if isinstance(value, int):
        return str(value)
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    return check_text(name, value)


def check_text(name: str, value: object) -> str:
    """@value, a str that can be sent; else an exception that names the parameter."""
    if not isinstance(value, str):
        raise TypeError(f'{name}: a str is needed, not {type(value).__name__}')
    if '\0' in value:
        raise _wrong(f'{name}: a NUL character is not allowed')
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _wrong(f'{name}: a surrogate can\'t be encoded as UTF-8') from None
    return value


def check_counts(**counts: object) -> None:
    """Raises TypeError, with the parameter's name, for what is neither an int nor None."""
    for name, value in counts.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise TypeError(f'{name}: an int is needed, not {type(value).__name__}')


def check_releases(n: object) -> None:
    """How often a semaphore is to be released."""
    if n is None:
        raise TypeError('n: an int is needed, not NoneType')
    check_counts(n=n)
    if isinstance(n, int) and n < 1:
        raise ValueError('n: must be one or more')


def check_steps(**steps: object) -> None:
    """The steps of a guard: raises TypeError for one that can't be called, or is missing."""
    for name, step in steps.items():
        if not callable(step) and (step is not None or name in ('run', 'commit')):
            raise TypeError(f'{name}: {step!r} can\'t be called')


def check_name(value: object, parameter: str = 'name') -> str:
    """The name of a lock."""
    name = check_text(parameter, value)
    if not name:
        raise _wrong(f'{parameter}: must not be empty')
    return name


def seconds_to_ms(name: str, value: object) -> int:
    """Seconds, or a timedelta, as whole milliseconds, rounded up."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f'{name}: a number of seconds is needed, not {type(value).__name__}')
    if value != value:
        raise _wrong(f'{name}: not a number')
    if abs(value) > WAIT_MAX_S:
        raise OverflowError(f'{name}: {value} seconds is too large')
    whole = int(value * 1000)
    return whole if whole >= value * 1000 else whole + 1


def wait_ms(blocking: object, timeout: object) -> int:
    """How long an acquire waits, by the rules of threading.Lock.acquire()."""
    if timeout is None or (type(timeout) is int and timeout == -1):
        return native.FOREVER if blocking else 0
    ms = seconds_to_ms('timeout', timeout)
    if timeout == -1:
        return native.FOREVER if blocking else 0
    if not blocking:
        raise ValueError('timeout: can\'t be given with blocking=False')
    if ms < 0 or (isinstance(timeout, (int, float)) and timeout < 0):
        raise ValueError(f'timeout: must be -1, or not negative: {timeout!r}')
    return ms


def _wrong(text: str) -> ConfigError:
    from .errors import ConfigError
    return ConfigError(text)

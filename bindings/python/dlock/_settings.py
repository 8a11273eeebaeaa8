"""Keyword arguments to settings, and the checks that arguments of all calls share.

A setting may be written with its full name, ``redis_layout`` for ``redis.layout``; those of
``lock.`` and ``client.`` also without that; and one that counts milliseconds also without its
``_ms``, in seconds: ``ttl=30``, ``lock_ttl=30`` and ``lock_ttl_ms=30_000`` are the same.
Values and ranges are checked in C.
"""
from __future__ import annotations

import difflib
import functools
import json
import os
import threading
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Union

from . import _native as native

Seconds = Union[float, timedelta]
Setting = Union[str, int, float, bool, timedelta, 'os.PathLike[str]']

# Longer is a mistake, for threading as well.
WAIT_MAX_S = threading.TIMEOUT_MAX


class LockSettings(TypedDict, total=False):
    """What a lock may be told; a client's values are the defaults of its locks."""

    ttl: Seconds
    ttl_ms: int
    renew: Literal['auto', 'fed', 'off']
    max_hold: Seconds
    max_hold_ms: int
    keep: Seconds
    keep_ms: int
    keep_runs: int
    keep_run: Seconds
    keep_run_ms: int
    reentrant: bool
    release: Literal['sync', 'async']
    fair: bool
    data: str
    redis_layout: Literal['redisson', 'string', 'timestamp', 'rueidis']
    redis_semaphore: Literal['expirable', 'plain']
    redis_wait_replicas: int
    redis_timestamp_format: Literal['ms', 's']
    redis_rueidis_majority: int
    redis_rueidis_prefix: str
    zookeeper_layout: Literal['curator', 'kazoo', 'bridge', 'exclusive', 'pattern']
    zookeeper_node: str
    zookeeper_election: Literal['latch', 'selector']
    zookeeper_strict: bool


class ConditionSettings(TypedDict, total=False):
    """What a condition may be told."""

    ttl: Seconds
    ttl_ms: int
    cond_owner: bool


class ClientSettings(LockSettings, total=False):
    """What a client may be told."""

    require: Literal['efficiency', 'fencing', 'correctness']
    prefix: str
    name: str
    lazy: bool
    timeout: Seconds
    timeout_ms: int
    connect: Seconds
    connect_ms: int
    close: Seconds
    close_ms: int
    poll: Seconds
    poll_ms: int
    retry: Seconds
    retry_ms: int
    backoff_min: Seconds
    backoff_min_ms: int
    backoff_max: Seconds
    backoff_max_ms: int
    events: int
    log_level: Literal['off', 'error', 'warn', 'info', 'debug']
    debug: str
    auth_username: str
    auth_password: str
    auth_password_file: str | os.PathLike[str]
    auth_password_env: str
    auth_sentinel_username: str
    auth_sentinel_password: str
    auth_sentinel_password_file: str | os.PathLike[str]
    auth_sentinel_password_env: str
    tls_verify: Literal['full', 'chain', 'insecure_none']
    tls_ca_file: str | os.PathLike[str]
    tls_ca_dir: str | os.PathLike[str]
    tls_crl_file: str | os.PathLike[str]
    tls_cert_file: str | os.PathLike[str]
    tls_key_file: str | os.PathLike[str]
    tls_key_password_file: str | os.PathLike[str]
    tls_server_name: str
    tls_min_version: Literal['1.2', '1.3']
    redis_db: int
    redis_wait: Literal['pubsub', 'poll']
    redis_notify: bool
    redis_publish: Literal['auto', 'publish', 'spublish', 'both']
    redis_handover: bool
    redis_claim: Seconds
    redis_claim_ms: int
    redis_open_turn: int
    redis_fair_wait: Seconds
    redis_fair_wait_ms: int
    redis_token_keep: Seconds
    redis_token_keep_ms: int
    redis_client_key: bool
    redlock_fencing: bool
    zookeeper_acl: Literal['open', 'creator']
    memcached_protocol: Literal['auto', 'meta', 'classic']
    memcached_key_encoding: Literal['none', 'base64', 'escaped']
    file_slots: int
    file_mode: str


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
                if name.endswith('_ms'):
                    known[name[:-3]] = (f'{section}.{key}', True)
    return known


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

"""What clients count, for OpenTelemetry. Needs ``opentelemetry-api``: ``pip install
libdlock[opentelemetry]``.

::

    dlock.opentelemetry.instrument(client)

Every number of ``client.stats()`` becomes an observable instrument ``dlock.…`` with the attribute
``dlock.client``: counters, but for what goes up and down. Of the waits for locks and of the times
they were held, ``dlock.wait.count`` and ``dlock.wait.sum`` (in seconds), ``dlock.hold.…``.
"""
from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Union

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation, get_meter

from . import _native as native
from ._stats import histograms, numbers

if TYPE_CHECKING:
    from .aio import Client as AsyncClient
    from .client import Client

    AnyClient = Union[Client, AsyncClient]

__all__ = ['instrument']


def _all(stats: Mapping[str, Any]) -> Iterator[tuple[str, float, bool]]:
    yield from numbers(stats)
    for key, buckets, total in histograms(stats):
        yield f'{key}.count', buckets[-1][1], False
        yield f'{key}.sum', total, False


def instrument(client: AnyClient, *, name: str | None = None,
               meter_provider: MeterProvider | None = None) -> None:
    """Has what a client counts observed whenever metrics are collected; no I/O.

    :param client: a :class:`dlock.Client` or :class:`dlock.aio.Client`
    :param name: the attribute ``dlock.client``; by default where the client is connected
    :param meter_provider: by default the global one
    """
    meter = get_meter('dlock', native.version(), meter_provider)
    label = {'dlock.client': client.url if name is None else name}

    def observe(key: str, _options: CallbackOptions) -> Iterable[Observation]:
        if client.closed:
            return []
        return [Observation(value, label) for found, value, _ in _all(client.stats())
                if found == key]

    for key, _value, goes_down in _all(client.stats()):
        callbacks = [functools.partial(observe, key)]
        unit = 's' if key.endswith('.sum') else ''
        if goes_down:
            meter.create_observable_gauge(f'dlock.{key}', callbacks=callbacks, unit=unit)
        else:
            meter.create_observable_counter(f'dlock.{key}', callbacks=callbacks, unit=unit)

"""What clients count and do, for OpenTelemetry. Needs ``opentelemetry-api``: ``pip install
libdlock[opentelemetry]``.

::

    dlock.opentelemetry.instrument()

It is what ``dlock_client_metrics()`` tells: the page ``how-to/metrics.md`` has the names. Here the
first ``_`` is a dot, and so it is with attributes: ``dlock.grants`` with ``dlock.client`` and
``dlock.service``. Counters and gauges are observable instruments. Histograms can't be observed; of
each there are the counters ``dlock.wait_seconds.count`` and ``dlock.wait_seconds.sum``.
"""
from __future__ import annotations

import functools
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation, get_meter

from . import _native as native
from ._metrics import Family, families, families_of

if TYPE_CHECKING:
    from ._metrics import AnyClient

__all__ = ['instrument']


def _dotted(name: str) -> str:
    return name.replace('dlock_', 'dlock.', 1)


def _instruments(found: Iterable[Family]) -> Iterator[tuple[str, str, Family]]:
    """The name of each, the suffix of its samples, and its family."""
    for family in found:
        name = _dotted(family.name)
        if family.kind == 'counter':
            yield name, '_total', family
        elif family.kind == 'histogram':
            yield f'{name}.count', '_count', family
            yield f'{name}.sum', '_sum', family
        elif family.kind == 'gauge':
            yield name, '', family


class _Reading:
    """One reading serves all instruments once, so that they are of one moment."""

    def __init__(self, clients: tuple[AnyClient, ...]) -> None:
        self._clients = clients
        self._mutex = threading.Lock()
        self._left: dict[str, list[Observation]] = {}

    def observe(self, name: str, _options: CallbackOptions) -> Iterable[Observation]:
        with self._mutex:
            if name not in self._left:
                self._left = {
                    key: [Observation(sample.value,
                                      {f'dlock.{label}': of for label, of in sample.labels.items()})
                          for sample in family.samples if sample.name == family.name + suffix]
                    for key, suffix, family in _instruments(families_of(self._clients))}
            return self._left.pop(name, [])


def instrument(*clients: AnyClient, meter_provider: MeterProvider | None = None) -> None:
    """Has what clients count observed whenever metrics are collected; no I/O.

    :param clients: these :class:`dlock.Client` or :class:`dlock.aio.Client`, until they are
        closed; without any, all there are in this process whenever metrics are collected
    :param meter_provider: by default the global one
    """
    meter = get_meter('dlock', native.version(), meter_provider)
    reading = _Reading(clients)
    for name, suffix, family in _instruments(families(native.client_metrics(None))):
        make = (meter.create_observable_gauge if family.kind == 'gauge'
                else meter.create_observable_counter)
        unit = {'seconds': 's', 'bytes': 'By'}.get(family.unit, '')
        make(name, callbacks=[functools.partial(reading.observe, name)],
             unit='' if suffix == '_count' else unit, description=family.help)

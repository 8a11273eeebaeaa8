"""What clients count, for Prometheus. Needs ``prometheus-client``: ``pip install
libdlock[prometheus]``.

::

    from prometheus_client import REGISTRY
    REGISTRY.register(dlock.prometheus.Collector(client))

Every number of ``client.stats()`` becomes a metric ``dlock_…`` with the label ``client``:
counters, but for what goes up and down. How long locks were waited for and held are the histograms
``dlock_wait_seconds`` and ``dlock_hold_seconds``.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Union

from prometheus_client.core import (CounterMetricFamily, GaugeMetricFamily,
                                    HistogramMetricFamily)
from prometheus_client.registry import Collector as _Collector

from ._stats import histograms, numbers

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from .aio import Client as AsyncClient
    from .client import Client

    AnyClient = Union[Client, AsyncClient]

__all__ = ['Collector']


class Collector(_Collector):
    """Gives what a client counts at the time of the scrape; no I/O.

    :param client: a :class:`dlock.Client` or :class:`dlock.aio.Client`
    :param name: the value of the label ``client``; by default where the client is connected
    """

    def __init__(self, client: AnyClient, name: str | None = None) -> None:
        self._client = client
        self._name = client.url if name is None else name

    def collect(self) -> Iterator[Metric]:
        """The metrics, with their values of now; none when the client was closed."""
        if self._client.closed:
            return
        stats, labels = self._client.stats(), ['client']
        for key, value, goes_down in numbers(stats):
            family: CounterMetricFamily | GaugeMetricFamily
            text = f'{key.replace("_", " ")}, as libdlock counts it'
            if goes_down:
                family = GaugeMetricFamily(f'dlock_{key}', text, labels=labels)
            else:
                family = CounterMetricFamily(f'dlock_{key}', text, labels=labels)
            family.add_metric([self._name], value)
            yield family
        for key, buckets, total in histograms(stats):
            spread = HistogramMetricFamily(f'dlock_{key}_seconds', f'seconds of each {key}',
                                           labels=labels)
            spread.add_metric([self._name], buckets=buckets, sum_value=total)
            yield spread

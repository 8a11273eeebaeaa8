"""What clients count and do, for Prometheus. Needs ``prometheus-client``: ``pip install
libdlock[prometheus]``.

::

    from prometheus_client import REGISTRY
    REGISTRY.register(dlock.prometheus.Collector())

It is what ``dlock_client_metrics()`` tells, under the same names in every language: the page
``how-to/metrics.md`` has them. One collector serves every client of the process, each under its
labels ``client`` (``client.name``) and ``service`` (its URL, without the password).
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector as _Collector

from ._metrics import families_of

if TYPE_CHECKING:
    from ._metrics import AnyClient

__all__ = ['Collector']


class Collector(_Collector):
    """Gives what clients count at the time of the scrape; no I/O.

    :param clients: these :class:`dlock.Client` or :class:`dlock.aio.Client`, until they are
        closed; without any, all there are in this process at the time of the scrape
    """

    def __init__(self, *clients: AnyClient) -> None:
        self._clients = clients

    def collect(self) -> Iterator[Metric]:
        """The metrics, with their values of now."""
        for family in families_of(self._clients):
            metric = Metric(family.name, family.help, family.kind, family.unit)
            for sample in family.samples:
                metric.add_sample(sample.name, sample.labels, sample.value)
            yield metric

"""What client.stats() says, as the adapters for metrics want it."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

# These go up and down; all others only up.
GAUGES = frozenset({'names', 'unconfirmed', 'in_flight', 'connected'})
HISTOGRAMS = ('wait', 'hold')
NS = 1e-9


def numbers(stats: Mapping[str, Any]) -> Iterator[tuple[str, float, bool]]:
    """Key, value, and whether it goes up and down, of all that is a plain number."""
    for key, value in stats.items():
        if key not in HISTOGRAMS and isinstance(value, (int, float)):
            yield key, float(value), key in GAUGES


def histograms(stats: Mapping[str, Any]) -> Iterator[tuple[str, list[tuple[str, float]], float]]:
    """Key, cumulative buckets by their upper end in seconds, and the sum in seconds."""
    for key in HISTOGRAMS:
        if key not in stats:
            continue
        total, buckets = 0, []
        for bucket in stats[key].get('buckets', []):
            total += bucket['count']
            buckets.append((f'{bucket["below_ns"] * NS:g}', float(total)))
        buckets.append(('+Inf', float(stats[key]['count'])))
        yield key, buckets, stats[key]['sum_ns'] * NS

"""What dlock_client_metrics says, read once for all adapters."""
from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, Union

from . import _native as native

if TYPE_CHECKING:
    from .aio import Client as AsyncClient
    from .client import Client

    AnyClient = Union[Client, AsyncClient]

_SAMPLE = re.compile(r'([a-z_]+)\{(.*)\} (\S+)')
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r'\\(.)')


class Sample(NamedTuple):
    """One number: its full name, as ``dlock_grants_total``."""
    name: str
    labels: dict[str, str]
    value: float


class Family:
    """Numbers of one name: counter, gauge, histogram or info."""

    def __init__(self, name: str, kind: str) -> None:
        self.name, self.kind = name, kind
        self.unit = self.help = ''
        self.samples: list[Sample] = []


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: '\n' if found[1] == 'n' else found[1], text)


def _sample(line: str) -> Sample:
    found = _SAMPLE.fullmatch(line)
    assert found is not None, line
    labels = {key: _unescape(value) for key, value in _LABEL.findall(found[2])}
    return Sample(found[1], labels, float(found[3]))


def families(text: str) -> list[Family]:
    """What libdlock has written, and nobody else: not every OpenMetrics text is read."""
    found: list[Family] = []
    for line in text[:-1].split('\n'):  # a URL may have what splitlines() takes for an end
        if not line.startswith('#'):
            found[-1].samples.append(_sample(line))
            continue
        _, what, *rest = line.split(' ', 3)
        if what == 'TYPE':
            found.append(Family(*rest))
        elif what == 'UNIT':
            found[-1].unit = rest[1]
        elif what == 'HELP':
            found[-1].help = rest[1]
    return found


def families_of(clients: Iterable[AnyClient]) -> list[Family]:
    """Those of these clients, the closed ones left out; without any, of all of this process."""
    clients = list(clients)
    if not clients:
        return families(native.client_metrics(None))
    merged: list[Family] = []
    for client in clients:
        if client.closed:
            continue
        found = families(client.metrics())
        for whole, more in zip(merged, found):
            whole.samples += more.samples
        merged = merged or found
    return merged

"""Leader elections."""
from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from . import _native as native, errors
from ._core import logger
from ._settings import Seconds
from .hold import Hold
from .lock import Lock

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._keywords import LockSettings
    from .client import Client

PAUSE_S = 1.0


class Election(Lock):
    """One of many leads. The hold of it is a term: it says for how long one leads for certain.

    ::

        election = client.election("cron", data="host-7")
        election.run(lead)          # lead(term) for each term, until stop()

    :param data: published while leading, for :meth:`leader`; information, and may lag
    """

    _kind = native.ELECTION
    _fixed = {}

    def __init__(self, client: Client, name: str, *, raise_on_loss: bool = True,
                 **settings: Unpack[LockSettings]) -> None:
        super().__init__(client, name, raise_on_loss=raise_on_loss, **settings)
        self._stopped = threading.Event()

    def campaign(self, timeout: Seconds | None = -1) -> Hold:
        """Waits until this one leads; returns the term. As :meth:`Lock.hold`."""
        return self.hold(timeout)

    def resign(self) -> None:
        """Ends the term. As :meth:`Lock.release`."""
        self.release()

    def leader(self) -> str | None:
        """What the leader publishes; None when nobody leads, ``""`` when it publishes nothing."""
        seen = self.inspect()
        if not seen.get('held'):
            return None
        holders = seen.get('holders') or [{}]
        return str(holders[0].get('data', ''))

    def run(self, lead: Callable[[Hold], object], *, pause: float = PAUSE_S) -> None:
        """Campaigns, calls @lead with the term, resigns when it returns, and so on until
        :meth:`stop`. A term that was lost is followed by the next campaign.

        What @lead raises ends the loop, LostError excepted: ``term.check()`` is the usual way to
        notice the end of a term.

        :param pause: seconds before the next try when the service can't be reached
        """
        if not callable(lead):
            raise TypeError(f'lead: {lead!r} can\'t be called')
        while not self._stopped.is_set():
            try:
                term = self._acquire(int(pause * 1000), False)
            except errors.BackendError as error:
                logger.warning('election %r: %s', self.name, error)
                self._stopped.wait(pause)
                continue
            if term is not None:
                self._lead(lead, term)

    def _lead(self, lead: Callable[[Hold], object], term: Hold) -> None:
        try:
            with term:
                lead(term)
        except errors.LostError as error:
            logger.warning('election %r: the term has ended: %s', self.name, error)

    def stop(self) -> None:
        """Ends :meth:`run` when the current term, or try, is over. From any thread or signal
        handler."""
        self._stopped.set()

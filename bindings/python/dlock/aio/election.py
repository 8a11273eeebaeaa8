"""Leader elections for coroutines."""
from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from .. import _native as native, errors
from .._core import logger
from .._settings import Seconds
from .hold import Hold
from .lock import Lock

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._keywords import LockSettings
    from .client import Client

__all__ = ['Election']

PAUSE_S = 1.0


class Election(Lock):
    """One of many leads. The hold of it is a term: it says for how long one leads for certain.

    ::

        election = client.election('cron', data='host-7')
        await election.run(lead)        # await lead(term) for each term, until stop()

    :param data: published while leading, for :meth:`leader`; information, and may lag
    """

    _kind = native.ELECTION
    _fixed: Mapping[str, str] = {}

    def __init__(self, client: Client, name: str, *, raise_on_loss: bool = True,
                 **settings: Unpack[LockSettings]) -> None:
        super().__init__(client, name, raise_on_loss=raise_on_loss, **settings)
        self._stopped = False
        self._step: asyncio.Future[Any] | None = None

    async def campaign(self, timeout: Seconds | None = -1) -> Hold:
        """Waits until this one leads; returns the term. As :meth:`Lock.hold`, but
        :meth:`resign` ends it, too."""
        term = await self.hold(timeout)
        self._keep(term)
        return term

    async def resign(self) -> None:
        """Ends the term. As :meth:`Lock.release`."""
        await self.release()

    async def leader(self) -> str | None:
        """What the leader publishes; None when nobody leads, ``''`` when it publishes nothing."""
        seen = await self.inspect()
        if not seen.get('held'):
            return None
        holders = seen.get('holders') or [{}]
        return str(holders[0].get('data', ''))

    async def run(self, lead: Callable[[Hold], Awaitable[object]], *,
                  pause: float = PAUSE_S) -> None:
        """Campaigns, awaits ``lead(term)``, resigns when it returns, and so on until :meth:`stop`
        or until the task is cancelled. When the term is lost, *lead* is cancelled, and the next
        campaign begins.

        What *lead* raises ends the loop, LostError excepted.

        :param pause: seconds before the next try when the service can't be reached
        """
        if not callable(lead):
            raise TypeError(f'lead: {lead!r} can\'t be called')
        while not self._stopped:
            try:
                term = await self._stoppable(self.hold())
            except errors.BackendError as why:
                logger.warning('election %r: %s', self.name, why)
                await self._stoppable(asyncio.sleep(pause))
                continue
            if term is not None:
                await self._lead(lead, term)

    async def _lead(self, lead: Callable[[Hold], Awaitable[object]], term: Hold) -> None:
        def lost(_term: Hold) -> None:
            if self._step is not None:
                self._step.cancel()

        term.on_lost(lost)
        try:
            async with term:
                await self._stoppable(lead(term), term)
        except errors.LostError as why:
            logger.warning('election %r: the term has ended: %s', self.name, why)

    async def _stoppable(self, work: Awaitable[Any], term: Hold | None = None) -> Any:
        """Awaits *work*; None when stop(), or the loss of the term, has cancelled it."""
        step = asyncio.ensure_future(work)
        self._step = step
        try:
            await asyncio.wait([step])
        finally:
            self._step = None
            if not step.done():   # it is this task that was cancelled
                step.cancel()
                await asyncio.wait([step])
        if step.cancelled() and (self._stopped or (term is not None and term.lost)):
            return None
        return step.result()

    def stop(self) -> None:
        """Ends :meth:`run`: a campaign is withdrawn, *lead* is cancelled and the term resigned."""
        self._stopped = True
        if self._step is not None:
            self._step.cancel()

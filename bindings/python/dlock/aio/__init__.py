"""dlock for asyncio: the same names as in ``dlock``, awaited.

::

    async with dlock.aio.Client('redis://127.0.0.1') as client:
        async with client.lock('orders/42', ttl=30) as held:
            await ship(42, held.token)

No thread waits for anything: any number of tasks may wait on one loop. A task that is cancelled
withdraws its request, and a grant that came at the same moment is given back. A release goes on
when the task that waits for it is cancelled.
"""
from .client import Client
from .condition import Condition
from .election import Election
from .hold import Guard, Hold
from .lock import Lock, MultiLock, RWLock, Semaphore

__all__ = ['Client', 'Condition', 'Election', 'Guard', 'Hold', 'Lock', 'MultiLock', 'RWLock',
           'Semaphore']

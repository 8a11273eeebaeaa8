"""What docs/how-to/python-asyncio.md shows: python asyncio_tasks.py URL."""
from __future__ import annotations

import asyncio
import sys

import dlock.aio

url = sys.argv[1]
shipped: list[tuple[int, int]] = []


async def ship(number: int, token: int) -> None:
    await asyncio.sleep(0)
    shipped.append((number, token))


# doc: body
async def main() -> None:
    async with dlock.aio.Client(url, ttl=30) as client:
        async with client.lock("orders/42") as held:
            await ship(42, held.token)
# end: body
        await wait_at_most(client)
        await crowd(client)
        await watch(client)
        await elect(client)


# doc: timeout
async def wait_at_most(client: dlock.aio.Client) -> None:
    lock = client.lock("orders/42")
    try:
        async with asyncio.timeout(5):
            async with lock as held:
                await ship(42, held.token)
    except TimeoutError:
        print("somebody else is shipping it")
# end: timeout


# doc: crowd
async def crowd(client: dlock.aio.Client) -> None:
    lock = client.lock("orders/42")

    async def one(number: int) -> None:
        async with lock as held:
            await ship(number, held.token)

    async with asyncio.TaskGroup() as group:
        for number in range(100):
            group.create_task(one(number))
# end: crowd


# doc: watch
async def watch(client: dlock.aio.Client) -> None:
    async with client.lock("camera") as held:
        work = asyncio.create_task(ship(1, held.token))
        held.on_lost(lambda _: work.cancel())
        await work
# end: watch


# doc: elect
async def elect(client: dlock.aio.Client) -> None:
    election = client.election("cron", data="host-7")

    async def lead(term: dlock.aio.Hold) -> None:
        print("leading:", await election.leader())
        election.stop()      # else run() campaigns again when a term has ended

    await election.run(lead)
# end: elect


asyncio.run(main())
assert len(shipped) == 103

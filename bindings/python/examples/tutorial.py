"""What docs/how-to/python.md shows: python tutorial.py URL."""
import sys
import threading

import dlock

url = sys.argv[1]
done: list[str] = []


def work(*_: object) -> None:
    done.append('work')


client = dlock.Client(url)

# doc: acquire
lock = client.lock("reports", ttl=10)
if lock.acquire(timeout=0.5):
    try:
        work()
    finally:
        lock.release()
# end: acquire


# doc: decorator
@client.lock("nightly")
def nightly() -> None:
    work()
# end: decorator


nightly()

# doc: watch
with client.lock("camera") as held:
    stop = threading.Event()
    held.on_lost(lambda _: stop.set())
    while not stop.is_set():
        held.check()                    # raises LostError; costs no round trip
        work()
        stop.set()
# end: watch

# doc: guard
accounts = {"a": 10, "b": 0}
fence = 0
before: dict[str, int] = {}


def move() -> None:
    accounts["a"] -= 5
    accounts["b"] += 5


def commit(token: int) -> None:
    global fence
    if token < fence:
        raise dlock.LostError("the resource has seen a later holder")
    fence = token


transfer = dlock.Guard(
    prepare=lambda: before.update(accounts), run=move, commit=commit,
    undo=lambda: accounts.update(before))
with client.lock("transfer") as held:
    held.guard(transfer)
# end: guard

assert accounts == {"a": 5, "b": 5}

# doc: elect
election = client.election("cron", data="host-7")


def lead(term: dlock.Hold) -> None:
    print("leading:", election.leader())
    election.stop()                     # else run() campaigns again when a term has ended


election.run(lead)
# end: elect

# doc: several
with client.multi(["accounts/1", "accounts/2"]) as both:
    work()
    print(both.member_token(0), both.member_token(1))
# end: several

client.close()

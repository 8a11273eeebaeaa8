"""What docs/how-to/python-migrate.md shows of kazoo: python migrated.py URL."""
import sys

# doc: kazoo
import dlock
from dlock.compat.kazoo import Lock      # was: from kazoo.recipe.lock import Lock

client = dlock.Client(sys.argv[1])       # was: KazooClient(hosts), client.start()
lock = Lock(client, "/orders/42", "my-identifier")
with lock:                               # blocks waiting for the lock
    print("shipping with token", lock.token)
# end: kazoo
client.close()

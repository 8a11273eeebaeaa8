"""A row in PostgreSQL that refuses who comes too late, by psycopg: guarded_psycopg.py postgres:…

The first holder stops renewing and comes back when another has had the lock.
"""
import sys

import dlock
import psycopg

URL, NAME = sys.argv[1], 'guarded-psycopg'


# doc: write
def write(db, token, pieces):
    """One transaction: the check, and what the lock protects."""
    with db.transaction():
        db.execute('SELECT dlock.check(%s, %s)', (NAME, token))  # DL001: a later grant exists
        db.execute("UPDATE stock SET pieces = pieces + %s WHERE item = 'bolt'", (pieces,))


def is_stale(error):
    return error.sqlstate == 'DL001'  # psycopg2: error.pgcode
# end: write


with (psycopg.connect(URL, autocommit=True) as db, dlock.Client(URL, ttl=1, renew='off') as slow,
      dlock.Client(URL) as quick):
    db.execute('CREATE TEMPORARY TABLE stock (item text PRIMARY KEY, pieces bigint)')
    db.execute("INSERT INTO stock VALUES ('bolt', 0)")
    late = slow.lock(NAME).hold()
    with quick.lock(NAME).hold() as held:  # when the first one's lease is over
        write(db, held.token, 10)
    try:
        write(db, late.token, 5)
        print('a stale write came through')
    except psycopg.Error as error:
        print('refused with', error.sqlstate) if is_stale(error) else print(error)
    print('pieces:', db.execute('SELECT pieces FROM stock').fetchone()[0])

"""What a server of PostgreSQL keeps over its end, and what a standby knows that takes its place."""
import contextlib
import json
import sys

import tap
import world
from postgres_server import Postgres
from waiting import LIMIT, wait_until

SETTING = '--set=postgres.synchronous=true'
TTL = world.lease(20)


def several(*servers):
    where = ','.join(f'127.0.0.1:{server.port}' for server in servers)
    return f'postgres://postgres@{where}/postgres?client.backoff_max_ms=100'


@contextlib.contextmanager
def pair(w):
    """The server and its standby, for which the commits of those wait who want that."""
    standby = Postgres(of=w.postgres)
    try:
        wait_until('it streams', lambda: w.postgres.ask(
            "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") == '1')
        w.postgres.set('synchronous_commit', 'local')
        w.postgres.set('synchronous_standby_names', '*')
        wait_until('it is waited for', lambda: w.postgres.ask(
            "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == '1')
        yield standby
    finally:
        standby.stop()
        w.renew()  # also behind a test that failed


def installed(w):
    tap.equal('doctor', w.run('doctor', '--install', w.url)[0] in (0, 1), True)


def told(w, name, url):
    """The holder that a service names, and its token."""
    status, out, err = w.run('inspect', '--json', '--url', url, name)
    tap.equal(err, status, 0)
    return [(h['owner'], h['token']) for h in json.loads(out)['holders']]


def try_it(w, name, url):
    return w.run('run', '-n', '--url', url, name, '--', 'true')[0]


def loses_it(w, holder):
    wait_until('it is lost', lambda: holder.poll() is not None, 2 * LIMIT)  # of a lease: TTL
    status, _, err = w.finish(holder)
    tap.equal(err, (status, 'lost' in err), (75, True))


def renewed(server, name):
    """Once its lease has been moved after this."""
    before = server.ask(f"SELECT ends FROM dlock.holders WHERE name = '{name}'")
    wait_until('renewed', lambda: server.ask(
        f"SELECT ends > '{before}' FROM dlock.holders WHERE name = '{name}'") == 't')


def what_is_held_is_held_when_it_was_killed_and_starts_again(w):
    installed(w)
    holder, held = w.hold('kept', f'--ttl={TTL}', '--url', several(w.postgres))
    waiter = w.start('run', '--url', several(w.postgres), 'kept', '--', 'true')
    w.wait_for_waiters('kept', 1)
    w.postgres.kill()
    w.postgres.start()
    tap.equal('held', told(w, 'kept', w.url), [(held['owner'], held['token'])])
    tap.equal('nobody else has it', try_it(w, 'kept', w.url), 1)
    wait_until('waits again', lambda: w.postgres.ask(
        "SELECT count(*) FROM dlock.line l JOIN pg_stat_activity a USING (pid)") == '1')
    renewed(w.postgres, 'kept')
    w.let_go(holder)
    tap.equal('who waited', w.finish(waiter)[0], 0)
    after, next_one = w.hold('kept')
    tap.equal('tokens rise', next_one['token'] > held['token'], True)
    w.let_go(after)


def a_lease_ends_by_the_clock_while_the_server_is_away(w):
    installed(w)
    holder, _ = w.hold('left', '--ttl=2', '--url', several(w.postgres))
    w.postgres.kill()
    loses_it(w, holder)
    w.postgres.start()
    status, _, err = w.run('run', '-w', str(LIMIT), 'left', '--', 'true')
    tap.equal(err, status, 0)


def a_standby_that_takes_over_knows_every_grant_that_waited_for_it(w):
    installed(w)
    with pair(w) as standby:
        url = several(w.postgres, standby)
        holder, held = w.hold('moved', f'--ttl={TTL}', SETTING, '--url', url)
        tap.equal('the standby has it', standby.ask(
            "SELECT token FROM dlock.holders WHERE name = 'moved'"), str(held['token']))
        w.postgres.kill()
        standby.promote()
        standby.set('synchronous_standby_names', '')
        tap.equal('held', told(w, 'moved', several(w.postgres, standby)),
                  [(held['owner'], held['token'])])
        tap.equal('nobody else has it', try_it(w, 'moved', url), 1)
        plain, later = w.hold('other', '--url', url)
        tap.equal('tokens rise', later['token'] > held['token'], True)
        w.let_go(plain)
        loses_it(w, holder)  # it has nobody to wait for


def the_holder_goes_on_at_the_standby_that_took_over(w):
    installed(w)
    with pair(w) as standby:
        url = several(w.postgres, standby)
        w.postgres.set('synchronous_commit', 'on')
        holder, held = w.hold('followed', f'--ttl={TTL}', '--url', url)
        w.postgres.kill()
        standby.promote()
        standby.set('synchronous_standby_names', '')
        renewed(standby, 'followed')
        tap.equal('held', told(w, 'followed', url), [(held['owner'], held['token'])])
        w.let_go(holder)


def without_a_standby_a_grant_that_should_wait_is_none(w):
    installed(w)
    status, _, err = w.run('run', SETTING, 'alone', '--', 'true')
    tap.equal(err, (status, 'synchronous_standby_names' in err), (64, True))
    with pair(w) as standby:
        # It warns whoever connects that a collation isn't what it was.
        w.postgres.ask("UPDATE pg_database SET datcollversion = '0' WHERE datname = 'postgres'")
        status, _, err = w.run('run', SETTING, 'alone', '--', 'true')
        tap.equal(err, status, 0)
        standby.kill()
        status, _, err = w.run('run', SETTING, '--set=client.timeout_ms=1000', '-w', '3', 'alone',
                               '--', 'true')
        tap.equal(err, status != 0, True)


def a_renewal_that_waits_for_a_dead_standby_ends_with_the_lease(w):
    """By the holder's clock, and not when an answer is given up."""
    installed(w)
    with pair(w) as standby:
        holder, _ = w.hold('waits', '--ttl=2', SETTING, '--set=client.timeout_ms=600000')
        standby.kill()
        loses_it(w, holder)


def what_a_client_has_given_up_takes_none_of_the_servers_connections(w):
    """But for the one that waits for the standby, the others wait for its row."""
    installed(w)
    with pair(w) as standby:
        standby.kill()
        asks = w.start('run', SETTING, '--set=client.timeout_ms=500', 'stuck', '--', 'true')
        seen = set()

        def alive():
            pids = w.postgres.ask("SELECT pid FROM pg_stat_activity "
                                  "WHERE wait_event IN ('SyncRep', 'transactionid')").split()
            seen.update(pids)
            return len(pids)
        wait_until('many tries', lambda: alive() and len(seen) >= 10)
        wait_until('they are gone', lambda: alive() <= 5)
        tap.equal('it asks on', asks.poll(), None)
        asks.kill()
        asks.wait()


def who_has_nobody_to_wait_for_any_more_is_granted_nothing(w):
    """Not only who connects then."""
    installed(w)
    with pair(w):
        holder, _ = w.hold('short', '--ttl=2', SETTING)
        w.postgres.set('synchronous_standby_names', '')
        loses_it(w, holder)


def a_wait_for_the_standby_that_somebody_cancels_is_no_grant(w):
    installed(w)
    with pair(w) as standby:
        standby.kill()
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        asks = w.start('run', SETTING, '--set=client.timeout_ms=60000', 'doubted', '--', 'true')
        wait_until('it waits', lambda: w.postgres.ask(waiting) == '1')
        w.postgres.ask("SELECT pg_cancel_backend(pid) FROM pg_stat_activity "
                       "WHERE wait_event = 'SyncRep'")
        wait_until('it asks again', lambda: w.postgres.ask(waiting) == '1' or
                   asks.poll() is not None)
        tap.equal('not granted', asks.poll() == 0, False)
        asks.kill()
        asks.wait()


if __name__ == '__main__':
    sys.exit(world.main([
        what_is_held_is_held_when_it_was_killed_and_starts_again,
        a_lease_ends_by_the_clock_while_the_server_is_away,
        a_standby_that_takes_over_knows_every_grant_that_waited_for_it,
        the_holder_goes_on_at_the_standby_that_took_over,
        without_a_standby_a_grant_that_should_wait_is_none,
        a_renewal_that_waits_for_a_dead_standby_ends_with_the_lease,
        what_a_client_has_given_up_takes_none_of_the_servers_connections,
        who_has_nobody_to_wait_for_any_more_is_granted_nothing,
        a_wait_for_the_standby_that_somebody_cancels_is_no_grant,
    ]))

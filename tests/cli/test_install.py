"""doctor --install: what PostgreSQL needs is made, anew, or refused with what would help."""
import json
import subprocess
import sys

import tap
import world
from postgres_server import SCHEMA, program
from waiting import wait_until

DENIED = 77
UNSAFE = 1  # a server of the tests has fsync=off


def bare(w, name, *statements):
    """A database without the schema; then these statements, by its superuser. Its URL for one."""
    w.postgres.ask(f'CREATE DATABASE {name}')
    for statement in statements:
        w.postgres.ask(statement, name)
    return lambda user='postgres': w.postgres.url_of(user, name)


def install(w, url, status=UNSAFE):
    """Installs; what was said of that, or what was wrong."""
    got, out, err = w.run('doctor', '--install', '--json', url)
    tap.equal(f'{out} {err}', got, status)
    if status != UNSAFE:
        return err
    return next(f['text'] for f in json.loads(out)['findings'] if f['id'] == 'install')


def says(text, *parts):
    tap.equal(text, [part for part in parts if part not in text], [])


def lock(w, url):
    return w.run('run', '--url', url, 'installed', '--', 'true')


def without_the_schema_it_is_told_how_to_get_it(w):
    status, _, err = lock(w, w.url)
    tap.equal(err, (status, 'dlock doctor --install' in err), (64, True))


def it_is_made_with_its_roles_and_again_is_fine(w):
    says(install(w, w.url), 'version 2, is made', 'the role dlock_user and the role dlock_guard',
         'GRANT dlock_user')
    tap.equal('locks', lock(w, w.url)[0], 0)
    before = w.postgres.ask("SELECT oid, xmin FROM pg_proc WHERE proname = 'acquire'")
    says(install(w, w.url), 'nothing was done')
    tap.equal('untouched', w.postgres.ask(
        "SELECT oid, xmin FROM pg_proc WHERE proname = 'acquire'"), before)
    tap.equal('roles', w.postgres.ask(
        "SELECT count(*) FROM pg_roles WHERE rolname LIKE 'dlock%' AND NOT rolcanlogin"), '2')
    says(w.postgres.psql('-f', SCHEMA).stderr, 'NOTICE:', 'made anew')
    tap.equal('locks', lock(w, w.url)[0], 0)


def what_is_older_is_brought_up_to_date_and_what_is_held_stays(w):
    url = bare(w, 'older')()
    install(w, url)
    holder, held = w.hold('kept', '--url', url)
    w.postgres.ask("CREATE OR REPLACE FUNCTION dlock.version() RETURNS int LANGUAGE sql IMMUTABLE "
                   "AS 'SELECT 0'", 'older')
    tap.equal('an older one', lock(w, url)[0], 64)
    says(install(w, url), 'version 2', 'instead of version 0')
    tap.equal('still held', json.loads(w.run('inspect', '--json', '--url', url, 'kept')[1])
              ['holders'][0]['owner'], held['owner'])
    w.let_go(holder)


def what_the_owner_has_added_stays_as_it_is(w):
    bare(w, 'added')
    tap.equal('made', w.postgres.psql('-d', 'added', '-f', SCHEMA).returncode, 0)
    w.postgres.ask('CREATE FUNCTION dlock.report() RETURNS int LANGUAGE sql SECURITY DEFINER '
                   "AS 'SELECT 1'; CREATE PROCEDURE dlock.tidy() LANGUAGE sql SECURITY DEFINER "
                   "AS 'SELECT 1'", 'added')
    done = w.postgres.psql('-d', 'added', '-f', SCHEMA)
    tap.equal(f'again {done.stderr}', done.returncode, 0)
    tap.equal('with settings of ours', w.postgres.ask(
        "SELECT string_agg(proname, ' ' ORDER BY proname) FROM pg_proc WHERE pronamespace = "
        "'dlock'::regnamespace AND 'enable_seqscan=off' = ANY (proconfig)", 'added'),
        'acquire break check downgrade forget import inspect list listen release renew revoke '
        'signal use verify')
    tap.equal('what dlock_guard may call', w.postgres.ask(
        "SELECT string_agg(DISTINCT proname, ' ') FROM pg_proc WHERE pronamespace = "
        "'dlock'::regnamespace AND prokind = 'f' AND has_function_privilege('dlock_guard', oid, "
        "'EXECUTE')",
        'added'), 'check version')
    tap.equal('and dlock_user', w.postgres.ask(
        "SELECT string_agg(DISTINCT proname, ' ') FROM pg_proc WHERE pronamespace = "
        "'dlock'::regnamespace AND prokind = 'f' AND has_function_privilege('dlock_user', oid, "
        "'EXECUTE')",
        'added'), 'acquire break check downgrade forget import inspect list listen release renew '
        'revoke signal use verify version')


def what_is_newer_stays_as_it_is(w):
    url = bare(w, 'newer')()
    install(w, url)
    w.postgres.ask("CREATE OR REPLACE FUNCTION dlock.version() RETURNS int LANGUAGE sql IMMUTABLE "
                   "AS 'SELECT 1000'", 'newer')
    says(install(w, url, 64), '1000', 'newer libdlock')
    tap.equal('version', w.postgres.ask('SELECT dlock.version()', 'newer'), '1000')


def who_may_not_is_told_what_he_lacks(w):
    url = bare(w, 'denied', 'CREATE ROLE app LOGIN')
    says(install(w, url('app'), DENIED), 'app may not', 'GRANT CREATE ON DATABASE denied TO app')
    w.postgres.ask('GRANT CREATE ON DATABASE denied TO app')
    w.postgres.ask('ALTER ROLE dlock_guard RENAME TO away')
    says(install(w, url('app'), DENIED), 'no role dlock_guard', 'CREATE ROLE dlock_guard NOLOGIN')
    tap.equal('nothing is left of it', w.postgres.ask(
        "SELECT count(*) FROM pg_namespace WHERE nspname = 'dlock'", 'denied'), '0')
    w.postgres.ask('ALTER ROLE away RENAME TO dlock_guard')
    says(install(w, url('app')), 'is made')
    status, _, err = lock(w, url('app'))
    tap.equal(err, status, 0)  # it owns them


def an_owner_who_is_no_superuser_is_enough(w):
    url = bare(w, 'owned', 'CREATE ROLE keeper LOGIN CREATEROLE', 'CREATE ROLE clerk LOGIN',
               'ALTER DATABASE owned OWNER TO keeper')
    says(install(w, url('keeper')), 'is made')
    says(install(w, url('clerk'), DENIED), 'GRANT dlock_user TO')
    w.postgres.ask('GRANT dlock_user TO clerk')
    says(install(w, url('clerk')), 'nothing was done')
    status, _, err = lock(w, url('clerk'))
    tap.equal(err, status, 0)
    waiting = w.start('wait', '--signal', '--url', url('clerk'), 'word')
    wait_until('he signals', lambda: json.loads(w.run(
        'signal', '--json', '--url', url('clerk'), 'word')[1])['signalled'] == 1)
    tap.equal('woken', w.finish(waiting)[0], 0)


def a_schema_that_somebody_else_put_there_is_not_called(w):
    url = bare(w, 'trap', 'CREATE ROLE mallory LOGIN', 'GRANT CREATE ON DATABASE trap TO mallory',
               'SET ROLE mallory; CREATE SCHEMA dlock; CREATE FUNCTION dlock.version() RETURNS int '
               "LANGUAGE plpgsql AS $$ BEGIN ALTER ROLE mallory SUPERUSER; RETURN 1; END $$")
    says(install(w, url(), DENIED), 'belongs to mallory')
    is_no_superuser(w, 'mallory')


def is_no_superuser(w, user):
    tap.equal(user, w.postgres.ask(
        f"SELECT rolsuper FROM pg_roles WHERE rolname = '{user}'"), 'f')


def nor_one_that_looks_like_ours(w):
    """Its version() says 1 as ours does, and what is checked of that 1 is somebody else's."""
    url = bare(w, 'likeness', 'CREATE ROLE mimic LOGIN',
               'GRANT CREATE ON DATABASE likeness TO mimic',
               'SET ROLE mimic; CREATE SCHEMA dlock; CREATE FUNCTION dlock.evil() RETURNS boolean '
               'LANGUAGE plpgsql AS $$ BEGIN ALTER ROLE mimic SUPERUSER; RETURN true; END $$; '
               'CREATE DOMAIN dlock.one AS int CHECK (dlock.evil()); CREATE FUNCTION '
               "dlock.version() RETURNS dlock.one LANGUAGE sql AS 'SELECT 1'")
    says(install(w, url(), DENIED), 'belongs to mimic')
    is_no_superuser(w, 'mimic')


def what_somebody_put_into_our_schema_is_not_used(w):
    url = bare(w, 'cuckoo', 'CREATE ROLE cuckoo LOGIN', 'CREATE SCHEMA dlock',
               'GRANT USAGE, CREATE ON SCHEMA dlock TO cuckoo',
               'SET ROLE cuckoo; CREATE TABLE dlock.locks (name bytea PRIMARY KEY, id bigint, '
               'kind text, permits int)')
    says(install(w, url(), DENIED), 'something in it, belongs to cuckoo')


def what_others_have_in_public_is_not_called(w):
    """As their arguments fit better than those of PostgreSQL's own, these would be."""
    become = "BEGIN ALTER ROLE squatter SUPERUSER; RETURN"
    url = bare(w, 'squatted', 'CREATE ROLE squatter LOGIN',
               'GRANT CREATE ON SCHEMA public TO squatter',
               'SET ROLE squatter; CREATE FUNCTION public.unnest(text[]) RETURNS SETOF text '
               f"LANGUAGE plpgsql AS $$ {become} QUERY VALUES ('dlock_user'), ('dlock_guard'); "
               'END $$; CREATE FUNCTION public.convert_to(text, text) RETURNS bytea '
               f"LANGUAGE plpgsql AS $$ {become} ''; END $$; CREATE FUNCTION "
               'public.squat(oid, regprocedure) RETURNS boolean LANGUAGE plpgsql '
               f'AS $$ {become} true; END $$; CREATE OPERATOR public.= '
               '(FUNCTION = public.squat, LEFTARG = oid, RIGHTARG = regprocedure)')
    says(install(w, url()), 'is made')
    is_no_superuser(w, 'squatter')
    failed = w.postgres.psql('-d', 'squatted', '-c', "SELECT dlock.check('x'::text, 1)")
    says(failed.stderr, 'of x: this name was never granted')
    is_no_superuser(w, 'squatter')


def what_a_dump_has_not_is_made(w):
    """The roles are none of a database's."""
    url = bare(w, 'restored')()
    install(w, url)
    w.postgres.ask('ALTER ROLE dlock_guard RENAME TO elsewhere')
    says(install(w, url), 'made the role dlock_guard')
    w.postgres.ask('REVOKE USAGE ON SCHEMA dlock FROM dlock_user', 'restored')
    says(install(w, url), 'anew')
    says(install(w, url), 'nothing was done')


def the_roles_are_made_in_two_databases_at_once(w):
    """Each database has advisory locks of its own, and all have the same roles."""
    first, second = bare(w, 'twin')(), bare(w, 'other_twin')()
    for name in w.postgres.ask('SELECT datname FROM pg_database WHERE NOT datistemplate').split():
        w.postgres.ask('DROP SCHEMA IF EXISTS dlock CASCADE', name)
    w.postgres.ask('DROP ROLE dlock_user')
    with subprocess.Popen([program('psql'), '-X', '-q', '-A', '-t', '-d', first,
                           '-v', 'ON_ERROR_STOP=1'], text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdin.write("BEGIN; CREATE ROLE dlock_user NOLOGIN; SELECT 'made';\n")
        other.stdin.flush()
        tap.equal('the first', other.stdout.readline(), 'made\n')
        installs = w.start('doctor', '--install', '--json', second)
        wait_until('the second waits', lambda: installs.poll() is not None or w.postgres.ask(
            "SELECT count(*) FROM pg_locks WHERE NOT granted") == '1')
        other.communicate('COMMIT;\n')
    status, out, err = w.finish(installs)
    tap.equal(f'{out} {err}', status, UNSAFE)
    says(out, 'is made')


def a_name_with_control_characters_is_not_printed_as_it_is(w):
    url = bare(w, 'strange', 'CREATE ROLE "a\x1b[31mb\nc%d" LOGIN')
    err = install(w, url('a%1b%5b31mb%0ac%25d'), DENIED)
    says(err, 'c%d may not make it', 'GRANT CREATE ON DATABASE strange TO "a')
    tap.equal(err, ('\x1b' in err, err.count('\n')), (False, 1))


def elsewhere_there_is_nothing_to_install(w):
    status, _, err = w.run('doctor', '--install', f'file://{w.path("locks")}')
    tap.equal(err, (status, 'PostgreSQL' in err), (64, True))


if __name__ == '__main__':
    sys.exit(world.main([
        without_the_schema_it_is_told_how_to_get_it,
        it_is_made_with_its_roles_and_again_is_fine,
        what_is_older_is_brought_up_to_date_and_what_is_held_stays,
        what_the_owner_has_added_stays_as_it_is,
        what_is_newer_stays_as_it_is,
        who_may_not_is_told_what_he_lacks,
        an_owner_who_is_no_superuser_is_enough,
        a_schema_that_somebody_else_put_there_is_not_called,
        nor_one_that_looks_like_ours,
        what_somebody_put_into_our_schema_is_not_used,
        what_others_have_in_public_is_not_called,
        what_a_dump_has_not_is_made,
        the_roles_are_made_in_two_databases_at_once,
        a_name_with_control_characters_is_not_printed_as_it_is,
        elsewhere_there_is_nothing_to_install,
    ]))

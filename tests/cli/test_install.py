"""doctor --install: what PostgreSQL needs is made, anew, or refused with what would help."""
import json
import sys

import tap
import world
from postgres_server import SCHEMA

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
    says(install(w, w.url), 'version 1, is made', 'the role dlock_user and the role dlock_guard',
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
    says(install(w, url), 'version 1', 'instead of version 0')
    tap.equal('still held', json.loads(w.run('inspect', '--json', '--url', url, 'kept')[1])
              ['holders'][0]['owner'], held['owner'])
    w.let_go(holder)


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


def a_schema_that_somebody_else_put_there_is_not_called(w):
    url = bare(w, 'trap', 'CREATE ROLE mallory LOGIN', 'GRANT CREATE ON DATABASE trap TO mallory',
               'SET ROLE mallory; CREATE SCHEMA dlock; CREATE FUNCTION dlock.version() RETURNS int '
               "LANGUAGE plpgsql AS $$ BEGIN ALTER ROLE mallory SUPERUSER; RETURN 1; END $$")
    says(install(w, url(), DENIED), 'belongs to mallory')
    tap.equal('mallory', w.postgres.ask(
        "SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'"), 'f')


def elsewhere_there_is_nothing_to_install(w):
    status, _, err = w.run('doctor', '--install', f'file://{w.path("locks")}')
    tap.equal(err, (status, 'PostgreSQL' in err), (64, True))


if __name__ == '__main__':
    sys.exit(world.main([
        without_the_schema_it_is_told_how_to_get_it,
        it_is_made_with_its_roles_and_again_is_fine,
        what_is_older_is_brought_up_to_date_and_what_is_held_stays,
        what_is_newer_stays_as_it_is,
        who_may_not_is_told_what_he_lacks,
        an_owner_who_is_no_superuser_is_enough,
        a_schema_that_somebody_else_put_there_is_not_called,
        elsewhere_there_is_nothing_to_install,
    ]))

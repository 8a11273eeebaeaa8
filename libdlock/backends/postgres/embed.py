#!/usr/bin/env python3
"""Makes a C text of the schema: embed.py SCHEMA.sql OUTPUT.c

It is one statement, as several can't be sent at once, so its transaction is that statement's. It
does nothing where the schema is that already: who may not install it may connect all the same.
Who may has it made anew where a role has no rights, as in what pg_dump has of a database, and a
superuser has it judged where it isn't a superuser's. dlock.version() isn't called to find out, but
looked at: somebody may have put it there for us to call.
"""
import re
import sys
from pathlib import Path

source, output = map(Path, sys.argv[1:])
lines = source.read_text(encoding='ascii').splitlines()
assert lines.count('BEGIN;') == lines.count('COMMIT;') == 1
text = '\n'.join(line for line in lines if line not in ('BEGIN;', 'COMMIT;'))
version = re.search(r"FUNCTION dlock.version.*\n.* AS '(.*)';", text)[1]
statement = f"""DO $install$ BEGIN
PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
IF (SELECT p.prosrc FROM pg_proc p WHERE p.oid = to_regprocedure('dlock.version()'))
    IS DISTINCT FROM '{version}'
    OR EXISTS (SELECT FROM pg_namespace n JOIN pg_roles o ON o.oid = n.nspowner
        JOIN pg_roles me ON me.rolname = current_user
        WHERE n.nspname = 'dlock' AND (me.rolsuper OR me.oid = o.oid)
            AND (me.rolsuper > o.rolsuper
            OR has_schema_privilege(to_regrole('dlock_user')::oid, n.oid, 'USAGE') IS NOT TRUE
            OR has_schema_privilege(to_regrole('dlock_guard')::oid, n.oid, 'USAGE') IS NOT TRUE))
THEN
PERFORM set_config('client_min_messages', 'notice', true);
EXECUTE $schema$
{text}
$schema$;
END IF;
END $install$"""
codes = ', '.join(str(byte) for byte in statement.encode())
output.write_text('/* Made by embed.py from schema.sql. */\n'
                  '#include "backends/postgres/inner.h"\n\n'
                  f'const char dlk_pg_schema[] = {{{codes}, 0}};\n')

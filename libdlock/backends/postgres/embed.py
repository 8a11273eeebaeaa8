#!/usr/bin/env python3
"""Makes a C text of the schema: embed.py SCHEMA.sql OUTPUT.c

It is one statement, as several can't be sent at once, so its transaction is that statement's. It
does nothing where the schema is that already: who may not install it may connect all the same.
dlock.version() isn't called to find out, but looked at: somebody may have put it there for us
to call.
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
IF (SELECT p.prosrc FROM pg_proc p WHERE p.oid = to_regprocedure('dlock.version()'))
    IS DISTINCT FROM '{version}' THEN
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

#!/usr/bin/env python3
"""Makes a C table of Lua scripts: embed.py OUTPUT.c SCRIPT.lua…

Each script becomes an entry of dlk_redis_scripts, in the order given, with its SHA-1, which is
what EVALSHA calls it by. Comments and indentation stay out: the text travels to the server.
"""
import hashlib
import re
import sys
from pathlib import Path


def main():
    output, *scripts = sys.argv[1:]
    out = ['/* Made by embed.py from the .lua files. */', '#include "backends/redis/scripts.h"', '']
    table = []
    for path in map(Path, scripts):
        lines = (re.sub(r'\s*--.*', '', line).strip() for line in path.read_text().splitlines())
        text = '\n'.join(line for line in lines if line)
        sha1 = hashlib.sha1(text.encode()).hexdigest()
        codes = ', '.join(str(byte) for byte in text.encode())
        out.append(f'static const char {path.stem}_text[] = {{{codes}, 0}};')
        size = f'sizeof({path.stem}_text) - 1'
        table.append(f'    {{"{path.stem}", {path.stem}_text, {size}, "{sha1}"}},')
    out += ['', 'const dlk_redis_script dlk_redis_scripts[] = {', *table, '};', '']
    Path(output).write_text('\n'.join(out))


if __name__ == '__main__':
    main()

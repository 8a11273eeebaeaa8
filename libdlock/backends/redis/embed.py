#!/usr/bin/env python3
"""Makes a C table of Lua scripts: embed.py DEPENDENCIES OUTPUT.c SCRIPT.lua…

Each script becomes an entry of dlk_redis_scripts, in the order given, with its SHA-1, which is
what EVALSHA calls it by. Behind them stands, for each renew.lua among them, what many.lua makes of
it: the same for many locks. "--@include FILE" stands for a file of the folder scripts/, the
first time that a script comes upon it: behind what most calls are done with, as each call makes the
functions that stand before its end, and within a block for that alone. Comments and indentation
stay out: the text travels to the server. DEPENDENCIES says, for ninja, all that has been read: a
list by hand had gaps.
"""
import hashlib
import re
import sys
from pathlib import Path


def plain(text):
    lines = (re.sub(r'\s*--.*', '', line).strip() for line in text.splitlines())
    return '\n'.join(line for line in lines if line)


been_read = set()


def read(path):
    been_read.add(path)
    return path.read_text()


def text_of(path, included=None):
    included = set() if included is None else included
    lines = []
    for line in map(str.strip, read(path).splitlines()):
        if line.startswith('--@include '):
            scripts = next(folder for folder in path.parents if folder.name == 'scripts')
            file = scripts / line.split()[1]
            if file not in included:
                included.add(file)
                lines.append(text_of(file, included))
        else:
            lines.append(plain(line))
    return '\n'.join(line for line in lines if line)


def entries(texts):
    """One array of all texts, at its beginning what a client sends by itself: nothing else of it
    need become resident for most programs."""
    first = ('handover_', 'scripts_probe', 'scripts_say')
    usual = [name for name in texts if name.startswith(first)]
    lines, at, offsets = [], 0, {}
    for name in [*usual, *(name for name in texts if name not in usual)]:
        code = texts[name].encode() + b'\0'
        offsets[name] = at
        at += len(code)
        lines.append(f'    /* {name} */ {", ".join(map(str, code))},')
    table = [f'    {{"{name}", texts + {offsets[name]}, {len(text.encode())}, '
             f'"{hashlib.sha1(text.encode()).hexdigest()}"}},' for name, text in texts.items()]
    return ['static const char texts[] = {', *lines, '};', '',
            'const dlk_redis_script dlk_redis_scripts[] = {', *table, '};',
            f'const size_t dlk_redis_script_count = {len(table)};']


def many(path):
    """The text that renews many locks as this script renews one."""
    whole = read(path.parent.parent / 'many.lua')
    head, tail = whole.split('--@body')
    return '\n'.join([plain(head), text_of(path), plain(tail)])


def main():
    dependencies, output, *scripts = sys.argv[1:]
    texts = {f'{path.parent.name}_{path.stem}': text_of(path) for path in map(Path, scripts)}
    for path in map(Path, scripts):
        if path.name == 'renew.lua':
            texts[f'{path.parent.name}_renew_many'] = many(path)
    Path(output).write_text('\n'.join([
        '/* Made by embed.py from the .lua files. */', '#include "backends/redis/scripts.h"', '',
        *entries(texts), '']))
    needs = ' '.join(str(path).replace(' ', '\\ ') for path in sorted(been_read))
    Path(dependencies).write_text(f'{output}: {needs}\n')


if __name__ == '__main__':
    main()

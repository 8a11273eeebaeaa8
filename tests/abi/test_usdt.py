"""The probes of libdlock.so: those that util/probe.h tells of, or none; the scripts use them.

test_usdt.py LIBRARY yes|no SOURCE CC…
"""
import os
import re
import subprocess
import sys
import tempfile

import tap

LIBRARY, EXPECTED, SOURCE, *CC = sys.argv[1:]
HEADER = os.path.join(SOURCE, 'libdlock/util/probe.h')


def told():
    """Each probe that the header's comment tells of, and how many arguments it has."""
    with open(HEADER, encoding='utf-8') as file:
        lines = re.findall(r'^ \*   (\w+) +(.*)$', file.read(), re.M)
    return {name: len(what.split(': ')[0].split(',')) for name, what in lines}


def notes(path):
    """The same of an object file, by readelf."""
    done = subprocess.run(['readelf', '-n', '-W', path], check=True, capture_output=True, text=True)
    found = {}
    for provider, name, arguments in re.findall(
            r'Provider: (\S+)\s+Name: (\S+)\s+Location:.*\s+Arguments:(.*)', done.stdout):
        tap.equal('provider', provider, 'dlock')
        found[name] = len(re.findall(r'-?\d+@', arguments))
    tap.equal('.note.stapsdt', bool(found), 'stapsdt' in done.stdout)
    return found


def the_library_has_the_probes_that_were_asked_for():
    tap.equal(LIBRARY, notes(LIBRARY), told() if EXPECTED == 'yes' else {})


def a_build_without_them_has_no_trace():
    """Neither of the note nor of the arguments."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = os.path.join(folder, 'one.c'), os.path.join(folder, 'one.o')
        with open(source, 'w', encoding='ascii') as file:
            file.write('#include "util/probe.h"\nint seen(void);\n'
                       'void probed(void);\nvoid probed(void) { DLK_PROBE2(wait, seen(), 1); }\n')
        builds = [('-UDLK_WITH_USDT', 0)] + [('-DDLK_WITH_USDT', 1)] * (EXPECTED == 'yes')
        for define, count in builds:
            subprocess.run([*CC, '-O2', f'-I{SOURCE}/libdlock', define, '-c', source, '-o', out],
                           check=True)
            tap.equal(define, len(notes(out)), count)
            names = subprocess.run(['nm', out], check=True, capture_output=True, text=True).stdout
            tap.equal(f'{define} asks for arguments', ' U seen' in names, count == 1)


def the_scripts_use_probes_and_arguments_that_are_there():
    folder = os.path.join(SOURCE, 'tools/trace')
    names = [name for name in os.listdir(folder) if name.endswith('.bt')]
    tap.equal('scripts', len(names), 3)
    used = set()
    for name in names:
        with open(os.path.join(folder, name), encoding='utf-8') as file:
            text = re.sub(r'/\*.*?\*/', '', file.read(), flags=re.S)
        clauses = re.split(r'^usdt:\S+:dlock:', text, flags=re.M)[1:]
        for clause in clauses:
            probe = re.match(r'\w+', clause)[0]
            used.add(probe)
            body = re.split(r'^(?:interval|END)', clause, flags=re.M)[0]
            most = max(int(number) for number in re.findall(r'\barg(\d)', body))
            tap.equal(f'{name}: {probe} has arg{most}', most < told().get(probe, 0), True)
    tap.equal('not one is left out', used, set(told()))


if __name__ == '__main__':
    sys.exit(tap.main([(test.__name__, test) for test in (
        the_library_has_the_probes_that_were_asked_for,
        a_build_without_them_has_no_trace,
        the_scripts_use_probes_and_arguments_that_are_there)]))

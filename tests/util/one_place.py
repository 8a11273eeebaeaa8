"""What the tests share that say where in libdlock/ something may stand."""
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])


def lines_of(pattern, allowed, clean=lambda text: text):
    """(file, number, line) of the code in libdlock/ that isn't in an allowed file: without
    comments, and then as @clean makes it."""
    for path in sorted((ROOT / 'libdlock').rglob(pattern)):
        name = path.relative_to(ROOT).as_posix()
        if name in allowed:
            continue
        text = re.sub(r'/\*.*?\*/', lambda m: '\n' * m.group().count('\n'), path.read_text(),
                      flags=re.S)
        for number, line in enumerate(clean(text).split('\n'), 1):
            yield name, number, line.strip()


def conclude(promise, strays):
    """Says what was found, as one test, and ends the program."""
    found = [f'{name}:{number}: {line}' for name, number, line in strays]
    print('1..1')
    for line in found:
        print(f'# {line}')
    print(f'{"not ok" if found else "ok"} 1 - {promise}')
    sys.exit(bool(found))

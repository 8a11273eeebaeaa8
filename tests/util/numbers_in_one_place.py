"""Numbers from outside are read in one place: util/number.c, which knows limits and overflow.
Whoever reads one by other means is named here with the line."""
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])

READERS = re.compile(r'\b(strto(?:l|ll|ul|ull|d|f|ld|imax|umax)|ato[ilfq]|atoll|v?f?s?scanf|'
                     r'json_integer_value)\s*\(')
ALLOWED = {
    'libdlock/backends/etcd/failure.c',       # OpenSSL's error, hexadecimal, in libcurl's words
    'libdlock/backends/etcd/json.c',          # whole numbers of 64 bits, by jansson
    'libdlock/backends/zookeeper/uuid.c',     # hexadecimal digits that it has counted
    'libdlock/backends/zookeeper/library.c',  # the names in /proc/self/fd
}


def code_of(text):
    """Without comments, line by line as before."""
    return re.sub(r'/\*.*?\*/', lambda m: '\n' * m.group().count('\n'), text, flags=re.S)


def strays():
    for path in sorted((ROOT / 'libdlock').rglob('*.[ch]')):
        name = path.relative_to(ROOT).as_posix()
        if name in ALLOWED:
            continue
        for number, line in enumerate(code_of(path.read_text()).split('\n'), 1):
            if READERS.search(line):
                yield f'{name}:{number}: {line.strip()}'


found = list(strays())
print('1..1')
for line in found:
    print(f'# {line}')
print(f'{"not ok" if found else "ok"} 1 - numbers_from_outside_are_read_in_one_place')
sys.exit(bool(found))

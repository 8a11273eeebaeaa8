#!/usr/bin/env python3
"""Another fuzzer's inputs may be longer than fuzz_longest, which only our own driver keeps to: no
target may run over a buffer of its own.

    test_long.py fuzz_uri fuzz_ticket ...
"""
import subprocess
import sys
import tempfile
from pathlib import Path

SIZES = (5_000, 1 << 20)

failed = False
with tempfile.TemporaryDirectory() as name:
    paths = []
    for size in SIZES:
        for letter in (b'A', b'.'):
            path = Path(name) / f'{size}{letter.hex()}'
            path.write_bytes(letter * size)
            paths.append(path)
    for number, program in enumerate(sys.argv[1:], 1):
        ran = subprocess.run([program, *paths], capture_output=True, text=True, errors='replace',
                             timeout=120, check=False)
        fine = ran.returncode == 0
        failed |= not fine
        print(f'{"" if fine else "not "}ok {number} - '
              f'{Path(program).name.removeprefix("fuzz_")}_takes_inputs_of_any_length')
        if not fine:
            print(*(f'# {line}' for line in ran.stderr.splitlines()[:20]), sep='\n')
print(f'1..{len(sys.argv) - 1}')
sys.exit(failed)

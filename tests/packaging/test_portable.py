"""tools/portable, in a folder of its own: musl, or macos."""
import sys
import tempfile
from pathlib import Path

import tap

TOP = Path(__file__).resolve().parent.parent.parent
WHAT = sys.argv[1]


def test_it_compiles_elsewhere():
    with tempfile.TemporaryDirectory() as work:
        print('#', tap.run([TOP / 'tools' / 'portable', WHAT, work + '/build']).strip())


if __name__ == '__main__':
    sys.exit(tap.main([(f'a_portable_build_does_on_{WHAT}', test_it_compiles_elsewhere)]))

"""Nothing that libdlock or its Python package allocates is lost: valgrind's word for it."""
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

from world import new_file, shared_redis

TIMES = 40


class Leaks(unittest.TestCase):
    def lost(self, url, times, *more):
        """Bytes definitely lost in blocks whose allocation went through the native module."""
        with tempfile.TemporaryDirectory(prefix='dlock-py-') as folder:
            report = Path(folder, 'report.xml')
            done = subprocess.run(
                ['valgrind', '--leak-check=full', '--show-leak-kinds=definite', '--num-callers=40',
                 '--xml=yes', f'--xml-file={report}', sys.executable,
                 Path(__file__).with_name('leaky.py'), url, str(times), *more],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                env={**os.environ, 'PYTHONMALLOC': 'malloc'})
            self.assertEqual(done.returncode, 0, done.stderr)
            errors = xml.parse(report).findall('error')
        ours = [error for error in errors
                if any('_native' in (frame.findtext('obj') or '') for frame in error.iter('frame'))]
        for error in ours:
            print('#', error.findtext('kind'), error.findtext('xwhat/text') or
                  error.findtext('what'))
            for frame in list(error.iter('frame'))[:14]:
                print('#    ', frame.findtext('fn'), frame.findtext('file'))
        return ours

    def test_nothing_is_lost_in_memory(self):
        self.assertEqual(self.lost('mem:', TIMES), [])

    def test_nothing_is_lost_in_a_file(self):
        self.assertEqual(self.lost(new_file(), TIMES), [])

    def test_nothing_is_lost_on_redis(self):
        self.assertEqual(self.lost(shared_redis().url, TIMES), [])

    def test_what_is_lost_on_purpose_is_found(self):
        self.assertNotEqual(self.lost('mem:', 1, 'plant'), [])

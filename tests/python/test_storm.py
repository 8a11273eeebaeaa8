"""Threads, tasks and processes on the same locks, cancelled, interrupted and killed: see storm.py.

DLK_STORM_S is how long each runs, in seconds.
"""
import json
import os
import random
import subprocess
import sys
import unittest
from pathlib import Path

from world import new_file, shared_redis

SECS = float(os.environ.get('DLK_STORM_S', '5'))


class Storm(unittest.TestCase):
    def storm(self, url):
        seed = random.randrange(1000)
        # An interrupt between a call and its "with" leaves something to the garbage collector.
        done = subprocess.run(
            [sys.executable, '-W', 'error', '-W', 'ignore::ResourceWarning', '-X',
             'faulthandler', Path(__file__).with_name('storm.py'), url, str(SECS), str(seed)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=SECS + 120)
        self.assertEqual((done.returncode, done.stderr), (0, ''), f'seed {seed}')
        seen = json.loads(done.stdout)
        print(f'# {url.split(":")[0]}, {SECS:.0f} s, seed {seed}: {seen}')
        self.assertEqual({key: seen[key] for key in ('overlaps', 'left', 'waiting',
                                                     'workers_failed', 'held')},
                         {'overlaps': 0, 'left': [], 'waiting': 0, 'workers_failed': 0,
                          'held': False})
        for what in ('visits', 'cancelled', 'interrupted', 'killed'):
            self.assertGreater(seen[what], 0, what)

    def test_on_a_file_nobody_overlaps_and_nothing_is_left(self):
        self.storm(new_file())

    def test_on_redis_nobody_overlaps_and_nothing_is_left(self):
        self.storm(shared_redis().url)

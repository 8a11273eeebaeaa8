"""The pytest plugin, used as a project of a user's would."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

USERS_TESTS = '''
import dlock
import pytest


def test_locks_work_without_a_server(dlock_memory):
    with dlock_memory.client.lock('a', ttl=30) as held:
        assert held.token > 0
        assert not dlock_memory.new_client().lock('a').acquire(blocking=False)


def test_nothing_is_left_of_another_test(dlock_memory):
    assert not dlock_memory.client.lock('a').locked()


def test_an_expired_lock_is_lost_and_the_next_one_has_it(dlock_memory):
    told = []
    other = dlock_memory.new_client().lock('a')
    with pytest.raises(dlock.LostError):
        with dlock_memory.client.lock('a') as held:
            held.on_lost(told.append)
            dlock_memory.expire('a')
            assert held.state == 'lost' and held.remaining == 0
            with pytest.raises(dlock.LostError):
                held.check()
            with other as next_one:
                assert next_one.token > held.token
    assert told == [held]


def test_a_paused_holder_notices_only_when_it_goes_on(dlock_memory):
    other = dlock_memory.new_client().lock('a')
    with pytest.raises(dlock.LostError):
        with dlock_memory.client.lock('a') as held:
            with dlock_memory.pause_holder('a'):
                with other as next_one:
                    assert next_one.token > held.token
                held.check()    # it doesn't know yet: only the token protects
            assert held.lost


def test_a_client_that_is_cut_off_says_so(dlock_memory):
    lock = dlock_memory.client.lock('a')
    with dlock_memory.partition():
        with pytest.raises(ConnectionError):
            lock.acquire(timeout=1)
        with dlock_memory.new_client().lock('a').hold(timeout=30):
            pass
    assert lock.acquire(blocking=False)
    lock.release()


def test_what_nobody_holds_cannot_expire(dlock_memory):
    with pytest.raises(dlock.NotHeldError):
        dlock_memory.expire('a')


def test_a_failing_test_is_one(dlock_memory):
    assert dlock_memory.client.lock('a').locked()
'''


class Plugin(unittest.TestCase):
    def test_the_fixture_and_its_faults_do_what_they_say(self):
        with tempfile.TemporaryDirectory(prefix='dlock-py-') as folder:
            Path(folder, 'test_users.py').write_text(USERS_TESTS)
            done = subprocess.run(
                [sys.executable, '-W', 'error', '-m', 'pytest', '-q', '-p', 'no:cacheprovider',
                 'test_users.py'],
                cwd=folder, env={**os.environ, 'PYTHONDONTWRITEBYTECODE': '1'},
                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            said = done.stdout + done.stderr
            self.assertTrue('1 failed, 6 passed' in said and
                            'FAILED test_users.py::test_a_failing_test_is_one' in said, said)

    def test_it_comes_with_the_package(self):
        said = subprocess.run(
            [sys.executable, '-c', 'import importlib.metadata as m, json; print(json.dumps('
             '[e.value for e in m.entry_points(group="pytest11")]))'],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout
        self.assertIn('dlock.pytest_plugin', json.loads(said))

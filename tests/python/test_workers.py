"""Under the process models of others: gunicorn's prefork, multiprocessing, pools of workers."""
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.request
from pathlib import Path

import dlock
from world import new_file, new_name, shared_redis, wait_until

TIMES = 25


def add_one(path):
    """What needs a lock: read, and write one more."""
    number = int(path.read_text() or 0)
    path.write_text(str(number + 1))


def work(url, name, path, times):
    """In a process of its own: a client of its own."""
    with dlock.Client(url) as client:
        for _ in range(times):
            with client.lock(name):
                add_one(path)


_client = None


def start_worker(url):
    """As Celery's worker_process_init: each process of the pool opens its client once."""
    global _client
    _client = dlock.Client(url)


def task(name, path):
    with _client.lock(name, ttl=30) as held:
        add_one(path)
        return held.token


def inherit(lock, answers):
    """In a fork's child: what the parent made isn't ours, and says so."""
    try:
        lock.acquire()
    except dlock.ForkedError as why:
        answers.put(str(why))
    else:
        answers.put('acquired')


CONF = '''
import served


def post_fork(server, worker):
    served.client = served.dlock.Client(served.URL)


def worker_exit(server, worker):
    served.client.close()
'''

SERVED = '''
from pathlib import Path

import dlock

URL, NAME, NUMBER = {url!r}, {name!r}, Path({path!r})
client = None


def app(environ, start_response):
    with client.lock(NAME, ttl=30):
        NUMBER.write_text(str(int(NUMBER.read_text()) + 1))
    start_response('200 OK', [('Content-Type', 'text/plain')])
    return [b'done']
'''


class Workers(unittest.TestCase):
    url = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='dlock-py-')
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.path = self.folder / 'number'
        self.path.write_text('0')
        self.url = shared_redis().url

    def processes(self, method, url):
        context, name = multiprocessing.get_context(method), new_name()
        with dlock.Client(url) as client:   # the parent has one, too, with its threads
            started = [context.Process(target=work, args=(url, name, self.path, TIMES))
                       for _ in range(4)]
            for process in started:
                process.start()
            for _ in range(TIMES):
                with client.lock(name):
                    add_one(self.path)
            for process in started:
                process.join()
        self.assertEqual([process.exitcode for process in started], [0] * 4)
        self.assertEqual(self.path.read_text(), str(5 * TIMES))

    def test_forked_processes_count_right_on_redis(self):
        self.processes('fork', self.url)

    def test_spawned_processes_count_right_on_redis(self):
        self.processes('spawn', self.url)

    def test_forked_processes_count_right_on_a_file(self):
        self.processes('fork', new_file())

    def test_spawned_processes_count_right_on_a_file(self):
        self.processes('spawn', new_file())

    def test_a_pool_of_workers_serves_tasks_each_with_its_own_client(self):
        name = new_name()
        for method in ('fork', 'spawn'):
            self.path.write_text('0')
            context = multiprocessing.get_context(method)
            with context.Pool(3, start_worker, [self.url]) as pool:
                tokens = pool.starmap(task, [(name, self.path)] * 60, chunksize=1)
                pool.close()
                pool.join()
            self.assertEqual(self.path.read_text(), '60')
            self.assertEqual(len(set(tokens)), 60)

    def test_what_a_forked_process_inherits_says_so(self):
        context = multiprocessing.get_context('fork')
        answers = context.Queue()
        with dlock.Client(self.url) as client:
            lock = client.lock(new_name())
            with lock as held:
                child = context.Process(target=inherit, args=(lock, answers))
                child.start()
                self.assertIn('parent', answers.get(timeout=60))
                child.join()
                held.verify()

    def test_gunicorn_serves_with_a_client_in_each_worker(self):
        (self.folder / 'conf.py').write_text(CONF)
        (self.folder / 'served.py').write_text(
            SERVED.format(url=self.url, name=new_name(), path=str(self.path)))
        log = open(self.folder / 'log', 'wb')
        self.addCleanup(log.close)
        server = subprocess.Popen(
            [sys.executable, '-m', 'gunicorn', '--preload', '--workers=3', '--threads=2',
             '--config=conf.py', '--bind=127.0.0.1:0', 'served:app'],
            cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env={**os.environ, 'PYTHONDONTWRITEBYTECODE': '1',
                 'PYTHONPATH': os.pathsep.join([str(self.folder), *sys.path])})
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)

        def address():
            self.assertIsNone(server.poll(), (self.folder / 'log').read_text())
            said = (self.folder / 'log').read_text()
            if 'Listening at: ' not in said:
                return None
            return said.split('Listening at: ')[1].split()[0]

        url = wait_until('gunicorn listens', address)
        for _ in range(60):
            with urllib.request.urlopen(url, timeout=60) as answer:
                self.assertEqual(answer.read(), b'done')
        self.assertEqual(self.path.read_text(), '60')
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(60), 0)
        self.assertNotIn('Error', (self.folder / 'log').read_text())

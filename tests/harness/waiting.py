"""Waiting for what is sure to come."""
import os
import threading
import time

SLOW = 4 if os.environ.get('DLK_TEST_SLOW') else 1
LIMIT = 20 * SLOW  # seconds until something that should happen counts as not happening


def wait_until(what, condition, limit=LIMIT):
    """Polls a condition; returns its first true value."""
    end = time.monotonic() + limit
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f'not within {limit} s: {what}')
        time.sleep(0.005)
    return value


def in_threads(functions):
    """Runs each in a thread of its own, and waits for all."""
    threads = [threading.Thread(target=run) for run in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

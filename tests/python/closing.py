"""A plugin for pytest: after each test what a failing one left held is given back."""
from dlock.compat import redis


def pytest_runtest_logfinish():
    redis.close()

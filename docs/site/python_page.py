"""The Python reference: Sphinx reads the docstrings by itself."""
HEAD = '''\
Python
======

How to begin is in :doc:`how to use dlock from Python </how-to/python>`. :doc:`Settings <settings>`
are keyword arguments: ``redis_layout="string"`` is ``redis.layout``; ``lock.`` and ``client.`` may
be left out, and ``ttl=30`` is ``lock.ttl_ms`` in seconds. Calls are for any thread, if nothing else
is said.
'''
MODULES = ('dlock', 'dlock.aio', 'dlock.compat.redis', 'dlock.compat.kazoo',
           'dlock.pytest_plugin', 'dlock.prometheus', 'dlock.opentelemetry')


def page():
    text = [HEAD]
    for name in MODULES:
        text += [name, '-' * len(name), '', f'.. automodule:: {name}', '   :members:']
        if name in ('dlock', 'dlock.aio'):
            text += ['   :imported-members:',
                     '   :inherited-members: OSError, RuntimeError, Exception, BaseException']
        text += ['']
    return '\n'.join(text)

"""A real terminal for tests: tmux, of which each step waits until the screen is as it should be.

A server of its own for each terminal, at a socket of its own, without anybody's settings.
"""
import os
import shutil
import subprocess
import tempfile

import tap
from waiting import wait_until


class Screen:
    def __init__(self, *command, width=80, height=24, **environment):
        """Runs a command in a terminal of this size; a variable that is None isn't there."""
        if shutil.which('tmux') is None:
            raise tap.Skip('tmux is not installed')
        self.directory = tempfile.mkdtemp(prefix='dlock-tmux-')
        gone = [f'-u{name}' for name, value in environment.items() if value is None]
        there = [f'{name}={value}' for name, value in environment.items() if value is not None]
        self.tmux('new-session', '-d', '-x', str(width), '-y', str(height),
                  'env', *gone, *there, *command)

    def tmux(self, *words):
        """tmux itself speaks UTF-8, whatever the program in it does."""
        clean = {k: v for k, v in os.environ.items() if k not in ('TMUX', 'TMUX_PANE')}
        return tap.run(['tmux', '-u', '-f', '/dev/null', '-S', f'{self.directory}/socket', *words],
                       env={**clean, 'LC_ALL': 'C.UTF-8'})

    def text(self, *options):
        return self.tmux('capture-pane', '-p', *options)

    def lines(self):
        return self.text().split('\n')

    def type(self, *keys):
        """Keys by tmux' names, Up and Enter and so on; else what is to be typed."""
        self.tmux('send-keys', *keys)

    def resize(self, width, height):
        self.tmux('resize-window', '-x', str(width), '-y', str(height))

    def pid(self):
        return int(self.tmux('display-message', '-p', '#{pane_pid}'))

    def wait(self, what, condition):
        """Waits until condition(the screen's text) holds; returns that text. What doesn't come
        fails with the screen as it is."""
        seen = ['']

        def look():
            seen[0] = self.text()
            return condition(seen[0])
        try:
            wait_until(what, look)
        except AssertionError as late:
            raise AssertionError(f'{late}; the screen:\n{seen[0]}') from late
        return seen[0]

    def wait_for(self, *texts):
        return self.wait(f'{texts} on the screen', lambda text: all(t in text for t in texts))

    def wait_without(self, *texts):
        return self.wait(f'{texts} off the screen', lambda text: not any(t in text for t in texts))

    def close(self):
        try:
            self.tmux('kill-server')
        except AssertionError:
            pass  # it ends with its last command
        shutil.rmtree(self.directory, ignore_errors=True)

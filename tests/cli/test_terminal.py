"""dlock run at a terminal: the command has it, and the shell's job control works.

Each test runs a shell with job control on a pseudo-terminal of its own and types into it.
"""
import os
import pty
import select
import signal
import time

import tap
import world
from world import LIMIT, beside, lease


class Terminal:
    """An interactive shell whose keyboard and screen are ours."""

    def __init__(self, w):
        self.w = w
        self.screen = ''
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            environment = w.environment(PS1='prompt> ', TERM='dumb', LC_ALL='C',
                                        DLOCK=world.EXECUTABLE)
            os.execvpe('bash', ['bash', '--norc', '--noprofile', '--noediting', '-i'], environment)
        self.read_until('prompt> ')

    def type(self, text):
        os.write(self.fd, text.encode())

    def read_until(self, text):
        """Reads the screen until the text appears; returns what came up to it."""
        end = time.monotonic() + LIMIT
        while text not in self.screen:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                raise AssertionError(f'{text!r} does not appear; the screen: {self.screen!r}')
            try:
                self.screen += os.read(self.fd, 4096).decode(errors='replace').replace('\r', '')
            except OSError as gone:
                raise AssertionError(f'the shell is gone; the screen: {self.screen!r}') from gone
        before, _, self.screen = self.screen.partition(text)
        return before

    def command(self, line):
        """Types a line, waits for the next prompt, returns what was printed between."""
        self.type(line + '\n')
        self.read_until('\n')
        return self.read_until('prompt> ')

    def close(self):
        os.close(self.fd)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


at_a_terminal = beside(Terminal)


@at_a_terminal
def the_command_reads_from_the_terminal(_, t):
    t.type('"$DLOCK" run tty -- sh -c \'read line; echo "<$line>"\'\n')
    t.read_until('\n')
    t.type('typed\n')
    t.read_until('<typed>')
    t.read_until('prompt> ')
    tap.equal('status', t.command('echo "status $?"'), 'status 0\n')


@at_a_terminal
def the_command_is_in_the_foreground(_, t):
    ask = 'python3 -c "import os; print(os.tcgetpgrp(0) == os.getpgrp())"'
    tap.equal('foreground', t.command(f'"$DLOCK" run tty -- {ask}'), 'True\n')


@at_a_terminal
def control_c_ends_the_command_and_gives_the_terminal_back(_, t):
    t.type('"$DLOCK" run tty -- sh -c "echo ready; exec sleep 1000"\n')
    t.read_until('ready\n')
    t.type('\x03')
    t.read_until('prompt> ')
    tap.equal('status', t.command('echo "status $?"'), f'status {128 + signal.SIGINT}\n')
    tap.equal('the lock is free', t.command('"$DLOCK" run -n tty -- echo mine'), 'mine\n')


@at_a_terminal
def control_z_stops_and_fg_continues(_, t):
    t.type('"$DLOCK" run --ttl 30 tty -- sh -c \'echo ready; read line; echo "<$line>"\'\n')
    t.read_until('ready\n')
    t.type('\x1a')
    t.read_until('Stopped')
    t.read_until('prompt> ')
    tap.equal('held still', t.command('"$DLOCK" run -nE 9 tty true 2>/dev/null; echo $?'), '9\n')
    t.type('fg\n')
    t.read_until('\n')
    t.type('typed\n')
    t.read_until('<typed>')
    t.read_until('prompt> ')


@at_a_terminal
def a_job_stopped_for_longer_than_its_lease_is_lost(_, t):
    script = 'echo ready; read line; echo "<$line>"'
    t.type(f'"$DLOCK" run --ttl {lease(0.5)} tty -- sh -c \'{script}\'\n')
    t.read_until('ready\n')
    t.type('\x1a')
    t.read_until('Stopped')
    t.read_until('prompt> ')
    tap.equal('the next holder', t.command('"$DLOCK" run tty -- echo mine'), 'mine\n')
    t.type('fg\n')
    t.read_until('lost')
    t.read_until('prompt> ')
    tap.equal('status', t.command('echo "status $?"'), 'status 75\n')


@at_a_terminal
def a_background_job_that_wants_the_terminal_stops_until_it_is_fetched(_, t):
    t.type('"$DLOCK" run tty -- sh -c \'read line; echo "<$line>"\' &\n')
    t.read_until('prompt> ')
    for _attempt in range(100):
        if 'Stopped' in t.command('jobs'):
            break
        time.sleep(0.05)
    else:
        raise AssertionError('the job does not stop')
    t.type('fg\n')
    t.read_until('\n')
    t.type('typed\n')
    t.read_until('<typed>')
    t.read_until('prompt> ')


@at_a_terminal
def in_a_pipeline_both_ends_can_use_the_terminal(_, t):
    reader = 'sh -c "cat >/dev/null; read line </dev/tty; echo got \\$line"'
    t.type(f'"$DLOCK" run tty -- echo through | {reader}\n')
    t.read_until('\n')
    t.type('typed\n')
    t.read_until('got typed')
    t.read_until('prompt> ')
    t.type('"$DLOCK" run tty -- sh -c "read line; echo first \\$line" | cat\n')
    t.read_until('\n')
    t.type('typed\n')
    t.read_until('first typed')
    t.read_until('prompt> ')


if __name__ == '__main__':
    if world.shutil.which('bash') is None:
        print('1..0 # SKIP bash is not installed')
        raise SystemExit(0)
    world.main([
        the_command_reads_from_the_terminal,
        the_command_is_in_the_foreground,
        control_c_ends_the_command_and_gives_the_terminal_back,
        control_z_stops_and_fg_continues,
        a_job_stopped_for_longer_than_its_lease_is_lost,
        a_background_job_that_wants_the_terminal_stops_until_it_is_fetched,
        in_a_pipeline_both_ends_can_use_the_terminal,
    ])

"""dlock run on a service that stands still: the command ends by its lease, and dlock right after.

Times are told in leases, as the service has granted them: who waited for anything else, the longest
client.close_ms above all, would take many of them.
"""
import os
import signal
import time

import tap
import world
from world import LIMIT, TooSlow, wait_until

LOST = 75
# A command that says again and again that it is there, and what its lease is.
SIGNS = ('{trap}echo "$DLOCK_TTL_MS" > {lease}.new; mv {lease}.new {lease};'
         ' while :; do sleep 0.01; : > {sign}; done')


class Run:
    """dlock and its command, under way."""

    def __init__(self, w, ttl, options, trap):
        self.w, self.sign = w, w.path('sign')
        lease = w.path('lease')
        for path in (self.sign, lease):
            if os.path.exists(path):
                os.unlink(path)
        script = SIGNS.format(trap=trap, lease=lease, sign=self.sign)
        self.process = w.start('run', '--ttl', str(ttl), '--set', 'client.close_ms=60000',
                               *options, 'frozen', '--', 'sh', '-c', script)
        wait_until('the command runs',
                   lambda: os.path.exists(self.sign) or self.process.poll() is not None)
        if self.process.poll() is not None:
            raise TooSlow(self.w.finish(self.process)[2])
        with open(lease, encoding='ascii') as file:
            self.lease = int(file.read()) / 1000

    def ends(self):
        """In leases from now: the command's last sign, and dlock's end."""
        began = time.time()  # as the date of a file is
        status, _, said = self.w.finish(self.process, 100 + LIMIT)
        over = time.time()
        tap.equal(f'status ({said})', status, LOST)
        return (os.stat(self.sign).st_mtime - began) / self.lease, (over - began) / self.lease


def frozen(*options, trap=''):
    """Makes a test of it."""
    def attempt(w, ttl):
        run = Run(w, ttl, options, trap)
        w.server().send_signal(signal.SIGSTOP)
        try:
            command, dlock = run.ends()
        finally:
            w.server().send_signal(signal.SIGCONT)
        # The service's last word was said before, so no lease lasts longer from here on.
        if command > 1 or dlock > 1.5:
            raise TooSlow(f'the command ended {command:.2f} leases after that, dlock {dlock:.2f}')

    def test(w):
        # A slow machine takes longer leases to see it, but not too long ones: the library gives up
        # by itself, some time-outs behind the lease.
        for ttl in (1, 2, 4):
            try:
                return attempt(w, ttl)
            except TooSlow as why:
                said = f'a lease of {ttl} s: {why}'
                print(f'# {said}', flush=True)
        raise AssertionError(said)

    return test


def named(name, test):
    test.__name__ = name
    return test


if __name__ == '__main__':
    world.main([
        named('a_command_that_obeys_ends_within_the_lease_and_dlock_with_it', frozen()),
        named('a_command_that_does_not_is_killed_at_its_end_and_dlock_ends_right_after',
              frozen(trap='trap : TERM; ')),
        named('so_with_on_lost_kill', frozen('--on-lost=kill')),
    ])

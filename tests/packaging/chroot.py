"""A new Debian 12 that has nothing but its own minimum, made by debootstrap."""
import os
import subprocess

import tap

# With a /proc of its own, as a chroot without one is no system.
INSIDE = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'


class Chroot:
    def __init__(self, root):
        self.root = root

    @classmethod
    def made(cls, root):
        if os.geteuid() != 0:
            raise tap.Skip('debootstrap needs root')
        done = subprocess.run(['debootstrap', '--variant=minbase', 'bookworm', root],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            raise tap.Skip(f'debootstrap: {done.stdout[-300:]!r}')
        return cls(root)

    def copy(self, root):
        tap.run(['cp', '-a', self.root, root])
        return Chroot(root)

    def run(self, command, folder='/', **env):
        """What a root shell in @folder says to @command."""
        words = [f'{name}={value}' for name, value in env.items()]
        return tap.run(['unshare', '--mount', '--pid', '--fork', 'sh', '-c', INSIDE, self.root,
                        'env', 'DEBIAN_FRONTEND=noninteractive', *words,
                        'sh', '-euc', f'cd {folder}\n{command}'])

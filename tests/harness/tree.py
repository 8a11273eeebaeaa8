"""A copy of the source tree, to build in it what writes beside the sources."""
import os
import subprocess

import tap


def copy(source, to):
    """The files that git knows or would take, as they are here; all where there is no git."""
    listed = subprocess.run(['git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard'],
                            cwd=source, capture_output=True, check=False)
    if listed.returncode:
        tap.run(['cp', '-a', f'{source}/.', to])
        return
    there = b'\0'.join(name for name in listed.stdout.split(b'\0')
                       if name and os.path.lexists(os.path.join(os.fsencode(source), name)))
    tap.run(['tar', '-C', source, '--null', '--no-recursion', '-cf', to / 'copy.tar', '-T', '-'],
            input=there.decode(), stdin=None)
    tap.run(['tar', '-C', to, '-xf', to / 'copy.tar'])
    (to / 'copy.tar').unlink()

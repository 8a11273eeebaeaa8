"""Releases of others whose own tests are run, from the Python index: set_up.py fetches them."""
# Each with its file's ending. redis is the one of requirements.txt; kazoo isn't installed.
RELEASES = {'kazoo': ('2.11.0', 'whl'), 'redis': ('8.1.0', 'tar.gz')}


def found(folder, name):
    """Where it is; None when it wasn't fetched yet."""
    version, ending = RELEASES[name]
    return next((folder / 'theirs').glob(f'{name}-{version}*.{ending}'), None)


def fetching(top, folder, python, name):
    """The command that fetches it."""
    version, ending = RELEASES[name]
    kind = '--only-binary=:all:' if ending == 'whl' else f'--no-binary={name}'
    return [top / 'tools' / 'fetch', python, '-m', 'pip', '--quiet',
            '--disable-pip-version-check', 'download', '--no-deps', kind, '--dest',
            folder / 'theirs', f'{name}=={version}']

"""A password that is given by a file: nobody finds it, neither in what dlock prints, nor in ps, nor
in what a debugger or an abort writes of its memory. The server speaks TLS where the build does."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile

import tap
import world
from world import LIMIT, Redis, beside, wait_until

WORD = 'c4nary-' + os.urandom(8).hex()


class Place:
    """A server with a user of this password, and the files that both need."""

    def __init__(self, w):
        self.directory = tempfile.mkdtemp(prefix='dlock-secrets-')
        self.file = self.path('word')
        with open(self.file, 'w', encoding='ascii') as file:
            print(WORD, file=file)
        with open(self.path('users'), 'w', encoding='ascii') as file:
            print(f'user locks on >{WORD} ~* &* +@all', file=file)
        options, self.tls = [], 'rediss' in w.run('version')[1]
        if self.tls:
            script = os.path.join(os.path.dirname(tap.__file__), 'certificates.sh')
            os.mkdir(self.path('tls'))
            tap.run([script, self.path('tls')])
            with socket.socket() as probe:
                probe.bind(('127.0.0.1', 0))
                port = probe.getsockname()[1]
            options = ['--tls-port', str(port), '--tls-auth-clients', 'no']
            for option, name in (('cert-file', 'server.pem'), ('key-file', 'server.key'),
                                 ('ca-cert-file', 'ca.pem')):
                options += ['--tls-' + option, self.path('tls/' + name)]
        self.redis = Redis('--include', self.path('users'), *options)
        self.url = f'redis://127.0.0.1:{self.redis.port}?'
        if self.tls:
            self.url = f'rediss://127.0.0.1:{port}?tls.ca_file={self.path("tls/ca.pem")}&'
        self.url += 'auth.username=locks&client.log_level=debug&auth.password_file='

    def path(self, name):
        return os.path.join(self.directory, name)

    def close(self):
        self.redis.stop()
        shutil.rmtree(self.directory)


with_place = beside(Place)


def hide(what, text):
    if WORD in text:
        raise AssertionError(f'{what} shows the password')


@with_place
def nothing_that_is_printed_shows_the_password(w, place):
    url = place.url + place.file
    for status, arguments in ((0, ['run', 'x', '--', 'env']), (0, ['inspect', 'x']), (0, ['ls']),
                              (0, ['doctor', '--json']), (0, ['run', 'x', '--', 'true'])):
        got, out, err = w.run(*arguments, env=w.environment(DLOCK_URL=url))
        tap.equal(f'{arguments} {err}', got, status)
        hide(arguments, out + err)
    # Refused: the server forgets the password, and says so.
    place.redis.command('ACL', 'SETUSER', 'locks', 'resetpass', '>another')
    for arguments in (['run', 'x', '--', 'true'], ['doctor']):
        got, out, err = w.run(*arguments, env=w.environment(DLOCK_URL=url))
        tap.equal(f'{arguments} {err}', (got, 'password' in err), (77, True))
        hide(arguments, out + err)


@with_place
def neither_ps_nor_the_childs_environment_shows_it(w, place):
    holder, _ = w.hold('x', '--url', place.url + place.file)
    for name in ('cmdline', 'environ'):
        with open(f'/proc/{holder.pid}/{name}', 'rb') as file:
            hide(name, file.read().decode(errors='replace'))
    w.let_go(holder)


@with_place
def the_command_gets_the_url_without_the_secret_of_an_option(w, place):
    at, file = f'127.0.0.1:{place.redis.port}', f'auth.password_file={place.file}'
    mine = 'redis://locks:' + WORD + '@' + at
    others = f'redis://other:{WORD}@192.0.2.1/?auth.sentinel_password={WORD}'
    for variable, options, url in (
            (w.url, ['--url', mine], f'redis://locks@{at}'),
            (others, ['--url', mine + '/0'], f'redis://locks@{at}/0'),
            (others, ['--url', f'redis://{at}', '--set', 'auth.username=locks', '--set', file],
             f'redis://{at}'),
            (others, ['--url', f'redis://locks@{at}?{file}'], f'redis://locks@{at}?{file}'),
            (others, ['--url', f'redis://{WORD}@{at}?auth.username=locks', '--set', file], None),
            (w.url, ['--url', f'redis://{at}?auth.username=locks&auth.password={WORD}'
                     '&lock.data=***&client.prefix=a%3A'],
             f'redis://{at}?auth.username=locks&lock.data=***&client.prefix=a%3A'),
            (w.url, ['--url', f'redis://locks@{at}?auth%2Epassword={WORD}'], f'redis://locks@{at}'),
            (mine, ['--set', file], f'redis://locks@{at}'),
            (f'{mine}?lock.ttl_ms=9000&auth.sentinel_password={WORD}',
             ['--set', f'auth.password={WORD}'], f'redis://locks@{at}?lock.ttl_ms=9000')):
        status, out, err = w.run('run', *options, 'x', '--', 'env', '-0',
                                 env=w.environment(DLOCK_URL=variable))
        if url is None:  # the user is given twice, and one of them may be a password
            tap.equal('refused', (status, out), (64, ''))
            hide(options, err)
            continue
        tap.equal(f'{options}: {err}', status, 0)
        hide(f'the environment with {options}', out + err)
        seen = [line for line in out.split('\0') if line.startswith('DLOCK_URL=')]
        tap.equal(f'with {options}', seen, ['DLOCK_URL=' + url])
    # Perhaps a password without its colon, which an open server doesn't ask for.
    status, out, _ = w.run('run', '--url', w.url.replace('//', f'//{WORD}@'), 'x', '-c',
                           'echo "$DLOCK_URL"')
    tap.equal('a user who needs no password', (status, out), (0, w.url + '\n'))


@with_place
def a_dlock_within_dlock_is_told_the_rest_and_brings_the_secret(w, place):
    inner = f'{world.EXECUTABLE} run -n '
    at = f'127.0.0.1:{place.redis.port}'
    place.redis.command('ACL', 'SETUSER', 'default', 'off')  # who doesn't say who it is stays out
    mine, file = f'redis://locks:{WORD}@{at}', f'--set auth.password_file={place.file}'
    for variable, options, within, want in (
            (mine, [], inner + 'y -- true', 0),
            (w.url, ['--url', mine], inner + 'y -- true', 77),
            (w.url, ['--url', mine], inner + file + ' y -- true', 0),
            (w.url, ['--url', mine], inner + file + ' x -- true', 1),
            (w.url, ['--url', f'redis://locks@{at}?auth.password_file={place.file}'],
             inner + 'x -- true', 1),
            (mine, file.split(), inner + 'y -- true', 77)):
        status, out, err = w.run('run', *options, 'x', '-c', within,
                                 env=w.environment(DLOCK_URL=variable))
        tap.equal(f'{options}, {within}: {err}', status, want)
        hide(options, out + err)
    # What came by the environment goes on by it, as it was.
    status, out, err = w.run('run', 'x', '-c', 'printf %s "$DLOCK_URL"',
                             env=w.environment(DLOCK_URL=mine))
    tap.equal(err, (status, out), (0, mine))


@with_place
def a_changed_password_is_read_at_the_next_connect_and_no_hold_is_lost(w, place):
    holder, held = w.hold('x', '--url', place.url + place.file, '--ttl', '60')
    with open(place.file + '.new', 'w', encoding='ascii') as file:
        print('another', file=file)
    os.replace(place.file + '.new', place.file)
    place.redis.command('ACL', 'SETUSER', 'locks', 'resetpass', '>another')
    place.redis.command('CLIENT', 'KILL', 'USER', 'locks')
    wait_until('it is there again', lambda: b'user=locks' in place.redis.command(
        'CLIENT', 'LIST'))
    tap.equal('still held', holder.poll(), None)
    status, out, err = w.run('inspect', '--json', 'x', '--url', place.url + place.file)
    tap.equal(err, (status, json.loads(out)['holders'][0]['owner']), (0, held['owner']))
    w.let_go(holder)


def dump(w, place, number):
    """What a debugger writes of a `dlock hold` that a signal has stopped."""
    core, log = place.path('core'), place.path('log')
    argv = ['gdb', '-nx', '-batch', '-iex', 'set debuginfod enabled off',
            '-iex', 'set auto-load off', '-ex', 'set startup-with-shell off', '-ex', 'run',
            '-ex', f'gcore {core}', '-ex', 'kill', '--args',
            world.EXECUTABLE, 'hold', 'x']
    with open(log, 'wb') as out:
        gdb = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=out, stderr=out,
                               env=w.environment(DLOCK_URL=place.url + place.file,
                                                 MALLOC_ARENA_MAX='1'))  # a small core
    w.started.append(gdb)

    def said():
        with open(log, encoding='utf-8', errors='replace') as file:
            return file.read()

    wait_until('it holds, or can not', lambda: '"token"' in said() or gdb.poll() is not None,
               6 * LIMIT)
    if '"token"' not in said():
        return None, said()
    with open(f'/proc/{gdb.pid}/task/{gdb.pid}/children', encoding='ascii') as file:
        child = int(file.read().split()[0])
    os.kill(child, number)
    gdb.wait(6 * LIMIT)
    hide('the debugger', said())
    return core, said()


@with_place
def no_core_dump_has_it(w, place):
    for number in (signal.SIGTRAP, signal.SIGABRT):
        core, said = dump(w, place, number)
        if core is None and re.search(r'ptrace|not permitted|create process', said):
            print('# left out: nobody may debug here (redis-secrets looks from the inside)')
            return
        tap.equal(said, core is not None and os.path.exists(core), True)
        with open(core, 'rb') as file:
            content = file.read()
        tap.equal('it has the heap', b'locks' in content and len(content) > 1 << 16, True)
        tap.equal(f'{number.name}: the password', content.count(WORD.encode()), 0)
        os.unlink(core)


if __name__ == '__main__':
    world.main([
        nothing_that_is_printed_shows_the_password,
        neither_ps_nor_the_childs_environment_shows_it,
        the_command_gets_the_url_without_the_secret_of_an_option,
        a_dlock_within_dlock_is_told_the_rest_and_brings_the_secret,
        a_changed_password_is_read_at_the_next_connect_and_no_hold_is_lost,
        no_core_dump_has_it,
    ])

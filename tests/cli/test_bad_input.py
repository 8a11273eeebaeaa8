"""What is wrong is said in one line, with the exit status that goes with it, and nothing runs."""
import json
import os
import socket

import tap
import world


def refused(w, status, words, *arguments, says='', **options):
    """One call that must fail with this status and one line that names what is wrong."""
    got, out, err = w.run(*arguments, **options)
    tap.equal(f'status of {words} ({err.strip()})', got, status)
    tap.equal(f'{words}: one line: {err!r}', (err.count('\n'), err.startswith('dlock: ')),
              (1, True))
    tap.equal(f'{words}: stdout', out, '')
    tap.equal(f'{words}: {err.strip()!r} says {says!r}', says in err, True)


def misuse_is_64(w):
    cases = [
        ('unknown command', ['frobnicate'], 'frobnicate'),
        ('unknown option', ['run', '--frob', 'x', '--', 'true'], '--frob'),
        ('unknown letter', ['run', '-z', 'x', '--', 'true'], '-z'),
        ('option of another command', ['ls', '--ttl', '5'], '--ttl'),
        ('missing value', ['run', '--ttl'], '--ttl'),
        ('value for a flag', ['run', '--nonblock=1', 'x', 'true'], '--nonblock'),
        ('no name', ['run'], 'NAME'),
        ('no command', ['run', 'x'], 'CMD'),
        ('no command behind --', ['run', 'x', '--'], 'CMD'),
        ('command and -c', ['run', 'x', '-c', 'true', '--', 'true'], '-c'),
        ('-F', ['run', '-F', 'x', '--', 'true'], 'renewed'),
        ('-s and -x', ['run', '-s', '-x', 'x', '--', 'true'], '-s'),
        ('wait', ['run', '-w', 'soon', 'x', '--', 'true'], 'soon'),
        ('negative wait', ['run', '-w', '-1', 'x', '--', 'true'], '-1'),
        ('infinite wait', ['run', '-w', 'inf', 'x', '--', 'true'], 'inf'),
        ('exit code', ['run', '-E', '256', 'x', '--', 'true'], '256'),
        ('ttl 0', ['run', '--ttl', '0', 'x', '--', 'true'], 'ttl'),
        ('ttl -1', ['run', '--ttl', '-1', 'x', '--', 'true'], '-1'),
        ('ttl 2^63-1', ['run', '--ttl', '9223372036854775807', 'x', '--', 'true'], 'ttl'),
        ('ttl 0 set', ['run', '--set', 'lock.ttl_ms=0', 'x', '--', 'true'], 'lock.ttl_ms'),
        ('misspelt key', ['run', '--set', 'lock.tll_ms=1000', 'x', '--', 'true'], 'lock.ttl_ms'),
        ('no value', ['run', '--set', 'lock.ttl_ms', 'x', '--', 'true'], 'KEY=VALUE'),
        ('on-lost', ['run', '--on-lost=panic', 'x', '--', 'true'], 'panic'),
        ('kill-after', ['run', '--kill-after', '20', 'x', '--', 'true'], 'kill-after'),
        ('permits', ['run', '--permits', 'many', 'x', '--', 'true'], 'permits'),
        ('two names', ['inspect', 'x', 'y'], 'y'),
        ('two prefixes', ['ls', 'x', 'y'], 'y'),
        ('max', ['ls', '--max', '0'], '0'),
        ('two URIs', ['doctor', w.url, w.url], 'URI'),
        ('break without force', ['break', 'x'], '--force'),
        ('version with arguments', ['version', 'x'], 'arguments'),
    ]
    for words, arguments, says in cases:
        refused(w, 64, words, *arguments, says=says)
    tap.equal('nothing at all', w.run()[0], 64)


def a_missing_service_is_64_and_names_both_ways(w):
    bare = w.environment()
    del bare['DLOCK_URL']
    for command in (['run', 'x', '--', 'true'], ['hold', 'x'], ['ls'], ['inspect', 'x'],
                    ['wait', 'x'], ['doctor'], ['break', '--force', 'x']):
        refused(w, 64, command, *command, says='--url', env=bare)
        refused(w, 64, command, *command, says='DLOCK_URL', env=bare)


def a_wrong_uri_is_64(w):
    for uri, says in (('nosuch://host', 'nosuch'), ('redis://127.0.0.1:0', 'port'),
                      ('redis://127.0.0.1:99999', 'port'), ('just words', ''),
                      ('file://', ''), ('redis://127.0.0.1?lock.tll_ms=1', 'lock.ttl_ms'),
                      ('redis://127.0.0.1/notanumber', ''),
                      (w.url + '?lock.ttl_ms=0', 'lock.ttl_ms')):
        refused(w, 64, uri, 'run', '--url', uri, 'x', '--', 'true', says=says)


def a_scheme_that_its_library_cannot_serve_says_why(w):
    if 'zookeeper' not in json.loads(w.run('version', '--json')[1])['backends']:
        raise tap.Skip('this build has no zookeeper')
    for uri in ('zookeepers://127.0.0.1:2281/locks', 'zookeepers://me:secret@127.0.0.1:2281'):
        refused(w, 64, uri, 'run', '--url', uri, 'x', '--', 'true', says='TLS')
        tap.equal('secret', 'secret' in w.run('ls', '--url', uri)[2], False)


def wrong_names_are_64(w):
    refused(w, 64, 'empty', 'run', '', '--', 'true')
    refused(w, 64, '1025 bytes', 'run', 'n' * 1025, '--', 'true', says='1024')
    refused(w, 64, '64 KiB', 'run', 'n' * 65536, '--', 'true', says='1024')
    for command in (['inspect'], ['wait'], ['break', '--force'], ['hold']):
        refused(w, 64, command, *command, 'n' * 1025, says='1024')


def odd_names_are_fine(w):
    for name in ('n' * 1024, b'\xff\xfe not UTF-8 \x80', 'with\nnewline\tand tab', '%s%n{}', ' ',
                 '*'):
        status, out, err = w.run('run', name, '-c', 'printf %s "$DLOCK_NAME" | wc -c')
        size = len(name if isinstance(name, bytes) else name.encode())
        tap.equal(f'{name!r} {err}', (status, int(out or -1)), (0, size))


def an_odd_name_is_printable_in_json_and_on_a_terminal(w):
    holder, held = w.hold(b'odd \xff"\\\n\x1b[31m \xc3\xa9 \xed\xa0\x80')
    tap.equal('hold', held['name'], 'odd \ufffd"\\\n\x1b[31m \u00e9 ' + '\ufffd' * 3)
    status, out, err = w.run('inspect', b'odd \xff"\\\n\x1b[31m \xc3\xa9 \xed\xa0\x80')
    tap.equal(f'no escapes: {out!r} {err!r}', (status, '\x1b' in out + err), (0, False))
    w.let_go(holder)


def a_service_that_is_away_is_69(w):
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        uri = f'redis://127.0.0.1:{probe.getsockname()[1]}?client.connect_ms=500'
        for command, *rest in (['run', '-n', 'x', '--', 'true'], ['run', 'x', '--', 'true'], ['ls'],
                               ['inspect', 'x'], ['wait', 'x'], ['doctor'], ['stats'], ['bench']):
            refused(w, 69, command, command, '--url', uri, *rest)


def what_is_no_redis_is_69(w):
    with socket.socket() as server:
        server.bind(('127.0.0.1', 0))
        server.listen()
        pid = os.fork()
        if pid == 0:
            while True:
                link, _ = server.accept()
                link.sendall(b'SSH-2.0-OpenSSH_9.2p1\r\n')
                link.recv(100)
                link.close()
        try:
            uri = f'redis://127.0.0.1:{server.getsockname()[1]}?client.connect_ms=500'
            refused(w, 69, 'no Redis', 'run', '--url', uri, 'x', '--', 'true')
        finally:
            os.kill(pid, 9)
            os.waitpid(pid, 0)


@world.only_on('redis')
def a_wrong_password_is_77_and_never_shown(w):
    server = world.Redis('--requirepass', 'correct horse')
    try:
        at = server.url.split('//')[1]
        for uri in (f'redis://:canary4711@{at}', f'redis://{at}'):
            refused(w, 77, uri, 'run', '--url', uri, 'x', '--', 'true')
            tap.equal('canary', 'canary4711' in w.run('ls', '--url', uri)[2], False)
        status, out, _ = w.run('hold', '--url', f'redis://:correct%20horse@{at}', 'x')
        tap.equal('right', (status, 'horse' in out), (0, False))
        secret = w.path('password')
        with open(secret, 'w', encoding='ascii') as file:
            file.write('correct horse\n')
        tap.equal('from a file', w.run('run', '--url', f'redis://{at}', '--set',
                                       f'auth.password_file={secret}', 'x', '--', 'true')[0], 0)
    finally:
        server.stop()


@world.only_on('redis')
def a_key_of_another_type_is_64(w):
    w.redis.command('SET', 'foreign', 'value')
    refused(w, 64, 'a string', 'run', '-n', 'foreign', '--', 'true', says='foreign')


def kinds_that_are_not_there_yet_are_64(w):
    for options in (['-s'], ['-x'], ['--permits', '2']):
        status, _, err = w.run('run', *options, f'kind {options[0]}', '--', 'true')
        tap.equal(f'{options} {err}', status in (0, 64), True)


def nothing_runs_and_nothing_is_left_after_an_error(w):
    marker = w.path('ran')
    w.run('run', '--ttl', '0', 'left', '--', 'touch', marker)
    w.run('run', '--kill-after', '999', 'left', '--', 'touch', marker)
    # The lease of a URI is what the library reads there, also where a letter is escaped.
    w.run('run', '--url', w.url + '?lock%2ettl_ms=3000', '--kill-after', '2', 'left', '--', 'touch',
          marker)
    tap.equal('ran', os.path.exists(marker), False)
    tap.equal('free', bool(w.inspect('left')['held']), False)


if __name__ == '__main__':
    world.main([
        misuse_is_64,
        a_missing_service_is_64_and_names_both_ways,
        a_wrong_uri_is_64,
        a_scheme_that_its_library_cannot_serve_says_why,
        wrong_names_are_64,
        odd_names_are_fine,
        an_odd_name_is_printable_in_json_and_on_a_terminal,
        a_service_that_is_away_is_69,
        what_is_no_redis_is_69,
        a_wrong_password_is_77_and_never_shown,
        a_key_of_another_type_is_64,
        kinds_that_are_not_there_yet_are_64,
        nothing_runs_and_nothing_is_left_after_an_error,
    ])

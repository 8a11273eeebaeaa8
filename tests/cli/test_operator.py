"""hold, ls, inspect, break, wait, doctor, version: what an operator and a script see."""
import contextlib
import json
import os
import signal
import subprocess

import tap
import world
from waiting import wait_until
from world import SERVICE, SHORT, lease


def hold_prints_one_line_of_json_and_holds_until_stdin_ends(w):
    holder, held = w.hold('scripts', '--ttl', '5')
    tap.equal('name', held['name'], 'scripts')
    tap.equal('token', held['token'] > 0, True)
    tap.equal('ttl', held['ttl_ms'], 5000)
    tap.equal(f'remaining {held["remaining_ms"]}', 0 < held['remaining_ms'] <= 5000, True)
    tap.equal('busy', w.run('run', '-n', 'scripts', '--', 'true')[0], 1)
    holder.stdin.write(b'what comes in is thrown away\n')
    holder.stdin.flush()
    tap.equal('still busy', w.run('run', '-n', 'scripts', '--', 'true')[0], 1)
    tap.equal('owner', w.inspect('scripts')['holders'][0]['owner'], held['owner'])
    w.let_go(holder)
    tap.equal('free', w.run('run', '-n', 'scripts', '--', 'true')[0], 0)


def hold_ends_with_a_signal(w):
    for number in (signal.SIGTERM, signal.SIGINT):
        holder, _ = w.hold('signalled')
        holder.send_signal(number)
        tap.equal(number.name, w.finish(holder)[0], 0)
    tap.equal('free', w.run('run', '-n', 'signalled', '--', 'true')[0], 0)


def hold_answers_75_when_the_lock_is_lost(w):
    holder, _ = w.hold('lost', '--ttl', lease(1))
    tap.equal('break', w.run('break', 'lost', '--force')[0], 0)
    status, _, err = w.finish(holder)
    tap.equal(err, (status, err.count('\n')), (75, 1))


def hold_gives_the_lock_back_when_nobody_reads(w):
    read, write = os.pipe()
    os.close(read)
    status, _, err = w.run('hold', 'unread', stdout=write)
    os.close(write)
    tap.equal(err, status, 70)
    tap.equal('free', w.run('run', '-n', 'unread', '--', 'true')[0], 0)


def hold_can_be_refused(w):
    holder, _ = w.hold('taken')
    tap.equal('-n', w.run('hold', '-n', 'taken')[0], 1)
    tap.equal('-w -E', w.run('hold', '-w', SHORT, '-E', '5', 'taken')[0], 5)
    w.let_go(holder)


def inspect_shows_the_holder(w):
    holder, held = w.hold('shown')
    info = w.inspect('shown')
    tap.equal('held', bool(info['held']), True)
    tap.equal('owner', info['holders'][0]['owner'], held['owner'])
    status, out, _ = w.run('inspect', 'shown')
    tap.equal('as text', (status, held['owner'] in out), (0, True))
    w.let_go(holder)
    tap.equal('free', bool(w.inspect('shown')['held']), False)
    tap.equal('never used', bool(w.inspect('never used')['held']), False)


def ls_lists_what_is_held(w):
    holders = [w.hold(f'list/{i}')[0] for i in range(3)]
    status, out, err = w.run('ls', 'list/')
    tap.equal(err, (status, sorted(out.split())), (0, ['list/0', 'list/1', 'list/2']))
    tap.equal('--max', len(w.run('ls', '--max', '2', 'list/')[1].split()), 2)
    tap.equal('another prefix', w.run('ls', 'lisp')[1], '')
    tap.equal('all', 'list/1' in w.run('ls')[1].split(), True)
    names = [lock['name'] for lock in json.loads(w.run('ls', 'list/', '--json')[1])['locks']]
    tap.equal('json', sorted(names), ['list/0', 'list/1', 'list/2'])
    for holder in holders:
        w.let_go(holder)


@contextlib.contextmanager
def three_nodes():
    """Of a redlock, and its URI."""
    with contextlib.ExitStack() as servers:
        nodes = []
        for _ in range(3):
            nodes.append(world.Redis())
            servers.callback(nodes[-1].stop)
        yield nodes, 'redlock://' + ','.join(f'127.0.0.1:{node.port}' for node in nodes)


def is_incomplete(answer):
    status, out, err = answer
    tap.equal(f'{out} {err}', (status, out, 'dlock: ls: the list is incomplete: ' in err),
              (70, '', True))


@world.only_on('redis')
def a_list_that_is_not_whole_is_told_and_fails(w):
    with three_nodes() as (nodes, url):
        tap.equal('all', w.run('ls', '--url', url, '--max', '1', 'on'), (0, '', ''))
        # Each has as many as are asked for, and may have kept back what the others tell of. (Two
        # are asked, if the third isn't there in time.)
        for number, node in enumerate(nodes):
            node.command('SET', f'on {number} alone', 'owner')
        is_incomplete(w.run('ls', '--url', url, '--max', '1', 'on'))
        top = w.start('top', '--url', url, '--max', '1', 'on')
        line = top.stderr.readline()
        tap.equal(f'top {line}', b'the list is incomplete: ' in line, True)
        top.send_signal(signal.SIGTERM)
        w.finish(top)


@world.only_on('redis')
def what_may_be_held_with_a_node_that_is_away_is_told_and_fails(w):
    with three_nodes() as (nodes, url):
        nodes[2].die()
        tap.equal('nothing', w.run('ls', '--url', url, 'on'), (0, '', ''))
        nodes[0].command('SET', 'on two of them', 'owner')
        is_incomplete(w.run('ls', '--url', url, 'on'))
        nodes[1].command('SET', 'on two of them', 'owner')
        status, out, err = w.run('ls', '--url', url, 'on')
        tap.equal(err, (status, 'on two of them' in out), (0, True))


def what_others_wrote_does_not_steer_the_terminal(w):
    """Names and owners may hold anything; C1 characters are obeyed as ESC is."""
    name = 'tty/\x1b]0;x\x07\x7f\x9b2J\n\x85é'
    shown = 'tty/?]0;x???2J??é'
    holder, _ = w.hold(name, '--set', 'lock.data=\x9b2J\x1b')
    unwanted = [chr(code) for code in (*range(0x20), *range(0x7f, 0xa0)) if code != 10]
    outs = [w.run('ls', 'tty/')]
    outs += [w.run('ls', '--json', 'tty/'), w.run('inspect', name),
             w.run('inspect', '--json', name), w.run('run', '-n', '-v', name, 'true')]
    top = w.start('top', 'tty/', stdout=subprocess.PIPE)
    top.stdout.readline()
    row = top.stdout.readline().decode()
    tap.equal(f'top: {row!r}', shown in row, True)
    top.terminate()
    outs.append(w.finish(top))
    for status, out, err in outs:
        tap.equal(f'{status} {out!r} {err!r}',
                  [c for c in unwanted if c in out + err or c in row], [])
    tap.equal('json', json.loads(outs[1][1])['locks'][0]['name'], name)
    w.let_go(holder)


def a_listed_name_can_be_pasted_into_a_shell(w):
    """As it is, or in the shell's quotes where a terminal would do something else with it."""
    names = {'paste/a b': b'paste/a b', "paste/it's \\": b"paste/it's \\",
             'paste/\né\'\\': b"$'paste/\\012\xc3\xa9\\'\\\\'",
             b'paste/\xff\x80': b"$'paste/\\377\\200'", 'paste/\x85': b"$'paste/\\302\\205'",
             "$'paste'": b"$'$\\'paste\\''"}
    holders = [w.hold(name)[0] for name in names]
    listed = []
    for prefix in ('paste/', "$'"):
        ls = w.start('ls', prefix, stdout=subprocess.PIPE)
        listed += ls.communicate()[0].split(b'\n')[:-1]
    tap.equal('ls', sorted(listed), sorted(names.values()))
    for line in listed:
        if line.startswith(b'$'):
            name = subprocess.run(['bash', '-c', b'printf %s ' + line], check=True,
                                  stdout=subprocess.PIPE).stdout
            tap.equal(f'{line!r}', name in [os.fsencode(each) for each in names], True)
    for holder in holders:
        w.let_go(holder)


@world.only_on('redis')
def keys_that_belong_to_a_lock_are_no_locks(w):
    """They aren't listed, and nobody takes, inspects or breaks them."""
    hashes = ('dlock_silent:{N}', 'dlock_silent::a{N}')
    strings = ('redisson_lock_token:{N}', 'redisson_lock_token:a{N}', 'dlock_open:{N}',
               'dlock_data:{N}', 'dlock_owner:{N}', '{N}:client:1:rwlock_timeout:1')
    for name in hashes:
        w.redis.command('HSET', name, 'client:1', '1')
    for name in strings:
        w.redis.command('SET', name, 'client:1')
    # Not one of them, however alike.
    w.redis.command('HSET', 'dlock_silent:N', 'client:1', '1')
    tap.equal('ls', w.run('ls')[1].split(), ['dlock_silent:N'])
    string = ('--set', 'redis.layout=string')
    for beginning in ('r', 'd', '{'):
        tap.equal(f'ls {beginning}', w.run('ls', *string, beginning)[1], '')
    for command, *rest in (['inspect'], ['break', '--force'], ['run', '-n']):
        for name in hashes + strings:
            for options in ([], string):
                end = ['--', 'true'] if command == 'run' else []
                status, _, err = w.run(command, *rest, *options, name, *end)
                tap.equal(f'{command} {err}', (status, 'belongs to a lock' in err), (64, True))
    for name in hashes + strings:
        tap.equal(name, w.redis.command('EXISTS', name), b':1\r\n')
        w.redis.command('DEL', name)
    w.redis.command('DEL', 'dlock_silent:N')


def break_needs_force_and_the_right_owner(w):
    holder, held = w.hold('fragile', '--ttl', lease(1))
    status, _, err = w.run('break', 'fragile')
    tap.equal(err, (status, '--force' in err), (64, True))
    tap.equal('another owner', w.run('break', '--force', '--owner', 'nobody:1', 'fragile')[0], 70)
    tap.equal('held still', bool(w.inspect('fragile')['held']), True)
    status, out, err = w.run('break', '--force', '--owner', held['owner'], '--json', 'fragile')
    tap.equal(err, (status, json.loads(out)), (0, {'name': 'fragile', 'broken': True}))
    tap.equal('the victim', w.finish(holder)[0], 75)
    status, _, err = w.run('break', '--force', 'fragile')
    tap.equal('nobody to break', (status, err.count('\n')), (70, 1))


def the_token_after_a_break_is_larger(w):
    victim, held = w.hold('fence', '--ttl', lease(1))
    tap.equal('break', w.run('break', '--force', 'fence')[0], 0)
    heir, inherited = w.hold('fence')
    tap.equal('larger', inherited['token'] > held['token'], True)
    tap.equal('the victim', w.finish(victim)[0], 75)
    w.let_go(heir)


def wait_ends_when_the_lock_is_idle(w):
    tap.equal('idle', w.run('wait', 'calm')[0], 0)
    holder, _ = w.hold('calm')
    tap.equal('-n', w.run('wait', '-n', 'calm')[0], 1)
    status, out, _ = w.run('wait', '-w', SHORT, '--json', 'calm')
    tap.equal('-w', (status, json.loads(out)), (1, {'name': 'calm', 'idle': False}))
    tap.equal('-E', w.run('wait', '-w', SHORT, '-E', '8', 'calm')[0], 8)
    waiting = w.start('wait', 'calm', '--json')
    tap.equal('it waits', waiting.poll(), None)
    w.let_go(holder)
    status, out, _ = w.finish(waiting)
    tap.equal('idle', (status, json.loads(out)), (0, {'name': 'calm', 'idle': True}))


def doctor_tells_its_findings(w):
    status, out, err = w.run('doctor', w.url, '--json')
    answer = json.loads(out)
    tap.equal(f'verdict {answer} {err}', (answer['verdict'] in (0, 1), status), (True, 0))
    for finding in answer.get('findings', []):
        tap.equal('finding', {'id', 'severity', 'text'} <= set(finding), True)
    status, out, _ = w.run('doctor')
    tap.equal('as text, by DLOCK_URL', (status, out.startswith('verdict: ')), (0, True))


@world.only_on('redis')
def doctor_fails_on_an_unsafe_server(w):
    server = world.Redis('--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru')
    try:
        status, out, err = w.run('doctor', server.url, '--json')
        tap.equal(f'{out} {err}', (json.loads(out)['verdict'], status), (2, 1))
    finally:
        server.stop()


def top_shows_the_locks_again_and_again(w):
    holder, held = w.hold('shown on top')
    top = w.start('top')
    descriptors = []
    for _ in range(3):
        line = top.stdout.readline()
        while held['owner'].encode() not in line:
            tap.equal('goes on', line != b'', True)
            line = top.stdout.readline()
        descriptors.append(len(os.listdir(f'/proc/{top.pid}/fd')))
    tap.equal('it opens no client for each lock', descriptors[2], descriptors[1])
    top.send_signal(signal.SIGINT)
    tap.equal('status', w.finish(top)[0], 0)
    w.let_go(holder)


@world.only_on('redis')
def top_goes_on_when_the_service_fails(w):
    server = world.Redis()
    try:
        top = w.start('top', '--url', server.url)
        tap.equal('it shows', top.stdout.readline()[:4], b'NAME')
        server.die()
        line = top.stderr.readline()
        tap.equal(f'it tells {line}', line.startswith(b'dlock: top: '), True)
        server.revive()
        hold, held = w.hold('back again', '--url', server.url, '-w', '100')
        shown = b''
        while held['owner'].encode() not in shown:
            shown = top.stdout.readline()
            tap.equal('goes on', shown != b'', True)
        top.send_signal(signal.SIGTERM)
        tap.equal('status', w.finish(top)[0], 0)
        w.let_go(hold)
    finally:
        server.stop()


def stats_counts_and_names_nobody(w):
    def stats(*more):
        status, out, err = w.run('stats', '--json', *more)
        tap.equal(err, status, 0)
        return json.loads(out)

    before = stats('count/')
    tap.equal(f'{before}', [before[key] for key in ('locks', 'held', 'waiting', 'clients', 'late',
                                                    'failed', 'whole')], [0] * 6 + [True])
    tap.equal('service', before['service'], w.url)
    holders = [w.hold(f'count/{i}')[0] for i in range(3)]
    waiter = w.start('hold', 'count/0', stdin=subprocess.PIPE)
    w.wait_for_waiters('count/0', 1)
    after = stats('count/')
    tap.equal(f'{after}', [after[key] for key in ('locks', 'held', 'waiting', 'failed', 'whole')],
              [3, 3, 1, 0, True])
    tap.equal('time', after['request_us'] >= 0 and after['longest_wait_ms'] >= 0, True)
    tap.equal('another prefix', stats('counts')['held'], 0)
    status, out, _ = w.run('stats', 'count/')
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    tap.equal(out, (status, lines['held'], lines['waiting'], lines['whole'], 'count/' in out),
              (0, '3', '1', 'yes', False))
    status, out, err = w.run('stats', '--json', '--max', '2', 'count/')
    tap.equal(err, (status, json.loads(out)['whole'], 'there may be more' in err), (0, False, True))
    w.let_go(holders[0])
    waiter.stdout.readline()
    for holder in (*holders[1:], waiter):
        w.let_go(holder)
    for wrong in (('a', 'b'), ('--once',), ('--openmetrics', '0')):
        tap.equal(f'{wrong}', w.run('stats', *wrong)[0], 64)


def output_that_goes_nowhere_is_told_once(w):
    for command in (['stats'], ['top', '--once'], ['ls', '--json'], ['version']):
        with open('/dev/full', 'wb') as full:
            status, _, err = w.finish(w.start(*command, stdout=full))
        tap.equal(f'{command} {err}', (status, err.count('standard output')), (70, 1))


def version_and_help_need_no_service(w):
    bare = {k: v for k, v in w.environment().items() if k != 'DLOCK_URL'}
    status, out, _ = w.run('version', env=bare)
    tap.equal('text', (status, out.startswith('dlock 0.')), (0, True))
    version = json.loads(w.run('version', '--json', env=bare)[1])
    tap.equal('json', SERVICE in version['backends'], True)
    for words in (['version'], ['version', '--json']):
        tap.equal('--version', w.run(f'--{words[0]}', *words[1:], env=bare),
                  w.run(*words, env=bare))
    for words in (['--help'], ['help'], ['run', '--help'], ['inspect', '-h'], ['break', '--help']):
        status, out, err = w.run(*words, env=bare)
        tap.equal(f'{words} {err}', (status, 'usage: dlock' in out), (0, True))


def the_completion_offers_commands_options_and_settings(w):
    script = os.path.join(os.path.dirname(__file__), '../../tools/completion/dlock.bash')

    def offers(*words):
        path = os.path.dirname(world.EXECUTABLE)
        line = (f'source {script}; PATH={path}:$PATH; compopt() {{ :; }};'
                f'COMP_WORDS=({" ".join(repr(x) for x in words)}); COMP_CWORD={len(words) - 1};'
                '_dlock; printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(['bash', '--norc', '-c', line], env=w.environment(), check=True,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        return done.stdout.split()

    tap.equal('commands', offers('dlock', 'in'), ['inspect'])
    tap.equal('options', offers('dlock', 'run', '--kill'), ['--kill-after'])
    tap.equal('values', offers('dlock', 'run', '--on-lost', 'ig'), ['ignore'])
    tap.equal('settings', offers('dlock', 'run', '--set', 'lock.ttl'), ['lock.ttl_ms='])
    holder, _ = w.hold('completed')
    # On Redis it is told after a second.
    wait_until('names', lambda: offers('dlock', 'inspect', 'compl') == ['completed'])
    tap.equal('names behind -n', offers('dlock', 'run', '-n', 'compl'), ['completed'])
    tap.equal("names behind signal's -n, which has a value",
              offers('dlock', 'signal', '-n', '2', 'compl'), ['completed'])
    tap.equal('that value', offers('dlock', 'signal', '-n', 'compl'), [])
    w.let_go(holder)


def the_man_page_is_clean(w):
    page = os.path.join(os.path.dirname(__file__), '../../tools/dlock.1')
    try:
        done = subprocess.run(['groff', '-mandoc', '-Tutf8', '-ww', '-z', page], check=True,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except FileNotFoundError as missing:
        raise tap.Skip('groff is not installed') from missing
    tap.equal('warnings', done.stderr, '')


if __name__ == '__main__':
    world.main([
        hold_prints_one_line_of_json_and_holds_until_stdin_ends,
        hold_ends_with_a_signal,
        hold_answers_75_when_the_lock_is_lost,
        hold_gives_the_lock_back_when_nobody_reads,
        hold_can_be_refused,
        inspect_shows_the_holder,
        ls_lists_what_is_held,
        a_list_that_is_not_whole_is_told_and_fails,
        what_may_be_held_with_a_node_that_is_away_is_told_and_fails,
        what_others_wrote_does_not_steer_the_terminal,
        a_listed_name_can_be_pasted_into_a_shell,
        keys_that_belong_to_a_lock_are_no_locks,
        break_needs_force_and_the_right_owner,
        the_token_after_a_break_is_larger,
        wait_ends_when_the_lock_is_idle,
        doctor_tells_its_findings,
        doctor_fails_on_an_unsafe_server,
        top_shows_the_locks_again_and_again,
        top_goes_on_when_the_service_fails,
        stats_counts_and_names_nobody,
        output_that_goes_nowhere_is_told_once,
        version_and_help_need_no_service,
        the_completion_offers_commands_options_and_settings,
        the_man_page_is_clean,
    ])

"""On clusters of three that have no JSON gateway, by the command: plain, with users, with TLS and
client certificates, and with users by certificate.

    test_cluster.py DLOCK file
"""
import json
import os
import subprocess
import tempfile

import etcd_server
import tap
from etcd_server import text64
from world import main, wait_until

SCRIPT = os.path.join(os.path.dirname(etcd_server.__file__), 'certificates.sh')
REFUSED = 77
# A wake-up that gets lost shows; a request that a dying member has cut off may take its time.
PATIENT = 'lock.ttl_ms=60000&client.poll_ms=60000&client.timeout_ms=30000&client.connect_ms=30000'
MINE, OTHERS = '&client.prefix=mine/', '&client.prefix=others/'


def make_users(cluster):
    """root; "locker" with a password, and "client", known by a certificate: both may do what they
    like below "mine/"."""
    def admin(path, **body):
        said = cluster.members[0].ask(f'auth/{path}', body)
        assert said is not None, f'{path}: {body}'

    admin('user/add', name='root', password='r')
    admin('role/add', name='root')
    admin('user/grant', user='root', role='root')
    admin('role/add', name='locks')
    admin('role/grant', name='locks', perm={'permType': 'READWRITE', 'key': text64('mine/'),
                                            'range_end': text64('mine0')})
    admin('user/add', name='locker', password='pa ss')
    admin('user/add', name='client', options={'no_password': True})
    for name in ('locker', 'client'):
        admin('user/grant', user=name, role='locks')
    admin('enable')


def on_cluster(test):
    """@test is given a cluster; what it relaunches is ended behind it."""
    def run(world):
        with tempfile.TemporaryDirectory(prefix='dlock-certificates-') as directory:
            cluster = etcd_server.Cluster(3)
            try:
                test(world, cluster, directory)
            finally:
                cluster.stop()
    run.__name__ = test.__name__
    return run


def certificates(directory):
    tap.run(['sh', SCRIPT, directory])
    return etcd_server.Certificates(directory)


def locks_are_kept_and_handed_over(world, cluster, url):
    """Also while the leader dies: who holds goes on, and who waits is told."""
    world.url = url + MINE
    status, out, err = world.run('doctor')
    tap.equal(f'doctor: {out} {err}', status, 0)
    assert '3 members vote' in out, out
    holder, first = world.hold('a')
    tap.equal('it is held', world.run('run', '-n', 'a', 'true')[0], 1)
    waiter = world.start('hold', 'a', stdin=subprocess.PIPE)
    world.wait_for_waiters('a', 1)
    leader = cluster.leader()
    assert leader, 'nobody leads'
    leader.kill()
    wait_until('another leads', lambda: cluster.leader() is not None)
    wait_until('they are as before',
               lambda: len(world.inspect('a')['holders']) == 1)
    tap.equal('it is kept', world.run('run', '-n', 'a', 'true')[0], 1)
    world.let_go(holder)
    second = waiter.stdout.readline()
    assert second, waiter.stderr.read().decode()
    tokens = first['token'], json.loads(second)['token']
    assert tokens[0] < tokens[1], tokens
    world.let_go(waiter)
    leader.launch()
    cluster.await_member(leader)


def is_refused(world, url, words):
    world.url = url
    status, _, err = world.run('run', '-n', 'b', 'true')
    tap.equal(f'{url}: {err}', status, REFUSED)
    assert words in err, err


@on_cluster
def locks_without_a_gateway(world, cluster, _directory):
    cluster.launch_without_gateway()
    tap.equal('the gateway', cluster.members[0].ask('kv/range', {'key': text64('a')}), None)
    locks_are_kept_and_handed_over(world, cluster, f'{cluster.url}?{PATIENT}')


@on_cluster
def doctor_names_each_member_and_who_was_added_and_never_started(world, cluster, _directory):
    world.url = f'{cluster.url}?{PATIENT}'
    status, out, err = world.run('doctor')
    tap.equal(f'doctor: {out} {err}', status, 0)
    for host in cluster.hosts.split(','):
        assert f'http://{host}: votes' in out, out
    wait_until('it is added', lambda: cluster.members[0].ask(
        'cluster/member/add', {'peerURLs': ['http://127.0.0.1:1']}) is not None)
    status, out, err = world.run('doctor')
    assert 'http://127.0.0.1:1: this member was added and never started: it counts' in out, out
    tap.equal(f'only a warning: {out} {err}', (status, out.split('\n')[0]), (0, 'verdict: warning'))


@on_cluster
def locks_by_the_socket_of_a_member(world, cluster, _directory):
    """As by its port; whoever has the lock by the one keeps out who comes by the other."""
    world.url = f'etcd+unix://{cluster.members[0].socket}?{PATIENT}'
    status, out, err = world.run('doctor')
    tap.equal(f'doctor: {out} {err}', status, 0)
    assert 'plain, on this machine' in out, out
    holder, _ = world.hold('a')
    world.url = f'{cluster.url}?{PATIENT}'
    tap.equal('it is held', world.run('run', '-n', 'a', 'true')[0], 1)
    world.let_go(holder)


@on_cluster
def locks_by_tls_with_a_certificate_of_its_own_and_not_without(world, cluster, directory):
    made = certificates(directory)
    cluster.launch_without_gateway(made)
    url = f'etcds://{cluster.hosts}?{PATIENT}&{made.settings}'
    locks_are_kept_and_handed_over(world, cluster, f'{url}&{made.known}')
    is_refused(world, url + MINE, 'tls.cert_file')


@on_cluster
def locks_as_a_user_and_only_where_that_may(world, cluster, _directory):
    make_users(cluster)
    cluster.launch_without_gateway()
    url = f'etcd://USER@{cluster.hosts}?{PATIENT}'
    user = url.replace('USER', 'locker:pa%20ss')
    locks_are_kept_and_handed_over(world, cluster, user)
    is_refused(world, user + OTHERS, 'permission denied')
    is_refused(world, url.replace('USER', 'locker:wrong') + MINE, 'authentication failed')
    is_refused(world, url.replace('USER@', '') + MINE, 'auth.username')


@on_cluster
def locks_as_the_user_that_its_certificate_names(world, cluster, directory):
    make_users(cluster)
    made = certificates(directory)
    cluster.launch_without_gateway(made)
    url = f'etcds://{cluster.hosts}?{PATIENT}&{made.settings}'
    locks_are_kept_and_handed_over(world, cluster, f'{url}&{made.known}')
    is_refused(world, f'{url}&{made.known}{OTHERS}', 'permission denied')
    is_refused(world, url + MINE, 'tls.cert_file')


if __name__ == '__main__':
    main([locks_without_a_gateway,
          doctor_names_each_member_and_who_was_added_and_never_started,
          locks_by_the_socket_of_a_member,
          locks_by_tls_with_a_certificate_of_its_own_and_not_without,
          locks_as_a_user_and_only_where_that_may, locks_as_the_user_that_its_certificate_names])

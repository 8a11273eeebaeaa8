"""One server of each kind, for all that the matrix asks."""
import contextlib
import os

import etcd_server
import postgres_server
import zookeeper_server
from servers import Memcached, Redis, launched, serves
from waiting import wait_until


class Sentinel:
    """One that knows a master by the name `main`."""

    def __init__(self, folder, master):
        self.port = zookeeper_server.free_ports(1)[0]
        path = os.path.join(folder, 'sentinel.conf')
        with open(path, 'w', encoding='ascii') as conf:
            conf.write(f'port {self.port}\nbind 127.0.0.1\ndir {folder}\n'
                       f'sentinel monitor main 127.0.0.1 {master} 1\n')
        self.process = launched(['redis-server', path, '--sentinel'])
        wait_until('the Sentinel serves', lambda: serves(
            self.port, b'INFO server\r\n', b'process_id:%d\r' % self.process.pid))

    def stop(self):
        self.process.kill()
        self.process.wait()


def cluster_of_one():
    """A cluster whose only node has all slots."""
    bus = zookeeper_server.free_ports(1)[0]
    node = Redis('--cluster-enabled', 'yes', '--cluster-port', str(bus))
    said = node.command('CLUSTER', 'ADDSLOTSRANGE', '0', '16383')
    if said != b'+OK\r\n':
        raise AssertionError(f'the cluster takes no slots: {said!r}')
    wait_until('the cluster is whole',
               lambda: b'cluster_state:ok' in node.command('CLUSTER', 'INFO'))
    return node


def services(folder, stack):
    """Their places, as backends.uris wants them; the stack ends them."""
    def started(server):
        stack.callback(server.stop)
        return server

    redis, cluster = started(Redis()), started(cluster_of_one())
    sentinel = started(Sentinel(folder, redis.port))
    redises = [started(Redis()) for _ in range(3)]
    memcacheds = [started(Memcached()) for _ in range(3)]
    etcd = started(etcd_server.Cluster())
    zookeeper = started(zookeeper_server.single())
    postgres = started(postgres_server.Postgres())
    place = '127.0.0.1:{}'.format
    return {'redis': place(redis.port), 'sentinel': place(sentinel.port),
            'cluster': place(cluster.port), 'redises': [place(one.port) for one in redises],
            'zookeeper': place(zookeeper.port), 'etcd': place(etcd.members[0].port),
            'postgres': place(postgres.port), 'memcached': place(memcacheds[0].port),
            'memcacheds': [place(one.port) for one in memcacheds]}

"""Each backend and layout by the name that the tables of the pages give it, and its URI."""

NOWHERE = '127.0.0.1:1'
NODES = tuple(f'127.0.0.1:{port}' for port in (1, 2, 3))


def uris(folder, redis=NOWHERE, sentinel=NOWHERE, cluster=NOWHERE, redises=NODES,
         zookeeper=NOWHERE, etcd=NOWHERE, memcached=NOWHERE, memcacheds=NODES,
         postgres=NOWHERE):
    """The places are host:port; without them nobody is there."""
    redis, zookeeper = f'redis://{redis}', f'zookeeper://{zookeeper}'
    redlock, memlock = f'redlock://{",".join(redises)}', f'memlock://{",".join(memcacheds)}'
    pattern = f'{zookeeper}?zookeeper.node=/locks/{{name}}{{seq}}&zookeeper.layout'
    return {
        '`mem:`': 'mem:shared',
        '`file:`': f'file://{folder}/table',
        '`redis:`': redis,
        '`redis:`, `lock.fair=true`': f'{redis}?lock.fair=true',
        '`redis:`, layout `string`': f'{redis}?redis.layout=string',
        '`redis:`, layout `timestamp`': f'{redis}?redis.layout=timestamp',
        '`redis:`, layout `rueidis`': f'{redis}?redis.layout=rueidis',
        '`redis+sentinel:`': f'redis+sentinel://{sentinel}/main',
        '`redis+cluster:`': f'redis+cluster://{cluster}',
        '`redlock:`': redlock,
        '`redlock:`, `redlock.fencing=on`': f'{redlock}?redlock.fencing=on',
        '`zookeeper:`': zookeeper,
        '`zookeeper:`, layout `kazoo`': f'{zookeeper}?zookeeper.layout=kazoo',
        '`zookeeper:`, layout `pattern`': f'{pattern}=pattern',
        '`zookeeper:`, layout `bridge`': f'{zookeeper}?zookeeper.layout=bridge',
        '`zookeeper:`, layout `exclusive`': f'{zookeeper}?zookeeper.layout=exclusive',
        '`etcd:`': f'etcd://{etcd}',
        '`postgres:`': f'postgres://postgres@{postgres}/postgres',
        '`memcached:`': f'memcached://{memcached}',
        '`memlock:`': memlock,
    }

"""ZooKeeper by TLS and SASL: with a libzookeeper that has them, and a libdlock built with it.

test_secure.py CERTIFICATES.SH PREFIX; tests/versions/zookeeper/build makes the library.
"""
import os
import shutil
import signal
import subprocess
import sys
import tempfile

import tap
import zookeeper_server
from waiting import LIMIT, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
MAKE_CERTIFICATES, PREFIX = sys.argv[1:3]
LIBRARY, BUILD = os.path.join(PREFIX, 'library'), os.path.join(PREFIX, 'build')
DLOCK = os.path.join(BUILD, 'tools', 'dlock')
LEFT_OUT = ('redis', 'memcached', 'etcd', 'postgres', 'man', 'screen', 'usdt')
NETTY = [f'/usr/share/java/netty-{part}.jar' for part in
         ('buffer', 'common', 'handler', 'transport', 'transport-native-epoll',
          'transport-native-unix-common', 'codec', 'resolver')]
JAAS = """Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required
  user_alice="wonder land" user_bob="builder";
};
"""


def build():
    """libdlock and the command, as a stranger would build them beside that library."""
    os.makedirs(PREFIX, exist_ok=True)
    tap.run([os.path.join(HERE, 'build'), LIBRARY])
    if not os.path.exists(os.path.join(BUILD, 'build.ninja')):
        tap.run(['meson', 'setup', '-Dzookeeper=enabled', '-Dbuildtype=debugoptimized',
                 *[f'-D{part}=disabled' for part in LEFT_OUT],
                 f'-Dc_args=-isystem {LIBRARY}/include',
                 f'-Dc_link_args=-L{LIBRARY}/lib -Wl,-rpath,{LIBRARY}/lib', BUILD, TOP])
    tap.run(['ninja', '-C', BUILD])


class World:
    """A server for TLS with certificates, one for SASL, and the command."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix='dlock-secure-')
        tap.run(['sh', MAKE_CERTIFICATES, self.directory])
        self.secure = self.sasl = None
        self.started = []

    def path(self, name):
        return os.path.join(self.directory, name)

    def show(self, name):
        """What the server shows and whom it trusts are read when it begins: name.pem is its own."""
        with open(self.path('shown.pem'), 'w', encoding='ascii') as shown:
            for part in (f'{name}.key', f'{name}.pem'):
                with open(self.path(part), encoding='ascii') as file:
                    shown.write(file.read())

    def tls_server(self, name='server', more=()):
        """A server with that certificate: another one, or the same once more. With more in its
        settings it is a new one."""
        self.show(name)
        if more and self.secure:
            self.secure.stop()
            self.secure = None
        if self.secure:
            self.secure.restart()
        else:
            self.secure = zookeeper_server.started(lambda: self.make_tls_server(more))[0]
        return self.secure

    def make_tls_server(self, more):
        port, secure = zookeeper_server.free_ports(2)
        server = zookeeper_server.Server(port, [
            f'secureClientPort={secure}', 'secureClientPortAddress=127.0.0.1',
            'serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory',
            f'ssl.keyStore.location={self.path("shown.pem")}', 'ssl.keyStore.type=PEM',
            f'ssl.trustStore.location={self.path("ca.pem")}', 'ssl.trustStore.type=PEM', *more])
        server.jars += NETTY
        server.secure = secure
        return [server]

    def sasl_server(self):
        """Whom the certificate of a server isn't asked: names and passwords."""
        def make():
            server = zookeeper_server.Server(zookeeper_server.free_ports(1)[0], [
                'authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider'])
            with open(self.path('jaas'), 'w', encoding='ascii') as file:
                file.write(JAAS)
            server.java = [f'-Djava.security.auth.login.config={self.path("jaas")}']
            return [server]
        if not self.sasl:
            self.sasl = zookeeper_server.started(make)[0]
        return self.sasl

    def ours(self, **more):
        """Settings of TLS that suit the server; names of files, but for what isn't one."""
        files = {'ca_file': 'ca.pem', 'cert_file': 'client.pem', 'key_file': 'client.key', **more}
        return [word for key, value in files.items() if value for word in (
            '--set', f'tls.{key}={self.path(value) if key.endswith("_file") else value}')]

    def start(self, url, *arguments, **environment):
        process = subprocess.Popen(
            [DLOCK, '--url', url, '--set', 'client.connect_ms=4000', *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **environment})
        self.started.append(process)
        return process

    def run(self, url, *arguments, **environment):
        """(status, stdout + stderr)"""
        out, err = self.start(url, *arguments, **environment).communicate(timeout=3 * LIMIT)
        process = self.started.pop()
        return process.returncode, out + err

    def secured(self, settings, *arguments, host='localhost', **environment):
        return self.run(f'zookeepers://{host}:{self.secure.secure}', *settings,
                        *(arguments or ('run', 'x', '--', 'echo', 'done')), **environment)

    def named(self, user, password, *arguments):
        """By SASL, as that user."""
        with open(self.path('password'), 'w', encoding='ascii') as file:
            file.write(password + '\n')
        return self.run(f'zookeeper://127.0.0.1:{self.sasl.port}', '--set', 'zookeeper.auth=sasl',
                        '--set', f'auth.username={user}',
                        '--set', f'auth.password_file={self.path("password")}', *arguments)

    def close(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
        for server in (self.secure, self.sasl):
            if server:
                server.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def renew(self):
        self.close()
        self.__init__()


def refused(what, answer, *words):
    status, said = answer
    tap.equal(f'{what} is refused: {said}', status != 0, True)
    tap.equal(f'{what}: nothing was done: {said}', 'done' in said.split(), False)
    for word in words:
        tap.equal(f'{what}: "{word}" is said: {said}', word in said, True)
    tap.equal(f'{what}: libzookeeper says nothing by itself: {said}',
              'ZOO_' in said or said.count('\n') > 2, False)


def a_server_that_is_who_it_says_serves(w):
    w.tls_server()
    for settings in (w.ours(), w.ours(key_file='locked.key', key_password_file='password'),
                     w.ours(crl_file='crl.pem'), w.ours(min_version='1.2')):
        tap.equal('by name', w.secured(settings), (0, 'done\n'))
    tap.equal('by address', w.secured(w.ours(), host='127.0.0.1'), (0, 'done\n'))
    tap.equal('by a name that is set', w.secured(w.ours(server_name='localhost'),
                                                 host='127.0.0.1'), (0, 'done\n'))


def another_hosts_certificate_is_refused(w):
    w.tls_server('wrong')
    refused('another host', w.secured(w.ours()), 'localhost', 'elsewhere.example')
    tap.equal('the chain alone', w.secured(w.ours(verify='chain')), (0, 'done\n'))
    tap.equal('the name it has', w.secured(w.ours(server_name='elsewhere.example')),
              (0, 'done\n'))


def an_unknown_authority_is_refused(w):
    w.tls_server()
    refused('another authority', w.secured(w.ours(ca_file='other.pem')), 'tls.ca_file')
    # libzookeeper by itself trusts the system's as well.
    refused('the system\'s', w.secured(w.ours(ca_file='other.pem', verify='chain'),
                                       SSL_CERT_FILE=w.path('ca.pem')), 'tls.ca_file')
    tap.equal('nobody looks', w.secured(
        w.ours(ca_file='other.pem', verify='insecure_none'))[0], 0)


def what_is_over_or_taken_back_is_refused(w):
    w.tls_server('expired')
    refused('an old one', w.secured(w.ours()), 'expired')
    w.tls_server('revoked')
    refused('a revoked one', w.secured(w.ours(crl_file='crl.pem')), 'revoked')


def who_has_no_certificate_is_told(w):
    w.tls_server()
    refused('none', w.secured(w.ours(cert_file=None, key_file=None)), 'tls.cert_file')
    refused('a stranger\'s', w.secured(w.ours(cert_file='selfsigned.pem',
                                              key_file='selfsigned.key')), 'our certificate')


def an_older_tls_than_asked_for_is_refused(w):
    w.tls_server(more=['ssl.enabledProtocols=TLSv1.2'])
    tap.equal('1.2 will do', w.secured(w.ours()), (0, 'done\n'))
    refused('1.2', w.secured(w.ours(min_version='1.3')), 'TLS')


def a_port_without_tls_is_told(w):
    server = w.tls_server()
    refused('a plain port', w.run(f'zookeepers://localhost:{server.port}', *w.ours(),
                                  'run', 'x', '--', 'echo', 'done'), 'TLS')
    refused('no port', w.run('zookeepers://localhost', *w.ours(), 'ls'), 'secureClientPort')
    refused('a comma', w.run(f'zookeepers://localhost:{server.port}',
                             *w.ours(ca_file='a,b'), 'ls'), 'comma')


def a_hold_survives_a_cut_by_tls_again_and_only_by_that(w):
    w.tls_server()
    url = f'zookeepers://localhost:{w.secure.secure}'
    process = w.start(url, *w.ours(), 'hold', '--ttl', '60', 'kept')
    wait_until('it is held', process.stdout.readline)
    w.tls_server()  # the session is on its disk
    wait_until('it is held yet', lambda: '"kept"' in w.secured(w.ours(), 'ls', '--json')[1])
    process.stdin.close()
    tap.equal(process.stderr.read(), process.wait(LIMIT), 0)


def who_shows_another_certificate_after_a_cut_is_not_spoken_to(w):
    w.tls_server()
    url = f'zookeepers://localhost:{w.secure.secure}'
    process = w.start(url, *w.ours(), 'hold', '--ttl', '3', 'kept')
    wait_until('it is held', process.stdout.readline)
    w.tls_server('wrong')
    tap.equal('it is lost', process.wait(2 * LIMIT), 75)


def names_and_passwords_are_shown_by_sasl(w):
    w.sasl_server()
    tap.equal('alice', w.named('alice', 'wonder land', 'run', 'x', '--', 'echo', 'done'),
              (0, 'done\n'))
    refused('a wrong password', w.named('alice', 'builder', 'run', 'x', '--', 'echo', 'done'),
            'auth.username')
    refused('nobody', w.run(f'zookeeper://127.0.0.1:{w.sasl.port}', '--set', 'zookeeper.auth=sasl',
                            'ls'), 'auth.username')
    refused('with TLS', w.run('zookeepers://127.0.0.1:1', *w.ours(), '--set',
                              'zookeeper.auth=sasl', 'ls'), 'not both')


def what_is_made_by_sasl_is_its_makers(w):
    w.sasl_server()
    creator = ('--set', 'zookeeper.acl=creator')
    tap.equal('alice', w.named('alice', 'wonder land', *creator, 'run', 'hers', '--', 'echo',
                               'done'), (0, 'done\n'))
    refused('bob', w.named('bob', 'builder', 'run', 'hers', '--', 'echo', 'done'), 'ACL')
    tap.equal('alice again', w.named('alice', 'wonder land', *creator, 'run', 'hers', '--',
                                     'echo', 'done'), (0, 'done\n'))


def main(tests):
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    build()
    world = World()
    try:
        sys.exit(tap.main([(test.__name__, lambda test=test: test(world)) for test in tests],
                          world.renew))
    finally:
        world.close()


if __name__ == '__main__':
    main([
        a_server_that_is_who_it_says_serves,
        another_hosts_certificate_is_refused,
        an_unknown_authority_is_refused,
        what_is_over_or_taken_back_is_refused,
        who_has_no_certificate_is_told,
        an_older_tls_than_asked_for_is_refused,
        a_port_without_tls_is_told,
        a_hold_survives_a_cut_by_tls_again_and_only_by_that,
        who_shows_another_certificate_after_a_cut_is_not_spoken_to,
        names_and_passwords_are_shown_by_sasl,
        what_is_made_by_sasl_is_its_makers,
    ])

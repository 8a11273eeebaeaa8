"""The five Redis servers of a Redlock, and slow links to them."""
import subprocess

from peers import Failed
from server import Server, Several

NODES = 5
LAG_MS = 5  # in each direction


class Five(Several):
    """Servers of our own that know nothing of each other."""

    def __init__(self, folder, cores, name='page'):
        super().__init__(folder, cores, name, Server, NODES)
        self.port = ','.join(str(node.port) for node in self.nodes)

    def uri(self, query='', places=None):
        return f'redlock://{places or self.places()}{query}'


class Lag:
    """Before each node a link on which every byte takes LAG_MS: the tests' proxy."""

    def __init__(self, program, nodes):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        try:
            self.ports = [int(self.say(f'listen 0 127.0.0.1:{node.port} {i} raw').split()[2])
                          for i, node in enumerate(nodes)]
            self.say(f'latency {LAG_MS} 0 both')
        except Failed:
            self.close()
            raise

    def places(self):
        return [f'127.0.0.1:{port}' for port in self.ports]

    def say(self, line):
        self.process.stdin.write(line + '\n')
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer.startswith('ok'):
            raise Failed(f'dlock-proxy: {line}: {answer.strip() or "it has ended"}')
        return answer

    def close(self):
        self.process.stdin.close()  # which ends it
        self.process.wait()
        self.process.stdout.close()

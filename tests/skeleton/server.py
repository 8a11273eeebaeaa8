"""The map of the skeleton's: keys with an owner and an end, and a counter of tokens for each.

It listens at the port that it is told. For tests: `forget KEY` deletes a key, whoever's it is,
`forget *` all and what is known of tokens; `keys *` answers those that are held."""
import socketserver
import sys
import threading
import time

held = {}  # key: (owner, end, token)
tokens = {}  # they begin with the time of day, so that they rise over a restart, too
mutex = threading.Lock()


def owner_of(key):
    owner, end, token = held.get(key, (None, 0, 0))
    return (owner, end, token) if end > time.monotonic() else (None, 0, 0)


def answer(verb, key, owner='', ttl='0'):
    end = time.monotonic() + int(ttl) / 1000
    holder, until, token = owner_of(key)
    if verb == 'acquire' and holder not in (None, owner):
        return f'HELD {max(1, int((until - time.monotonic()) * 1000))}'
    if verb == 'acquire':
        if holder is None:
            token = tokens[key] = max(tokens.get(key, 0) + 1, time.time_ns())
        held[key] = (owner, max(end, until), token)
        return f'YES {token}'
    if verb == 'keys':
        return ' '.join(['KEYS', *(name for name in held if owner_of(name)[0])])
    if verb == 'forget' and key == '*':
        held.clear()
        tokens.clear()
        return 'YES'
    if verb == 'forget':
        return 'YES' if held.pop(key, None) else 'NO'
    if holder != owner:
        return 'NO'
    if verb == 'renew':
        held[key] = (owner, max(end, until), token)
    elif verb == 'release':
        del held[key]
    return 'YES'


class Connection(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def handle(self):
        try:
            for line in self.rfile:
                if not line.endswith(b'\n'):
                    break  # the rest of it never came
                with mutex:
                    text = answer(*line[:-1].decode('latin-1').split(' '))
                self.wfile.write(text.encode() + b'\n')
        except ConnectionError:
            pass  # a client that doesn't wait for the answer


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


with Server(('127.0.0.1', int(sys.argv[1])), Connection) as server:
    server.serve_forever()

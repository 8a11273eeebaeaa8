"""What the library itself answers about each backend: dlock_client_features() of clients that are
lazy, so that no server is needed."""
import ctypes
import tempfile

import backends
import tap

TEXT = ('dlock_error_text', 'dlock_info_key', 'dlock_info_get')


class Library:
    def __init__(self, path):
        self.calls = ctypes.CDLL(str(path))
        for name in TEXT:
            getattr(self.calls, name).restype = ctypes.c_char_p
        self.calls.dlock_conf_new.restype = ctypes.c_void_p
        self.calls.dlock_info_count.restype = ctypes.c_size_t

    def made(self, call, *args):
        """What a call makes behind its last parameter but one."""
        thing, error = ctypes.c_void_p(), ctypes.c_void_p()
        if getattr(self.calls, call)(*args, ctypes.byref(thing), ctypes.byref(error)) != 0:
            raise tap.Skip(self.calls.dlock_error_text(error).decode())
        return thing

    def features(self, uri):
        """A dict of text."""
        conf = ctypes.c_void_p(self.calls.dlock_conf_new())
        self.calls.dlock_conf_set(conf, b'client.lazy', b'true', None)
        client = self.made('dlock_client_open', uri.encode(), conf)
        info = self.made('dlock_client_features', client)
        said = {}
        for number in range(self.calls.dlock_info_count(info)):
            key = self.calls.dlock_info_key(info, ctypes.c_size_t(number))
            said[key.decode()] = self.calls.dlock_info_get(info, key).decode()
        self.calls.dlock_info_free(info)
        self.calls.dlock_client_free(client)
        self.calls.dlock_conf_free(conf)
        return said


def of_each_backend(library):
    """The rows of the tables: how a row is called, and what the library says."""
    with tempfile.TemporaryDirectory(prefix='dlock-features-') as folder:
        return {name: library.features(uri) for name, uri in backends.uris(folder).items()}

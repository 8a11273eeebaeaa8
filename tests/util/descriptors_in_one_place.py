"""Descriptors that outlive a call are made by DLK_FD and closed by dlk_fd_close, so that a fork's
child closes them; sockets are made by dlk_socket_new, so that they are reset. Whoever opens and
closes one in one go is named here."""
import re

from one_place import conclude, lines_of

MAKERS = re.compile(r'(?<![\w.>])(?:(?:socket|socketpair|accept4?|eventfd|timerfd_create|'
                    r'epoll_create1?|open|openat|dup[23]?|close)\s*\(|'
                    r'syscall\(SYS_(?:pidfd_open|close)\b)')
SOCKET = re.compile(r'(?<!\w)socket\(')
ALLOWED = {
    'libdlock/util/descriptor.c',
    'libdlock/util/settings_secret.c',  # a file with a secret
    'libdlock/net/tls_context.c',       # likewise
    'libdlock/backends/local/stamp.c',  # the kernel's boot id
}
IN_ONE_GO = {('libdlock/backends/local/process.c', 'int fd = open(path, O_RDONLY | O_CLOEXEC);'),
             ('libdlock/backends/local/process.c', '(void)close(fd);'),
             # within DLK_FD, in socket.c
             ('libdlock/net/socket_linux.c',
              'return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);'),
             ('libdlock/net/socket_posix.c', 'int fd = socket(family, SOCK_STREAM, 0);'),
             # in a fork's child: libzookeeper's and libpq's, which make it and close it
             ('libdlock/backends/zookeeper/socket.c', 'dlk_fd_end(it.fd);'),
             ('libdlock/backends/postgres/backend.c', '(void)close(pg->fd);')}


def without_strings(text):
    return re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)


def is_stray(name, _number, line):
    if not MAKERS.search(line) or (name, line) in IN_ONE_GO:
        return False
    return 'DLK_FD(' not in line or (SOCKET.search(line) and name != 'libdlock/net/socket.c')


conclude('descriptors_are_made_and_closed_in_one_place',
         (stray for stray in lines_of('*.c', ALLOWED, without_strings) if is_stray(*stray)))

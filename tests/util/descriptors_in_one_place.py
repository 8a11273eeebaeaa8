"""Descriptors that outlive a call are made by DLK_FD and closed by dlk_fd_close, so that a fork's
child closes them; sockets are made by dlk_socket_new, so that they are reset. Whoever opens and
closes one in one go is named here."""
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])

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
             # in a fork's child: libzookeeper's, which makes it and closes it
             ('libdlock/backends/zookeeper/library.c', '(void)syscall(SYS_close, it.fd);')}


def code_of(text):
    """Without comments and strings, line by line as before."""
    text = re.sub(r'/\*.*?\*/', lambda m: '\n' * m.group().count('\n'), text, flags=re.S)
    return re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)


def strays():
    for path in sorted((ROOT / 'libdlock').rglob('*.c')):
        name = path.relative_to(ROOT).as_posix()
        if name in ALLOWED:
            continue
        for number, line in enumerate(code_of(path.read_text()).split('\n'), 1):
            line = line.strip()
            if not MAKERS.search(line) or (name, line) in IN_ONE_GO:
                continue
            if 'DLK_FD(' not in line or (SOCKET.search(line) and name != 'libdlock/net/socket.c'):
                yield f'{name}:{number}: {line}'


found = list(strays())
print('1..1')
for line in found:
    print(f'# {line}')
print(f'{"not ok" if found else "ok"} 1 - descriptors_are_made_and_closed_in_one_place')
sys.exit(bool(found))

"""Numbers from outside are read in one place: util/number.c, which knows limits and overflow.
Whoever reads one by other means is named here with the line."""
import re

from one_place import conclude, lines_of

READERS = re.compile(r'\b(strto(?:l|ll|ul|ull|d|f|ld|imax|umax)|ato[ilfq]|atoll|v?f?s?scanf)\s*\(')
ALLOWED = {
    'libdlock/backends/zookeeper/uuid.c',     # hexadecimal digits that it has counted
    'libdlock/backends/zookeeper/socket.c',  # the names in /proc/self/fd
}


conclude('numbers_from_outside_are_read_in_one_place',
         (stray for stray in lines_of('*.[ch]', ALLOWED) if READERS.search(stray[2])))

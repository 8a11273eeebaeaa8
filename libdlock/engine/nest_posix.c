/* No nest of descriptors; see the header. So no client has a descriptor for a program's poller but the
 * event descriptor, as where a backend has no wires. */
#include "engine/nest.h"

int dlk_nest_new(void)
{
    return -1;
}

bool dlk_nest_add(int nest, int fd)
{
    (void)nest;
    (void)fd;
    return false;
}

void dlk_nest_remove(int nest, int fd)
{
    (void)nest;
    (void)fd;
}

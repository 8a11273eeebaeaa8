/* Which libdlock is loaded, for those who compare it with the header they were built with. */
#include <dlock/dlock.h>

const char *dlock_version(void)
{
    return DLOCK_VERSION_STRING;
}

uint32_t dlock_version_num(void)
{
    return DLOCK_VERSION_NUM;
}

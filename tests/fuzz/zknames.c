/* Names of nodes; see the header. */
#include "zknames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CURATOR "_c_11111111-2222-4333-8444-555555555555-"
#define KAZOO   "0123456789ab4def0123456789abcdef"
#define BRIDGE  "0123456789abbdef0123456789abcdef" /* ours, by the version of its UUID */

char *zk_name(fuzz_bytes *bytes)
{
    static const char *const heads[] = {CURATOR "lock-",
                                        CURATOR "__WRIT__",
                                        CURATOR "__READ__",
                                        "latch-",
                                        "lease-",
                                        KAZOO "__lock__",
                                        KAZOO "__rlock__",
                                        BRIDGE "__lock__",
                                        "lock-",
                                        "x-77-",
                                        "W-",
                                        "R-",
                                        "",
                                        "locks",
                                        "leases"};
    static const char *const tails[] = {"2147483647", "-2147483648", "1999999999",
                                        "000000001", ""};
    uint8_t form = fuzz_byte(bytes), number = fuzz_byte(bytes);
    const char *head = heads[form % (sizeof(heads) / sizeof(*heads))];
    char *name = NULL;
    if (form >= 0xe0)
        return fuzz_text(fuzz_take_until(bytes, '\n'));
    int size = number < 0xf0 ? asprintf(&name, "%s%010d", head, number)
                             : asprintf(&name, "%s%s", head, tails[number % 5]);
    if (size < 0)
        abort();
    return name;
}

long zk_number(const char *name, const char *mark)
{
    size_t size = strlen(name), before = strlen(mark);
    if (size < before + 10 || strspn(name + size - 10, "0123456789") != 10 ||
        strncmp(name + size - 10 - before, mark, before) != 0)
        return -1;
    return strtol(name + size - 10, NULL, 10);
}

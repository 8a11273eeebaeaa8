/* Names and paths; see the header. The rules are those of the server's PathUtils. */
#include "backends/zookeeper/paths.h"

#include "util/error.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One character of UTF-8; its bytes, 0 if it is none. */
static size_t decode(const unsigned char *at, uint32_t *ret)
{
    size_t more = at[0] < 0x80 ? 0 : at[0] >> 5 == 6 ? 1 : at[0] >> 4 == 14 ? 2 : 3;
    uint32_t value = more == 0 ? at[0] : at[0] & (0x3fu >> more);
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    if (more == 3 && at[0] >> 3 != 30)
        return 0;
    for (size_t i = 1; i <= more; i++) {
        if (at[i] >> 6 != 2)
            return 0;
        value = value << 6 | (at[i] & 0x3f);
    }
    *ret = value;
    return value < least[more] || value > 0x10ffff ? 0 : more + 1;
}

static bool is_refused(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0xd800 && c < 0xf900) ||
           (c >= 0xfff0 && c <= 0xffff);
}

static bool is_dots(const char *part, size_t size)
{
    return (size == 1 && part[0] == '.') || (size == 2 && memcmp(part, "..", 2) == 0);
}

dlock_err dlk_zk_check_path(const char *path, const char *what, dlock_error **err)
{
    for (const char *at = path; *at == '/';) {
        const char *part = at + 1, *end = strchrnul(part, '/');
        size_t size = (size_t)(end - part);
        if (size == 0)
            return dlk_error_set(
                err, DLOCK_EINVAL,
                "zookeeper: %s has an empty part: no // in it, and no / at its "
                "end",
                what);
        if (is_dots(part, size))
            return dlk_error_set(
                err, DLOCK_EINVAL,
                "zookeeper: %s has a part . or ..: ZooKeeper knows no relative "
                "paths",
                what);
        at = end;
    }
    for (const unsigned char *at = (const unsigned char *)path; *at;) {
        uint32_t c;
        size_t size = decode(at, &c);
        if (size == 0)
            return dlk_error_set(err, DLOCK_EINVAL, "zookeeper: %s is not UTF-8", what);
        if (is_refused(c))
            return dlk_error_set(
                err, DLOCK_EINVAL,
                "zookeeper: %s has the character U+%04X, which ZooKeeper refuses", what,
                (unsigned)c);
        at += size;
    }
    return DLOCK_OK;
}

dlock_err dlk_zk_path_of(const char *chroot, const char *name, size_t size, char **ret,
                         dlock_error **err)
{
    size_t above = strlen(chroot);
    char *path = malloc(above + size + 2);
    if (!path)
        return dlk_error_nomem(err);
    memcpy(path, chroot, above);
    char *own = path + above, *at = own;
    if (name[0] != '/')
        *at++ = '/';
    memcpy(at, name, size);
    at[size] = '\0';
    dlock_err code = dlk_zk_check_path(own, "the name", err);
    if (code == DLOCK_OK &&
        (strcmp(path, "/zookeeper") == 0 ||
         strncmp(path, "/zookeeper/", sizeof("/zookeeper/") - 1) == 0))
        code = dlk_error_set(err, DLOCK_EINVAL,
                             "zookeeper: /zookeeper belongs to the servers");
    if (code != DLOCK_OK) {
        free(path);
        return code;
    }
    *ret = path;
    return DLOCK_OK;
}

/* Names and paths; see the header. The rules are those of the server's PathUtils. */
#include "backends/zookeeper/paths.h"

#include "util/buf.h"
#include "util/error.h"
#include "util/escape.h"
#include "util/text.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- what a node's name can be ---- */

/* The value of a character of UTF-8, of @p size bytes. */
static uint32_t value_of(const char *text, size_t size)
{
    static const unsigned char firsts[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t value = (unsigned char)text[0] & firsts[size];
    for (size_t i = 1; i < size; i++)
        value = value << 6 | ((unsigned char)text[i] & 0x3f);
    return value;
}

/* The server looks at UTF-16, where what is past U+FFFF is two surrogates. */
static bool is_refused(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0xd800 && c < 0xf900) ||
           c >= 0xfff0;
}

static size_t character(const char *text, size_t left)
{
    size_t size = dlk_utf8_size(text, left);
    return size > 0 && text[0] != '/' && !is_refused(value_of(text, size)) ? size : 0;
}

static bool is_dots(const char *part, size_t size)
{
    return (size == 1 && part[0] == '.') || (size == 2 && memcmp(part, "..", 2) == 0);
}

static bool is_no_node(const char *part, size_t size)
{
    return size == 0 || is_dots(part, size);
}

static bool is_servers(const char *part, size_t size)
{
    return size == sizeof("zookeeper") - 1 && memcmp(part, "zookeeper", size) == 0;
}

static bool is_no_node_of_ours(const char *part, size_t size)
{
    return is_no_node(part, size) || is_servers(part, size);
}

static const dlk_alphabet below = {.character = character, .reserved = is_no_node};
/* Below the root itself /zookeeper belongs to the servers. */
static const dlk_alphabet at_root = {.character = character,
                                     .reserved = is_no_node_of_ours};
static const dlk_alphabet within = {.character = character};

/* ---- paths of the user's ---- */

dlock_err dlk_zk_check_path(const char *path, const char *what, dlock_error **err)
{
    for (const char *at = path; *at;) {
        const char *part = at + (*at == '/'), *end = strchrnul(part, '/');
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
    for (size_t left = strlen(path); left > 0;) {
        size_t size = dlk_utf8_size(path, left);
        if (size == 0)
            return dlk_error_set(err, DLOCK_EINVAL, "zookeeper: %s is not UTF-8", what);
        if (is_refused(value_of(path, size)))
            return dlk_error_set(
                err, DLOCK_EINVAL,
                "zookeeper: %s has the character U+%04X, which ZooKeeper refuses", what,
                (unsigned)value_of(path, size));
        path += size;
        left -= size;
    }
    return DLOCK_OK;
}

/* ---- names ---- */

const char *dlk_zk_proper_name(const char *name)
{
    return name + (name[0] == '/' && name[1]);
}

/* Each part of @p text, turned and with a '/' before it. */
static bool turn_parts(const char *chroot, const char *text,
                       char *(*turn)(const dlk_alphabet *, const char *, size_t),
                       dlk_buf *to)
{
    const dlk_alphabet *alphabet = chroot[0] ? &below : &at_root;
    for (const char *end;; text = end + 1, alphabet = &below) {
        end = strchrnul(text, '/');
        char *part = turn(alphabet, text, (size_t)(end - text));
        bool fine =
            part && dlk_buf_append(to, "/", 1) && dlk_buf_append(to, part, strlen(part));
        free(part);
        if (!fine)
            return false;
        if (*end == '\0')
            return true;
    }
}

char *dlk_zk_path_of(const char *chroot, const char *name)
{
    dlk_buf path = {0};
    if ((!chroot[0] || dlk_buf_append(&path, chroot, strlen(chroot))) &&
        turn_parts(chroot, name, dlk_escape, &path) && dlk_buf_append(&path, "", 1))
        return path.data;
    dlk_buf_free(&path);
    return NULL;
}

char *dlk_zk_name_of(const char *chroot, const char *path)
{
    dlk_buf name = {0};
    path += strlen(chroot);
    path += path[0] == '/';
    if (turn_parts(chroot, path, dlk_unescape, &name) && dlk_buf_append(&name, "", 1)) {
        /* Before one that begins with a '/' another one is needed. */
        if (name.data[1] != '/' || !name.data[2])
            memmove(name.data, name.data + 1, dlk_buf_size(&name) - 1);
        return name.data;
    }
    dlk_buf_free(&name);
    return NULL;
}

char *dlk_zk_part_of(const char *name)
{
    return dlk_escape(&within, name, strlen(name));
}

/*
 * The pattern layout, for fleets with locks of their own making: zookeeper.node is the path of a
 * node, in which stand
 *
 *     {name}     the lock's name
 *     {session}  the number of the session that made it, as text others may write as they like
 *     {uuid}     something that was never used before
 *     {side}     W or R: which side of a read/write lock
 *     {seq}      the ten digits that ZooKeeper puts at the end
 *
 * Who stands in line are the children whose names have the same form with the same name. What a
 * node can't be called is escaped in a name (paths.h): in the last part also a '/'.
 */
#include "backends/zookeeper/inner.h"
#include "backends/zookeeper/paths.h"

#include "util/buf.h"
#include "util/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dlk_zk_form_free(dlk_zk_form *form)
{
    if (!form)
        return;
    free(form->head);
    free(form->tail);
    free(form);
}

char *dlk_zk_form_expand(const dlk_zk_form *form, int64_t session, const char *uuid)
{
    char number[24] = "", *text = NULL;
    if (form->session)
        (void)snprintf(number, sizeof(number), "%" PRId64, session); /* fits */
    const char *between = form->session && form->uuid ? "-" : "";
    if (asprintf(&text, "%s%s%s%s%s", form->head, number, between, form->uuid ? uuid : "",
                 form->tail) < 0)
        return NULL;
    return text;
}

static dlock_err refuse(dlock_error **err, const char *why)
{
    return dlk_error_set(err, DLOCK_EINVAL, "zookeeper: zookeeper.node %s", why);
}

static bool append(dlk_buf *to, const char *text, size_t size)
{
    return dlk_buf_append(to, text, size);
}

static bool starts(const char *at, const char *word)
{
    return strncmp(at, word, strlen(word)) == 0;
}

/* The text up to @p end with {name} and {side} put in; NULL without memory. Stops at the first of
 * the other two, if @p ret_stop wants to know where. */
static char *expand(const char *at, const char *end, const char *name, const char *side,
                    const char **ret_stop)
{
    dlk_buf text = {0};
    bool fine = true;
    while (fine && at < end) {
        if (starts(at, "{name}")) {
            fine = append(&text, name, strlen(name));
            at += strlen("{name}");
        } else if (starts(at, "{side}")) {
            fine = append(&text, side, strlen(side));
            at += strlen("{side}");
        } else if (starts(at, "{session}") || starts(at, "{uuid}")) {
            break;
        } else {
            fine = append(&text, at++, 1);
        }
    }
    *ret_stop = at;
    fine = fine && append(&text, "", 1);
    if (fine)
        return text.data;
    dlk_buf_free(&text);
    return NULL;
}

/* The last part of the path, up to {seq}, for one side. */
static dlock_err make_form(const char *from, const char *end, const char *name,
                           const char *side, dlk_zk_form **ret, dlock_error **err)
{
    const char *at;
    dlk_zk_form *form = calloc(1, sizeof(*form));
    if (!form)
        return dlk_error_nomem(err);
    *ret = form;
    form->head = expand(from, end, name, side, &at);
    while (at < end && (starts(at, "{session}") || starts(at, "{uuid}"))) {
        bool session = starts(at, "{session}");
        if (session ? form->session || form->uuid : form->uuid)
            return refuse(err, "may have {session} once, and {uuid} once behind it");
        *(session ? &form->session : &form->uuid) = true;
        at += strlen(session ? "{session}" : "{uuid}");
        if (session && starts(at, "-{uuid}"))
            at++;
    }
    form->tail = expand(at, end, name, side, &at);
    if (at != end)
        return refuse(err, "may have {session} and {uuid} only side by side");
    return form->head && form->tail ? DLOCK_OK : dlk_error_nomem(err);
}

static dlock_err check(const dlk_zk *zk, const char *node, const dlk_key *key,
                       dlock_error **err)
{
    const char *seq = strstr(node, "{seq}");
    if (!node[0])
        return refuse(err, "must be set for zookeeper.layout=pattern");
    if (!seq || strcmp(seq, "{seq}") != 0)
        return refuse(err, "must end with {seq}: ZooKeeper puts the digits there");
    if (!strstr(node, "{name}"))
        return refuse(err, "needs {name}: else all names are one lock");
    if ((key->kind == DLOCK_WRITE) != (strstr(node, "{side}") != NULL))
        return refuse(err, "needs {side} for read/write locks, and only for them");
    if (!zk->chroot[0] && starts(node + (node[0] == '/'), "zookeeper/"))
        return refuse(err, "is below /zookeeper, which belongs to the servers");
    return dlk_zk_check_path(node, "zookeeper.node", err);
}

/* Its last part, for one side or for both. */
static dlock_err make_forms(const char *last, const dlk_key *key, dlk_zk_key *home,
                            dlock_error **err)
{
    char *name = dlk_zk_part_of(dlk_zk_proper_name(key->name));
    if (!name)
        return dlk_error_nomem(err);
    dlock_err code = DLOCK_OK;
    for (int side = 0; side < (key->kind == DLOCK_WRITE ? 2 : 1) && code == DLOCK_OK;
         side++)
        code = make_form(last, strstr(last, "{seq}"), name, side ? "R" : "W",
                         &home->forms[side], err);
    free(name);
    return code;
}

/* What is above it. */
static dlock_err make_folder(const dlk_zk *zk, const char *node, const char *end,
                             const dlk_key *key, dlk_zk_key *home, dlock_error **err)
{
    const char *stop;
    char *folder = expand(node, end, dlk_zk_proper_name(key->name), "", &stop);
    if (!folder)
        return dlk_error_nomem(err);
    if (stop == end)
        home->parents[0] = end > node ? dlk_zk_path_of(zk->chroot, folder)
                                      : strdup(zk->chroot[0] ? zk->chroot : "/");
    free(folder);
    if (stop != end)
        return refuse(err, "may have {session} and {uuid} only in its last part");
    return home->parents[0] ? DLOCK_OK : dlk_error_nomem(err);
}

dlock_err dlk_zk_pattern_open(const dlk_zk *zk, const dlk_key *key, dlk_zk_key *home,
                              dlock_error **err)
{
    const char *node = dlk_settings_text(key->settings, DLK_KEY_ZOOKEEPER_NODE);
    dlock_err code = check(zk, node, key, err);
    node += node[0] == '/';
    const char *last = strrchr(node, '/');
    if (code == DLOCK_OK)
        code = make_forms(last ? last + 1 : node, key, home, err);
    if (code == DLOCK_OK)
        code = make_folder(zk, node, last ? last : node, key, home, err);
    return code;
}

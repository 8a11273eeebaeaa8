/* Cutting a URI at its delimiters, and putting it together again without its secrets. */
#include "util/uri_mask.h"

#include "util/buf.h"

#include <stdlib.h>
#include <string.h>

size_t dlk_slice_find(dlk_slice slice, char c)
{
    const char *found = slice.size ? memchr(slice.at, c, slice.size) : NULL;
    return found ? (size_t)(found - slice.at) : slice.size;
}

dlk_slice dlk_slice_from(dlk_slice slice, size_t start)
{
    if (start > slice.size)
        start = slice.size;
    return (dlk_slice){slice.at + start, slice.size - start};
}

static void split_authority(dlk_uri_parts *parts, dlk_slice authority)
{
    parts->hosts = authority;
    for (size_t i = authority.size; i > 0; i--) {
        if (authority.at[i - 1] == '@') {
            parts->user = (dlk_slice){authority.at, i - 1};
            parts->hosts = dlk_slice_from(authority, i);
            return;
        }
    }
}

dlk_uri_parts dlk_uri_split(const char *text)
{
    dlk_uri_parts parts = {0};
    dlk_slice rest = {text, strlen(text)};
    size_t colon = dlk_slice_find(rest, ':');
    parts.scheme = (dlk_slice){text, colon};
    rest = dlk_slice_from(rest, colon + 1);

    size_t question = dlk_slice_find(rest, '?');
    parts.query = dlk_slice_from(rest, question + 1);
    parts.path = (dlk_slice){rest.at, question};
    if (question >= 2 && rest.at[0] == '/' && rest.at[1] == '/') {
        parts.has_authority = true;
        dlk_slice behind = dlk_slice_from(parts.path, 2);
        size_t slash = dlk_slice_find(behind, '/');
        split_authority(&parts, (dlk_slice){behind.at, slash});
        parts.path = dlk_slice_from(behind, slash);
    }
    parts.stray_at = memchr(parts.path.at, '@', strlen(parts.path.at)) != NULL;
    return parts;
}

static bool put(dlk_buf *out, const char *text)
{
    return dlk_buf_append(out, text, strlen(text));
}

static bool put_slice(dlk_buf *out, dlk_slice slice)
{
    return dlk_buf_append(out, slice.at, slice.size);
}

/* A user without a password may be a password without its colon: neither is shown. */
static bool put_user(dlk_buf *out, dlk_slice user)
{
    if (user.size == 0)
        return true;
    size_t colon = dlk_slice_find(user, ':');
    if (colon < user.size && !put_slice(out, (dlk_slice){user.at, colon + 1}))
        return false;
    return put(out, "***@");
}

/* Whatever isn't known to be harmless is taken for a secret. */
static bool may_show(const char *key)
{
    dlk_key_id id;
    return dlk_settings_find(key, &id, NULL) == DLOCK_OK &&
           dlk_settings_spec(id)->type != DLK_TYPE_SECRET;
}

static bool put_query(dlk_buf *out, const dlk_uri *uri, dlk_slice query)
{
    bool ok = query.size == 0 || put(out, "?");
    size_t parameter = 0;
    while (ok && query.size > 0) {
        dlk_slice pair = {query.at, dlk_slice_find(query, '&')};
        bool last = pair.size == query.size;
        query = dlk_slice_from(query, pair.size + 1);
        if (pair.size > 0 && !may_show(uri->parameters[parameter++].key))
            ok = put_slice(out, (dlk_slice){pair.at, dlk_slice_find(pair, '=')}) &&
                 put(out, "=***");
        else
            ok = put_slice(out, pair);
        ok = ok && (last || put(out, "&"));
    }
    return ok;
}

static bool put_uri(dlk_buf *out, const dlk_uri *uri, const dlk_uri_parts *parts)
{
    bool ok = put(out, uri->scheme) && put(out, parts->has_authority ? "://" : ":");
    if (uri->ambiguous)
        return ok && put(out, "***");
    return ok && put_user(out, parts->user) && put_slice(out, parts->hosts) &&
           put_slice(out, parts->path) && put_query(out, uri, parts->query);
}

char *dlk_uri_mask(const dlk_uri *uri, const dlk_uri_parts *parts)
{
    dlk_buf out = {0};
    char *masked = NULL;
    if (put_uri(&out, uri, parts))
        masked = strndup(dlk_buf_head(&out), dlk_buf_size(&out));
    dlk_buf_free(&out);
    return masked;
}

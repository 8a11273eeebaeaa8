/* Why nobody can be reached; see the header. */
#include "util/whys.h"

#include "util/error.h"
#include "util/text.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct dlk_why {
    char address[160]; /* a host name may be longer: its beginning says enough */
    dlk_whys_step step;
    char reason[200];
};

/* Of all addresses together. */
#define LIST_MAX 4096

/* A character that isn't all there is left out. */
static void copy_cut(char *to, size_t size, const char *from)
{
    int length = snprintf(to, size, "%s", from);
    if (length < 0 || (size_t)length < size)
        return;
    size_t left = size - 1;
    for (size_t step; left > 0; to += step, left -= step) {
        step = dlk_utf8_size(to, left);
        if (step == 0 && left < 4) {
            *to = '\0';
            return;
        }
        step += step == 0;
    }
}

static dlk_why *find(const dlk_whys *whys, const char *address)
{
    for (size_t i = 0; i < whys->count; i++)
        if (strncmp(whys->items[i].address, address,
                    sizeof(whys->items[i].address) - 1) == 0)
            return &whys->items[i];
    return NULL;
}

static dlk_why *add(dlk_whys *whys, const char *address)
{
    if (!whys->items)
        whys->items = calloc(DLK_WHYS_MAX, sizeof(*whys->items));
    if (!whys->items)
        return NULL;
    if (whys->count == DLK_WHYS_MAX) {
        whys->left_out = true;
        return NULL;
    }
    dlk_why *why = &whys->items[whys->count++];
    snprintf(why->address, sizeof(why->address), "%s", address);
    return why;
}

void dlk_whys_note(dlk_whys *whys, const char *address, dlk_whys_step step,
                   const char *reason)
{
    dlk_why *why = whys ? find(whys, address) : NULL;
    if (whys && !why)
        why = add(whys, address);
    if (!why)
        return;
    why->step = step;
    copy_cut(why->reason, sizeof(why->reason), reason);
}

void dlk_whys_forget(dlk_whys *whys, const char *address)
{
    dlk_why *why = whys ? find(whys, address) : NULL;
    if (!why)
        return;
    size_t behind = (size_t)(&whys->items[--whys->count] - why);
    memmove(why, why + 1, behind * sizeof(*why));
}

void dlk_whys_clear(dlk_whys *whys)
{
    free(whys->items);
    *whys = (dlk_whys){0};
}

/* ---- telling ---- */

static bool goes_on(char c)
{
    return isalnum((unsigned char)c) || c == '.' || c == '-' || c == ']' || c == '_';
}

/* Is this address' own reason in the text: "…ADDRESS: …"? */
static bool is_said(const char *text, const char *address)
{
    size_t size = strlen(address);
    for (const char *at = text; size > 0 && (at = strstr(at, address)); at++) {
        bool whole =
            (at == text || !goes_on(at[-1])) &&
            (strncmp(at + size, ": ", 2) == 0 || strncmp(at + size, " lost: ", 7) == 0);
        if (whole)
            return true;
    }
    return false;
}

static const char *name_of(dlk_whys_step step)
{
    static const char *const names[] = {"look up", "connect", "TLS",
                                        "greet",   "log in",  "request"};
    return names[step];
}

/* False: there was no room for all. */
static bool list(const dlk_whys *whys, const char *text, char *to, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < whys->count; i++) {
        const dlk_why *why = &whys->items[i];
        if (is_said(text, why->address))
            continue;
        int put = snprintf(to + used, size - used, "%s%s: %s: %s", used ? "; " : "",
                           why->address, name_of(why->step), why->reason);
        if (put < 0 || (size_t)put >= size - used) {
            to[used] = '\0';
            return false;
        }
        used += (size_t)put;
    }
    return true;
}

dlock_error *dlk_whys_complete(const dlk_whys *whys, dlock_error *error)
{
    char said[LIST_MAX] = "";
    bool all = list(whys, error->text, said, sizeof(said)) && !whys->left_out;
    if (!said[0])
        return error;
    dlock_error *whole = dlk_error_make(error->code, "%s (%s%s)", error->text, said,
                                        all ? "" : "; and more");
    if (error->backend)
        dlk_error_backend(&whole, error->backend);
    dlock_error_free(error);
    return whole;
}

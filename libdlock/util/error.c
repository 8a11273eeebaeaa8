/* Error objects: a code, a line of text and the backend's own words. Nothing here may fail, so
 * each path that lacks memory ends at the static error of its code, which is never written or
 * freed: whoever is told ELOST or EUNKNOWN must be told so without memory, too. */
#include "util/error.h"

#include "util/text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char no_memory[] = "out of memory";
static char no_detail[] = "there is no memory to say more";

#define BARE(number) [number] = {.code = number, .text = no_detail}
static dlock_error bare[] = {
    BARE(DLOCK_EBUSY),     BARE(DLOCK_ETIMEDOUT),
    BARE(DLOCK_ECANCELED), BARE(DLOCK_ELOST),
    BARE(DLOCK_ENOTHELD),  BARE(DLOCK_EDEADLK),
    BARE(DLOCK_EPENDING),  BARE(DLOCK_EUNAVAIL),
    BARE(DLOCK_EUNKNOWN),  BARE(DLOCK_EINVAL),
    BARE(DLOCK_ENOTSUP),   BARE(DLOCK_EACCES),
    BARE(DLOCK_ECONFLICT), BARE(DLOCK_EQUORUM),
    BARE(DLOCK_EOVERFLOW), BARE(DLOCK_ECLOSED),
    BARE(DLOCK_EFORKED),   BARE(DLOCK_EPROTO),
    BARE(DLOCK_EUSER),     [DLOCK_ENOMEM] = {.code = DLOCK_ENOMEM, .text = no_memory},
};

static bool is_bare(const dlock_error *error)
{
    return error == &bare[error->code];
}

static dlock_error *make(dlock_err code, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

static dlock_error *make(dlock_err code, const char *format, va_list args)
{
    assert(code != DLOCK_OK);
    dlock_error *error = calloc(1, sizeof(*error));
    if (!error)
        return &bare[code];
    error->code = code;
    if (vasprintf(&error->text, format, args) < 0) {
        free(error);
        return &bare[code];
    }
    dlk_text_one_line(error->text); /* it quotes names, files and servers */
    return error;
}

dlock_error *dlk_error_make(dlock_err code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    dlock_error *error = make(code, format, args);
    va_end(args);
    return error;
}

dlock_err dlk_error_set(dlock_error **err, dlock_err code, const char *format, ...)
{
    if (!err)
        return code;
    va_list args;
    va_start(args, format);
    /* Made before the old one is freed: its text may be among the arguments. */
    dlock_error *error = make(code, format, args);
    va_end(args);
    dlock_error_free(*err);
    *err = error;
    return code;
}

dlock_err dlk_error_nomem(dlock_error **err)
{
    return err ? dlk_error_give(err, &bare[DLOCK_ENOMEM]) : DLOCK_ENOMEM;
}

dlock_err dlk_error_clear(dlock_error **err)
{
    return dlk_error_give(err, NULL);
}

dlock_err dlk_error_give(dlock_error **err, dlock_error *error)
{
    dlock_err code = error ? error->code : DLOCK_OK;
    if (!err) {
        dlock_error_free(error);
        return code;
    }
    if (*err != error)
        dlock_error_free(*err);
    *err = error;
    return code;
}

dlock_error *dlk_error_copy(const dlock_error *error)
{
    if (!error)
        return NULL;
    if (is_bare(error))
        return &bare[error->code];
    dlock_error *copy = dlk_error_make(error->code, "%s", error->text);
    if (error->backend)
        dlk_error_backend(&copy, error->backend);
    return copy;
}

void dlk_error_backend(dlock_error **err, const char *words)
{
    if (!err || !*err || is_bare(*err) || !words)
        return;
    char *copy = strdup(words);
    if (!copy)
        return;
    dlk_text_one_line(copy);
    free((*err)->backend);
    (*err)->backend = copy;
}

bool dlk_error_retriable(dlock_err code)
{
    return code == DLOCK_EBUSY || code == DLOCK_ETIMEDOUT || code == DLOCK_EUNAVAIL ||
           code == DLOCK_EUNKNOWN || code == DLOCK_EQUORUM;
}

/* Public, but here: util must be able to free what it makes without knowing about api/. */
void dlock_error_free(dlock_error *error)
{
    if (!error || is_bare(error))
        return;
    free(error->text);
    free(error->backend);
    free(error);
}

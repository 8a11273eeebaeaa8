/* Error objects: a code, a line of text and the backend's own words. Nothing here may fail, so
 * each path that lacks memory ends at the static `no_memory`, which is never written or freed. */
#include "util/error.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char no_memory_text[] = "out of memory";
static dlock_error no_memory = {.code = DLOCK_ENOMEM, .text = no_memory_text};

/* Text comes from names, files and servers: one line must stay one line. */
static void make_one_line(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = ' ';
}

static dlock_error *make(dlock_err code, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

static dlock_error *make(dlock_err code, const char *format, va_list args)
{
    assert(code != DLOCK_OK);
    dlock_error *error = calloc(1, sizeof(*error));
    if (!error)
        return &no_memory;
    error->code = code;
    if (vasprintf(&error->text, format, args) < 0) {
        free(error);
        return &no_memory;
    }
    make_one_line(error->text);
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
    return dlk_error_give(err, &no_memory);
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
    if (error == &no_memory)
        return &no_memory;
    dlock_error *copy = dlk_error_make(error->code, "%s", error->text);
    if (error->backend)
        dlk_error_backend(&copy, error->backend);
    return copy;
}

void dlk_error_backend(dlock_error **err, const char *words)
{
    if (!err || !*err || *err == &no_memory || !words)
        return;
    char *copy = strdup(words);
    if (!copy)
        return;
    make_one_line(copy);
    free((*err)->backend);
    (*err)->backend = copy;
}

bool dlk_error_retriable(dlock_err code)
{
    return code == DLOCK_EBUSY || code == DLOCK_ETIMEDOUT || code == DLOCK_EUNAVAIL ||
           code == DLOCK_EUNKNOWN || code == DLOCK_EQUORUM;
}

const char *dlk_error_errno(int number, char *text, size_t size)
{
    return strerror_r(number, text, size); /* GNU's: may return a static text instead */
}

/* Public, but here: util must be able to free what it makes without knowing about api/. */
void dlock_error_free(dlock_error *error)
{
    if (!error || error == &no_memory)
        return;
    free(error->text);
    free(error->backend);
    free(error);
}

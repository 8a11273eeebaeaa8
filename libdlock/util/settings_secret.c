/* Secrets: read where the settings say at each connect, so that a changed password is found. */
#include "util/settings.h"

#include "util/error.h"
#include "util/secret.h"
#include "util/settings_values.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECRET_MAX 4096 /* bytes of the first line of a file */

/* Up to @p size bytes; -1 with errno. */
static ssize_t read_start(int fd, char *data, size_t size)
{
    size_t used = 0;
    while (used < size) {
        ssize_t got = read(fd, data + used, size - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        used += (size_t)got;
    }
    return (ssize_t)used;
}

static dlock_err first_line(const char *key, const char *path, char *data, ssize_t size,
                            dlock_error **err)
{
    if (size < 0) {
        char why[128];
        return dlk_error_set(err, errno == EACCES ? DLOCK_EACCES : DLOCK_EINVAL,
                             "can't read %s '%s': %s", key, path,
                             dlk_error_errno(errno, why, sizeof(why)));
    }
    data[size] = '\0';
    data[strcspn(data, "\r\n")] = '\0';
    if (data[0] == '\0')
        return dlk_error_set(err, DLOCK_EINVAL, "%s '%s': its first line is empty", key,
                             path);
    if (strlen(data) == SECRET_MAX)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "%s '%s': its first line is over %d bytes", key, path,
                             SECRET_MAX - 1);
    return DLOCK_OK;
}

dlock_err dlk_secret_from_file(const char *key, const char *path, char **ret,
                               dlock_error **err)
{
    char *data = dlk_secret_new(SECRET_MAX + 1);
    if (!data)
        return dlk_error_nomem(err);
    /* Non-blocking: a pipe without a writer must not stop the engine. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t size = fd < 0 ? -1 : read_start(fd, data, SECRET_MAX);
    dlock_err code = first_line(key, path, data, size, err);
    if (fd >= 0)
        close(fd);
    if (code) {
        dlk_secret_free(data);
        return code;
    }
    /* What comes behind its first line is none of ours. */
    size_t used = strlen(data);
    dlk_wipe(data + used, SECRET_MAX - used);
    *ret = data;
    return DLOCK_OK;
}

static dlock_err from_environment(const char *key, const char *name, char **ret,
                                  dlock_error **err)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): setenv beside threads is the caller's risk */
    const char *value = getenv(name);
    if (!value)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "%s: the environment variable '%.80s' isn't set", key, name);
    *ret = dlk_secret_dup(value);
    return *ret ? DLOCK_OK : dlk_error_nomem(err);
}

dlock_err dlk_settings_secret(const dlk_settings *settings, dlk_key_id id, char **ret,
                              dlock_error **err)
{
    dlk_key_id file = (dlk_key_id)(id + 1), env = (dlk_key_id)(id + 2);
    char *secret = NULL;
    dlock_err code = DLOCK_OK;
    if (dlk_settings_is_set(settings, file))
        code = dlk_secret_from_file(dlk_settings_spec(file)->name,
                                    dlk_settings_text(settings, file), &secret, err);
    else if (dlk_settings_is_set(settings, env))
        code = from_environment(dlk_settings_spec(env)->name,
                                dlk_settings_text(settings, env), &secret, err);
    else if (dlk_settings_text(settings, id)[0])
        secret = dlk_secret_share(settings->values[id].text);
    if (code)
        return code;
    *ret = secret;
    return dlk_error_clear(err);
}

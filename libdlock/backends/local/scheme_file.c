/* file:///PATH, a table that the processes of a machine share. */
#include "backends/local/inner.h"

#include "backends/local/local.h"

#include <stdlib.h>
#include <string.h>

static dlock_err check_uri(const dlk_uri *uri, dlock_error **err)
{
    bool local = uri->host_count == 0 ||
                 (uri->host_count == 1 && (uri->hosts[0].host[0] == '\0' ||
                                           strcmp(uri->hosts[0].host, "localhost") == 0));
    if (!local)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "file: is within one machine and takes no host; write "
                             "file:///path");
    size_t size = strlen(uri->path);
    if (size < 2 || uri->path[0] != '/' || uri->path[size - 1] == '/')
        return dlk_error_set(err, DLOCK_EINVAL,
                             "file: needs the absolute path of a file, as in "
                             "file:///run/lock/app");
    return DLOCK_OK;
}

static void leave_file(dlk_local *local)
{
    dlk_file_close(&local->file, &local->mapped);
}

static dlock_err open_file(dlk_host *host, const dlk_uri *uri,
                           const dlk_settings *settings, dlk_backend **ret,
                           dlock_error **err)
{
    dlock_err rc = check_uri(uri, err);
    if (rc != DLOCK_OK)
        return rc;
    dlk_local *local = dlk_local_new(&dlk_file_backend, host);
    if (!local)
        return dlk_error_nomem(err);
    dlk_file_wish wish = {
        .path = uri->path,
        .slots = (uint32_t)dlk_settings_int(settings, DLK_KEY_FILE_SLOTS),
        .mode = (mode_t)dlk_settings_int(settings, DLK_KEY_FILE_MODE),
        .wait_ms = dlk_settings_int(settings, DLK_KEY_CLIENT_CONNECT_MS),
    };
    rc = dlk_file_open(&local->file, &local->mapped, &wish, err);
    if (rc != DLOCK_OK) {
        free(local);
        return rc;
    }
    local->table = &local->mapped;
    local->leave = leave_file;
    *ret = &local->base;
    return DLOCK_OK;
}

static const char *const file_schemes[] = {"file", NULL};

const dlk_backend_type dlk_file_backend = {
    .name = "local",
    .schemes = file_schemes,
    .traits = DLK_LOCAL_TRAITS,
    .open = open_file,
    DLK_LOCAL_OPS,
};

/* A caller's settings, before they become a client's or a lock's. */
#ifndef DLK_API_CONF_H
#define DLK_API_CONF_H

#include "util/settings.h"

#include <dlock/dlock.h>

struct dlock_conf {
    dlk_settings *settings;
    dlock_log_fn *log; /* NULL: log lines become events */
    void *log_user;
};

#endif

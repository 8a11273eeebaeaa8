/* From a lock's name to a path of ZooKeeper's. */
#ifndef DLK_BACKENDS_ZOOKEEPER_PATHS_H
#define DLK_BACKENDS_ZOOKEEPER_PATHS_H

#include <dlock/dlock.h>

#include <stddef.h>

/* Checks a path that begins with '/', or is "": no empty part, no "." or "..", nothing that the
 * server would refuse. @p what is what it is called in the error. */
dlock_err dlk_zk_check_path(const char *path, const char *what, dlock_error **err);

/* chroot + "/" + name, yours to free. A '/' before the name is the same as none. */
dlock_err dlk_zk_path_of(const char *chroot, const char *name, size_t size, char **ret,
                         dlock_error **err);

#endif

/*
 * From a lock's name to a path of ZooKeeper's, and back.
 *
 * The parts of a name are the nodes of its path; one that can't be a node is escaped (util/escape.h), and
 * so is an empty one. A '/' before a name is the same as none.
 */
#ifndef DLK_BACKENDS_ZOOKEEPER_PATHS_H
#define DLK_BACKENDS_ZOOKEEPER_PATHS_H

#include <dlock/dlock.h>

#include <stddef.h>

/* Checks a path of the user's: no empty part, no "." or "..", nothing that the server would refuse. ""
 * is fine. @p what is what it is called in the error. */
dlock_err dlk_zk_check_path(const char *path, const char *what, dlock_error **err);

/* The name without the '/' before it that means nothing. */
const char *dlk_zk_proper_name(const char *name);
/* The path of a proper name below the chroot, yours to free; NULL without memory. */
char *dlk_zk_path_of(const char *chroot, const char *name);
/* The name that has this path, which is the chroot's or below it: likewise. */
char *dlk_zk_name_of(const char *chroot, const char *path);
/* A proper name as a part of a node's name that has digits at its end: likewise. */
char *dlk_zk_part_of(const char *name);

#endif

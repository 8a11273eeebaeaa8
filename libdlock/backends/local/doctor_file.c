/* What an operator should know about the file behind a table. */
#include "backends/local/doctor.h"

#include <sys/statfs.h>

#define TMPFS 0x01021994u
#define FUSE  0x65735546u

void dlk_local_look_at_file(dlock_info *to, const dlk_local *local)
{
    struct stat st;
    struct statfs fs;
    if (local->gone)
        dlk_find(to, "gone", DLK_UNSAFE, "%s", dlock_error_text(local->gone));
    if (fstat(local->file.fd, &st) != 0 || fstatfs(local->file.fd, &fs) != 0) {
        dlk_find(to, "file", DLK_UNSAFE, "%s can't be looked at", local->file.path);
        return;
    }
    unsigned mode = st.st_mode & 0777;
    dlk_find(to, "mode", mode & 022 ? DLK_WARNING : DLK_FINE, "%s has mode %04o%s",
             local->file.path, mode,
             mode & 022
                 ? ": whoever may write it can take, break or damage every lock in it"
                 : "");
    if ((uint32_t)fs.f_type == TMPFS)
        dlk_find(
            to, "tmpfs", DLK_FINE,
            "%s lies in memory: a reboot removes it, and its locks are void then anyway",
            local->file.path);
    if ((uint32_t)fs.f_type == FUSE)
        dlk_find(to, "fuse", DLK_WARNING,
                 "%s lies on a FUSE file system: locks hold only if no other machine "
                 "mounts it",
                 local->file.path);
}

/* What an operator should know about the file behind a table. */
#include "backends/local/doctor.h"

#include <sys/statfs.h>

#define TMPFS 0x01021994u
#define FUSE  0x65735546u

void dlk_local_look_at_file(dlk_local_report *to, const dlk_local *local)
{
    struct stat st;
    struct statfs fs;
    if (local->gone)
        dlk_local_finding(to, 2, "gone", "%s", dlock_error_text(local->gone));
    if (fstat(local->file.fd, &st) != 0 || fstatfs(local->file.fd, &fs) != 0) {
        dlk_local_finding(to, 2, "file", "%s can't be looked at", local->file.path);
        return;
    }
    unsigned mode = st.st_mode & 0777;
    dlk_local_finding(
        to, (mode & 022) != 0, "mode", "%s has mode %04o%s", local->file.path, mode,
        mode & 022 ? ": whoever may write it can take, break or damage every lock in it"
                   : "");
    if ((uint32_t)fs.f_type == TMPFS)
        dlk_local_finding(
            to, 0, "tmpfs",
            "%s lies in memory: a reboot removes it, and its locks are void then anyway",
            local->file.path);
    if ((uint32_t)fs.f_type == FUSE)
        dlk_local_finding(
            to, 1, "fuse",
            "%s lies on a FUSE file system: locks hold only if no other machine "
            "mounts it",
            local->file.path);
}

/*
 * Descriptors that a fork's child must not keep: it closes them before fork returns there.
 *
 * Made, noted and closed under one mutex, which a fork takes as well: so each that a child inherits
 * is noted, from its first moment to its last, and no number is noted that is somebody else's by
 * now. Not for what is opened and closed in one go, like a file of settings.
 */
#ifndef DLK_UTIL_DESCRIPTOR_H
#define DLK_UTIL_DESCRIPTOR_H

/* int fd = DLK_FD(eventfd(0, EFD_CLOEXEC)): what @p make answers, noted; -1 and errno, ENOMEM as well.
 * Nobody is cancelled there, and a fork waits for it. */
#define DLK_FD(make) (dlk_fd_begin(), dlk_fd_keep(make))

/* Closes one that DLK_FD made, or any other; -1 is fine. */
void dlk_fd_close(int fd);

/* Of DLK_FD only. */
void dlk_fd_begin(void);
int dlk_fd_keep(int fd);
/* One more that @p make has made; -1 and ENOMEM as well. Between dlk_fd_begin and dlk_fd_keep. */
int dlk_fd_note(int fd);

/* close(2), but no cancellation point: for what isn't noted. errno may change. */
void dlk_fd_end(int fd);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files, for the tools and for reloads.  Functions return true, or false with a message of one line
 * ("cannot read FILE: Permission denied") in `why` (FS_WHY bytes).
 */
#ifndef SLUICE_BASE_FS_H
#define SLUICE_BASE_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FS_WHY = 512 };

/* Reads a regular file of at most `limit` bytes; *data is malloc'd with a NUL after its end. */
bool fs_read(const char *path, size_t limit, uint8_t **data, size_t *len, char *why);

/* Writes all of it to `fd`, however many system calls that takes; false with errno set. */
bool fs_write_all(int fd, const void *data, size_t len);

/* Writes a file whole or not at all: temporary name beside it, fsync, rename, fsync of the folder.
 */
bool fs_write_atomic(const char *path, const void *data, size_t len, unsigned mode, char *why);

/* mkdir -p. */
bool fs_make_dirs(const char *path, char *why);

/* rm -rf of `path`, without following symbolic links; a path that does not exist is no error. */
bool fs_remove_tree(const char *path, char *why);

/* Points the symbolic link `link` at `target` in one rename (so readers see the old or the new). */
bool fs_switch_link(const char *link, const char *target, char *why);

/* malloc'd "a/b", or NULL without memory. */
char *fs_join(const char *a, const char *b);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the file of an image into memory, with its checksum: most of a server's start with a
 * large zone is spent here, in the kernel, which clears fresh memory and copies into it.
 */
#ifndef SLUICE_ZONES_IMAGE_READ_H
#define SLUICE_ZONES_IMAGE_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads `size` octets of the file into `to`, and makes XXH3 (64 bits) of all but the first
 * `uncovered` of them.  A large file is read by several threads, which have ended when this
 * returns.  False with errno set; EIO: the file is shorter.  Callable by any thread. */
bool image_read_file(int fd, uint8_t *to, size_t size, size_t uncovered, uint64_t *checksum);

#endif

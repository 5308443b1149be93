/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder that builds live in (layout: zones/build.h), as one build sees it: locked, with the
 * build that is live now, and with a temporary folder that becomes the next one.
 *
 * Whatever kills the process at whatever moment leaves the live build as it was; what it left
 * behind is removed by the next build.  Functions return false with a one-line reason in `why` (512
 * bytes).
 */
#ifndef SLUICE_ZONES_BUILDDIR_H
#define SLUICE_ZONES_BUILDDIR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  BUILDDIR_ID = 16,    /* hex digits of a build's name */
  BUILDDIR_SHA = 64,   /* hex digits of a SHA-256 */
  BUILDDIR_KEEP = 8,   /* complete builds that are kept, the live one included: so far back goes
                        * IXFR; files of unchanged zones are shared */
  BUILDDIR_FILE = 200, /* most octets of a file name that builddir_zone_file() makes */
};

struct builddir {
  char *data; /* as given */
  int lock;
  int builds;
  int next;                      /* the temporary folder */
  int previous;                  /* the live build, -1 if there is none */
  char current[BUILDDIR_ID + 1]; /* name of the live build, "" if there is none */
  atomic_size_t written;         /* files made anew, not taken from the live build */
  atomic_bool sync_all;          /* too many files to wait for each */
};

/* Makes the folders, waits for a build that is under way, and removes leftovers of killed ones. */
bool builddir_open(struct builddir *dir, const char *data, char *why);

/* Removes what is not needed any more (the temporary folder, old builds) and unlocks. */
void builddir_close(struct builddir *dir);

/* True if the live build has the file with these contents (hex SHA-256). */
bool builddir_has(const struct builddir *dir, const char *file, const char *sha);

/* Takes a file of the live build over by a hard link; false if it cannot. */
bool builddir_link(struct builddir *dir, const char *file);

/* Writes a file of the next build. */
bool builddir_write(struct builddir *dir, const char *file, const void *data, size_t len,
                    char *why);

/* Makes all durable, gives the next build its name and switches to it. */
bool builddir_switch(struct builddir *dir, const char *id, char *why);

/* Makes all durable and keeps the next build aside, in place of one that was kept before. */
bool builddir_prepare(struct builddir *dir, char *why);

/* Switches to the build that was kept aside, which must be `id`; or to an earlier build of that
 * name. */
bool builddir_publish(struct builddir *dir, const char *id, char *why);

/* Lower-case hex digits of `n` bytes, and a NUL. */
void builddir_hex(const uint8_t *bytes, size_t n, char *out);

/* Hex SHA-256 of some bytes; false without memory. */
bool builddir_sha(const void *data, size_t len, char out[BUILDDIR_SHA + 1]);

/*
 * The file of a zone, "zones/<apex>SUFFIX", for an apex in wire format and lower case; octets that
 * have a meaning in paths or to shells are written as %XX, and a name too long for a file as its
 * hash.
 */
bool builddir_zone_file(const uint8_t *apex, const char *suffix, char out[BUILDDIR_FILE + 32]);

#endif

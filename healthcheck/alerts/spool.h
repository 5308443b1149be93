/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spool: a journal on disk of what alerts have to remember (incidents that are open, messages
 * that were not delivered yet), so that killing the checker at any moment loses nothing.
 *
 * Records are JSON objects, one a line, behind a checksum: "0123456789abcdef {...}\n".  They say
 * what is so from now on, and are read again in order.  A line that was not finished when the
 * program was killed is dropped; one that is damaged is left out, the file is kept aside under
 * another name, and the log says so.  When the journal has grown well beyond what it has to hold,
 * it is written anew with what is known now, in one rename.
 *
 * Records are written when spool_flush() is called, with one write(2), and made durable against a
 * crash of the machine from a thread of the loop's pool.  Everything belongs to the loop's thread.
 */
#ifndef SLUICE_HEALTHCHECK_ALERTS_SPOOL_H
#define SLUICE_HEALTHCHECK_ALERTS_SPOOL_H

#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

enum {
  SPOOL_WHY = 512,
  SPOOL_RECORD = 64 << 10, /* octets of a line */
  SPOOL_FILE = 1 << 30,    /* octets of a journal that is read */
};

struct spool;

/* Opens `folder` (made if missing, mode 0700) and reads what is there: calls take() for each
 * record, which is borrowed; false from it counts as damage.  NULL with one line in `why`
 * (SPOOL_WHY octets).  A spool belongs to one program at a time. */
struct spool *spool_open(uv_loop_t *loop, const char *folder,
                         bool (*take)(void *arg, const json_t *record), void *arg, char *why);

/* Writes what is left, and closes. */
void spool_close(struct spool *spool);

/* A record of what is so from now on; takes the reference over (NULL: no memory). */
void spool_add(struct spool *spool, json_t *record);

/* True if the journal is much longer than the `needed` octets that it would have if it were written
 * anew now: that takes time, so it is not done while most of it is needed. */
bool spool_is_long(const struct spool *spool, size_t needed);

/* Writes the journal anew: spool_add() is called for all that is known between the two. */
void spool_rewrite_begin(struct spool *spool);
bool spool_rewrite_end(struct spool *spool);

/* Writes the records that were added.  False: the disk did not take them (said in the log); they
 * are kept and tried again by the next call. */
bool spool_flush(struct spool *spool);

/* Reads a journal's octets; the number of lines that were damaged.  For tests and fuzzing. */
size_t spool_parse(const char *data, size_t length, bool (*take)(void *arg, const json_t *record),
                   void *arg);

#endif

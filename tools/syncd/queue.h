/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is to be done at one provider, on disk: a file for each provider, replaced whole, so that
 * nothing is forgotten whatever is killed when.  A job says "bring this domain level"; what that
 * means is read when it is done, so a job that is done twice does no harm.
 *
 * {"format": 1, "provider": NAME,
 *  "jobs": {DOMAIN: {"since": Unix seconds, "attempts": N, "next": Unix ms, "want": mark?,
 *                    "error": TEXT?, "alone": true?, "again": N?}},
 *  "level": {DOMAIN: mark of what it was brought level with}}
 * where DOMAIN is a key as tools/syncd/round.h says.  The file is believed only within bounds: its
 * size, texts, and numbers of this age of the world.
 */
#ifndef SLUICE_TOOLS_SYNCD_QUEUE_H
#define SLUICE_TOOLS_SYNCD_QUEUE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { QUEUE_WHY = 512, QUEUE_BACKOFF_MAX = 300000 /* ms */ };

struct queue {
  char *name;
  char *path;
  json_t *jobs;
  json_t *level;
  bool dirty; /* differs from the file */
};

/* Opens the queue of a provider in `folder`, made if missing.  A damaged file is set aside (with
 * ".damaged" at its name, or ".damaged.2" and so on: none is overwritten) and *damaged told, with
 * what was wrong and where it is now in `why`: then everything counts as not level.  False with one
 * line in `why` (QUEUE_WHY octets). */
bool queue_open(struct queue *queue, const char *folder, const char *name, bool *damaged,
                char *why);
void queue_close(struct queue *queue);

/* Takes the jobs and levels of a file's text; false with one line in `why` (QUEUE_WHY octets): then
 * nothing of it is taken. */
bool queue_parse(struct queue *queue, const uint8_t *text, size_t len, char *why);

/* Writes it if it is dirty. */
bool queue_save(struct queue *queue, char *why);

/* The job of a domain, made if missing: due at once; NULL without memory. */
json_t *queue_add(struct queue *queue, const char *domain, int64_t now_s);

/* When a job that failed `attempts` times is tried again, in ms: doubles from `first` to five
 * minutes, and a random part (0 to 1) takes off up to a quarter. */
int64_t queue_backoff(int64_t first, long long attempts, double random);

#endif

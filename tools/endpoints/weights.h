/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `endpoints set` is asked to do with the weights of a level: `E=WEIGHT...`, or a profile:
 *
 *   only[E]         E 100, the others 0
 *   mostly[E]       E 95, the others share 5: integers, the remainder to the first of them
 *   even            1 each
 *   without[E]      E 0, the others as they are
 *   shift[A:B,10]   10 percentage points of the level's sum from A to B
 *   NAME            as `profiles:` of the configuration says; what it does not name stays
 *
 * All arithmetic is exact: where a share is no integer, the weights of the level are multiplied by
 * the smallest number that makes it one.  All here is pure.
 */
#ifndef SLUICE_TOOLS_ENDPOINTS_WEIGHTS_H
#define SLUICE_TOOLS_ENDPOINTS_WEIGHTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WEIGHTS_WHY = 1024, WEIGHTS_MAX_ITEMS = 65535 };

enum weights_kind {
  WEIGHTS_ASSIGN, /* items */
  WEIGHTS_ONLY,   /* items[0] */
  WEIGHTS_MOSTLY, /* items[0] */
  WEIGHTS_EVEN,
  WEIGHTS_WITHOUT, /* items[0] */
  WEIGHTS_SHIFT,   /* from items[0] to items[1] */
  WEIGHTS_NAMED,   /* `profile`, until weights_define() */
};

struct weights_item {
  char *endpoint;
  uint16_t weight;
};

struct weights {
  enum weights_kind kind;
  struct weights_item *items;
  size_t count;
  char *profile;   /* as written, or NULL for E=WEIGHT */
  uint32_t points; /* shift: hundredths of a percentage point */
};

/* Reads the arguments; false with one line in `why` (WEIGHTS_WHY octets).  weights_close() frees in
 * any case. */
bool weights_read(struct weights *weights, char *const *args, size_t count, char *why);
void weights_close(struct weights *weights);

/*
 * Looks a configured profile up in an object name -> {endpoint: weight}, after which it is
 * WEIGHTS_ASSIGN; others stay as they are.  False, with the nearest names, if there is none.
 * `profiles` may be NULL.
 */
bool weights_define(struct weights *weights, const json_t *profiles, char *why);

/* One level of a region: parallel arrays. */
struct weights_level {
  const char *const *names;
  uint16_t *weights; /* in force before, asked for after */
  bool *touched;     /* set for each entry that the request gives a weight */
  size_t count;
};

/* The first endpoint of the request that the level does not have, or NULL. */
const char *weights_missing(const struct weights *weights, const char *const *names, size_t count);

/* Computes the new weights of a level that misses none.  False with one line in `why`; then the
 * level is as it was. */
bool weights_apply(const struct weights *weights, struct weights_level *level, char *why);

/* "built in" profiles with their meaning, for lists: pairs of texts, ended by NULL. */
extern const char *const weights_builtin[][2];

#endif

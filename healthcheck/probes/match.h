/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A text that is to come in the first octets of a stream: found also where it is cut over several
 * reads, without keeping what was read.
 */
#ifndef SLUICE_HEALTHCHECK_PROBES_MATCH_H
#define SLUICE_HEALTHCHECK_PROBES_MATCH_H

#include <stdbool.h>
#include <stddef.h>

struct match;

/* `text` (not empty, copied) must lie as a whole in the first `limit` octets.  NULL without memory;
 * freed by match_free(). */
struct match *match_new(const char *text, size_t limit);
void match_free(struct match *match);

/* The next octets of the stream; true once the text has been found. */
bool match_feed(struct match *match, const void *octets, size_t count);

/* How many octets have come, at most `limit`. */
size_t match_seen(const struct match *match);

#endif

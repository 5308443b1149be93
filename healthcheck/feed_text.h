/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checker's lines of the feed (healthcheck/feed.h) as text, and what subscribers may send.
 * Pure.  Texts come from configurations and peers, so they are escaped, and made UTF-8.
 */
#ifndef SLUICE_HEALTHCHECK_FEED_TEXT_H
#define SLUICE_HEALTHCHECK_FEED_TEXT_H

#include "base/buf.h"
#include "healthcheck/feed.h"

/* All append one or more lines to `out`. */
void feed_text_hello(struct buf *out, const char *session);
void feed_text_mark(struct buf *out, const char *type, uint64_t seq); /* begin, end, beat */
void feed_text_subject(struct buf *out, uint32_t id, const char *const (*targets)[2], size_t count,
                       const struct feed_verdict verdicts[2]);
void feed_text_change(struct buf *out, uint64_t seq, uint32_t id,
                      const struct feed_verdict verdicts[2]);

/* What a subscriber has sent so far. */
struct feed_input {
  json_t *overrides; /* of lines with "more", or NULL */
};

enum feed_input_result {
  FEED_INPUT_NONE,      /* nothing to do (yet) */
  FEED_INPUT_OVERRIDES, /* input->overrides is whole; the caller clears it with feed_input_clear()
                         */
  FEED_INPUT_BAD,       /* with `why` (FEED_WHY octets) */
};

/* Reads one line; trusts nothing. */
enum feed_input_result feed_input_line(struct feed_input *input, const char *line, size_t len,
                                       char *why);
void feed_input_clear(struct feed_input *input);

#endif

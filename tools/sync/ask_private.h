/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of ask.h: a question as octets, and what comes back.  Pure, so that tests and fuzzers
 * call them directly.
 */
#ifndef SLUICE_TOOLS_SYNC_ASK_PRIVATE_H
#define SLUICE_TOOLS_SYNC_ASK_PRIVATE_H

#include "tools/sync/ask.h"

enum {
  ASK_HEADER = 12,   /* octets of a header */
  ASK_UDP = 1232,    /* the largest answer that is asked for by UDP */
  ASK_QUERY = 512,   /* most octets of a question */
  ASK_REPLY = 65535, /* most octets of an answer */
};

/* Writes the question to `out` (ASK_QUERY octets); returns its length, or 0 with *why. */
size_t ask_make(const struct ask_question *question, uint16_t id, uint8_t *out, const char **why);

enum ask_heard {
  ASK_STRAY,     /* does not fit the question */
  ASK_BROKEN,    /* fits by its header, but is no DNS message: `out->why` */
  ASK_TRUNCATED, /* the same by TCP */
  ASK_GOOD,
  ASK_NO_MEMORY,
};

/* Reads a message that came from where `question` was sent to with `id`.  `out` is filled in for
 * ASK_GOOD and ASK_BROKEN, and to be closed in any case. */
enum ask_heard ask_read(const struct ask_question *question, uint16_t id, const uint8_t *message,
                        size_t len, struct ask_answer *out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of one zone transfer, made one at a time as the client takes them.
 *
 * A stream reads open records files and never fails: their records were checked when they were
 * opened.  Pure; no allocation.  Signatures are for the caller to add, message by message.
 */
#ifndef SLUICE_SERVER_TRANSFER_STREAM_H
#define SLUICE_SERVER_TRANSFER_STREAM_H

#include "server/transfer_diff.h"
#include "server/transfer_pack.h"

enum {
  TRANSFER_MESSAGE = 16384, /* a message is full at this size, where pointers end */
  TRANSFER_QUESTION_MAX = 255 + 4,
  TRANSFER_OPT_MAX = 11,
};

enum transfer_kind {
  TRANSFER_ALL,  /* RFC 5936 section 2.2: SOA, all records, SOA */
  TRANSFER_DIFF, /* RFC 1995 section 4: new SOA, old SOA, deletions, new SOA, additions, new SOA */
  TRANSFER_SOA,  /* RFC 1995 section 2: the client is up to date */
};

/* What the messages repeat of the request. */
struct transfer_head {
  uint16_t id;
  bool rd;          /* the request's bit, repeated */
  bool edns;        /* the request had an OPT record */
  uint16_t payload; /* our own, for the OPT record of the response */
  uint16_t question_len;
  uint8_t question[TRANSFER_QUESTION_MAX]; /* name, type, class */
};

struct transfer_stream {
  enum transfer_kind kind;
  const struct records *now; /* must stay open, as `old` and `diff` must */
  const struct records *old; /* TRANSFER_DIFF */
  const struct transfer_diff *diff;
  struct transfer_head head;
  unsigned step; /* private from here on */
  size_t index;
  size_t at;
  bool started;
  struct transfer_pack pack;
};

/* Starts a stream; the fields above `step` are set by the caller. */
void transfer_stream_start(struct transfer_stream *stream);

/*
 * Writes the next message to `out`, which holds 65535 octets; `room` octets of that are left free
 * (for a signature).  Returns its length, 0 when all were made.
 */
size_t transfer_stream_next(struct transfer_stream *stream, uint8_t *out, size_t room);

/* True once the last message was made. */
bool transfer_stream_is_done(const struct transfer_stream *stream);

#endif

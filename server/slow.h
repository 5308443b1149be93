/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries that leave the fast path: signed ones (TSIG, RFC 8945), zone transfers (RFC 5936,
 * RFC 1995) and NOTIFY (RFC 1996).
 *
 * To be called between query_parse() and query_answer() when slow_is_needed().  Allocates, and may
 * log.
 */
#ifndef SLUICE_SERVER_SLOW_H
#define SLUICE_SERVER_SLOW_H

#include "server/query.h"
#include "server/transfer_open.h"
#include "server/tsig.h"

/* A transfer that is allowed, for the TCP side to carry out.  Caller-owned, zeroed before its first
 * use; slow_transfer_close() after slow_respond() set `wanted`. */
struct slow_transfer {
  bool wanted;
  char *path;                /* of the records file */
  struct transfer_wish wish; /* path included */
  struct transfer_head head;
  struct tsig_session session; /* signs every message */
};

/*
 * Returns the length of the response, written over the request; 0 for silence, or if
 * `transfer->wanted` is set: then the responses are those of the transfer.  `transfer` is NULL over
 * UDP.  `now` is in Unix seconds.
 */
size_t slow_respond(struct query *q, const struct view *view, struct query_worker *worker,
                    uint64_t now, struct slow_transfer *transfer);

/*
 * Makes the response that tells of an error after a transfer was granted: writes it to `out`
 * (65535 octets), signed if the request was.  0 if it cannot be made.
 */
size_t slow_transfer_fail(struct slow_transfer *transfer, uint16_t rcode, uint8_t *out,
                          uint64_t now);

void slow_transfer_close(struct slow_transfer *transfer);

static inline bool slow_is_needed(const struct query *q) {
  return q->verdict == VERDICT_SIGNED || q->verdict == VERDICT_TRANSFER ||
         q->verdict == VERDICT_NOTIFY;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A zone transfer as it comes in: from the messages of one response to a list of changes.
 *
 * AXFR as RFC 5936 says, IXFR as RFC 1995 says.  Pure: no sockets, no clock.  The messages are
 * hostile input; what they may cost is limited in records and octets.  One thread for each
 * transfer.
 *
 * TSIG is the caller's business: it verifies each message before it is given here (server/tsig.h),
 * and uses the changes only when the whole stream is proven.
 */
#ifndef SLUICE_SERVER_TRANSFER_IN_H
#define SLUICE_SERVER_TRANSFER_IN_H

#include "server/transfer_rr.h"
#include "zones/arena.h"
#include "zones/model.h"

enum { TRANSFER_IN_WHY = 256 };

/* What one transfer may take; 0 is no limit. */
struct transfer_in_limits {
  uint64_t records;
  uint64_t octets; /* of messages */
  bool only_newer; /* a whole zone too must be newer than what we have */
};

enum transfer_result {
  TRANSFER_MORE,       /* the response goes on */
  TRANSFER_DONE,       /* complete */
  TRANSFER_UP_TO_DATE, /* the primary has nothing newer: IXFR, or with `only_newer` */
  TRANSFER_FALL_BACK,  /* IXFR: this primary cannot do it, ask for AXFR */
  TRANSFER_FAILED,     /* broken: drop it all */
};

enum transfer_op { TRANSFER_ADD, TRANSFER_REMOVE };

struct transfer_change {
  struct model_rr rr; /* in the transfer's memory; `pos` is not set */
  enum transfer_op op;
};

struct transfer_in {
  /* to be read after TRANSFER_DONE */
  struct arena memory;
  struct transfer_change *changes; /* in the order of the stream, the SOAs included */
  size_t count;
  bool incremental; /* apply the changes to the zone as it is; else they are the whole zone */
  struct transfer_soa soa; /* of the new zone */
  uint64_t messages;
  uint64_t octets;

  /* private */
  uint8_t apex[NAME_BUF];
  uint16_t id;
  uint16_t qtype;
  uint32_t have; /* the serial of ours, from which changes lead */
  uint32_t step; /* incremental: the serial that the changes so far lead to */
  int state;
  size_t cap;
  uint64_t records;
  struct transfer_in_limits limits;
  uint8_t *first_soa; /* its data */
  uint16_t first_soa_len;
  uint32_t first_ttl;
  struct transfer_rr rr;
};

/*
 * Starts with a request of `qtype` (AXFR or IXFR, server/wire.h) and `id` for the zone `apex` (wire
 * format); `have` is the serial of the IXFR request, or of what we have.  transfer_in_close() frees
 * everything.
 */
void transfer_in_init(struct transfer_in *t, const uint8_t *apex, uint16_t qtype, uint16_t id,
                      uint32_t have, const struct transfer_in_limits *limits);
void transfer_in_close(struct transfer_in *t);

/*
 * Takes the next message.  After anything but TRANSFER_MORE no more may be given.  `why`
 * (TRANSFER_IN_WHY octets) is set to one line on TRANSFER_FALL_BACK and TRANSFER_FAILED.
 */
enum transfer_result transfer_in_message(struct transfer_in *t, const uint8_t *message, size_t len,
                                         char *why);

/* "REFUSED" and so on. */
const char *transfer_rcode_text(unsigned rcode);

/*
 * Reads the answer to a SOA query (`id`, for `apex`) into *soa.  False with a one-line reason.
 */
bool transfer_soa_answer(const uint8_t *message, size_t len, const uint8_t *apex, uint16_t id,
                         struct transfer_soa *soa, char *why);

/*
 * Writes a query for the zone (RFC 1035 section 4.1; for IXFR with our SOA in the authority
 * section, RFC 1995 section 3) into `out` (TRANSFER_QUERY octets); returns its length.
 */
enum { TRANSFER_QUERY = 12 + 255 + 4 + 2 + 10 + 2 + 20 };
size_t transfer_query(uint8_t *out, const uint8_t *apex, uint16_t qtype, uint16_t id,
                      uint32_t have);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells secondaries that a zone has changed (NOTIFY, RFC 1996): what to send to whom and when,
 * which answers count, and when to give up.
 *
 * No sockets and no clock: times are milliseconds of the caller's clock.  One thread.  A message is
 * sent up to five times, 1, 2, 4 and 8 s apart; the last one is waited for 16 s.  A zone that
 * changes again while a message to the same address is under way starts anew.  The number of
 * messages in a second is bounded, so that a server with many zones does not flood its secondaries.
 */
#ifndef SLUICE_SERVER_NOTIFY_OUT_H
#define SLUICE_SERVER_NOTIFY_OUT_H

#include "base/rng.h"
#include "server/address.h"
#include "server/tsig.h"

enum {
  NOTIFY_OUT_TRIES = 5,
  NOTIFY_OUT_FIRST_MS = 1000,   /* wait for an answer; doubled for each further try */
  NOTIFY_OUT_PER_SECOND = 200,  /* messages */
  NOTIFY_OUT_SOA_MAX = 1024,    /* octets of the SOA record in a message */
  NOTIFY_OUT_MESSAGE = 2048,    /* octets of a message, with its signature */
  NOTIFY_OUT_IN_FLIGHT = 16384, /* waiting for an answer; more wait to be sent */
};

struct notify_out_counters {
  uint64_t sent;   /* messages */
  uint64_t acked;  /* answered with NOERROR */
  uint64_t failed; /* answered with an error, or given up */
};

struct notify_out;

/* NULL without memory. */
struct notify_out *notify_out_new(uint64_t seed);
void notify_out_free(struct notify_out *notify);

/*
 * Wants `target` to be told about the zone: `apex` is a wire name; `soa` (NULL: none) is a finished
 * SOA record for the answer section whose owner is a pointer to the question, as it stands in an
 * image.  `key` signs, or is NULL.  It must stay valid as long as `notify`.  False without memory.
 */
bool notify_out_add(struct notify_out *notify, const uint8_t *apex, const uint8_t *soa,
                    size_t soa_len, const struct address *target, const struct tsig_key *key,
                    uint64_t now);

/* A message to be sent. */
struct notify_out_message {
  const struct address *target; /* valid until the next call */
  size_t length;
  uint8_t octets[NOTIFY_OUT_MESSAGE];
};

/* Something that ended. */
struct notify_out_end {
  char zone[NAME_MAX_TEXT];
  char target[ADDRESS_TEXT];
  const char *reason; /* static text: "no answer", "REFUSED"...; NULL: acknowledged */
};

enum notify_out_event {
  NOTIFY_OUT_NOTHING, /* now; ask again after notify_out_wait() */
  NOTIFY_OUT_SEND,    /* `message` is set */
  NOTIFY_OUT_GIVE_UP, /* `end` is set */
};

/* What is to be done at time `now`; call again until NOTIFY_OUT_NOTHING.  `unix_now` goes into
 * signatures. */
enum notify_out_event notify_out_next(struct notify_out *notify, uint64_t now, uint64_t unix_now,
                                      struct notify_out_message *message,
                                      struct notify_out_end *end);

/* Milliseconds until there may be something to do; UINT64_MAX: never. */
uint64_t notify_out_wait(const struct notify_out *notify, uint64_t now);

/*
 * Takes a packet that came from `from`.  True if it ended a message, told in `end`; false if it is
 * no answer to one: then it is to be ignored.
 */
bool notify_out_reply(struct notify_out *notify, const union address_socket *from,
                      const uint8_t *packet, size_t length, uint64_t unix_now,
                      struct notify_out_end *end);

/* Drops what is under way to be sent for this zone (it is not served any more). */
void notify_out_forget(struct notify_out *notify, const uint8_t *apex);

const struct notify_out_counters *notify_out_get_counters(const struct notify_out *notify);

#endif

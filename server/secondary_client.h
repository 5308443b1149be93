/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One question to a primary: its SOA over UDP, or a transfer over TCP; or both over TLS, with which
 * a connection can be kept from the one to the other (RFC 9103 section 6.3.1).
 *
 * All of it runs in the loop's thread.  What comes in is hostile; it may take no more than the
 * limits, and no more time than the constants below.
 */
#ifndef SLUICE_SERVER_SECONDARY_CLIENT_H
#define SLUICE_SERVER_SECONDARY_CLIENT_H

#include <uv.h>

#include "server/address.h"
#include "server/tls_client.h"
#include "server/transfer_in.h"
#include "server/tsig.h"

enum {
  SECONDARY_UDP_TRIES = 3,
  SECONDARY_UDP_FIRST_MS = 1500, /* doubled with each try */
  SECONDARY_CONNECT_MS = 10000,
  SECONDARY_SILENCE_MS = 15000, /* longest time between two reads of a transfer */
  SECONDARY_WHOLE_MS = 3600000, /* for a whole transfer */
  SECONDARY_CLIENT_WHY = 512,
};

struct secondary_client;

/* How it ended; valid during the call of `done` only. */
struct secondary_reply {
  bool ok;
  struct transfer_soa soa;       /* SOA query */
  enum transfer_result result;   /* transfer: DONE or UP_TO_DATE when `ok` */
  struct transfer_in *transfer;  /* DONE: may be taken over, by setting this to NULL; then
                                  * transfer_in_close() and free() it */
  bool truncated;                /* SOA query over UDP: ask again over TCP; not `ok` */
  struct secondary_client *open; /* may be asked again in the call of `done`; or NULL */
  bool closed;                   /* a connection that was kept is not there any more: ask anew */
  bool ask_for_whole;            /* IXFR that failed in a way that AXFR may not */
  uint64_t messages, octets;
  const char *why; /* one line when not `ok` */
};

typedef void secondary_client_fn(void *arg, struct secondary_reply *reply);

struct secondary_question {
  const struct address *primary;
  const uint8_t *apex;        /* wire name, lower case */
  const struct tsig_key *key; /* or NULL */
  struct tls_client *tls;     /* for all that is asked, or NULL: in clear text */
  uint16_t qtype;             /* SOA, IXFR or AXFR */
  bool tcp;                   /* also for SOA, which is asked over UDP otherwise */
  uint32_t have;              /* IXFR: our serial */
  struct transfer_in_limits limits;
  secondary_client_fn *done;
  void *arg;
};

/*
 * Asks.  `done` is called once, later, unless the question is cancelled; the question's memory is
 * copied, but `primary` and `apex` must live until then.  NULL without memory.
 */
struct secondary_client *secondary_client_ask(uv_loop_t *loop,
                                              const struct secondary_question *question);

/*
 * Asks the same primary once more over the connection that a reply left open, as
 * secondary_client_ask().  False if that cannot be: then it is closed when `done` returns.
 */
bool secondary_client_again(struct secondary_client *client,
                            const struct secondary_question *question);

/* Ends it without a call of `done`. */
void secondary_client_cancel(struct secondary_client *client);

#endif

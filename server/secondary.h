/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The zones that this server has from other primaries: when and what they are asked, what comes of
 * it, and what of it is served.
 *
 * All of it belongs to the main thread and its loop, but the notify gate, which any thread may use
 * between secondary_open() and secondary_stop().
 */
#ifndef SLUICE_SERVER_SECONDARY_H
#define SLUICE_SERVER_SECONDARY_H

#include <jansson.h>
#include <uv.h>

#include "server/load.h"
#include "server/notify_in.h"
#include "server/settings_secondary.h"

enum { SECONDARY_WHY = 512 };
_Static_assert((int)SECONDARY_WHY == (int)TLS_WHY, "one buffer for the warnings of both");

struct secondary;

struct secondary_options {
  uv_loop_t *loop;
  const struct settings_secondary *settings; /* must live as long as the secondary */
  const struct settings_tls_peers *tls;      /* not NULL; likewise */
  const char *state;                         /* with secondary_store_open(), if there are zones */
  const struct tsig_keys *keys;              /* not NULL; likewise */
  uint16_t udp_payload;
  void (*changed)(void *arg); /* what is served must be loaded again (LOAD_SECONDARY) */
  void *arg;
};

/* Looks at what was kept; asks nobody yet.  NULL with a one-line reason in `why` (SECONDARY_WHY
 * octets). */
struct secondary *secondary_open(const struct secondary_options *options, char *why);

/* What the next load is to serve; valid until the next call. */
const struct load_secondary *secondary_wanted(struct secondary *secondary, size_t *count);

/* To be called after each load: images that could not be used are set aside and fetched anew. */
void secondary_published(struct secondary *secondary, const struct served *served);

/* Reads the files of `tls:` again; `warning` (SECONDARY_WHY octets) tells why old ones are still
 * used, or is empty.  From any thread, one at a time. */
void secondary_reload_tls(struct secondary *secondary, char *warning);

/* Starts to ask. */
void secondary_start(struct secondary *secondary);

/* Ends what is under way and closes the handles; the loop must run until they are closed.  NULL is
 * allowed. */
void secondary_stop(struct secondary *secondary);

/* After the loop has ended; NULL is allowed. */
void secondary_close(struct secondary *secondary);

const struct notify_gate *secondary_gate(const struct secondary *secondary);

/* The zones for `sluice status`: a list of {"zone", "state", "serial", "primaries", ...}. */
json_t *secondary_json(const struct secondary *secondary);

enum secondary_counter {
  SECONDARY_SOA_QUERIES,
  SECONDARY_AXFR, /* whole zones that came in */
  SECONDARY_IXFR, /* changes that came in */
  SECONDARY_FAILURES,
  SECONDARY_NOTIFIES, /* believed */
  SECONDARY_OCTETS,   /* of messages of transfers */
  SECONDARY_TLS,      /* connections over TLS that were asked for */
  SECONDARY_COUNTERS
};
uint64_t secondary_count(const struct secondary *secondary, enum secondary_counter counter);
const char *secondary_counter_name(enum secondary_counter counter);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What server/secondary.c (asking and saving) and server/secondary_setup.c (start, end, status)
 * share; nobody else includes it.
 */
#ifndef SLUICE_SERVER_SECONDARY_PRIVATE_H
#define SLUICE_SERVER_SECONDARY_PRIVATE_H

#include <stdatomic.h>

#include "server/secondary.h"
#include "server/secondary_client.h"
#include "server/secondary_store.h"
#include "server/secondary_zone.h"

enum {
  SECONDARY_ERROR = 600,
  SECONDARY_SLOTS = 1024, /* what primaries are told apart by, a hash of their addresses */
};

struct managed {
  struct secondary *owner;
  const struct settings_secondary_zone *settings;
  const struct tsig_key *key;
  char *name; /* presentation form */
  struct secondary_files files;
  struct secondary_info info; /* as last written or to be written */
  struct secondary_zone zone;
  struct secondary_client *client; /* the question under way */
  struct secondary_client *open;   /* during a reply: the connection may be used on */
  unsigned slot;                   /* of the primary that the round under way began with */
  struct save *save;               /* or the work on its answer */
  uv_mutex_t files_lock;           /* held by who writes the files */
  atomic_uint generation;          /* counts saves, so that no older confirmation is written over */
  bool served;                     /* the last load was asked to serve the data */
  bool unwritten;                  /* `info` was confirmed since */
  _Atomic uint64_t notified;
  char error[SECONDARY_ERROR]; /* of the last round, "" after a success */
};

struct secondary {
  struct secondary_options options;
  struct managed *zones;
  size_t count;
  struct notify_zone *gate_zones;
  struct notify_primary *gate_primaries;
  struct notify_gate gate;
  struct load_secondary *wanted;
  struct tls_client **tls; /* as the peers in the settings */
  uv_timer_t timer;
  uv_timer_t confirm_timer;
  uv_async_t async;
  unsigned active;
  unsigned active_at[SECONDARY_SLOTS]; /* of these, by the primary that they began with */
  uint64_t seed;                       /* of the hash */
  bool started;
  bool stopping;
  uint64_t counters[SECONDARY_COUNTERS];
};

/* Makes the handles of the loop, and connects the gate; false without memory. */
bool secondary_init_handles(struct secondary *secondary);

/* Starts what is due, and sets the timer for what comes next. */
void secondary_look_at_all(struct secondary *secondary);

/* True if the data of a zone may be served. */
bool secondary_is_servable(const struct managed *managed, int64_t now);

static inline int64_t secondary_now(const struct secondary *secondary) {
  return (int64_t)uv_now(secondary->options.loop);
}

#endif

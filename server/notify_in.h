/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NOTIFY from the primaries of our secondary zones (RFC 1996): checks it, tells the owner of the
 * zones, and makes the response.
 *
 * A gate is immutable while it is in use, so any number of threads may answer through it.  It holds
 * no socket and no clock.  Not for the fast path: signatures may be checked.
 */
#ifndef SLUICE_SERVER_NOTIFY_IN_H
#define SLUICE_SERVER_NOTIFY_IN_H

#include "server/tsig.h"
#include "steering/geo.h"

struct notify_primary {
  struct geo_address address;
  uint8_t key[NAME_BUF]; /* of the TSIG key, lower case; has_key */
  bool has_key;
};

struct notify_zone {
  uint8_t apex[NAME_BUF]; /* lower case, padded */
  const struct notify_primary *primaries;
  unsigned primary_count;
};

/* Called for each NOTIFY that is believed, in the thread that answers it. */
typedef void notify_in_fn(void *arg, size_t zone, unsigned primary, bool has_serial,
                          uint32_t serial);

struct notify_gate {
  const struct notify_zone *zones; /* sorted by name_compare() */
  size_t zone_count;
  const struct tsig_keys *keys; /* not NULL */
  uint16_t udp_payload;         /* what our OPT records say */
  notify_in_fn *notify;
  void *arg;
};

/*
 * Writes the response to a NOTIFY over it; `packet` has room for `capacity` octets, at least 4096,
 * and holds `length`, at least a header.  Returns the length of the response.  `now` is in Unix
 * seconds.  NOERROR for a zone of ours from one of its primaries or signed with its key; NOTAUTH
 * for another zone or a bad signature; REFUSED for anybody else.
 */
size_t notify_in_answer(const struct notify_gate *gate, uint8_t *packet, size_t length,
                        size_t capacity, const struct geo_address *source, uint64_t now);

#endif

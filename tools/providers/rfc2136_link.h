/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A TCP connection to a DNS server, with TSIG (RFC 8945) and a deadline: one signed request and the
 * messages of its response.  Private to tools/providers/rfc2136*.c.
 */
#ifndef SLUICE_TOOLS_PROVIDERS_RFC2136_LINK_H
#define SLUICE_TOOLS_PROVIDERS_RFC2136_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/tsig.h"

enum { LINK_MESSAGE = 65535, LINK_WHY = 256, LINK_SIGNATURE = 1024 };

struct link {
  int fd;
  uint64_t end; /* monotonic ms */
  struct tsig_session session;
  uint8_t input[LINK_MESSAGE];
};

/* Monotonic clock in ms. */
uint64_t link_now(void);

/* Connects to "ADDRESS" or "ADDRESS@PORT" (53).  NULL with one line in `why` (LINK_WHY octets);
 * closed by link_close(). */
struct link *link_open(const char *address, uint64_t end, char *why);
void link_close(struct link *link);

/* Signs the message, which has LINK_SIGNATURE octets of room behind it, and sends it. */
bool link_send(struct link *link, const struct tsig_key *key, uint8_t *message, size_t len,
               char *why);

/*
 * The next message of the response, in link->input.  Its length without TSIG, or 0 with `why`.
 * *result is what the signature is worth (TSIG_PENDING: of a stream, proven later).
 */
size_t link_receive(struct link *link, enum tsig_result *result, char *why);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the RFC 2136 provider share.  Not for use outside of
 * tools/providers/rfc2136*.c and their tests.
 */
#ifndef SLUICE_TOOLS_PROVIDERS_RFC2136_PRIVATE_H
#define SLUICE_TOOLS_PROVIDERS_RFC2136_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/name.h"
#include "server/address.h"
#include "server/transfer_in.h"
#include "server/tsig.h"
#include "tools/providers/provider.h"

/* ---- settings ------------------------------------------------------------------------------- */

enum { RFC2136_WHY = 256 };

/*
 * Takes "ALGORITHM:KEY-NAME:BASE64" apart, in place.  False with one line in `why` (RFC2136_WHY
 * octets, never a part of the secret).
 */
bool rfc2136_key(char *text, const char **algorithm, const char **name, const char **secret,
                 char *why);

/* ---- update messages ------------------------------------------------------------------------ */

enum { RFC2136_MESSAGE = 65535, RFC2136_HEADER = 12 };

/* One UPDATE without its signature; the ID is 0. */
struct rfc2136_message {
  uint8_t *octets;
  size_t len;
  size_t changes; /* that it does */
};

struct rfc2136_messages {
  struct rfc2136_message *items;
  size_t count;
};

/*
 * The messages that do the changes, each of at most `max` octets.  All changes of one name (and of
 * its `_sluice.` record) are in one message, which the server does as a whole or not at all; all of
 * them are in one if that is large enough.  The NS records of the apex come after
 * their addresses, and names that only lose records after those; a marker without a record of its
 * name is before or after all of them, as it was given.
 *
 * Each RRset that changes is expected to be as it was read, or absent (RFC 2136 section 2.4), so a
 * change by somebody else makes the message fail.  Deletes stand before additions: a CNAME and
 * other data replace each other in one go.  The NS records of the apex are never all deleted
 * (section 3.4.2.4): new ones are added first.
 *
 * False with an error that is about `provider`; rfc2136_messages_close() frees in both cases.
 */
bool rfc2136_messages_make(const char *provider, const char *zone,
                           const struct provider_change *changes, size_t count, size_t max,
                           struct rfc2136_messages *out, struct provider_error *error);
void rfc2136_messages_close(struct rfc2136_messages *messages);

/* ---- reading -------------------------------------------------------------------------------- */

/*
 * The objects of a complete transfer: RRsets in canonical form; `raw` has the record data as it
 * came: {"rdata": [hexadecimal digits]}.  False without memory.
 */
bool rfc2136_objects(const struct transfer_in *transfer, struct provider_objects *out);

/* ---- answers -------------------------------------------------------------------------------- */

/* What an RCODE says; `update`: to an UPDATE, else to a transfer.  Returns false. */
bool rfc2136_rcode(const char *provider, const char *zone, unsigned rcode, bool update,
                   struct provider_error *error);

/* What a signature that is not right says.  Returns false. */
bool rfc2136_signature(const char *provider, const struct tsig_session *session,
                       enum tsig_result result, uint64_t now, struct provider_error *error);

/* ---- compiling ------------------------------------------------------------------------------ */

/* The static answer by the facts in force, and what it loses.  False without memory. */
bool rfc2136_compile(const struct provider_domain *domain, struct provider_objects *out,
                     struct provider_fidelity *fidelity);

/* ---- connections ---------------------------------------------------------------------------- */

/* A TCP connection, of one call.  All times are milliseconds of the monotonic clock. */
struct rfc2136_stream {
  int fd;
  uint64_t deadline;
};

/* False with one line in `why` (RFC2136_WHY octets). */
bool rfc2136_connect(struct rfc2136_stream *stream, const struct address *address,
                     uint64_t timeout_ms, char *why);
bool rfc2136_send(struct rfc2136_stream *stream, const uint8_t *message, size_t len, char *why);

/* The next message into `out` (RFC2136_MESSAGE octets).  *ended: the server closed before a whole
 * message came, rather than nothing came in time. */
bool rfc2136_receive(struct rfc2136_stream *stream, uint8_t *out, size_t *len, bool *ended,
                     char *why);
void rfc2136_close(struct rfc2136_stream *stream);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DNS cookies (RFC 7873) with the interoperable server cookie of RFC 9018: version 1, SipHash-2-4.
 *
 * Works on the octets of the EDNS option (code 10, without its code and length); allocates nothing,
 * asks for no time and no randomness.  A set of secrets is immutable while workers use it, so any
 * number of threads may share one; change it by publishing another.
 *
 * In the query path:
 *   1. cookie_parse() for the first COOKIE option of a query; false means FORMERR without a lookup.
 *   2. cookie_check() where a server part is present.  COOKIE_VALID and COOKIE_RENEW prove the
 * source address: such a client is exempt from rate limiting.  COOKIE_BAD and COOKIE_NONE are
 * answered as usual (RFC 7873 section 5.2.3 leaves it to the server) unless policy asks for
 * BADCOOKIE.
 *   3. cookie_respond() writes the option of the response, always 24 octets.
 *
 * The client's address is its octets as they came: 4 for IPv4, 16 for IPv6.  An IPv4-mapped address
 * of a dual-stack socket must be given as its 4 octets, otherwise servers that share a secret would
 * differ.
 */
#ifndef SLUICE_SERVER_COOKIE_H
#define SLUICE_SERVER_COOKIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  COOKIE_OPTION_CODE = 10, /* EDNS option code */
  COOKIE_CLIENT_SIZE = 8,  /* client part */
  COOKIE_SERVER_SIZE = 16, /* our server part: version, reserved, time, hash */
  COOKIE_SIZE = 24,        /* option data of every response */
  COOKIE_SECRET_SIZE = 16,
  COOKIE_SECRETS_MAX = 3,    /* accepted at once, see RFC 9018 section 5 */
  COOKIE_WHY = 128,          /* room for a message of cookie_secrets_parse() */
  COOKIE_LIFETIME = 3600,    /* seconds a cookie is accepted, RFC 9018 section 4.3 */
  COOKIE_RENEW_AFTER = 1800, /* seconds after which a response carries a fresh one */
  COOKIE_CLOCK_SKEW = 300,   /* seconds a cookie may be ahead of our clock */
};

/* Secrets that are accepted, in order; the first signs.  Caller-owned, no close needed, but
 * cookie_secrets_wipe() before the storage is given back. */
struct cookie_secrets {
  size_t count; /* 1..COOKIE_SECRETS_MAX */
  uint8_t octets[COOKIE_SECRETS_MAX][COOKIE_SECRET_SIZE];
};

/* A COOKIE option of well-formed length; points into the packet. */
struct cookie_option {
  const uint8_t *client; /* COOKIE_CLIENT_SIZE octets */
  const uint8_t *server; /* NULL without a server part */
  size_t server_len;     /* 0, or 8..32 */
};

enum cookie_status {
  COOKIE_NONE,  /* no server part: the client does not know one yet */
  COOKIE_BAD,   /* not one of ours, expired, from the future, or for another address */
  COOKIE_VALID, /* ours and recent: the response may carry it unchanged */
  COOKIE_RENEW, /* ours, but older than half its life, or signed with a secret on its way out */
};

/* Splits option data; false if the length is neither 8 nor 16..40: FORMERR (RFC 7873
 * section 5.2.2). `data` may be NULL when `len` is 0. */
bool cookie_parse(const uint8_t *data, size_t len, struct cookie_option *option);

/*
 * Judges the server part.  `now` is the Unix time in seconds, cut to 32 bits (compared by serial
 * arithmetic, so that 2106 is no special year).  `address_len` is 4 or 16.  The time taken does not
 * depend on how much of the hash was guessed.
 */
enum cookie_status cookie_check(const struct cookie_secrets *secrets,
                                const struct cookie_option *option, const uint8_t *address,
                                size_t address_len, uint32_t now);

/* Writes client part and a fresh server part, signed with the first secret at time `now`.  `client`
 * may be the start of `out`. */
void cookie_make(const struct cookie_secrets *secrets, const uint8_t client[COOKIE_CLIENT_SIZE],
                 const uint8_t *address, size_t address_len, uint32_t now,
                 uint8_t out[COOKIE_SIZE]);

/*
 * Checks and writes the option data of the response: the same cookie again if it is COOKIE_VALID, a
 * fresh one otherwise.  `out` may be where the option came from.  Returns the status.
 */
enum cookie_status cookie_respond(const struct cookie_secrets *secrets,
                                  const struct cookie_option *option, const uint8_t *address,
                                  size_t address_len, uint32_t now, uint8_t out[COOKIE_SIZE]);

/*
 * Reads a secrets file that servers of one anycast address share.
 *
 * Format: one secret in a line, 32 hex digits of either case; blanks around it, empty lines and
 * lines that begin with '#' are skipped; CR LF is a line end too.  One to three secrets, all
 * different, none all zeros.  The first signs, all are accepted.  Rolling a secret over (RFC 9018
 * section 5), each step once the one before is on all servers: [old, new], [new, old], and an hour
 * later [new].
 *
 * False with one line in `why` (COOKIE_WHY bytes; never quotes the text of the file) and *secrets
 * untouched.
 */
bool cookie_secrets_parse(const char *text, size_t len, struct cookie_secrets *secrets, char *why);

/* A first secret of the server's own, from 16 octets of the kernel's randomness. */
void cookie_secrets_generate(struct cookie_secrets *secrets,
                             const uint8_t random[COOKIE_SECRET_SIZE]);

/*
 * Puts a new secret first and keeps only the one that signed until now.  Called at most once in
 * COOKIE_LIFETIME it never makes a cookie invalid before its time; once a day is plenty.
 */
void cookie_secrets_rotate(struct cookie_secrets *secrets,
                           const uint8_t random[COOKIE_SECRET_SIZE]);

/* Overwrites the secrets; the compiler cannot leave it out. */
void cookie_secrets_wipe(struct cookie_secrets *secrets);

/* SipHash-2-4 (Aumasson and Bernstein) with 64 bits of output, for tests. */
uint64_t cookie_siphash(const uint8_t key[COOKIE_SECRET_SIZE], const uint8_t *data, size_t len);

#endif

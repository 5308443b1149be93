/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transaction signatures (TSIG, RFC 8945) over raw messages, for zone transfers, NOTIFY and signed
 * queries.  Not for the hot path: OpenSSL allocates.  No sockets, no clock: the time is a parameter
 * (Unix seconds).  All functions take any octets; nothing is read or written out of bounds.
 *
 * Keys stand in a table that is filled at load and immutable afterwards; any number of threads may
 * read it.  A session is one transaction, of one thread: a request and its response or stream of
 * responses.  It holds a reference to its key, so a table may be freed (after a reload) while
 * sessions go on.  A session is caller-owned storage, zeroed ({0}) before its first use, and must
 * be closed with tsig_close().
 *
 * As a server:
 *   1. tsig_verify_request() on the message as it came.
 *   2. With TSIG_OK, session.key is who asks; tsig_strip() gives the message without the signature.
 *      With any other result but TSIG_ABSENT: respond with tsig_rcode() and the question only.
 *   3. Build the response in no more than the limit less tsig_room() octets, its ID and RCODE set,
 * then tsig_sign_response().  It does the right thing after every result (nothing after TSIG_ABSENT
 * and TSIG_FORMERR).  For a transfer over TCP call it for each message, in the order they are sent.
 *
 * As a client (transfer in, NOTIFY out):
 *   1. tsig_sign_request() on the finished request.
 *   2. tsig_verify_response() on every message of the response.  TSIG_PENDING messages are not
 * proven yet: nothing of them may be served before a later TSIG_OK.  A transfer is proven when its
 * last message gave TSIG_OK (RFC 8945 section 5.3.1: the last message must be signed).
 */
#ifndef SLUICE_SERVER_TSIG_H
#define SLUICE_SERVER_TSIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/name.h"

enum {
  TSIG_MAC_MAX = 64,      /* octets, of hmac-sha512 */
  TSIG_FUDGE = 300,       /* seconds that clocks may differ, in what we sign */
  TSIG_UNSIGNED_MAX = 99, /* messages without TSIG in a row, RFC 8945 section 5.3.1 */
  TSIG_SECRET_MAX = 512,  /* octets of a decoded secret */
  TSIG_WHY = 512,         /* room for a message; names included */
};

enum tsig_algorithm {
  TSIG_HMAC_MD5,
  TSIG_HMAC_SHA1,
  TSIG_HMAC_SHA224,
  TSIG_HMAC_SHA256,
  TSIG_HMAC_SHA384,
  TSIG_HMAC_SHA512,
  TSIG_ALGORITHMS
};

enum tsig_result {
  TSIG_OK,
  TSIG_ABSENT,  /* request without TSIG */
  TSIG_PENDING, /* response of a stream without TSIG: taken into the next signature */
  TSIG_FORMERR, /* message or TSIG malformed, not the last record, more than one, class not ANY, TTL
                   not 0, or MAC of impossible length */
  TSIG_BADKEY,  /* unknown key, or not with that algorithm; response: not the key of the request */
  TSIG_BADSIG,  /* wrong MAC */
  TSIG_BADTIME, /* right MAC, but clocks differ by more than the fudge (or a replay) */
  TSIG_BADTRUNC,   /* right MAC, but shorter than policy allows */
  TSIG_PEER_ERROR, /* response: the server reports session.error */
  TSIG_UNSIGNED,   /* response: no TSIG where there must be one */
  TSIG_FAILED,     /* out of memory or OpenSSL failed: SERVFAIL */
};

/* What a table accepts; all false by default. */
struct tsig_policy {
  bool allow_md5;       /* hmac-md5 keys (broken hash; some old peers know nothing else) */
  bool allow_truncated; /* MACs cut to no less than half and 10 octets, RFC 8945 section 5.2.2.1 */
};

struct tsig_keys;
struct tsig_key;

/* NULL without memory. */
struct tsig_keys *tsig_keys_new(const struct tsig_policy *policy);

/*
 * Adds a key: its name in presentation format (absolute, final dot or not), the algorithm
 * ("hmac-sha256", in any case, final dot or not; "hmac-md5.sig-alg.reg.int" too) and the secret in
 * base64 without blanks.  False with one line in `why` (TSIG_WHY bytes, never quotes the secret)
 * and the table unchanged.  The caller wipes its own copy of the text; here only OpenSSL keeps the
 * secret, and wipes it when the key's last reference goes.
 */
bool tsig_keys_add(struct tsig_keys *keys, const char *name, const char *algorithm,
                   const char *secret, char *why);

/* The key of a valid wire name in any case, or NULL. */
const struct tsig_key *tsig_keys_find(const struct tsig_keys *keys, const uint8_t *name);

/* The keys in canonical order of their names, from 0 on; NULL past the last. */
const struct tsig_key *tsig_keys_at(const struct tsig_keys *keys, size_t index);

/* Frees the table; keys stay as long as sessions hold them.  NULL is allowed. */
void tsig_keys_free(struct tsig_keys *keys);

/* Wire name in lower case; lives as long as the key. */
const uint8_t *tsig_key_name(const struct tsig_key *key);
enum tsig_algorithm tsig_key_algorithm(const struct tsig_key *key);

/* "hmac-sha256" and so on. */
const char *tsig_algorithm_text(enum tsig_algorithm algorithm);

/* True if tsig_keys_add() takes this name of an algorithm. */
bool tsig_algorithm_known(const char *text);

/* For logs: "BADKEY", "no signature", ... */
const char *tsig_result_text(enum tsig_result result);

struct tsig_session {
  /* to be read by the caller */
  const struct tsig_key *key; /* of the transaction; NULL if there is none or it is unknown */
  enum tsig_result result;    /* of the last verification */
  uint16_t error;             /* TSIG error: ours to send, or the peer's after TSIG_PEER_ERROR */
  uint64_t time_signed;       /* by the peer, of the last TSIG that was well-formed */
  uint64_t peer_time;         /* the server's clock, after TSIG_PEER_ERROR with error 18 (BADTIME);
                                 else 0 */
  size_t stripped_len;        /* of the last message verified, without its TSIG */

  /* private to server/tsig.c */
  void *running;            /* digest over a stream since its last TSIG */
  unsigned signed_messages; /* of the response, made or verified */
  unsigned unsigned_run;    /* messages since the last TSIG */
  bool present;             /* the last message verified had a TSIG */
  uint8_t prior_len;
  uint8_t prior[TSIG_MAC_MAX]; /* MAC that the next digest begins with */
  uint8_t name[NAME_BUF];      /* as sent, to name an unknown key in the response */
  uint8_t algorithm[NAME_BUF];
};

/*
 * Verifies a request; forgets what the session held before.  TSIG_ABSENT means that the message can
 * be walked to its end and has no TSIG.  Returns OK, ABSENT, FORMERR, BADKEY, BADSIG, BADTIME,
 * BADTRUNC or FAILED.
 */
enum tsig_result tsig_verify_request(struct tsig_session *session, const struct tsig_keys *keys,
                                     const uint8_t *message, size_t len, uint64_t now);

/* RCODE for the header of the response: NOERROR (OK, ABSENT), FORMERR, SERVFAIL (FAILED) or
 * NOTAUTH. */
uint8_t tsig_rcode(enum tsig_result result);

/*
 * Takes the TSIG off the message that was just verified: lowers ARCOUNT and returns the new length.
 * Without a TSIG it returns the length as it was.
 */
size_t tsig_strip(const struct tsig_session *session, uint8_t *message);

/* Octets to leave free for the TSIG of the next message; 0 if none will be added. */
size_t tsig_room(const struct tsig_session *session);

/*
 * Signs the next message of the response: appends the TSIG and raises ARCOUNT.  The first message
 * is signed over the request's MAC, each later one over the MAC of the one before (RFC 8945 section
 * 5.3.1).  Errors go out as RFC 8945 section 5.3.2 says: BADKEY and BADSIG without a MAC, BADTIME
 * and BADTRUNC signed, BADTIME with our clock in the other data.  Returns the new length, `len`
 * itself where nothing is to be added (ABSENT, FORMERR), or 0 if there is no room, the message has
 * no header, or OpenSSL failed: then send nothing and end the transfer.
 */
size_t tsig_sign_response(struct tsig_session *session, uint8_t *message, size_t len,
                          size_t capacity, uint64_t now);

/* Signs a request; forgets what the session held before.  Returns the new length, or 0 as above. */
size_t tsig_sign_request(struct tsig_session *session, const struct tsig_key *key, uint8_t *message,
                         size_t len, size_t capacity, uint64_t now);

/*
 * Verifies the next message of a response to tsig_sign_request().  Returns OK, PENDING, FORMERR,
 * BADKEY, BADSIG, BADTIME, BADTRUNC, PEER_ERROR, UNSIGNED or FAILED.  After anything but OK and
 * PENDING the stream is broken, and every later call says the same again.  PEER_ERROR with error 16
 * or 17 (BADSIG, BADKEY) is not signed, so it may be forged: take it as a failure, not as a fact.
 * Whether ID and question are those of the request is for the caller to check.
 */
enum tsig_result tsig_verify_response(struct tsig_session *session, const uint8_t *message,
                                      size_t len, uint64_t now);

/* Drops the key and the digest; the session is as {0} again.  Safe to repeat. */
void tsig_close(struct tsig_session *session);

#endif

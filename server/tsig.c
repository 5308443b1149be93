/* SPDX-License-Identifier: Apache-2.0 */
#include "server/tsig.h"

#include <openssl/crypto.h>

#include "server/tsig_key.h"
#include "server/tsig_record.h"

/* TSIG errors, RFC 8945 section 3, and RCODEs of the header. */
enum {
  ERROR_BADSIG = 16,
  ERROR_BADKEY = 17,
  ERROR_BADTIME = 18,
  ERROR_BADTRUNC = 22,
  RCODE_FORMERR = 1,
  RCODE_SERVFAIL = 2,
  RCODE_NOTAUTH = 9,
  MAC_LEAST = 10, /* octets, RFC 8945 section 5.2.2.1 */
};

static const uint64_t TIME_MASK = UINT64_C(0xffffffffffff);

const char *tsig_result_text(enum tsig_result result) {
  switch (result) {
  case TSIG_OK:
    return "verified";
  case TSIG_ABSENT:
    return "no signature";
  case TSIG_PENDING:
    return "to be signed by a later message";
  case TSIG_FORMERR:
    return "malformed";
  case TSIG_BADKEY:
    return "BADKEY";
  case TSIG_BADSIG:
    return "BADSIG";
  case TSIG_BADTIME:
    return "BADTIME";
  case TSIG_BADTRUNC:
    return "BADTRUNC";
  case TSIG_PEER_ERROR:
    return "the peer reports an error";
  case TSIG_UNSIGNED:
    return "a signature is missing";
  case TSIG_FAILED:
    return "out of memory";
  }
  return "?";
}

uint8_t tsig_rcode(enum tsig_result result) {
  switch (result) {
  case TSIG_BADKEY:
  case TSIG_BADSIG:
  case TSIG_BADTIME:
  case TSIG_BADTRUNC:
    return RCODE_NOTAUTH; /* RFC 8945 section 5.2 */
  case TSIG_FORMERR:
    return RCODE_FORMERR;
  case TSIG_FAILED:
    return RCODE_SERVFAIL;
  default:
    return 0;
  }
}

static uint16_t error_of(enum tsig_result result) {
  switch (result) {
  case TSIG_BADKEY:
    return ERROR_BADKEY;
  case TSIG_BADSIG:
    return ERROR_BADSIG;
  case TSIG_BADTIME:
    return ERROR_BADTIME;
  case TSIG_BADTRUNC:
    return ERROR_BADTRUNC;
  default:
    return 0;
  }
}

/* A digest; after a failed step `ok` is false and the steps that follow do nothing. */
struct digest {
  EVP_MAC_CTX *ctx;
  bool ok;
};

static struct digest digest_begin(const struct tsig_key *key) {
  EVP_MAC_CTX *ctx = EVP_MAC_CTX_dup(key->mac);
  return (struct digest){ctx, ctx != NULL};
}

static void digest_add(struct digest *d, const uint8_t *octets, size_t len) {
  d->ok = d->ok && (len == 0 || EVP_MAC_update(d->ctx, octets, len) == 1);
}

static void digest_add16(struct digest *d, uint16_t v) {
  uint8_t octets[2];
  tsig_put16(octets, v);
  digest_add(d, octets, sizeof octets);
}

/* RFC 8945 section 5.3.1: a MAC that came before, with its length. */
static void digest_add_prior(struct digest *d, const struct tsig_session *session) {
  digest_add16(d, session->prior_len);
  digest_add(d, session->prior, session->prior_len);
}

/* RFC 8945 section 4.3.2: the message with its original ID and without the TSIG. */
static void digest_add_message(struct digest *d, const uint8_t *message, size_t len,
                               uint16_t original_id, uint16_t additional) {
  uint8_t header[TSIG_HEADER_SIZE];
  memcpy(header, message, sizeof header);
  tsig_put16(header, original_id);
  tsig_put16(header + 10, additional);
  digest_add(d, header, sizeof header);
  digest_add(d, message + sizeof header, len - sizeof header);
}

static void digest_add_time(struct digest *d, const struct tsig_record *record) {
  uint8_t octets[8];
  tsig_put48(octets, record->time_signed);
  tsig_put16(octets + 6, record->fudge);
  digest_add(d, octets, sizeof octets);
}

/* RFC 8945 section 4.3.3. */
static void digest_add_variables(struct digest *d, const struct tsig_record *record) {
  static const uint8_t class_ttl[6] = {0, 255, 0, 0, 0, 0};
  digest_add(d, record->name, record->name_len);
  digest_add(d, class_ttl, sizeof class_ttl);
  digest_add(d, record->algorithm, record->algorithm_len);
  digest_add_time(d, record);
  digest_add16(d, record->error);
  digest_add16(d, record->other_len);
  digest_add(d, record->other, record->other_len);
}

/* Ends the digest and frees it, in any case. */
static bool digest_end(struct digest *d, uint8_t mac[TSIG_MAC_MAX]) {
  size_t len = 0;
  d->ok = d->ok && EVP_MAC_final(d->ctx, mac, &len, TSIG_MAC_MAX) == 1;
  EVP_MAC_CTX_free(d->ctx);
  d->ctx = NULL;
  return d->ok;
}

static void set_prior(struct tsig_session *session, const uint8_t *mac, size_t len) {
  session->prior_len = (uint8_t)len;
  memcpy(session->prior, mac, len);
}

void tsig_close(struct tsig_session *session) {
  EVP_MAC_CTX_free(session->running);
  tsig_key_drop(session->key);
  memset(session, 0, sizeof *session);
}

/* RFC 8945 section 5.2.2.1: lengths that no MAC of the algorithm can have. */
static bool mac_len_is_possible(const struct tsig_key *key, size_t len) {
  size_t half = key->mac_len / 2;
  return len <= key->mac_len && len >= (half > MAC_LEAST ? half : MAC_LEAST);
}

static bool is_key_of(const struct tsig_key *key, const struct tsig_record *record) {
  return name_equal(key->name, record->name) && name_equal(key->algorithm_name, record->algorithm);
}

/* The checks that follow the digest, in the order of RFC 8945 section 5.2: MAC, time, truncation.
 */
static enum tsig_result judge(const struct tsig_key *key, const struct tsig_record *record,
                              const uint8_t *mac, uint64_t now) {
  if (CRYPTO_memcmp(mac, record->mac, record->mac_len) != 0)
    return TSIG_BADSIG;
  uint64_t there = record->time_signed, here = now & TIME_MASK;
  if ((there > here ? there - here : here - there) > record->fudge)
    return TSIG_BADTIME;
  if (record->mac_len < key->mac_len && !key->policy.allow_truncated)
    return TSIG_BADTRUNC;
  return TSIG_OK;
}

static enum tsig_result check_request(struct tsig_session *session, const struct tsig_keys *keys,
                                      const uint8_t *message, const struct tsig_record *record,
                                      uint64_t now) {
  const struct tsig_key *key = tsig_keys_find(keys, record->name);
  if (key == NULL || !is_key_of(key, record))
    return TSIG_BADKEY;
  session->key = tsig_key_hold(key);
  if (!mac_len_is_possible(key, record->mac_len))
    return TSIG_FORMERR;
  uint8_t mac[TSIG_MAC_MAX];
  struct digest d = digest_begin(key);
  digest_add_message(&d, message, record->at, record->original_id,
                     (uint16_t)(tsig_get16(message + 10) - 1));
  digest_add_variables(&d, record);
  if (!digest_end(&d, mac))
    return TSIG_FAILED;
  set_prior(session, record->mac, record->mac_len);
  return judge(key, record, mac, now);
}

enum tsig_result tsig_verify_request(struct tsig_session *session, const struct tsig_keys *keys,
                                     const uint8_t *message, size_t len, uint64_t now) {
  struct tsig_record record;
  tsig_close(session);
  session->stripped_len = len;
  enum tsig_found found = tsig_record_find(message, len, &record);
  if (found != TSIG_FOUND) {
    session->result = found == TSIG_NOT_FOUND ? TSIG_ABSENT : TSIG_FORMERR;
    return session->result;
  }
  session->present = true;
  session->stripped_len = record.at;
  session->time_signed = record.time_signed;
  memcpy(session->name, record.name, record.name_len);
  memcpy(session->algorithm, record.algorithm, record.algorithm_len);
  session->result = check_request(session, keys, message, &record, now);
  session->error = error_of(session->result);
  return session->result;
}

size_t tsig_strip(const struct tsig_session *session, uint8_t *message) {
  if (session->present)
    tsig_put16(message + 10, (uint16_t)(tsig_get16(message + 10) - 1));
  return session->stripped_len;
}

/* Whether responses of the session carry a TSIG. */
static bool is_signing(const struct tsig_session *session) {
  switch (session->result) {
  case TSIG_OK:
  case TSIG_BADKEY:
  case TSIG_BADSIG:
  case TSIG_BADTIME:
  case TSIG_BADTRUNC:
    return true;
  default:
    return false;
  }
}

/* RFC 8945 section 5.3.2: a MAC only where the request proved to know the key. */
static bool is_proven(const struct tsig_session *session) {
  return session->key != NULL && session->result != TSIG_BADKEY && session->result != TSIG_BADSIG;
}

/* The record of the next response; its MAC is still to be made.  `clock` is storage for other data.
 */
static struct tsig_record response_record(const struct tsig_session *session, uint16_t id,
                                          uint64_t now, uint8_t clock[TSIG_OTHER_MAX]) {
  struct tsig_record r = {.time_signed = now & TIME_MASK,
                          .fudge = TSIG_FUDGE,
                          .original_id = id,
                          .error = session->error};
  r.name_len = name_copy_lower(r.name, session->name);
  r.algorithm_len = name_copy_lower(r.algorithm, session->algorithm);
  if (is_proven(session))
    r.mac_len = (uint16_t)session->key->mac_len;
  if (session->error != 0 && session->error != ERROR_BADTRUNC)
    r.time_signed =
        session->time_signed;            /* a client whose clock is off must be able to accept it */
  if (session->error == ERROR_BADTIME) { /* RFC 8945 section 5.2.3 */
    tsig_put48(clock, now);
    r.other = clock;
    r.other_len = TSIG_OTHER_MAX;
  }
  return r;
}

size_t tsig_room(const struct tsig_session *session) {
  uint8_t clock[TSIG_OTHER_MAX];
  if (!is_signing(session))
    return 0;
  struct tsig_record record = response_record(session, 0, 0, clock);
  return tsig_record_size(&record);
}

/* Appends a record that has its MAC; 0 if there is no room for it. */
static size_t append(const struct tsig_record *record, uint8_t *message, size_t len,
                     size_t capacity) {
  size_t size = tsig_record_size(record);
  uint16_t additional = tsig_get16(message + 10);
  if (len > capacity || capacity - len < size || additional == UINT16_MAX)
    return 0;
  tsig_record_write(record, message + len);
  tsig_put16(message + 10, (uint16_t)(additional + 1));
  return len + size;
}

size_t tsig_sign_response(struct tsig_session *session, uint8_t *message, size_t len,
                          size_t capacity, uint64_t now) {
  uint8_t clock[TSIG_OTHER_MAX], mac[TSIG_MAC_MAX];
  if (session->result == TSIG_ABSENT || session->result == TSIG_FORMERR)
    return len;
  if (!is_signing(session) || len < TSIG_HEADER_SIZE)
    return 0;
  struct tsig_record record = response_record(session, tsig_get16(message), now, clock);
  record.mac = mac;
  if (!is_proven(session))
    return append(&record, message, len, capacity);
  struct digest d = digest_begin(session->key);
  digest_add_prior(&d, session);
  digest_add_message(&d, message, len, record.original_id, tsig_get16(message + 10));
  if (session->signed_messages == 0)
    digest_add_variables(&d, &record);
  else
    digest_add_time(&d, &record); /* RFC 8945 section 5.3.1: later messages sign only the timers */
  if (!digest_end(&d, mac))
    return 0;
  size_t size = append(&record, message, len, capacity);
  if (size == 0)
    return 0;
  session->signed_messages++;
  set_prior(session, mac, record.mac_len);
  return size;
}

size_t tsig_sign_request(struct tsig_session *session, const struct tsig_key *key, uint8_t *message,
                         size_t len, size_t capacity, uint64_t now) {
  uint8_t mac[TSIG_MAC_MAX];
  tsig_key_hold(key); /* it may be the one that the session held */
  tsig_close(session);
  session->key = key;
  session->result = TSIG_FAILED; /* until it is signed */
  if (len < TSIG_HEADER_SIZE)
    return 0;
  struct tsig_record record = {.time_signed = now & TIME_MASK,
                               .fudge = TSIG_FUDGE,
                               .original_id = tsig_get16(message),
                               .mac = mac,
                               .mac_len = (uint16_t)key->mac_len};
  record.name_len = name_copy_lower(record.name, key->name);
  record.algorithm_len = name_copy_lower(record.algorithm, key->algorithm_name);
  struct digest d = digest_begin(key);
  digest_add_message(&d, message, len, record.original_id, tsig_get16(message + 10));
  digest_add_variables(&d, &record);
  if (!digest_end(&d, mac))
    return 0;
  size_t size = append(&record, message, len, capacity);
  if (size == 0)
    return 0;
  set_prior(session, mac, record.mac_len);
  session->result = TSIG_OK;
  return size;
}

/* The digest of the stream since its last TSIG, begun if it is not: RFC 8945 section 5.3.1. */
static struct digest take_running(struct tsig_session *session) {
  struct digest d = {session->running, true};
  session->running = NULL;
  if (d.ctx == NULL) {
    d = digest_begin(session->key);
    digest_add_prior(&d, session);
  }
  return d;
}

static enum tsig_result absorb_unsigned(struct tsig_session *session, const uint8_t *message,
                                        size_t len) {
  if (session->signed_messages == 0 || session->unsigned_run == TSIG_UNSIGNED_MAX)
    return TSIG_UNSIGNED;
  struct digest d = take_running(session);
  digest_add(&d, message, len);
  session->running = d.ctx;
  session->unsigned_run++;
  return d.ok ? TSIG_PENDING : TSIG_FAILED;
}

/* What the server says in a TSIG that is genuine. */
static enum tsig_result peer_error(struct tsig_session *session, const struct tsig_record *record) {
  session->error = record->error;
  if (record->error == ERROR_BADTIME && record->other_len == TSIG_OTHER_MAX)
    session->peer_time = tsig_get48(record->other);
  return TSIG_PEER_ERROR;
}

static enum tsig_result check_response(struct tsig_session *session, const uint8_t *message,
                                       const struct tsig_record *record, uint64_t now) {
  const struct tsig_key *key = session->key;
  if (!is_key_of(key, record))
    return TSIG_BADKEY;
  /* RFC 8945 section 5.3.2: these two come without a MAC. */
  bool bare = record->error == ERROR_BADSIG || record->error == ERROR_BADKEY;
  if (bare && record->mac_len == 0 && session->signed_messages == 0)
    return peer_error(session, record);
  if (!mac_len_is_possible(key, record->mac_len))
    return TSIG_FORMERR;
  uint8_t mac[TSIG_MAC_MAX];
  struct digest d = take_running(session);
  digest_add_message(&d, message, record->at, record->original_id,
                     (uint16_t)(tsig_get16(message + 10) - 1));
  if (session->signed_messages == 0)
    digest_add_variables(&d, record);
  else
    digest_add_time(&d, record);
  if (!digest_end(&d, mac))
    return TSIG_FAILED;
  enum tsig_result result = judge(key, record, mac, now);
  if (result != TSIG_OK)
    return result;
  if (record->error != 0)
    return peer_error(session, record);
  set_prior(session, record->mac, record->mac_len);
  session->signed_messages++;
  session->unsigned_run = 0;
  return TSIG_OK;
}

enum tsig_result tsig_verify_response(struct tsig_session *session, const uint8_t *message,
                                      size_t len, uint64_t now) {
  struct tsig_record record;
  session->present = false;
  session->stripped_len = len;
  if (session->result != TSIG_OK && session->result != TSIG_PENDING)
    return session->result; /* the stream is broken already */
  switch (tsig_record_find(message, len, &record)) {
  case TSIG_MALFORMED:
    session->result = TSIG_FORMERR;
    break;
  case TSIG_NOT_FOUND:
    session->result = absorb_unsigned(session, message, len);
    break;
  case TSIG_FOUND:
    session->present = true;
    session->stripped_len = record.at;
    session->time_signed = record.time_signed;
    session->result = check_response(session, message, &record, now);
    break;
  }
  return session->result;
}

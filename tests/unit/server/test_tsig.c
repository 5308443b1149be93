/* SPDX-License-Identifier: Apache-2.0 */
/* The server's side: verify a request, sign what goes back. */
#include "tsig_helper.h"

static const char NAME[] = "transfer.example.";

static void expect_same(const struct message *got, const char *hex) {
  struct message want = message_of(hex);
  cr_assert_eq(got->len, want.len);
  cr_assert_arr_eq(got->octets, want.octets, want.len);
}

/* Verifies the request of a vector and makes its response(s), octet for octet. */
static void serve(const char *algorithm, const char *const *vector, size_t count, uint64_t step) {
  struct tsig_keys *keys = keys_of(algorithm);
  struct tsig_session session = {0};
  struct message m = message_of(vector[0]);
  cr_assert_eq(tsig_verify_request(&session, keys, m.octets, m.len, VECTOR_TIME), TSIG_OK);
  cr_assert_eq(session.key, key_in(keys, NAME));
  cr_assert_eq(session.time_signed, VECTOR_TIME);
  size_t room = tsig_room(&session);
  for (size_t i = 1; i < count; i++) {
    struct message want = message_of(vector[i]);
    m = unsigned_of(&want, want.len - room);
    m.len =
        tsig_sign_response(&session, m.octets, m.len, MESSAGE_MAX, VECTOR_TIME + step * (i - 1));
    expect_same(&m, vector[i]);
  }
  tsig_close(&session);
  tsig_keys_free(keys);
}

#define SERVE(algorithm, vector, step)                                                             \
  serve(algorithm, vector, sizeof vector / sizeof vector[0], step)

Test(tsig, algorithms_as_dnspython) {
  SERVE("hmac-md5", VECTOR_HMAC_MD5, 0);
  SERVE("HMAC-SHA1.", VECTOR_HMAC_SHA1, 0);
  SERVE("hmac-sha224", VECTOR_HMAC_SHA224, 0);
  SERVE("hmac-sha256", VECTOR_HMAC_SHA256, 0);
  SERVE("hmac-sha384", VECTOR_HMAC_SHA384, 0);
  SERVE("hmac-sha512", VECTOR_HMAC_SHA512, 0);
}

Test(tsig, stream_as_dnspython) {
  SERVE("hmac-sha256", VECTOR_STREAM, 1);
}

Test(tsig, edns_request_and_strip) {
  struct tsig_keys *keys = keys_of("hmac-sha256");
  struct tsig_session session = {0};
  struct message m = message_of(VECTOR_EDNS[0]);
  cr_assert_eq(tsig_verify_request(&session, keys, m.octets, m.len, VECTOR_TIME), TSIG_OK);
  cr_assert_eq(m.octets[11], 2);
  cr_assert_eq(tsig_strip(&session, m.octets), 29u + 11u);
  cr_assert_eq(m.octets[11], 1);
  tsig_close(&session);
  tsig_keys_free(keys);
}

Test(tsig, absent) {
  struct tsig_keys *keys = keys_of("hmac-sha256");
  struct tsig_session session = {0};
  struct message m = message_of(VECTOR_EDNS[0]);
  cr_assert_eq(tsig_verify_request(&session, keys, m.octets, m.len, VECTOR_TIME), TSIG_OK);
  m.len = tsig_strip(&session, m.octets);
  cr_assert_eq(tsig_verify_request(&session, keys, m.octets, m.len, VECTOR_TIME), TSIG_ABSENT);
  cr_assert_null(session.key);
  cr_assert_eq(tsig_strip(&session, m.octets), m.len);
  cr_assert_eq(m.octets[11], 1);
  cr_assert_eq(tsig_room(&session), 0);
  cr_assert_eq(tsig_sign_response(&session, m.octets, m.len, MESSAGE_MAX, VECTOR_TIME), m.len);
  tsig_close(&session);
  tsig_keys_free(keys);
}

Test(tsig, time_within_the_fudge) {
  struct tsig_keys *keys = keys_of("hmac-sha256");
  struct tsig_session session = {0};
  struct message m = message_of(VECTOR_HMAC_SHA256[0]);
  static const struct {
    int64_t off;
    enum tsig_result want;
  } cases[] = {{300, TSIG_OK}, {-300, TSIG_OK}, {301, TSIG_BADTIME}, {-301, TSIG_BADTIME}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    uint64_t now = (uint64_t)(VECTOR_TIME + cases[i].off);
    cr_assert_eq(tsig_verify_request(&session, keys, m.octets, m.len, now), cases[i].want);
  }
  tsig_close(&session);
  tsig_keys_free(keys);
}

/* RFC 8945 section 5.2.3: signed, the client's time in the record, ours in the other data. */
Test(tsig, badtime_response_as_dnspython) {
  struct tsig_keys *keys = keys_of("hmac-sha256");
  struct tsig_session session = {0};
  struct message m = message_of(VECTOR_BADTIME[0]), want = message_of(VECTOR_BADTIME[1]);
  const uint64_t now = VECTOR_TIME + 1000;
  cr_assert_eq(tsig_verify_request(&session, keys, m.octets, m.len, now), TSIG_BADTIME);
  cr_assert_eq(session.error, 18);
  m = unsigned_of(&want, want.len - tsig_room(&session));
  m.len = tsig_sign_response(&session, m.octets, m.len, MESSAGE_MAX, now);
  expect_same(&m, VECTOR_BADTIME[1]);
  tsig_close(&session);
  tsig_keys_free(keys);
}

/* Where the TSIG of a message begins and its fixed fields are; all vectors have the same names. */
static size_t tsig_at(const struct message *m) {
  struct tsig_keys *keys = keys_of("hmac-sha256");
  struct tsig_session session = {0};
  tsig_verify_request(&session, keys, m->octets, m->len, VECTOR_TIME);
  size_t at = session.stripped_len;
  cr_assert_lt(at, m->len);
  tsig_close(&session);
  tsig_keys_free(keys);
  return at;
}

/* BADKEY and BADSIG answers name the key as it was sent and have no MAC. */
static void expect_bare_error(struct tsig_session *session, const struct message *request,
                              uint8_t error) {
  struct message m = unsigned_of(request, session->stripped_len);
  size_t before = m.len, room = tsig_room(session);
  m.octets[2] |= 0x80;
  m.octets[3] = 9;
  m.len = tsig_sign_response(session, m.octets, m.len, before + room, VECTOR_TIME + 5);
  cr_assert_eq(m.len, before + room);
  const uint8_t *end = m.octets + m.len;
  const uint8_t tail[] = {0x65, 0x53, 0xf1, 0, 1, 0x2c, 0, 0, 0x12, 0x34, 0, error, 0, 0};
  cr_assert_arr_eq(end - sizeof tail, tail, sizeof tail);
  cr_assert_arr_eq(m.octets + before, "\010transfer\007example", 18);
  cr_assert_eq(m.octets[11], request->octets[11]);
}

Test(tsig, unknown_key_or_algorithm_is_badkey) {
  struct tsig_keys *tables[] = {
      keys_with((struct tsig_policy){0}, "other.example", "hmac-sha256"),
      keys_with((struct tsig_policy){0}, NAME, "hmac-sha512"),
      tsig_keys_new(&(struct tsig_policy){0}),
  };
  for (size_t i = 0; i < 3; i++) {
    struct tsig_session session = {0};
    struct message m = message_of(VECTOR_HMAC_SHA256[0]);
    cr_assert_eq(tsig_verify_request(&session, tables[i], m.octets, m.len, VECTOR_TIME),
                 TSIG_BADKEY);
    cr_assert_null(session.key);
    cr_assert_eq(tsig_rcode(session.result), 9);
    expect_bare_error(&session, &m, 17);
    tsig_close(&session);
    tsig_keys_free(tables[i]);
  }
}

/* Every bit that the MAC covers, and every bit of the MAC. */
Test(tsig, a_changed_bit_never_verifies) {
  struct tsig_keys *keys = keys_of("hmac-sha256");
  struct message m = message_of(VECTOR_HMAC_SHA256[0]);
  size_t at = tsig_at(&m), name_end = at + 18;
  for (size_t bit = 0; bit < 8 * m.len; bit++) {
    struct tsig_session session = {0};
    size_t octet = bit / 8;
    m.octets[octet] ^= (uint8_t)(1 << bit % 8);
    enum tsig_result got = tsig_verify_request(&session, keys, m.octets, m.len, VECTOR_TIME);
    /* Not covered: the ID (the original ID is), and the case of names. */
    bool is_name =
        (octet >= at && octet < name_end) || (octet >= name_end + 10 && octet < name_end + 23);
    bool free_bit = octet < 2 || (is_name && bit % 8 == 5);
    cr_assert(got != TSIG_OK || free_bit, "bit %zu: %s", bit, tsig_result_text(got));
    m.octets[octet] ^= (uint8_t)(1 << bit % 8);
    tsig_close(&session);
  }
  tsig_keys_free(keys);
}

Test(tsig, wrong_mac_is_badsig) {
  struct tsig_keys *keys = keys_of("hmac-sha256");
  struct tsig_session session = {0};
  struct message m = message_of(VECTOR_HMAC_SHA256[0]);
  m.octets[m.len - 10] ^= 1;
  /* The MAC is judged before the time (RFC 8945 section 5.2). */
  cr_assert_eq(tsig_verify_request(&session, keys, m.octets, m.len, VECTOR_TIME + 9999),
               TSIG_BADSIG);
  expect_bare_error(&session, &m, 16);
  tsig_close(&session);
  tsig_keys_free(keys);
}

/* A relay may change the ID; the MAC is over the original one. */
Test(tsig, another_id_still_verifies) {
  struct tsig_keys *keys = keys_of("hmac-sha256");
  struct tsig_session session = {0};
  struct message m = message_of(VECTOR_HMAC_SHA256[0]);
  m.octets[0] ^= 0xff;
  cr_assert_eq(tsig_verify_request(&session, keys, m.octets, m.len, VECTOR_TIME), TSIG_OK);
  tsig_close(&session);
  tsig_keys_free(keys);
}

/* Cuts the MAC of a request without other data to `len` octets. */
static struct message with_mac_cut(const char *hex, size_t full, size_t len) {
  struct message m = message_of(hex);
  size_t mac = m.len - 6 - full, cut = full - len;
  memmove(m.octets + mac + len, m.octets + mac + full, 6);
  m.octets[mac - 1] = (uint8_t)len;
  size_t rdlen = mac - 10 - (full == 16 ? 26 : full == 20 ? 11 : 13) - 2;
  unsigned value = (unsigned)(m.octets[rdlen] << 8 | m.octets[rdlen + 1]);
  m.octets[rdlen] = (uint8_t)((value - cut) >> 8);
  m.octets[rdlen + 1] = (uint8_t)(value - cut);
  m.len -= cut;
  return m;
}

/* RFC 8945 section 5.2.2.1: under half or 10 octets is malformed, else local policy decides. */
static void try_truncated(const char *algorithm, const char *hex, size_t full, size_t least) {
  for (size_t len = 0; len <= full; len++) {
    for (unsigned allow = 0; allow < 2; allow++) {
      struct tsig_policy policy = {.allow_md5 = true, .allow_truncated = allow == 1};
      struct tsig_keys *keys = keys_with(policy, NAME, algorithm);
      struct tsig_session session = {0};
      struct message m = with_mac_cut(hex, full, len);
      enum tsig_result want = len < least                 ? TSIG_FORMERR
                              : len == full || allow == 1 ? TSIG_OK
                                                          : TSIG_BADTRUNC;
      cr_assert_eq(tsig_verify_request(&session, keys, m.octets, m.len, VECTOR_TIME), want,
                   "%s cut to %zu", algorithm, len);
      cr_assert_eq(session.error, want == TSIG_BADTRUNC ? 22 : 0);
      if (want == TSIG_OK && len < full) { /* still judged */
        m.octets[m.len - 7] ^= 1;
        cr_assert_eq(tsig_verify_request(&session, keys, m.octets, m.len, VECTOR_TIME),
                     TSIG_BADSIG);
      }
      tsig_close(&session);
      tsig_keys_free(keys);
    }
  }
}

Test(tsig, truncated_macs) {
  try_truncated("hmac-md5", VECTOR_HMAC_MD5[0], 16, 10);
  try_truncated("hmac-sha1", VECTOR_HMAC_SHA1[0], 20, 10);
  try_truncated("hmac-sha256", VECTOR_HMAC_SHA256[0], 32, 16);
  try_truncated("hmac-sha512", VECTOR_HMAC_SHA512[0], 64, 32);
}

/* A MAC longer than the algorithm's is malformed too. */
Test(tsig, too_long_mac_is_formerr) {
  struct tsig_keys *keys = keys_of("hmac-sha256");
  struct tsig_session session = {0};
  struct message m = message_of(VECTOR_HMAC_SHA256[0]);
  size_t at = tsig_at(&m);
  memmove(m.octets + m.len - 5, m.octets + m.len - 6, 6);
  m.len++;
  m.octets[at + 18 + 9]++;           /* RDLENGTH */
  m.octets[at + 18 + 10 + 13 + 9]++; /* MAC size */
  cr_assert_eq(tsig_verify_request(&session, keys, m.octets, m.len, VECTOR_TIME), TSIG_FORMERR);
  cr_assert_eq(tsig_rcode(session.result), 1);
  cr_assert_eq(tsig_room(&session), 0);
  cr_assert_eq(tsig_sign_response(&session, m.octets, 12, MESSAGE_MAX, VECTOR_TIME), 12);
  tsig_close(&session);
  tsig_keys_free(keys);
}

static enum tsig_result verify_with(const struct message *m) {
  struct tsig_keys *keys = keys_of("hmac-sha256");
  struct tsig_session session = {0};
  /* A heap copy of the exact size, so that ASan sees each octet read past the end. */
  uint8_t *copy = malloc(m->len + (m->len == 0));
  memcpy(copy, m->octets, m->len);
  enum tsig_result result = tsig_verify_request(&session, keys, copy, m->len, VECTOR_TIME);
  free(copy);
  tsig_close(&session);
  tsig_keys_free(keys);
  return result;
}

Test(tsig, malformed_messages) {
  const struct message good = message_of(VECTOR_EDNS[0]);
  struct message m = good;
  size_t at = tsig_at(&good), fixed = at + 18;
  for (m.len = 0; m.len < good.len; m.len++)
    cr_assert_eq(verify_with(&m), TSIG_FORMERR, "cut to %zu", m.len);
  m = good;
  m.octets[m.len++] = 0;
  cr_assert_eq(verify_with(&m), TSIG_FORMERR, "an octet after the record");
  m = good;
  m.octets[fixed + 3] = 1;
  cr_assert_eq(verify_with(&m), TSIG_FORMERR, "class IN");
  m = good;
  m.octets[fixed + 7] = 1;
  cr_assert_eq(verify_with(&m), TSIG_FORMERR, "TTL 1");
  m = good;
  m.octets[m.len - 1] = 1;
  cr_assert_eq(verify_with(&m), TSIG_FORMERR, "other data past the end");
  m = good;
  m.octets[fixed + 10 + 13 + 8] = 0xff;
  cr_assert_eq(verify_with(&m), TSIG_FORMERR, "MAC past the end");
  m = good;
  m.octets[fixed + 10] = 0xc0;
  m.octets[fixed + 11] = 12;
  cr_assert_eq(verify_with(&m), TSIG_FORMERR, "compressed algorithm");
  m = good;
  m.octets[11] = 3;
  cr_assert_eq(verify_with(&m), TSIG_FORMERR, "a record is missing");
}

/* RFC 8945 section 5.1: one TSIG, the last record, in the additional section. */
Test(tsig, misplaced_tsig) {
  const struct message good = message_of(VECTOR_HMAC_SHA256[0]);
  size_t at = tsig_at(&good), size = good.len - at;
  struct message m = good;
  memcpy(m.octets + m.len, good.octets + at, size);
  m.len += size;
  m.octets[11] = 2;
  cr_assert_eq(verify_with(&m), TSIG_FORMERR, "twice");
  m = good;
  memcpy(m.octets + m.len, "\0\0\1\0\1\0\0\0\0\0\0", 11);
  m.len += 11;
  m.octets[11] = 2;
  cr_assert_eq(verify_with(&m), TSIG_FORMERR, "not last");
  for (size_t count = 7; count < 11; count += 2) {
    m = good;
    m.octets[11] = 0;
    m.octets[count] = 1;
    cr_assert_eq(verify_with(&m), TSIG_FORMERR, "in section %zu", count);
  }
}

/* The name of the key may be compressed; a pointer must lead backwards. */
Test(tsig, compressed_key_name) {
  const struct message good = message_of(VECTOR_HMAC_SHA256[0]);
  size_t at = tsig_at(&good);
  struct tsig_policy none = {0};
  struct tsig_keys *keys = keys_with(none, "example.com", "hmac-sha256");
  struct tsig_session client = {0}, session = {0};
  struct message m = unsigned_of(&good, at);
  m.len = tsig_sign_request(&client, key_in(keys, "example.com"), m.octets, m.len, MESSAGE_MAX,
                            VECTOR_TIME);
  cr_assert_gt(m.len, at);
  memmove(m.octets + at + 2, m.octets + at + 13, m.len - at - 13);
  m.octets[at] = 0xc0;
  m.octets[at + 1] = 12;
  m.len -= 11;
  cr_assert_eq(tsig_verify_request(&session, keys, m.octets, m.len, VECTOR_TIME), TSIG_OK);
  for (size_t to = at; to < at + 8; to++) { /* itself, and forward */
    m.octets[at] = (uint8_t)(0xc0 | to >> 8);
    m.octets[at + 1] = (uint8_t)to;
    cr_assert_eq(tsig_verify_request(&session, keys, m.octets, m.len, VECTOR_TIME), TSIG_FORMERR);
  }
  tsig_close(&client);
  tsig_close(&session);
  tsig_keys_free(keys);
}

Test(tsig, no_room_writes_nothing) {
  struct tsig_keys *keys = keys_of("hmac-sha256");
  struct tsig_session session = {0};
  struct message m = message_of(VECTOR_HMAC_SHA256[0]);
  cr_assert_eq(tsig_verify_request(&session, keys, m.octets, m.len, VECTOR_TIME), TSIG_OK);
  struct message r = unsigned_of(&m, session.stripped_len), before = r;
  size_t room = tsig_room(&session);
  for (size_t capacity = 0; capacity < r.len + room; capacity++) {
    cr_assert_eq(tsig_sign_response(&session, r.octets, r.len, capacity, VECTOR_TIME), 0);
    cr_assert_arr_eq(r.octets, before.octets, before.len);
  }
  cr_assert_eq(tsig_sign_response(&session, r.octets, 11, MESSAGE_MAX, VECTOR_TIME), 0);
  cr_assert_eq(tsig_sign_response(&session, r.octets, r.len, r.len + room, VECTOR_TIME),
               r.len + room);
  tsig_close(&session);
  tsig_keys_free(keys);
}

Test(tsig, full_additional_count_is_no_wrap) {
  struct tsig_keys *keys = keys_of("hmac-sha256");
  struct tsig_session session = {0};
  struct message m = message_of(VECTOR_HMAC_SHA256[0]);
  cr_assert_eq(tsig_verify_request(&session, keys, m.octets, m.len, VECTOR_TIME), TSIG_OK);
  m.octets[10] = m.octets[11] = 0xff;
  cr_assert_eq(tsig_sign_response(&session, m.octets, 12, MESSAGE_MAX, VECTOR_TIME), 0);
  tsig_close(&session);
  tsig_keys_free(keys);
}

/* A reload frees the table while a transfer is under way. */
Test(tsig, session_outlives_the_table) {
  struct tsig_keys *keys = keys_of("hmac-sha256");
  struct tsig_session session = {0};
  struct message m = message_of(VECTOR_HMAC_SHA256[0]), want = message_of(VECTOR_HMAC_SHA256[1]);
  cr_assert_eq(tsig_verify_request(&session, keys, m.octets, m.len, VECTOR_TIME), TSIG_OK);
  tsig_keys_free(keys);
  m = unsigned_of(&want, want.len - tsig_room(&session));
  m.len = tsig_sign_response(&session, m.octets, m.len, MESSAGE_MAX, VECTOR_TIME);
  expect_same(&m, VECTOR_HMAC_SHA256[1]);
  tsig_close(&session);
  tsig_close(&session);
}

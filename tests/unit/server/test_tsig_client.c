/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side: sign a request, verify the response or stream that comes back. */
#include "tsig_helper.h"

static uint64_t time_signed_of(const struct message *m) {
  struct tsig_policy policy = {0};
  struct tsig_keys *none = tsig_keys_new(&policy);
  struct tsig_session session = {0};
  cr_assert_eq(tsig_verify_request(&session, none, m->octets, m->len, 0), TSIG_BADKEY);
  uint64_t at = session.time_signed;
  tsig_close(&session);
  tsig_keys_free(none);
  return at;
}

/* Signs the request of a vector again, as its client did: octet for octet. */
static struct tsig_session ask(const struct tsig_keys *keys, const char *hex) {
  const struct message want = message_of(hex);
  struct tsig_session check = {0}, session = {0};
  uint64_t now = time_signed_of(&want);
  cr_assert_eq(tsig_verify_request(&check, keys, want.octets, want.len, now), TSIG_OK);
  struct message m = unsigned_of(&want, check.stripped_len);
  m.len = tsig_sign_request(&session, check.key, m.octets, m.len, MESSAGE_MAX, now);
  cr_assert_eq(m.len, want.len);
  cr_assert_arr_eq(m.octets, want.octets, want.len);
  tsig_close(&check);
  return session;
}

static void receive(const char *algorithm, const char *const *vector, size_t count,
                    const char *want) {
  struct tsig_keys *keys = keys_of(algorithm);
  struct tsig_session session = ask(keys, vector[0]);
  struct message request = message_of(vector[0]);
  uint64_t now = time_signed_of(&request);
  for (size_t i = 1; i < count; i++) {
    struct message m = message_of(vector[i]);
    enum tsig_result result = want[i - 1] == 'u' ? TSIG_PENDING : TSIG_OK;
    cr_assert_eq(tsig_verify_response(&session, m.octets, m.len, now + i), result,
                 "message %zu: %s", i, tsig_result_text(session.result));
  }
  tsig_close(&session);
  tsig_keys_free(keys);
}

#define COUNT(vector) (sizeof vector / sizeof vector[0])

#define RECEIVE(algorithm, vector, want) receive(algorithm, vector, COUNT(vector), want)

Test(tsig_client, algorithms_as_dnspython) {
  RECEIVE("hmac-md5", VECTOR_HMAC_MD5, "s");
  RECEIVE("hmac-sha1", VECTOR_HMAC_SHA1, "s");
  RECEIVE("hmac-sha224", VECTOR_HMAC_SHA224, "s");
  RECEIVE("hmac-sha256", VECTOR_HMAC_SHA256, "s");
  RECEIVE("hmac-sha384", VECTOR_HMAC_SHA384, "s");
  RECEIVE("hmac-sha512", VECTOR_HMAC_SHA512, "s");
}

Test(tsig_client, streams_as_dnspython) {
  RECEIVE("hmac-sha256", VECTOR_STREAM, "sssss");
  RECEIVE("hmac-sha256", VECTOR_STREAM_GAPS, "suussus");
}

/* What real servers sent to real clients. */
Test(tsig_client, streams_of_peers) {
  RECEIVE("hmac-sha256", VECTOR_BIND_DIG, "ssssssssss");
  RECEIVE("hmac-sha512", VECTOR_KNOT_KDIG, "s");
  RECEIVE("hmac-sha1", VECTOR_NSD_KDIG, "s");
}

/* Our own server's side against our client's, in a stream of each algorithm. */
Test(tsig_client, stream_of_our_own) {
  for (unsigned a = 0; a < TSIG_ALGORITHMS; a++) {
    struct tsig_keys *keys = keys_of(tsig_algorithm_text((enum tsig_algorithm)a));
    struct tsig_session server = {0}, client = {0};
    struct message m = {.len = 29};
    memcpy(m.octets, "\1\2\0\0\0\1\0\0\0\0\0\0\7example\3com\0\0\374\0\1", 29);
    m.len = tsig_sign_request(&client, key_in(keys, "transfer.example"), m.octets, m.len,
                              MESSAGE_MAX, 5);
    cr_assert_eq(tsig_verify_request(&server, keys, m.octets, m.len, 6), TSIG_OK);
    m.len = tsig_strip(&server, m.octets);
    for (unsigned i = 0; i < 300; i++) {
      struct message r = m;
      r.len = tsig_sign_response(&server, r.octets, r.len, r.len + tsig_room(&server), 7 + i);
      cr_assert_gt(r.len, m.len);
      cr_assert_eq(tsig_verify_response(&client, r.octets, r.len, 7 + i), TSIG_OK);
      cr_assert_eq(tsig_strip(&client, r.octets), m.len);
      cr_assert_arr_eq(r.octets, m.octets, m.len);
    }
    tsig_close(&server);
    tsig_close(&client);
    tsig_keys_free(keys);
  }
}

/* Feeds the messages of a stream with gaps in the order of `order`; the last result. */
static enum tsig_result receive_in_order(const char *order, size_t flip) {
  struct tsig_keys *keys = keys_of("hmac-sha256");
  struct tsig_session session = ask(keys, VECTOR_STREAM_GAPS[0]);
  enum tsig_result result = TSIG_OK;
  for (const char *c = order; *c != '\0'; c++) {
    struct message m = message_of(VECTOR_STREAM_GAPS[*c - '0']);
    if (c[1] == '\0' && flip > 0)
      m.octets[flip] ^= 1;
    result = tsig_verify_response(&session, m.octets, m.len, VECTOR_TIME);
  }
  tsig_close(&session);
  tsig_keys_free(keys);
  return result;
}

Test(tsig_client, a_stream_must_be_whole_and_in_order) {
  cr_assert_eq(receive_in_order("1234567", 0), TSIG_OK);
  cr_assert_eq(receive_in_order("123456", 0), TSIG_PENDING, "the last one is not signed");
  cr_assert_eq(receive_in_order("2", 0), TSIG_UNSIGNED, "the first one is not signed");
  cr_assert_eq(receive_in_order("134", 0), TSIG_BADSIG, "one is missing");
  cr_assert_eq(receive_in_order("1324", 0), TSIG_BADSIG, "two are swapped");
  cr_assert_eq(receive_in_order("12234", 0), TSIG_BADSIG, "one comes twice");
  cr_assert_eq(receive_in_order("11", 0), TSIG_BADSIG, "the first one comes twice");
  cr_assert_eq(receive_in_order("4", 0), TSIG_BADSIG, "the first one is missing");
  cr_assert_eq(receive_in_order("1234", 2), TSIG_BADSIG, "a bit was changed");
  cr_assert_eq(receive_in_order("1345", 0), TSIG_BADSIG, "a broken stream stays broken");
}

/* Nothing is cut off a message that was not looked at any more. */
Test(tsig_client, strip_after_the_stream_broke) {
  struct tsig_keys *keys = keys_of("hmac-sha256");
  struct tsig_session session = ask(keys, VECTOR_HMAC_SHA256[0]);
  struct message m = message_of(VECTOR_HMAC_SHA256[1]);
  uint8_t none[1] = {7};
  cr_assert_eq(tsig_verify_response(&session, m.octets, m.len, VECTOR_TIME + 301), TSIG_BADTIME);
  cr_assert_eq(tsig_verify_response(&session, none, 1, VECTOR_TIME), TSIG_BADTIME);
  cr_assert_eq(tsig_strip(&session, none), 1);
  cr_assert_eq(none[0], 7);
  tsig_close(&session);
  tsig_keys_free(keys);
}

Test(tsig_client, unsigned_messages_in_a_row_are_limited) {
  struct tsig_keys *keys = keys_of("hmac-sha256");
  struct tsig_session session = ask(keys, VECTOR_STREAM_GAPS[0]);
  struct message first = message_of(VECTOR_STREAM_GAPS[1]), gap = message_of(VECTOR_STREAM_GAPS[2]);
  cr_assert_eq(tsig_verify_response(&session, first.octets, first.len, VECTOR_TIME), TSIG_OK);
  for (unsigned i = 0; i < TSIG_UNSIGNED_MAX; i++)
    cr_assert_eq(tsig_verify_response(&session, gap.octets, gap.len, VECTOR_TIME), TSIG_PENDING);
  cr_assert_eq(tsig_verify_response(&session, gap.octets, gap.len, VECTOR_TIME), TSIG_UNSIGNED);
  cr_assert_eq(tsig_verify_response(&session, first.octets, first.len, VECTOR_TIME), TSIG_UNSIGNED);
  tsig_close(&session);
  tsig_keys_free(keys);
}

Test(tsig_client, response_to_another_request) {
  struct tsig_keys *keys = keys_of("hmac-sha256");
  struct tsig_session session = ask(keys, VECTOR_EDNS[0]);
  struct message m = message_of(VECTOR_HMAC_SHA256[1]);
  cr_assert_eq(tsig_verify_response(&session, m.octets, m.len, VECTOR_TIME), TSIG_BADSIG);
  tsig_close(&session);
  tsig_keys_free(keys);
}

Test(tsig_client, response_of_another_key_or_algorithm) {
  struct tsig_keys *keys = keys_of("hmac-sha256");
  struct tsig_session session = ask(keys, VECTOR_HMAC_SHA256[0]);
  struct message m = message_of(VECTOR_HMAC_SHA512[1]);
  cr_assert_eq(tsig_verify_response(&session, m.octets, m.len, VECTOR_TIME), TSIG_BADKEY);
  tsig_close(&session);
  tsig_keys_free(keys);
}

Test(tsig_client, late_response) {
  struct tsig_keys *keys = keys_of("hmac-sha256");
  struct tsig_session session = ask(keys, VECTOR_HMAC_SHA256[0]);
  struct message m = message_of(VECTOR_HMAC_SHA256[1]);
  cr_assert_eq(tsig_verify_response(&session, m.octets, m.len, VECTOR_TIME + 301), TSIG_BADTIME);
  tsig_close(&session);
  tsig_keys_free(keys);
}

Test(tsig_client, malformed_response) {
  struct tsig_keys *keys = keys_of("hmac-sha256");
  struct message m = message_of(VECTOR_HMAC_SHA256[1]);
  for (size_t len = 0; len < m.len; len++) {
    struct tsig_session session = ask(keys, VECTOR_HMAC_SHA256[0]);
    cr_assert_eq(tsig_verify_response(&session, m.octets, len, VECTOR_TIME), TSIG_FORMERR);
    tsig_close(&session);
  }
  tsig_keys_free(keys);
}

/* The clock of the server comes in the other data; the record has the client's own time. */
Test(tsig_client, server_says_badtime) {
  struct tsig_keys *keys = keys_of("hmac-sha256");
  struct tsig_session session = ask(keys, VECTOR_BADTIME[0]);
  struct message m = message_of(VECTOR_BADTIME[1]), forged = m;
  forged.octets[m.len - 1] ^= 1;
  cr_assert_eq(tsig_verify_response(&session, m.octets, m.len, VECTOR_TIME), TSIG_PEER_ERROR);
  cr_assert_eq(session.error, 18);
  cr_assert_eq(session.peer_time, VECTOR_TIME + 1000);
  tsig_close(&session);
  session = ask(keys, VECTOR_BADTIME[0]);
  cr_assert_eq(tsig_verify_response(&session, forged.octets, m.len, VECTOR_TIME), TSIG_BADSIG);
  cr_assert_eq(session.peer_time, 0);
  tsig_close(&session);
  tsig_keys_free(keys);
}

/* The server does not know the key, or thinks that the MAC is wrong: no MAC comes back. */
Test(tsig_client, server_says_badkey_or_badsig) {
  struct tsig_keys *keys = keys_of("hmac-sha256");
  struct tsig_policy none = {0};
  struct tsig_keys *strangers = tsig_keys_new(&none);
  for (unsigned i = 0; i < 2; i++) {
    struct tsig_session client = ask(keys, VECTOR_HMAC_SHA256[0]), server = {0};
    struct message m = message_of(VECTOR_HMAC_SHA256[0]);
    m.octets[m.len - 7] ^= 1;
    tsig_verify_request(&server, i == 0 ? strangers : keys, m.octets, m.len, VECTOR_TIME);
    m.len = tsig_strip(&server, m.octets);
    m.len = tsig_sign_response(&server, m.octets, m.len, MESSAGE_MAX, VECTOR_TIME);
    cr_assert_eq(tsig_verify_response(&client, m.octets, m.len, VECTOR_TIME), TSIG_PEER_ERROR);
    cr_assert_eq(client.error, i == 0 ? 17 : 16);
    tsig_close(&client);
    tsig_close(&server);
  }
  tsig_keys_free(keys);
  tsig_keys_free(strangers);
}

Test(tsig_client, no_room_for_the_signature) {
  struct tsig_keys *keys = keys_of("hmac-sha256");
  struct tsig_session session = {0};
  const struct tsig_key *key = key_in(keys, "transfer.example");
  struct message m = {.len = 12};
  cr_assert_eq(tsig_sign_request(&session, key, m.octets, 12, 100, 5), 0);
  cr_assert_eq(tsig_verify_response(&session, m.octets, 12, 5), TSIG_FAILED);
  cr_assert_eq(tsig_sign_request(&session, key, m.octets, 11, MESSAGE_MAX, 5), 0);
  cr_assert_gt(tsig_sign_request(&session, key, m.octets, 12, MESSAGE_MAX, 5), 12);
  tsig_close(&session);
  tsig_keys_free(keys);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TSIG on both sides.  Input: messages, each with its length before it as over TCP; the first is a
 * request, the others are the responses to it.
 *
 * Nobody guesses a MAC, so what carries a wrong one is signed again with the right key, and must
 * then verify: that reaches what lies behind the MAC.
 */
#include <stdlib.h>
#include <string.h>

#include "server/tsig.h"

enum { NOW = 1700000000, MESSAGES_MAX = 120, CAPACITY = 65535 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
  if (!condition)
    abort();
}

/* One key of each algorithm; "transfer.example" is the one of the seeds. */
static const struct tsig_keys *make_keys(void) {
  static const char *const names[TSIG_ALGORITHMS] = {"a", "b", "c", "transfer.example", "d", "e"};
  struct tsig_policy policy = {.allow_md5 = true, .allow_truncated = true};
  struct tsig_keys *keys = tsig_keys_new(&policy);
  char why[TSIG_WHY];
  for (unsigned i = 0; keys != NULL && i < TSIG_ALGORITHMS; i++)
    require(tsig_keys_add(keys, names[i], tsig_algorithm_text((enum tsig_algorithm)i),
                          "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=", why));
  return keys;
}

/* The next message, copied to storage of its exact size; NULL at the end. */
static uint8_t *next_message(const uint8_t **data, size_t *size, size_t *len) {
  if (*size < 2)
    return NULL;
  size_t said = (size_t)(*data)[0] << 8 | (*data)[1];
  *len = said < *size - 2 ? said : *size - 2;
  uint8_t *copy = malloc(*len + 1);
  require(copy != NULL);
  memcpy(copy, *data + 2, *len);
  *data += 2 + *len;
  *size -= 2 + *len;
  return copy;
}

/* Serves the request, and gives the session of a client that asks the same; false if it has no key.
 */
static bool serve(const struct tsig_keys *keys, const uint8_t *message, size_t len,
                  struct tsig_session *client) {
  static uint8_t buffer[CAPACITY];
  struct tsig_session server = {0};
  enum tsig_result result = tsig_verify_request(&server, keys, message, len, NOW);
  require(server.stripped_len <= len);
  memcpy(buffer, message, len);
  size_t stripped = tsig_strip(&server, buffer), room = tsig_room(&server);
  size_t sent = tsig_sign_response(&server, buffer, stripped, CAPACITY, NOW);
  require(sent == stripped + room || sent == 0);
  require(sent > 0 || result == TSIG_FAILED || stripped == 0 || stripped + room > CAPACITY);
  const struct tsig_key *key = server.key;
  bool go_on = key != NULL && result != TSIG_FORMERR;
  if (go_on) {
    uint64_t then = server.time_signed;
    memcpy(buffer, message, len);
    size_t plain = tsig_strip(&server, buffer);
    size_t asked = tsig_sign_request(client, key, buffer, plain, CAPACITY, then);
    go_on = asked > 0;
    if (go_on) /* what we sign, we accept */
      require(tsig_verify_request(&server, keys, buffer, asked, then) == TSIG_OK);
  }
  tsig_close(&server);
  return go_on;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const struct tsig_keys *keys;
  struct tsig_session client = {0};
  size_t len = 0;
  if (keys == NULL)
    keys = make_keys();
  uint8_t *request = next_message(&data, &size, &len);
  if (request != NULL && serve(keys, request, len, &client)) {
    for (unsigned i = 0; i < MESSAGES_MAX; i++) {
      uint8_t *message = next_message(&data, &size, &len);
      if (message == NULL)
        break;
      enum tsig_result result = tsig_verify_response(&client, message, len, NOW);
      require(client.stripped_len <= len);
      require(result != TSIG_ABSENT);
      tsig_strip(&client, message);
      free(message);
    }
  }
  free(request);
  tsig_close(&client);
  return 0;
}

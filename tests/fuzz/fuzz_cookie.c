/* SPDX-License-Identifier: Apache-2.0 */
/*
 * COOKIE options and secrets files.  Input: octet 0 chooses IPv4 or IPv6, then 4 octets of time, 16
 * of address, and the option; the whole input is also read as a secrets file.
 */
#include <stdlib.h>
#include <string.h>

#include "server/cookie.h"

enum { TIME_AT = 1, ADDRESS_AT = 5, OPTION_AT = 21 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
  if (!condition)
    abort();
}

static void try_option(const struct cookie_secrets *secrets, const uint8_t *data, size_t size) {
  uint8_t out[COOKIE_SIZE];
  uint32_t now;
  struct cookie_option option;
  size_t address_len = data[0] & 1 ? 16 : 4;
  memcpy(&now, data + TIME_AT, sizeof now);
  if (!cookie_parse(data + OPTION_AT, size - OPTION_AT, &option))
    return;
  enum cookie_status status =
      cookie_respond(secrets, &option, data + ADDRESS_AT, address_len, now, out);
  require(memcmp(out, option.client, COOKIE_CLIENT_SIZE) == 0);
  require((status == COOKIE_NONE) == (option.server == NULL));
  /* What goes out is good, and still is in half an hour. */
  require(cookie_parse(out, sizeof out, &option));
  require(cookie_check(secrets, &option, data + ADDRESS_AT, address_len, now) == COOKIE_VALID);
  enum cookie_status later =
      cookie_check(secrets, &option, data + ADDRESS_AT, address_len, now + COOKIE_RENEW_AFTER);
  require(later == COOKIE_VALID || (status == COOKIE_VALID && later == COOKIE_RENEW));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const uint8_t random[COOKIE_SECRET_SIZE + 1] = "0123456789abcdef";
  struct cookie_secrets secrets;
  char why[COOKIE_WHY];
  cookie_secrets_generate(&secrets, random);
  if (cookie_secrets_parse((const char *)data, size, &secrets, why))
    require(secrets.count >= 1 && secrets.count <= COOKIE_SECRETS_MAX);
  else
    require(strlen(why) < sizeof why && strchr(why, '\n') == NULL);
  if (size >= OPTION_AT)
    try_option(&secrets, data, size);
  return 0;
}

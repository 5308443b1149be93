/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/resolve_address.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "zones/endpoint_address.h"

bool resolve_address_usable(const struct resolve_address *address) {
  if (address->family != 4 && address->family != 6)
    return false;
  return endpoint_address_flaw(address->bytes, address->family == 6) == NULL;
}

size_t resolve_address_mix(const struct resolve_address *v4, size_t count4,
                           const struct resolve_address *v6, size_t count6,
                           struct resolve_address *out) {
  size_t count = 0;
  for (size_t i = 0; (i < count4 || i < count6) && count < RESOLVE_ADDRESSES; i++) {
    if (i < count4)
      out[count++] = v4[i];
    if (i < count6 && count < RESOLVE_ADDRESSES)
      out[count++] = v6[i];
  }
  return count;
}

static bool read_port(const char *text, uint16_t *port) {
  unsigned value = 0;
  size_t len = strlen(text);
  if (len == 0 || len > 5 || text[0] == '0')
    return false;
  for (size_t i = 0; i < len; i++) {
    if (text[i] < '0' || text[i] > '9')
      return false;
    value = value * 10 + (unsigned)(text[i] - '0');
  }
  *port = (uint16_t)value;
  return value <= 65535;
}

bool resolve_address_read(const char *text, struct resolve_address *address, uint16_t *port) {
  char host[INET6_ADDRSTRLEN];
  const char *at = strchr(text, '@');
  size_t len = at != NULL ? (size_t)(at - text) : strlen(text);
  if (len >= sizeof host)
    return false;
  memcpy(host, text, len);
  host[len] = '\0';
  *port = 53;
  if (at != NULL && !read_port(at + 1, port))
    return false;
  *address = (struct resolve_address){.family = 4};
  if (inet_pton(AF_INET, host, address->bytes) == 1)
    return true;
  address->family = 6;
  return inet_pton(AF_INET6, host, address->bytes) == 1;
}

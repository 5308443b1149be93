/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/endpoint_address.h"

#include <stddef.h>
#include <string.h>

static const char *flaw4(const uint8_t *b) {
  static const uint8_t broadcast[4] = {255, 255, 255, 255};
  if (memcmp(b, broadcast, sizeof broadcast) == 0)
    return "the broadcast address";
  if (b[0] == 0)
    return "an unspecified address (0.0.0.0/8)";
  if (b[0] >= 240)
    return "a reserved address (240.0.0.0/4)";
  if (b[0] >= 224)
    return "a multicast address (224.0.0.0/4)";
  if (b[0] == 169 && b[1] == 254)
    return "a link-local address (169.254.0.0/16)";
  return NULL;
}

static const char *flaw6(const uint8_t *b) {
  static const uint8_t unspecified[16];
  if (memcmp(b, unspecified, sizeof unspecified) == 0)
    return "the unspecified address";
  if (b[0] == 0xff)
    return "a multicast address (ff00::/8)";
  if (b[0] == 0xfe && (b[1] & 0xc0) == 0x80)
    return "a link-local address (fe80::/10)";
  return endpoint_address_is_mapped(b) ? "an IPv4 address in IPv6 form" : NULL;
}

bool endpoint_address_is_mapped(const uint8_t *octets) {
  static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};
  return memcmp(octets, prefix, sizeof prefix) == 0;
}

const char *endpoint_address_flaw(const uint8_t *octets, bool v6) {
  return v6 ? flaw6(octets) : flaw4(octets);
}

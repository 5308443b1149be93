/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NOTIFY as it comes in.  Input: which client sends it (one octet), then the message.
 */
#include <stdlib.h>
#include <string.h>

#include "server/notify_in.h"
#include "server/wire.h"

enum { NOW = 1700000000, CAPACITY = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
  if (!condition)
    abort();
}

static void told(void *arg, size_t zone, unsigned primary, bool has_serial, uint32_t serial) {
  unsigned *calls = arg;
  (void)has_serial;
  (void)serial;
  require(zone == 0 && primary < 2);
  ++*calls;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct notify_primary primaries[2];
  static struct notify_zone zone = {
      .apex = "\7example", .primaries = primaries, .primary_count = 2};
  static struct tsig_keys *keys;
  static const struct tsig_policy policy;
  char why[TSIG_WHY];
  if (keys == NULL) {
    keys = tsig_keys_new(&policy);
    require(keys != NULL && tsig_keys_add(keys, "transfer.example", "hmac-sha256",
                                          "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=", why));
    primaries[0].address.family = 4;
    primaries[1].address.family = 6;
    primaries[1].has_key = true;
    memcpy(primaries[1].key, "\10transfer\7example", 18);
  }
  if (size < 1 + WIRE_QUESTION || size - 1 > CAPACITY)
    return 0;
  struct geo_address source = {.family = 4, .octets = {data[0]}};
  unsigned calls = 0;
  struct notify_gate gate = {.zones = &zone,
                             .zone_count = 1,
                             .keys = keys,
                             .udp_payload = 1232,
                             .notify = told,
                             .arg = &calls};
  uint8_t *packet = malloc(CAPACITY);
  require(packet != NULL);
  memcpy(packet, data + 1, size - 1);
  size_t length = notify_in_answer(&gate, packet, size - 1, CAPACITY, &source, NOW);
  require(length == 0 || (length >= WIRE_QUESTION && length <= CAPACITY));
  if (length > 0) {
    unsigned rcode = wire_u16(packet + WIRE_FLAGS) & WIRE_RCODE;
    require((wire_u16(packet + WIRE_FLAGS) & WIRE_QR) != 0);
    require((rcode == RCODE_NOERROR) == (calls == 1));
  }
  free(packet);
  return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Echo replies and quoted requests.  Input: family, kind of socket, then the packet.
 */
#include <stdlib.h>
#include <string.h>

#include "healthcheck/probes/icmp_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
  if (!condition)
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2)
    return 0;
  uint8_t family = data[0] % 2 == 0 ? 4 : 6;
  struct icmp_echo echo;
  char words[ICMP_REASON];
  uint8_t *packet = malloc(size - 1);
  require(packet != NULL);
  memcpy(packet, data + 2, size - 2);
  if (icmp_reply(family, data[1] % 2 == 0, packet, size - 2, &echo))
    require(echo.whole && size - 2 >= ECHO_SIZE);
  if (icmp_quoted(family, packet, size - 2, &echo)) {
    uint8_t again[ECHO_SIZE];
    icmp_request(family, &echo, again);
    require(memcmp(again + 4, packet + 4, 4) == 0);
    require(!echo.whole || memcmp(again + ECHO_HEADER, packet + ECHO_HEADER, ECHO_TOKEN) == 0);
  }
  const char *reason = icmp_reason(family, data[0], data[1], words);
  require(strlen(reason) > 0 && strlen(reason) < ICMP_REASON);
  free(packet);
  return 0;
}

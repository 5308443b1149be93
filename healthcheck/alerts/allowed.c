/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/alerts/allowed.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NETS_MAX = 1000, MAPPED_BITS = 96 };

/* IPv4 as mapped IPv6, so that there is one form. */
struct net {
  uint8_t address[16];
  uint8_t bits;
};

struct allowed {
  size_t count;
  struct net nets[];
};

/* ---- networks ---------------------------------------------------------------------------------
 */

static void map_v4(uint8_t out[16], const void *v4) {
  static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};
  memcpy(out, prefix, sizeof prefix);
  memcpy(out + sizeof prefix, v4, 4);
}

/* "ADDRESS" or "ADDRESS/BITS". */
static bool read_net(const char *text, struct net *out) {
  char address[INET6_ADDRSTRLEN];
  uint8_t v4[4];
  size_t length = strcspn(text, "/");
  if (length >= sizeof address)
    return false;
  memcpy(address, text, length);
  address[length] = '\0';
  unsigned most = 128;
  if (inet_pton(AF_INET, address, v4) == 1) {
    most = 32;
    map_v4(out->address, v4);
  } else if (inet_pton(AF_INET6, address, out->address) != 1) {
    return false;
  }
  unsigned bits = most;
  if (text[length] == '/') {
    const char *digits = text + length + 1;
    size_t n = strspn(digits, "0123456789");
    if (n == 0 || n > 3 || digits[n] != '\0')
      return false;
    bits = (unsigned)strtoul(digits, NULL, 10);
    if (bits > most)
      return false;
  }
  out->bits = (uint8_t)(bits + (most == 32 ? MAPPED_BITS : 0));
  return true;
}

static bool is_in(const uint8_t address[16], const struct net *net) {
  unsigned whole = net->bits / 8;
  unsigned rest = net->bits % 8;
  if (memcmp(address, net->address, whole) != 0)
    return false;
  return rest == 0 || ((address[whole] ^ net->address[whole]) >> (8 - rest)) == 0;
}

static bool is_in_any(const uint8_t address[16], const char *const *list, size_t count) {
  struct net net;
  for (size_t i = 0; i < count; i++)
    if (read_net(list[i], &net) && is_in(address, &net))
      return true;
  return false;
}

struct allowed *allowed_read(const json_t *list, char *why) {
  size_t count = json_array_size(list);
  if (list != NULL && !json_is_null(list) && !json_is_array(list)) {
    snprintf(why, ALLOWED_WHY, "the networks for webhooks must be a list");
    return NULL;
  }
  if (count > NETS_MAX) {
    snprintf(why, ALLOWED_WHY, "at most %d networks for webhooks", NETS_MAX);
    return NULL;
  }
  struct allowed *allowed = calloc(1, sizeof *allowed + count * sizeof allowed->nets[0]);
  if (allowed == NULL) {
    snprintf(why, ALLOWED_WHY, "out of memory");
    return NULL;
  }
  for (; allowed->count < count; allowed->count++) {
    const char *text = json_string_value(json_array_get(list, allowed->count));
    if (text != NULL && read_net(text, &allowed->nets[allowed->count]))
      continue;
    snprintf(why, ALLOWED_WHY, "a network for webhooks must be like 192.0.2.0/24, not %.60s",
             text != NULL ? text : "another type");
    allowed_free(allowed);
    return NULL;
  }
  return allowed;
}

void allowed_free(struct allowed *allowed) {
  free(allowed);
}

/* ---- judging ----------------------------------------------------------------------------------
 */

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Not globally reachable, or not of one host. */
static const char *const special4[] = {
    "0.0.0.0/8",     "10.0.0.0/8",      "100.64.0.0/10",  "127.0.0.0/8",    "169.254.0.0/16",
    "172.16.0.0/12", "192.0.0.0/24",    "192.0.2.0/24",   "192.88.99.0/24", "192.168.0.0/16",
    "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4",    "240.0.0.0/4",
};
/* Of IPv6 only what is assigned as global unicast can be allowed, less these. */
static const char *const global6[] = {"2000::/3"};
static const char *const special6[] = {
    "2001::/23", "2001:db8::/32", "3fff::/20", /* protocol assignments with Teredo; documentation */
};

/* The IPv4 address that an IPv6 one stands for, as mapped; else the same. */
static void unwrap(uint8_t out[16], const uint8_t in[16]) {
  static const uint8_t zero[12] = {0};
  static const uint8_t nat64[12] = {0x00, 0x64, 0xff, 0x9b}; /* RFC 6052 */
  memcpy(out, in, 16);
  bool compatible = memcmp(in, zero, 12) == 0 && (in[12] | in[13] | in[14]) != 0;
  if (compatible || memcmp(in, nat64, 12) == 0)
    map_v4(out, in + 12);
  else if (in[0] == 0x20 && in[1] == 0x02) /* 6to4, RFC 3056 */
    map_v4(out, in + 2);
}

static bool is_public(const uint8_t address[16]) {
  static const struct net v4 = {{[10] = 0xff, [11] = 0xff}, MAPPED_BITS};
  if (is_in(address, &v4))
    return !is_in_any(address, special4, COUNT(special4));
  return is_in_any(address, global6, COUNT(global6)) &&
         !is_in_any(address, special6, COUNT(special6));
}

bool allowed_address(const struct allowed *allowed, const struct sockaddr *address) {
  uint8_t raw[16];
  uint8_t judged[16];
  if (address->sa_family == AF_INET)
    map_v4(raw, &((const struct sockaddr_in *)(const void *)address)->sin_addr);
  else if (address->sa_family == AF_INET6)
    memcpy(raw, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, sizeof raw);
  else
    return false;
  unwrap(judged, raw);
  for (size_t i = 0; allowed != NULL && i < allowed->count; i++)
    if (is_in(judged, &allowed->nets[i]) || is_in(raw, &allowed->nets[i]))
      return true;
  return is_public(judged);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/probes/icmp_message.h"

#include <netinet/icmp6.h>
#include <netinet/ip_icmp.h>
#include <stdio.h>
#include <string.h>

enum { IP_HEADER_MIN = 20, IP_HEADER_WORD = 4, IP_VERSION_SHIFT = 4, IP_LENGTH_MASK = 0x0f };

static void put16(uint8_t *p, uint16_t value) {
  p[0] = (uint8_t)(value >> 8);
  p[1] = (uint8_t)value;
}

static uint16_t get16(const uint8_t *p) {
  return (uint16_t)(p[0] << 8 | p[1]);
}

/* RFC 1071; `len` is even. */
static uint16_t checksum(const uint8_t *data, size_t len) {
  uint32_t sum = 0;
  for (size_t i = 0; i < len; i += 2)
    sum += get16(data + i);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return (uint16_t)~sum;
}

void icmp_request(uint8_t family, const struct icmp_echo *echo, uint8_t out[ECHO_SIZE]) {
  memset(out, 0, ECHO_HEADER);
  out[0] = family == 4 ? ICMP_ECHO : ICMP6_ECHO_REQUEST;
  put16(out + 4, echo->id);
  put16(out + 6, echo->sequence);
  memcpy(out + ECHO_HEADER, echo->token, ECHO_TOKEN);
  if (family == 4)
    put16(out + 2, checksum(out, ECHO_SIZE));
}

static void read_echo(const uint8_t *wire, size_t len, struct icmp_echo *echo) {
  *echo = (struct icmp_echo){.id = get16(wire + 4), .sequence = get16(wire + 6)};
  if (len < ECHO_SIZE)
    return;
  echo->whole = true;
  memcpy(echo->token, wire + ECHO_HEADER, ECHO_TOKEN);
}

bool icmp_reply(uint8_t family, bool header, const uint8_t *wire, size_t len,
                struct icmp_echo *echo) {
  if (family == 4 && header) {
    if (len < IP_HEADER_MIN || wire[0] >> IP_VERSION_SHIFT != 4)
      return false;
    size_t size = (size_t)(wire[0] & IP_LENGTH_MASK) * IP_HEADER_WORD;
    if (size < IP_HEADER_MIN || size > len)
      return false;
    wire += size;
    len -= size;
  }
  uint8_t type = family == 4 ? ICMP_ECHOREPLY : ICMP6_ECHO_REPLY;
  if (len != ECHO_SIZE || wire[0] != type || wire[1] != 0)
    return false;
  read_echo(wire, len, echo);
  return true;
}

bool icmp_quoted(uint8_t family, const uint8_t *wire, size_t len, struct icmp_echo *echo) {
  uint8_t type = family == 4 ? ICMP_ECHO : ICMP6_ECHO_REQUEST;
  if (len < ECHO_HEADER || wire[0] != type || wire[1] != 0)
    return false;
  read_echo(wire, len, echo);
  return true;
}

static const char *reason4(uint8_t type, uint8_t code) {
  if (type == ICMP_TIME_EXCEEDED)
    return "time exceeded on the way";
  if (type != ICMP_DEST_UNREACH)
    return NULL;
  switch (code) {
  case ICMP_NET_UNREACH:
    return "network unreachable";
  case ICMP_HOST_UNREACH:
    return "host unreachable";
  case ICMP_PROT_UNREACH:
    return "protocol unreachable";
  case ICMP_NET_UNKNOWN:
    return "network unknown";
  case ICMP_HOST_UNKNOWN:
    return "host unknown";
  case ICMP_NET_ANO:
  case ICMP_HOST_ANO:
  case ICMP_PKT_FILTERED:
    return "forbidden by a router";
  default:
    return NULL;
  }
}

static const char *reason6(uint8_t type, uint8_t code) {
  if (type == ICMP6_TIME_EXCEEDED)
    return "time exceeded on the way";
  if (type != ICMP6_DST_UNREACH)
    return NULL;
  switch (code) {
  case ICMP6_DST_UNREACH_NOROUTE:
    return "network unreachable";
  case ICMP6_DST_UNREACH_ADMIN:
    return "forbidden by a router";
  case ICMP6_DST_UNREACH_BEYONDSCOPE:
    return "beyond the scope of the address";
  case ICMP6_DST_UNREACH_ADDR:
    return "host unreachable";
  default:
    return NULL;
  }
}

const char *icmp_reason(uint8_t family, uint8_t type, uint8_t code, char *out) {
  const char *text = family == 4 ? reason4(type, code) : reason6(type, code);
  if (text != NULL)
    return text;
  snprintf(out, ICMP_REASON, "unreachable (ICMP type %u code %u)", type, code);
  return out;
}

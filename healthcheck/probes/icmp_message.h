/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Echo messages of ICMP (RFC 792) and ICMPv6 (RFC 4443 section 4): octets out, octets in.  Pure.
 */
#ifndef SLUICE_HEALTHCHECK_PROBES_ICMP_MESSAGE_H
#define SLUICE_HEALTHCHECK_PROBES_ICMP_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ECHO_TOKEN = 16, ECHO_HEADER = 8, ECHO_SIZE = ECHO_HEADER + ECHO_TOKEN };

/* What a request carries and its reply brings back. */
struct icmp_echo {
  uint16_t id;
  uint16_t sequence;
  bool whole;                /* the token is there: always, but in what an error quotes */
  uint8_t token[ECHO_TOKEN]; /* random, so that nobody can answer who has not seen the request */
};

/* Writes a request.  The checksum is filled in for IPv4; for IPv6 it is the kernel's. */
void icmp_request(uint8_t family, const struct icmp_echo *echo, uint8_t out[ECHO_SIZE]);

/* Reads a reply as a socket of the family gives it; `header`: with the IPv4 header in front, as raw
 * sockets do.  False if it is none, or not as long as ours. */
bool icmp_reply(uint8_t family, bool header, const uint8_t *wire, size_t len,
                struct icmp_echo *echo);

/* Reads the request that an error quotes, perhaps cut after its header. */
bool icmp_quoted(uint8_t family, const uint8_t *wire, size_t len, struct icmp_echo *echo);

/* Words for an error: "host unreachable", ...; for those without a name `out` (ICMP_REASON octets)
 * is written. */
enum { ICMP_REASON = 64 };
const char *icmp_reason(uint8_t family, uint8_t type, uint8_t code, char *out);

#endif

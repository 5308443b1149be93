/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages in a stream: each with its length in two octets in front (RFC 1035 section 4.2.2).
 * Pure; reads nothing outside of the given octets.
 */
#ifndef SLUICE_SERVER_TCP_FRAME_H
#define SLUICE_SERVER_TCP_FRAME_H

#include <stddef.h>
#include <stdint.h>

enum {
  TCP_FRAME_HEAD = 2,
  TCP_FRAME_LEAST = 12, /* a header: RFC 1035 section 4.1.1 */
  TCP_FRAME_MAX = TCP_FRAME_HEAD + 65535,
};

enum tcp_frame {
  TCP_FRAME_WHOLE,
  TCP_FRAME_PART, /* more has to arrive */
  TCP_FRAME_BAD,  /* too short for a message: there is no way to find the next one */
};

/* Looks at the message at the start of `data`; *message is its length once that has arrived. */
static inline enum tcp_frame tcp_frame_next(const uint8_t *data, size_t length, size_t *message) {
  if (length < TCP_FRAME_HEAD)
    return TCP_FRAME_PART;
  *message = (size_t)data[0] << 8 | data[1];
  if (*message < TCP_FRAME_LEAST)
    return TCP_FRAME_BAD;
  return length - TCP_FRAME_HEAD < *message ? TCP_FRAME_PART : TCP_FRAME_WHOLE;
}

#endif

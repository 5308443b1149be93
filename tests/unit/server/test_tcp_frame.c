/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "server/tcp_frame.h"

/* A copy whose end is the end of its memory, for the sanitizers. */
static enum tcp_frame look(const char *octets, size_t length, size_t *message) {
  uint8_t *copy = malloc(length > 0 ? length : 1);
  cr_assert_not_null(copy);
  memcpy(copy, octets, length);
  enum tcp_frame frame = tcp_frame_next(copy, length, message);
  free(copy);
  return frame;
}

Test(tcp_frame, parts) {
  char stream[] = "\0\14abcdefghijkl";
  size_t n;
  for (size_t length = 0; length < 14; length++)
    cr_expect_eq(look(stream, length, &n), TCP_FRAME_PART, "%zu", length);
  cr_expect_eq(look(stream, 14, &n), TCP_FRAME_WHOLE);
  cr_expect_eq(n, 12);
}

Test(tcp_frame, too_short_for_a_message) {
  size_t n;
  for (char length = 0; length < TCP_FRAME_LEAST; length++) {
    char stream[20] = {0, length};
    cr_expect_eq(look(stream, 2, &n), TCP_FRAME_BAD);
    cr_expect_eq(look(stream, sizeof stream, &n), TCP_FRAME_BAD);
  }
}

Test(tcp_frame, longest) {
  static char stream[TCP_FRAME_MAX + 1] = "\xff\xff";
  size_t n;
  cr_expect_eq(look(stream, TCP_FRAME_MAX - 1, &n), TCP_FRAME_PART);
  cr_expect_eq(look(stream, TCP_FRAME_MAX, &n), TCP_FRAME_WHOLE);
  cr_expect_eq(n, 65535);
  cr_expect_eq(look(stream, TCP_FRAME_MAX + 1, &n), TCP_FRAME_WHOLE);
}

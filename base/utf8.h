/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 (RFC 3629).  Pure and thread-safe. */
#ifndef SLUICE_BASE_UTF8_H
#define SLUICE_BASE_UTF8_H

#include <stddef.h>

/* Number of octets of the well-formed sequence at `s`, which ends with a NUL; 0 if there is none.
 */
static inline size_t utf8_sequence(const unsigned char *s) {
  size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : (s[0] & 0xf0) == 0xe0 ? 3 : 0;
  if (s[0] >= 0xf0 && s[0] < 0xf5)
    n = 4;
  for (size_t i = 1; i < n; i++)
    if ((s[i] & 0xc0) != 0x80)
      return 0;
  if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
      (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
    return 0;
  return n;
}

/* Puts `?` in the place of each octet that is not well-formed, such as those of a character that
 * was cut when a text was shortened. */
static inline void utf8_repair(char *text) {
  for (unsigned char *s = (unsigned char *)text; *s != 0;) {
    size_t n = utf8_sequence(s);
    if (n == 0)
      *s = '?';
    s += n != 0 ? n : 1;
  }
}

#endif

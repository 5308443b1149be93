/* SPDX-License-Identifier: Apache-2.0 */
#include "base/name.h"

#include <stdio.h>

uint64_t name_hash(const uint8_t *name) {
  uint8_t at[NAME_MAX_LABELS + 1];
  unsigned n = 0;
  for (unsigned i = 0; name[i] != 0; i += name[i] + 1u)
    at[n++] = (uint8_t)i;
  uint64_t h = NAME_HASH_ROOT;
  while (n > 0)
    h = name_hash_label(h, name + at[--n]);
  return h;
}

size_t name_wire_len(const uint8_t *p, size_t len) {
  size_t at = 0;
  while (at < len && at < NAME_MAX_WIRE) {
    uint8_t label = p[at];
    if (label == 0)
      return at + 1;
    if (label > NAME_MAX_LABEL)
      return 0;
    at += label + 1u;
  }
  return 0;
}

unsigned name_labels(const uint8_t *name) {
  unsigned n = 0;
  for (; *name != 0; name += *name + 1u)
    n++;
  return n;
}

static uint8_t lower(uint8_t c) {
  return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c;
}

size_t name_copy_lower(uint8_t *out, const uint8_t *name) {
  size_t len = 0;
  while (name[len] != 0)
    len += name[len] + 1u;
  len++;
  for (size_t i = 0; i < len; i++)
    out[i] = lower(name[i]);
  memset(out + len, 0, NAME_PAD);
  return len;
}

bool name_equal(const uint8_t *a, const uint8_t *b) {
  for (;;) {
    uint8_t n = *a;
    if (n != *b)
      return false;
    if (n == 0)
      return true;
    for (unsigned i = 1; i <= n; i++)
      if (lower(a[i]) != lower(b[i]))
        return false;
    a += n + 1u;
    b += n + 1u;
  }
}

bool name_is_below_or_equal(const uint8_t *name, const uint8_t *parent) {
  unsigned have = name_labels(name);
  unsigned want = name_labels(parent);
  if (have < want)
    return false;
  for (; have > want; have--)
    name += *name + 1u;
  return name_equal(name, parent);
}

static int label_compare(const uint8_t *a, const uint8_t *b) {
  unsigned shorter = a[0] < b[0] ? a[0] : b[0];
  for (unsigned i = 1; i <= shorter; i++) {
    int d = (int)lower(a[i]) - (int)lower(b[i]);
    if (d != 0)
      return d;
  }
  return (int)a[0] - (int)b[0];
}

int name_compare(const uint8_t *a, const uint8_t *b) {
  const uint8_t *la[NAME_MAX_LABELS];
  const uint8_t *lb[NAME_MAX_LABELS];
  unsigned na = 0;
  unsigned nb = 0;
  for (; *a != 0; a += *a + 1u)
    la[na++] = a;
  for (; *b != 0; b += *b + 1u)
    lb[nb++] = b;
  while (na > 0 && nb > 0) {
    int d = label_compare(la[--na], lb[--nb]);
    if (d != 0)
      return d;
  }
  return (int)na - (int)nb;
}

/* Reads one character of a label, resolving escapes (RFC 1035 section 5.1); returns how many input
 * characters it took, 0 on a bad escape. */
static size_t read_char(const char *text, size_t len, uint8_t *c) {
  if (text[0] != '\\') {
    *c = (uint8_t)text[0];
    return 1;
  }
  if (len < 2)
    return 0;
  if (text[1] < '0' || text[1] > '9') {
    *c = (uint8_t)text[1];
    return 2;
  }
  if (len < 4 || text[2] < '0' || text[2] > '9' || text[3] < '0' || text[3] > '9')
    return 0;
  int v = (text[1] - '0') * 100 + (text[2] - '0') * 10 + (text[3] - '0');
  if (v > 255)
    return 0;
  *c = (uint8_t)v;
  return 4;
}

size_t name_from_text(uint8_t *out, const char *text, size_t len, const uint8_t *origin,
                      const char **why) {
  size_t at = 0;    /* of the current label's length octet */
  size_t label = 0; /* octets in it so far */
  memset(out, 0, NAME_BUF);
  if (len == 0) {
    *why = "the name is empty";
    return 0;
  }
  if (len == 1 && text[0] == '.')
    return 1;
  for (size_t i = 0; i < len;) {
    if (text[i] == '.') {
      if (label == 0) {
        *why = "a label is empty";
        return 0;
      }
      out[at] = (uint8_t)label;
      at += label + 1;
      label = 0;
      i++;
      continue;
    }
    uint8_t c;
    size_t took = read_char(text + i, len - i, &c);
    if (took == 0) {
      *why = "a bad escape (\\ and three digits up to 255, or \\ and a character)";
      return 0;
    }
    i += took;
    if (++label > NAME_MAX_LABEL) {
      *why = "a label is longer than 63 octets";
      return 0;
    }
    if (at + label + 2 > NAME_MAX_WIRE) {
      *why = "the name is longer than 255 octets";
      return 0;
    }
    out[at + label] = c;
  }
  if (label == 0) /* ended in a dot: absolute */
    return at + 1;
  out[at] = (uint8_t)label;
  at += label + 1;
  if (!origin)
    return at + 1;
  size_t origin_len = name_wire_len(origin, NAME_MAX_WIRE);
  if (origin_len == 0 || at + origin_len > NAME_MAX_WIRE) {
    *why = "the name is longer than 255 octets";
    return 0;
  }
  memcpy(out + at, origin, origin_len);
  return at + origin_len;
}

char *name_to_text(char *out, const uint8_t *name) {
  char *o = out;
  if (*name == 0)
    *o++ = '.';
  for (; *name != 0; name += *name + 1u) {
    for (unsigned i = 1; i <= *name; i++) {
      uint8_t c = name[i];
      if (c <= ' ' || c >= 0x7f) {
        o += sprintf(o, "\\%03u", c);
        continue;
      }
      if (strchr(".\\\"();@$", c))
        *o++ = '\\';
      *o++ = (char)c;
    }
    *o++ = '.';
  }
  *o = '\0';
  return out;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/host_name.h"

#include <stdio.h>
#include <strings.h>

static bool fail(char *why, const char *reason) {
  snprintf(why, HOST_NAME_WHY, "%s", reason);
  return false;
}

static bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Escaped characters pass; others must be letters, digits or in `more`. */
static bool check_characters(const char *text, size_t len, const char *more, char *why) {
  for (size_t i = 0; i < len; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c == '\\' && i + 1 < len && strchr(more, '\\') != NULL) {
      i++;
      continue;
    }
    if (is_letter_or_digit(text[i]) || (c != '\0' && strchr(more, c) != NULL))
      continue;
    if (c >= 0x80)
      return fail(why,
                  "a letter outside of ASCII is not allowed; write the label in its xn-- form");
    if (c == ' ')
      return fail(why, "a space is not allowed");
    snprintf(why, HOST_NAME_WHY,
             c > 0x20 && c < 0x7f ? "the character `%c` is not allowed"
                                  : "a control character is not allowed",
             c);
    return false;
  }
  return true;
}

static bool has_dot(const char *text, size_t len) {
  for (size_t i = 0; i < len; i++) {
    if (text[i] == '\\')
      i++;
    else if (text[i] == '.')
      return true;
  }
  return false;
}

static bool ends_with_dot(const char *text, size_t len) {
  if (len == 0 || text[len - 1] != '.')
    return false;
  size_t backslashes = 0;
  while (backslashes + 1 < len && text[len - 2 - backslashes] == '\\')
    backslashes++;
  return backslashes % 2 == 0;
}

static bool from_text(uint8_t *out, const char *text, size_t len, const uint8_t *origin,
                      char *why) {
  const char *reason = NULL;
  if (name_from_text(out, text, len, origin, &reason) != 0)
    return true;
  return fail(why, reason != NULL ? reason : "it cannot be read");
}

bool host_name_is_address(const char *text, size_t len) {
  if (memchr(text, ':', len) != NULL)
    return true;
  if (len > 0 && text[len - 1] == '.')
    len--;
  size_t digits = 0;
  while (digits < len && text[len - 1 - digits] >= '0' && text[len - 1 - digits] <= '9')
    digits++;
  return digits > 0 && (digits == len || text[len - 1 - digits] == '.');
}

bool host_name_read(uint8_t *out, const char *text, size_t len, char *why) {
  if (len == 0)
    return fail(why, "it is empty");
  if (len == 1 && text[0] == '@')
    return fail(why, "`@` has no meaning here; write the whole name");
  if (has_dot(text, len) && host_name_is_address(text, len))
    return fail(why, "it is an address (or its last label is all digits); write a host name");
  if (!check_characters(text, len, "-_./*\\", why))
    return false;
  if (!has_dot(text, len)) {
    snprintf(why, HOST_NAME_WHY, "it has no dot; write the whole name, such as `%.*s.example.com`",
             (int)(len < 63 ? len : 63), text);
    return false;
  }
  return from_text(out, text, len, NULL, why);
}

bool host_name_read_owner(uint8_t *out, const char *text, size_t len, const uint8_t *apex,
                          char *why) {
  if (len == 0)
    return fail(why, "it is empty; write `@` for the zone itself");
  if (len == 1 && text[0] == '@') {
    memset(out, 0, NAME_BUF);
    name_copy_lower(out, apex);
    return true;
  }
  return check_characters(text, len, "-_./*\\", why) && from_text(out, text, len, apex, why);
}

bool host_name_read_zone(uint8_t *out, const char *text, size_t len, char *why) {
  if (ends_with_dot(text, len))
    return fail(why, "write it without the final dot");
  if (!check_characters(text, len, "-_.", why))
    return false;
  return from_text(out, text, len, NULL, why);
}

bool host_name_read_domain(uint8_t *out, const char *text, size_t len, const uint8_t *apex,
                           char *why) {
  static const char wildcard[] = "_wildcard";
  const size_t n = sizeof wildcard - 1;
  if (len == 1 && text[0] == '@')
    return host_name_read_owner(out, text, len, apex, why);
  if (ends_with_dot(text, len))
    return fail(why, "write it relative to the zone, without the final dot");
  if (memchr(text, '*', len) != NULL)
    return fail(why, "`*` is spelled `_wildcard` in the name of a directory, as in `_wildcard.x`");
  if (!check_characters(text, len, "-_.", why))
    return false;
  if (len < n || strncasecmp(text, wildcard, n) != 0 || (len > n && text[n] != '.')) {
    char copy[NAME_MAX_TEXT] = "";
    snprintf(copy, sizeof copy, "%.*s.", (int)len, text);
    if (strcasestr(copy, "._wildcard.") != NULL)
      return fail(why, "`_wildcard` must be the first label");
    return from_text(out, text, len, apex, why);
  }
  char relative[NAME_MAX_TEXT];
  int written = snprintf(relative, sizeof relative, "*%.*s", (int)(len - n), text + n);
  if (written < 0 || (size_t)written >= sizeof relative)
    return fail(why, "it is too long");
  return from_text(out, relative, (size_t)written, apex, why);
}

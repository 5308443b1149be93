/* SPDX-License-Identifier: Apache-2.0 */
/* Answers: NS1 has the parts of an answer as texts of a list, without quotation marks. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "tools/providers/ns1_private.h"

enum { STRING_MAX = 255 };

static bool is_text(const char *type) {
  return strcmp(type, "TXT") == 0 || strcmp(type, "SPF") == 0;
}

static bool is_plain(const char *text, size_t len) {
  for (size_t i = 0; i < len; i++)
    if ((unsigned char)text[i] < 0x20 || (unsigned char)text[i] >= 0x7f)
      return false;
  return true;
}

/* The octets of character-strings in presentation form.  *whole: as one long text would be cut. */
static bool join_strings(const char *value, struct buf *out, bool *whole) {
  size_t last = STRING_MAX;
  *whole = true;
  for (const char *c = value; *c;) {
    if (*c == ' ') {
      c++;
      continue;
    }
    if (*c++ != '"')
      return false;
    *whole = *whole && last == STRING_MAX;
    size_t start = out->len;
    while (*c && *c != '"') {
      if (*c != '\\') {
        buf_add_u8(out, (uint8_t)*c++);
      } else if (isdigit((unsigned char)c[1]) && isdigit((unsigned char)c[2]) &&
                 isdigit((unsigned char)c[3])) {
        buf_add_u8(out, (uint8_t)((c[1] - '0') * 100 + (c[2] - '0') * 10 + (c[3] - '0')));
        c += 4;
      } else if (c[1]) {
        buf_add_u8(out, (uint8_t)c[1]);
        c += 2;
      } else {
        return false;
      }
    }
    if (*c++ != '"')
      return false;
    last = out->len - start;
  }
  return true;
}

/* A text as NS1 has it: without quotation marks, of any length.  What cannot be one so stays in
 * presentation form. */
static json_t *text_parts(const char *value) {
  struct buf raw;
  bool whole;
  buf_init(&raw);
  bool plain = join_strings(value, &raw, &whole) && whole && raw.len > 0 && raw.data[0] != '"' &&
               is_plain((const char *)raw.data, raw.len);
  json_t *out = json_pack("[s]", plain ? buf_text(&raw) : value);
  buf_close(&raw);
  return out;
}

static char *text_value(const char *raw) {
  struct buf out;
  size_t len = strlen(raw);
  if (*raw == '"')
    return strdup(raw);
  buf_init(&out);
  for (size_t i = 0; i < len || i == 0; i++) {
    if (i % STRING_MAX == 0)
      buf_add_str(&out, i ? "\" \"" : "\"");
    if (i >= len)
      break;
    unsigned char c = (unsigned char)raw[i];
    if (c == '"' || c == '\\')
      buf_printf(&out, "\\%c", c);
    else if (c < 0x20 || c >= 0x7f)
      buf_printf(&out, "\\%03u", (unsigned)c);
    else
      buf_add_u8(&out, c);
  }
  buf_add_str(&out, "\"");
  char *text = out.failed ? NULL : strdup(buf_text(&out));
  buf_close(&out);
  return text;
}

static bool add_part(json_t *list, const char *text, size_t len, bool bare) {
  if (bare && len >= 2 && text[0] == '"' && text[len - 1] == '"') {
    text++;
    len -= 2;
  }
  return json_array_append_new(list, json_stringn(text, len)) == 0;
}

json_t *ns1_answer_parts(const char *type, const char *value) {
  if (is_text(type))
    return text_parts(value);
  json_t *list = json_array();
  bool ok = list;
  bool bare = strcmp(type, "CAA") == 0;
  for (const char *at = value; ok && *at;) {
    const char *end = at;
    bool quoted = false;
    for (; *end && (quoted || *end != ' '); end++) {
      if (*end == '\\' && end[1])
        end++;
      else if (*end == '"')
        quoted = !quoted;
    }
    ok = end == at || add_part(list, at, (size_t)(end - at), bare);
    at = *end ? end + 1 : end;
  }
  if (ok)
    return list;
  json_decref(list);
  return NULL;
}

char *ns1_value(const char *type, const char *text) {
  char *quoted = NULL;
  if (is_text(type)) {
    quoted = text_value(text);
  } else if (strcmp(type, "CAA") == 0) {
    const char *flag = strchr(text, ' ');
    const char *value = flag ? strchr(flag + 1, ' ') : NULL;
    if (value && value[1] == '"')
      return provider_rdata_text(type, text);
    if (!value || asprintf(&quoted, "%.*s\"%s\"", (int)(value + 1 - text), text, value + 1) < 0)
      return NULL;
  }
  char *out = provider_rdata_text(type, quoted ? quoted : text);
  free(quoted);
  return out;
}

char *ns1_answer_text(const char *type, const json_t *parts) {
  struct buf joined;
  size_t i;
  const json_t *part;
  bool ok = json_array_size(parts) > 0;
  buf_init(&joined);
  json_array_foreach(parts, i, part) {
    buf_add_str(&joined, i ? " " : "");
    if (json_is_string(part))
      buf_add(&joined, json_string_value(part), json_string_length(part));
    else if (json_is_integer(part))
      buf_printf(&joined, "%lld", (long long)json_integer_value(part));
    else
      ok = false;
  }
  ok = ok && !joined.failed && !(joined.len > 0 && memchr(joined.data, 0, joined.len));
  char *out = ok ? ns1_value(type, buf_text(&joined)) : NULL;
  buf_close(&joined);
  return out;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/providers/powerdns_text.h"

#include <ctype.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  PART = 250,  /* octets of one quoted part; 255 are possible */
  WORD = 180,  /* characters of base64 in one word */
  PIECE = 100, /* characters of one Lua string */
  DIGEST = 32,
};

static const char head[] = ";--[[ sluice 1 ";
static const char tail[] = " ]] ";

/* ---- strings -------------------------------------------------------------------------------- */

static bool is_plain(unsigned char c) {
  return isalnum(c) || (c && strchr(".-_:/=?&%@+,*~", c));
}

void powerdns_quote(struct buf *out, const char *text) {
  bool open = false;
  size_t piece = 0;
  if (!*text)
    buf_add_str(out, "''");
  for (const char *p = text; *p; p++) {
    unsigned char c = (unsigned char)*p;
    bool plain = is_plain(c);
    if (open && (!plain || piece == PIECE)) {
      buf_add_str(out, "'");
      open = false;
    }
    if (!open && p > text)
      buf_add_str(out, " .. ");
    if (!plain) {
      buf_printf(out, "string.char(%u)", c);
      continue;
    }
    if (!open) {
      buf_add_str(out, "'");
      open = true;
      piece = 0;
    }
    buf_add_u8(out, c);
    piece++;
  }
  if (open)
    buf_add_str(out, "'");
}

/* ---- digest and base64 ---------------------------------------------------------------------- */

bool powerdns_digest(const char *text, size_t len, char out[33]) {
  unsigned char hash[EVP_MAX_MD_SIZE];
  if (EVP_Digest(text, len, hash, NULL, EVP_sha256(), NULL) != 1)
    return false;
  for (size_t i = 0; i < DIGEST / 2; i++)
    snprintf(out + 2 * i, 3, "%02x", hash[i]);
  return true;
}

/* In words, so that it can be cut. */
static void add_base64(struct buf *out, const char *text) {
  size_t len = strlen(text);
  char word[WORD + 1];
  for (size_t at = 0; at < len; at += WORD / 4 * 3) {
    size_t n = len - at < WORD / 4 * 3 ? len - at : WORD / 4 * 3;
    EVP_EncodeBlock((unsigned char *)word, (const unsigned char *)text + at, (int)n);
    buf_printf(out, "%s%s", at ? " " : "", word);
  }
}

/* `text` is words of base64; malloc'd octets. */
static char *from_base64(const char *text, size_t len, size_t *out_len) {
  char *packed = malloc(len + 1);
  char *out = malloc(len + 4);
  size_t n = 0;
  int got = -1;
  for (size_t i = 0; packed && i < len; i++)
    if (text[i] != ' ')
      packed[n++] = text[i];
  size_t pad = 0;
  while (packed && pad < 2 && pad < n && packed[n - 1 - pad] == '=')
    pad++;
  if (packed && out && n > 0 && n % 4 == 0)
    got = EVP_DecodeBlock((unsigned char *)out, (const unsigned char *)packed, (int)n);
  free(packed);
  if (got < (int)pad) {
    free(out);
    return NULL;
  }
  *out_len = (size_t)got - pad;
  return out;
}

/* ---- writing -------------------------------------------------------------------------------- */

static bool digest_of(const char *qtype, const char *model, size_t model_len, const char *code,
                      char out[DIGEST + 1]) {
  struct buf all;
  buf_init(&all);
  buf_add_str(&all, qtype);
  buf_add_u8(&all, ' ');
  buf_add(&all, model, model_len);
  buf_add_u8(&all, ' ');
  buf_add_str(&all, code);
  bool ok = !all.failed && powerdns_digest((const char *)all.data, all.len, out);
  buf_close(&all);
  return ok;
}

/* Cuts at spaces; false if a word is too long or cannot be in a record. */
static bool add_parts(struct buf *out, const char *text) {
  size_t left = strlen(text);
  if (strpbrk(text, "\"\\\n\r\t"))
    return false;
  while (left > 0) {
    size_t n = left;
    if (n > PART) {
      n = PART;
      while (n > 0 && text[n] != ' ')
        n--;
    }
    if (n == 0)
      return false;
    buf_printf(out, " \"%.*s\"", (int)n, text);
    text += n;
    left -= n;
    if (left > 0) /* the space comes back when the parts are joined */
      text++, left--;
  }
  return true;
}

char *powerdns_wrap(const char *qtype, const char *model, const char *code) {
  struct buf text, words, content;
  char digest[DIGEST + 1];
  char *out = NULL;
  buf_init(&text);
  buf_init(&words);
  buf_init(&content);
  if (model)
    add_base64(&words, model);
  else
    buf_add_str(&words, "-");
  buf_text(&words);
  if (!words.failed && digest_of(qtype, (const char *)words.data, words.len, code, digest)) {
    buf_printf(&text, "%s%s ", head, digest);
    buf_add(&text, words.data, words.len);
    buf_add_str(&text, tail);
    buf_add_str(&text, code);
    buf_add_str(&content, qtype);
    if (add_parts(&content, buf_text(&text)) && !text.failed && !content.failed &&
        content.len <= POWERDNS_CONTENT_MAX)
      out = strdup(buf_text(&content));
  }
  buf_close(&text);
  buf_close(&words);
  buf_close(&content);
  return out;
}

/* ---- reading -------------------------------------------------------------------------------- */

bool powerdns_type(const char *content, char type[POWERDNS_TYPE]) {
  size_t n = strcspn(content, " \t\"");
  if (n == 0 || n >= POWERDNS_TYPE)
    return false;
  for (size_t i = 0; i < n; i++) {
    type[i] = (char)toupper((unsigned char)content[i]);
    if (!isalnum((unsigned char)type[i]))
      return false;
  }
  type[n] = '\0';
  return true;
}

/* The joined parts, or false if the content is not of the form that we write. */
static bool join(const char *p, struct buf *out) {
  bool first = true;
  while (*p == ' ') {
    if (*++p != '"')
      return false;
    size_t n = strcspn(++p, "\"\\");
    if (p[n] != '"')
      return false;
    if (!first)
      buf_add_u8(out, ' ');
    buf_add(out, p, n);
    first = false;
    p += n + 1;
  }
  buf_text(out);
  return *p == '\0' && !first && !out->failed;
}

static enum powerdns_maker judge(const char *qtype, const char *text, size_t text_len,
                                 json_t **model) {
  size_t head_len = sizeof head - 1;
  if (text_len < head_len || memcmp(text, head, head_len) != 0)
    return POWERDNS_FOREIGN;
  if (text_len < head_len + DIGEST + 2)
    return POWERDNS_EDITED;
  const char *digest = text + head_len;
  const char *words = digest + DIGEST + 1;
  const char *end = strstr(words, tail);
  char expected[DIGEST + 1];
  if (!end || digest[DIGEST] != ' ' ||
      !digest_of(qtype, words, (size_t)(end - words), end + sizeof tail - 1, expected) ||
      strncmp(digest, expected, DIGEST) != 0)
    return POWERDNS_EDITED;
  if (end == words + 1 && *words == '-')
    return POWERDNS_OURS;
  size_t len = 0;
  char *json = from_base64(words, (size_t)(end - words), &len);
  if (json)
    *model = json_loadb(json, len, JSON_REJECT_DUPLICATES, NULL);
  free(json);
  return *model ? POWERDNS_OURS : POWERDNS_EDITED;
}

enum powerdns_maker powerdns_unwrap(const char *content, json_t **model) {
  char type[POWERDNS_TYPE];
  struct buf text;
  enum powerdns_maker maker = POWERDNS_FOREIGN;
  *model = NULL;
  if (!powerdns_type(content, type))
    return POWERDNS_FOREIGN;
  buf_init(&text);
  if (join(content + strlen(type), &text))
    maker = judge(type, (const char *)text.data, text.len, model);
  else if (strstr(content, head))
    maker = POWERDNS_EDITED;
  buf_close(&text);
  return maker;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Names and texts as Route 53 writes them: escapes in octal, helper names, keys. */
#include <ctype.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/providers/route53_private.h"

enum { LABEL_REGION = 24 };

/* ---- escapes -------------------------------------------------------------------------------- */

/* The number of three digits of the base after a backslash, or -1. */
static int three_digits(const char *at, int base) {
  int value = 0;
  for (int i = 0; i < 3; i++) {
    if (at[i] < '0' || at[i] >= '0' + base)
      return -1;
    value = value * base + (at[i] - '0');
  }
  return value < 256 ? value : -1;
}

/* Backslash and any other character stay as they are, or (in names) become octal too. */
static char *rebase(const char *text, int from, bool to_octal, bool all) {
  size_t size = 4 * strlen(text) + 1;
  char *out = malloc(size);
  size_t n = 0;
  if (!out)
    return NULL;
  for (const char *at = text; *at; at++) {
    int value = *at == '\\' ? three_digits(at + 1, from) : -1;
    if (value >= 0) {
      n += (size_t)snprintf(out + n, size - n, to_octal ? "\\%03o" : "\\%03d", (unsigned)value);
      at += 3;
      continue;
    }
    if (*at == '\\' && at[1] && all) {
      n += (size_t)snprintf(out + n, size - n, "\\%03o", (unsigned)(unsigned char)*++at);
      continue;
    }
    out[n++] = *at;
    if (*at == '\\' && at[1])
      out[n++] = *++at;
  }
  out[n] = '\0';
  return out;
}

char *route53_octal(const char *text) {
  return rebase(text, 10, true, false);
}

char *route53_octal_name(const char *text) {
  return rebase(text, 10, true, true);
}

char *route53_decimal(const char *text) {
  return rebase(text, 8, false, false);
}

bool route53_name(const char *text, char out[NAME_MAX_TEXT]) {
  uint8_t wire[NAME_BUF];
  uint8_t lower[NAME_BUF];
  char *decimal = strlen(text) < NAME_MAX_TEXT ? route53_decimal(text) : NULL;
  const char *why;
  bool ok = decimal && name_from_text(wire, decimal, strlen(decimal), NULL, &why) > 0;
  free(decimal);
  if (!ok)
    return false;
  name_copy_lower(lower, wire);
  name_to_text(out, lower);
  return true;
}

/* ---- helper names --------------------------------------------------------------------------- */

bool route53_digest(const char *const *texts, char out[ROUTE53_KEY]) {
  unsigned char hash[EVP_MAX_MD_SIZE];
  struct buf all;
  buf_init(&all);
  for (size_t i = 0; texts[i]; i++)
    buf_add(&all, texts[i], strlen(texts[i]) + 1);
  bool ok = !all.failed && EVP_Digest(all.data, all.len, hash, NULL, EVP_sha256(), NULL) == 1;
  buf_close(&all);
  for (size_t i = 0; ok && i < (ROUTE53_KEY - 1) / 2; i++)
    snprintf(out + 2 * i, 3, "%02x", hash[i]);
  return ok;
}

/* What of a region's name stands in a label; a name that had to be changed gets a digest, so that
 * no two become one. */
static bool region_label(const char *region, char out[LABEL_REGION + 10]) {
  const char *const texts[] = {region, NULL};
  char digest[ROUTE53_KEY];
  size_t n = 0;
  bool changed = strlen(region) > LABEL_REGION;
  for (const char *at = region; *at && n < LABEL_REGION; at++) {
    bool plain = islower((unsigned char)*at) || isdigit((unsigned char)*at) || *at == '-';
    out[n++] = plain ? *at : '-';
    changed = changed || !plain;
  }
  out[n] = '\0';
  if (!changed)
    return true;
  if (!route53_digest(texts, digest))
    return false;
  snprintf(out + n, 10, "-%.8s", digest);
  return true;
}

bool route53_helper(const char *domain, const char *region, char kind, unsigned level,
                    char out[NAME_MAX_TEXT]) {
  char label[LABEL_REGION + 10];
  uint8_t wire[NAME_BUF];
  bool wildcard = strncmp(domain, "*.", 2) == 0;
  if (!region_label(region, label))
    return false;
  int n = snprintf(out, NAME_MAX_TEXT, "_st-%s-%c%u.%s%s", label, kind, level,
                   wildcard ? "_any" : "", wildcard ? domain + 1 : domain);
  const char *why;
  return n > 0 && n < NAME_MAX_TEXT && name_from_text(wire, out, strlen(out), NULL, &why) > 0;
}

bool route53_helper_domain(const char *name, char out[NAME_MAX_TEXT], char *kind, unsigned *level) {
  const char *dot = strchr(name, '.');
  if (strncmp(name, "_st-", 4) != 0 || !dot || !dot[1])
    return false;
  const char *at = dot;
  while (at > name && isdigit((unsigned char)at[-1]))
    at--;
  if (at == dot || dot - at > 5 || at < name + 6 || (at[-1] != 'p' && at[-1] != 'f') ||
      at[-2] != '-')
    return false;
  *kind = at[-1];
  *level = (unsigned)strtoul(at, NULL, 10);
  bool wildcard = strncmp(dot + 1, "_any.", 5) == 0;
  snprintf(out, NAME_MAX_TEXT, "%s%s", wildcard ? "*" : "", dot + (wildcard ? 5 : 1));
  return true;
}

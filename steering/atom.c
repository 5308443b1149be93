/* SPDX-License-Identifier: Apache-2.0 */
#include "steering/atom.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char *const continents[] = {"af", "an", "as", "eu", "na", "oc", "sa"};

static const char WHY_SUBDIVISION[] =
    "a subdivision is a country, a dash and 1 to 3 letters or digits, such as ca-qc";

static bool is_letter(char c) {
  return isalpha((unsigned char)c) && (unsigned char)c < 0x80;
}

static bool is_alnum(char c) {
  return is_letter(c) || (c >= '0' && c <= '9');
}

static bool is_two_letters(const char *text) {
  return is_letter(text[0]) && is_letter(text[1]) && text[2] == '\0';
}

/* `cc-xxx`: two letters, a dash, one to three letters or digits. */
static bool is_subdivision_form(const char *text) {
  if (!is_letter(text[0]) || !is_letter(text[1]) || text[2] != '-')
    return false;
  size_t n = 0;
  while (n <= 3 && is_alnum(text[3 + n]))
    n++;
  return n >= 1 && n <= 3 && text[3 + n] == '\0';
}

static void copy_lower(char out[8], const char *text) {
  size_t i = 0;
  for (; i < 7 && text[i]; i++)
    out[i] = (char)tolower((unsigned char)text[i]);
  out[i] = '\0';
}

static bool is_continent(const char *lower) {
  for (size_t i = 0; i < sizeof continents / sizeof *continents; i++)
    if (strcmp(lower, continents[i]) == 0)
      return true;
  return false;
}

/* A number of decimal digits without leading zeros, at most `max`. */
static bool read_number(const char *text, uint64_t max, uint64_t *out) {
  size_t len = strlen(text);
  if (len == 0 || len > 10 || (text[0] == '0' && len > 1))
    return false;
  uint64_t value = 0;
  for (size_t i = 0; i < len; i++) {
    if (text[i] < '0' || text[i] > '9')
      return false;
    value = value * 10 + (uint64_t)(text[i] - '0');
  }
  *out = value;
  return value <= max;
}

static const char *read_continent(const char *text, struct steer_atom *atom) {
  char code[8] = {0}; /* as stored: nothing but zeros behind the code */
  copy_lower(code, text);
  if (strlen(text) != 2 || !is_continent(code))
    return "unknown continent (af an as eu na oc sa)";
  atom->kind = ATOM_CONTINENT;
  memcpy(atom->code, code, sizeof code);
  return NULL;
}

static const char *read_country(const char *text, struct steer_atom *atom) {
  char code[8] = {0};
  copy_lower(code, text);
  if (strlen(text) != 2 || !steer_country_continent(code))
    return "unknown country (two letters of ISO 3166-1, or XK)";
  atom->kind = ATOM_COUNTRY;
  memcpy(atom->code, code, sizeof code);
  return NULL;
}

static const char *read_subdivision(const char *text, struct steer_atom *atom) {
  if (!is_subdivision_form(text))
    return WHY_SUBDIVISION;
  char code[8] = {0};
  copy_lower(code, text);
  char country[3] = {code[0], code[1], '\0'};
  if (!steer_country_continent(country))
    return "unknown country in the subdivision (two letters of ISO 3166-1, or XK)";
  atom->kind = ATOM_SUBDIVISION;
  memcpy(atom->code, code, sizeof code);
  return NULL;
}

static const char *read_asn(const char *text, struct steer_atom *atom) {
  uint64_t number;
  if (!read_number(text, UINT32_MAX, &number) || number == 0)
    return "an AS number is 1 to 4294967295, in digits";
  atom->kind = ATOM_ASN;
  atom->asn = (uint32_t)number;
  return NULL;
}

static bool host_bits_clear(const struct steer_atom *atom) {
  for (unsigned bit = atom->net_bits; bit < 128; bit++)
    if (atom->net[bit / 8] & (0x80 >> (bit % 8)))
      return false;
  return true;
}

/* Mapped nets become the IPv4 nets that they hold, as mapped clients count as IPv4. */
static void unwrap_mapped(struct steer_atom *atom) {
  static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};
  if (atom->net_family != 6 || atom->net_bits < 96 || memcmp(atom->net, prefix, 12) != 0)
    return;
  memmove(atom->net, atom->net + 12, 4);
  memset(atom->net + 4, 0, 12);
  atom->net_family = 4;
  atom->net_bits = (uint8_t)(atom->net_bits - 96);
}

static const char *read_net(const char *text, struct steer_atom *atom) {
  const char *slash = strchr(text, '/');
  char address[64];
  if (!slash)
    return "a net needs a prefix length, such as 192.0.2.0/24";
  if ((size_t)(slash - text) >= sizeof address)
    return "not an address before the slash";
  memcpy(address, text, (size_t)(slash - text));
  address[slash - text] = '\0';
  uint64_t max;
  if (inet_pton(AF_INET, address, atom->net) == 1) {
    atom->net_family = 4;
    max = 32;
  } else if (inet_pton(AF_INET6, address, atom->net) == 1) {
    atom->net_family = 6;
    max = 128;
  } else {
    return "not an address before the slash";
  }
  uint64_t bits;
  if (!read_number(slash + 1, max, &bits))
    return max == 32 ? "a prefix length of IPv4 is 0 to 32" : "a prefix length of IPv6 is 0 to 128";
  atom->kind = ATOM_NET;
  atom->net_bits = (uint8_t)bits;
  if (!host_bits_clear(atom))
    return "host bits are set";
  unwrap_mapped(atom);
  return NULL;
}

struct long_form {
  const char *prefix;
  const char *(*read)(const char *text, struct steer_atom *atom);
};

static const struct long_form long_forms[] = {
    {"continent:", read_continent},
    {"country:", read_country},
    {"subdivision:", read_subdivision},
    {"asn:", read_asn},
    {"net:", read_net},
};

/* The reader of the form that `text` has, and where its value starts; NULL if it has none. */
static const struct long_form *long_form_of(const char *text, const char **value) {
  for (size_t i = 0; i < sizeof long_forms / sizeof *long_forms; i++) {
    size_t n = strlen(long_forms[i].prefix);
    if (strncasecmp(text, long_forms[i].prefix, n) != 0)
      continue;
    *value = text + n;
    return &long_forms[i];
  }
  return NULL;
}

static const char *read_two_letters(const char *text, struct steer_atom *atom) {
  return read_continent(text, atom) ? read_country(text, atom) : NULL;
}

bool steer_atom_parse(const char *text, struct steer_atom *atom, const char **why) {
  memset(atom, 0, sizeof *atom);
  *why = NULL;
  if (strcasecmp(text, "global") == 0)
    return true; /* ATOM_GLOBAL is 0 */
  const char *value = text;
  const struct long_form *form = long_form_of(text, &value);
  if (form)
    *why = form->read(value, atom);
  else if (strchr(text, '/'))
    *why = read_net(text, atom);
  else if (is_two_letters(text))
    *why = read_two_letters(text, atom);
  else if (is_subdivision_form(text))
    *why = read_subdivision(text, atom);
  else
    return false;
  return *why == NULL;
}

bool steer_atom_is_built_in_form(const char *text) {
  const char *value;
  return strcasecmp(text, "global") == 0 || long_form_of(text, &value) || strchr(text, '/') ||
         is_two_letters(text) || is_subdivision_form(text);
}

bool steer_atom_equal(const struct steer_atom *a, const struct steer_atom *b) {
  if (a->kind != b->kind)
    return false;
  switch (a->kind) {
  case ATOM_GLOBAL:
    return true;
  case ATOM_ASN:
    return a->asn == b->asn;
  case ATOM_NET:
    return a->net_family == b->net_family && a->net_bits == b->net_bits &&
           memcmp(a->net, b->net, a->net_family == 4 ? 4 : 16) == 0;
  default:
    return strcmp(a->code, b->code) == 0;
  }
}

char *steer_atom_text(const struct steer_atom *atom, char *out) {
  enum { OUT = 64 };
  char address[INET6_ADDRSTRLEN];
  switch (atom->kind) {
  case ATOM_GLOBAL:
    snprintf(out, OUT, "global");
    break;
  case ATOM_CONTINENT:
    snprintf(out, OUT, "continent:%s", atom->code);
    break;
  case ATOM_COUNTRY:
    snprintf(out, OUT, "country:%s", atom->code);
    break;
  case ATOM_SUBDIVISION:
    snprintf(out, OUT, "subdivision:%s", atom->code);
    break;
  case ATOM_ASN:
    snprintf(out, OUT, "asn:%u", atom->asn);
    break;
  case ATOM_NET:
    inet_ntop(atom->net_family == 4 ? AF_INET : AF_INET6, atom->net, address, sizeof address);
    snprintf(out, OUT, "net:%s/%u", address, atom->net_bits);
    break;
  }
  return out;
}

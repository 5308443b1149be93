/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/record.h"

#include <arpa/inet.h>
#include <ldns/ldns.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/name.h"
#include "zones/host_name.h"

/* State of reading one record's data. */
struct reading {
  uint16_t type;
  const struct master_word *words;
  size_t count;
  size_t next; /* the word to be read */
  const uint8_t *origin;
  struct record_rdata *out;
  size_t *bad;
  char *why;
};

static bool fail(struct reading *r, size_t word, const char *reason) {
  *r->bad = word;
  snprintf(r->why, RECORD_WHY, "%s", reason);
  return false;
}

/* ---- types and TTLs ---------------------------------------------------------------------------
 */

static const struct {
  const char *name;
  uint16_t type;
} common_types[] = {
    {"A", RECORD_A},     {"AAAA", RECORD_AAAA},   {"NS", RECORD_NS},   {"CNAME", RECORD_CNAME},
    {"MX", RECORD_MX},   {"TXT", RECORD_TXT},     {"SOA", RECORD_SOA}, {"PTR", RECORD_PTR},
    {"SRV", RECORD_SRV}, {"DNAME", RECORD_DNAME}, {"DS", RECORD_DS},
};

/* The description of a type that ldns knows, else NULL. */
static const ldns_rr_descriptor *known(uint16_t type) {
  const ldns_rr_descriptor *d = ldns_rr_descript(type);
  bool ok = d != NULL && d->_type == (ldns_rr_type)type && d->_name != NULL &&
            strncmp(d->_name, "TYPE", 4) != 0;
  return ok ? d : NULL;
}

/* Types that only occur in queries or carry no data of a zone (RFC 6895 section 3.1). */
static bool is_data_type(unsigned type) {
  return type != 0 && type != 41 && !(type >= 128 && type <= 255);
}

uint16_t record_type(const char *text, size_t len) {
  char name[24];
  for (size_t i = 0; i < sizeof common_types / sizeof *common_types; i++)
    if (strlen(common_types[i].name) == len && strncasecmp(common_types[i].name, text, len) == 0)
      return common_types[i].type;
  if (len == 0 || len >= sizeof name)
    return 0;
  memcpy(name, text, len);
  name[len] = '\0';
  if (memchr(name, 0, len) != NULL)
    return 0;
  if (len > 4 && strncasecmp(name, "TYPE", 4) == 0) { /* RFC 3597 section 5 */
    if (len > 9 || strspn(name + 4, "0123456789") != len - 4)
      return 0;
    unsigned long v = strtoul(name + 4, NULL, 10);
    return v <= UINT16_MAX && is_data_type((unsigned)v) ? (uint16_t)v : 0;
  }
  ldns_rr_type type = ldns_get_rr_type_by_name(name);
  return is_data_type((unsigned)type) ? (uint16_t)type : 0;
}

char *record_type_text(uint16_t type, char *out) {
  for (size_t i = 0; i < sizeof common_types / sizeof *common_types; i++) {
    if (common_types[i].type == type) {
      snprintf(out, 16, "%s", common_types[i].name);
      return out;
    }
  }
  const ldns_rr_descriptor *descriptor = known(type);
  if (descriptor != NULL)
    snprintf(out, 16, "%s", descriptor->_name);
  else
    snprintf(out, 16, "TYPE%u", type);
  return out;
}

static uint64_t ttl_unit(char c) {
  switch (c) {
  case 's':
  case 'S':
    return 1;
  case 'm':
  case 'M':
    return 60;
  case 'h':
  case 'H':
    return 3600;
  case 'd':
  case 'D':
    return 86400;
  case 'w':
  case 'W':
    return 604800;
  default:
    return 0;
  }
}

/* Sum of numbers with units, up to `max`. */
static bool time_value(const char *text, size_t len, uint64_t max, uint32_t *out) {
  uint64_t total = 0;
  size_t i = 0;
  while (i < len) {
    uint64_t v = 0;
    size_t start = i;
    for (; i < len && text[i] >= '0' && text[i] <= '9'; i++) {
      v = v * 10 + (uint64_t)(text[i] - '0');
      if (v > UINT32_MAX)
        return false;
    }
    if (i == start)
      return false;
    if (i < len) {
      uint64_t unit = ttl_unit(text[i++]);
      if (unit == 0)
        return false;
      v *= unit;
    }
    total += v;
    if (total > max)
      return false;
  }
  *out = (uint32_t)total;
  return len > 0;
}

bool record_ttl(const char *text, size_t len, uint32_t *out) {
  return time_value(text, len, INT32_MAX, out);
}

/* ---- single fields ----------------------------------------------------------------------------
 */

static bool put(struct reading *r, const void *data, size_t len) {
  if (len > (size_t)(RECORD_MAX_RDATA - r->out->len))
    return fail(r, r->count, "the data is longer than 65535 octets");
  memcpy(r->out->data + r->out->len, data, len);
  r->out->len = (uint16_t)(r->out->len + len);
  return true;
}

static const struct master_word *take(struct reading *r, const char *missing) {
  if (r->next < r->count)
    return &r->words[r->next++];
  fail(r, r->count, missing);
  return NULL;
}

static bool name_at(struct reading *r, size_t word, uint8_t *name, size_t *len) {
  const struct master_word *w = &r->words[word];
  const char *reason = NULL;
  char why[HOST_NAME_WHY];
  if (r->origin == NULL) {
    if (!host_name_read(name, w->text, w->len, why)) {
      *r->bad = word;
      snprintf(r->why, RECORD_WHY, "`%.*s` is not a host name: %.160s",
               (int)(w->len < 60 ? w->len : 60), w->text, why);
      return false;
    }
    *len = name_wire_len(name, NAME_MAX_WIRE);
    return true;
  }
  if (w->len == 1 && w->text[0] == '@' && !w->quoted) {
    *len = name_wire_len(r->origin, NAME_MAX_WIRE);
    memcpy(name, r->origin, *len);
    return true;
  }
  *len = name_from_text(name, w->text, w->len, r->origin, &reason);
  if (*len != 0)
    return true;
  *r->bad = word;
  snprintf(r->why, RECORD_WHY, "`%.*s` is not a domain name: %.120s",
           (int)(w->len < 60 ? w->len : 60), w->text,
           reason != NULL ? reason : "it cannot be read");
  return false;
}

static bool put_name(struct reading *r) {
  uint8_t name[NAME_BUF];
  size_t len;
  const struct master_word *w = take(r, "a domain name is missing");
  if (w == NULL || !name_at(r, r->next - 1, name, &len))
    return false;
  return put(r, name, len);
}

static bool put_u16(struct reading *r, const char *missing) {
  const struct master_word *w = take(r, missing);
  if (w == NULL)
    return false;
  uint32_t v = 0;
  if (w->len == 0 || w->len > 5)
    return fail(r, r->next - 1, "this must be a number from 0 to 65535");
  for (size_t i = 0; i < w->len; i++) {
    if (w->text[i] < '0' || w->text[i] > '9')
      return fail(r, r->next - 1, "this must be a number from 0 to 65535");
    v = v * 10 + (uint32_t)(w->text[i] - '0');
  }
  if (v > UINT16_MAX)
    return fail(r, r->next - 1, "this must be a number from 0 to 65535");
  uint8_t octets[2] = {(uint8_t)(v >> 8), (uint8_t)v};
  return put(r, octets, 2);
}

static bool put_u32(struct reading *r, bool is_time) {
  const struct master_word *w =
      take(r, "a SOA needs seven fields: mname rname serial refresh retry "
              "expire minimum");
  if (w == NULL)
    return false;
  uint32_t v = 0;
  if (!time_value(w->text, w->len, is_time ? INT32_MAX : UINT32_MAX, &v))
    return fail(r, r->next - 1,
                is_time ? "this must be a time of 0 to 2147483647 seconds, such as 3600 or 1h"
                        : "this must be a number from 0 to 4294967295");
  uint8_t octets[4] = {(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v};
  return put(r, octets, 4);
}

/* One octet of a text with \X and \DDD escapes; -1 at a bad escape. */
static int next_octet(const char *text, size_t len, size_t *i) {
  unsigned char c = (unsigned char)text[(*i)++];
  if (c != '\\')
    return c;
  if (*i >= len)
    return -1;
  c = (unsigned char)text[(*i)++];
  if (c < '0' || c > '9')
    return c;
  if (len - *i < 2)
    return -1;
  int v = c - '0';
  for (int k = 0; k < 2; k++) {
    c = (unsigned char)text[(*i)++];
    if (c < '0' || c > '9')
      return -1;
    v = v * 10 + (c - '0');
  }
  return v <= 255 ? v : -1;
}

static bool put_string(struct reading *r) {
  const struct master_word *w = take(r, "a text is missing");
  if (w == NULL)
    return false;
  uint8_t string[256];
  size_t n = 0;
  for (size_t i = 0; i < w->len;) {
    int c = next_octet(w->text, w->len, &i);
    if (c < 0)
      return fail(r, r->next - 1,
                  "a bad escape: write \\ and three digits up to 255, or \\ and a "
                  "character");
    if (n == 255)
      return fail(r, r->next - 1, "a text is longer than 255 octets; cut it into several");
    string[1 + n++] = (uint8_t)c;
  }
  string[0] = (uint8_t)n;
  return put(r, string, n + 1);
}

static bool put_address(struct reading *r, int family, size_t size) {
  const struct master_word *w =
      take(r, family == AF_INET ? "an IPv4 address is missing" : "an IPv6 address is missing");
  if (w == NULL)
    return false;
  char text[INET6_ADDRSTRLEN];
  uint8_t address[16];
  bool ok = w->len < sizeof text;
  if (ok) {
    memcpy(text, w->text, w->len);
    text[w->len] = '\0';
    ok = inet_pton(family, text, address) == 1;
  }
  if (!ok)
    return fail(r, r->next - 1,
                family == AF_INET ? "this is not an IPv4 address such as 192.0.2.1"
                                  : "this is not an IPv6 address such as "
                                    "2001:db8::1");
  return put(r, address, size);
}

static bool at_end(struct reading *r) {
  if (r->next == r->count)
    return true;
  return fail(r, r->next, "there is more text than this type of record takes");
}

/* ---- RFC 3597 ---------------------------------------------------------------------------------
 */

static int hex_digit(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  if (c >= 'A' && c <= 'F')
    return c - 'A' + 10;
  return -1;
}

static bool generic_octets(struct reading *r, size_t want) {
  int high = -1;
  for (; r->next < r->count; r->next++) {
    const struct master_word *w = &r->words[r->next];
    for (size_t i = 0; i < w->len; i++) {
      int d = hex_digit(w->text[i]);
      if (d < 0)
        return fail(r, r->next, "the data after \\# must be hexadecimal digits");
      if (high < 0) {
        high = d;
        continue;
      }
      uint8_t octet = (uint8_t)(high << 4 | d);
      high = -1;
      if (!put(r, &octet, 1))
        return false;
    }
  }
  if (high >= 0 || r->out->len != want)
    return fail(r, 1 < r->count ? 1 : r->count,
                "the length after \\# does not match the data behind it");
  return true;
}

/* ldns takes data that ends early as complete. */
static bool has_all_fields(const struct reading *r, const ldns_rr *rr) {
  const ldns_rr_descriptor *d = known(r->type);
  return d == NULL || ldns_rr_rd_count(rr) >= ldns_rr_descriptor_minimum(d);
}

/* Data of a known type must be right too, and hold no compression: ldns reads and writes it. */
static bool generic_is_valid(struct reading *r) {
  if (known(r->type) == NULL)
    return true;
  size_t len = r->out->len;
  uint8_t *wire = malloc(len + 11);
  if (wire == NULL)
    return fail(r, 0, "out of memory");
  uint8_t head[11] = {0, (uint8_t)(r->type >> 8), (uint8_t)r->type, 0, 1, 0, 0, 0,
                      0, (uint8_t)(len >> 8),     (uint8_t)len};
  memcpy(wire, head, sizeof head);
  memcpy(wire + sizeof head, r->out->data, len);
  ldns_rr *rr = NULL;
  size_t pos = 0;
  bool ok = ldns_wire2rr(&rr, wire, len + 11, &pos, LDNS_SECTION_ANSWER) == LDNS_STATUS_OK;
  ldns_buffer *buffer = ok ? ldns_buffer_new(len + 64) : NULL;
  ok = buffer != NULL && has_all_fields(r, rr) &&
       ldns_rr_rdata2buffer_wire(buffer, rr) == LDNS_STATUS_OK &&
       ldns_buffer_position(buffer) == len &&
       memcmp(ldns_buffer_begin(buffer), r->out->data, len) == 0;
  ldns_buffer_free(buffer);
  ldns_rr_free(rr);
  free(wire);
  if (ok)
    return true;
  char text[16];
  char reason[80];
  snprintf(reason, sizeof reason, "this is not the data of a %s record",
           record_type_text(r->type, text));
  return fail(r, 0, reason);
}

static bool read_generic(struct reading *r) {
  r->next = 1;
  const struct master_word *w = take(r, "the length after \\# is missing");
  uint32_t want = 0;
  if (w == NULL)
    return false;
  if (!time_value(w->text, w->len, UINT16_MAX, &want) || strspn(w->text, "0123456789") < w->len)
    return fail(r, 1, "the length after \\# must be a number from 0 to 65535");
  return generic_octets(r, want) && generic_is_valid(r);
}

/* ---- everything else: ldns --------------------------------------------------------------------
 */

struct text_buffer {
  char *data;
  size_t len;
  size_t cap;
};

static bool text_add(struct text_buffer *b, const char *text, size_t len) {
  if (b->cap - b->len < len + 1) {
    size_t cap = (b->len + len + 1) * 2;
    char *data = realloc(b->data, cap);
    if (data == NULL)
      return false;
    b->data = data;
    b->cap = cap;
  }
  memcpy(b->data + b->len, text, len);
  b->len += len;
  b->data[b->len] = '\0';
  return true;
}

static bool is_name_field(const struct reading *r, size_t i) {
  const ldns_rr_descriptor *d = known(r->type);
  if (r->type == LDNS_RR_TYPE_HIP) /* RFC 8005 section 6: rendezvous servers come last */
    return i >= 3;
  if (r->type == LDNS_RR_TYPE_IPSECKEY) /* RFC 4025 section 3.1: gateway type 3 is a name */
    return i == 3 && r->words[1].len == 1 && r->words[1].text[0] == '3';
  return d != NULL && i < ldns_rr_descriptor_maximum(d) &&
         ldns_rr_descriptor_field_type(d, i) == LDNS_RDF_TYPE_DNAME;
}

/* ldns completes relative names in its own way; here they become absolute before it sees them. */
static bool word_for_ldns(struct reading *r, size_t i, struct text_buffer *b) {
  const struct master_word *w = &r->words[i];
  if (!text_add(b, " ", 1))
    return fail(r, i, "out of memory");
  if (is_name_field(r, i)) {
    uint8_t name[NAME_BUF] = {0};
    char text[NAME_MAX_TEXT];
    size_t len;
    /* "." as a target stays the root under either rule (RFC 9460 section 2.5, RFC 7505). */
    if (!name_at(r, i, name, &len))
      return false;
    name_to_text(text, name);
    return text_add(b, text, strlen(text)) || fail(r, i, "out of memory");
  }
  bool ok = (!w->quoted || text_add(b, "\"", 1)) && text_add(b, w->text, w->len) &&
            (!w->quoted || text_add(b, "\"", 1));
  return ok || fail(r, i, "out of memory");
}

static bool from_ldns(struct reading *r, const char *text) {
  ldns_rr *rr = NULL;
  ldns_status status = ldns_rr_new_frm_str(&rr, text, 0, NULL, NULL);
  if (status != LDNS_STATUS_OK) {
    char type[16];
    char reason[RECORD_WHY];
    snprintf(reason, sizeof reason, "this is not the data of a %s record: %s",
             record_type_text(r->type, type), ldns_get_errorstr_by_id(status));
    return fail(r, 0, reason);
  }
  bool ok = ldns_rr_get_type(rr) == (ldns_rr_type)r->type && has_all_fields(r, rr);
  ldns_buffer *buffer = ok ? ldns_buffer_new(512) : NULL;
  ok = buffer != NULL && ldns_rr_rdata2buffer_wire(buffer, rr) == LDNS_STATUS_OK;
  if (ok)
    ok = put(r, ldns_buffer_begin(buffer), ldns_buffer_position(buffer));
  else
    fail(r, 0, "this record cannot be read");
  ldns_buffer_free(buffer);
  ldns_rr_free(rr);
  return ok;
}

static bool read_by_ldns(struct reading *r) {
  char type[16];
  if (known(r->type) == NULL) {
    char reason[RECORD_WHY];
    snprintf(reason, sizeof reason,
             "the form of %s records is not known; write the data as \\# LENGTH HEX",
             record_type_text(r->type, type));
    return fail(r, 0, reason);
  }
  if (r->count == 0)
    return fail(r, 0, "the data is missing");
  struct text_buffer b = {0};
  record_type_text(r->type, type);
  bool ok = (text_add(&b, ". 0 IN ", 7) && text_add(&b, type, strlen(type))) ||
            fail(r, 0, "out of memory");
  for (size_t i = 0; ok && i < r->count; i++)
    ok = word_for_ldns(r, i, &b);
  ok = ok && from_ldns(r, b.data);
  free(b.data);
  return ok;
}

/* ---- all together -----------------------------------------------------------------------------
 */

static bool read_known(struct reading *r) {
  switch (r->type) {
  case RECORD_A:
    return put_address(r, AF_INET, 4) && at_end(r);
  case RECORD_AAAA:
    return put_address(r, AF_INET6, 16) && at_end(r);
  case RECORD_NS:
  case RECORD_CNAME:
  case RECORD_PTR:
  case RECORD_DNAME:
    return put_name(r) && at_end(r);
  case RECORD_MX:
    return put_u16(r, "a preference and a host name are needed, as `10 mail.example.com.`") &&
           put_name(r) && at_end(r);
  case RECORD_SRV:
    for (int i = 0; i < 3; i++)
      if (!put_u16(r, "priority, weight, port and a host name are needed, as "
                      "`0 5 443 www.example.com.`"))
        return false;
    return put_name(r) && at_end(r);
  case RECORD_SOA:
    return put_name(r) && put_name(r) && put_u32(r, false) && put_u32(r, true) &&
           put_u32(r, true) && put_u32(r, true) && put_u32(r, true) && at_end(r);
  case RECORD_TXT:
  case RECORD_SPF:
    do {
      if (!put_string(r))
        return false;
    } while (r->next < r->count);
    return true;
  default:
    return read_by_ldns(r);
  }
}

bool record_read(uint16_t type, const struct master_word *words, size_t count,
                 const uint8_t *origin, struct record_rdata *out, size_t *bad, char *why) {
  struct reading r = {type, words, count, 0, origin, out, bad, why};
  out->len = 0;
  *bad = 0;
  if (count > 0 && words[0].len == 2 && memcmp(words[0].text, "\\#", 2) == 0 && !words[0].quoted)
    return read_generic(&r);
  return read_known(&r);
}

bool record_from_text(const char *text, size_t len, struct record_rdata *out, char *why) {
  out->len = 0;
  size_t strings = len == 0 ? 1 : (len + 254) / 255;
  if (len + strings > RECORD_MAX_RDATA) {
    snprintf(why, RECORD_WHY, "the text is too long: at most 65279 bytes");
    return false;
  }
  for (size_t i = 0; i < strings; i++) {
    size_t n = len - i * 255 < 255 ? len - i * 255 : 255;
    out->data[out->len] = (uint8_t)n;
    memcpy(out->data + out->len + 1, text + i * 255, n);
    out->len = (uint16_t)(out->len + 1 + n);
  }
  return true;
}

/* ---- canonical form ---------------------------------------------------------------------------
 */

/* Where the names of a type stand: after so many octets and character strings, so many of them
 * (RFC 4034 section 6.2, as corrected by RFC 6840 section 5.1). */
static const struct {
  uint16_t type;
  uint8_t octets;
  uint8_t strings;
  uint8_t names;
} name_places[] = {
    {2, 0, 0, 1},  {3, 0, 0, 1},  {4, 0, 0, 1},  {5, 0, 0, 1},  {6, 0, 0, 2},
    {7, 0, 0, 1},  {8, 0, 0, 1},  {9, 0, 0, 1},  {12, 0, 0, 1}, {14, 0, 0, 2},
    {15, 2, 0, 1}, {17, 0, 0, 2}, {18, 2, 0, 1}, {21, 2, 0, 1}, {26, 2, 0, 2},
    {33, 6, 0, 1}, {35, 4, 3, 1}, {36, 2, 0, 1}, {39, 0, 0, 1}, {46, 18, 0, 1},
};

static void lower_names(uint8_t *data, size_t len, size_t at, unsigned names) {
  for (unsigned n = 0; n < names && at < len; n++) {
    size_t name_len = name_wire_len(data + at, len - at);
    for (size_t i = at; i < at + name_len; i++)
      if (data[i] >= 'A' && data[i] <= 'Z')
        data[i] = (uint8_t)(data[i] + 32);
    if (name_len == 0)
      return;
    at += name_len;
  }
}

bool record_has_names(uint16_t type) {
  for (size_t i = 0; i < sizeof name_places / sizeof *name_places; i++)
    if (name_places[i].type == type)
      return true;
  return false;
}

void record_lower(uint16_t type, const uint8_t *rdata, size_t len, uint8_t *out) {
  memcpy(out, rdata, len);
  for (size_t i = 0; i < sizeof name_places / sizeof *name_places; i++) {
    if (name_places[i].type != type)
      continue;
    size_t at = name_places[i].octets;
    for (unsigned s = 0; s < name_places[i].strings && at < len; s++)
      at += (size_t)out[at] + 1;
    lower_names(out, len, at, name_places[i].names);
  }
}

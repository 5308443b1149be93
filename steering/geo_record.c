/* SPDX-License-Identifier: Apache-2.0 */
#include "steering/geo_record.h"

#include <ctype.h>
#include <string.h>

#include "steering/atom.h"

/* What one record holds before it is put together; codes in lower case, empty when absent. */
struct fields {
  char continent[8];
  char country[8];
  char registered[8];
  char flat_country[8];
  char flat_state[8];
  char subdivisions[2][8];
  bool known;
};

/* Copies a code of min..max letters (or digits, if allowed); anything else counts as absent. */
static void take_code(const struct mmdb_data *d, const struct mmdb_value *v, size_t min, size_t max,
                      bool digits, char out[8]) {
  out[0] = '\0';
  if (v->type != MMDB_STRING || v->count < min || v->count > max)
    return;
  char code[8] = {0};
  for (size_t i = 0; i < v->count; i++) {
    uint8_t c = d->bytes[v->content + i];
    bool ok = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (digits && c >= '0' && c <= '9');
    if (!ok)
      return;
    code[i] = (char)tolower(c);
  }
  memcpy(out, code, sizeof code);
}

/* A walk over the pairs of a map: the key is read, `at` is where the value is. */
struct pairs {
  uint32_t left;
  size_t at;
};

static bool pairs_open(struct mmdb_data *d, size_t offset, struct pairs *p, bool *is_map) {
  struct mmdb_value v;
  if (!mmdb_read(d, &offset, &v))
    return false;
  *is_map = v.type == MMDB_MAP;
  *p = (struct pairs){.left = v.type == MMDB_MAP ? v.count : 0, .at = v.content};
  return true;
}

static bool pairs_key(struct mmdb_data *d, struct pairs *p, struct mmdb_value *key) {
  p->left--;
  return mmdb_read(d, &p->at, key) && key->type == MMDB_STRING;
}

/* Reads the code under `name` of the map at `offset`, e.g. country -> iso_code. */
static bool code_in_map(struct mmdb_data *d, size_t offset, const char *name, size_t min,
                        size_t max, bool digits, char out[8], bool *known) {
  struct pairs p;
  struct mmdb_value key, v;
  bool is_map;
  if (!pairs_open(d, offset, &p, &is_map))
    return false;
  while (p.left > 0) {
    if (!pairs_key(d, &p, &key))
      return false;
    if (mmdb_is(d, &key, name)) {
      size_t at = p.at;
      if (!mmdb_read(d, &at, &v))
        return false;
      take_code(d, &v, min, max, digits, out);
      *known = true;
      return true; /* names in many languages follow: not walked for each record again */
    }
    if (!mmdb_skip(d, &p.at))
      return false;
  }
  return true;
}

static bool subdivision_codes(struct mmdb_data *d, size_t offset, struct fields *f) {
  struct mmdb_value v;
  if (!mmdb_read(d, &offset, &v))
    return false;
  if (v.type != MMDB_ARRAY)
    return true;
  size_t at = v.content;
  for (uint32_t i = 0; i < v.count && i < 2; i++) {
    if (!code_in_map(d, at, "iso_code", 1, 3, true, f->subdivisions[i], &f->known) ||
        !mmdb_skip(d, &at))
      return false;
  }
  return true;
}

static bool flat_code(struct mmdb_data *d, size_t offset, size_t min, size_t max, bool digits,
                      char out[8]) {
  struct mmdb_value v;
  if (!mmdb_read(d, &offset, &v))
    return false;
  take_code(d, &v, min, max, digits, out);
  return true;
}

static bool read_field(struct mmdb_data *d, const struct mmdb_value *key, size_t at,
                       struct fields *f) {
  if (mmdb_is(d, key, "continent"))
    return code_in_map(d, at, "code", 2, 2, false, f->continent, &f->known);
  if (mmdb_is(d, key, "country"))
    return code_in_map(d, at, "iso_code", 2, 2, false, f->country, &f->known);
  if (mmdb_is(d, key, "registered_country"))
    return code_in_map(d, at, "iso_code", 2, 2, false, f->registered, &f->known);
  if (mmdb_is(d, key, "subdivisions"))
    return subdivision_codes(d, at, f);
  if (mmdb_is(d, key, "country_code")) {
    f->known = true;
    return flat_code(d, at, 2, 2, false, f->flat_country);
  }
  if (mmdb_is(d, key, "state1")) /* often a name in full: then it says nothing */
    return flat_code(d, at, 1, 3, true, f->flat_state);
  return true;
}

static bool is_continent(const char *code) {
  return code[0] && strstr(" af an as eu na oc sa ", code) != NULL;
}

static void add_subdivision(struct geo_location *location, unsigned index, const char *code) {
  if (!code[0] || !location->country[0])
    return;
  char *out = location->subdivisions[index];
  memcpy(out, location->country, 2);
  out[2] = '-';
  memcpy(out + 3, code, strlen(code) + 1);
  location->subdivision_count = index + 1;
}

static void put_together(const struct fields *f, struct geo_location *location) {
  const char *country = f->country;
  if (!country[0])
    country = f->flat_country;
  if (!country[0])
    country = f->registered;
  memcpy(location->country, country, sizeof location->country);
  const char *continent = is_continent(f->continent) ? f->continent : NULL;
  if (!continent)
    continent = steer_country_continent(location->country);
  if (continent)
    memcpy(location->continent, continent, 3);
  if (f->flat_country[0] && !f->country[0]) {
    add_subdivision(location, 0, f->flat_state);
    return;
  }
  for (unsigned i = 0; i < 2; i++)
    add_subdivision(location, i, f->subdivisions[i]);
}

bool geo_record_place(struct mmdb_data *data, size_t offset, struct geo_location *location,
                      bool *known) {
  struct fields fields = {0};
  struct pairs p;
  struct mmdb_value key;
  bool is_map;
  memset(location, 0, sizeof *location);
  if (!pairs_open(data, offset, &p, &is_map) || !is_map)
    return false;
  while (p.left > 0) {
    if (!pairs_key(data, &p, &key) || !read_field(data, &key, p.at, &fields) ||
        !mmdb_skip(data, &p.at))
      return false;
  }
  put_together(&fields, location);
  *known = *known || fields.known;
  return true;
}

/* A number, or text such as "64500" or "AS64500"; 0 for anything else. */
static uint32_t asn_of(const struct mmdb_data *d, const struct mmdb_value *v) {
  if (v->type == MMDB_UINT16 || v->type == MMDB_UINT32 || v->type == MMDB_UINT64)
    return v->number < UINT32_MAX ? (uint32_t)v->number : 0;
  if (v->type != MMDB_STRING)
    return 0;
  const uint8_t *text = d->bytes + v->content;
  size_t i = 0;
  if (v->count > 2 && (text[0] | 0x20) == 'a' && (text[1] | 0x20) == 's')
    i = 2;
  uint64_t number = 0;
  for (; i < v->count; i++) {
    if (text[i] < '0' || text[i] > '9')
      return 0;
    number = number * 10 + (uint64_t)(text[i] - '0');
    if (number >= UINT32_MAX)
      return 0;
  }
  return (uint32_t)number;
}

bool geo_record_asn(struct mmdb_data *data, size_t offset, uint32_t *asn, bool *known) {
  struct pairs p;
  struct mmdb_value key, v;
  bool is_map;
  *asn = 0;
  if (!pairs_open(data, offset, &p, &is_map) || !is_map)
    return false;
  while (p.left > 0) {
    if (!pairs_key(data, &p, &key))
      return false;
    if (mmdb_is(data, &key, "autonomous_system_number") || mmdb_is(data, &key, "asn")) {
      size_t at = p.at;
      if (!mmdb_read(data, &at, &v))
        return false;
      *asn = asn_of(data, &v);
      *known = true;
    }
    if (!mmdb_skip(data, &p.at))
      return false;
  }
  return true;
}

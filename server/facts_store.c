/* SPDX-License-Identifier: Apache-2.0 */
#include "server/facts_store.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/name.h"

enum { STORE_VERSION = 1, ENDPOINT_NAME_MAX = 1024 };

/* ---- the table --------------------------------------------------------------------------------
 */

bool fact_table_init(struct fact_table *table) {
  *table = (struct fact_table){.capacity = 16};
  table->slots = calloc(table->capacity, sizeof *table->slots);
  return table->slots != NULL;
}

static void fact_free(struct fact *fact) {
  free(fact->owner);
  free(fact->endpoint);
  free(fact);
}

void fact_table_close(struct fact_table *table) {
  for (size_t i = 0; table->slots != NULL && i < table->capacity; i++)
    if (table->slots[i] != NULL)
      fact_free(table->slots[i]);
  free(table->slots);
  *table = (struct fact_table){.slots = NULL};
}

static uint64_t fact_hash(const uint8_t *owner, const char *endpoint) {
  uint64_t h = XXH3_64bits(owner, name_wire_len(owner, NAME_MAX_WIRE));
  return XXH3_64bits_withSeed(endpoint, strlen(endpoint), h);
}

static struct fact **find_slot(const struct fact_table *table, uint64_t hash, const uint8_t *owner,
                               const char *endpoint) {
  for (size_t i = (size_t)hash & (table->capacity - 1);; i = (i + 1) & (table->capacity - 1)) {
    struct fact *fact = table->slots[i];
    if (fact == NULL || (fact->hash == hash && strcmp(fact->endpoint, endpoint) == 0 &&
                         name_equal(fact->owner, owner)))
      return &table->slots[i];
  }
}

struct fact *fact_table_find(const struct fact_table *table, const uint8_t *owner,
                             const char *endpoint) {
  return *find_slot(table, fact_hash(owner, endpoint), owner, endpoint);
}

static void put(struct fact_table *table, struct fact *fact) {
  *find_slot(table, fact->hash, fact->owner, fact->endpoint) = fact;
  table->count++;
}

/* Moves the records that are kept to a new table of `capacity` slots. */
static bool rebuild(struct fact_table *table, size_t capacity,
                    bool (*keep)(void *arg, const struct fact *fact), void *arg) {
  struct fact_table next = {.capacity = capacity};
  next.slots = calloc(capacity, sizeof *next.slots);
  if (next.slots == NULL)
    return false;
  for (size_t i = 0; i < table->capacity; i++) {
    struct fact *fact = table->slots[i];
    if (fact == NULL)
      continue;
    if (keep == NULL || keep(arg, fact))
      put(&next, fact);
    else
      fact_free(fact);
  }
  free(table->slots);
  *table = next;
  return true;
}

bool fact_table_filter(struct fact_table *table, bool (*keep)(void *arg, const struct fact *fact),
                       void *arg) {
  return rebuild(table, table->capacity, keep, arg);
}

struct fact *fact_table_get(struct fact_table *table, const uint8_t *owner, const char *endpoint) {
  uint64_t hash = fact_hash(owner, endpoint);
  struct fact *fact = *find_slot(table, hash, owner, endpoint);
  if (fact != NULL)
    return fact;
  if (table->count * 2 >= table->capacity && !rebuild(table, table->capacity * 2, NULL, NULL))
    return NULL;
  fact = calloc(1, sizeof *fact);
  if (fact == NULL)
    return NULL;
  size_t length = name_wire_len(owner, NAME_MAX_WIRE);
  fact->hash = hash;
  fact->owner = malloc(length);
  fact->endpoint = strdup(endpoint);
  if (fact->owner == NULL || fact->endpoint == NULL) {
    fact_free(fact);
    return NULL;
  }
  memcpy(fact->owner, owner, length);
  put(table, fact);
  return fact;
}

struct steer_status fact_status(const struct fact *fact) {
  const uint8_t *v = fact->values;
  return (struct steer_status){
      .manual = v[FACT_MANUAL],
      .health4 = v[FACT_FORCED4] != HEALTH_UNKNOWN ? v[FACT_FORCED4] : v[FACT_HEALTH4],
      .health6 = v[FACT_FORCED6] != HEALTH_UNKNOWN ? v[FACT_FORCED6] : v[FACT_HEALTH6],
  };
}

/* ---- JSON -------------------------------------------------------------------------------------
 */

static const char *const field_names[FACT_FIELDS] = {
    [FACT_HEALTH4] = "health4", [FACT_HEALTH6] = "health6"};
static const char *const state_names[] = {"up", "down"}; /* 0 is left out */

/* A record of a copy: both values, then the names one after the other. */
void fact_table_copy(const struct fact_table *table, struct buf *out) {
  enum { AHEAD = 12 };
  for (size_t i = 0; i < table->capacity; i++) {
    const struct fact *fact = table->slots[i];
    if (i + AHEAD < table->capacity && table->slots[i + AHEAD] != NULL)
      __builtin_prefetch(table->slots[i + AHEAD]);
    if (fact == NULL ||
        (fact->values[FACT_HEALTH4] != HEALTH_DOWN && fact->values[FACT_HEALTH6] != HEALTH_DOWN))
      continue;
    buf_add_u8(out, fact->values[FACT_HEALTH4]);
    buf_add_u8(out, fact->values[FACT_HEALTH6]);
    buf_add(out, fact->owner, name_wire_len(fact->owner, NAME_MAX_WIRE));
    buf_add(out, fact->endpoint, strlen(fact->endpoint) + 1);
  }
}

static void put_text(struct buf *out, const char *key, const char *text) {
  buf_printf(out, "\"%s\": \"", key);
  for (const char *t = text; *t; t++) {
    if (*t == '"' || *t == '\\')
      buf_add_u8(out, '\\');
    if ((unsigned char)*t < ' ')
      buf_printf(out, "\\u%04x", (unsigned char)*t);
    else
      buf_add_u8(out, (uint8_t)*t);
  }
  buf_add_u8(out, '"');
}

/* A row at a time, not as a whole document in memory: there may be very many. */
void fact_copy_to_text(const struct buf *copy, struct buf *out) {
  static const char *const keys[2] = {"health4", "health6"};
  buf_printf(out, "{\"version\": %d, \"endpoints\": [", STORE_VERSION);
  for (size_t at = 0; at < copy->len;) {
    const uint8_t *values = copy->data + at;
    const uint8_t *owner = values + 2;
    const char *endpoint = (const char *)owner + name_wire_len(owner, NAME_MAX_WIRE);
    char name[NAME_MAX_TEXT];
    buf_add_str(out, at > 0 ? ",\n {" : "\n {");
    put_text(out, "domain", name_to_text(name, owner));
    buf_add_str(out, ", ");
    put_text(out, "endpoint", endpoint);
    for (size_t f = 0; f < 2; f++)
      if (values[f] != 0)
        buf_printf(out, ", \"%s\": \"%s\"", keys[f], state_names[values[f] - 1]);
    buf_add_u8(out, '}');
    at = (size_t)((const uint8_t *)endpoint - copy->data) + strlen(endpoint) + 1;
  }
  buf_add_str(out, "]}\n");
}

static bool value_from_json(uint8_t *value, const json_t *json) {
  const char *text = json_string_value(json);
  if (json == NULL)
    return true;
  for (uint8_t i = 0; text != NULL && i < 2; i++) {
    if (strcmp(text, state_names[i]) == 0) {
      *value = (uint8_t)(i + 1);
      return true;
    }
  }
  return false;
}

static bool fact_from_json(struct fact_table *table, const json_t *json, bool *more) {
  const char *domain = json_string_value(json_object_get(json, "domain"));
  const char *endpoint = json_string_value(json_object_get(json, "endpoint"));
  uint8_t mixed[NAME_BUF], owner[NAME_BUF];
  const char *why;
  if (domain == NULL || endpoint == NULL || strlen(endpoint) > ENDPOINT_NAME_MAX ||
      name_from_text(mixed, domain, strlen(domain), NULL, &why) == 0)
    return false;
  name_copy_lower(owner, mixed);
  if (fact_table_find(table, owner, endpoint) != NULL)
    return false;
  struct fact *fact = fact_table_get(table, owner, endpoint);
  if (fact == NULL)
    return false;
  for (size_t f = FACT_HEALTH4; f <= FACT_HEALTH6; f++)
    if (!value_from_json(&fact->values[f], json_object_get(json, field_names[f])))
      return false;
  static const char *const earlier[] = {"manual", "forced4", "forced6"};
  for (size_t i = 0; i < sizeof earlier / sizeof earlier[0]; i++)
    *more = *more || json_object_get(json, earlier[i]) != NULL;
  return true;
}

bool fact_table_from_json(struct fact_table *table, const json_t *root, bool *more) {
  const json_t *list = json_object_get(root, "endpoints");
  if (json_integer_value(json_object_get(root, "version")) != STORE_VERSION || !json_is_array(list))
    return false;
  size_t i;
  json_t *json;
  json_array_foreach(list, i, json) if (!fact_from_json(table, json, more)) return false;
  return true;
}

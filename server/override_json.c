/* SPDX-License-Identifier: Apache-2.0 */
#include "server/override_json.h"

#include <stdio.h>

#include "base/utf8.h"

static const char *const kind_names[] = {
    [STORE_WEIGHT] = "weight", [STORE_STATUS] = "status", [STORE_HEALTH] = "health"};

const char *override_text(const struct store_override *o, char out[OVERRIDE_TEXT]) {
  const struct store_key *key = &o->key;
  if (key->kind == STORE_WEIGHT)
    snprintf(out, OVERRIDE_TEXT, "weight %d of %.100s at %.200s (region %.60s, level %u)", o->value,
             key->endpoint, key->domain, key->region, key->level);
  else if (key->kind == STORE_STATUS)
    snprintf(out, OVERRIDE_TEXT, "status %s of %.100s at %.200s",
             o->value == 1 ? "enabled" : "disabled", key->endpoint, key->domain);
  else
    snprintf(out, OVERRIDE_TEXT, "forced health %s (IPv%u) of %.100s at %.200s",
             o->value == 1 ? "up" : "down", key->family, key->endpoint, key->domain);
  utf8_repair(out);
  return out;
}

static json_t *number_or_null(uint32_t number) {
  return number != 0 ? json_integer((json_int_t)number) : json_null();
}

json_t *override_json(const struct store_override *o, bool domain) {
  const struct store_key *key = &o->key;
  bool weight = key->kind == STORE_WEIGHT;
  json_t *json =
      json_pack("{s:s, s:s, s:s?, s:o, s:o, s:i, s:s, s:s?, s:s?, s:I, s:I, s:s?, s:s?}", "kind",
                kind_names[key->kind], "endpoint", key->endpoint, "region",
                weight ? key->region : NULL, "level", number_or_null(key->level), "family",
                number_or_null(key->family), "value", (int)o->value, "who", o->who, "origin",
                o->origin, "reason", o->reason, "set_at", (json_int_t)o->set_at, "expires_at",
                (json_int_t)o->expires_at, "cause", o->cause, "before", o->before);
  if (json != NULL && domain &&
      json_object_set_new(json, "domain", json_string(key->domain)) != 0) {
    json_decref(json);
    return NULL;
  }
  return json;
}

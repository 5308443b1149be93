/* SPDX-License-Identifier: Apache-2.0 */
/* RRsets as all kinds of providers compare them. */
#include <arpa/inet.h>
#include <ctype.h>
#include <ldns/ldns.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "tools/providers/provider.h"
#include "zones/default_answer.h"
#include "zones/record.h"

enum { HEAD = 1 + 10, TEXT_MAX = 4 * RECORD_MAX_RDATA };

/* ---- record data ---------------------------------------------------------------------------- */

/* RFC 3597 section 5. */
static char *generic(const uint8_t *rdata, size_t len) {
  size_t size = 16 + 2 * len;
  char *out = malloc(size);
  if (!out)
    return NULL;
  size_t at = (size_t)snprintf(out, size, len > 0 ? "\\# %zu " : "\\# %zu", len);
  for (size_t i = 0; i < len; i++)
    at += (size_t)snprintf(out + at, size - at, "%02x", rdata[i]);
  return out;
}

/* What follows the owner, TTL, class and type, which end with tabs. */
static char *data_part(const ldns_rr *rr) {
  char *text = ldns_rr2str(rr);
  char *data = text;
  if (text)
    text[strcspn(text, "\n")] = '\0';
  for (int i = 0; data && i < 4; i++) {
    data = strchr(data, '\t');
    data = data ? data + 1 : NULL;
  }
  char *out = data && *data ? strdup(data) : NULL;
  free(text);
  return out;
}

char *provider_rdata_wire(uint16_t type, const uint8_t *rdata, size_t len) {
  if (len > RECORD_MAX_RDATA)
    return NULL;
  uint8_t *wire = malloc(HEAD + len + 1);
  if (!wire)
    return NULL;
  wire[0] = 0;
  ldns_write_uint16(wire + 1, type);
  ldns_write_uint16(wire + 3, LDNS_RR_CLASS_IN);
  ldns_write_uint32(wire + 5, 0);
  ldns_write_uint16(wire + 9, (uint16_t)len);
  record_lower(type, rdata, len, wire + HEAD);
  ldns_rr *rr = NULL;
  size_t pos = 0;
  char *out = NULL;
  if (ldns_wire2rr(&rr, wire, HEAD + len, &pos, LDNS_SECTION_ANSWER) == LDNS_STATUS_OK)
    out = data_part(rr);
  if (!out)
    out = generic(wire + HEAD, len);
  ldns_rr_free(rr);
  free(wire);
  return out;
}

static bool is_line(const char *text) {
  for (; *text; text++)
    if ((unsigned char)*text < 0x20 && *text != '\t')
      return false;
  return true;
}

bool provider_rdata_parse(const char *type, const char *text, uint8_t **rdata, size_t *out_len) {
  uint16_t number = record_type(type, strlen(type));
  size_t len = strlen(text);
  char name[16];
  if (number == 0 || len == 0 || len > TEXT_MAX || !is_line(text))
    return false;
  size_t size = len + 64;
  char *line = malloc(size);
  if (!line)
    return false;
  snprintf(line, size, ". 0 IN %s %s", record_type_text(number, name), text);
  ldns_rr *rr = NULL;
  uint8_t *wire = NULL;
  size_t wire_len = 0;
  bool ok = ldns_rr_new_frm_str(&rr, line, 0, NULL, NULL) == LDNS_STATUS_OK &&
            ldns_rr_get_type(rr) == (ldns_rr_type)number && ldns_rr_rd_count(rr) > 0 &&
            ldns_rr2wire(&wire, rr, LDNS_SECTION_ANSWER, &wire_len) == LDNS_STATUS_OK &&
            wire_len >= HEAD;
  if (ok) {
    *out_len = wire_len - HEAD;
    memmove(wire, wire + HEAD, *out_len);
    *rdata = wire;
  } else {
    free(wire);
  }
  ldns_rr_free(rr);
  free(line);
  return ok;
}

char *provider_rdata_text(const char *type, const char *text) {
  uint8_t *rdata;
  size_t len;
  if (!provider_rdata_parse(type, text, &rdata, &len))
    return NULL;
  char *out = provider_rdata_wire(record_type(type, strlen(type)), rdata, len);
  free(rdata);
  return out;
}

/* ---- RRsets --------------------------------------------------------------------------------- */

static char *absolute(const char *name) {
  size_t len = strlen(name);
  bool dot = len > 0 && name[len - 1] == '.';
  char *out = malloc(len + 2);
  if (!out)
    return NULL;
  for (size_t i = 0; i < len; i++)
    out[i] = (char)tolower((unsigned char)name[i]);
  if (!dot)
    out[len++] = '.';
  out[len] = '\0';
  return out;
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The values in canonical form, sorted, each once; takes the reference over. */
static json_t *canonical(const char *type, json_t *values) {
  size_t count = json_array_size(values);
  char **texts = calloc(count ? count : 1, sizeof *texts);
  json_t *out = json_array();
  bool ok = texts != NULL && out != NULL && count > 0;
  for (size_t i = 0; ok && i < count; i++) {
    const char *value = json_string_value(json_array_get(values, i));
    texts[i] = value ? provider_rdata_text(type, value) : NULL;
    ok = texts[i] != NULL;
  }
  if (ok)
    qsort(texts, count, sizeof *texts, by_text);
  for (size_t i = 0; ok && i < count; i++)
    if (i == 0 || strcmp(texts[i], texts[i - 1]) != 0)
      ok = json_array_append_new(out, json_string(texts[i])) == 0;
  for (size_t i = 0; texts && i < count; i++)
    free(texts[i]);
  free(texts);
  json_decref(values);
  if (ok)
    return out;
  json_decref(out);
  return NULL;
}

struct provider_object *provider_add_rrset(struct provider_objects *objects, const char *name,
                                           const char *type, uint32_t ttl, json_t *values) {
  json_t *list = canonical(type, values);
  if (!list)
    return NULL;
  struct provider_object *object = provider_objects_add(objects);
  if (!object) {
    json_decref(list);
    return NULL;
  }
  object->body = json_pack("{s:I, s:o}", "ttl", (json_int_t)ttl, "values", list);
  object->name = absolute(name);
  object->type = strdup(type);
  if (object->name && object->type && object->body &&
      asprintf(&object->key, "%s/%s", object->name, type) < 0)
    object->key = NULL;
  return object->key ? object : NULL;
}

/* ---- the default answer --------------------------------------------------------------------- */

struct gathering {
  json_t *values[STEER_TYPES];
  bool failed;
};

static void gather(void *arg, const struct model_rr *rr) {
  struct gathering *g = arg;
  int t = rr->type == RECORD_A ? STEER_A : rr->type == RECORD_AAAA ? STEER_AAAA : STEER_CNAME;
  char *text = provider_rdata_wire(rr->type, rr->rdata, rr->rdata_len);
  if (!text || json_array_append_new(g->values[t], json_string(text)) != 0)
    g->failed = true;
  free(text);
}

static void lose(struct provider_fidelity *fidelity, enum provider_layer layer, const char *why) {
  fidelity->grade[layer] = FIDELITY_LOST;
  fidelity->error[layer] = 1;
  snprintf(fidelity->why[layer], sizeof fidelity->why[layer], "%s", why);
}

/* Only what the domain uses can be lost. */
static void judge_default(const struct provider_domain *domain, struct provider_fidelity *f) {
  const struct steer_domain *steer = domain->steer;
  const struct steer_level *level = &steer->regions[0].levels[0];
  bool levels = false;
  bool weights = false;
  memset(f, 0, sizeof *f);
  for (uint32_t r = 0; r < steer->region_count; r++) {
    levels = levels || steer->regions[r].level_count > 1;
    for (uint32_t a = 0; a < steer->regions[r].atom_count; a++)
      if (steer->regions[r].atoms[a].kind == ATOM_GLOBAL)
        level = &steer->regions[r].levels[0];
  }
  for (uint32_t i = 0; i < level->entry_count; i++)
    weights = weights || level->entries[i].weight != level->entries[0].weight;
  if (steer->region_count > 1)
    lose(f, LAYER_GEO, "static records: every client gets the answer of `global`");
  if (domain->health)
    lose(f, LAYER_STATUS, "static records: endpoints that are down stay in the answer");
  if (levels)
    lose(f, LAYER_PRIORITY, "static records: only level 1 is in the answer");
  if (weights)
    lose(f, LAYER_WEIGHT,
         steer->offers[STEER_CNAME]
             ? "static records: only the host with the largest weight"
             : "static records: all addresses of level 1, with equal shares");
}

bool provider_compile_default(const struct provider_domain *domain, struct provider_objects *out,
                              struct provider_fidelity *fidelity) {
  static const char *const types[STEER_TYPES] = {"A", "AAAA", "CNAME"};
  struct gathering g = {{json_array(), json_array(), json_array()}, false};
  bool ok = g.values[0] && g.values[1] && g.values[2];
  if (ok)
    default_answer(domain->steer, gather, &g);
  ok = ok && !g.failed;
  for (int t = 0; t < STEER_TYPES; t++) {
    if (!ok || json_array_size(g.values[t]) == 0) {
      json_decref(g.values[t]);
      continue;
    }
    struct provider_object *object =
        provider_add_rrset(out, domain->name, types[t], domain->steer->ttl, g.values[t]);
    ok = object && (object->domain = strdup(domain->name)) != NULL;
  }
  judge_default(domain, fidelity);
  return ok;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* From changes to Route 53's XML, and into batches that its limits allow. */
#include <libxml/xmlwriter.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tools/providers/route53_private.h"

/* ---- XML ------------------------------------------------------------------------------------ */

struct writer {
  xmlBuffer *buffer;
  xmlTextWriter *xml;
  bool ok;
};

static bool open_writer(struct writer *w) {
  w->buffer = xmlBufferCreate();
  w->xml = w->buffer ? xmlNewTextWriterMemory(w->buffer, 0) : NULL;
  w->ok = w->xml;
  return w->ok;
}

static bool close_writer(struct writer *w, struct buf *out) {
  if (w->xml)
    xmlFreeTextWriter(w->xml); /* flushes */
  if (w->ok)
    buf_add(out, xmlBufferContent(w->buffer), (size_t)xmlBufferLength(w->buffer));
  xmlBufferFree(w->buffer);
  return w->ok && !out->failed;
}

static void start(struct writer *w, const char *name) {
  w->ok = w->ok && xmlTextWriterStartElement(w->xml, BAD_CAST name) >= 0;
}

static void end(struct writer *w) {
  w->ok = w->ok && xmlTextWriterEndElement(w->xml) >= 0;
}

static void put(struct writer *w, const char *name, const char *text) {
  w->ok = w->ok && text && xmlTextWriterWriteElement(w->xml, BAD_CAST name, BAD_CAST text) >= 0;
}

static void put_integer(struct writer *w, const char *name, const json_t *value) {
  char text[24];
  snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
  put(w, name, text);
}

static void put_name(struct writer *w, const char *name, const char *text) {
  char *octal = route53_octal_name(text);
  put(w, name, octal);
  free(octal);
}

/* ---- record sets ---------------------------------------------------------------------------- */

static void put_upper(struct writer *w, const char *name, const char *text, size_t len) {
  char out[8];
  if (len >= sizeof out) {
    w->ok = false;
    return;
  }
  for (size_t i = 0; i < len; i++)
    out[i] = text[i] >= 'a' && text[i] <= 'z' ? (char)(text[i] - 'a' + 'A') : text[i];
  out[len] = '\0';
  put(w, name, out);
}

static void put_place(struct writer *w, const char *atom) {
  const char *code = strchr(atom, ':');
  start(w, "GeoLocation");
  if (!code) {
    put(w, "CountryCode", "*");
  } else if (strncmp(atom, "continent", 9) == 0) {
    put_upper(w, "ContinentCode", code + 1, strlen(code + 1));
  } else {
    const char *dash = strchr(code, '-');
    put_upper(w, "CountryCode", code + 1, dash ? (size_t)(dash - code - 1) : strlen(code + 1));
    if (dash)
      put_upper(w, "SubdivisionCode", dash + 1, strlen(dash + 1));
  }
  end(w);
}

static void put_values(struct writer *w, const json_t *values, size_t *records, size_t *chars) {
  size_t i;
  const json_t *value;
  start(w, "ResourceRecords");
  json_array_foreach(values, i, value) {
    char *octal = route53_octal(json_string_value(value));
    start(w, "ResourceRecord");
    put(w, "Value", octal);
    end(w);
    *records += 1;
    *chars += octal ? strlen(octal) : 0;
    free(octal);
  }
  end(w);
}

/* The elements in the order of the API's schema. */
static void put_set(struct writer *w, const struct provider_object *o, const json_t *ids,
                    const char *alias_zone, size_t *records, size_t *chars) {
  const json_t *b = o->body;
  const char *identifier = o->key + strlen(o->name) + 1 + strlen(o->type);
  const char *key = json_string_value(json_object_get(b, "health"));
  const char *alias = json_string_value(json_object_get(b, "alias"));
  start(w, "ResourceRecordSet");
  put_name(w, "Name", o->name);
  put(w, "Type", o->type);
  if (*identifier == '/')
    put(w, "SetIdentifier", identifier + 1);
  if (json_object_get(b, "weight"))
    put_integer(w, "Weight", json_object_get(b, "weight"));
  if (json_object_get(b, "geo"))
    put_place(w, json_string_value(json_object_get(b, "geo")));
  if (json_object_get(b, "failover"))
    put(w, "Failover", json_string_value(json_object_get(b, "failover")));
  if (json_object_get(b, "values")) {
    put_integer(w, "TTL", json_object_get(b, "ttl"));
    put_values(w, json_object_get(b, "values"), records, chars);
  }
  if (alias) {
    start(w, "AliasTarget");
    put(w, "HostedZoneId", alias_zone);
    put_name(w, "DNSName", alias);
    put(w, "EvaluateTargetHealth", json_is_true(json_object_get(b, "evaluate")) ? "true" : "false");
    end(w);
    *records += 1;
  }
  if (key)
    put(w, "HealthCheckId", json_string_value(json_object_get(json_object_get(ids, key), "id")));
  end(w);
}

/* What a set as it was read counts. */
static void count_raw(const char *xml, size_t *records, size_t *chars) {
  for (const char *at = xml; (at = strstr(at, "<Value>")) != NULL; at += 7) {
    const char *to = strstr(at, "</Value>");
    *records += 1;
    *chars += to ? (size_t)(to - at - 7) : 0;
  }
  *records += strstr(xml, "<AliasTarget>") != NULL;
}

bool route53_write_change(struct buf *out, const char *action, const struct provider_object *object,
                          const json_t *ids, const char *alias_zone, size_t *records,
                          size_t *chars) {
  struct writer w = {0};
  const char *raw = json_string_value(json_object_get(object->raw, "xml"));
  size_t r = 0;
  size_t c = 0;
  if (open_writer(&w)) {
    start(&w, "Change");
    put(&w, "Action", action);
    if (strcmp(action, "DELETE") == 0 && raw) {
      w.ok = w.ok && xmlTextWriterWriteRaw(w.xml, BAD_CAST raw) >= 0;
      count_raw(raw, &r, &c);
    } else {
      put_set(&w, object, ids, alias_zone, &r, &c);
    }
    end(&w);
  }
  unsigned times = strcmp(action, "UPSERT") == 0 ? 2 : 1;
  *records += r * times;
  *chars += c * times;
  return close_writer(&w, out);
}

/* ---- health checks -------------------------------------------------------------------------- */

static void put_optional(struct writer *w, const char *name, const json_t *value) {
  if (json_is_string(value))
    put(w, name, json_string_value(value));
}

static void put_flag(struct writer *w, const char *name, const json_t *value) {
  put(w, name, json_is_true(value) ? "true" : "false");
}

static void put_check(struct writer *w, const json_t *b, bool update) {
  if (!update)
    put_optional(w, "Type", json_object_get(b, "type"));
  put_optional(w, "IPAddress", json_object_get(b, "address"));
  put_integer(w, "Port", json_object_get(b, "port"));
  put_optional(w, "ResourcePath", json_object_get(b, "path"));
  put_optional(w, "FullyQualifiedDomainName", json_object_get(b, "host"));
  put_optional(w, "SearchString", json_object_get(b, "search"));
  if (!update)
    put_integer(w, "RequestInterval", json_object_get(b, "interval"));
  put_integer(w, "FailureThreshold", json_object_get(b, "threshold"));
  put_flag(w, "Inverted", json_object_get(b, "inverted"));
  put_flag(w, "Disabled", json_object_get(b, "disabled"));
  if (json_object_get(b, "sni"))
    put_flag(w, "EnableSNI", json_object_get(b, "sni"));
}

bool route53_write_check(struct buf *out, const json_t *body, const char *reference,
                         long long version) {
  struct writer w = {0};
  bool update = version > 0;
  json_t *number = json_integer((json_int_t)version);
  if (open_writer(&w)) {
    start(&w, update ? "UpdateHealthCheckRequest" : "CreateHealthCheckRequest");
    w.ok = w.ok &&
           xmlTextWriterWriteAttribute(w.xml, BAD_CAST "xmlns", BAD_CAST ROUTE53_NAMESPACE) >= 0;
    if (update) {
      put_integer(&w, "HealthCheckVersion", number);
      put_check(&w, body, true);
    } else {
      put(&w, "CallerReference", reference);
      start(&w, "HealthCheckConfig");
      put_check(&w, body, false);
      end(&w);
    }
    end(&w);
  }
  json_decref(number);
  return close_writer(&w, out);
}

/* ---- batches -------------------------------------------------------------------------------- */

static const struct provider_object *object_of(const struct provider_change *change) {
  return change->new ? change->new : change->old;
}

/* What must change together. */
static const char *unit_of(const struct provider_change *change) {
  const struct provider_object *o = object_of(change);
  return o->domain ? o->domain : o->name;
}

const char *route53_action(const struct provider_change *change) {
  return change->op == PROVIDER_DELETE   ? "DELETE"
         : change->op == PROVIDER_CREATE ? "CREATE"
                                         : "UPSERT";
}

/* The place within a batch: what stands at a public name goes before another kind comes, targets
 * come before aliases and go after them. */
static int rank_of(const struct provider_change *change) {
  const struct provider_object *o = object_of(change);
  bool public = !o->domain || strcmp(o->domain, o->name) == 0;
  bool alias = json_object_get(o->body, "alias") != NULL;
  if (change->op == PROVIDER_DELETE)
    return public ? 0 : alias ? 5 : 6;
  return !alias ? 1 : json_object_get(o->body, "failover") ? 2 : 3;
}

/* Level of a pair: later ones are the targets of earlier ones. */
static int depth_of(const struct provider_change *change) {
  char domain[NAME_MAX_TEXT];
  char kind;
  unsigned level;
  return route53_helper_domain(object_of(change)->name, domain, &kind, &level) ? (int)level : 0;
}

static int compare_changes(const void *a, const void *b) {
  const struct provider_change *x = *(const struct provider_change *const *)a;
  const struct provider_change *y = *(const struct provider_change *const *)b;
  int rx = rank_of(x);
  int ry = rank_of(y);
  if (rx != ry)
    return rx - ry;
  int depth = depth_of(x) - depth_of(y);
  if (depth != 0)
    return rx < 5 ? -depth : depth;
  return strcmp(object_of(x)->key, object_of(y)->key);
}

static bool is_set(const struct provider_change *change) {
  return strcmp(object_of(change)->type, ROUTE53_HEALTH) != 0;
}

/* The weight of a change against the limits. */
static bool weigh(const struct provider_change *change, size_t *records, size_t *chars) {
  struct buf out;
  buf_init(&out);
  json_t *ids = json_object();
  const char *key = json_string_value(json_object_get(object_of(change)->body, "health"));
  if (ids && key)
    json_object_set_new(ids, key, json_pack("{s:s}", "id", "x"));
  bool ok = route53_write_change(&out, route53_action(change), object_of(change), ids, "Z", records,
                                 chars);
  buf_close(&out);
  json_decref(ids);
  return ok;
}

struct cutting {
  struct route53_batches *out;
  size_t records, chars; /* of the last batch */
};

static struct route53_batch *next_batch(struct cutting *c, size_t room) {
  struct route53_batch *items = realloc(c->out->items, (c->out->count + 1) * sizeof *c->out->items);
  if (!items)
    return NULL;
  c->out->items = items;
  items[c->out->count] = (struct route53_batch){.changes = malloc(room * sizeof *items->changes)};
  c->records = c->chars = 0;
  return items[c->out->count].changes ? &items[c->out->count++] : NULL;
}

/* All changes of one unit go into the last batch, or into a new one. */
static bool cut_unit(struct cutting *c, const struct provider_change *changes, size_t count,
                     size_t first, bool *done, const char **too_large) {
  const char *unit = unit_of(&changes[first]);
  size_t records = 0;
  size_t chars = 0;
  for (size_t i = first; i < count; i++)
    if (!done[i] && is_set(&changes[i]) && strcmp(unit_of(&changes[i]), unit) == 0 &&
        !weigh(&changes[i], &records, &chars))
      return false;
  if (records > ROUTE53_RECORDS_MAX || chars > ROUTE53_VALUES_MAX) {
    *too_large = unit;
    return false;
  }
  struct route53_batch *batch = c->out->count ? &c->out->items[c->out->count - 1] : NULL;
  if (!batch || c->records + records > ROUTE53_RECORDS_MAX || c->chars + chars > ROUTE53_VALUES_MAX)
    batch = next_batch(c, count);
  if (!batch)
    return false;
  c->records += records;
  c->chars += chars;
  for (size_t i = first; i < count; i++) {
    if (done[i] || !is_set(&changes[i]) || strcmp(unit_of(&changes[i]), unit) != 0)
      continue;
    batch->changes[batch->count++] = &changes[i];
    done[i] = true;
  }
  return true;
}

bool route53_batches_make(const struct provider_change *changes, size_t count,
                          struct route53_batches *out, const char **too_large) {
  struct cutting c = {.out = out};
  bool *done = calloc(count + 1, sizeof *done);
  bool ok = done;
  *out = (struct route53_batches){0};
  *too_large = NULL;
  for (size_t i = 0; ok && i < count; i++)
    if (!done[i] && is_set(&changes[i]))
      ok = cut_unit(&c, changes, count, i, done, too_large);
  for (size_t i = 0; ok && i < out->count; i++)
    qsort(out->items[i].changes, out->items[i].count, sizeof *out->items[i].changes,
          compare_changes);
  free(done);
  return ok;
}

void route53_batches_close(struct route53_batches *batches) {
  for (size_t i = 0; i < batches->count; i++)
    free(batches->items[i].changes);
  free(batches->items);
  *batches = (struct route53_batches){0};
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/build_lists.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "zones/build_kept.h"
#include "zones/domain_json.h"
#include "zones/domain_list.h"

enum { CHECKS_FORMAT = 1 };

static int append(const char *text, size_t len, void *arg) {
  struct buf *out = arg;
  buf_add(out, text, len);
  return out->failed ? -1 : 0;
}

bool build_dump(json_t *document, struct buf *out) {
  if (!document)
    return false;
  bool ok = json_dump_callback(document, append, out, JSON_SORT_KEYS | JSON_INDENT(1)) == 0;
  buf_add_str(out, "\n");
  json_decref(document);
  return ok && !out->failed;
}

static json_t *name_json(const uint8_t *wire) {
  char text[NAME_MAX_TEXT];
  return json_string(name_to_text(text, wire));
}

static json_t *text_or_null(const char *text) {
  return text ? json_string(text) : json_null();
}

/* A new reference to something of the model, or null. */
static json_t *shared(json_t *value) {
  return value ? json_incref(value) : json_null();
}

static json_t *setting(const struct model *model, const char *key) {
  return shared(model->settings ? json_object_get(model->settings, key) : NULL);
}

static json_t *addresses_json(const struct steer_endpoint *endpoint) {
  json_t *list = json_array();
  char text[INET6_ADDRSTRLEN];
  bool ok = list;
  for (uint32_t i = 0; ok && i < endpoint->addr4_count; i++)
    ok = inet_ntop(AF_INET, endpoint->addr4[i], text, sizeof text) &&
         json_array_append_new(list, json_string(text)) == 0;
  for (uint32_t i = 0; ok && i < endpoint->addr6_count; i++)
    ok = inet_ntop(AF_INET6, endpoint->addr6[i], text, sizeof text) &&
         json_array_append_new(list, json_string(text)) == 0;
  if (ok)
    return list;
  json_decref(list);
  return NULL;
}

static json_t *endpoint_json(const struct steer_endpoint *endpoint, json_t *health) {
  json_t *object = json_pack("{s:b, s:O}", "enabled", endpoint->enabled, "health", health);
  int rc = -1;
  if (object && endpoint->host)
    rc = json_object_set_new(object, "host", name_json(endpoint->host));
  else if (object)
    rc = json_object_set_new(object, "addresses", addresses_json(endpoint));
  if (rc == 0)
    return object;
  json_decref(object);
  return NULL;
}

static json_t *endpoints_json(const struct model_domain *domain) {
  json_t *object = json_object();
  for (uint32_t i = 0; object && i < domain->steer->endpoint_count; i++) {
    const struct steer_endpoint *endpoint = &domain->steer->endpoints[i];
    json_t *health = json_object_get(domain->health, endpoint->name);
    if (!json_is_object(health))
      continue;
    if (json_object_set_new(object, endpoint->name, endpoint_json(endpoint, health)) == 0)
      continue;
    json_decref(object);
    return NULL;
  }
  return object;
}

static json_t *checks_entry(const struct model_zone *zone, const struct model_domain *domain) {
  return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "domain", name_json(domain->steer->owner),
                   "zone", name_json(zone->apex), "owner", text_or_null(domain->owner_text),
                   "alerts", shared(domain->alerts), "endpoints", endpoints_json(domain), "steer",
                   domain_json_encode(domain->steer));
}

/* "zone/name/domain.yaml": the path in the repository, wherever that was checked out. */
static const char *path_in_repository(const char *path) {
  if (!path)
    return NULL;
  unsigned slashes = 0;
  for (const char *p = path + strlen(path); p > path; p--)
    if (p[-1] == '/' && ++slashes == 3)
      return p;
  return path;
}

static json_t *domains_entry(const struct model_zone *zone, const struct model_domain *domain) {
  return json_pack(
      "{s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o}", "domain", name_json(domain->steer->owner), "zone",
      name_json(zone->apex), "owner", text_or_null(domain->owner_text), "path",
      text_or_null(path_in_repository(domain->path)), "ttl", (json_int_t)domain->steer->ttl,
      "profiles", shared(domain->profiles), "providers", shared(domain->providers), "steer",
      domain_json_encode(domain->steer));
}

/* One document in one line, without a line end; takes the reference over. */
static bool put_line(json_t *document, struct buf *out) {
  bool ok =
      document && json_dump_callback(document, append, out, JSON_SORT_KEYS | JSON_ENCODE_ANY) == 0;
  json_decref(document);
  return ok && !out->failed;
}

/* ---- checks.json ------------------------------------------------------------------------------
 */

static void put_separator(bool *first, struct buf *out) {
  buf_add_str(out, *first ? "\n" : ",\n");
  *first = false;
}

static bool put_checks(const struct model_zone *zone, bool *first, struct buf *out) {
  for (size_t i = 0; i < zone->domain_count; i++) {
    if (!zone->domains[i].health)
      continue;
    put_separator(first, out);
    if (!put_line(checks_entry(zone, &zone->domains[i]), out))
      return false;
  }
  return true;
}

/* The lines of a kept zone, which are the next ones (if it has any): both go by zone. */
static size_t put_kept_checks(const struct model_zone *zone, const struct kept_lines *kept,
                              size_t at, bool *first, struct buf *out) {
  char name[DOMAIN_LIST_KEY];
  kept_zone_name(zone->apex, name, sizeof name);
  for (; at < kept->count && kept_line_is_of(&kept->items[at], name); at++) {
    put_separator(first, out);
    buf_add(out, kept->items[at].text, kept->items[at].len);
  }
  return at;
}

bool build_checks_json(const struct model *model, const struct buf *before, struct buf *out) {
  struct kept_lines kept = {0};
  bool first = true;
  size_t at = 0;
  bool ok = !before || kept_lines_find(&kept, model, before);
  buf_add_str(out, "{\"domains\": [");
  for (size_t i = 0; ok && i < model->zone_count; i++)
    if (model->zones[i].kept)
      at = put_kept_checks(&model->zones[i], &kept, at, &first, out);
    else
      ok = put_checks(&model->zones[i], &first, out);
  kept_lines_free(&kept);
  buf_printf(out, "],\n\"format\": %d,\n\"routes\": ", CHECKS_FORMAT);
  ok = ok && put_line(setting(model, "alerts"), out);
  buf_add_str(out, "}\n");
  return ok && !out->failed;
}

/* ---- domains.json -----------------------------------------------------------------------------
 */

/* A domain, and what its line is sorted by.  Of a kept zone there is only the line. */
struct listed {
  const struct model_zone *zone;
  const struct model_domain *domain;
  const struct kept_line *line;
  char *key;
};

struct listing {
  struct listed *items;
  size_t count;
};

static int by_key(const void *a, const void *b) {
  const struct listed *x = a, *y = b;
  return strcmp(x->key, y->key);
}

static size_t count_domains(const struct model *model) {
  size_t count = 0;
  for (size_t i = 0; i < model->zone_count; i++)
    count += model->zones[i].domain_count;
  return count;
}

static bool add_domains(struct listing *list, const struct model *model) {
  for (size_t z = 0; z < model->zone_count; z++) {
    const struct model_zone *zone = &model->zones[z];
    for (size_t d = 0; d < zone->domain_count; d++) {
      char key[DOMAIN_LIST_KEY];
      domain_list_key(key, zone->domains[d].steer->owner);
      struct listed item = {.zone = zone, .domain = &zone->domains[d], .key = strdup(key)};
      if (!item.key)
        return false;
      list->items[list->count++] = item;
    }
  }
  return true;
}

/* A line begins with {"domain": "NAME"; the name is what it is sorted by. */
static bool add_kept(struct listing *list, const struct kept_lines *kept) {
  static const char start[] = "{\"domain\": \"";
  enum { START = sizeof start - 1 };
  for (size_t i = 0; i < kept->count; i++) {
    const struct kept_line *line = &kept->items[i];
    size_t end = START;
    if (line->len <= START || memcmp(line->text, start, START) != 0)
      return false;
    while (end < line->len && line->text[end] != '"')
      end += line->text[end] == '\\' ? 2 : 1;
    if (end > line->len)
      return false;
    struct listed item = {.line = line, .key = strndup(line->text + START, end - START)};
    if (!item.key)
      return false;
    list->items[list->count++] = item;
  }
  return true;
}

static bool put_domains(const struct model *model, const struct listing *list, struct buf *out) {
  bool ok = put_line(json_pack("{s:i, s:o, s:o, s:I}", "format", DOMAIN_LIST_FORMAT, "default_zone",
                               text_or_null(model->default_zone), "providers",
                               setting(model, "providers"), "domains", (json_int_t)list->count),
                     out);
  buf_add_str(out, "\n");
  for (size_t i = 0; ok && i < list->count; i++) {
    const struct listed *item = &list->items[i];
    if (item->line)
      buf_add(out, item->line->text, item->line->len);
    else
      ok = put_line(domains_entry(item->zone, item->domain), out);
    buf_add_str(out, "\n");
  }
  return ok && !out->failed;
}

bool build_domains_json(const struct model *model, const struct buf *before, struct buf *out) {
  struct kept_lines kept = {0};
  struct listing list = {0};
  bool ok = !before || kept_lines_find(&kept, model, before);
  if (ok)
    list.items = calloc(count_domains(model) + kept.count + 1, sizeof *list.items);
  ok = ok && list.items && add_domains(&list, model) && add_kept(&list, &kept);
  if (ok)
    qsort(list.items, list.count, sizeof *list.items, by_key);
  ok = ok && put_domains(model, &list, out);
  for (size_t i = 0; i < list.count; i++)
    free(list.items[i].key);
  free(list.items);
  kept_lines_free(&kept);
  return ok;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/names.h"

#include <stdlib.h>
#include <string.h>

#include "tools/cli.h"
#include "tools/client.h"

static bool names_open(struct name_zones *zones, size_t capacity) {
  *zones = (struct name_zones){0};
  zones->apexes = calloc(capacity + 1, sizeof *zones->apexes);
  return zones->apexes;
}

void names_close(struct name_zones *zones) {
  free(zones->apexes);
  *zones = (struct name_zones){0};
}

/* Reads an absolute name in lower case. */
static bool read_absolute(const char *text, uint8_t *out, const char **why) {
  uint8_t wire[NAME_BUF];
  if (!name_from_text(wire, text, strlen(text), NULL, why))
    return false;
  name_copy_lower(out, wire);
  return true;
}

static void set_default(struct name_zones *zones, const char *text) {
  const char *why;
  zones->has_default = text && read_absolute(text, zones->default_zone, &why);
}

/* Where there is one zone, it is the default. */
static void take_only_zone(struct name_zones *zones) {
  if (zones->has_default || zones->count != 1)
    return;
  name_copy_lower(zones->default_zone, zones->apexes[0]);
  zones->has_default = true;
}

bool names_from_model(struct name_zones *zones, const struct model *model) {
  if (!names_open(zones, model->zone_count))
    return false;
  for (size_t i = 0; i < model->zone_count; i++)
    name_copy_lower(zones->apexes[zones->count++], model->zones[i].apex);
  set_default(zones, model->default_zone);
  take_only_zone(zones);
  return true;
}

bool names_from_status(struct name_zones *zones, const json_t *build) {
  const json_t *list = json_object_get(build, "zones");
  if (!names_open(zones, json_array_size(list)))
    return false;
  size_t i;
  const json_t *zone;
  const char *why;
  json_array_foreach(list, i, zone) {
    const char *name = json_string_value(json_object_get(zone, "name"));
    if (name && read_absolute(name, zones->apexes[zones->count], &why))
      zones->count++;
  }
  set_default(zones, json_string_value(json_object_get(build, "default_zone")));
  take_only_zone(zones);
  return true;
}

static bool is_absolute_text(const char *text) {
  size_t n = strlen(text);
  if (!n || text[n - 1] != '.')
    return false;
  size_t backslashes = 0;
  while (backslashes < n - 1 && text[n - 2 - backslashes] == '\\')
    backslashes++;
  return backslashes % 2 == 0;
}

/* The root zone would make every name absolute: only a final dot does that there. */
static bool ends_in_a_zone(const struct name_zones *zones, const uint8_t *name) {
  for (size_t i = 0; i < zones->count; i++)
    if (zones->apexes[i][0] && name_is_below_or_equal(name, zones->apexes[i]))
      return true;
  return false;
}

bool names_resolve(const struct name_zones *zones, const char *text, uint8_t *out) {
  const char *why = "";
  if (!read_absolute(text, out, &why)) {
    cli_error("%s is not a domain name: %s", text, why);
    return false;
  }
  if (is_absolute_text(text) || ends_in_a_zone(zones, out))
    return true;
  if (!zones->has_default) {
    cli_error("%s ends in no zone and there is no default_zone; write the whole name", text);
    return false;
  }
  uint8_t wire[NAME_BUF];
  if (!name_from_text(wire, text, strlen(text), zones->default_zone, &why)) {
    cli_error("%s is not a domain name: %s", text, why);
    return false;
  }
  name_copy_lower(out, wire);
  return true;
}

/* ---- finding a domain ----------------------------------------------------------------------- */

static const struct model_zone *closest_zone(const struct model *model, const uint8_t *name) {
  const struct model_zone *best = NULL;
  unsigned best_labels = 0;
  for (size_t i = 0; i < model->zone_count; i++) {
    const struct model_zone *zone = &model->zones[i];
    unsigned labels = name_labels(zone->apex);
    if (!name_is_below_or_equal(name, zone->apex) || (best && labels <= best_labels))
      continue;
    best = zone;
    best_labels = labels;
  }
  return best;
}

static const struct model_domain *domain_at(const struct model_zone *zone, const uint8_t *owner) {
  for (size_t i = 0; i < zone->domain_count; i++)
    if (name_equal(zone->domains[i].steer->owner, owner))
      return &zone->domains[i];
  return NULL;
}

/* True if the name has records or has a name with records below it (RFC 4592 section 2.2.2). */
static bool exists(const struct model_zone *zone, const uint8_t *name) {
  for (size_t i = 0; i < zone->rr_count; i++)
    if (name_is_below_or_equal(zone->rrs[i].owner, name))
      return true;
  for (size_t i = 0; i < zone->domain_count; i++)
    if (name_is_below_or_equal(zone->domains[i].steer->owner, name))
      return true;
  return false;
}

const struct model_domain *names_find_domain(const struct model *model, const uint8_t *name) {
  const struct model_zone *zone = closest_zone(model, name);
  if (!zone)
    return NULL;
  const struct model_domain *domain = domain_at(zone, name);
  if (domain || exists(zone, name))
    return domain;
  const uint8_t *encloser = name;
  do
    encloser += *encloser + 1;
  while (*encloser && !exists(zone, encloser));
  uint8_t wildcard[NAME_BUF] = {1, '*'};
  name_copy_lower(wildcard + 2, encloser);
  return domain_at(zone, wildcard);
}

/* ---- with a server -------------------------------------------------------------------------- */

bool names_need_zones(const char *text) {
  return !is_absolute_text(text);
}

int names_resolve_with(const json_t *build, const char *text, char *out) {
  uint8_t wire[NAME_BUF];
  struct name_zones zones = {0};
  if (build && !names_from_status(&zones, build)) {
    cli_error("out of memory");
    return CLI_FAILED;
  }
  bool ok = names_resolve(&zones, text, wire);
  names_close(&zones);
  if (!ok)
    return CLI_USAGE;
  name_to_text(out, wire);
  return CLI_DONE;
}

int names_resolve_at_server(const char *socket_path, const char *text, char *out) {
  if (!names_need_zones(text))
    return names_resolve_with(NULL, text, out);
  json_t *reply;
  int status = client_call(socket_path, json_pack("{s:s}", "command", "status"), &reply);
  if (status != CLI_DONE)
    return status;
  status = names_resolve_with(json_object_get(reply, "build"), text, out);
  json_decref(reply);
  return status;
}

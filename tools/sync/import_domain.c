/* SPDX-License-Identifier: Apache-2.0 */
/* domain.yaml of each steered domain, and a defaults.yaml where there is none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "steering/atom.h"
#include "tools/sync/import.h"
#include "tools/sync/import_health.h"
#include "tools/sync/import_yaml.h"
#include "zones/domain_json.h"

enum { DEFINED_NAME_MAX = 63 };

/* ---- regions -------------------------------------------------------------------------------- */

static bool is_region_name(const char *name) {
  static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  size_t len = strlen(name);
  return len >= 1 && len <= DEFINED_NAME_MAX && strspn(name, allowed) == len &&
         !steer_atom_is_built_in_form(name);
}

static json_t *find_region(const json_t *regions, const char *name) {
  const char *key;
  json_t *atoms;
  json_object_foreach((json_t *)(uintptr_t)regions, key, atoms) {
    if (strcasecmp(key, name) == 0)
      return atoms;
  }
  return NULL;
}

static bool has_atom(const json_t *atoms, const json_t *atom) {
  size_t i;
  const json_t *item;
  json_array_foreach(atoms, i, item) {
    if (json_equal((json_t *)(uintptr_t)item, (json_t *)(uintptr_t)atom))
      return true;
  }
  return false;
}

static bool same_atoms(const json_t *a, const json_t *b) {
  size_t i;
  const json_t *atom;
  if (json_array_size(a) != json_array_size(b))
    return false;
  json_array_foreach(a, i, atom) {
    if (!has_atom(b, atom))
      return false;
  }
  return true;
}

/* "[country:fr, country:de]" */
static void list_atoms(const json_t *atoms, char *out, size_t size) {
  size_t at = 0;
  size_t i;
  const json_t *atom;
  out[0] = '\0';
  json_array_foreach(atoms, i, atom) {
    int n = snprintf(out + at, size - at, "%s%s", i ? ", " : "", json_string_value(atom));
    at += n > 0 ? (size_t)n : 0;
    if (at + 8 >= size)
      break;
  }
}

/* A region that is not its own atom must be defined in defaults.yaml, there or by us. */
static bool region_fits(const struct import *import, const struct steer_region *region,
                        const json_t *atoms, char *why, size_t size) {
  struct steer_atom atom;
  const char *reason = NULL;
  char list[256];
  if (steer_atom_parse(region->name, &atom, &reason)) {
    if (region->atom_count == 1 && steer_atom_equal(&region->atoms[0], &atom))
      return true;
    snprintf(why, size, "its region %.100s stands for other places than this name says",
             region->name);
    return false;
  }
  if (!is_region_name(region->name)) {
    snprintf(why, size, "its region cannot have the name %.100s in a configuration", region->name);
    return false;
  }
  const json_t *known =
      import->target ? json_object_get(import->target, "regions") : import->regions;
  const json_t *defined = find_region(known, region->name);
  if (defined && same_atoms(defined, atoms))
    return true;
  if (!defined && !import->target)
    return true;
  list_atoms(atoms, list, sizeof list);
  if (defined)
    snprintf(why, size, "its region %.63s is [%.250s], and not what %s of that name is",
             region->name, list,
             import->target ? "the region of defaults.yaml" : "another domain's");
  else
    snprintf(why, size,
             "defaults.yaml does not define its region %.63s; add `%.63s: [%.220s]` to `regions:` "
             "there and import again",
             region->name, region->name, list);
  return false;
}

bool import_domain_fits(struct import *import, const struct steer_domain *steer, char *why,
                        size_t size) {
  json_t *document = domain_json_encode(steer);
  const json_t *regions = json_object_get(document, "regions");
  bool ok = document;
  snprintf(why, size, "out of memory");
  for (uint32_t i = 0; ok && i < steer->region_count; i++)
    ok = region_fits(import, &steer->regions[i],
                     json_object_get(json_array_get(regions, i), "atoms"), why, size);
  for (uint32_t i = 0; ok && !import->target && i < steer->region_count; i++) {
    struct steer_atom atom;
    const char *reason = NULL;
    const char *name = steer->regions[i].name;
    if (!steer_atom_parse(name, &atom, &reason) && !find_region(import->regions, name))
      ok = json_object_set(import->regions, name,
                           json_object_get(json_array_get(regions, i), "atoms")) == 0;
  }
  json_decref(document);
  return ok;
}

/* ---- domain.yaml ---------------------------------------------------------------------------- */

static void write_texts(struct yaml_out *yaml, const json_t *list) {
  size_t i;
  const json_t *item;
  yaml_out_list(yaml, true);
  json_array_foreach(list, i, item) yaml_out_text(yaml, json_string_value(item));
  yaml_out_end_list(yaml);
}

/* An address, a list of some, or a host name. */
static void write_target(struct yaml_out *yaml, const json_t *endpoint) {
  const char *host = json_string_value(json_object_get(endpoint, "host"));
  const json_t *addresses = json_object_get(endpoint, "addresses");
  if (host)
    yaml_out_text(yaml, host);
  else if (json_array_size(addresses) == 1)
    yaml_out_text(yaml, json_string_value(json_array_get(addresses, 0)));
  else
    write_texts(yaml, addresses);
}

/* `health` is what the endpoint has for itself, or NULL. */
static void write_endpoint(struct yaml_out *yaml, const json_t *endpoint, const json_t *health) {
  bool enabled = json_is_true(json_object_get(endpoint, "enabled"));
  yaml_out_text(yaml, json_string_value(json_object_get(endpoint, "name")));
  if (enabled && json_object_size(health) == 0) {
    write_target(yaml, endpoint);
    return;
  }
  yaml_out_map(yaml, true);
  yaml_out_text(yaml, json_object_get(endpoint, "host") ? "host" : "addresses");
  write_target(yaml, endpoint);
  if (!enabled) {
    yaml_out_text(yaml, "enabled");
    yaml_out_bool(yaml, false);
  }
  if (json_object_size(health) > 0) {
    yaml_out_text(yaml, "health");
    import_health_write(yaml, health);
  }
  yaml_out_end_map(yaml);
}

static void write_level(struct yaml_out *yaml, const json_t *level) {
  size_t i;
  const json_t *entry;
  yaml_out_map(yaml, true);
  json_array_foreach(level, i, entry) {
    yaml_out_text(yaml, json_string_value(json_array_get(entry, 0)));
    yaml_out_number(yaml, (uint64_t)json_integer_value(json_array_get(entry, 1)));
  }
  yaml_out_end_map(yaml);
}

static void write_region(struct yaml_out *yaml, const json_t *region) {
  const json_t *levels = json_object_get(region, "levels");
  size_t i;
  const json_t *level;
  yaml_out_text(yaml, json_string_value(json_object_get(region, "name")));
  if (json_array_size(levels) == 1) {
    write_level(yaml, json_array_get(levels, 0));
    return;
  }
  yaml_out_list(yaml, false);
  json_array_foreach(levels, i, level) write_level(yaml, level);
  yaml_out_end_list(yaml);
}

/* True if the domain offers less than its endpoints have. */
static bool is_restricted(const struct steer_domain *steer) {
  bool has[STEER_TYPES] = {false};
  for (uint32_t i = 0; i < steer->endpoint_count; i++) {
    has[STEER_A] = has[STEER_A] || steer->endpoints[i].addr4_count > 0;
    has[STEER_AAAA] = has[STEER_AAAA] || steer->endpoints[i].addr6_count > 0;
  }
  return !steer->offers[STEER_CNAME] &&
         (has[STEER_A] != steer->offers[STEER_A] || has[STEER_AAAA] != steer->offers[STEER_AAAA]);
}

static void write_options(struct yaml_out *yaml, const struct steer_domain *steer,
                          const json_t *document) {
  yaml_out_text(yaml, "ttl");
  yaml_out_number(yaml, steer->ttl);
  if (steer->answers > 1) {
    yaml_out_text(yaml, "answers");
    yaml_out_number(yaml, steer->answers);
  }
  if (steer->draw_per == DRAW_PER_SUBNET) {
    yaml_out_text(yaml, "draw_per");
    yaml_out_text(yaml, "subnet");
  }
  if (is_restricted(steer)) {
    yaml_out_text(yaml, "types");
    write_texts(yaml, json_object_get(document, "types"));
  }
}

/* What is lost at this provider has been agreed to, or it would not be there. */
static void write_losses(struct yaml_out *yaml, const struct import *import,
                         const struct provider_fidelity *fidelity) {
  const char *name = import->provider.name;
  bool any = false;
  for (int i = 0; i < PROVIDER_LAYERS; i++)
    any = any || fidelity->grade[i] == FIDELITY_LOST;
  if (!any || strcmp(name, "sluice") == 0 ||
      (import->target && !json_object_get(json_object_get(import->target, "providers"), name)))
    return;
  yaml_out_text(yaml, "providers");
  yaml_out_map(yaml, true);
  yaml_out_text(yaml, name);
  yaml_out_map(yaml, true);
  yaml_out_text(yaml, "allow_loss");
  yaml_out_list(yaml, true);
  for (int i = 0; i < PROVIDER_LAYERS; i++)
    if (fidelity->grade[i] == FIDELITY_LOST)
      yaml_out_text(yaml, provider_layer_name((enum provider_layer)i));
  yaml_out_end_list(yaml);
  yaml_out_end_map(yaml);
  yaml_out_end_map(yaml);
}

static bool write_domain(const struct import *import, const struct import_domain *domain,
                         const json_t *document, struct buf *out) {
  size_t i;
  const json_t *item;
  json_t *common = domain->health ? import_health_common(domain->health) : NULL;
  struct yaml_out *yaml = yaml_out_open(out);
  if (!yaml) {
    json_decref(common);
    return false;
  }
  yaml_out_map(yaml, false);
  write_options(yaml, domain->steer, document);
  yaml_out_text(yaml, "endpoints");
  yaml_out_map(yaml, false);
  json_array_foreach(json_object_get(document, "endpoints"), i, item) {
    const char *name = json_string_value(json_object_get(item, "name"));
    json_t *own = import_health_own(json_object_get(domain->health, name), common);
    write_endpoint(yaml, item, own);
    json_decref(own);
  }
  yaml_out_end_map(yaml);
  yaml_out_text(yaml, "regions");
  yaml_out_map(yaml, false);
  json_array_foreach(json_object_get(document, "regions"), i, item) write_region(yaml, item);
  yaml_out_end_map(yaml);
  if (common) {
    yaml_out_text(yaml, "health");
    import_health_write(yaml, common);
    json_decref(common);
  }
  write_losses(yaml, import, &domain->fidelity);
  yaml_out_end_map(yaml);
  return yaml_out_close(yaml);
}

bool import_domain_texts(struct import *import) {
  bool ok = true;
  for (size_t i = 0; ok && i < import->domain_count; i++) {
    const struct import_domain *domain = &import->domains[i];
    if (domain->dropped)
      continue;
    json_t *document = domain_json_encode(domain->steer);
    struct buf *text = import_add_file(import, import->directory, domain->directory, "domain.yaml");
    ok = document && text && write_domain(import, domain, document, text);
    json_decref(document);
  }
  return ok;
}

/* ---- defaults.yaml -------------------------------------------------------------------------- */

static void write_provider(struct yaml_out *yaml, const struct sync_provider *provider) {
  const char *key;
  json_t *value;
  yaml_out_text(yaml, "providers");
  yaml_out_map(yaml, false);
  yaml_out_text(yaml, provider->name);
  yaml_out_map(yaml, true);
  json_object_foreach(provider->settings, key, value) {
    char ms[32];
    yaml_out_text(yaml, key);
    snprintf(ms, sizeof ms, "%lldms", (long long)json_integer_value(value)); /* `timeout` */
    if (json_is_array(value))
      write_texts(yaml, value);
    else
      yaml_out_text(yaml, json_is_integer(value) ? ms : json_string_value(value));
  }
  yaml_out_end_map(yaml);
  yaml_out_end_map(yaml);
}

bool import_defaults_text(struct import *import) {
  const char *name;
  json_t *atoms;
  if (import->target)
    return true;
  struct buf *out = import_add_file(import, NULL, NULL, "defaults.yaml");
  struct yaml_out *yaml = out ? yaml_out_open(out) : NULL;
  if (!yaml)
    return false;
  yaml_out_map(yaml, false);
  yaml_out_text(yaml, "default_zone");
  yaml_out_text(yaml, import->directory);
  if (strcmp(import->provider.name, "sluice") != 0)
    write_provider(yaml, &import->provider);
  if (json_object_size(import->regions) > 0) {
    yaml_out_text(yaml, "regions");
    yaml_out_map(yaml, false);
    json_object_foreach(import->regions, name, atoms) {
      yaml_out_text(yaml, name);
      write_texts(yaml, atoms);
    }
    yaml_out_end_map(yaml);
  }
  yaml_out_end_map(yaml);
  return yaml_out_close(yaml);
}

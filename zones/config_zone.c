/* SPDX-License-Identifier: Apache-2.0 */
/* zone.yaml: SOA, NS, static records, the master file. */
#include <stdio.h>
#include <stdlib.h>

#include "zones/config.h"
#include "zones/host_name.h"
#include "zones/record.h"
#include "zones/rr_list.h"
#include "zones/zone_check.h"
#include "zones/zonefile.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { DEFAULT_TTL = 3600, PATH_SIZE = 4096 };

/* One zone being read. */
struct zone_reading {
  struct config *config;
  struct config_file file;
  const char *path; /* of zone.yaml, relative to the root */
  struct model_zone *zone;
  struct rr_list list;
  struct record_rdata *rdata;
  uint32_t ttl;
};

static bool add(struct zone_reading *z, uint8_t *owner, uint16_t type, uint32_t ttl,
                const struct yaml_node *node) {
  if (owner != NULL && rr_list_add(&z->list, owner, type, ttl, z->rdata->data, z->rdata->len,
                                   config_pos(&z->file, node)))
    return true;
  return config_no_memory(z->config);
}

/* ---- SOA and NS -------------------------------------------------------------------------------
 */

static void put_u32(struct record_rdata *rdata, uint32_t v) {
  uint8_t octets[4] = {(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v};
  memcpy(rdata->data + rdata->len, octets, 4);
  rdata->len = (uint16_t)(rdata->len + 4);
}

static bool put_soa_name(struct zone_reading *z, const struct yaml_node *soa_key,
                         const struct yaml_node *soa, const char *key) {
  uint8_t name[NAME_BUF];
  char what[24];
  const struct yaml_node *node = yaml_get(soa, key);
  snprintf(what, sizeof what, "`%s`", key);
  if (node == NULL) {
    config_error(&z->file, soa_key, "`soa` needs `%s`, %s", key,
                 strcmp(key, "mname") == 0
                     ? "the primary name server (ns1.example.com.)"
                     : "the mailbox of the operator (hostmaster.example.com.)");
    return false;
  }
  if (node->kind == YAML_SCALAR && node->len > 1 && strchr(node->text, '@') != NULL) {
    config_error(&z->file, node,
                 "%s is written as a name: hostmaster.example.com. and not "
                 "hostmaster@example.com",
                 what);
    return false;
  }
  if (!config_host(&z->file, node, what, name))
    return false;
  size_t len = name_wire_len(name, NAME_MAX_WIRE);
  memcpy(z->rdata->data + z->rdata->len, name, len);
  z->rdata->len = (uint16_t)(z->rdata->len + len);
  return true;
}

static void read_soa(struct zone_reading *z, const struct yaml_node *soa_key,
                     const struct yaml_node *soa) {
  static const char *const keys[] = {"mname", "rname", "refresh", "retry", "expire", "minimum"};
  static const uint32_t gaps[] = {0, 0, 7200, 900, 1209600, 60};
  if (soa->kind == YAML_MAP && yaml_get_key(soa, "serial") != NULL) {
    config_error(&z->file, yaml_get_key(soa, "serial"),
                 "`serial` is not written by people; every deploy makes it. Remove it");
    return;
  }
  bool ok = config_keys(&z->file, soa, "`soa`", keys, COUNT(keys));
  if (soa->kind != YAML_MAP)
    return;
  z->rdata->len = 0;
  ok = put_soa_name(z, soa_key, soa, "mname") && ok;
  ok = put_soa_name(z, soa_key, soa, "rname") && ok;
  if (ok)
    put_u32(z->rdata, 0); /* the serial */
  for (size_t i = 2; i < COUNT(keys); i++) {
    const struct yaml_node *node = yaml_get(soa, keys[i]);
    uint32_t v = gaps[i];
    char what[24];
    snprintf(what, sizeof what, "`%s`", keys[i]);
    if (node != NULL)
      ok = config_seconds(&z->file, node, what, &v) && ok;
    if (ok)
      put_u32(z->rdata, v);
  }
  if (ok)
    add(z, rr_list_owner(&z->list, z->zone->apex), RECORD_SOA, z->ttl, soa_key);
}

static void read_ns(struct zone_reading *z, const struct yaml_node *ns) {
  char show[CONFIG_SHOW];
  if (ns->kind == YAML_MAP || (ns->kind == YAML_LIST && ns->count == 0)) {
    config_error(&z->file, ns,
                 "`ns` must be a list of name servers, as [ns1.example.com.]; this "
                 "is %s",
                 ns->kind == YAML_MAP ? config_show(ns, show) : "an empty list");
    return;
  }
  uint8_t *apex = rr_list_owner(&z->list, z->zone->apex);
  size_t count = ns->kind == YAML_LIST ? ns->count : 1;
  for (size_t i = 0; i < count; i++) {
    const struct yaml_node *node = ns->kind == YAML_LIST ? ns->items[i] : ns;
    uint8_t name[NAME_BUF];
    if (!config_host(&z->file, node, "`ns`", name))
      continue;
    z->rdata->len = (uint16_t)name_wire_len(name, NAME_MAX_WIRE);
    memcpy(z->rdata->data, name, z->rdata->len);
    add(z, apex, RECORD_NS, z->ttl, node);
  }
}

/* ---- records ----------------------------------------------------------------------------------
 */

static bool read_value_words(struct zone_reading *z, uint16_t type, const struct yaml_node *node) {
  struct master_text text;
  struct master_entry entry;
  struct master_word where;
  const char *reason = NULL;
  char why[RECORD_WHY];
  char name[16];
  char show[CONFIG_SHOW];
  size_t bad;
  master_text_init(&text, node->text, node->len);
  text.single = true;
  enum master_result result = master_text_next(&text, &entry, &where, &reason);
  bool ok = false;
  if (result == MASTER_BAD)
    snprintf(why, sizeof why, "%s", reason);
  else if (result == MASTER_END)
    snprintf(why, sizeof why, "it is empty");
  else
    ok = record_read(type, entry.words, entry.count, NULL, z->rdata, &bad, why);
  if (!ok)
    config_error(&z->file, node, "bad %s record %s: %s", record_type_text(type, name),
                 config_show(node, show), why);
  master_text_close(&text);
  return ok;
}

static void read_value(struct zone_reading *z, uint8_t *owner, uint16_t type, uint32_t ttl,
                       const struct yaml_node *node) {
  char why[RECORD_WHY];
  char name[16];
  char show[CONFIG_SHOW];
  if (node->kind != YAML_SCALAR) {
    const struct yaml_node *key =
        node->kind == YAML_MAP && node->count > 0 ? node->pairs[0].key : NULL;
    config_error(&z->file, node,
                 key != NULL && type == RECORD_AAAA
                     ? "the value of a %s record must be a text, this is %s; an IPv6 address that "
                       "ends in `:` must stand in quotes"
                     : "the value of a %s record must be a text, this is %s; put it in quotes",
                 record_type_text(type, name), config_show(node, show));
    return;
  }
  bool text = type == RECORD_TXT || type == RECORD_SPF;
  if (text) {
    if (!record_from_text(node->text, node->len, z->rdata, why)) {
      config_error(&z->file, node, "bad %s record: %s", record_type_text(type, name), why);
      return;
    }
  } else if (!read_value_words(z, type, node)) {
    return;
  }
  add(z, owner, type, ttl, node);
}

static void read_values(struct zone_reading *z, uint8_t *owner, uint16_t type, uint32_t ttl,
                        const struct yaml_node *node) {
  if (node->kind != YAML_LIST) {
    read_value(z, owner, type, ttl, node);
    return;
  }
  if (node->count == 0)
    config_error(&z->file, node, "an empty list of records; give a value or remove the type");
  for (size_t i = 0; i < node->count; i++)
    read_value(z, owner, type, ttl, node->items[i]);
}

/* Value, list, or {ttl, values}. */
static void read_rrset(struct zone_reading *z, uint8_t *owner, uint16_t type,
                       const struct yaml_node *node) {
  static const char *const keys[] = {"ttl", "values"};
  const struct yaml_node *values = yaml_get(node, "values");
  const struct yaml_node *ttl_node = yaml_get(node, "ttl");
  uint32_t ttl = z->ttl;
  if (node->kind != YAML_MAP || (values == NULL && ttl_node == NULL && node->flow)) {
    read_values(z, owner, type, ttl, node);
    return;
  }
  config_keys(&z->file, node, "a record with a TTL of its own", keys, COUNT(keys));
  if (ttl_node != NULL && !config_seconds(&z->file, ttl_node, "`ttl`", &ttl))
    ttl = z->ttl;
  if (values == NULL)
    config_error(&z->file, node, "`values` is missing; write {ttl: 60, values: [...]}");
  else
    read_values(z, owner, type, ttl, values);
}

static void read_name_records(struct zone_reading *z, const struct yaml_pair *pair) {
  char why[HOST_NAME_WHY];
  char show[CONFIG_SHOW];
  char zone[NAME_MAX_TEXT];
  uint8_t name[NAME_BUF] = {0};
  const struct yaml_node *key = pair->key;
  if (!host_name_read_owner(name, key->text, key->len, z->zone->apex, why)) {
    config_error(&z->file, key, "%s is not a domain name: %s", config_show(key, show), why);
    return;
  }
  if (!name_is_below_or_equal(name, z->zone->apex)) {
    config_error(&z->file, key,
                 "%s is outside of the zone `%s`; write names relative to the zone, without a "
                 "final dot",
                 config_show(key, show), name_to_text(zone, z->zone->apex));
    return;
  }
  if (!config_is_map(&z->file, pair->value, "the records of a name"))
    return;
  uint8_t *owner = rr_list_owner(&z->list, name);
  for (size_t i = 0; i < pair->value->count; i++) {
    const struct yaml_node *type_key = pair->value->pairs[i].key;
    const struct yaml_node *value = pair->value->pairs[i].value;
    uint16_t type = record_type(type_key->text, type_key->len);
    if (type == 0)
      config_error(&z->file, type_key,
                   "unknown record type %s; a type without a name is written as TYPE65400",
                   config_show(type_key, show));
    else if (type == RECORD_SOA)
      config_error(&z->file, type_key, "a SOA is written under `soa:`, not among the records");
    else
      read_rrset(z, owner, type, value);
  }
}

static void read_records(struct zone_reading *z, const struct yaml_node *records) {
  if (!config_is_map(&z->file, records, "`records`"))
    return;
  for (size_t i = 0; i < records->count; i++)
    read_name_records(z, &records->pairs[i]);
}

/* ---- the master file --------------------------------------------------------------------------
 */

/* The serial of a managed zone belongs to the deploy. */
static void clear_serial(struct model_rr *rr) {
  if (rr->type == RECORD_SOA && rr->rdata_len >= 20)
    memset(rr->rdata + rr->rdata_len - 20, 0, 4);
}

static void read_zonefile(struct zone_reading *z, const struct yaml_node *node,
                          const struct yaml_node *soa) {
  char path[PATH_SIZE];
  char show[CONFIG_SHOW];
  if (!config_text(&z->file, node, "`zonefile`"))
    return;
  if (!zonefile_resolve(z->path, node->text, path, sizeof path)) {
    config_error(&z->file, node,
                 "`zonefile`: %s leaves the repository; name a file inside of it, relative to this "
                 "directory",
                 config_show(node, show));
    return;
  }
  uint8_t *data = NULL;
  size_t len = 0;
  char why[512];
  if (!z->config->source->read(z->config->source, path, ZONEFILE_MAX_BYTES, &data, &len, why)) {
    config_error(&z->file, node, "`zonefile`: %s", why);
    return;
  }
  size_t before = z->list.count;
  struct zonefile zonefile = {.source = z->config->source,
                              .apex = z->zone->apex,
                              .list = &z->list,
                              .problems = z->config->problems,
                              .utf8 = true};
  zonefile_read_text(&zonefile, path, (const char *)data, len);
  free(data);
  size_t kept = before;
  for (size_t i = before; i < z->list.count; i++) {
    struct model_rr *rr = &z->list.rrs[i];
    clear_serial(rr);
    if (rr->type == RECORD_SOA && soa != NULL && name_equal(rr->owner, z->zone->apex))
      config_error(&z->file, soa, "the SOA stands here and in %s (line %u); keep one of them",
                   rr->pos.path, rr->pos.line);
    else
      z->list.rrs[kept++] = *rr;
  }
  z->list.count = kept;
}

/* ---- all together -----------------------------------------------------------------------------
 */

static void read_root(struct zone_reading *z, const struct yaml_node *root) {
  static const char *const keys[] = {"ttl",      "soa",       "ns",       "records",
                                     "zonefile", "providers", "transfer", "dnssec"};
  const struct yaml_node *node;
  config_keys(&z->file, root, "zone.yaml", keys, COUNT(keys));
  if (root->kind != YAML_MAP)
    return;
  z->ttl = DEFAULT_TTL;
  if ((node = yaml_get(root, "ttl")) != NULL && !config_seconds(&z->file, node, "`ttl`", &z->ttl))
    z->ttl = DEFAULT_TTL;
  if ((node = yaml_get_key(root, "dnssec")) != NULL)
    config_error(&z->file, node, "`dnssec` is reserved: zones cannot be signed yet; remove it");
  const struct yaml_node *soa = yaml_get(root, "soa");
  if (soa != NULL)
    read_soa(z, yaml_get_key(root, "soa"), soa);
  if ((node = yaml_get(root, "ns")) != NULL)
    read_ns(z, node);
  if ((node = yaml_get(root, "records")) != NULL)
    read_records(z, node);
  if ((node = yaml_get(root, "zonefile")) != NULL)
    read_zonefile(z, node, yaml_get_key(root, "soa"));
  if ((node = yaml_get(root, "providers")) != NULL)
    z->zone->providers = config_zone_providers(z->config, &z->file, node);
  if ((node = yaml_get(root, "transfer")) != NULL)
    z->zone->transfer = config_zone_transfer(&z->file, node);
}

static void read_zone(struct config *config, const char *path, struct arena *tree,
                      struct model_zone *zone) {
  struct zone_reading z = {.config = config, .path = path, .zone = zone};
  size_t errors = config->problems->errors;
  z.list.memory = config->model->memory;
  zone->serial_mode = SERIAL_MANAGED;
  const struct yaml_node *root = config_parse(config, path, tree, &z.file);
  if (root == NULL)
    return;
  z.rdata = malloc(sizeof *z.rdata);
  if (z.rdata == NULL) {
    config_no_memory(config);
    return;
  }
  read_root(&z, root);
  free(z.rdata);
  if (!rr_list_sort(&z.list, zone->apex, false, config->problems))
    config_no_memory(config);
  zone->rrs = z.list.rrs;
  zone->rr_count = z.list.count;
  /* A SOA or NS that could not be read is not missing as well. */
  struct zone_check check = {zone, z.file.path, config->problems,
                             yaml_get(root, "soa") != NULL || yaml_get(root, "zonefile") != NULL,
                             yaml_get(root, "ns") != NULL};
  check.soa_reported = check.soa_reported && config->problems->errors > errors;
  check.ns_reported = (check.ns_reported || yaml_get(root, "zonefile") != NULL) &&
                      config->problems->errors > errors;
  zone_check_run(&check);
}

void config_zone_read(struct config *config, const char *path, struct model_zone *zone) {
  struct arena tree;
  arena_init(&tree);
  read_zone(config, path, &tree, zone);
  arena_close(&tree);
}

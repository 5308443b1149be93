/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Route 53 says: pages of record sets ("s..."), of health checks ("h...") or of zones
 * ("z...").  What is read must be whole, and each object must be one that can be deleted as it was
 * read.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/providers/route53_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
  if (!condition)
    abort();
}

static void use(const struct provider_objects *objects) {
  const struct provider_object *list[64];
  size_t count = 0;
  for (size_t i = 0; i < objects->count; i++) {
    const struct provider_object *o = &objects->items[i];
    struct buf out;
    size_t records = 0;
    size_t chars = 0;
    require(o->key && o->name && o->type && json_is_object(o->body) && json_is_object(o->raw));
    buf_init(&out);
    if (strcmp(o->type, ROUTE53_HEALTH) != 0)
      require(route53_write_change(&out, "DELETE", o, NULL, "Z", &records, &chars));
    buf_close(&out);
    if (o->domain && count < 64)
      list[count++] = o;
  }
  struct provider_error error = {0};
  json_t *document = count ? route53_decompile("p", list, count, &error) : NULL;
  require(count == 0 || document || error.text[0]);
  json_decref(document);
}

/* Names and ids stand in paths and messages later. */
static void use_zones(const xmlNode *root) {
  json_t *zones = json_object();
  const char *name;
  const json_t *ids;
  bool whole = route53_read_zones(zones, root);
  json_object_foreach(zones, name, ids) {
    size_t i;
    const json_t *id;
    char same[NAME_MAX_TEXT];
    require(route53_name(name, same) && (!whole || json_array_size(ids) > 0));
    json_array_foreach(ids, i, id) {
      char text[ROUTE53_ID];
      require(route53_take_id(json_string_value(id), "", text));
    }
  }
  json_decref(zones);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2)
    return 0;
  struct provider_objects objects;
  provider_objects_init(&objects);
  struct route53_reading reading = {.marker = "sluice",
                                    .zone = "e.test.",
                                    .prefix = "sluice:0123abcd",
                                    .out = &objects,
                                    .checks = json_object(),
                                    .ids = json_object(),
                                    .seen = json_object()};
  xmlDoc *doc = route53_parse((const char *)data + 1, size - 1, NULL);
  const xmlNode *root = doc ? xmlDocGetRootElement(doc) : NULL;
  if (root && data[0] == 'z')
    use_zones(root);
  else if (root &&
           (data[0] == 'h' ? route53_read_checks(&reading, root)
                           : route53_read_sets(&reading, root)) &&
           route53_link_checks(&reading))
    use(&objects);
  xmlFreeDoc(doc);
  json_decref(reading.checks);
  json_decref(reading.ids);
  json_decref(reading.seen);
  provider_objects_close(&objects);
  return 0;
}

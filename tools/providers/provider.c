/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds that there are, and what all of them use. */
#include "tools/providers/provider.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct provider_kind *const kinds[] = {
    &provider_ns1, &provider_powerdns, &provider_rfc2136, &provider_route53, &provider_sluice,
};

static const char types[] = "ns1, powerdns, rfc2136, route53, sluice";

const struct provider_kind *provider_find(const char *type) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(kinds[i]->type, type) == 0)
      return kinds[i];
  return NULL;
}

const char *provider_types(void) {
  return types;
}

const char *provider_layer_name(enum provider_layer layer) {
  static const char *const names[PROVIDER_LAYERS] = {"geo", "status", "priority", "weight"};
  return names[layer];
}

bool provider_fail(struct provider_error *error, enum provider_failure failure, const char *format,
                   ...) {
  va_list args;
  error->failure = failure;
  va_start(args, format);
  vsnprintf(error->text, sizeof error->text, format, args);
  va_end(args);
  for (char *c = error->text; *c; c++)
    if ((unsigned char)*c < 0x20 || *c == 0x7f)
      *c = '?';
  return false;
}

/* ---- objects -------------------------------------------------------------------------------- */

void provider_objects_init(struct provider_objects *objects) {
  *objects = (struct provider_objects){0};
}

static void free_object(struct provider_object *object) {
  free(object->key);
  free(object->name);
  free(object->type);
  free(object->domain);
  free(object->owner);
  json_decref(object->body);
  json_decref(object->raw);
}

void provider_objects_close(struct provider_objects *objects) {
  for (size_t i = 0; i < objects->count; i++)
    free_object(&objects->items[i]);
  free(objects->items);
  *objects = (struct provider_objects){0};
}

struct provider_object *provider_objects_add(struct provider_objects *objects) {
  /* Grows at 8, 16, 32, ... */
  if (objects->count == 0 ||
      (objects->count >= 8 && (objects->count & (objects->count - 1)) == 0)) {
    size_t cap = objects->count == 0 ? 8 : objects->count * 2;
    struct provider_object *items = realloc(objects->items, cap * sizeof *items);
    if (!items)
      return NULL;
    objects->items = items;
  }
  struct provider_object *object = &objects->items[objects->count++];
  *object = (struct provider_object){0};
  return object;
}

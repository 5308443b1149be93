/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/name.h"
#include "zones/build.h"
#include "zones/build_lists.h"
#include "zones/builddir.h"
#include "zones/host_name.h"

enum {
  FORMAT = 1,
  FILE_LIMIT = 256 << 20,
  MOST_PAIRS = 100000000, /* of kept and changed zones that are compared */
};

static const char file_name[] = "zone.yaml";

/* A directory at the root. */
struct directory {
  char *name;
  char tree[GIT_REPO_ID];
  uint8_t apex[NAME_BUF]; /* of the zone that it would be */
  bool is_name;           /* there is such a zone's name */
  bool kept;
};

struct inputs {
  char key[BUILDDIR_SHA + 1];
  struct directory *items; /* sorted by name */
  size_t count;
  size_t cap;
  char defaults[GIT_REPO_ID];
};

/* ---- what there is ----------------------------------------------------------------------------
 */

static bool visit_root(void *arg, const char *name, const char *id, bool directory) {
  struct inputs *inputs = arg;
  char why[HOST_NAME_WHY];
  if (!directory) {
    if (!strcmp(name, "defaults.yaml"))
      memcpy(inputs->defaults, id, sizeof inputs->defaults);
    return true;
  }
  if (inputs->count == inputs->cap) {
    size_t cap = inputs->cap ? inputs->cap * 2 : 64;
    struct directory *items = realloc(inputs->items, cap * sizeof *items);
    if (!items)
      return false;
    inputs->items = items;
    inputs->cap = cap;
  }
  struct directory *d = &inputs->items[inputs->count];
  uint8_t apex[NAME_BUF] = {0};
  memset(d, 0, sizeof *d);
  d->name = strdup(name);
  if (!d->name)
    return false;
  memcpy(d->tree, id, sizeof d->tree);
  d->is_name = host_name_read_zone(apex, name, strlen(name), why);
  if (d->is_name)
    name_copy_lower(d->apex, apex);
  inputs->count++;
  return true;
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct directory *)a)->name, ((const struct directory *)b)->name);
}

static const struct directory *find(const struct inputs *inputs, const char *name) {
  struct directory wanted = {.name = (char *)(uintptr_t)name};
  return inputs->count
             ? bsearch(&wanted, inputs->items, inputs->count, sizeof *inputs->items, by_name)
             : NULL;
}

static bool make_key(struct inputs *inputs, const char *machine) {
  struct buf text;
  buf_init(&text);
  buf_printf(&text, "sluice inputs %d\n%s\n%s\n%s\n", FORMAT, build_builder(), inputs->defaults,
             machine);
  bool ok = !text.failed && builddir_sha(text.data, text.len, inputs->key);
  buf_close(&text);
  return ok;
}

struct inputs *inputs_new(struct config_source *source, const char *machine) {
  struct inputs *inputs = calloc(1, sizeof *inputs);
  if (inputs && source_git_roots(source, visit_root, inputs) && make_key(inputs, machine)) {
    if (inputs->count > 1)
      qsort(inputs->items, inputs->count, sizeof *inputs->items, by_name);
    return inputs;
  }
  inputs_free(inputs);
  return NULL;
}

void inputs_free(struct inputs *inputs) {
  if (!inputs)
    return;
  for (size_t i = 0; i < inputs->count; i++)
    free(inputs->items[i].name);
  free(inputs->items);
  free(inputs);
}

/* ---- what is as before ------------------------------------------------------------------------
 */

/* inputs.json of a build; NULL if it has none that can be used. */
static json_t *read_file(const char *data_dir, const char *build) {
  char name[64];
  char why[FS_WHY];
  uint8_t *text = NULL;
  size_t len = 0;
  snprintf(name, sizeof name, "builds/%.16s/inputs.json", build);
  char *path = fs_join(data_dir, name);
  json_t *root = NULL;
  if (path && fs_read(path, FILE_LIMIT, &text, &len, why))
    root = json_loadb((const char *)text, len, 0, NULL);
  free(text);
  free(path);
  return root;
}

static bool are_related(const struct directory *a, const struct directory *b) {
  return name_is_below_or_equal(a->apex, b->apex) || name_is_below_or_equal(b->apex, a->apex);
}

/* Zones that are checked against a changed one are read, too. */
static void drop_relatives(struct inputs *inputs, size_t kept) {
  size_t changed = inputs->count - kept;
  if (changed > 0 && kept > MOST_PAIRS / changed) {
    for (size_t i = 0; i < inputs->count; i++)
      inputs->items[i].kept = false;
    return;
  }
  bool *same = calloc(inputs->count + 1, sizeof *same);
  for (size_t i = 0; same && i < inputs->count; i++)
    same[i] = inputs->items[i].kept;
  for (size_t i = 0; i < inputs->count; i++) {
    struct directory *d = &inputs->items[i];
    if (!same)
      d->kept = false;
    for (size_t j = 0; d->kept && j < inputs->count; j++)
      d->kept = same[j] || !inputs->items[j].is_name || !are_related(d, &inputs->items[j]);
  }
  free(same);
}

void inputs_keep(struct inputs *inputs, const char *data_dir, char *base) {
  build_current(data_dir, base);
  json_t *before = *base ? read_file(data_dir, base) : NULL;
  const char *key = json_string_value(json_object_get(before, "key"));
  const json_t *zones = json_object_get(before, "zones");
  size_t kept = 0;
  for (size_t i = 0; key && !strcmp(key, inputs->key) && i < inputs->count; i++) {
    struct directory *d = &inputs->items[i];
    const char *tree = json_string_value(json_object_get(zones, d->name));
    d->kept = d->is_name && tree && !strcmp(tree, d->tree);
    kept += d->kept;
  }
  if (kept > 0)
    drop_relatives(inputs, kept);
  json_decref(before);
}

bool inputs_is_kept(const void *arg, const char *directory) {
  const struct directory *d = find(arg, directory);
  return d && d->kept;
}

/* ---- what the next one compares with ----------------------------------------------------------
 */

static bool add_zone(const struct inputs *inputs, const struct model_zone *zone, json_t *zones) {
  char name[4096];
  size_t len = strlen(zone->path);
  if (zone->reads_outside || len <= sizeof file_name || len >= sizeof name ||
      strcmp(zone->path + len - (sizeof file_name - 1), file_name) != 0)
    return true;
  memcpy(name, zone->path, len);
  name[len - sizeof file_name] = 0; /* without "/zone.yaml" */
  const struct directory *d = find(inputs, name);
  return !d || json_object_set_new(zones, name, json_string(d->tree)) == 0;
}

bool inputs_dump(const struct inputs *inputs, const struct model *model, struct buf *out) {
  json_t *zones = json_object();
  bool ok = zones;
  for (size_t i = 0; ok && i < model->zone_count; i++)
    ok = add_zone(inputs, &model->zones[i], zones);
  if (!ok) {
    json_decref(zones);
    return false;
  }
  return build_dump(
      json_pack("{s:i, s:s, s:o}", "format", FORMAT, "key", inputs->key, "zones", zones), out);
}

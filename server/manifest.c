/* SPDX-License-Identifier: Apache-2.0 */
#include "server/manifest.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"

enum { WHY = 512, MANIFEST_MAX = 256 << 20, MANIFEST_FORMAT = 1 };

/* A path inside of the build: relative, and without a step up. */
static bool is_inside(const char *path) {
  if (path[0] == '/' || path[0] == '\0')
    return false;
  for (const char *part = path; part != NULL; part = strchr(part, '/')) {
    part += part != path;
    if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0'))
      return false;
  }
  return true;
}

static bool take_zone(struct manifest_zone *zone, const json_t *json, const char *folder,
                      char *why) {
  const char *apex = json_string_value(json_object_get(json, "name"));
  const char *image = json_string_value(json_object_get(json, "image"));
  const char *records = json_string_value(json_object_get(json, "records"));
  const json_t *serial = json_object_get(json, "serial");
  json_int_t number = json_integer_value(serial);
  if (apex == NULL || image == NULL || !json_is_integer(serial) || number < 0 ||
      number > UINT32_MAX) {
    snprintf(why, WHY, "needs `name`, `serial` and `image`");
    return false;
  }
  if (!is_inside(image)) {
    snprintf(why, WHY, "has its image outside of the build: %.200s", image);
    return false;
  }
  zone->serial = (uint32_t)number;
  zone->names = json_integer_value(json_object_get(json, "names"));
  if (records != NULL && !is_inside(records)) {
    snprintf(why, WHY, "has its records outside of the build: %.200s", records);
    return false;
  }
  zone->apex = strdup(apex);
  zone->image = fs_join(folder, image);
  zone->records = records != NULL ? fs_join(folder, records) : NULL;
  zone->transfer = json_incref(json_object_get(json, "transfer"));
  if (zone->apex != NULL && zone->image != NULL && (zone->records != NULL || records == NULL))
    return true;
  snprintf(why, WHY, "out of memory");
  return false;
}

static bool take_zones(struct manifest *m, const json_t *zones, const char *folder, char *why) {
  if (!json_is_array(zones)) {
    snprintf(why, WHY, "%.300s/manifest.json: `zones` must be a list", folder);
    return false;
  }
  size_t count = json_array_size(zones);
  m->zones = calloc(count + 1, sizeof *m->zones);
  if (m->zones == NULL) {
    snprintf(why, WHY, "out of memory");
    return false;
  }
  for (size_t i = 0; i < count; i++) {
    char reason[WHY];
    m->zone_count++; /* counted first, so that closing frees a part of it too */
    if (!take_zone(&m->zones[i], json_array_get(zones, i), folder, reason)) {
      snprintf(why, WHY, "%.200s/manifest.json: zone %zu %.250s", folder, i + 1, reason);
      return false;
    }
  }
  return true;
}

static bool take_document(struct manifest *m, const json_t *root, const char *folder, char *why) {
  if (json_integer_value(json_object_get(root, "format")) != MANIFEST_FORMAT) {
    snprintf(why, WHY, "%.300s/manifest.json: not of format %d (build again with this version)",
             folder, MANIFEST_FORMAT);
    return false;
  }
  const char *base = strrchr(folder, '/');
  m->build_id = strdup(base != NULL ? base + 1 : folder);
  const char *commit = json_string_value(json_object_get(root, "commit"));
  m->commit = commit != NULL ? strdup(commit) : NULL;
  m->commit_time = json_integer_value(json_object_get(root, "commit_time"));
  const char *default_zone = json_string_value(json_object_get(root, "default_zone"));
  m->default_zone = default_zone != NULL ? strdup(default_zone) : NULL;
  if (m->build_id == NULL || (commit != NULL && m->commit == NULL) ||
      (default_zone != NULL && m->default_zone == NULL)) {
    snprintf(why, WHY, "out of memory");
    return false;
  }
  return take_zones(m, json_object_get(root, "zones"), folder, why);
}

bool manifest_read(struct manifest *manifest, const char *data_dir, char *why) {
  *manifest = (struct manifest){.zones = NULL};
  bool ok = false;
  uint8_t *text = NULL;
  size_t length = 0;
  json_t *root = NULL;
  char *path = NULL;
  char *current = fs_join(data_dir, "current");
  /* The link is followed once: all files come from one build, whatever is switched meanwhile. */
  char *folder = current != NULL ? realpath(current, NULL) : NULL;
  if (folder == NULL) {
    snprintf(why, WHY, "no build in %.300s (make one with `sluice build`): %s", data_dir,
             strerror(errno));
    goto done;
  }
  path = fs_join(folder, "manifest.json");
  if (path == NULL) {
    snprintf(why, WHY, "out of memory");
    goto done;
  }
  if (!fs_read(path, MANIFEST_MAX, &text, &length, why))
    goto done;
  json_error_t error;
  root = json_loadb((const char *)text, length, JSON_REJECT_DUPLICATES, &error);
  if (root == NULL) {
    snprintf(why, WHY, "%.300s: line %d: %.100s", path, error.line, error.text);
    goto done;
  }
  ok = take_document(manifest, root, folder, why);
done:
  json_decref(root);
  free(text);
  free(path);
  free(folder);
  free(current);
  return ok;
}

void manifest_close(struct manifest *manifest) {
  for (size_t i = 0; i < manifest->zone_count; i++) {
    free(manifest->zones[i].apex);
    free(manifest->zones[i].image);
    free(manifest->zones[i].records);
    json_decref(manifest->zones[i].transfer);
  }
  free(manifest->zones);
  free(manifest->build_id);
  free(manifest->commit);
  free(manifest->default_zone);
  *manifest = (struct manifest){.zones = NULL};
}

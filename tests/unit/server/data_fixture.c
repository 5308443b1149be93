/* SPDX-License-Identifier: Apache-2.0 */
#include "data_fixture.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"

static void check(bool ok, const char *why) {
  if (ok)
    return;
  fprintf(stderr, "data fixture: %s\n", why);
  abort();
}

char *data_fixture_new(void) {
  char path[] = "/tmp/sluice-data-XXXXXX";
  check(mkdtemp(path) != NULL, "mkdtemp");
  return strdup(path);
}

void data_fixture_write(const char *data, const char *name, const void *text, size_t length) {
  char why[FS_WHY];
  char *path = fs_join(data, name);
  char *folder = strdup(path);
  *strrchr(folder, '/') = '\0';
  check(fs_make_dirs(folder, why), why);
  check(fs_write_atomic(path, text, length, 0644, why), why);
  free(folder);
  free(path);
}

void data_fixture_build(const char *data, const char *id, const struct zone_fixture_zone *zones,
                        size_t count) {
  char why[FS_WHY], file[512], target[64];
  struct zone_fixture *f = zone_fixture_new(zones, count);
  json_t *list = json_array();
  for (size_t i = 0; i < count; i++) {
    const struct image *image = zone_fixture_view(f)->zones[i].image;
    char name[NAME_MAX_TEXT];
    name_to_text(name, image->header->apex);
    snprintf(file, sizeof file, "builds/%s/zones/%.200simage", id, name);
    data_fixture_write(data, file, image->base, image->size);
    snprintf(file, sizeof file, "zones/%.200simage", name);
    json_array_append_new(list, json_pack("{s:s, s:i, s:s, s:i}", "name", name, "serial",
                                          (int)image->header->serial, "image", file, "names", 1));
  }
  zone_fixture_free(f);
  json_t *manifest =
      json_pack("{s:i, s:n, s:i, s:o}", "format", 1, "commit", "commit_time", 0, "zones", list);
  char *text = json_dumps(manifest, 0);
  snprintf(file, sizeof file, "builds/%s/manifest.json", id);
  data_fixture_write(data, file, text, strlen(text));
  free(text);
  json_decref(manifest);
  snprintf(target, sizeof target, "builds/%s", id);
  char *link = fs_join(data, "current");
  check(fs_switch_link(link, target, why), why);
  free(link);
}

void data_fixture_free(char *data) {
  char why[FS_WHY];
  check(fs_remove_tree(data, why), why);
  free(data);
}

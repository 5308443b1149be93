/* SPDX-License-Identifier: Apache-2.0 */
/* Plain zones: one master file each, taken as it is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/name.h"
#include "zones/rr_list.h"
#include "zones/zone_check.h"
#include "zones/zone_hash.h"
#include "zones/zonefile.h"

static bool no_memory(struct diag_list *problems, const char *path) {
  diag_error(problems, (struct diag_pos){path, 0, 0}, "out of memory");
  return false;
}

/* The folder of a path: "." or all before the last slash; malloc'd. */
static char *folder_of(const char *path) {
  const char *slash = strrchr(path, '/');
  if (slash == NULL)
    return strdup(".");
  return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

static bool set_apex(struct model_zone *zone, const char *path, const char *origin,
                     struct diag_list *problems) {
  const char *why = NULL;
  uint8_t name[NAME_BUF] = {0};
  uint8_t lower[NAME_BUF] = {0};
  if (name_from_text(name, origin, strlen(origin), NULL, &why) == 0) {
    diag_error(problems, (struct diag_pos){path, 0, 0},
               "the origin `%.200s` is not a domain name: %s", origin, why);
    return false;
  }
  size_t len = name_copy_lower(lower, name);
  zone->apex = calloc(1, len + NAME_PAD);
  zone->path = strdup(path);
  if (zone->apex == NULL || zone->path == NULL)
    return no_memory(problems, path);
  memcpy(zone->apex, lower, len);
  return true;
}

static bool read_records(struct model *model, struct model_zone *zone, const char *path,
                         struct diag_list *problems) {
  struct config_source *source = NULL;
  char why[FS_WHY];
  uint8_t *data = NULL;
  size_t len = 0;
  char *folder = folder_of(path);
  char *real = folder != NULL ? realpath(folder, NULL) : NULL;
  const char *slash = strrchr(path, '/');
  struct rr_list list = {.memory = model->memory};
  bool ok = false;
  if (folder == NULL) {
    no_memory(problems, path);
  } else if (!fs_read(path, ZONEFILE_MAX_BYTES, &data, &len, why) ||
             !config_source_open_dir(folder, &source, why)) {
    diag_error(problems, (struct diag_pos){path, 0, 0}, "%s", why);
  } else {
    struct zonefile zonefile = {source, real, zone->apex, &list, problems, false};
    ok = zonefile_read_text(&zonefile, slash != NULL ? slash + 1 : path, (const char *)data, len);
    free(data);
    data = NULL;
    if (!rr_list_sort(&list, zone->apex, true, problems))
      ok = no_memory(problems, path);
  }
  zone->rrs = list.rrs;
  zone->rr_count = list.count;
  free(data);
  if (source != NULL)
    source->close(source);
  free(folder);
  free(real);
  return ok;
}

/* Keeps the order; a zone that is there already is an error. */
static bool insert(struct model *model, const struct model_zone *zone, struct diag_list *problems) {
  char name[NAME_MAX_TEXT];
  size_t low = 0;
  size_t high = model->zone_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    int d = name_compare(model->zones[middle].apex, zone->apex);
    if (d == 0) {
      diag_error(problems, (struct diag_pos){zone->path, 0, 0},
                 "the zone `%s` stands in %s as well; keep one of them",
                 name_to_text(name, zone->apex), model->zones[middle].path);
      return false;
    }
    if (d < 0)
      low = middle + 1;
    else
      high = middle;
  }
  struct model_zone *zones = realloc(model->zones, (model->zone_count + 1) * sizeof *zones);
  if (zones == NULL)
    return no_memory(problems, zone->path);
  memmove(zones + low + 1, zones + low, (model->zone_count - low) * sizeof *zones);
  zones[low] = *zone;
  model->zones = zones;
  model->zone_count++;
  return true;
}

bool model_add_zone_file(struct model *model, const char *path, const char *origin,
                         struct diag_list *problems) {
  struct model_zone zone = {.serial_mode = SERIAL_CARRIED};
  size_t before = problems->errors;
  bool ok = set_apex(&zone, path, origin, problems);
  if (ok && read_records(model, &zone, path, problems)) {
    struct zone_check check = {.zone = &zone, .problems = problems};
    zone_check_run(&check);
  }
  ok = ok && problems->errors == before;
  ok = ok && (zone_hash(&zone) || no_memory(problems, path));
  if (ok && insert(model, &zone, problems))
    return true;
  free(zone.rrs);
  free(zone.apex);
  free(zone.path);
  return false;
}

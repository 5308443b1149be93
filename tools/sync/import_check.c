/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checker over what is to be written, on top of the directory that it goes to, and what follows
 * from what it says.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli.h"
#include "tools/sync/import.h"
#include "zones/build.h"
#include "zones/domain_json.h"
#include "zones/record.h"

enum { ROUNDS = 64, WHY = 512 };

/* ---- one source on top of another ----------------------------------------------------------- */

struct entry {
  char *path;
  char kind;
};

struct overlay {
  struct config_source base;
  struct config_source *below; /* the directory as it is; or NULL */
  struct config_source *top;   /* a directory of new files; or NULL: the texts of `import` */
  const struct import *import;
  json_t *paths; /* of the new files -> number */
  struct entry *entries;
  size_t count, cap;
};

static bool add_entry(struct overlay *o, const char *path, char kind) {
  if (o->count == o->cap) {
    size_t cap = o->cap ? o->cap * 2 : 64;
    struct entry *entries = realloc(o->entries, cap * sizeof *entries);
    if (!entries)
      return false;
    o->entries = entries;
    o->cap = cap;
  }
  o->entries[o->count].path = strdup(path);
  o->entries[o->count].kind = kind;
  return o->entries[o->count++].path != NULL;
}

static bool gather_below(void *arg, const char *path, char kind) {
  return add_entry(arg, path, kind);
}

static bool gather_top(void *arg, const char *path, char kind) {
  struct overlay *o = arg;
  return json_object_set_new(o->paths, path, json_integer(0)) == 0 && add_entry(o, path, kind);
}

static int compare_entries(const void *a, const void *b) {
  return strcmp(((const struct entry *)a)->path, ((const struct entry *)b)->path);
}

static void drop_entries(struct overlay *o) {
  for (size_t i = 0; i < o->count; i++)
    free(o->entries[i].path);
  free(o->entries);
  o->entries = NULL;
  o->count = o->cap = 0;
}

static bool list_texts(struct overlay *o) {
  const struct import *import = o->import;
  bool ok = true;
  for (size_t i = 0; ok && i < import->file_count; i++)
    ok = json_object_set_new(o->paths, import->files[i].path, json_integer((json_int_t)i)) == 0 &&
         add_entry(o, import->files[i].path, 'f');
  return ok;
}

static bool overlay_list(struct config_source *source,
                         bool (*visit)(void *arg, const char *path, char kind), void *arg,
                         char *why) {
  struct overlay *o = (struct overlay *)source;
  why[0] = '\0';
  drop_entries(o);
  bool ok = (!o->below || o->below->list(o->below, gather_below, o, why)) &&
            (o->top ? o->top->list(o->top, gather_top, o, why) : list_texts(o));
  if (!ok && why[0] == '\0')
    snprintf(why, WHY, "out of memory");
  if (ok && o->count > 0)
    qsort(o->entries, o->count, sizeof *o->entries, compare_entries);
  for (size_t i = 0; ok && i < o->count; i++)
    ok = visit(arg, o->entries[i].path, o->entries[i].kind);
  return ok;
}

static bool overlay_read(struct config_source *source, const char *path, size_t limit,
                         uint8_t **data, size_t *len, char *why) {
  struct overlay *o = (struct overlay *)source;
  const json_t *number = json_object_get(o->paths, path);
  if (!number && o->below)
    return o->below->read(o->below, path, limit, data, len, why);
  if (o->top)
    return o->top->read(o->top, path, limit, data, len, why);
  const struct buf *text = number ? &o->import->files[json_integer_value(number)].text : NULL;
  if (!text || text->len > limit) {
    snprintf(why, WHY, text ? "the file would be too large" : "cannot read %.300s: no such file",
             path);
    return false;
  }
  *data = malloc(text->len + 1);
  if (!*data) {
    snprintf(why, WHY, "out of memory");
    return false;
  }
  if (text->len > 0)
    memcpy(*data, text->data, text->len);
  (*data)[text->len] = '\0';
  *len = text->len;
  return true;
}

static void overlay_close(struct config_source *source) {
  struct overlay *o = (struct overlay *)source;
  if (o->below)
    o->below->close(o->below);
  if (o->top)
    o->top->close(o->top);
  json_decref(o->paths);
  drop_entries(o);
  free(o);
}

/* NULL after an error was printed. */
static struct config_source *open_overlay(const struct import *import, const char *top) {
  char why[WHY] = "out of memory";
  struct overlay *o = calloc(1, sizeof *o);
  bool ok = o && (o->paths = json_object()) != NULL;
  if (ok) {
    o->base = (struct config_source){.list = overlay_list,
                                     .read = overlay_read,
                                     .close = overlay_close,
                                     .prefix = "",
                                     .programs_known = true};
    o->import = import;
    ok = (!import->out || (access(import->out, F_OK) != 0 && errno == ENOENT) ||
          config_source_open_dir(import->out, &o->below, why)) &&
         (!top || config_source_open_dir(top, &o->top, why));
  }
  if (ok)
    return &o->base;
  cli_error("%s", why);
  if (o)
    overlay_close(&o->base);
  return NULL;
}

/* ---- what the checker says ------------------------------------------------------------------ */

/* The model, or NULL with the problems. */
static struct model *check_once(struct config_source *source, struct diag_list *problems) {
  struct model *model = config_load(source, problems);
  if (model && problems->errors == 0)
    build_check(model, problems);
  diag_sort(problems);
  if (model && problems->errors == 0 && !problems->failed)
    return model;
  model_free(model);
  return NULL;
}

/* The first problem, and how many there are. */
static void print_problem(const struct import *import, const struct diag_list *problems) {
  const struct diag *first = NULL;
  for (size_t i = 0; i < problems->count && !first; i++)
    if (problems->items[i].level == DIAG_ERROR)
      first = &problems->items[i];
  if (!first || problems->failed) {
    cli_error("out of memory");
    return;
  }
  cli_error("nothing was written, since the configuration with %s would fail the check: "
            "%.200s:%u: %.400s%s",
            import->zone, first->path, first->line ? first->line : 1, first->message,
            problems->errors > 1 ? " (and more)" : "");
}

/* The path below the zone's directory, or NULL. */
static const char *below_zone(const struct import *import, const char *path) {
  size_t n = strlen(import->directory);
  return strncmp(path, import->directory, n) == 0 && path[n] == '/' ? path + n + 1 : NULL;
}

/* The set that the line belongs to.  `soa` and `ns` are of one line. */
static struct import_set *set_at(const struct import *import, enum import_place place,
                                 unsigned line) {
  struct import_set *best = NULL;
  for (size_t i = 0; i < import->set_count; i++) {
    struct import_set *set = &import->sets[i];
    if (set->written == place && set->line > 0 && set->line <= line &&
        (!best || set->line > best->line))
      best = set;
  }
  bool of_apex = best && (best->type == RECORD_SOA || best->type == RECORD_NS) &&
                 name_equal(best->name, import->apex);
  return of_apex && place == IMPORT_YAML && best->line != line ? NULL : best;
}

/* One step down; once for all problems of the set. */
static bool move_set(struct import *import, const char *file, const struct diag *problem) {
  char name[NAME_MAX_TEXT];
  char type[16];
  enum import_place place = strcmp(file, "zone.yaml") == 0 ? IMPORT_YAML : IMPORT_ZONEFILE;
  struct import_set *set = set_at(import, place, problem->line);
  if (!set)
    return false;
  if (set->place != set->written)
    return true;
  if (set->place == IMPORT_YAML) {
    set->place = IMPORT_ZONEFILE;
    return true;
  }
  set->place = IMPORT_NOWHERE;
  import_miss(import, name_to_text(name, set->name), record_type_text(set->type, type), false, "%s",
              problem->message);
  return true;
}

static struct import_domain *domain_at(const struct import *import, const char *file) {
  const char *slash = strchr(file, '/');
  for (size_t i = 0; slash && i < import->domain_count; i++) {
    const char *directory = import->domains[i].directory;
    if (strlen(directory) == (size_t)(slash - file) &&
        strncmp(directory, file, strlen(directory)) == 0)
      return &import->domains[i];
  }
  return NULL;
}

/* What is left out is not there in part, nor approximately. */
static void forget(json_t *list, const char *name, const char *only) {
  for (size_t i = json_array_size(list); i-- > 0;) {
    const json_t *item = json_array_get(list, i);
    const char *other = json_string_value(json_object_get(item, "name"));
    if (other && strcmp(other, name) == 0 && (!only || json_is_true(json_object_get(item, only))))
      json_array_remove(list, i);
  }
}

static void drop_domain(struct import *import, struct import_domain *domain, const char *message) {
  static const char *const types[STEER_TYPES] = {"A", "AAAA", "CNAME"};
  forget(import->unmodelled, domain->name, "part");
  forget(import->approximate, domain->name, NULL);
  for (int t = 0; !domain->dropped && t < STEER_TYPES; t++)
    if (domain->steer->offers[t])
      import_miss(import, domain->name, types[t], false, "%s", message);
  domain->dropped = true;
}

/* Leaves out what the checker refuses.  False: something cannot be left out. */
static bool obey(struct import *import, const struct diag_list *problems) {
  for (size_t i = 0; i < problems->count; i++) {
    const struct diag *problem = &problems->items[i];
    const char *file = below_zone(import, problem->path);
    if (problem->level != DIAG_ERROR)
      continue;
    struct import_domain *domain = file ? domain_at(import, file) : NULL;
    if (domain)
      drop_domain(import, domain, problem->message);
    else if (!file || strchr(file, '/') || problem->line == 0 || !move_set(import, file, problem))
      return false;
  }
  return true;
}

/* ---- is it all there? ----------------------------------------------------------------------- */

static const struct model_zone *zone_of(const struct model *model, const uint8_t *apex) {
  for (size_t i = 0; i < model->zone_count; i++)
    if (name_equal(model->zones[i].apex, apex))
      return &model->zones[i];
  return NULL;
}

static bool is_domain_there(const struct model_zone *zone, const struct import_domain *domain) {
  for (size_t i = 0; i < zone->domain_count; i++) {
    if (!name_equal(zone->domains[i].steer->owner, domain->steer->owner))
      continue;
    json_t *read = domain_json_encode(zone->domains[i].steer);
    json_t *meant = domain_json_encode(domain->steer);
    bool same = read && meant && json_equal(read, meant);
    json_decref(read);
    json_decref(meant);
    return same;
  }
  return false;
}

/* What the configuration says must be what was to be said. */
static bool is_there(const struct import *import, const struct model *model) {
  const struct model_zone *zone = zone_of(model, import->apex);
  size_t records = 0;
  for (size_t i = 0; i < import->set_count; i++)
    if (import->sets[i].place != IMPORT_NOWHERE)
      records += import->sets[i].count;
  bool same = zone && zone->rr_count == records;
  for (size_t i = 0; same && i < import->domain_count; i++)
    same = import->domains[i].dropped || is_domain_there(zone, &import->domains[i]);
  if (!same)
    cli_error("nothing was written, since the files of %s would not say what %s holds; this is a "
              "fault of sluice",
              import->zone, import->provider.name);
  return same;
}

/* ---- the whole ------------------------------------------------------------------------------ */

bool import_check(struct import *import) {
  struct config_source *source = open_overlay(import, NULL);
  bool done = false;
  bool ok = source;
  for (unsigned round = 0; ok && !done; round++) {
    struct diag_list problems;
    struct overlay *o = (struct overlay *)source;
    diag_init(&problems);
    json_object_clear(o->paths);
    ok = import_texts(import);
    if (!ok)
      cli_error("out of memory");
    struct model *model = ok ? check_once(source, &problems) : NULL;
    if (model) {
      done = true;
      ok = is_there(import, model);
    } else if (ok && (problems.failed || round == ROUNDS || !obey(import, &problems))) {
      print_problem(import, &problems);
      ok = false;
    }
    model_free(model);
    diag_close(&problems);
  }
  if (source)
    source->close(source);
  return ok;
}

bool import_check_written(struct import *import, const char *top) {
  struct config_source *source = open_overlay(import, top);
  struct diag_list problems;
  if (!source)
    return false;
  diag_init(&problems);
  struct model *model = check_once(source, &problems);
  bool ok = model ? is_there(import, model) : false;
  if (!model)
    print_problem(import, &problems);
  model_free(model);
  diag_close(&problems);
  source->close(source);
  return ok;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a migration on disk. */
#include "tools/sync/migrate_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/name.h"
#include "tools/sync/nameset.h"

enum { VERSION = 1, STATE_MAX = 256 << 10, PROVIDER_NAME = 200, MODE = 0600 };

static const int64_t time_max = INT64_C(1) << 53;

/* ---- JSON ----------------------------------------------------------------------------------- */

json_t *migrate_encode(const struct migrate_state *s) {
  return json_pack("{s:i, s:s, s:s, s:s, s:b, s:s, s:O, s:O, s:O, s:O, s:O, s:I, s:I, s:I, s:I, "
                   "s:I, s:I, s:I, s:I, s:b, s:b, s:b, s:O, s:O}",
                   "v", VERSION, "zone", s->zone, "from", s->from, "to", s->to, "back",
                   (int)s->back, "phase", migrate_phase_name(s->phase), "old", s->old, "new",
                   s->new, "others", s->others, "apex", s->apex, "parent", s->parent, "apex_since",
                   (json_int_t)s->apex_since, "parent_since", (json_int_t)s->parent_since,
                   "changed", (json_int_t)s->changed, "apex_ttl", (json_int_t)s->apex_ttl,
                   "parent_ttl", (json_int_t)s->parent_ttl, "negative_ttl",
                   (json_int_t)s->negative_ttl, "settle", (json_int_t)s->settle, "started",
                   (json_int_t)s->started, "made", (int)s->made, "deleted", (int)s->deleted,
                   "rebase", (int)s->rebase, "parents", s->parents, "down", s->down);
}

static bool wrong(char *why, const char *key, const char *what) {
  snprintf(why, MIGRATE_WHY, "`%s` %s", key, what);
  return false;
}

static bool is_provider(const char *text) {
  return text && *text && strlen(text) <= PROVIDER_NAME && !strpbrk(text, ",/ ");
}

static bool take_text(char **out, const json_t *document, const char *key, char *why) {
  const char *text = json_string_value(json_object_get(document, key));
  if (!is_provider(text))
    return wrong(why, key, "is no name of a provider");
  *out = strdup(text);
  return *out ? true : wrong(why, key, "finds no memory");
}

static bool take_zone(struct migrate_state *s, const json_t *document, char *why) {
  const char *text = json_string_value(json_object_get(document, "zone"));
  uint8_t wire[NAME_BUF];
  uint8_t lower[NAME_BUF];
  char name[NAME_MAX_TEXT];
  const char *what;
  if (!text || name_from_text(wire, text, strlen(text), NULL, &what) == 0)
    return wrong(why, "zone", "is no name of a zone");
  name_copy_lower(lower, wire);
  s->zone = strdup(name_to_text(name, lower));
  return s->zone ? true : wrong(why, "zone", "finds no memory");
}

static bool take_set(json_t **out, const json_t *document, const char *key, char *why) {
  json_t *set = nameset_read(json_object_get(document, key));
  if (!set)
    return wrong(why, key, "is no list of names");
  json_decref(*out);
  *out = set;
  return true;
}

static bool take_number(int64_t *out, const json_t *document, const char *key, int64_t max,
                        char *why) {
  const json_t *value = json_object_get(document, key);
  if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > max)
    return wrong(why, key, "is no number in its range");
  *out = json_integer_value(value);
  return true;
}

/* RFC 2181 section 8: TTLs are at most 2^31 - 1. */
static bool take_seconds(uint32_t *out, const json_t *document, const char *key, char *why) {
  int64_t value;
  if (!take_number(&value, document, key, INT32_MAX, why))
    return false;
  *out = (uint32_t)value;
  return true;
}

static bool take_flag(bool *out, const json_t *document, const char *key, char *why) {
  const json_t *value = json_object_get(document, key);
  if (!json_is_boolean(value))
    return wrong(why, key, "is neither true nor false");
  *out = json_is_true(value);
  return true;
}

static bool take_phase(struct migrate_state *s, const json_t *document, char *why) {
  const char *text = json_string_value(json_object_get(document, "phase"));
  for (int i = 0; text && i < MIGRATE_PHASES; i++)
    if (strcmp(text, migrate_phase_name((enum migrate_phase)i)) == 0) {
      s->phase = (enum migrate_phase)i;
      return true;
    }
  return wrong(why, "phase", "is none of a migration");
}

/* Texts for ask_resolve(), which judges them. */
static bool take_parents(struct migrate_state *s, const json_t *document, char *why) {
  const json_t *list = json_object_get(document, "parents");
  bool ok = json_is_array(list) && json_array_size(list) <= NAMESET_MAX;
  for (size_t i = 0; ok && i < json_array_size(list); i++)
    ok = json_string_length(json_array_get(list, i)) > 0 &&
         json_string_length(json_array_get(list, i)) < 256;
  json_t *copy = ok ? json_deep_copy(list) : NULL;
  if (!copy)
    return wrong(why, "parents", "is no list of name servers");
  json_decref(s->parents);
  s->parents = copy;
  return true;
}

/* States of versions without it are of migrations in which all were asked. */
static bool take_down(struct migrate_state *s, const json_t *document, char *why) {
  const json_t *list = json_object_get(document, "down");
  bool ok = !list || (json_is_array(list) && json_array_size(list) <= NAMESET_MAX);
  for (size_t i = 0; ok && i < json_array_size(list); i++) {
    const char *name = json_string_value(json_array_get(list, i));
    ok = is_provider(name) && !migrate_is_down(s, name) &&
         json_array_append(s->down, json_array_get(list, i)) == 0;
  }
  return ok ? true : wrong(why, "down", "is no list of providers");
}

/* What the phases rely on. */
static bool is_consistent(const struct migrate_state *s, char *why) {
  bool begun = s->phase > MIGRATE_CHECK;
  if (strcmp(s->from, s->to) == 0)
    return wrong(why, "to", "is the provider of `from`");
  if (migrate_is_down(s, migrate_in_provider(s)))
    return wrong(why, "down", "has the provider that gets the zone");
  if (nameset_first_common(s->old, s->new) || nameset_first_common(s->others, s->old) ||
      nameset_first_common(s->others, s->new))
    return wrong(why, "new", "has a name server of another provider");
  if (begun && (json_array_size(s->old) == 0 || json_array_size(s->new) == 0))
    return wrong(why, json_array_size(s->old) == 0 ? "old" : "new", "is empty");
  if (begun && (json_array_size(s->apex) == 0 || json_array_size(s->parent) == 0))
    return wrong(why, json_array_size(s->apex) == 0 ? "apex" : "parent", "is empty");
  return true;
}

bool migrate_decode(struct migrate_state *s, const json_t *document, char *why) {
  if (!json_is_object(document))
    return wrong(why, "v", "is missing: no state of a migration");
  if (json_integer_value(json_object_get(document, "v")) != VERSION)
    return wrong(why, "v", "is of another version of sluice");
  return take_zone(s, document, why) && take_text(&s->from, document, "from", why) &&
         take_text(&s->to, document, "to", why) && take_flag(&s->back, document, "back", why) &&
         take_phase(s, document, why) && take_set(&s->old, document, "old", why) &&
         take_set(&s->new, document, "new", why) && take_set(&s->others, document, "others", why) &&
         take_set(&s->apex, document, "apex", why) &&
         take_set(&s->parent, document, "parent", why) &&
         take_number(&s->apex_since, document, "apex_since", time_max, why) &&
         take_number(&s->parent_since, document, "parent_since", time_max, why) &&
         take_number(&s->changed, document, "changed", time_max, why) &&
         take_seconds(&s->apex_ttl, document, "apex_ttl", why) &&
         take_seconds(&s->parent_ttl, document, "parent_ttl", why) &&
         take_seconds(&s->negative_ttl, document, "negative_ttl", why) &&
         take_seconds(&s->settle, document, "settle", why) &&
         take_number(&s->started, document, "started", time_max, why) &&
         take_flag(&s->made, document, "made", why) &&
         take_flag(&s->deleted, document, "deleted", why) &&
         take_flag(&s->rebase, document, "rebase", why) && take_parents(s, document, why) &&
         take_down(s, document, why) && is_consistent(s, why);
}

/* ---- files ---------------------------------------------------------------------------------- */

char *migrate_path(const char *folder, const char *zone) {
  char name[NAME_MAX_TEXT * 3];
  size_t n = 0;
  for (const char *p = zone; *p && n + 4 < sizeof name; p++) {
    bool plain = (*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9') || *p == '-' || *p == '_' ||
                 (*p == '.' && p > zone);
    n += (size_t)snprintf(name + n, sizeof name - n, plain ? "%c" : "=%02X", (unsigned char)*p);
  }
  char *path = NULL;
  return asprintf(&path, "%s/%.*sjson", folder, (int)n, name) < 0 ? NULL : path;
}

bool migrate_load(struct migrate_state *s, const char *path, bool *found, char *why) {
  char reason[FS_WHY];
  char what[MIGRATE_WHY] = "it is no JSON";
  uint8_t *text = NULL;
  size_t len = 0;
  *found = access(path, F_OK) == 0;
  if (!*found)
    return true;
  if (!fs_read(path, STATE_MAX, &text, &len, reason)) {
    snprintf(why, MIGRATE_WHY, "%s", reason);
    return false;
  }
  json_t *document = json_loadb((const char *)text, len, JSON_REJECT_DUPLICATES, NULL);
  bool ok = document && migrate_decode(s, document, what);
  json_decref(document);
  free(text);
  if (!ok)
    snprintf(why, MIGRATE_WHY,
             "%.400s is damaged (%.300s); if no migration is under way, remove it and begin again: "
             "what is done already is found again",
             path, what);
  return ok;
}

bool migrate_save(const struct migrate_state *s, const char *path, char *why) {
  json_t *document = migrate_encode(s);
  char *text = document ? json_dumps(document, JSON_INDENT(1)) : NULL;
  char reason[FS_WHY] = "out of memory";
  bool ok = text && fs_write_atomic(path, text, strlen(text), MODE, reason);
  if (!ok)
    snprintf(why, MIGRATE_WHY, "%s", reason);
  free(text);
  json_decref(document);
  return ok;
}

int migrate_lock(const char *path, char *why) {
  char *lock = NULL;
  int fd = asprintf(&lock, "%s.lock", path) < 0
               ? -1
               : open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, MODE);
  if (fd < 0)
    snprintf(why, MIGRATE_WHY, "cannot open %.600s: %s", lock ? lock : path, strerror(errno));
  if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
    snprintf(why, MIGRATE_WHY, "%s",
             errno == EWOULDBLOCK
                 ? "another `sluice sync migrate` is at work on this zone; --status shows where it "
                   "is"
                 : strerror(errno));
    close(fd);
    fd = -1;
  }
  free(lock);
  return fd;
}

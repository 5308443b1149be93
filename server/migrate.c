/* SPDX-License-Identifier: Apache-2.0 */
#include "server/migrate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/name.h"
#include "server/override_json.h"

enum { STATUS_FILE_MAX = 256 << 20, VALUES = 3 };

/* Keys of an entry, each with the texts of the values 1 and 2, and the key of its note. */
static const struct {
  const char *key;
  const char *texts[2];
  const char *note;
  enum store_kind kind;
  uint8_t family;
} values[VALUES] = {
    {"manual", {"enabled", "disabled"}, "manual_note", STORE_STATUS, 0},
    {"forced4", {"up", "down"}, "forced_note", STORE_HEALTH, 4},
    {"forced6", {"up", "down"}, "forced_note", STORE_HEALTH, 6},
};

struct migration {
  struct store_change *changes;
  struct store_audit *audits; /* one for each change */
  char **texts;               /* what the two borrow: a domain and a `what` for each */
  size_t count;
};

static char *canonical(const char *domain) {
  uint8_t mixed[NAME_BUF], owner[NAME_BUF];
  char name[NAME_MAX_TEXT];
  const char *why;
  if (domain == NULL || name_from_text(mixed, domain, strlen(domain), NULL, &why) == 0)
    return NULL;
  name_copy_lower(owner, mixed);
  return strdup(name_to_text(name, owner));
}

static int32_t value_of(const json_t *entry, size_t v) {
  const char *text = json_string_value(json_object_get(entry, values[v].key));
  for (int32_t i = 0; text != NULL && i < 2; i++)
    if (strcmp(text, values[v].texts[i]) == 0)
      return i + 1;
  return 0;
}

static bool take_value(struct migration *m, const json_t *entry, size_t v) {
  const json_t *note = json_object_get(entry, values[v].note);
  const char *endpoint = json_string_value(json_object_get(entry, "endpoint"));
  const char *who = json_string_value(json_object_get(note, "who"));
  int32_t value = value_of(entry, v);
  char *domain = canonical(json_string_value(json_object_get(entry, "domain")));
  if (value == 0 || endpoint == NULL || domain == NULL) {
    free(domain);
    return true;
  }
  struct store_change *change = &m->changes[m->count];
  change->override =
      (struct store_override){.key = {.kind = values[v].kind,
                                      .domain = domain,
                                      .endpoint = endpoint,
                                      .region = "",
                                      .family = values[v].family},
                              .value = value,
                              .set_at = json_integer_value(json_object_get(note, "since")),
                              .who = who != NULL ? who : "someone",
                              .reason = json_string_value(json_object_get(note, "reason"))};
  json_t *what = json_pack("{s:[o]}", "set", override_json(&change->override, false));
  char *text = what != NULL ? json_dumps(what, JSON_COMPACT) : NULL;
  json_decref(what);
  m->texts[m->count * 2] = domain;
  m->texts[m->count * 2 + 1] = text;
  m->audits[m->count] = (struct store_audit){.who = "sluiced",
                                             .command = "migrate",
                                             .domain = domain,
                                             .what = text,
                                             .reason = "taken over from status.json"};
  m->count++;
  return text != NULL;
}

static bool take_all(struct migration *m, const json_t *list) {
  size_t room = json_array_size(list) * VALUES + 1;
  size_t i;
  json_t *entry;
  m->changes = calloc(room, sizeof *m->changes);
  m->audits = calloc(room, sizeof *m->audits);
  m->texts = calloc(room * 2, sizeof *m->texts);
  if (m->changes == NULL || m->audits == NULL || m->texts == NULL)
    return false;
  json_array_foreach(list, i, entry) for (size_t v = 0; v < VALUES;
                                          v++) if (!take_value(m, entry, v)) return false;
  return true;
}

static bool commit_all(const struct migration *m, uint64_t hash, struct store *store, char *why) {
  char request[64];
  uint64_t revision;
  snprintf(request, sizeof request, "status.json %016" PRIx64, hash);
  const struct store_batch batch = {.request = request,
                                    .at = (int64_t)time(NULL),
                                    .changes = m->changes,
                                    .change_count = m->count,
                                    .audits = m->audits,
                                    .audit_count = m->count};
  if (store_commit(store, &batch, &revision, NULL, NULL, why) != STORE_DONE)
    return false;
  log_notice("%zu settings made by hand were taken over from status.json into the state store",
             m->count);
  return true;
}

bool migrate_status_file(const char *state_dir, struct store *store, char *why) {
  uint8_t *text = NULL;
  size_t length = 0;
  char reason[FS_WHY];
  json_error_t error;
  struct migration m = {.count = 0};
  char *path = state_dir != NULL ? fs_join(state_dir, "status.json") : NULL;
  if (path == NULL || access(path, F_OK) != 0 ||
      !fs_read(path, STATUS_FILE_MAX, &text, &length, reason)) {
    free(path);
    return true;
  }
  json_t *root = json_loadb((const char *)text, length, JSON_REJECT_DUPLICATES, &error);
  bool ok = take_all(&m, json_object_get(root, "endpoints"));
  if (!ok)
    snprintf(why, STORE_WHY, "out of memory");
  else if (m.count > 0)
    ok = commit_all(&m, XXH3_64bits(text, length), store, why);
  for (size_t i = 0; m.texts != NULL && i < m.count * 2; i++)
    free(m.texts[i]);
  free(m.texts);
  free(m.audits);
  free(m.changes);
  json_decref(root);
  free(text);
  free(path);
  return ok;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/name.h"
#include "base/store.h"
#include "tools/endpoints/backend_private.h"
#include "tools/endpoints/state.h"
#include "zones/domain_list.h"

enum { MANIFEST_LIMIT = 64 << 20 };

struct offline {
  struct store *store;
  char *build; /* DATA/current */
  char *who;
};

/* ---- opening -------------------------------------------------------------------------------- */

/* Files that root makes in the server's folder must be the server's. */
static bool become_owner(const char *folder, char *why) {
  struct stat st;
  if (stat(folder, &st) != 0) {
    snprintf(why, OFFLINE_WHY, "its state folder %.300s cannot be used: %m", folder);
    return false;
  }
  if (geteuid() != 0 || st.st_uid == 0)
    return true;
  if (setegid(st.st_gid) == 0 && seteuid(st.st_uid) == 0)
    return true;
  snprintf(why, OFFLINE_WHY, "the user of %.300s cannot be taken on: %m", folder);
  return false;
}

struct offline *offline_open(const struct machine *machine, const char *who, char *why) {
  struct offline *offline = calloc(1, sizeof *offline);
  char *path = fs_join(machine->state, "store.db");
  bool ok = offline && path;
  snprintf(why, OFFLINE_WHY, "there is no memory");
  if (ok) {
    offline->build = fs_join(machine->data, "current");
    offline->who = strdup(who);
    ok = offline->build && offline->who;
  }
  if (ok && become_owner(machine->state, why))
    offline->store = store_open(path, why);
  free(path);
  if (ok && offline->store)
    return offline;
  offline_close(offline);
  return NULL;
}

void offline_close(struct offline *offline) {
  if (!offline)
    return;
  if (offline->store)
    store_close(offline->store);
  free(offline->build);
  free(offline->who);
  free(offline);
}

const char *offline_data(const struct offline *offline) {
  return offline->build;
}

/* ---- replies -------------------------------------------------------------------------------- */

static json_t *refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

static json_t *refuse(const char *format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return json_pack("{s:b, s:s, s:i}", "ok", 0, "error", text, "code", 1);
}

static const char *text(const json_t *object, const char *key) {
  return json_string_value(json_object_get(object, key));
}

/* ---- status --------------------------------------------------------------------------------- */

static json_t *run_status(struct offline *offline) {
  char why[FS_WHY];
  uint8_t *data;
  size_t len;
  char *path = fs_join(offline->build, "manifest.json");
  if (!path)
    return NULL;
  bool ok = fs_read(path, MANIFEST_LIMIT, &data, &len, why);
  free(path);
  if (!ok)
    return refuse("no server runs, and %s", why);
  json_t *build = json_loadb((const char *)data, len, 0, NULL);
  free(data);
  if (!build)
    return refuse("no server runs, and the manifest of %s is damaged; build it again",
                  offline->build);
  return json_pack("{s:b, s:o}", "ok", 1, "build", build);
}

/* ---- domain --------------------------------------------------------------------------------- */

static struct domain_list *open_list(const struct offline *offline, char *why) {
  char *path = fs_join(offline->build, "domains.json");
  struct domain_list *list = path ? domain_list_open(path, why) : NULL;
  free(path);
  return list;
}

static bool add_override(void *arg, const struct store_override *o) {
  json_t *list = arg;
  if (o->expires_at > 0 && o->expires_at <= (int64_t)time(NULL))
    return true; /* as the server will, when it starts */
  json_array_append_new(
      list,
      json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:s?, s:s?, s:s?, s:I, s:I, s:s?, s:s?}", "kind",
                state_kind_name(o->key.kind), "endpoint", o->key.endpoint, "region", o->key.region,
                "level", (json_int_t)o->key.level, "family", (json_int_t)o->key.family, "value",
                (json_int_t)o->value, "who", o->who, "origin", o->origin, "reason", o->reason,
                "set_at", (json_int_t)o->set_at, "expires_at", (json_int_t)o->expires_at, "cause",
                o->cause, "before", o->before));
  return true;
}

/* The entry of the build's list; else NULL, with a refusal in *reply. */
static json_t *find_entry(const struct offline *offline, const char *name, json_t **reply) {
  uint8_t wire[NAME_BUF];
  char why[DOMAIN_LIST_WHY];
  const char *wrong;
  json_t *entry = NULL;
  if (!name || !name_from_text(wire, name, strlen(name), NULL, &wrong)) {
    *reply = refuse("the request names no domain");
    return NULL;
  }
  struct domain_list *list = open_list(offline, why);
  enum domain_list_result result =
      list ? domain_list_find(list, wire, &entry, why) : DOMAIN_LIST_BAD;
  domain_list_close(list);
  if (result == DOMAIN_LIST_NONE)
    *reply = refuse("%s is not a steered name", name);
  else if (result == DOMAIN_LIST_BAD)
    *reply = refuse("no server runs, and %s", why);
  return result == DOMAIN_LIST_FOUND ? entry : NULL;
}

static json_t *run_domain(struct offline *offline, const json_t *request) {
  char why[STORE_WHY];
  json_t *reply = NULL;
  uint64_t revision = 0;
  json_t *entry = find_entry(offline, text(request, "domain"), &reply);
  if (!entry)
    return reply;
  const char *name = text(entry, "domain");
  json_t *overrides = json_array();
  if (!name || !store_load(offline->store, name, add_override, overrides, why) ||
      !store_revision(offline->store, name, &revision, why)) {
    json_decref(overrides);
    reply = refuse("no server runs, and %s", name ? why : "the build's list is damaged");
  } else {
    reply = json_pack("{s:b, s:{s:s, s:s?, s:I, s:O?, s:o, s:[]}, s:n, s:{s:b, s:n}}", "ok", 1,
                      "domain", "name", name, "zone", text(entry, "zone"), "revision",
                      (json_int_t)revision, "steer", json_object_get(entry, "steer"), "overrides",
                      overrides, "health", "data", "health", "connected", 0, "age");
  }
  json_decref(entry);
  return reply;
}

static json_t *domain_line(const json_t *entry) {
  json_t *names = json_array();
  const json_t *list = json_object_get(json_object_get(entry, "steer"), "endpoints");
  size_t i;
  const json_t *endpoint;
  json_array_foreach(list, i, endpoint) json_array_append(names, json_object_get(endpoint, "name"));
  return json_pack("{s:O?, s:O?, s:o}", "name", json_object_get(entry, "domain"), "zone",
                   json_object_get(entry, "zone"), "endpoints", names);
}

static json_t *run_domains(struct offline *offline, const json_t *request) {
  char why[DOMAIN_LIST_WHY] = "";
  const char *zone = text(request, "zone");
  json_t *entry;
  json_t *lines = json_array();
  enum domain_list_result result = DOMAIN_LIST_BAD;
  struct domain_list *list = open_list(offline, why);
  while (list && (result = domain_list_next(list, &entry, why)) == DOMAIN_LIST_FOUND) {
    const char *in = text(entry, "zone");
    if (!zone || (in && strcmp(in, zone) == 0))
      json_array_append_new(lines, domain_line(entry));
    json_decref(entry);
  }
  domain_list_close(list);
  if (result == DOMAIN_LIST_NONE)
    return json_pack("{s:b, s:o}", "ok", 1, "domains", lines);
  json_decref(lines);
  return refuse("no server runs, and %s", why);
}

/* ---- commit --------------------------------------------------------------------------------- */

static bool read_change(const json_t *json, const struct offline *offline, const char *origin,
                        struct store_change *change) {
  int kind = state_kind(text(json, "kind"));
  const char *region = text(json, "region");
  *change = (struct store_change){
      .drop = text(json, "op") && strcmp(text(json, "op"), "drop") == 0,
      .override = {
          .key = {.kind = kind < 0 ? STORE_WEIGHT : (enum store_kind)kind,
                  .domain = text(json, "domain"),
                  .endpoint = text(json, "endpoint"),
                  .region = region ? region : "",
                  .level = (uint32_t)json_integer_value(json_object_get(json, "level")),
                  .family = (uint8_t)json_integer_value(json_object_get(json, "family"))},
          .value = (int32_t)json_integer_value(json_object_get(json, "value")),
          .set_at = (int64_t)time(NULL),
          .expires_at = json_integer_value(json_object_get(json, "expires_at")),
          .who = offline->who,
          .origin = origin,
          .reason = text(json, "reason"),
          .cause = text(json, "cause"),
          .before = text(json, "before"),
      }};
  return kind >= 0 && change->override.key.domain && change->override.key.endpoint;
}

static json_t *commit(struct offline *offline, const json_t *request, struct store_change *changes,
                      size_t count) {
  char why[STORE_WHY];
  uint64_t revision;
  const json_t *expect = json_array_get(json_object_get(request, "expect"), 0);
  const json_t *audit = json_array_get(json_object_get(request, "audits"), 0);
  char *what = json_dumps(json_object_get(audit, "what"), JSON_COMPACT);
  struct store_expect expected = {.domain = json_string_value(json_array_get(expect, 0)),
                                  .revision =
                                      (uint64_t)json_integer_value(json_array_get(expect, 1))};
  struct store_audit row = {
      .who = offline->who,
      .origin = text(request, "origin"),
      .command = text(audit, "command"),
      .domain = text(audit, "domain"),
      .what = what ? what : "{}",
      .reason = text(audit, "reason"),
  };
  const struct store_batch batch = {
      .request = text(request, "request"),
      .at = (int64_t)time(NULL),
      .expect = &expected,
      .expect_count = 1,
      .changes = changes,
      .change_count = count,
      .audits = &row,
      .audit_count = 1,
  };
  bool repeated;
  json_t *reply = NULL;
  if (!expected.domain || !row.command || !row.domain)
    reply = refuse("the commit is not whole");
  else
    switch (store_commit(offline->store, &batch, &revision, NULL, &repeated, why)) {
    case STORE_DONE:
      reply = json_pack("{s:b, s:I}", "ok", 1, "revision", (json_int_t)revision);
      break;
    case STORE_CONFLICT:
      reply = json_pack("{s:b, s:b, s:s, s:i}", "ok", 0, "conflict", 1, "error",
                        "someone else has changed it", "code", 1);
      break;
    default:
      reply = refuse("no server runs, and %s", why);
    }
  free(what);
  return reply;
}

static json_t *run_commit(struct offline *offline, const json_t *request) {
  const json_t *list = json_object_get(request, "changes");
  size_t count = json_array_size(list);
  struct store_change *changes = calloc(count + 1, sizeof *changes);
  if (!changes)
    return NULL;
  bool ok = true;
  for (size_t i = 0; ok && i < count; i++)
    ok = read_change(json_array_get(list, i), offline, text(request, "origin"), &changes[i]);
  json_t *reply =
      ok ? commit(offline, request, changes, count) : refuse("a change is not well-formed");
  free(changes);
  return reply;
}

/* ---- history -------------------------------------------------------------------------------- */

static json_t *parsed(const char *json) {
  json_t *value = json ? json_loads(json, JSON_DECODE_ANY, NULL) : NULL;
  return value ? value : json_null();
}

static bool add_row(void *arg, const struct store_audit *row) {
  json_t *list = arg;
  json_array_append_new(list, json_pack("{s:I, s:I, s:s?, s:s?, s:s?, s:s?, s:o, s:s?, s:o}", "id",
                                        (json_int_t)row->id, "at", (json_int_t)row->at, "who",
                                        row->who, "origin", row->origin, "command", row->command,
                                        "domain", row->domain, "what", parsed(row->what), "reason",
                                        row->reason, "result", parsed(row->result)));
  return true;
}

static json_t *run_history(struct offline *offline, const json_t *request) {
  char why[STORE_WHY];
  json_int_t limit = json_integer_value(json_object_get(request, "limit"));
  json_t *list = json_array();
  if (store_history(offline->store, text(request, "domain"), limit > 0 ? (size_t)limit : 0, add_row,
                    list, why))
    return json_pack("{s:b, s:o}", "ok", 1, "history", list);
  json_decref(list);
  return refuse("no server runs, and %s", why);
}

json_t *offline_call(struct offline *offline, const json_t *request) {
  static const struct {
    const char *name;
    json_t *(*run)(struct offline *, const json_t *);
  } commands[] = {{"domain", run_domain},
                  {"domains", run_domains},
                  {"commit", run_commit},
                  {"history", run_history}};
  const char *command = text(request, "command");
  if (command && strcmp(command, "status") == 0)
    return run_status(offline);
  for (size_t i = 0; command && i < sizeof commands / sizeof *commands; i++)
    if (strcmp(command, commands[i].name) == 0)
      return commands[i].run(offline, request);
  return refuse("no server listens; start sluiced, which this command needs");
}

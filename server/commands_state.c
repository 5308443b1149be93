/* SPDX-License-Identifier: Apache-2.0 */
#include "server/commands_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/name.h"
#include "base/utf8.h"
#include "server/author.h"
#include "server/commit_request.h"
#include "server/health_feed.h"
#include "server/override_target.h"
#include "server/overrides.h"
#include "zones/domain_json.h"

enum {
  CODE_FAILED = 1,
  CODE_USAGE = 2,
  HISTORY_DEFAULT = 20,
  HISTORY_MOST = 100000,
  LOGGED = 20, /* rows of one commit */
};

static json_t *out_of_memory(void) {
  return command_error(CODE_FAILED, "out of memory");
}

/* ---- domain, domains --------------------------------------------------------------------------
 */

static const char *zone_of(const struct served *served, uint32_t domain) {
  const struct view *view = &served->view;
  for (uint32_t z = 0; z < view->zone_count; z++) {
    const struct view_domain *first = view->zones[z].domains;
    if (&served->domains[domain] >= first &&
        &served->domains[domain] < first + view->zones[z].image->header->domain_count)
      return served->zones[z].name;
  }
  return "";
}

static json_t *health_json(const struct server *server, uint32_t domain, uint16_t endpoint,
                           int family) {
  static const char *const states[] = {"unknown", "up", "down"};
  struct fact_health fact = facts_health(server->served, domain, endpoint, family);
  struct health_known known = health_feed_lookup(server, domain, endpoint, family);
  const struct steer_endpoint *e = &server->served->domains[domain].steer->endpoints[endpoint];
  return json_pack("{s:s, s:i, s:s, s:b, s:b, s:o, s:s?}", "endpoint", e->name, "family", family,
                   "state", states[known.state], "checked", (int)known.checked, "forced",
                   (int)(fact.forced != 0), "since",
                   known.since != 0 ? json_integer((json_int_t)known.since) : json_null(), "why",
                   known.why);
}

static json_t *healths_json(const struct server *server, uint32_t domain) {
  const struct steer_domain *steer = server->served->domains[domain].steer;
  json_t *list = json_array();
  for (uint32_t e = 0; e < steer->endpoint_count; e++) {
    const struct steer_endpoint *endpoint = &steer->endpoints[e];
    if (endpoint->addr4_count > 0 || endpoint->host != NULL)
      json_array_append_new(list, health_json(server, domain, (uint16_t)e, 4));
    if (endpoint->addr6_count > 0 || endpoint->host != NULL)
      json_array_append_new(list, health_json(server, domain, (uint16_t)e, 6));
  }
  return list;
}

static json_t *run_domain(struct server *server, const json_t *request) {
  json_t *error = NULL;
  char why[STORE_WHY], name[NAME_MAX_TEXT];
  uint64_t revision;
  long at = command_find_domain(server, request, &error);
  if (at < 0)
    return error;
  const struct served *served = server->served;
  const struct steer_domain *steer = served->domains[at].steer;
  name_to_text(name, steer->owner);
  if (!overrides_refresh(server->overrides, server->served, why) ||
      !store_revision(overrides_store(server->overrides), name, &revision, why))
    return command_error(CODE_FAILED, "%s", why);
  json_t *domain = json_pack(
      "{s:s, s:s, s:I, s:o, s:o, s:o}", "name", name, "zone", zone_of(served, (uint32_t)at),
      "revision", (json_int_t)revision, "steer", domain_json_encode(steer), "overrides",
      overrides_of_domain(server->overrides, name), "health", healths_json(server, (uint32_t)at));
  char *data = realpath(server->settings->data, NULL); /* for a reader in another folder */
  json_t *reply = json_pack("{s:b, s:o, s:s, s:s?, s:o}", "ok", 1, "domain", domain, "data",
                            data != NULL ? data : server->settings->data, "default_zone",
                            served->default_zone, "health", command_health(server));
  free(data);
  return reply;
}

static bool add_revision(void *arg, const char *domain, uint64_t revision) {
  return json_object_set_new(arg, domain, json_integer((json_int_t)revision)) == 0;
}

static json_t *domain_row(const struct served *served, uint32_t at, const char *zone,
                          const json_t *revisions) {
  const struct steer_domain *steer = served->domains[at].steer;
  char name[NAME_MAX_TEXT];
  json_t *endpoints = json_array();
  for (uint32_t e = 0; e < steer->endpoint_count; e++)
    json_array_append_new(endpoints, json_string(steer->endpoints[e].name));
  name_to_text(name, steer->owner);
  return json_pack("{s:s, s:s, s:I, s:o}", "name", name, "zone", zone, "revision",
                   json_integer_value(json_object_get(revisions, name)), "endpoints", endpoints);
}

/* Index of the zone with this name, or -1. */
static long find_zone(const struct served *served, const char *text) {
  uint8_t name[NAME_BUF];
  const char *why;
  if (name_from_text(name, text, strlen(text), NULL, &why) == 0)
    return -1;
  for (uint32_t z = 0; z < served->view.zone_count; z++)
    if (name_equal(served->view.zones[z].image->header->apex, name))
      return (long)z;
  return -1;
}

static json_t *run_domains(struct server *server, const json_t *request) {
  const struct served *served = server->served;
  const char *wanted = json_string_value(json_object_get(request, "zone"));
  char why[STORE_WHY];
  long only = wanted != NULL ? find_zone(served, wanted) : -1;
  if (wanted != NULL && only < 0)
    return command_error(CODE_FAILED, "zone %.300s is not served here", wanted);
  json_t *revisions = json_object();
  json_t *list = json_array();
  if (!store_revisions(overrides_store(server->overrides), add_revision, revisions, why)) {
    json_decref(revisions);
    json_decref(list);
    return command_error(CODE_FAILED, "%s", why);
  }
  for (uint32_t z = 0; z < served->view.zone_count; z++) {
    const struct view_zone *zone = &served->view.zones[z];
    uint32_t first = (uint32_t)(zone->domains - served->domains);
    if (only >= 0 && z != (uint32_t)only)
      continue;
    for (uint32_t d = 0; d < zone->image->header->domain_count; d++)
      json_array_append_new(list, domain_row(served, first + d, served->zones[z].name, revisions));
  }
  json_decref(revisions);
  return json_pack("{s:b, s:o}", "ok", 1, "domains", list);
}

/* ---- commit -----------------------------------------------------------------------------------
 */

static void log_commit(const struct store_batch *batch, uint64_t revision) {
  for (size_t i = 0; i < batch->audit_count; i++) {
    const struct store_audit *audit = &batch->audits[i];
    if (i == LOGGED) {
      log_notice("commit %llu: and %zu more domains", (unsigned long long)revision,
                 batch->audit_count - i);
      return;
    }
    log_notice("commit %llu: %s of %s by %s%s%s%s%s%s", (unsigned long long)revision,
               audit->command, audit->domain, audit->who, audit->origin != NULL ? " (" : "",
               audit->origin != NULL ? audit->origin : "", audit->origin != NULL ? ")" : "",
               audit->reason != NULL ? ": " : "", audit->reason != NULL ? audit->reason : "");
  }
}

/* Everything that a commit says on behalf of its author. */
static void sign(struct store_batch *batch, struct store_change *changes,
                 struct store_audit *audits, const struct author *author) {
  const char *origin = author->origin[0] != '\0' ? author->origin : NULL;
  batch->at = (int64_t)time(NULL);
  for (size_t i = 0; i < batch->change_count; i++) {
    changes[i].override.who = author->who;
    changes[i].override.origin = origin;
    changes[i].override.set_at = batch->at;
  }
  for (size_t i = 0; i < batch->audit_count; i++) {
    audits[i].who = author->who;
    audits[i].origin = origin;
  }
}

static json_t *commit(struct server *server, struct store_batch *batch,
                      struct store_change *changes) {
  char why[STORE_WHY];
  uint64_t revision = 0;
  int64_t *ids = calloc(batch->audit_count + 1, sizeof *ids);
  if (ids == NULL)
    return out_of_memory();
  enum store_result result =
      overrides_commit(server->overrides, server->served, batch, changes, &revision, ids, why);
  json_t *reply;
  if (result == STORE_DONE) {
    json_t *list = json_array();
    for (size_t i = 0; i < batch->audit_count; i++)
      json_array_append_new(list, json_integer((json_int_t)ids[i]));
    reply = json_pack("{s:b, s:I, s:o}", "ok", 1, "revision", (json_int_t)revision, "audits", list);
    log_commit(batch, revision);
  } else {
    reply = command_error(CODE_FAILED, "%s", why);
    if (result == STORE_CONFLICT)
      json_object_set_new(reply, "conflict", json_true());
  }
  free(ids);
  return reply;
}

static int compare_texts(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Nothing is changed without a trace: every domain that changes has a row. */
static bool is_audited(const struct store_batch *batch, char *why) {
  size_t count = batch->audit_count;
  const char **domains = calloc(count + 1, sizeof *domains);
  bool ok = domains != NULL;
  for (size_t i = 0; ok && i < count; i++)
    domains[i] = batch->audits[i].domain;
  snprintf(why, STORE_WHY, "out of memory");
  if (ok)
    qsort(domains, count, sizeof *domains, compare_texts);
  for (size_t i = 0; ok && i < batch->change_count; i++) {
    const char *domain = batch->changes[i].override.key.domain;
    ok = bsearch(&domain, domains, count, sizeof *domains, compare_texts) != NULL;
    if (!ok)
      snprintf(why, STORE_WHY, "audits: there is no row for %.300s, which changes", domain);
  }
  free(domains);
  return ok;
}

static json_t *run_commit(struct server *server, const json_t *request, uid_t uid) {
  struct commit_request r;
  struct author author;
  char why[STORE_WHY];
  json_t *reply;
  if (!commit_request_read(&r, request, why) || !is_audited(&r.batch, why)) {
    reply = command_error(CODE_USAGE, "%s", why);
  } else if (!author_find(server->settings, uid, r.as, r.origin, &author, why)) {
    reply = command_error(CODE_FAILED, "%s", why);
  } else {
    sign(&r.batch, r.changes, r.audits, &author);
    reply = commit(server, &r.batch, r.changes);
  }
  commit_request_close(&r);
  return reply;
}

/* ---- result, history --------------------------------------------------------------------------
 */

static json_t *run_result(struct server *server, const json_t *request) {
  const json_t *id = json_object_get(request, "audit");
  const json_t *result = json_object_get(request, "result");
  char why[STORE_WHY];
  if (!json_is_integer(id) || !json_is_object(result))
    return command_error(CODE_USAGE, "`audit` must be a number and `result` an object");
  char *text = json_dumps(result, JSON_COMPACT);
  if (text == NULL)
    return out_of_memory();
  json_t *reply;
  if (strlen(text) > COMMIT_WHAT)
    reply = command_error(CODE_USAGE, "`result` has more than %d octets", COMMIT_WHAT);
  else if (store_audit_result(overrides_store(server->overrides), json_integer_value(id), text,
                              why))
    reply = json_pack("{s:b}", "ok", 1);
  else
    reply = command_error(CODE_FAILED, "%s", why);
  free(text);
  return reply;
}

/* What was written as JSON; as text if somebody else wrote it. */
static json_t *stored_json(const char *text) {
  if (text == NULL)
    return json_null();
  json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);
  if (json != NULL)
    return json;
  json = json_string(text);
  return json != NULL ? json : json_null();
}

static bool add_row(void *arg, const struct store_audit *audit) {
  json_t *row = json_pack("{s:I, s:I, s:I, s:s?, s:s, s:s?, s:s, s:s, s:o, s:s?, s:o}", "id",
                          (json_int_t)audit->id, "at", (json_int_t)audit->at, "revision",
                          (json_int_t)audit->revision, "request", audit->request, "who", audit->who,
                          "origin", audit->origin, "command", audit->command, "domain",
                          audit->domain, "what", stored_json(audit->what), "reason", audit->reason,
                          "result", stored_json(audit->result));
  return json_array_append_new(arg, row) == 0;
}

static json_t *run_history(struct server *server, const json_t *request) {
  const char *text = json_string_value(json_object_get(request, "domain"));
  const json_t *limit = json_object_get(request, "limit");
  json_int_t most = json_is_integer(limit) ? json_integer_value(limit) : HISTORY_DEFAULT;
  uint8_t mixed[NAME_BUF], owner[NAME_BUF];
  char name[NAME_MAX_TEXT], why[STORE_WHY];
  const char *reason = "";
  if (most < 1 || most > HISTORY_MOST)
    return command_error(CODE_USAGE, "`limit` must be from 1 to %d", HISTORY_MOST);
  if (text != NULL) {
    if (name_from_text(mixed, text, strlen(text), NULL, &reason) == 0)
      return command_error(CODE_USAGE, "`%.300s` is not a domain name: %s", text, reason);
    name_copy_lower(owner, mixed);
    name_to_text(name, owner);
  }
  json_t *list = json_array();
  if (list != NULL && store_history(overrides_store(server->overrides), text != NULL ? name : NULL,
                                    (size_t)most, add_row, list, why))
    return json_pack("{s:b, s:o}", "ok", 1, "history", list);
  json_decref(list);
  return list != NULL ? command_error(CODE_FAILED, "%s", why) : NULL;
}

/* ---- manual, override: commits of one domain in few words -------------------------------------
 */

struct simple {
  const char *command;
  const char *value; /* as the request says */
  struct store_change *changes;
  size_t count;
};

/* {"endpoints": [...], "value": TEXT} */
static char *simple_what(const struct simple *simple) {
  json_t *names = json_array();
  for (size_t i = 0; i < simple->count; i++)
    json_array_append_new(names, json_string(simple->changes[i].override.key.endpoint));
  json_t *what = json_pack("{s:o, s:s}", "endpoints", names, "value", simple->value);
  char *text = what != NULL ? json_dumps(what, JSON_COMPACT) : NULL;
  json_decref(what);
  return text;
}

static json_t *commit_simple(struct server *server, const struct simple *simple, const char *domain,
                             const json_t *request, uid_t uid) {
  const char *reason = json_string_value(json_object_get(request, "reason"));
  const char *said = json_string_value(json_object_get(request, "who"));
  char why[STORE_WHY];
  struct author author;
  if (said != NULL && said[0] == '\0')
    said = NULL;
  if (reason != NULL && reason[0] == '\0')
    reason = NULL;
  if (!commit_request_text(said, COMMIT_NAME - 1, "who", why) ||
      !commit_request_text(reason, COMMIT_TEXT, "reason", why))
    return command_error(CODE_USAGE, "%s", why);
  if (!author_find(server->settings, uid, said, NULL, &author, why))
    return command_error(CODE_FAILED, "%s", why);
  char *what = simple_what(simple);
  if (what == NULL)
    return out_of_memory();
  struct store_audit audit = {
      .command = simple->command, .domain = domain, .what = what, .reason = reason};
  struct store_batch batch = {.changes = simple->changes,
                              .change_count = simple->count,
                              .audits = &audit,
                              .audit_count = 1};
  for (size_t i = 0; i < simple->count; i++) {
    simple->changes[i].override.key.domain = domain;
    simple->changes[i].override.key.region = "";
    simple->changes[i].override.reason = reason;
  }
  sign(&batch, simple->changes, &audit, &author);
  json_t *reply = commit(server, &batch, simple->changes);
  free(what);
  return reply;
}

/* One of `values`, as its index; -1 with *error set. */
static int find_value(const json_t *request, const char *const values[3], json_t **error) {
  const char *value = json_string_value(json_object_get(request, "value"));
  for (int i = 0; value != NULL && i < 3; i++)
    if (strcmp(value, values[i]) == 0)
      return i;
  *error = command_error(CODE_USAGE, "`value` must be `%s`, `%s` or `%s`", values[0], values[1],
                         values[2]);
  return -1;
}

static struct store_change status_change(const char *endpoint, int value) {
  return (struct store_change){
      .drop = value == 0,
      .override = {.key = {.kind = STORE_STATUS, .endpoint = endpoint}, .value = value}};
}

/* Ends what was set by hand at any endpoint of the domain; replies which ones these were. */
static json_t *reset_all(struct server *server, const struct steer_domain *steer,
                         struct simple *simple, const char *domain, const json_t *request,
                         uid_t uid) {
  json_t *names = json_array();
  for (uint32_t e = 0; e < steer->endpoint_count; e++) {
    const char *endpoint = steer->endpoints[e].name;
    const struct store_key key = {
        .kind = STORE_STATUS, .domain = domain, .endpoint = endpoint, .region = ""};
    if (overrides_find(server->overrides, &key) == NULL)
      continue;
    simple->changes[simple->count++] = status_change(endpoint, 0);
    json_array_append_new(names, json_string(endpoint));
  }
  json_t *reply = simple->count > 0 ? commit_simple(server, simple, domain, request, uid)
                                    : json_pack("{s:b}", "ok", 1);
  if (json_is_true(json_object_get(reply, "ok")))
    json_object_set(reply, "endpoints", names);
  json_decref(names);
  return reply;
}

static json_t *manual_of(struct server *server, const struct steer_domain *steer,
                         const char *domain, int value, const json_t *request, uid_t uid) {
  static const char *const commands[3] = {"reset", "enable", "disable"};
  const json_t *list = json_object_get(request, "endpoints");
  size_t count = list != NULL ? json_array_size(list) : steer->endpoint_count;
  struct simple simple = {.command = commands[value], .value = commands[value]};
  json_t *reply;
  if ((list == NULL && value != 0) || (list != NULL && count == 0))
    return command_error(CODE_USAGE, "`endpoints` must be a list of names");
  simple.changes = calloc(count + 1, sizeof *simple.changes);
  if (simple.changes == NULL)
    return out_of_memory();
  if (list == NULL) {
    reply = reset_all(server, steer, &simple, domain, request, uid);
    free(simple.changes);
    return reply;
  }
  bool named = true;
  for (size_t i = 0; named && i < count; i++) {
    const char *endpoint = json_string_value(json_array_get(list, i));
    named = endpoint != NULL;
    simple.changes[simple.count++] = status_change(endpoint, value);
  }
  if (named)
    reply = commit_simple(server, &simple, domain, request, uid);
  else
    reply = command_error(CODE_USAGE, "the request names no endpoint");
  free(simple.changes);
  return reply;
}

static json_t *run_manual(struct server *server, const json_t *request, uid_t uid) {
  static const char *const values[3] = {"reset", "enable", "disable"};
  json_t *error = NULL;
  char name[NAME_MAX_TEXT];
  long at = command_find_domain(server, request, &error);
  int value = at >= 0 ? find_value(request, values, &error) : -1;
  if (value < 0)
    return error;
  const struct steer_domain *steer = server->served->domains[at].steer;
  return manual_of(server, steer, name_to_text(name, steer->owner), value, request, uid);
}

static json_t *run_override(struct server *server, const json_t *request, uid_t uid) {
  static const char *const values[3] = {"auto", "up", "down"};
  json_t *error = NULL;
  char name[NAME_MAX_TEXT];
  long at = command_find_domain(server, request, &error);
  int value = at >= 0 ? find_value(request, values, &error) : -1;
  if (value < 0)
    return error;
  const struct steer_domain *steer = server->served->domains[at].steer;
  const char *endpoint = json_string_value(json_object_get(request, "endpoint"));
  const json_t *family = json_object_get(request, "family");
  json_int_t number = json_integer_value(family);
  bool both = family == NULL || json_is_null(family);
  if (endpoint == NULL)
    return command_error(CODE_USAGE, "the request names no endpoint");
  if (!both && number != 4 && number != 6)
    return command_error(CODE_USAGE, "`family` must be 4, 6 or null");
  struct store_change changes[2];
  struct simple simple = {.command = "health", .value = values[value], .changes = changes};
  for (uint8_t f = 4; f <= 6; f = (uint8_t)(f + 2))
    if (both || number == f)
      changes[simple.count++] = (struct store_change){
          .drop = value == 0,
          .override = {.key = {.kind = STORE_HEALTH, .endpoint = endpoint, .family = f},
                       .value = value}};
  return commit_simple(server, &simple, name_to_text(name, steer->owner), request, uid);
}

/* ---- all --------------------------------------------------------------------------------------
 */

bool command_state_run(struct server *server, const char *command, const json_t *request, uid_t uid,
                       json_t **reply) {
  if (strcmp(command, "domain") == 0)
    *reply = run_domain(server, request);
  else if (strcmp(command, "domains") == 0)
    *reply = run_domains(server, request);
  else if (strcmp(command, "commit") == 0)
    *reply = run_commit(server, request, uid);
  else if (strcmp(command, "result") == 0)
    *reply = run_result(server, request);
  else if (strcmp(command, "history") == 0)
    *reply = run_history(server, request);
  else if (strcmp(command, "manual") == 0)
    *reply = run_manual(server, request, uid);
  else if (strcmp(command, "override") == 0)
    *reply = run_override(server, request, uid);
  else
    return false;
  return true;
}

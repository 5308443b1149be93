/* SPDX-License-Identifier: Apache-2.0 */
#include "server/commands_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/name.h"
#include "server/author.h"
#include "server/commit_request.h"
#include "server/health_feed.h"
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
  else
    return false;
  return true;
}

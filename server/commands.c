/* SPDX-License-Identifier: Apache-2.0 */
#include "server/commands.h"

#include <arpa/inet.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/name.h"
#include "base/utf8.h"
#include "server/secondary.h"
#include "server/stats.h"
#include "server/worker.h"
#include "steering/explain.h"

enum { CODE_FAILED = 1, CODE_USAGE = 2, WHO_MAX = 256, REASON_MAX = 1024 };

json_t *command_error(int code, const char *format, ...) {
  char message[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  utf8_repair(message); /* what it quotes may have been cut */
  return json_pack("{s:b, s:s, s:i}", "ok", 0, "error", message, "code", code);
}

static json_t *command_ok(void) {
  return json_pack("{s:b}", "ok", 1);
}

static const char *text_of(const json_t *request, const char *key) {
  return json_string_value(json_object_get(request, key));
}

/* ---- status -----------------------------------------------------------------------------------
 */

static json_t *build_json(const struct served *served) {
  return json_pack("{s:s, s:s?, s:I, s:s?}", "id", served->build_id, "commit", served->commit,
                   "commit_time", (json_int_t)served->commit_time, "default_zone",
                   served->default_zone);
}

static json_t *zones_json(const struct served *served) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < served->view.zone_count; i++) {
    const struct served_zone *zone = &served->zones[i];
    if (zone->secondary)
      continue;
    json_array_append_new(
        list, json_pack("{s:s, s:I, s:I, s:I}", "name", zone->name, "serial",
                        (json_int_t)zone->serial, "names", (json_int_t)zone->names, "domains",
                        (json_int_t)served->view.zones[i].image->header->domain_count));
  }
  return list;
}

static json_t *listen_json(const struct settings *settings) {
  json_t *list = json_array();
  for (size_t i = 0; i < settings->listen_count; i++)
    json_array_append_new(list, json_string(settings->listen[i].text));
  return list;
}

static json_t *geo_json(const struct served *served) {
  const struct geo_db *db = load_geo_db(served);
  const char *path = load_geo_path(served);
  if (db == NULL || path == NULL)
    return json_null();
  uint64_t epoch = geo_db_build_epoch(db);
  int64_t age = (int64_t)time(NULL) - (int64_t)epoch;
  return json_pack("{s:s, s:I, s:I, s:b}", "path", path, "build_epoch", (json_int_t)epoch, "age",
                   (json_int_t)(age > 0 ? age : 0), "ipv6", (int)geo_db_has_ipv6(db));
}

/* Null where there is nothing to say. */
static json_t *text_json(const char *text) {
  return text[0] != '\0' ? json_string(text) : json_null();
}

static json_t *reloaded_json(const struct server_reloaded *reloaded) {
  if (reloaded->at == 0)
    return json_null();
  return json_pack("{s:b, s:I, s:o, s:o}", "ok", (int)reloaded->ok, "at", (json_int_t)reloaded->at,
                   "error", text_json(reloaded->error), "warning", text_json(reloaded->warning));
}

static json_t *run_status(struct server *server) {
  json_t *build = build_json(server->served);
  json_object_set_new(build, "zones", zones_json(server->served));
  json_t *health = json_pack("{s:b, s:n}", "connected", 0, "age");
  return json_pack("{s:b, s:o, s:o, s:o, s:o, s:i, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "ok", 1,
                   "tls", server_tls_json(&server->tls), "build", build, "last_reload",
                   reloaded_json(&server->reloaded), "secondary", secondary_json(server->secondary),
                   "workers", (int)worker_count(server->workers), "uptime",
                   (json_int_t)((uv_hrtime() - server->started_at) / 1000000000), "pid",
                   (json_int_t)getpid(), "listen", listen_json(server->settings), "health", health,
                   "overrides", facts_overrides(server->facts), "geo", geo_json(server->served),
                   "counters", stats_json(server));
}

json_t *command_reload_reply(const struct server *server, const char *why, const char *warning) {
  if (why != NULL)
    return command_error(CODE_FAILED, "%s", why);
  json_t *reply = json_pack("{s:b, s:o, s:I, s:I}", "ok", 1, "build", build_json(server->served),
                            "zones", (json_int_t)server->served->view.zone_count, "changed",
                            (json_int_t)server->served->changed);
  if (warning[0] != '\0')
    json_object_set_new(reply, "warning", json_string(warning));
  if (server->tls.warning[0] != '\0')
    json_object_set_new(reply, "tls_warning", json_string(server->tls.warning));
  return reply;
}

/* ---- finding what a request is about ----------------------------------------------------------
 */

/* The domain that `request` names; -1 with *error set. */
static long find_domain(const struct server *server, const json_t *request, json_t **error) {
  const char *text = text_of(request, "domain");
  uint8_t mixed[NAME_BUF], owner[NAME_BUF];
  const char *why = "";
  if (text == NULL) {
    *error = command_error(CODE_USAGE, "the request names no domain");
    return -1;
  }
  if (name_from_text(mixed, text, strlen(text), NULL, &why) == 0) {
    *error = command_error(CODE_USAGE, "`%.300s` is not a domain name: %s", text, why);
    return -1;
  }
  name_copy_lower(owner, mixed);
  long domain = load_find_domain(server->served, owner);
  if (domain < 0)
    *error = command_error(CODE_FAILED, "%.300s is not a steered name", text);
  return domain;
}

static const struct steer_domain *domain_at(const struct server *server, long domain) {
  return server->served->domains[domain].steer;
}

/* "a, b, c", shortened. */
static void list_endpoints(const struct steer_domain *domain, char out[256]) {
  size_t n = 0;
  for (uint32_t e = 0; e < domain->endpoint_count && n < 200; e++)
    n += (size_t)snprintf(out + n, 256 - n, "%s%.40s", e > 0 ? ", " : "",
                          n > 150 ? "..." : domain->endpoints[e].name);
}

static long find_endpoint(const struct steer_domain *domain, const char *name, json_t **error) {
  long endpoint = name != NULL ? steer_endpoint_find(domain, name) : -1;
  char known[256] = "";
  if (endpoint >= 0)
    return endpoint;
  list_endpoints(domain, known);
  if (name == NULL)
    *error = command_error(CODE_USAGE, "the request names no endpoint");
  else
    *error = command_error(CODE_FAILED, "no endpoint `%.100s`; there are: %s", name, known);
  return -1;
}

/* One of `values`, as its index; -1 with *error set. */
static int find_value(const json_t *request, const char *const values[3], json_t **error) {
  const char *value = text_of(request, "value");
  for (int i = 0; value != NULL && i < 3; i++)
    if (strcmp(value, values[i]) == 0)
      return i;
  *error = command_error(CODE_USAGE, "`value` must be `%s`, `%s` or `%s`", values[0], values[1],
                         values[2]);
  return -1;
}

/* Who asks: what the request says, else the name of the peer's user. */
static struct fact_author author_of(const json_t *request, uid_t uid, char who[WHO_MAX]) {
  const char *said = text_of(request, "who");
  const struct passwd *user = said == NULL || *said == '\0' ? getpwuid(uid) : NULL;
  if (said != NULL && *said != '\0')
    snprintf(who, WHO_MAX, "%s", said);
  else if (user != NULL)
    snprintf(who, WHO_MAX, "%.200s", user->pw_name);
  else
    snprintf(who, WHO_MAX, "uid %lu", (unsigned long)uid);
  return (struct fact_author){
      .who = who, .reason = text_of(request, "reason"), .when = (int64_t)time(NULL)};
}

static void log_change(const struct server *server, const struct fact_change *change,
                       const json_t *request, const struct fact_author *author) {
  const struct steer_domain *domain = server->served->domains[change->domain].steer;
  char name[NAME_MAX_TEXT];
  const char *what = change->field == FACT_MANUAL    ? "manual status"
                     : change->field == FACT_FORCED4 ? "forced health (IPv4)"
                                                     : "forced health (IPv6)";
  log_notice("%s of %s at %s: %s, by %s%s%s", what, domain->endpoints[change->endpoint].name,
             name_to_text(name, domain->owner), text_of(request, "value"), author->who,
             author->reason != NULL ? ": " : "", author->reason != NULL ? author->reason : "");
}

static json_t *apply(struct server *server, const struct fact_change *changes, size_t count,
                     const json_t *request, uid_t uid) {
  char who[WHO_MAX];
  char why[FACTS_WHY];
  struct fact_author author = author_of(request, uid, who);
  const char *said = text_of(request, "who");
  if (said != NULL && strlen(said) >= WHO_MAX) /* cut, it might be no UTF-8 any more */
    return command_error(CODE_USAGE, "`who` is longer than %d octets", WHO_MAX - 1);
  if (author.reason != NULL && strlen(author.reason) > REASON_MAX)
    return command_error(CODE_USAGE, "the reason is longer than %d octets", REASON_MAX);
  if (!facts_apply(server->facts, server->served, changes, count, &author, why))
    return command_error(CODE_FAILED, "%s", why);
  for (size_t i = 0; i < count; i++)
    log_change(server, &changes[i], request, &author);
  return command_ok();
}

/* ---- manual, override -------------------------------------------------------------------------
 */

/* Ends what was set by hand at any endpoint of the domain; replies which ones these were. */
static json_t *reset_all(struct server *server, uint32_t domain, const json_t *request, uid_t uid) {
  const struct steer_domain *steer = domain_at(server, domain);
  struct steer_facts facts = facts_of(server->served, domain);
  struct fact_change *changes = calloc((size_t)steer->endpoint_count + 1, sizeof *changes);
  json_t *names = json_array();
  size_t count = 0;
  for (uint32_t e = 0; changes != NULL && facts.status != NULL && e < steer->endpoint_count; e++) {
    if (facts.status[e].manual == MANUAL_NONE)
      continue;
    changes[count++] = (struct fact_change){
        .domain = domain, .endpoint = (uint16_t)e, .field = FACT_MANUAL, .value = MANUAL_NONE};
    json_array_append_new(names, json_string(steer->endpoints[e].name));
  }
  json_t *reply = NULL;
  if (changes != NULL && names != NULL)
    reply = count > 0 ? apply(server, changes, count, request, uid) : command_ok();
  if (json_is_true(json_object_get(reply, "ok")))
    json_object_set(reply, "endpoints", names);
  json_decref(names);
  free(changes);
  return reply;
}

static json_t *run_manual(struct server *server, const json_t *request, uid_t uid) {
  static const char *const values[3] = {"reset", "enable", "disable"};
  json_t *error = NULL;
  long domain = find_domain(server, request, &error);
  int value = domain >= 0 ? find_value(request, values, &error) : -1;
  if (value < 0)
    return error;
  const json_t *list = json_object_get(request, "endpoints");
  if (list == NULL && value == MANUAL_NONE)
    return reset_all(server, (uint32_t)domain, request, uid);
  size_t count = json_array_size(list);
  if (count == 0)
    return command_error(CODE_USAGE, "`endpoints` must be a list of names");
  struct fact_change *changes = calloc(count, sizeof *changes);
  if (changes == NULL)
    return NULL;
  json_t *reply = NULL;
  for (size_t i = 0; i < count; i++) {
    const char *name = json_string_value(json_array_get(list, i));
    long endpoint = find_endpoint(domain_at(server, domain), name, &reply);
    if (endpoint < 0)
      goto done;
    changes[i] = (struct fact_change){.domain = (uint32_t)domain,
                                      .endpoint = (uint16_t)endpoint,
                                      .field = FACT_MANUAL,
                                      .value = (uint8_t)value};
  }
  reply = apply(server, changes, count, request, uid);
done:
  free(changes);
  return reply;
}

static json_t *run_override(struct server *server, const json_t *request, uid_t uid) {
  static const char *const values[3] = {"auto", "up", "down"};
  json_t *error = NULL;
  long domain = find_domain(server, request, &error);
  int value = domain >= 0 ? find_value(request, values, &error) : -1;
  if (value < 0)
    return error;
  long endpoint = find_endpoint(domain_at(server, domain), text_of(request, "endpoint"), &error);
  if (endpoint < 0)
    return error;
  const json_t *family = json_object_get(request, "family");
  json_int_t number = json_integer_value(family);
  bool both = family == NULL || json_is_null(family);
  if (!both && number != 4 && number != 6)
    return command_error(CODE_USAGE, "`family` must be 4, 6 or null");
  struct fact_change changes[2];
  size_t count = 0;
  for (uint8_t field = FACT_FORCED4; field <= FACT_FORCED6; field++)
    if (both || number == (field == FACT_FORCED4 ? 4 : 6))
      changes[count++] = (struct fact_change){.domain = (uint32_t)domain,
                                              .endpoint = (uint16_t)endpoint,
                                              .field = field,
                                              .value = (uint8_t)value};
  return apply(server, changes, count, request, uid);
}

/* ---- explain ----------------------------------------------------------------------------------
 */

static bool parse_client(const char *text, struct geo_address *client) {
  uint8_t octets[16];
  if (text == NULL)
    return false;
  if (inet_pton(AF_INET, text, octets) == 1)
    geo_address_set4(client, octets);
  else if (inet_pton(AF_INET6, text, octets) == 1)
    geo_address_set6(client, octets);
  else
    return false;
  return true;
}

static json_t *run_explain(struct server *server, const json_t *request) {
  json_t *error = NULL;
  long domain = find_domain(server, request, &error);
  if (domain < 0)
    return error;
  const char *type = text_of(request, "type");
  struct explain_input input = {.domain = domain_at(server, domain),
                                .db = load_geo_db(server->served),
                                .table = server->served->domains[domain].geo,
                                .client_text = text_of(request, "client"),
                                .type = STEER_A,
                                .facts = facts_of(server->served, (uint32_t)domain)};
  if (!parse_client(input.client_text, &input.client))
    return command_error(CODE_USAGE, "`client` must be an IPv4 or IPv6 address");
  if (type != NULL && strcmp(type, "AAAA") == 0)
    input.type = STEER_AAAA;
  else if (type != NULL && strcmp(type, "A") != 0)
    return command_error(CODE_USAGE, "`type` must be A or AAAA");
  char name[NAME_MAX_TEXT];
  input.domain_text = name_to_text(name, input.domain->owner);
  return json_pack("{s:b, s:o}", "ok", 1, "explain", explain_json(&input));
}

/* ---- all --------------------------------------------------------------------------------------
 */

enum command_result command_run(struct server *server, const json_t *request, uid_t uid,
                                json_t **reply) {
  const char *command = text_of(request, "command");
  *reply = NULL;
  if (command == NULL) {
    *reply = command_error(CODE_USAGE, "a request is a JSON object with a `command`");
  } else if (strcmp(command, "status") == 0) {
    *reply = run_status(server);
  } else if (strcmp(command, "reload") == 0) {
    return COMMAND_RELOAD;
  } else if (strcmp(command, "stop") == 0) {
    *reply = command_ok();
    return COMMAND_STOP;
  } else if (strcmp(command, "explain") == 0) {
    *reply = run_explain(server, request);
  } else if (strcmp(command, "manual") == 0) {
    *reply = run_manual(server, request, uid);
  } else if (strcmp(command, "override") == 0) {
    *reply = run_override(server, request, uid);
  } else {
    *reply = command_error(CODE_USAGE, "unknown command `%.100s`", command);
  }
  return COMMAND_DONE;
}

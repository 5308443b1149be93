/* SPDX-License-Identifier: Apache-2.0 */
#include "server/commands.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/name.h"
#include "base/utf8.h"
#include "server/commands_state.h"
#include "server/health_feed.h"
#include "server/override_target.h"
#include "server/overrides.h"
#include "server/secondary.h"
#include "server/server_exposure.h"
#include "server/stats.h"
#include "server/worker.h"
#include "steering/explain.h"

enum { CODE_FAILED = 1, CODE_USAGE = 2, OVERRIDES_LISTED = 1000 };

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

json_t *command_health(const struct server *server) {
  return health_feed_json(server->health);
}

static json_t *run_status(struct server *server) {
  json_t *build = build_json(server->served);
  json_object_set_new(build, "zones", zones_json(server->served));
  json_t *reply = json_pack(
      "{s:b, s:o, s:o, s:o, s:o, s:i, s:I, s:I, s:o, s:o, s:o, s:I, s:o, s:o}", "ok", 1, "tls",
      server_tls_json(&server->tls), "build", build, "last_reload",
      reloaded_json(&server->reloaded), "secondary", secondary_json(server->secondary), "workers",
      (int)worker_count(server->workers), "uptime",
      (json_int_t)((uv_hrtime() - server->started_at) / 1000000000), "pid", (json_int_t)getpid(),
      "listen", listen_json(server->settings), "health", command_health(server), "overrides",
      overrides_list(server->overrides, OVERRIDES_LISTED), "override_count",
      (json_int_t)overrides_count(server->overrides), "geo", geo_json(server->served), "counters",
      stats_json(server));
  char *data = realpath(server->settings->data, NULL); /* for a reader in another folder */
  json_object_set_new(reply, "data", json_string(data != NULL ? data : server->settings->data));
  free(data);
  return reply;
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

long command_find_domain(const struct server *server, const json_t *request, json_t **error) {
  const char *text = text_of(request, "domain");
  uint8_t mixed[NAME_BUF], owner[NAME_BUF];
  const char *why = "";
  char near[OVERRIDE_NEAR];
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
    *error = command_error(CODE_FAILED, "%.300s is not a steered name%s", text,
                           override_target_near(server->served, text, near));
  return domain;
}

static const struct steer_domain *domain_at(const struct server *server, long domain) {
  return server->served->domains[domain].steer;
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
  long domain = command_find_domain(server, request, &error);
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

/* ---- exposure ---------------------------------------------------------------------------------
 */

static json_t *run_exposure(struct server *server, const json_t *request) {
  json_t *error = NULL;
  long domain = command_find_domain(server, request, &error);
  if (domain < 0)
    return error;
  json_t *exposure = server_exposure_json(server, (uint32_t)domain);
  return exposure != NULL ? json_pack("{s:b, s:o}", "ok", 1, "exposure", exposure) : NULL;
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
  } else if (strcmp(command, "exposure") == 0) {
    *reply = run_exposure(server, request);
  } else if (!command_state_run(server, command, request, uid, reply)) {
    *reply = command_error(CODE_USAGE, "unknown command `%.100s`", command);
  }
  return COMMAND_DONE;
}

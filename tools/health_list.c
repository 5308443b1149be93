/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice health`: what is checked, and what came of it. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tools/cli.h"
#include "tools/health.h"
#include "tools/health_client.h"
#include "tools/machine.h"
#include "tools/times.h"
#include "tools/wrap.h"

enum { INDENT = 9, USERS_SHOWN = 5, WHAT = 300 };

static double since_now(json_int_t when) {
  return (double)time(NULL) - (double)when;
}

/* "connect refused, 3 s ago; next probe in 7.2 s" */
static void print_result(const json_t *check) {
  char ago[TIMES_TEXT] = "not probed yet";
  char next[TIMES_TEXT] = "being probed now";
  char span[TIMES_TEXT];
  const json_t *last = json_object_get(check, "last");
  const json_t *due = json_object_get(check, "next_ms");
  const char *why = health_text(check, "why", NULL);
  if (json_is_object(last))
    snprintf(ago, sizeof ago, "%.30s ago",
             times_span(since_now(json_integer_value(json_object_get(last, "at"))), span));
  else if (why)
    snprintf(ago, sizeof ago, "before the checker started");
  if (json_is_integer(due))
    snprintf(next, sizeof next, "next probe in %.1f s", (double)json_integer_value(due) / 1000);
  wrap_print("", INDENT, "%s%s%s; %s", why ? why : "", why ? ", " : "", ago, next);
}

static void print_users(const json_t *check) {
  const json_t *users = json_object_get(check, "users");
  json_int_t count = json_integer_value(json_object_get(check, "user_count"));
  size_t i;
  const json_t *user;
  json_array_foreach(users, i, user) {
    if (i == USERS_SHOWN)
      break;
    const char *domain = json_string_value(json_array_get(user, 0));
    const char *endpoint = json_string_value(json_array_get(user, 1));
    wrap_print("", INDENT, "%s %s", domain ? domain : "?", endpoint ? endpoint : "?");
  }
  if (count > (json_int_t)i)
    wrap_print("", INDENT, "and %lld more", (long long)(count - (json_int_t)i));
}

static const char *state_word(const json_t *check) {
  const char *state = health_text(check, "state", "?");
  return !strcmp(state, "up") ? "up" : !strcmp(state, "down") ? "DOWN" : "unknown";
}

static void print_check(const json_t *check) {
  char what[WHAT];
  char utc[TIMES_TEXT];
  char span[TIMES_TEXT];
  json_int_t since = json_integer_value(json_object_get(check, "since"));
  health_what(check, what, sizeof what);
  wrap_print(state_word(check), INDENT, "%s, %s", health_text(check, "target", "?"), what);
  wrap_print("", INDENT, "since %s (%s)", times_utc(since, utc),
             times_span(since_now(since), span));
  if (json_is_true(json_object_get(check, "held"))) {
    double left = (double)json_integer_value(json_object_get(check, "held_ms")) / 1000;
    wrap_print("", INDENT, "HELD DOWN by damping for %s more: it changed too often",
               times_span(left, span));
  }
  print_result(check);
  print_users(check);
}

/* What needs somebody comes first. */
static void print_checks(const json_t *checks) {
  static const char *const order[] = {"DOWN", "unknown", "up"};
  for (size_t pass = 0; pass < CLI_COUNT(order); pass++) {
    size_t i;
    const json_t *check;
    json_array_foreach(checks, i, check) if (!strcmp(state_word(check), order[pass]))
        print_check(check);
  }
}

static void print_alerts(const json_t *alerts) {
  size_t open = json_array_size(json_object_get(alerts, "open"));
  json_int_t waiting = json_integer_value(json_object_get(alerts, "waiting"));
  size_t i;
  const json_t *failed;
  if (open > 0 || waiting > 0)
    wrap_print("alerts", INDENT, "%zu open, %lld not sent yet", open, (long long)waiting);
  json_array_foreach(json_object_get(alerts, "failed"), i, failed)
      wrap_print("alerts", INDENT, "route %s does NOT take messages: %s",
                 health_text(failed, "route", "?"), health_text(failed, "error", "?"));
}

static void print_summary(const json_t *status) {
  const json_t *states = json_object_get(status, "states");
  const json_t *reload = json_object_get(status, "last_reload");
  json_int_t checks = json_integer_value(json_object_get(status, "checks"));
  json_int_t held = json_integer_value(json_object_get(states, "held"));
  json_int_t servers =
      json_integer_value(json_object_get(json_object_get(status, "feed"), "subscribers"));
  if (!health_text(status, "build", NULL)) {
    wrap_print("checks", INDENT, "NONE: there is no build yet");
    return;
  }
  wrap_print("checks", INDENT, "%lld: %lld up, %lld down, %lld unknown%s", (long long)checks,
             (long long)json_integer_value(json_object_get(states, "up")),
             (long long)json_integer_value(json_object_get(states, "down")),
             (long long)json_integer_value(json_object_get(states, "unknown")),
             held > 0 ? "; some are held down by damping" : "");
  wrap_print("feed", INDENT, "%lld server%s listen%s", (long long)servers, cli_s(servers),
             servers == 1 ? "s" : "");
  if (json_is_true(json_object_get(status, "isolated")))
    wrap_print("ISOLATED", INDENT,
               "nearly all checks fail together: this checker seems to be cut off");
  if (json_is_object(reload) && !json_is_true(json_object_get(reload, "ok")))
    wrap_print("reload", INDENT, "FAILED, the older checks go on: %s",
               health_text(reload, "error", "?"));
  print_alerts(json_object_get(status, "alerts"));
}

json_t *health_where(const char *command, const char *given) {
  const char *slash = given ? strchr(given, '/') : NULL;
  if (!given)
    return json_pack("{s:s}", "command", command);
  if (!slash)
    return json_pack("{s:s, s:s}", "command", command, "domain", given);
  return json_pack("{s:s, s:s%, s:s}", "command", command, "domain", given, (size_t)(slash - given),
                   "endpoint", slash + 1);
}

/* All checks, part by part. */
static int collect(const char *socket, const char *domain, json_t **all) {
  json_t *list = json_array();
  json_int_t from = 0;
  *all = NULL;
  for (bool more = true; more;) {
    json_t *reply;
    json_t *request = health_where("checks", domain);
    if (request)
      json_object_set_new(request, "from", json_integer(from));
    int status = health_call(socket, request, &reply);
    if (status != CLI_DONE) {
      json_decref(list);
      return status;
    }
    const json_t *next = json_object_get(reply, "next");
    json_array_extend(list, json_object_get(reply, "checks"));
    more = json_is_integer(next) && json_integer_value(next) > from;
    from = json_integer_value(next);
    json_decref(reply);
  }
  *all = json_pack("{s:o}", "checks", list);
  return *all ? CLI_DONE : CLI_FAILED;
}

int health_list(int argc, char **argv) {
  const char *socket = NULL;
  const char *settings = NULL;
  const char *domain = NULL;
  bool json = false;
  const struct cli_option options[] = {
      {"domain", "DOMAIN", "only checks of this domain (or DOMAIN/ENDPOINT)", &domain, NULL},
      {"socket", "PATH", HEALTH_SOCKET_HELP, &socket, NULL},
      {"settings", "FILE", MACHINE_HELP, &settings, NULL},
      {"json", NULL, "print JSON", NULL, &json},
  };
  const struct cli_spec spec = {
      .usage = "sluice health [--domain DOMAIN] [--socket PATH] [--json]",
      .about = "Lists what is checked: state and since when, the last result and its reason, the\n"
               "next probe, and the endpoints that it counts for; what is down comes first.\n"
               "`sluice health test` checks now, `sluice health override` forces a state.",
      .examples = "sluice health\n"
                  "sluice health --domain cdn/central-4\n"
                  "sluice health test cdn\n"
                  "sluice health override cdn central-4 down",
      .options = options,
      .option_count = CLI_COUNT(options),
  };
  size_t count;
  enum cli_next next = cli_parse(&spec, argc, argv, &count);
  if (next != CLI_GO_ON)
    return next == CLI_EXIT_DONE ? CLI_DONE : CLI_USAGE;
  json_t *status;
  json_t *checks = NULL;
  socket = health_socket(socket, settings);
  if (!socket)
    return CLI_FAILED;
  int result = health_call(socket, json_pack("{s:s}", "command", "status"), &status);
  if (result == CLI_DONE)
    result = collect(socket, domain, &checks);
  if (result != CLI_DONE) {
    json_decref(status);
    return result;
  }
  if (json) {
    json_object_set(checks, "status", status);
  } else {
    if (!domain)
      print_summary(status);
    print_checks(json_object_get(checks, "checks"));
  }
  bool ok = json ? cli_print_json(checks) : cli_flush();
  json_decref(checks);
  json_decref(status);
  return ok ? CLI_DONE : CLI_FAILED;
}

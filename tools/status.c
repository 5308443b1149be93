/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "tools/cli.h"
#include "tools/client.h"
#include "tools/commands.h"
#include "tools/deploy.h"
#include "tools/machine.h"
#include "tools/times.h"
#include "tools/wrap.h"

enum {
  ZONES_SHOWN = 20,
  OVERRIDES_SHOWN = 50,
  INDENT = 11,
  ITEM = 2,
  BELOW = 4,
  OVERRIDE_SIZE = 320,
  SYNCD_WAIT = 3,
  SYNCD_GRACE = 5, /* seconds */
};

static long long integer(const json_t *object, const char *key) {
  return (long long)json_integer_value(json_object_get(object, key));
}

static const char *string(const json_t *object, const char *key, const char *otherwise) {
  const char *text = json_string_value(json_object_get(object, key));
  return text && *text ? text : otherwise;
}

/* How long ago; "0 s" for what a clock that differs puts into the future. */
static const char *ago(long long when, char out[TIMES_TEXT]) {
  return times_span((double)time(NULL) - (double)when, out);
}

/* ---- the parts, what matters most first ------------------------------------------------------ */

static void print_serving(const json_t *reply) {
  char up[TIMES_TEXT];
  char since[TIMES_TEXT];
  const json_t *zones = json_object_get(json_object_get(reply, "build"), "zones");
  size_t secondary = json_array_size(json_object_get(reply, "secondary"));
  long long count = (long long)json_array_size(zones);
  long long uptime = integer(reply, "uptime");
  long long domains = 0;
  size_t i;
  const json_t *zone;
  json_array_foreach(zones, i, zone) domains += integer(zone, "domains");
  if (count + (long long)secondary == 0)
    wrap_print("serving", INDENT, "NO ZONE: every query is refused; is the build the right one?");
  else
    wrap_print("serving", INDENT, "%lld zone%s, %lld steered name%s%s", count, cli_s(count),
               domains, cli_s(domains), secondary ? ", and secondary zones (below)" : "");
  wrap_print("up", INDENT, "%s, since %s; pid %lld, %lld worker%s", times_span((double)uptime, up),
             times_utc((long long)time(NULL) - uptime, since), integer(reply, "pid"),
             integer(reply, "workers"), cli_s(integer(reply, "workers")));
}

static void print_reload(const json_t *reload) {
  char when[TIMES_TEXT];
  char since[TIMES_TEXT];
  if (!json_is_object(reload)) {
    wrap_print("reload", INDENT, "none since the start");
    return;
  }
  long long at = integer(reload, "at");
  const char *warning = string(reload, "warning", NULL);
  times_utc(at, when);
  ago(at, since);
  if (!json_is_true(json_object_get(reload, "ok"))) {
    wrap_print("reload", INDENT, "FAILED at %s (%s ago), the older build is served: %s", when,
               since, string(reload, "error", "?"));
    return;
  }
  wrap_print("reload", INDENT, "%s at %s (%s ago)%s%s", warning ? "IN PART" : "done", when, since,
             warning ? ", the old location data are in use: " : "", warning ? warning : "");
}

static void print_build(const json_t *build) {
  char when[TIMES_TEXT];
  const char *commit = string(build, "commit", NULL);
  wrap_print("build", INDENT, "%s", string(build, "id", "?"));
  if (commit)
    wrap_print("commit", INDENT, "%s of %s", commit,
               times_utc(integer(build, "commit_time"), when));
}

/* "weight 5 (region eu, level 1)", "disabled", "health forced down for IPv6"... */
static const char *override_text(const json_t *item, char out[OVERRIDE_SIZE]) {
  const char *kind = string(item, "kind", "");
  long long value = integer(item, "value");
  long long family = integer(item, "family");
  if (strcmp(kind, "weight") == 0)
    snprintf(out, OVERRIDE_SIZE, "weight %lld (region %.200s, level %lld)", value,
             string(item, "region", "?"), integer(item, "level"));
  else if (strcmp(kind, "health") == 0)
    snprintf(out, OVERRIDE_SIZE, "health forced %s for IPv%lld", value == 1 ? "up" : "down",
             family);
  else
    snprintf(out, OVERRIDE_SIZE, "%s", value == 1 ? "enabled" : "disabled");
  return out;
}

static void print_override(const json_t *item) {
  char text[OVERRIDE_SIZE];
  char when[TIMES_TEXT] = "an unknown time";
  char since[TIMES_TEXT] = "?";
  char until[TIMES_TEXT];
  long long at = integer(item, "set_at");
  long long end = integer(item, "expires_at");
  if (at > 0) {
    times_utc(at, when);
    ago(at, since);
  }
  const char *reason = string(item, "reason", NULL);
  const char *origin = string(item, "origin", NULL);
  wrap_print("", ITEM, "%s %s: %s", string(item, "domain", "?"), string(item, "endpoint", "?"),
             override_text(item, text));
  wrap_print("", BELOW, "by %s%s%s%s, since %s (%s ago)%s%s%s%s", string(item, "who", "somebody"),
             origin ? " (" : "", origin ? origin : "", origin ? ")" : "", when, since,
             end > 0 ? ", until " : "", end > 0 ? times_utc(end, until) : "", reason ? ": " : "",
             reason ? reason : "");
}

static void print_overrides(const json_t *reply) {
  const json_t *overrides = json_object_get(reply, "overrides");
  size_t count = json_array_size(overrides);
  if (integer(reply, "override_count") > (long long)count)
    count = (size_t)integer(reply, "override_count"); /* the list is cut */
  size_t i;
  const json_t *item;
  if (count == 0)
    wrap_print("overrides", INDENT, "none");
  else
    wrap_print("overrides", INDENT, "%zu in force", count);
  json_array_foreach(overrides, i, item) {
    if (i == OVERRIDES_SHOWN) {
      printf("  and %zu more (--json lists all)\n", count - i);
      break;
    }
    print_override(item);
  }
}

static void print_health(const json_t *health) {
  char text[TIMES_TEXT];
  const json_t *age = json_object_get(health, "age");
  bool known = json_is_number(age);
  const char *what = json_is_true(json_object_get(health, "connected")) ? "the checker is connected"
                     : json_is_true(json_object_get(health, "stale"))
                         ? "NO checker is connected for so long that ALL COUNT AS HEALTHY"
                     : known ? "NO checker is connected; the last known health is used"
                             : "no checker is connected; endpoints never judged count as healthy";
  wrap_print("health", INDENT, "%s%s%s%s", what, known ? ", last heard " : "",
             known ? times_span(json_number_value(age), text) : "", known ? " ago" : "");
  const char *error = string(health, "error", NULL);
  if (error != NULL)
    wrap_print("", INDENT, "%s: %s", string(health, "socket", "?"), error);
}

static void print_geo(const json_t *geo) {
  char text[TIMES_TEXT];
  char when[TIMES_TEXT];
  if (!json_is_object(geo)) {
    wrap_print("location", INDENT, "no database: only `net:` atoms and `global` place clients");
    return;
  }
  const json_t *age = json_object_get(geo, "age");
  if (json_is_number(age))
    wrap_print("location", INDENT, "%s old (of %s)%s", times_span(json_number_value(age), text),
               times_utc(integer(geo, "build_epoch"), when),
               json_is_false(json_object_get(geo, "ipv6")) ? ", IPv4 only" : "");
  wrap_print(json_is_number(age) ? "" : "location", INDENT, "%s", string(geo, "path", "?"));
}

static void print_secondary(const json_t *zone) {
  char text[TIMES_TEXT];
  const json_t *refreshed = json_object_get(zone, "refreshed");
  const json_t *serial = json_object_get(zone, "serial");
  const char *error = string(zone, "error", NULL);
  const char *state = string(zone, "state", "?");
  char number[32] = "nothing yet";
  if (json_is_integer(serial))
    snprintf(number, sizeof number, "serial %lld", (long long)json_integer_value(serial));
  bool served = !strcmp(state, "current") || !strcmp(state, "stale");
  bool known = json_is_integer(refreshed);
  wrap_print("", ITEM, "%s %s%s, %s%s%s%s", string(zone, "zone", "?"), state,
             served ? "" : " (NOT SERVED)", number, known ? ", refreshed " : "",
             known ? ago((long long)json_integer_value(refreshed), text) : "", known ? " ago" : "");
  if (error)
    wrap_print("", BELOW, "%s", error);
}

/* Zones in a state that needs somebody come first. */
static void print_secondaries(const json_t *zones) {
  size_t count = json_array_size(zones);
  size_t shown = 0;
  size_t i;
  const json_t *zone;
  if (count == 0)
    return;
  wrap_print("secondary", INDENT, "%zu", count);
  for (int pass = 0; pass < 2; pass++)
    json_array_foreach(zones, i, zone) {
      bool fine = !strcmp(string(zone, "state", ""), "current");
      if (fine == (pass == 1) && shown++ < ZONES_SHOWN)
        print_secondary(zone);
    }
  if (count > ZONES_SHOWN)
    printf("  and %zu more (--json lists all)\n", count - ZONES_SHOWN);
}

static void print_zones(const json_t *zones) {
  size_t count = json_array_size(zones);
  size_t i;
  const json_t *zone;
  wrap_print("zones", INDENT, "%zu", count);
  json_array_foreach(zones, i, zone) {
    if (i == ZONES_SHOWN) {
      printf("  and %zu more (--json lists all)\n", count - i);
      break;
    }
    wrap_print("", ITEM, "%s serial %lld, %lld name%s, %lld steered", string(zone, "name", "?"),
               integer(zone, "serial"), integer(zone, "names"), cli_s(integer(zone, "names")),
               integer(zone, "domains"));
  }
}

static void print_listen(const char *label, const json_t *list) {
  struct buf text;
  size_t i;
  const json_t *item;
  buf_init(&text);
  json_array_foreach(list, i, item) {
    buf_add_str(&text, i ? ", " : "");
    buf_add_str(&text, json_is_string(item) ? json_string_value(item) : "?");
  }
  buf_add_u8(&text, 0);
  wrap_print(label, INDENT, "%s", text.failed ? "?" : (const char *)text.data);
  buf_close(&text);
}

static void print_tls(const json_t *tls) {
  char when[TIMES_TEXT];
  char left[TIMES_TEXT];
  if (!json_is_object(tls))
    return;
  long long expires = integer(tls, "expires");
  long long seconds = expires - (long long)time(NULL);
  const char *warning = string(tls, "warning", NULL);
  print_listen("TLS", json_object_get(tls, "listen"));
  wrap_print("", INDENT, "certificate %s %s (%s%s)", seconds < 0 ? "EXPIRED at" : "good until",
             times_utc(expires, when), times_span((double)(seconds < 0 ? -seconds : seconds), left),
             seconds < 0 ? " ago" : "");
  wrap_print("", INDENT, "%s", string(tls, "certificate", "?"));
  if (warning)
    wrap_print("", INDENT, "NOT RELOADED: %s", warning);
}

/* ---- other providers ------------------------------------------------------------------------- */

/* What sluice-syncd knows, as `providers` of the reply: its list, or a text why there is none; no
 * such key where no sluice-syncd is expected. */
static void add_providers(json_t *reply, const char *settings) {
  struct machine machine;
  char why[CLIENT_WHY] = "";
  json_t *theirs = NULL;
  cli_capture(why, sizeof why); /* broken settings stop nothing here */
  bool known = machine_read(&machine, settings);
  cli_capture(NULL, 0);
  json_t *request = json_pack("{s:s}", "command", "status");
  const char *path = known && machine.syncd ? machine.syncd : "/run/sluice/syncd.sock";
  enum client_result result =
      request ? client_try(path, request, SYNCD_WAIT, &theirs, why) : CLIENT_REFUSED;
  json_t *list = json_object_get(theirs, "providers");
  const char *server = string(theirs, "server", NULL);
  if (result == CLIENT_ANSWERED && json_is_array(list) && !server)
    json_object_set(reply, "providers", list);
  else if (result == CLIENT_ANSWERED)
    json_object_set_new(reply, "providers", json_string(server ? server : "no list came"));
  else if (result != CLIENT_ABSENT)
    json_object_set_new(reply, "providers", json_string(why));
  else if (known && machine.has_syncd)
    json_object_set_new(reply, "providers",
                        json_sprintf("sluice-syncd does not listen at %s; start it", path));
  json_decref(request);
  json_decref(theirs);
  if (known)
    machine_close(&machine);
}

/* What is well, and still worth a line. */
static void print_notes(const json_t *item) {
  char when[TIMES_TEXT];
  const json_t *drift = json_object_get(item, "drift");
  long long waiting = integer(item, "waiting");
  long long checked = integer(item, "checked");
  if (waiting > 0)
    wrap_print("", BELOW,
               "%lld change%s of NS records wait%s for `sluice sync apply "
               "--allow-ns-change`",
               waiting, cli_s(waiting), waiting == 1 ? "s" : "");
  if (string(item, "check_error", NULL))
    wrap_print("", BELOW, "not read as a whole: %s", string(item, "check_error", "?"));
  else if (checked > 0)
    wrap_print("", BELOW, "read as a whole %s ago", ago(checked, when));
  if (json_is_object(drift))
    wrap_print("", BELOW, "%s, %s ago: %s",
               json_is_true(json_object_get(drift, "now")) ? "DIFFERS"
                                                           : "differed, was brought level",
               ago(integer(drift, "at"), when), string(drift, "what", "?"));
}

static bool has_jobs(const json_t *item) {
  return integer(item, "behind") + integer(item, "zones_behind") > 0;
}

/* What has just changed is being brought level, which needs nobody's attention. */
static bool is_behind(const json_t *item) {
  return has_jobs(item) && (string(item, "error", NULL) ||
                            (long long)time(NULL) - integer(item, "since") >= SYNCD_GRACE);
}

static void print_provider(const json_t *item) {
  char when[TIMES_TEXT];
  char since[TIMES_TEXT];
  char rest[64] = "";
  long long domains = integer(item, "domains");
  long long zones = integer(item, "zones_behind");
  long long at = integer(item, "since");
  const char *name = string(item, "name", "?");
  if (!is_behind(item)) {
    wrap_print("", ITEM, "%s %s, %lld steered name%s", name,
               has_jobs(item) ? "is being brought level" : "level", domains, cli_s(domains));
    print_notes(item);
    return;
  }
  if (zones > 0)
    snprintf(rest, sizeof rest, " and the other records of %lld zone%s", zones, cli_s(zones));
  wrap_print("", ITEM, "%s BEHIND with %lld of %lld steered name%s%s, since %s (%s ago)", name,
             integer(item, "behind"), domains, cli_s(domains), rest, times_utc(at, when),
             ago(at, since));
  wrap_print("", BELOW, "%s", string(item, "error", "not tried yet"));
  print_notes(item);
}

static void print_providers(const json_t *providers) {
  size_t i;
  const json_t *item;
  if (json_is_string(providers))
    wrap_print("providers", INDENT, "NOT KNOWN: %s", json_string_value(providers));
  if (json_array_size(providers) == 0)
    return;
  wrap_print("providers", INDENT, "%zu", json_array_size(providers));
  json_array_foreach(providers, i, item) print_provider(item);
}

static int judge_providers(const json_t *providers) {
  size_t i;
  const json_t *item;
  int status = CLI_DONE;
  if (json_is_string(providers)) {
    cli_error("providers: %s", json_string_value(providers));
    return CLI_PARTIAL;
  }
  json_array_foreach(providers, i, item) {
    const json_t *drift = json_object_get(item, "drift");
    bool differs = json_is_true(json_object_get(drift, "now"));
    if (!is_behind(item) && !differs)
      continue;
    cli_error("%s %s: %s", string(item, "name", "?"), is_behind(item) ? "is behind" : "differs",
              is_behind(item) ? string(item, "error", "not tried yet")
                              : string(drift, "what", "?"));
    status = CLI_PARTIAL;
  }
  return status;
}

/* ---------------------------------------------------------------------------------------------- */

static void print_counters(const json_t *counters) {
  struct buf text;
  char number[32];
  const char *name;
  json_t *value;
  buf_init(&text);
  json_object_foreach((json_t *)counters, name, value) {
    if (json_integer_value(value) == 0)
      continue;
    snprintf(number, sizeof number, "=%lld", (long long)json_integer_value(value));
    buf_add_str(&text, text.len ? ", " : "");
    buf_add_str(&text, name);
    buf_add_str(&text, number);
  }
  buf_add_str(&text, text.len ? "" : "all 0");
  buf_add_u8(&text, 0);
  wrap_print("counters", INDENT, "%s", text.failed ? "?" : (const char *)text.data);
  buf_close(&text);
}

static void print_status(const json_t *reply) {
  const json_t *build = json_object_get(reply, "build");
  print_serving(reply);
  print_reload(json_object_get(reply, "last_reload"));
  print_build(build);
  print_overrides(reply);
  print_health(json_object_get(reply, "health"));
  print_geo(json_object_get(reply, "geo"));
  print_providers(json_object_get(reply, "providers"));
  print_secondaries(json_object_get(reply, "secondary"));
  print_zones(json_object_get(build, "zones"));
  print_listen("listens", json_object_get(reply, "listen"));
  print_tls(json_object_get(reply, "tls"));
  print_counters(json_object_get(reply, "counters"));
}

/* The exit status: what is served should be what was to be loaded last. */
static int judge_reload(const json_t *reload) {
  if (!json_is_object(reload))
    return CLI_DONE;
  bool ok = json_is_true(json_object_get(reload, "ok"));
  if (ok && !string(reload, "warning", NULL))
    return CLI_DONE;
  cli_error("the last reload %s; mend what it names, then run `sluice reload`",
            ok ? "left the old location data in use" : "failed");
  return CLI_PARTIAL;
}

static int judge_status(const json_t *reply) {
  const char *data = string(reply, "data", NULL);
  const char *build = string(json_object_get(reply, "build"), "id", NULL);
  int reload = judge_reload(json_object_get(reply, "last_reload"));
  int deploys = data ? deploy_status(data, build) : CLI_DONE;
  int providers = judge_providers(json_object_get(reply, "providers"));
  return reload != CLI_DONE ? reload : deploys != CLI_DONE ? deploys : providers;
}

int command_status(int argc, char **argv) {
  static const struct client_command status = {
      .name = "status",
      .usage = "sluice status [--socket PATH] [--json]",
      .about = "Prints what the server serves and since when, how the last reload ended, what is\n"
               "overridden by hand, by whom and why, the age of health and location data, the\n"
               "zones with their serials, other providers (as sluice-syncd knows them), and\n"
               "counters.\n"
               "Exit status: 3 if the last reload failed or was done in part only, or if a\n"
               "push was accepted that is not live, or if another provider is behind.",
      .examples = "sluice status\n"
                  "sluice status --json | jq .build.id",
      .complete = add_providers,
      .print = print_status,
      .judge = judge_status,
  };
  return client_run(&status, argc, argv);
}

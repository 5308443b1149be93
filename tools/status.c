/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tools/cli.h"
#include "tools/client.h"
#include "tools/commands.h"

enum { ZONES_SHOWN = 20, LABEL_WIDTH = 11 };

static long long integer(const json_t *object, const char *key) {
  return (long long)json_integer_value(json_object_get(object, key));
}

static const char *string(const json_t *object, const char *key, const char *otherwise) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : otherwise;
}

static void label(const char *name) {
  printf("%-*s", LABEL_WIDTH, name);
}

/* "3 d 2 h", "5 min", "12 s": the two largest units that matter. */
static const char *span(double seconds, char out[48]) {
  long long s = seconds > 0 ? (long long)seconds : 0;
  if (s >= 86400)
    snprintf(out, 48, "%lld d %lld h", s / 86400, s / 3600 % 24);
  else if (s >= 3600)
    snprintf(out, 48, "%lld h %lld min", s / 3600, s / 60 % 60);
  else if (s >= 60)
    snprintf(out, 48, "%lld min", s / 60);
  else
    snprintf(out, 48, "%lld s", s);
  return out;
}

static const char *utc(long long when, char out[48]) {
  time_t t = (time_t)when;
  struct tm tm;
  if (!gmtime_r(&t, &tm) || !strftime(out, 48, "%Y-%m-%d %H:%M:%S UTC", &tm))
    snprintf(out, 48, "%lld", when);
  return out;
}

static void print_build(const json_t *build) {
  char when[48];
  label("build");
  cli_print_text(stdout, string(build, "id", "?"));
  const char *commit = string(build, "commit", NULL);
  if (commit) {
    fputs(", commit ", stdout);
    cli_print_text(stdout, commit);
    printf(" of %s", utc(integer(build, "commit_time"), when));
  }
  putchar('\n');
}

static void print_zones(const json_t *zones) {
  size_t count = json_array_size(zones);
  label("zones");
  printf("%zu\n", count);
  size_t i;
  const json_t *zone;
  json_array_foreach(zones, i, zone) {
    if (i == ZONES_SHOWN) {
      printf("  and %zu more (--json lists all)\n", count - i);
      break;
    }
    fputs("  ", stdout);
    cli_print_text(stdout, string(zone, "name", "?"));
    printf("  serial %lld, %lld names, %lld steered\n", integer(zone, "serial"),
           integer(zone, "names"), integer(zone, "domains"));
  }
}

static void print_listen(const json_t *list) {
  size_t i;
  const json_t *item;
  label("listens");
  json_array_foreach(list, i, item) {
    if (i)
      fputs(", ", stdout);
    cli_print_text(stdout, json_is_string(item) ? json_string_value(item) : "?");
  }
  putchar('\n');
}

static void print_health(const json_t *health) {
  char text[48];
  const json_t *age = json_object_get(health, "age");
  label("health");
  if (json_is_true(json_object_get(health, "connected")))
    fputs("the checker is connected", stdout);
  else
    fputs("no checker is connected; the last known health is used", stdout);
  if (json_is_number(age))
    printf(", last heard %s ago", span(json_number_value(age), text));
  putchar('\n');
}

static void print_overrides(const json_t *overrides) {
  char when[48];
  size_t i;
  const json_t *item;
  label("overrides");
  printf("%zu\n", json_array_size(overrides));
  json_array_foreach(overrides, i, item) {
    fputs("  ", stdout);
    cli_print_text(stdout, string(item, "domain", "?"));
    putchar(' ');
    cli_print_text(stdout, string(item, "endpoint", "?"));
    putchar(' ');
    cli_print_text(stdout, string(item, "value", "?"));
    printf(" (%s", strcmp(string(item, "kind", ""), "health") ? "by hand" : "health");
    const char *who = string(item, "who", NULL);
    if (who && *who) {
      fputs(", ", stdout);
      cli_print_text(stdout, who);
    }
    if (integer(item, "since") > 0)
      printf(", since %s", utc(integer(item, "since"), when));
    const char *reason = string(item, "reason", NULL);
    if (reason && *reason) {
      fputs(": ", stdout);
      cli_print_text(stdout, reason);
    }
    puts(")");
  }
}

static void print_geo(const json_t *geo) {
  char text[48];
  label("location");
  if (!json_is_object(geo)) {
    puts("no database: only `net:` atoms and `global` place clients");
    return;
  }
  cli_print_text(stdout, string(geo, "path", "?"));
  const json_t *age = json_object_get(geo, "age");
  if (json_is_number(age))
    printf(", %s old", span(json_number_value(age), text));
  if (json_is_false(json_object_get(geo, "ipv6")))
    fputs(", IPv4 only", stdout);
  putchar('\n');
}

static void print_status(const json_t *reply) {
  char text[48];
  const json_t *build = json_object_get(reply, "build");
  const json_t *counters = json_object_get(reply, "counters");
  print_build(build);
  print_zones(json_object_get(build, "zones"));
  label("server");
  printf("pid %lld, %lld workers, up for %s\n", integer(reply, "pid"), integer(reply, "workers"),
         span(json_number_value(json_object_get(reply, "uptime")), text));
  print_listen(json_object_get(reply, "listen"));
  print_health(json_object_get(reply, "health"));
  print_geo(json_object_get(reply, "geo"));
  print_overrides(json_object_get(reply, "overrides"));
  label("counters");
  const char *name;
  json_t *value;
  bool any = false;
  json_object_foreach((json_t *)counters, name, value) {
    if (json_integer_value(value) == 0)
      continue;
    printf("%s%s %lld", any ? ", " : "", name, (long long)json_integer_value(value));
    any = true;
  }
  puts(any ? "" : "all 0");
}

int command_status(int argc, char **argv) {
  const char *socket = NULL;
  bool json = false;
  const struct cli_option options[] = {
      {"socket", "PATH", CLIENT_SOCKET_HELP, &socket, NULL},
      {"json", NULL, "print JSON", NULL, &json},
  };
  const struct cli_spec spec = {
      .usage = "sluice status [--socket PATH] [--json]",
      .about = "Prints what the server serves (build, commit, zones with their serials), its\n"
               "workers and addresses, the age of health and location data, and what is\n"
               "overridden by hand.",
      .examples = "sluice status\n"
                  "sluice status --json | jq .build.id",
      .options = options,
      .option_count = CLI_COUNT(options),
  };
  size_t count;
  enum cli_next next = cli_parse(&spec, argc, argv, &count);
  if (next != CLI_GO_ON)
    return next == CLI_EXIT_DONE ? CLI_DONE : CLI_USAGE;
  json_t *reply;
  int status = client_call(socket, json_pack("{s:s}", "command", "status"), &reply);
  if (status != CLI_DONE)
    return status;
  if (!json)
    print_status(reply);
  bool ok = json ? cli_print_json(reply) : cli_flush();
  json_decref(reply);
  return ok ? CLI_DONE : CLI_FAILED;
}

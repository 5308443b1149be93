/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "tools/cli_group.h"
#include "tools/client.h"
#include "tools/commands.h"
#include "tools/health.h"
#include "tools/names.h"

static int override_health(int argc, char **argv) {
  const char *socket = NULL;
  const char *family = NULL;
  bool json = false;
  const struct cli_option options[] = {
      {"family", "4|6", "only for A (4) or for AAAA (6); both by default", &family, NULL},
      {"socket", "PATH", CLIENT_SOCKET_HELP, &socket, NULL},
      {"json", NULL, "print JSON", NULL, &json},
  };
  const struct cli_spec spec = {
      .usage = "sluice health override DOMAIN ENDPOINT up|down|auto [--family 4|6]",
      .about = "Forces what the health checker says about an endpoint, for drills and tests.\n"
               "Unlike `endpoints disable` it obeys the fallback as measured health does.\n"
               "`auto` ends the override.",
      .examples = "sluice health override cdn central-4 down\n"
                  "sluice health override cdn central-4 down --family 6\n"
                  "sluice health override cdn central-4 auto",
      .options = options,
      .option_count = CLI_COUNT(options),
      .min_args = 3,
      .max_args = 3,
  };
  size_t count;
  enum cli_next next = cli_parse(&spec, argc, argv, &count);
  if (next != CLI_GO_ON)
    return next == CLI_EXIT_DONE ? CLI_DONE : CLI_USAGE;
  const char *value = argv[3];
  if (strcmp(value, "up") && strcmp(value, "down") && strcmp(value, "auto"))
    return cli_usage("%s is no state; write up, down or auto", value);
  if (family && strcmp(family, "4") && strcmp(family, "6"))
    return cli_usage("--family %s is not known; write --family 4 or --family 6", family);
  char domain[NAME_MAX_TEXT];
  int status = names_resolve_at_server(socket, argv[1], domain);
  if (status != CLI_DONE)
    return status;
  json_t *number = family ? json_integer(*family - '0') : json_null();
  json_t *reply;
  status = client_call(socket,
                       json_pack("{s:s, s:s, s:s, s:s, s:o, s:s}", "command", "override", "domain",
                                 domain, "endpoint", argv[2], "value", value, "family", number,
                                 "who", client_user()),
                       &reply);
  if (status != CLI_DONE)
    return status;
  if (!json)
    printf("%s: health of %s%s%s is %s%s\n", domain, argv[2], family ? " for IPv" : "",
           family ? family : "", strcmp(value, "auto") ? "forced " : "",
           strcmp(value, "auto") ? value : "what the checker says");
  bool ok = json ? cli_print_json(reply) : cli_flush();
  json_decref(reply);
  return ok ? CLI_DONE : CLI_FAILED;
}

int command_health(int argc, char **argv) {
  static const struct cli_command commands[] = {
      {"test", health_test, "run the checks of a domain now and show each phase"},
      {"override", override_health, "force what the health checker says about an endpoint"},
  };
  static const struct cli_group group = {
      .name = "sluice health",
      .about = "Without a command: what is checked, and what came of it.",
      .commands = commands,
      .count = CLI_COUNT(commands),
      .plain = health_list,
      .examples = "sluice health\n"
                  "sluice health --domain cdn\n"
                  "sluice health test cdn/central-4\n"
                  "sluice health override cdn central-4 down",
  };
  return cli_group_run(&group, argc, argv);
}

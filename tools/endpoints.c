/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "tools/cli.h"
#include "tools/client.h"
#include "tools/commands.h"
#include "tools/names.h"

enum { MAX_ENDPOINTS = 1000 };

static json_t *request(const char *domain, char **endpoints, size_t count, const char *value,
                       const char *reason) {
  json_t *list = json_array();
  for (size_t i = 0; list && i < count; i++)
    if (json_array_append_new(list, json_string(endpoints[i])) != 0) {
      cli_error("%s is not an endpoint's name: it is not UTF-8", endpoints[i]);
      json_decref(list);
      return NULL;
    }
  return json_pack("{s:s, s:s, s:o, s:s, s:s, s:s?}", "command", "manual", "domain", domain,
                   "endpoints", list, "value", value, "who", client_user(), "reason", reason);
}

#define ENABLE_USAGE "sluice endpoints enable DOMAIN ENDPOINT... [--reason TEXT] [--socket PATH]"
#define DISABLE_USAGE "sluice endpoints disable DOMAIN ENDPOINT... [--reason TEXT] [--socket PATH]"

/* argv[0] is "enable" or "disable". */
static int change_status(int argc, char **argv) {
  const char *value = argv[0];
  const char *socket = NULL;
  const char *reason = NULL;
  bool json = false;
  const struct cli_option options[] = {
      {"reason", "TEXT", "why, for status and for those who ask later", &reason, NULL},
      {"socket", "PATH", CLIENT_SOCKET_HELP, &socket, NULL},
      {"json", NULL, "print JSON", NULL, &json},
  };
  const struct cli_spec spec = {
      .usage = !strcmp(value, "enable") ? ENABLE_USAGE "\n" DISABLE_USAGE
                                        : DISABLE_USAGE "\n" ENABLE_USAGE,
      .about = "Takes endpoints out of the answers by hand, or puts them back.  This wins over\n"
               "`enabled:` of the configuration.  When all endpoints of a region are disabled or\n"
               "unhealthy, the fallback still keeps answers coming.",
      .examples = "sluice endpoints disable cdn central-4 --reason \"disk replacement\"\n"
                  "endpoints enable cdn central-4 central-5",
      .options = options,
      .option_count = CLI_COUNT(options),
      .min_args = 2,
      .max_args = MAX_ENDPOINTS,
  };
  size_t count;
  enum cli_next next = cli_parse(&spec, argc, argv, &count);
  if (next != CLI_GO_ON)
    return next == CLI_EXIT_DONE ? CLI_DONE : CLI_USAGE;
  char domain[NAME_MAX_TEXT];
  int status = names_resolve_at_server(socket, argv[1], domain);
  if (status != CLI_DONE)
    return status;
  json_t *message = request(domain, argv + 2, count - 1, value, reason);
  if (!message)
    return CLI_USAGE;
  json_t *reply;
  status = client_call(socket, message, &reply);
  if (status != CLI_DONE)
    return status;
  for (size_t i = 2; !json && i <= count; i++)
    printf("%s: %s is %sd\n", domain, argv[i], value);
  bool ok = json ? cli_print_json(reply) : cli_flush();
  json_decref(reply);
  return ok ? CLI_DONE : CLI_FAILED;
}

/* ---- reset ---------------------------------------------------------------------------------- */

static void print_reset(const char *domain, const json_t *names) {
  size_t i;
  const json_t *name;
  if (json_array_size(names) == 0)
    printf("%s: no endpoint was enabled or disabled by hand\n", domain);
  json_array_foreach(names, i, name) {
    printf("%s: ", domain);
    cli_print_text(stdout, json_is_string(name) ? json_string_value(name) : "?");
    puts(" is as configured again");
  }
}

static int reset(int argc, char **argv) {
  const char *socket = NULL;
  const char *reason = NULL;
  bool status_too = false;
  bool json = false;
  const struct cli_option options[] = {
      {"status", NULL, "end what `enable` and `disable` have set", NULL, &status_too},
      {"reason", "TEXT", "why, for the server's log", &reason, NULL},
      {"socket", "PATH", CLIENT_SOCKET_HELP, &socket, NULL},
      {"json", NULL, "print JSON", NULL, &json},
  };
  const struct cli_spec spec = {
      .usage = "sluice endpoints reset DOMAIN --status [--reason TEXT] [--socket PATH]",
      .about = "Goes back to the configuration: all endpoints of the domain are enabled or not\n"
               "as `enabled:` says there.  Forced health is ended by `sluice health override`.",
      .examples = "sluice endpoints reset cdn --status\n"
                  "endpoints reset cdn.tm.example.com. --status --reason \"drill is over\"",
      .options = options,
      .option_count = CLI_COUNT(options),
      .min_args = 1,
      .max_args = 1,
  };
  size_t count;
  enum cli_next next = cli_parse(&spec, argc, argv, &count);
  if (next != CLI_GO_ON)
    return next == CLI_EXIT_DONE ? CLI_DONE : CLI_USAGE;
  if (!status_too)
    return cli_usage("--status is missing; only the status of endpoints can be set by hand");
  char domain[NAME_MAX_TEXT];
  int result = names_resolve_at_server(socket, argv[1], domain);
  if (result != CLI_DONE)
    return result;
  json_t *reply;
  result = client_call(socket,
                       json_pack("{s:s, s:s, s:s, s:s, s:s?}", "command", "manual", "domain",
                                 domain, "value", "reset", "who", client_user(), "reason", reason),
                       &reply);
  if (result != CLI_DONE)
    return result;
  if (!json)
    print_reset(domain, json_object_get(reply, "endpoints"));
  bool ok = json ? cli_print_json(reply) : cli_flush();
  json_decref(reply);
  return ok ? CLI_DONE : CLI_FAILED;
}

/* ---- all ------------------------------------------------------------------------------------ */

static int print_help(void) {
  fputs("Usage:\n"
        "  sluice endpoints COMMAND [ARGUMENT...]      (also: endpoints COMMAND ...)\n"
        "\nCommands:\n"
        "  enable      put endpoints back into the answers\n"
        "  disable     take endpoints out of the answers by hand\n"
        "  reset       go back to what the configuration says\n"
        "\nOptions:\n"
        "  --help      this text; `sluice endpoints COMMAND --help` tells more\n"
        "  --version   the version\n"
        "\nExamples:\n"
        "  sluice endpoints disable cdn central-4 --reason \"disk replacement\"\n"
        "  endpoints enable cdn.tm.example.com. central-4\n"
        "  endpoints reset cdn --status\n",
        stdout);
  return cli_flush() ? CLI_DONE : CLI_FAILED;
}

int command_endpoints(int argc, char **argv) {
  static const char *const names[] = {"enable", "disable", "reset"};
  if (argc < 2)
    return cli_usage("no command given; write `sluice endpoints enable|disable|reset DOMAIN ...`");
  if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
    return print_help();
  if (!strcmp(argv[1], "--version")) {
    puts("sluice " SLUICE_VERSION);
    return cli_flush() ? CLI_DONE : CLI_FAILED;
  }
  for (size_t i = 0; i < CLI_COUNT(names); i++)
    if (!strcmp(argv[1], names[i]))
      return i < 2 ? change_status(argc - 1, argv + 1) : reset(argc - 1, argv + 1);
  const char *near = cli_did_you_mean(argv[1], names, CLI_COUNT(names));
  return cli_usage("unknown command endpoints %s%s", argv[1],
                   *near ? near : "; sluice endpoints --help lists them");
}

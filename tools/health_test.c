/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice health test`: runs checks now and shows each phase. */
#include <stdio.h>
#include <string.h>

#include "tools/cli.h"
#include "tools/health.h"
#include "tools/health_client.h"
#include "tools/machine.h"
#include "tools/wrap.h"

enum { INDENT = 9, WHAT = 300, PHASES_TEXT = 400 };

static void add_phase(char *out, const json_t *phases, const char *key, const char *name) {
  const json_t *value = json_object_get(phases, key);
  size_t at = strlen(out);
  if (json_is_integer(value))
    snprintf(out + at, PHASES_TEXT - at, "%s%s %.1f ms", at > 0 ? ", " : "", name,
             (double)json_integer_value(value) / 1000);
}

static void print_result(const json_t *result) {
  char what[WHAT];
  char text[PHASES_TEXT] = "";
  const json_t *phases = json_object_get(result, "phases_us");
  const char *state = health_text(result, "state", "?");
  health_what(result, what, sizeof what);
  wrap_print(json_is_true(json_object_get(result, "ok")) ? "good" : "FAILED", INDENT, "%s: %s, %s",
             health_text(result, "endpoint", "?"), health_text(result, "target", "?"), what);
  wrap_print("", INDENT, "%s", health_text(result, "why", "?"));
  add_phase(text, phases, "resolve", "resolve");
  add_phase(text, phases, "connect", "connect");
  add_phase(text, phases, "tls", "TLS");
  add_phase(text, phases, "send", "send");
  add_phase(text, phases, "first_response", "first response");
  add_phase(text, phases, "all", "all");
  wrap_print("", INDENT, "%s", text);
  wrap_print("", INDENT, "judged %s until now", state);
}

int health_test(int argc, char **argv) {
  const char *socket = NULL;
  const char *settings = NULL;
  bool json = false;
  const struct cli_option options[] = {
      {"socket", "PATH", HEALTH_SOCKET_HELP, &socket, NULL},
      {"settings", "FILE", MACHINE_HELP, &settings, NULL},
      {"json", NULL, "print JSON", NULL, &json},
  };
  const struct cli_spec spec = {
      .usage = "sluice health test DOMAIN[/ENDPOINT] [--socket PATH] [--json]",
      .about =
          "Runs the checks of a domain, or of one of its endpoints, now, and shows each phase\n"
          "with its time.  What is judged and served does not change by it.\n"
          "Exit status: 1 if a check failed.",
      .examples = "sluice health test cdn\n"
                  "sluice health test cdn.tm.example.com/central-4",
      .options = options,
      .option_count = CLI_COUNT(options),
      .min_args = 1,
      .max_args = 1,
  };
  size_t count;
  enum cli_next next = cli_parse(&spec, argc, argv, &count);
  if (next != CLI_GO_ON)
    return next == CLI_EXIT_DONE ? CLI_DONE : CLI_USAGE;
  json_t *reply;
  socket = health_socket(socket, settings);
  if (!socket)
    return CLI_FAILED;
  int status = health_call(socket, health_where("test", argv[1]), &reply);
  if (status != CLI_DONE)
    return status;
  size_t i;
  const json_t *result;
  json_array_foreach(json_object_get(reply, "results"), i, result) {
    if (!json)
      print_result(result);
    if (!json_is_true(json_object_get(result, "ok")))
      status = CLI_FAILED;
  }
  if (!(json ? cli_print_json(reply) : cli_flush()))
    status = CLI_FAILED;
  json_decref(reply);
  return status;
}

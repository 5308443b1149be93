/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "tools/cli.h"
#include "tools/client.h"
#include "tools/commands.h"

static void print_reload(const json_t *reply) {
  const json_t *build = json_object_get(reply, "build");
  const char *id = json_string_value(json_object_get(build, "id"));
  fputs("serving build ", stdout);
  cli_print_text(stdout, id ? id : "?");
  long long zones = json_integer_value(json_object_get(reply, "zones"));
  printf(": %lld zone%s, %lld of them changed\n", zones, cli_s(zones),
         (long long)json_integer_value(json_object_get(reply, "changed")));
}

/* The exit status: neither location data nor a certificate that cannot be read keep the zones from
 * being loaded. */
static int judge_warning(const json_t *reply) {
  const char *warning = json_string_value(json_object_get(reply, "warning"));
  const char *tls = json_string_value(json_object_get(reply, "tls_warning"));
  bool has_warning = warning && *warning;
  bool has_tls = tls && *tls;
  if (has_warning)
    cli_error("the zones are loaded, but the old location data stay in use: %s", warning);
  if (has_tls)
    cli_error("the zones are loaded, but %s", tls);
  return has_warning || has_tls ? CLI_PARTIAL : CLI_DONE;
}

int command_reload(int argc, char **argv) {
  static const struct client_command reload = {
      .name = "reload",
      .usage = "sluice reload [--socket PATH] [--json]",
      .about = "Makes the server load the current build, the location files and the certificate\n"
               "again, and waits until it serves them.  After an error it goes on with what it\n"
               "had.\n"
               "Exit status: 3 if the zones are loaded but a location file or the certificate\n"
               "could not be read, so that the old one is still in use.",
      .examples = "sluice reload\n"
                  "sluice build /etc/sluice/config --out /var/lib/sluice && sluice reload",
      .print = print_reload,
      .judge = judge_warning,
  };
  return client_run(&reload, argc, argv);
}

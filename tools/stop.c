/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "tools/cli.h"
#include "tools/client.h"
#include "tools/commands.h"

int command_stop(int argc, char **argv) {
  const char *socket = NULL;
  bool json = false;
  const struct cli_option options[] = {
      {"socket", "PATH", CLIENT_SOCKET_HELP, &socket, NULL},
      {"json", NULL, "print JSON", NULL, &json},
  };
  const struct cli_spec spec = {
      .usage = "sluice stop [--socket PATH] [--json]",
      .about = "Makes the server answer what it has received and end.",
      .examples = "sluice stop\n"
                  "sluice stop --socket /tmp/demo/control.sock",
      .options = options,
      .option_count = CLI_COUNT(options),
  };
  size_t count;
  enum cli_next next = cli_parse(&spec, argc, argv, &count);
  if (next != CLI_GO_ON)
    return next == CLI_EXIT_DONE ? CLI_DONE : CLI_USAGE;
  json_t *reply;
  int status = client_call(socket, json_pack("{s:s}", "command", "stop"), &reply);
  if (status != CLI_DONE)
    return status;
  if (!json)
    puts("the server stops");
  bool ok = json ? cli_print_json(reply) : cli_flush();
  json_decref(reply);
  return ok ? CLI_DONE : CLI_FAILED;
}

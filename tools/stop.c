/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "tools/cli.h"
#include "tools/client.h"
#include "tools/commands.h"

static void print_stop(const json_t *reply) {
  (void)reply;
  puts("the server stops");
}

int command_stop(int argc, char **argv) {
  static const struct client_command stop = {
      .name = "stop",
      .usage = "sluice stop [--socket PATH] [--json]",
      .about = "Makes the server answer what it has received and end.",
      .examples = "sluice stop\n"
                  "sluice stop --socket /tmp/demo/control.sock",
      .print = print_stop,
  };
  return client_run(&stop, argc, argv);
}

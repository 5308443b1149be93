/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/health.h"
#include "tools/cli_group.h"
#include "tools/commands.h"
#include "tools/endpoints/common.h"

int command_health(int argc, char **argv) {
  static const struct cli_command commands[] = {
      {"test", health_test, "run the checks of a domain now and show each phase"},
      {"override", endpoints_force_health, "force what the health checker says about an endpoint"},
  };
  static const struct cli_group group = {
      .name = "sluice health",
      .about = "Without a command it lists what is checked, and what came of it;\n"
               "[--domain DOMAIN[/ENDPOINT]] for some of it, [--json], [--socket PATH],\n"
               "[-c FILE].",
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

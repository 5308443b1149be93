/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of `endpoints`; each has its file in tools/endpoints/. */
#include "tools/cli_group.h"
#include "tools/commands.h"
#include "tools/endpoints/common.h"

int command_endpoints(int argc, char **argv) {
  static const struct cli_command commands[] = {
      {"get", endpoints_get, "weights, shares, status and what is overridden"},
      {"set", endpoints_set, "weights of a level, or a profile"},
      {"profiles", endpoints_profiles, "which profiles there are, and what they would set"},
      {"reset", endpoints_reset, "back to what the configuration says"},
      {"enable", endpoints_enable, "put endpoints back into the answers"},
      {"disable", endpoints_disable, "take endpoints out of the answers by hand"},
      {"drain", endpoints_drain, "take a cluster's traffic away, in every domain"},
      {"undrain", endpoints_undrain, "give a drained cluster its weights back"},
      {"exposure", endpoints_exposure, "what was answered, and what one draw can move"},
      {"history", endpoints_history, "who set what, when, from where and why"},
  };
  static const struct cli_group group = {
      .name = "sluice endpoints",
      .about = "Moves traffic between the endpoints of steered names (also: "
               "endpoints COMMAND).",
      .commands = commands,
      .count = CLI_COUNT(commands),
      .examples = "sluice endpoints get cdn\n"
                  "endpoints set cdn central-4=95 central-5=5 --for 2h --reason "
                  "canary\n"
                  "endpoints disable cdn central-4 --reason \"disk replacement\"\n"
                  "endpoints reset cdn --status\n"
                  "endpoints drain 'cluster-7-*' --dry-run",
  };
  return cli_group_run(&group, argc, argv);
}

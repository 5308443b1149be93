/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "tools/cli.h"
#include "tools/commands.h"
#include "tools/config.h"

static void print_counts(const struct model *model) {
  long long zones = (long long)model->zone_count;
  long long records = 0;
  long long domains = 0;
  for (size_t i = 0; i < model->zone_count; i++) {
    records += (long long)model->zones[i].rr_count;
    domains += (long long)model->zones[i].domain_count;
  }
  printf("no errors: %lld zone%s, %lld static record%s, %lld steered domain%s\n", zones,
         cli_s(zones), records, cli_s(records), domains, cli_s(domains));
}

int command_check(int argc, char **argv) {
  struct config_input input = {.dir = ".", .compile = true};
  const struct cli_option options[] = {
      {"system", "FILE", "the machine's settings: exec checks are\nlooked up there", &input.system,
       NULL},
  };
  const struct cli_spec spec = {
      .usage = "sluice check [DIR] [--system FILE]",
      .about = "Reads a configuration directory (by default the working directory) and reports\n"
               "every problem as `path:line:column: message`.  Nothing is changed.\n"
               "Exit status: 0 without errors (warnings do not count), 1 with errors.",
      .examples = "sluice check\n"
                  "sluice check examples/config\n"
                  "sluice check . --system /etc/sluice/sluice.yaml",
      .options = options,
      .option_count = CLI_COUNT(options),
      .max_args = 1,
  };
  size_t args;
  enum cli_next next = cli_parse(&spec, argc, argv, &args);
  if (next != CLI_GO_ON)
    return next == CLI_EXIT_DONE ? CLI_DONE : CLI_USAGE;
  if (args)
    input.dir = argv[1];
  struct model *model = config_read(&input);
  if (!model)
    return CLI_FAILED;
  print_counts(model);
  model_free(model);
  return cli_flush() ? CLI_DONE : CLI_FAILED;
}

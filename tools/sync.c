/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of `sync`; they are in tools/sync/. */
#include "tools/cli_group.h"
#include "tools/commands.h"
#include "tools/sync/migrate.h"
#include "tools/sync/run.h"
#include "tools/sync/verify.h"

int command_sync(int argc, char **argv) {
  static const struct cli_command commands[] = {
      {"plan", sync_plan_command, "what would change at each provider"},
      {"apply", sync_apply_command, "make the changes, and see that they are there"},
      {"drift", sync_drift_command, "where providers differ from the configuration"},
      {"import", sync_import_command, "write as configuration what a provider holds"},
      {"verify", sync_verify_command, "ask their name servers, and compare with the model"},
      {"migrate", sync_migrate_command, "move a zone from one provider to another"},
  };
  static const struct cli_group group = {
      .name = "sluice sync",
      .about = "Brings other DNS providers level with the configuration.",
      .commands = commands,
      .count = CLI_COUNT(commands),
      .examples = "sluice sync plan\n"
                  "sluice sync apply --digest 5f2c8e1b90aa\n"
                  "sluice sync drift --json",
  };
  return cli_group_run(&group, argc, argv);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice`, the operator's tool; under the name `endpoints` it is `sluice endpoints`.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tools/cli_group.h"
#include "tools/commands.h"

static const struct cli_command commands[] = {
    {"check", command_check, "check a configuration and report every problem"},
    {"build", command_build, "make what the server serves from a configuration"},
    {"explain", command_explain, "show how a steered name is answered, layer by layer"},
    {"endpoints", command_endpoints, "see and move the traffic of steered names"},
    {"sync", command_sync, "bring other DNS providers level"},
    {"health", command_health, "what is checked and what came of it; check now; force a state"},
    {"hook", command_hook, "deploys by `git push`"},
    {"deploys", command_deploys, "what was deployed when, and by whom"},
    {"rollback", command_rollback, "deploy an earlier commit again"},
    {"follow", command_follow, "serve what another machine's repository deploys"},
    {"status", command_status, "what the server serves and how it does"},
    {"reload", command_reload, "make the server load the current build"},
    {"stop", command_stop, "stop the server"},
};

static const struct cli_group sluice = {
    .name = "sluice",
    .about = "The operator's tool of sluice, an authoritative DNS server that steers traffic.",
    .commands = commands,
    .count = CLI_COUNT(commands),
    .examples = "sluice check /etc/sluice/config\n"
                "sluice build /etc/sluice/config --out /var/lib/sluice && sluice reload\n"
                "sluice explain cdn --client 192.0.2.1",
};

static bool is_endpoints(const char *program) {
  const char *slash = strrchr(program, '/');
  return !strcmp(slash ? slash + 1 : program, "endpoints");
}

int main(int argc, char **argv) {
  /* A write beyond the limit of file sizes is then an error like a full disk, not a death. */
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  if (argc > 0 && is_endpoints(argv[0]))
    return command_endpoints(argc, argv);
  return cli_group_run(&sluice, argc, argv);
}

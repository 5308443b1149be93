/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice`, the operator's tool; under the name `endpoints` it is `sluice endpoints`.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tools/cli.h"
#include "tools/commands.h"

struct command {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *about;
};

static const struct command commands[] = {
    {"check", command_check, "check a configuration and report every problem"},
    {"build", command_build, "make what the server serves from a configuration"},
    {"explain", command_explain, "show how a steered name is answered, layer by layer"},
    {"endpoints", command_endpoints, "enable, disable and reset endpoints"},
    {"health", command_health, "force what the health checker says about an endpoint"},
    {"status", command_status, "what the server serves and how it does"},
    {"reload", command_reload, "make the server load the current build"},
    {"stop", command_stop, "stop the server"},
};

static int print_help(void) {
  fputs("Usage:\n  sluice COMMAND [ARGUMENT...]\n\nCommands:\n", stdout);
  for (size_t i = 0; i < CLI_COUNT(commands); i++)
    printf("  %-12s%s\n", commands[i].name, commands[i].about);
  fputs("\nOptions:\n"
        "  --help      this text; `sluice COMMAND --help` tells more, with examples\n"
        "  --version   the version\n"
        "\nExamples:\n"
        "  sluice check /etc/sluice/config\n"
        "  sluice build /etc/sluice/config --out /var/lib/sluice && sluice reload\n"
        "  sluice explain cdn --client 192.0.2.1\n"
        "\nExit status: 0 done; 1 failed, nothing changed; 2 wrong usage; 3 done in part.\n",
        stdout);
  return cli_flush() ? CLI_DONE : CLI_FAILED;
}

static int unknown_command(const char *word) {
  const char *names[CLI_COUNT(commands)];
  for (size_t i = 0; i < CLI_COUNT(commands); i++)
    names[i] = commands[i].name;
  const char *near = cli_did_you_mean(word, names, CLI_COUNT(names));
  return cli_usage("unknown command %s%s", word, *near ? near : "; sluice --help lists them");
}

static int run_command(int argc, char **argv) {
  if (argc < 2)
    return cli_usage("no command given; sluice --help lists them");
  const char *word = argv[1];
  if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help"))
    return print_help();
  if (!strcmp(word, "--version")) {
    puts("sluice " SLUICE_VERSION);
    return cli_flush() ? CLI_DONE : CLI_FAILED;
  }
  for (size_t i = 0; i < CLI_COUNT(commands); i++)
    if (!strcmp(word, commands[i].name))
      return commands[i].run(argc - 1, argv + 1);
  return unknown_command(word);
}

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
  return run_command(argc, argv);
}

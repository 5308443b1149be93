/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "tools/cli.h"
#include "tools/commands.h"
#include "tools/config.h"
#include "tools/system_check.h"

struct counts {
  long long zones, records, domains;
};

static struct counts count(const struct model *model) {
  struct counts counts = {.zones = model ? (long long)model->zone_count : 0};
  for (size_t i = 0; i < (size_t)counts.zones; i++) {
    counts.records += (long long)model->zones[i].rr_count;
    counts.domains += (long long)model->zones[i].domain_count;
  }
  return counts;
}

static void print_counts(const struct counts *c) {
  printf("no errors: %lld zone%s, %lld static record%s, %lld steered domain%s\n", c->zones,
         cli_s(c->zones), c->records, cli_s(c->records), c->domains, cli_s(c->domains));
}

/* Takes the reference of `problems` over. */
static bool print_json(const struct counts *counts, bool ok, json_t *problems) {
  json_t *document = json_pack("{s:b, s:I, s:I, s:I, s:o}", "ok", (int)ok, "zones",
                               (json_int_t)counts->zones, "records", (json_int_t)counts->records,
                               "domains", (json_int_t)counts->domains, "problems", problems);
  if (!document)
    cli_error("out of memory");
  bool printed = document && cli_print_json(document);
  json_decref(document);
  return printed;
}

static int check_system(const char *path) {
  if (!system_check(path))
    return CLI_FAILED;
  printf("no errors in %s\n", path);
  return cli_flush() ? CLI_DONE : CLI_FAILED;
}

int command_check(int argc, char **argv) {
  struct config_input input = {.dir = ".", .compile = true, .secrets = true};
  bool json = false;
  const struct cli_option options[] = {
      {"git", "REPO", "check a commit of this git repository", &input.git, NULL},
      {"commit", "REV", "the commit: a branch, a tag or an id", &input.commit, NULL},
      {"system", "FILE",
       "check the machine's settings; with a\nconfiguration, exec checks and the secrets of\nalert "
       "routes and providers are looked up there",
       &input.system, NULL},
      {"json", NULL, "print counts and problems as JSON", NULL, &json},
  };
  const struct cli_spec spec = {
      .usage = "sluice check [DIR] [--system FILE] [--json]\n"
               "sluice check --git REPO --commit REV [--system FILE] [--json]\n"
               "sluice check --system FILE",
      .about = "Reads a configuration directory (default: the working directory) or a commit of\n"
               "a git repository (without checking it out), and reports every problem as\n"
               "`path:line:column: message`.  With --system and nothing else, reads the\n"
               "machine's settings, as the programs will, and the secrets of alert routes (and\n"
               "with `syncd:` of providers), as the user who runs this.  Nothing is changed.\n"
               "Exit status: 0 without errors (warnings do not count), 1 with errors.",
      .examples = "sluice check\n"
                  "sluice check examples\n"
                  "sluice check --git /srv/git/dns.git --commit main\n"
                  "sluice check --system /etc/sluice/sluice.yaml\n"
                  "sluice check . --system /etc/sluice/sluice.yaml",
      .options = options,
      .option_count = CLI_COUNT(options),
      .max_args = 1,
  };
  size_t args;
  enum cli_next next = cli_parse(&spec, argc, argv, &args);
  if (next != CLI_GO_ON)
    return next == CLI_EXIT_DONE ? CLI_DONE : CLI_USAGE;
  if (!input.git != !input.commit)
    return cli_usage("--git and --commit go together; give both");
  if (args && input.git)
    return cli_usage("a directory and --git exclude each other; give one");
  if (input.system && !args && !input.git)
    return check_system(input.system);
  if (args)
    input.dir = argv[1];
  if (json)
    input.problems = json_array();
  struct model *model = config_read(&input);
  struct counts counts = count(model);
  bool ok = model != NULL;
  model_free(model);
  if (ok && counts.zones == 0)
    cli_error("warning: there is no zone in %s; is it the root of a configuration?",
              input.git ? input.commit : input.dir);
  if (json)
    return print_json(&counts, ok, input.problems) && ok ? CLI_DONE : CLI_FAILED;
  if (ok)
    print_counts(&counts);
  return ok && cli_flush() ? CLI_DONE : CLI_FAILED;
}

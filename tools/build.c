/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/build.h"

#include <stdio.h>

#include "tools/cli.h"
#include "tools/commands.h"
#include "tools/config.h"

static bool print_result(const struct build_result *result, bool json) {
  long long zones = (long long)result->zones;
  if (json) {
    json_t *document = json_pack("{s:I, s:I, s:b}", "zones", (json_int_t)zones, "changed",
                                 (json_int_t)result->rebuilt, "unchanged", (int)result->unchanged);
    bool printed = cli_print_json(document);
    json_decref(document);
    return printed;
  }
  if (result->unchanged)
    printf("nothing changed: %lld zone%s\n", zones, cli_s(zones));
  else
    printf("built %lld zone%s, %zu of them changed\n", zones, cli_s(zones), result->rebuilt);
  return cli_flush();
}

static int run(struct config_input *input, const char *out, bool json) {
  struct source_git_commit commit;
  input->found = &commit;
  struct model *model = config_read(input);
  if (!model)
    return CLI_FAILED;
  if (model->zone_count ==
      0) { /* most likely the wrong folder; the server would refuse all names */
    model_free(model);
    cli_error("there is no zone in %s; give the root of a configuration",
              input->zone_list ? input->zone_list
              : input->git     ? input->commit
                               : input->dir);
    return CLI_FAILED;
  }
  char why[512] = "";
  struct build_options options = {.data_dir = out};
  if (input->git) {
    options.commit = commit.id;
    options.commit_time = commit.time;
  }
  struct build_result result;
  bool ok = build_run(model, &options, &result, why);
  model_free(model);
  json_decref(result.serials);
  json_decref(result.retired);
  if (!ok) {
    cli_error("%s", why);
    return CLI_FAILED;
  }
  return print_result(&result, json) ? CLI_DONE : CLI_FAILED;
}

int command_build(int argc, char **argv) {
  struct config_input input = {.dir = "."};
  const char *out = NULL;
  bool json = false;
  const struct cli_option options[] = {
      {"out", "DATA", "folder of the builds; DATA/current is\nswitched to the new one", &out, NULL},
      {"git", "REPO", "build a commit of this git repository", &input.git, NULL},
      {"commit", "REV", "the commit: a branch, a tag or an id", &input.commit, NULL},
      {"zone-file", "FILE", "build one plain zone from a master file", &input.zone_file, NULL},
      {"origin", "NAME", "name of that zone", &input.origin, NULL},
      {"zone-list", "FILE",
       "build the plain zones of a list: lines of\n`origin file`; files are "
       "relative to the list",
       &input.zone_list, NULL},
      {"system", "FILE", "the machine's settings: exec checks are\nlooked up there", &input.system,
       NULL},
      {"json", NULL, "print JSON", NULL, &json},
  };
  const struct cli_spec spec = {
      .usage = "sluice build [DIR] --out DATA [--system FILE] [--json]\n"
               "sluice build --git REPO --commit REV --out DATA [--system FILE] [--json]\n"
               "sluice build --zone-file FILE --origin NAME --out DATA\n"
               "sluice build --zone-list FILE --out DATA",
      .about = "Checks a configuration directory (by default the working directory), a commit\n"
               "of a git repository or plain zones, and makes the folder that the server maps.\n"
               "Zones whose input did not change are taken over; the switch to the new build is\n"
               "atomic, and after an error nothing has changed.  The server is told by\n"
               "`sluice reload`.",
      .examples = "sluice build --out /var/lib/sluice\n"
                  "sluice build examples --out /tmp/data && sluice reload\n"
                  "sluice build --git /srv/git/dns.git --commit main --out /tmp/data\n"
                  "sluice build --zone-file example.com.zone --origin example.com --out /tmp/data",
      .options = options,
      .option_count = CLI_COUNT(options),
      .max_args = 1,
  };
  size_t args;
  enum cli_next next = cli_parse(&spec, argc, argv, &args);
  if (next != CLI_GO_ON)
    return next == CLI_EXIT_DONE ? CLI_DONE : CLI_USAGE;
  if (!out)
    return cli_usage("--out is missing; name the folder of the builds with --out DATA");
  if (!input.zone_file != !input.origin)
    return cli_usage("--zone-file and --origin go together; give both");
  if (!input.git != !input.commit)
    return cli_usage("--git and --commit go together; give both");
  if ((args > 0) + !!input.zone_file + !!input.zone_list + !!input.git > 1)
    return cli_usage(
        "a directory, --git, --zone-file and --zone-list exclude each other; give one");
  if (input.system && (input.zone_file || input.zone_list))
    return cli_usage("--system goes with a configuration only; leave it out");
  if (args)
    input.dir = argv[1];
  return run(&input, out, json);
}

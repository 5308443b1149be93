/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli.h"
#include "tools/commands.h"
#include "tools/deploy.h"
#include "tools/machine.h"

/* The deploy `number`, or for 0 the newest one of another commit than the one that is live. */
static bool find(const struct deploy *deploy, long long number, struct deploy_record *record,
                 char *why) {
  git_oid id = deploy->last_id;
  git_oid before;
  bool first = !deploy->has_last;
  while (!first) {
    if (!deploy_log_read(deploy->repo, &id, record, &before, &first, why))
      return false;
    if (number ? record->number == number : strcmp(record->commit, deploy->last.commit) != 0)
      return true;
    deploy_record_close(record);
    id = before;
  }
  if (!deploy->has_last)
    snprintf(why, DEPLOY_WHY, "nothing was deployed yet");
  else if (number)
    snprintf(why, DEPLOY_WHY,
             "there is no deploy %lld; the newest is %lld, `sluice deploys` lists them", number,
             (long long)deploy->last.number);
  else
    snprintf(why, DEPLOY_WHY, "there is no earlier commit to go back to");
  return false;
}

static int roll_back(struct deploy *deploy, long long number) {
  char why[DEPLOY_WHY] = "";
  char when[DEPLOY_TIME];
  struct deploy_record record;
  if (!find(deploy, number, &record, why)) {
    cli_error("%s", why);
    return CLI_FAILED;
  }
  if (!strcmp(record.commit, deploy->last.commit)) {
    cli_error("deploy %lld has the commit %.12s, which is what was deployed last; nothing to do",
              (long long)record.number, record.commit);
    deploy_record_close(&record);
    return CLI_FAILED;
  }
  struct deploy_wish wish = {.commit = record.commit, .kind = DEPLOY_ROLLBACK, .of = record.number};
  if (!deploy_record_new(deploy, &wish, why)) {
    cli_error("%s; nothing has changed", why);
    deploy_record_close(&record);
    return CLI_FAILED;
  }
  bool ok = deploy_finish(deploy, why);
  if (ok) {
    printf("deploy %lld is live: %.12s, as of deploy %lld (%s by %s)\n",
           (long long)deploy->last.number, record.commit, (long long)record.number,
           deploy_time(record.at, when), record.who);
    printf("the branch is not moved; the next push undoes this rollback\n");
  } else {
    deploy_note_failure(deploy->place, record.commit, why);
    cli_error("recorded, NOT DEPLOYED: %s; try again by `sluice deploys --retry`", why);
  }
  deploy_record_close(&record);
  return !ok ? CLI_PARTIAL : cli_flush() ? CLI_DONE : CLI_FAILED;
}

static bool read_number(const char *text, long long *number) {
  text += *text == '#';
  size_t digits = strspn(text, "0123456789");
  *number = digits > 0 && digits < 16 && !text[digits] ? strtoll(text, NULL, 10) : 0;
  return *number > 0;
}

int command_rollback(int argc, char **argv) {
  const char *repository = NULL, *settings = NULL;
  const struct cli_option options[] = {
      {"repository", "REPO",
       "the repository that is pushed to (default:\n`deploy:` of the machine's settings)",
       &repository, NULL},
      {"settings", "FILE", MACHINE_HELP, &settings, NULL},
  };
  const struct cli_spec spec = {
      .usage = "sluice rollback [N] [--repository REPO]",
      .about = "Makes what deploy N had live again, by a new deploy (N as in `sluice deploys`;\n"
               "default: the newest one of another commit than the live one).  Serials go up as\n"
               "with any change.  The branch is not moved: the next push deploys its tip.\n"
               "Exit status: 3 if it is recorded but could not be made live.",
      .examples = "sluice rollback\n"
                  "sluice rollback 41",
      .options = options,
      .option_count = CLI_COUNT(options),
      .max_args = 1,
  };
  size_t count;
  char why[DEPLOY_WHY];
  long long number = 0;
  enum cli_next next = cli_parse(&spec, argc, argv, &count);
  if (next != CLI_GO_ON)
    return next == CLI_EXIT_DONE ? CLI_DONE : CLI_USAGE;
  if (count && !read_number(argv[1], &number))
    return cli_usage("%s is not the number of a deploy; `sluice deploys` lists them", argv[1]);
  struct deploy_place place;
  struct deploy deploy;
  if (!deploy_place_find(&place, repository, settings))
    return CLI_FAILED;
  int status = CLI_FAILED;
  if (!place.branch)
    cli_error("this machine follows another one; roll back there");
  else if (!deploy_open(&deploy, &place, true, why))
    cli_error("%s", why);
  else {
    status = roll_back(&deploy, number);
    deploy_close(&deploy);
  }
  deploy_place_free(&place);
  return status;
}

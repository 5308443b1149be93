/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice sync verify`: a thread for each provider. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli.h"
#include "tools/client.h"
#include "tools/machine.h"
#include "tools/sync/ask.h"
#include "tools/sync/verify.h"

enum { WHY = 512, DRAWS_LEAST = 100, DRAWS_MOST = 1000000, TIMEOUT_MOST = 60000 };

struct flags {
  struct sync_options options;
  const char *draws, *timeout, *servers, *geo, *asn;
  bool json, verbose;
  struct verify_options verify;
  json_t *given; /* of --server, or NULL */
};

/* ---- options -------------------------------------------------------------------------------- */

static bool number(const char *text, unsigned least, unsigned most, unsigned *out) {
  char *end;
  unsigned long value = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;
  if (value < least || value > most || *end != '\0')
    return false;
  *out = (unsigned)value;
  return true;
}

/* "ADDRESS[@PORT],..." as a list. */
static bool split(const char *text, json_t **out) {
  *out = json_array();
  for (const char *at = text; *out && at;) {
    size_t len = strcspn(at, ",");
    if (len == 0 || json_array_append_new(*out, json_stringn(at, len)) != 0)
      return false;
    at = at[len] == ',' ? at + len + 1 : NULL;
  }
  return *out;
}

static int check(struct flags *f, char **argv, size_t args) {
  struct sync_options *o = &f->options;
  unsigned timeout = ASK_TIMEOUT_MS;
  f->verify = (struct verify_options){.draws = VERIFY_DRAWS, .steered = true, .plain = true};
  if (!o->git != !o->commit)
    return cli_usage("--git and --commit go together; give both");
  if (o->git && o->config)
    return cli_usage("--config and --git exclude each other; give one");
  if (f->draws && !number(f->draws, DRAWS_LEAST, DRAWS_MOST, &f->verify.draws))
    return cli_usage("--draws must be a number from %d to %d", DRAWS_LEAST, DRAWS_MOST);
  if (f->timeout && !number(f->timeout, 1, TIMEOUT_MOST, &timeout))
    return cli_usage("--timeout must be a number of milliseconds from 1 to %d", TIMEOUT_MOST);
  if (f->servers && !split(f->servers, &f->given))
    return cli_usage("--server must be ADDRESS[@PORT] or host names, with commas between them");
  f->verify.timeout_ms = (int)timeout;
  o->args = argv + 1;
  o->arg_count = args;
  return CLI_DONE;
}

/* ---- the run -------------------------------------------------------------------------------- */

/* `--server` stands for the servers of one provider. */
static bool one_provider(const struct sync_run *run) {
  for (size_t i = 1; i < run->target_count; i++)
    if (run->targets[i].provider != run->targets[0].provider) {
      cli_error("--server is about the name servers of one provider: name it by --provider, or set "
                "`servers:` of each");
      return false;
    }
  return true;
}

/* What one thread works on: the zones of one provider, one after the other. */
struct looker {
  struct sync_run *run;
  const struct flags *flags;
  const struct sync_provider *provider;
  struct verify_report *reports;
  pthread_t thread;
  bool started;
};

static void *look_at(void *arg) {
  const struct looker *l = arg;
  for (size_t i = 0; i < l->run->target_count; i++) {
    struct sync_target *t = &l->run->targets[i];
    struct provider_error error = {0};
    if (t->provider != l->provider || t->state == SYNC_FAILED)
      continue;
    json_t *servers = l->flags->given ? json_incref(l->flags->given)
                                      : verify_servers(l->run, t->provider, t->zone->name, &error);
    if (!servers || !verify_target(l->run, t, servers, &l->flags->verify, &l->reports[i], &error))
      t->error = error;
    json_decref(servers);
  }
  return NULL;
}

static void look(struct sync_run *run, const struct flags *f, struct verify_report *reports) {
  struct looker *lookers = calloc(run->provider_count + 1, sizeof *lookers);
  for (size_t i = 0; i < run->provider_count; i++) {
    struct looker alone = {
        .run = run, .flags = f, .provider = &run->providers[i], .reports = reports};
    struct looker *l = lookers ? &lookers[i] : &alone;
    *l = alone;
    l->started = lookers && pthread_create(&l->thread, NULL, look_at, l) == 0;
    if (!l->started)
      look_at(l);
  }
  for (size_t i = 0; lookers && i < run->provider_count; i++)
    if (lookers[i].started)
      pthread_join(lookers[i].thread, NULL);
  free(lookers);
}

static int status_of(const struct sync_run *run, const struct verify_report *reports) {
  size_t asked = 0;
  size_t bad = 0;
  for (size_t i = 0; i < run->target_count; i++) {
    asked += reports[i].count - reports[i].skipped;
    bad += reports[i].differ + reports[i].silent + reports[i].skipped;
    bad += run->targets[i].error.text[0] != '\0';
  }
  if (asked == 0)
    return CLI_FAILED;
  return bad > 0 ? CLI_PARTIAL : CLI_DONE;
}

static bool print_json(const struct sync_run *run, const struct verify_report *reports,
                       unsigned draws) {
  json_t *document = verify_json(run, reports, draws);
  if (!document)
    cli_error("out of memory");
  bool ok = document && cli_print_json(document);
  json_decref(document);
  return ok;
}

static int verify(struct sync_run *run, struct flags *f) {
  char why[WHY];
  struct verify_report *reports = calloc(run->target_count + 1, sizeof *reports);
  f->verify.targets = run->target_count;
  f->verify.geo = verify_geo_open(f->geo, f->asn, f->options.settings, why);
  if (!f->verify.geo || !reports) {
    cli_error("%s", reports ? why : "out of memory");
    verify_geo_close(f->verify.geo);
    free(reports);
    return CLI_FAILED;
  }
  sync_run_plan(run);
  look(run, f, reports);
  int status = status_of(run, reports);
  if (f->json && !print_json(run, reports, f->verify.draws))
    status = CLI_FAILED;
  if (!f->json)
    verify_show(run, reports, f->verify.draws, f->verbose);
  if (!cli_flush())
    status = CLI_FAILED;
  for (size_t i = 0; i < run->target_count; i++) {
    if (run->targets[i].error.text[0] != '\0')
      cli_error("%s", run->targets[i].error.text);
    verify_report_close(&reports[i]);
  }
  if (status == CLI_FAILED && run->target_count > 0 && run->targets[0].error.text[0] == '\0')
    cli_error("nothing could be asked");
  verify_geo_close(f->verify.geo);
  free(reports);
  return status;
}

int sync_verify_command(int argc, char **argv) {
  struct flags f = {0};
  const struct cli_option options[] = {
      {"provider", "P[,P...]", "only these providers", &f.options.provider, NULL},
      {"draws", "N", "answers for each name, type and region\n(default 2000)", &f.draws, NULL},
      {"server", "ADDR[,ADDR...]",
       "ask these name servers (ADDRESS[@PORT] or\nhost names) instead of the provider's",
       &f.servers, NULL},
      {"geo", "FILE",
       "location database that finds a place in each\nregion (default: the machine's)", &f.geo,
       NULL},
      {"asn", "FILE", "the same for AS numbers", &f.asn, NULL},
      {"timeout", "MS", "for one try of a question, of three (default\n2000)", &f.timeout, NULL},
      {"config", "DIR", "the configuration directory (default: the\ncommit of the current build)",
       &f.options.config, NULL},
      {"git", "REPO", "the configuration in this git repository", &f.options.git, NULL},
      {"commit", "REV", "which commit of it", &f.options.commit, NULL},
      {"settings", "FILE", MACHINE_HELP, &f.options.settings, NULL},
      {"socket", "PATH", CLIENT_SOCKET_HELP, &f.options.socket, NULL},
      {"verbose", NULL, "list every record that is as configured, too", NULL, &f.verbose},
      {"json", NULL, "print JSON", NULL, &f.json},
  };
  const struct cli_spec spec = {
      .usage = "sluice sync verify [ZONE|DOMAIN...] [--provider P,...] [--draws N]",
      .about = "Asks each provider's own name servers, as a resolver would, and compares what\n"
               "they answer with the model: steered names from a place of each region (client\n"
               "subnet, RFC 7871) as often as --draws says, their shares by a chi-square test\n"
               "that is wrong less than once in a million runs; all other records one by one.\n"
               "What a provider has lost by declaration is compared with what was declared.\n"
               "One draw is one answer to a resolver, not one user.\n"
               "Exit status: 3 if something differs, was silent or was skipped; 1 if nothing\n"
               "could be asked.",
      .examples = "sluice sync verify\n"
                  "sluice sync verify cdn --provider dns-a --draws 10000\n"
                  "sluice sync verify tm.example.com --provider dns-b --server 192.0.2.53\n"
                  "sluice sync verify cdn --config . --geo city.mmdb --json",
      .options = options,
      .option_count = CLI_COUNT(options),
      .max_args = (size_t)argc,
  };
  size_t args;
  enum cli_next next = cli_parse(&spec, argc, argv, &args);
  if (next != CLI_GO_ON)
    return next == CLI_EXIT_DONE ? CLI_DONE : CLI_USAGE;
  int status = check(&f, argv, args);
  struct sync_run run = {0};
  if (status == CLI_DONE)
    status = sync_run_open(&run, &f.options);
  if (status == CLI_DONE && f.given && !one_provider(&run))
    status = CLI_FAILED;
  if (status == CLI_DONE)
    status = verify(&run, &f);
  sync_run_close(&run);
  json_decref(f.given);
  return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* `endpoints drain` and `endpoints undrain`: one domain after another. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/endpoints/change.h"
#include "tools/endpoints/common.h"
#include "tools/endpoints/draining.h"
#include "tools/times.h"
#include "tools/wrap.h"

enum { HISTORY = 1000, CAUSE = DRAINING_PATTERN + 16, ITEM = 2, BELOW = 4, CANDIDATES = 100000 };

struct sweep {
  struct backend *backend;
  const struct common *common;
  const char *pattern;
  char cause[CAUSE];
  bool undo;
  bool dry_run;
  struct output output;
  json_t *rows; /* a domain each */
  size_t done, skipped, kept;
  /* of the domain at hand */
  bool cannot;
  char why[DRAINING_WHY];
};

/* ---- one domain ----------------------------------------------------------------------------- */

static int plan_drain(void *arg, struct plan *plan) {
  struct sweep *sweep = arg;
  bool *picked = calloc(plan->state->steer->endpoint_count, sizeof *picked);
  sweep->cannot = false;
  if (!picked) {
    cli_error("out of memory");
    return CLI_FAILED;
  }
  draining_match(plan->state->steer, sweep->pattern, picked);
  sweep->cannot = !draining_plan(plan, picked, sweep->cause, sweep->why);
  free(picked);
  json_object_set_new(plan->what, "pattern", json_string(sweep->pattern));
  return sweep->cannot ? CLI_PARTIAL : CLI_DONE;
}

static int plan_undrain(void *arg, struct plan *plan) {
  struct sweep *sweep = arg;
  draining_undo(plan, sweep->cause, (int64_t)time(NULL));
  json_object_set_new(plan->what, "pattern", json_string(sweep->pattern));
  return CLI_DONE;
}

/* True if a matching endpoint has a weight that this drain has not set. */
static bool may_have_kept(const struct sweep *sweep, const struct state *state) {
  for (size_t i = 0; i < state->override_count; i++) {
    const struct store_override *o = &state->overrides[i];
    if (o->key.kind == STORE_WEIGHT && (!o->cause || strcmp(o->cause, sweep->cause) != 0) &&
        fnmatch(sweep->pattern, o->key.endpoint, 0) == 0)
      return true;
  }
  return false;
}

/* What someone has set since the drain; an array, or NULL after an error was printed. */
static json_t *find_kept(struct sweep *sweep, const struct state *state) {
  json_t *history;
  if (!sweep->undo || !may_have_kept(sweep, state))
    return json_array();
  if (backend_history(sweep->backend, state->name, HISTORY, &history) != CLI_DONE)
    return NULL;
  json_t *kept = draining_kept(state, history, sweep->pattern, sweep->cause);
  json_decref(history);
  return kept;
}

static void print_kept(FILE *out, const json_t *kept) {
  size_t i;
  const json_t *item;
  char when[TIMES_TEXT];
  json_array_foreach(kept, i, item) {
    const char *who = json_string_value(json_object_get(item, "who"));
    wrap_to(out, "", BELOW, "kept: %s level %lld %s at %lld, set since by %s (%s)",
            json_string_value(json_object_get(item, "region")),
            (long long)json_integer_value(json_object_get(item, "level")),
            json_string_value(json_object_get(item, "endpoint")),
            (long long)json_integer_value(json_object_get(item, "weight")), who ? who : "somebody",
            times_utc(json_integer_value(json_object_get(item, "since")), when));
  }
}

static const char *did(const struct sweep *sweep) {
  if (sweep->undo)
    return sweep->dry_run ? "would be restored" : "restored";
  return sweep->dry_run ? "would be drained" : "drained";
}

static void report(struct sweep *sweep, const char *domain, const json_t *changes,
                   const json_t *kept) {
  size_t count = json_array_size(changes);
  FILE *out = sweep->output.file;
  const char *status = sweep->cannot ? "skipped" : count > 0 ? "done" : "nothing to do";
  if (sweep->cannot) {
    sweep->skipped++;
    wrap_to(out, "", ITEM, "%s: SKIPPED, %s", domain, sweep->why);
  } else if (count > 0) {
    sweep->done++;
    wrap_to(out, "", ITEM, "%s: %zu weight%s %s", domain, count, cli_s((long long)count),
            did(sweep));
    if (sweep->dry_run)
      change_print(out, changes);
  }
  sweep->kept += json_array_size(kept);
  print_kept(out, kept);
  fflush(out);
  json_array_append_new(sweep->rows, json_pack("{s:s, s:s, s:O, s:O, s:s?}", "domain", domain,
                                               "status", status, "changes", changes, "kept", kept,
                                               "why", sweep->cannot ? sweep->why : NULL));
}

static int sweep_domain(struct sweep *sweep, const char *domain) {
  const struct change change = {
      .command = sweep->undo ? "undrain" : "drain",
      .reason = sweep->common->reason,
      .plan = sweep->undo ? plan_undrain : plan_drain,
      .arg = sweep,
      .dry_run = sweep->dry_run,
  };
  struct change_result result = {0};
  int status = change_make(sweep->backend, domain, &change, &result);
  json_t *kept = NULL;
  if (status == CLI_DONE || sweep->cannot) {
    kept = result.planned ? find_kept(sweep, result.planned) : NULL;
    status = kept ? CLI_DONE : CLI_FAILED;
  }
  if (status == CLI_DONE) {
    json_t *none = json_array();
    report(sweep, domain, sweep->cannot ? none : result.changes, kept);
    json_decref(none);
  }
  json_decref(kept);
  change_result_close(&result);
  return status;
}

/* ---- all ------------------------------------------------------------------------------------ */

static bool matches(const json_t *domain, const char *pattern) {
  size_t i;
  const json_t *endpoint;
  json_array_foreach(json_object_get(domain, "endpoints"), i, endpoint) {
    const char *name = json_string_value(endpoint);
    if (name && fnmatch(pattern, name, 0) == 0)
      return true;
  }
  return false;
}

/* Tells that no endpoint matches, with the nearest name. */
static int no_match(const json_t *domains, const char *pattern) {
  const char **names = calloc(CANDIDATES, sizeof *names);
  size_t count = 0, i, j;
  const json_t *domain, *endpoint;
  json_array_foreach(domains, i, domain) {
    json_array_foreach(json_object_get(domain, "endpoints"), j, endpoint) {
      if (names && count < CANDIDATES && json_is_string(endpoint))
        names[count++] = json_string_value(endpoint);
    }
  }
  cli_error("no endpoint matches `%s`%s", pattern,
            names ? cli_did_you_mean(pattern, names, count) : "");
  free(names);
  return CLI_FAILED;
}

static void show_progress(const struct sweep *sweep, size_t at, size_t count, const char *domain) {
  if (sweep->output.format == OUTPUT_TEXT && isatty(STDERR_FILENO))
    fprintf(stderr, "\r\033[K%zu/%zu %.60s%s", at, count, domain, at == count ? "\r\033[K" : "");
}

/* Goes over the domains that have a matching endpoint; stops at the first failure. */
static int sweep_all(struct sweep *sweep, const json_t *domains) {
  size_t count = 0, at = 0, i;
  const json_t *domain;
  int status = CLI_DONE;
  json_array_foreach(domains, i, domain) count += matches(domain, sweep->pattern);
  if (count == 0)
    return no_match(domains, sweep->pattern);
  json_array_foreach(domains, i, domain) {
    const char *name = json_string_value(json_object_get(domain, "name"));
    if (!name || !matches(domain, sweep->pattern))
      continue;
    show_progress(sweep, ++at, count, name);
    status = sweep_domain(sweep, name);
    if (status != CLI_DONE) {
      cli_error("%s of `%s` stopped at %s: %zu of %zu domains are done; run it again",
                sweep->undo ? "undrain" : "drain", sweep->pattern, name, at - 1, count);
      return sweep->done > 0 && !sweep->dry_run ? CLI_PARTIAL : CLI_FAILED;
    }
  }
  return CLI_DONE;
}

static void print_sum(const struct sweep *sweep) {
  FILE *out = sweep->output.file;
  wrap_to(out, "", 0, "%zu domain%s %s%s", sweep->done, cli_s((long long)sweep->done), did(sweep),
          sweep->dry_run ? " (nothing was changed)" : "");
  if (sweep->skipped > 0)
    wrap_to(out, "", 0,
            "%zu domain%s skipped, since nothing else there could take the traffic: `endpoints "
            "set --force` does it one by one",
            sweep->skipped, cli_s((long long)sweep->skipped));
  if (sweep->kept > 0)
    wrap_to(out, "", 0, "%zu weight%s kept, which someone has set since", sweep->kept,
            cli_s((long long)sweep->kept));
  if (sweep->done > 0 && !sweep->dry_run)
    wrap_to(out, "", 0, "Caches keep older answers for the TTL of each domain.");
}

/* The exit status of a sweep that came to its end. */
static int judge(const struct sweep *sweep) {
  if (sweep->undo && sweep->done == 0 && sweep->kept == 0) {
    cli_error("nothing is drained by `%s`; `endpoints history` tells what was", sweep->pattern);
    return CLI_FAILED;
  }
  if (sweep->skipped == 0)
    return CLI_DONE;
  cli_error("%zu domain%s skipped", sweep->skipped, cli_s((long long)sweep->skipped));
  return sweep->done > 0 ? CLI_PARTIAL : CLI_FAILED;
}

static int run_sweep(struct sweep *sweep, const char *zone) {
  json_t *domains = NULL;
  if (!output_open(&sweep->output, sweep->common->output))
    return CLI_FAILED;
  sweep->rows = json_array();
  int status = backend_domains(sweep->backend, zone, &domains);
  if (status == CLI_DONE)
    status = sweep_all(sweep, domains);
  json_decref(domains);
  bool ended = status == CLI_DONE;
  if (ended)
    print_sum(sweep);
  json_t *document = json_pack("{s:b, s:s, s:s, s:o}", "dry_run", (int)sweep->dry_run, "command",
                               sweep->undo ? "undrain" : "drain", "pattern", sweep->pattern,
                               "domains", sweep->rows);
  if (json_array_size(sweep->rows) == 0 && !ended && sweep->output.format != OUTPUT_TEXT) {
    fclose(sweep->output.file);
    free(sweep->output.text);
  } else if (!output_close(&sweep->output, document)) {
    status = sweep->done > 0 ? CLI_PARTIAL : CLI_FAILED;
  }
  json_decref(document);
  if (status == CLI_DONE)
    status = judge(sweep);
  if (status == CLI_DONE && sweep->done > 0 && !sweep->dry_run)
    status = change_end(sweep->backend, status);
  return status;
}

/* A zone's name, absolute; false after an error was printed. */
static bool read_zone(const char *text, char *out) {
  uint8_t mixed[NAME_BUF], wire[NAME_BUF];
  const char *why = "";
  if (!name_from_text(mixed, text, strlen(text), NULL, &why)) {
    cli_usage("--zone %s is no name: %s", text, why);
    return false;
  }
  name_copy_lower(wire, mixed);
  name_to_text(out, wire);
  return true;
}

static int check_pattern(const char *pattern) {
  const char *wrong = selector_pattern_wrong(pattern);
  if (wrong)
    return cli_usage("`%s` is no pattern: %s", pattern, wrong);
  if (strlen(pattern) > DRAINING_PATTERN)
    return cli_usage("the pattern is longer than %d octets", DRAINING_PATTERN);
  return CLI_DONE;
}

static int run(int argc, char **argv, bool undo) {
  struct common common = {0};
  const char *zone = NULL;
  struct sweep sweep = {.common = &common, .undo = undo};
  const struct cli_option options[] = {
      {"zone", "ZONE", "only domains of this zone", &zone, NULL},
      {"dry-run", NULL, "print what would be, change nothing", NULL, &sweep.dry_run},
      COMMON_WHY(common),
      COMMON_OUTPUT(common),
      COMMON_PLACE(common),
  };
  const struct cli_spec spec = {
      .usage = undo ? "sluice endpoints undrain PATTERN [--zone ZONE] [--dry-run]"
                    : "sluice endpoints drain PATTERN [--zone ZONE] [--dry-run]",
      .about = undo
                   ? "Restores the weights that `endpoints drain PATTERN` replaced, also those\n"
                     "that were set by hand before it.  What someone has set since the drain\n"
                     "stays, and is listed."
                   : "Evacuates a cluster: every endpoint whose name matches the pattern (* ? and\n"
                     "[], with regard to case) gets weight 0 in every level of every domain, one\n"
                     "domain after another.  A domain is skipped, and listed, where nothing else\n"
                     "could take its traffic: no other weight above 0 in that level or a later\n"
                     "one, for each type.  `endpoints undrain PATTERN` restores the weights.\n"
                     "Exit status: 3 if some domains were skipped, 1 if all were.",
      .examples = undo ? "sluice endpoints undrain 'cluster-7-*' --reason \"power is back\"\n"
                         "endpoints undrain 'cluster-7-*' --dry-run"
                       : "sluice endpoints drain 'cluster-7-*' --dry-run\n"
                         "endpoints drain 'cluster-7-*' --reason \"power works\"\n"
                         "endpoints drain central-4 --zone tm.example.com",
      .options = options,
      .option_count = CLI_COUNT(options),
      .min_args = 1,
      .max_args = 1,
  };
  size_t count;
  int status;
  char zone_name[NAME_MAX_TEXT];
  if (!common_parse(&spec, argc, argv, &count, &common, &status))
    return status;
  sweep.pattern = argv[1];
  if (check_pattern(sweep.pattern) != CLI_DONE || (zone && !read_zone(zone, zone_name)))
    return CLI_USAGE;
  snprintf(sweep.cause, sizeof sweep.cause, "drain:%s", sweep.pattern);
  sweep.backend = backend_open(&common.to);
  if (!sweep.backend)
    return CLI_FAILED;
  status = run_sweep(&sweep, zone ? zone_name : NULL);
  backend_close(sweep.backend);
  return status;
}

int endpoints_drain(int argc, char **argv) {
  return run(argc, argv, false);
}

int endpoints_undrain(int argc, char **argv) {
  return run(argc, argv, true);
}

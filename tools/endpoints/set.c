/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "tools/deploy.h"
#include "tools/endpoints/change.h"
#include "tools/endpoints/common.h"
#include "tools/endpoints/setting.h"
#include "tools/endpoints/weights.h"
#include "tools/times.h"
#include "tools/wrap.h"

enum { MAX_ARGS = 10000, LEVEL_MAX = 65535 };

struct set {
  struct backend *backend;
  struct target target;
  struct weights weights;
  char **words; /* as written, for the trail */
  size_t word_count;
  uint32_t level;
  bool force;
  struct buf warnings;   /* lines */
  int32_t *weights_then; /* of the state that was planned on, with the new ones */
};

/* ---- planning ------------------------------------------------------------------------------- */

/* Endpoints that the domain does not have at all get a hint. */
static int check_endpoints(const struct set *set, const struct state *state) {
  for (size_t i = 0; i < set->weights.count; i++)
    if (steer_endpoint_find(state->steer, set->weights.items[i].endpoint) < 0)
      return target_no_endpoint(state, set->weights.items[i].endpoint);
  return CLI_DONE;
}

static int define_profile(struct set *set, const struct state *state) {
  char why[WEIGHTS_WHY];
  if (set->weights.kind != WEIGHTS_NAMED)
    return CLI_DONE;
  if (!set->target.entry)
    set->target.entry = backend_entry(set->backend, state);
  if (steer_endpoint_find(state->steer, set->weights.profile) >= 0) {
    cli_error("%s is an endpoint; write %s=WEIGHT, or only[%s]", set->weights.profile,
              set->weights.profile, set->weights.profile);
    return CLI_FAILED;
  }
  if (weights_define(&set->weights, json_object_get(set->target.entry, "profiles"), why))
    return CLI_DONE;
  cli_error("%s: %s", state->name, why);
  return CLI_FAILED;
}

/* The store is of one machine: servers that follow the same repository do not share it. */
static void warn_follower(struct set *set, const struct state *state) {
  char *url = state->data ? deploy_followed(state->data) : NULL;
  if (url)
    buf_printf(&set->warnings,
               "this machine follows %s: what is set here holds here alone, not on other servers\n",
               url);
  free(url);
}

/* Refuses what needs --force. */
static int judge(struct set *set, const struct setting *setting, const struct state *state) {
  struct buf refusal;
  int status = CLI_FAILED;
  buf_init(&refusal);
  buf_clear(&set->warnings);
  warn_follower(set, state);
  if (!setting_judge(setting, state, set->target.picked, set->level, &refusal, &set->warnings)) {
    cli_error("out of memory");
  } else if (refusal.len > 0 && !set->force) {
    cli_error("%s: %s; --force does it nevertheless", state->name, buf_text(&refusal));
  } else {
    if (refusal.len > 0)
      buf_printf(&set->warnings, "%s\n", buf_text(&refusal));
    status = CLI_DONE;
  }
  buf_close(&refusal);
  return status;
}

static void add_changes(struct plan *plan, const struct setting *setting) {
  const struct steer_domain *steer = plan->state->steer;
  size_t index = 0;
  for (uint32_t r = 0; r < steer->region_count; r++)
    for (uint32_t l = 0; l < steer->regions[r].level_count; l++)
      for (uint32_t i = 0; i < steer->regions[r].levels[l].entry_count; i++, index++)
        if (setting->touched[index])
          plan_weight(plan, r, l + 1, steer->regions[r].levels[l].entries[i].endpoint,
                      setting->weights[index], NULL, NULL);
}

static json_t *words_json(const struct set *set) {
  json_t *list = json_array();
  for (size_t i = 0; i < set->word_count; i++)
    json_array_append_new(list, json_string(set->words[i]));
  return list;
}

static int plan_set(void *arg, struct plan *plan) {
  struct set *set = arg;
  struct setting setting = {0};
  char why[SETTING_WHY];
  const struct state *state = plan->state;
  struct state *copy = state_read(json_incref(state->reply), why);
  if (!copy) {
    cli_error("%s", why);
    return CLI_FAILED;
  }
  int status = target_pick(&set->target, copy);
  if (status == CLI_DONE)
    status = define_profile(set, state);
  if (status == CLI_DONE)
    status = check_endpoints(set, state);
  if (status == CLI_DONE &&
      !setting_compute(&setting, state, set->target.picked, set->level, &set->weights, why)) {
    cli_error("%s: %s", state->name, why);
    status = CLI_FAILED;
  }
  if (status == CLI_DONE)
    status = judge(set, &setting, state);
  if (status == CLI_DONE) {
    add_changes(plan, &setting);
    json_object_set_new(plan->what, "set", words_json(set));
    free(set->weights_then);
    set->weights_then = setting.weights;
    setting.weights = NULL;
  }
  setting_close(&setting);
  return status;
}

/* ---- output --------------------------------------------------------------------------------- */

static void print_warnings(struct set *set) {
  char *rest = NULL;
  char *text = (char *)(uintptr_t)buf_text(&set->warnings);
  for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
    cli_error("warning: %s", line);
}

static json_t *warnings_json(const struct set *set) {
  json_t *list = json_array();
  const char *text = (const char *)set->warnings.data;
  for (size_t at = 0; at < set->warnings.len;) {
    size_t n = 0;
    while (at + n < set->warnings.len && text[at + n] != '\n')
      n++;
    json_array_append_new(list, json_stringn(text + at, n));
    at += n + 1;
  }
  return list;
}

static void print_heading(FILE *out, const struct set *set, const struct common *common,
                          bool dry_run) {
  char until[TIMES_TEXT];
  bool ends = common->expires_at > 0;
  wrap_to(out, "", 0, "%s: %s%s%s", set->target.name,
          dry_run ? "nothing was changed; it would be" : "set", ends ? " until " : "",
          ends ? times_utc(common->expires_at, until) : "");
}

/* What `get` shows, of the state after the change (or, with a dry run, as it would be). */
static int print_result(struct set *set, const struct common *common,
                        const struct change_result *result, bool dry_run) {
  struct output output;
  int status;
  if (dry_run) {
    struct state *state = set->target.state;
    memcpy(state->weights, set->weights_then, state->steer->entry_count * sizeof *state->weights);
    status = target_compute(&set->target);
    if (status == CLI_DONE && !set->target.entry)
      set->target.entry = backend_entry(set->backend, state);
  } else {
    status = target_load(set->backend, &set->target);
  }
  json_t *warnings = warnings_json(set);
  print_warnings(set);
  if (status == CLI_DONE && !output_open(&output, common->output))
    status = CLI_FAILED;
  if (status == CLI_DONE) {
    if (output.format != OUTPUT_JSON) {
      print_heading(output.file, set, common, dry_run);
      change_print(output.file, result->changes);
      fputc('\n', output.file);
    }
    json_t *shown = target_show(set->backend, &output, &set->target);
    json_t *document = json_pack("{s:b, s:O, s:O, s:o?}", "dry_run", (int)dry_run, "changes",
                                 result->changes, "warnings", warnings, "domain", shown);
    if (backend_behind(set->backend))
      json_object_set(document, "behind", (json_t *)(uintptr_t)backend_behind(set->backend));
    status = output_close(&output, document) ? CLI_DONE : CLI_FAILED;
    json_decref(document);
  }
  json_decref(warnings);
  return status;
}

/* ---- command -------------------------------------------------------------------------------- */

static bool read_level(const char *text, uint32_t *level) {
  char *end;
  unsigned long value = text ? strtoul(text, &end, 10) : 1;
  *level = (uint32_t)value;
  return !text || (text[0] >= '1' && text[0] <= '9' && !*end && value <= LEVEL_MAX);
}

static int run(struct set *set, const char *domain, const struct common *common, bool dry_run) {
  const struct change change = {
      .command = "set",
      .reason = common->reason,
      .expires_at = common->expires_at,
      .plan = plan_set,
      .arg = set,
      .dry_run = dry_run,
  };
  struct change_result result = {0};
  int status = target_open(set->backend, domain, &set->target);
  if (status == CLI_DONE)
    status = change_make(set->backend, set->target.name, &change, &result);
  if (status == CLI_DONE) {
    status = print_result(set, common, &result, dry_run);
    if (status != CLI_DONE && !dry_run) {
      cli_error("%s is set nevertheless; only the result cannot be shown", set->target.name);
      status = CLI_PARTIAL;
    }
    if (!dry_run)
      status = change_end(set->backend, status);
  }
  change_result_close(&result);
  return status;
}

int endpoints_set(int argc, char **argv) {
  struct common common = {0};
  const char *level = NULL;
  bool dry_run = false;
  struct set set = {0};
  const struct cli_option options[] = {
      {"level", "N", "of the priority level, from 1 (default 1)", &level, NULL},
      COMMON_FOR(common),
      COMMON_WHY(common),
      {"dry-run", NULL, "print what would be, change nothing", NULL, &dry_run},
      {"force", NULL, "also if a level or a type is left without a\nweight above 0", NULL,
       &set.force},
      COMMON_OUTPUT(common),
      COMMON_PLACE(common),
  };
  const struct cli_spec spec = {
      .usage = "sluice endpoints set DOMAIN[REGIONS] ENDPOINT=WEIGHT... [OPTION...]\n"
               "sluice endpoints set DOMAIN[REGIONS] PROFILE [OPTION...]",
      .about = "Sets weights of one level in all regions of the domain, or in those in the\n"
               "brackets, and prints what `endpoints get` prints.  Endpoints that are not named\n"
               "keep their weight.  It holds until it is set again, reset, or its time is over,\n"
               "also over restarts and deploys.  Nothing is changed if any part is wrong.\n"
               "\n"
               "Profiles: only[E]: 100 and 0; mostly[E]: 95, the others share 5; even: 1 each;\n"
               "without[E]: 0, the others as they are; shift[A:B,10]: 10 percentage points of\n"
               "the level's sum from A to B; and the configured ones (`endpoints profiles`).\n"
               "\n"
               "What would leave a level, or a type in it, without a weight above 0 is refused\n"
               "without --force.  Caches keep an older answer for up to the TTL.",
      .examples = "sluice endpoints set cdn central-4=95 central-5=5 --for 2h --reason canary\n"
                  "endpoints set 'cdn[eu,us-*]' without[central-5] --reason \"disk replacement\"\n"
                  "endpoints set cdn shift[central-4:central-5,10] --dry-run\n"
                  "endpoints set cdn even --level 2",
      .options = options,
      .option_count = CLI_COUNT(options),
      .min_args = 2,
      .max_args = MAX_ARGS,
  };
  size_t count;
  int status;
  char why[WEIGHTS_WHY];
  if (!common_parse(&spec, argc, argv, &count, &common, &status))
    return status;
  if (!read_level(level, &set.level))
    return cli_usage("--level %s is no level; the first one is 1", level);
  buf_init(&set.warnings);
  set.words = argv + 2;
  set.word_count = count - 1;
  if (!weights_read(&set.weights, set.words, set.word_count, why)) {
    weights_close(&set.weights);
    return cli_usage("%s", why);
  }
  set.backend = backend_open(&common.to);
  status = set.backend ? run(&set, argv[1], &common, dry_run) : CLI_FAILED;
  target_close(&set.target);
  weights_close(&set.weights);
  buf_close(&set.warnings);
  free(set.weights_then);
  backend_close(set.backend);
  return status;
}

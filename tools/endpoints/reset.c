/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tools/endpoints/change.h"
#include "tools/endpoints/common.h"
#include "tools/wrap.h"

struct reset {
  struct target target;
  bool status_too;
};

static bool is_in_regions(const struct reset *reset, const struct steer_domain *steer,
                          uint16_t endpoint) {
  for (uint32_t r = 0; r < steer->region_count; r++)
    for (uint32_t l = 0; reset->target.picked[r] && l < steer->regions[r].level_count; l++)
      if (state_entry(steer, r, l + 1, endpoint) >= 0)
        return true;
  return false;
}

static bool is_meant(const struct reset *reset, const struct steer_domain *steer,
                     const struct store_override *o) {
  bool all = !reset->target.selector.has_brackets;
  if (o->key.kind == STORE_WEIGHT) {
    long region = steer_region_find(steer, o->key.region);
    return all || (region >= 0 && reset->target.picked[region]);
  }
  long endpoint = steer_endpoint_find(steer, o->key.endpoint);
  return o->key.kind == STORE_STATUS && reset->status_too &&
         (all || (endpoint >= 0 && is_in_regions(reset, steer, (uint16_t)endpoint)));
}

static int plan_reset(void *arg, struct plan *plan) {
  struct reset *reset = arg;
  char why[STATE_WHY];
  struct state *copy = state_read(json_incref(plan->state->reply), why);
  if (!copy) {
    cli_error("%s", why);
    return CLI_FAILED;
  }
  int status = target_pick(&reset->target, copy);
  for (size_t i = 0; status == CLI_DONE && i < copy->override_count; i++)
    if (is_meant(reset, copy->steer, &plan->state->overrides[i]))
      plan_drop(plan, &plan->state->overrides[i]);
  return status;
}

static bool is_weight(const json_t *change) {
  const char *kind = json_string_value(json_object_get(change, "kind"));
  return kind && strcmp(kind, "weight") == 0;
}

static void print_reset(FILE *out, const struct reset *reset, const json_t *changes) {
  size_t i;
  const json_t *item;
  json_t *weights = json_array();
  json_array_foreach(changes, i, item) {
    if (is_weight(item))
      json_array_append(weights, (json_t *)(uintptr_t)item);
    else
      wrap_to(out, "", 0, "%s: %s is as configured again", reset->target.name,
              json_string_value(json_object_get(item, "endpoint")));
  }
  if (json_array_size(weights) > 0) {
    wrap_to(out, "", 0, "%s: the configured weights hold again", reset->target.name);
    change_print(out, weights);
  } else if (json_array_size(changes) == 0) {
    wrap_to(out, "", 0, "%s: no %s by hand", reset->target.name,
            reset->status_too ? "endpoint was enabled or disabled, and no weight set"
                              : "weight was set");
  }
  json_decref(weights);
}

int endpoints_reset(int argc, char **argv) {
  struct common common = {0};
  struct reset reset = {0};
  bool dry_run = false;
  const struct cli_option options[] = {
      {"status", NULL, "end also what `enable` and `disable` have set", NULL, &reset.status_too},
      COMMON_WHY(common),
      {"dry-run", NULL, "print what would be, change nothing", NULL, &dry_run},
      COMMON_OUTPUT(common),
      COMMON_PLACE(common),
  };
  const struct cli_spec spec = {
      .usage = "sluice endpoints reset DOMAIN[REGIONS] [--status] [--reason TEXT]",
      .about = "Drops the weights that were set by hand, in all regions or in those in the\n"
               "brackets: the weights of the configuration hold again.  With --status it also\n"
               "ends what `enable` and `disable` have set, of the endpoints in these regions.\n"
               "Forced health is ended by `sluice health override`.",
      .examples = "sluice endpoints reset cdn\n"
                  "endpoints reset 'cdn[eu]' --dry-run\n"
                  "endpoints reset cdn.tm.example.com. --status --reason \"drill is over\"",
      .options = options,
      .option_count = CLI_COUNT(options),
      .min_args = 1,
      .max_args = 1,
  };
  size_t count;
  int status;
  if (!common_parse(&spec, argc, argv, &count, &common, &status))
    return status;
  struct backend *backend = backend_open(&common.to);
  if (!backend)
    return CLI_FAILED;
  const struct change change = {.command = "reset",
                                .reason = common.reason,
                                .plan = plan_reset,
                                .arg = &reset,
                                .dry_run = dry_run};
  struct change_result result = {0};
  struct output output;
  status = target_open(backend, argv[1], &reset.target);
  if (status == CLI_DONE)
    status = change_make(backend, reset.target.name, &change, &result);
  if (status == CLI_DONE && output_open(&output, common.output)) {
    if (dry_run)
      fputs("nothing was changed; it would be:\n", output.file);
    print_reset(output.file, &reset, result.changes);
    json_t *document = json_pack("{s:b, s:s, s:O}", "dry_run", (int)dry_run, "domain",
                                 reset.target.name, "changes", result.changes);
    status = output_close(&output, document) ? CLI_DONE : CLI_PARTIAL;
    json_decref(document);
  }
  if (status == CLI_DONE && !dry_run && json_array_size(result.changes) > 0)
    status = change_end(backend, status);
  change_result_close(&result);
  target_close(&reset.target);
  backend_close(backend);
  return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "tools/endpoints/common.h"
#include "tools/endpoints/setting.h"
#include "tools/endpoints/weights.h"
#include "tools/wrap.h"

enum { ITEM = 2, BELOW = 4, NAME_AT = 16 };

/* ---- all profiles ---------------------------------------------------------------------------- */

static void print_builtin(FILE *out) {
  fputs("built in\n", out);
  for (size_t i = 0; weights_builtin[i][0]; i++) {
    char label[64];
    snprintf(label, sizeof label, "  %s", weights_builtin[i][0]);
    wrap_to(out, label, NAME_AT + ITEM, "%s", weights_builtin[i][1]);
  }
}

static void describe(const json_t *profile, struct buf *out) {
  const char *endpoint;
  json_t *weight;
  json_object_foreach((json_t *)profile, endpoint, weight) buf_printf(
      out, "%s%s=%lld", out->len ? " " : "", endpoint, (long long)json_integer_value(weight));
}

/* {"NAME E=1 F=2": {"profile", "weights", "domains": how many}} of all domains. */
static json_t *collect(const json_t *entries) {
  json_t *all = json_object();
  size_t i;
  const json_t *entry;
  json_array_foreach(entries, i, entry) {
    const char *name;
    json_t *profile;
    json_object_foreach(json_object_get(entry, "profiles"), name, profile) {
      struct buf key;
      buf_init(&key);
      buf_printf(&key, "%s: ", name);
      describe(profile, &key);
      json_t *known = json_object_get(all, buf_text(&key));
      if (!known) {
        known = json_pack("{s:s, s:O, s:i}", "profile", name, "weights", profile, "domains", 0);
        json_object_set_new(all, buf_text(&key), known);
      }
      json_int_t count = json_integer_value(json_object_get(known, "domains"));
      json_object_set_new(known, "domains", json_integer(count + 1));
      buf_close(&key);
    }
  }
  return all;
}

static json_t *builtin_json(void) {
  json_t *list = json_array();
  for (size_t i = 0; weights_builtin[i][0]; i++)
    json_array_append_new(list, json_pack("{s:s, s:s}", "profile", weights_builtin[i][0], "sets",
                                          weights_builtin[i][1]));
  return list;
}

/* The lines of all domains in the build's list; NULL after an error was printed. */
static json_t *all_entries(struct backend *backend) {
  json_t *list;
  struct state *state = NULL;
  json_t *entries = NULL;
  if (backend_domains(backend, NULL, &list) != CLI_DONE)
    return NULL;
  const char *first = json_string_value(json_object_get(json_array_get(list, 0), "name"));
  if (!first)
    entries = json_array();
  else if (backend_domain(backend, first, &state) == CLI_DONE)
    entries = backend_entries(backend, state->data);
  state_free(state);
  json_decref(list);
  return entries;
}

static int list_all(struct backend *backend, const struct common *common) {
  struct output output;
  json_t *entries = all_entries(backend);
  if (!entries || !output_open(&output, common->output)) {
    json_decref(entries);
    return CLI_FAILED;
  }
  json_t *all = collect(entries);
  json_t *list = json_array();
  const char *text;
  json_t *known;
  print_builtin(output.file);
  if (json_object_size(all) > 0)
    fputs("\nconfigured\n", output.file);
  json_object_foreach(all, text, known) {
    json_int_t count = json_integer_value(json_object_get(known, "domains"));
    wrap_to(output.file, "", ITEM, "%s (%lld domain%s)", text, (long long)count, cli_s(count));
    json_array_append(list, known);
  }
  json_t *document = json_pack("{s:o, s:o}", "builtin", builtin_json(), "configured", list);
  bool ok = output_close(&output, document);
  json_decref(document);
  json_decref(all);
  json_decref(entries);
  return ok ? CLI_DONE : CLI_FAILED;
}

/* ---- the profiles of a domain ---------------------------------------------------------------- */

/* The weights of a level that a profile would set, {endpoint: weight}; or a text that tells why it
 * is refused. */
static json_t *outcome(const struct target *target, uint32_t region, uint32_t level,
                       const char *profile, const json_t *profiles) {
  const struct state *state = target->state;
  struct weights weights;
  struct setting setting = {0};
  char why[SETTING_WHY];
  json_t *result = NULL;
  char *words[1] = {(char *)(uintptr_t)profile};
  bool *picked = calloc(state->steer->region_count, sizeof *picked);
  if (!picked)
    return NULL;
  picked[region] = true;
  if (weights_read(&weights, words, 1, why) && weights_define(&weights, profiles, why) &&
      setting_compute(&setting, state, picked, level, &weights, why)) {
    const struct steer_level *at = &state->steer->regions[region].levels[level - 1];
    size_t base = state_level_base(state->steer, region, level);
    result = json_object();
    for (uint32_t i = 0; i < at->entry_count; i++) {
      int32_t weight = setting.weights[base + i];
      json_object_set_new(result, state->steer->endpoints[at->entries[i].endpoint].name,
                          json_integer(weight >= 0 ? weight : at->entries[i].weight));
    }
  }
  setting_close(&setting);
  weights_close(&weights);
  free(picked);
  return result ? result : json_string(why);
}

static void add_outcome(json_t *list, FILE *out, const struct target *target, uint32_t region,
                        uint32_t level, const char *profile, const json_t *profiles) {
  json_t *result = outcome(target, region, level, profile, profiles);
  struct buf text;
  buf_init(&text);
  if (json_is_object(result))
    describe(result, &text);
  else
    buf_printf(&text, "refused: %s", json_string_value(result));
  wrap_to(out, "", BELOW, "%s: %s", profile, buf_text(&text));
  json_array_append_new(list, json_pack("{s:s, s:O?, s:O?}", "profile", profile, "weights",
                                        json_is_object(result) ? result : NULL, "refused",
                                        json_is_string(result) ? result : NULL));
  buf_close(&text);
  json_decref(result);
}

static json_t *list_level(FILE *out, const struct target *target, uint32_t region, uint32_t level,
                          const json_t *profiles) {
  static const char *const of_one[] = {"only", "mostly", "without"};
  const struct steer_domain *steer = target->state->steer;
  const struct steer_level *at = &steer->regions[region].levels[level - 1];
  json_t *list = json_array();
  char profile[300];
  const char *name;
  json_t *weights;
  add_outcome(list, out, target, region, level, "even", profiles);
  for (size_t p = 0; p < 3; p++)
    for (uint32_t i = 0; i < at->entry_count; i++) {
      const char *endpoint = steer->endpoints[at->entries[i].endpoint].name;
      snprintf(profile, sizeof profile, "%s[%.250s]", of_one[p], endpoint);
      add_outcome(list, out, target, region, level, profile, profiles);
    }
  json_object_foreach((json_t *)profiles, name, weights)
      add_outcome(list, out, target, region, level, name, profiles);
  return list;
}

static int list_domain(struct backend *backend, const struct common *common, const char *text) {
  struct target target;
  struct output output;
  int status = target_open(backend, text, &target);
  if (status == CLI_DONE)
    status = target_load(backend, &target);
  if (status == CLI_DONE && !output_open(&output, common->output))
    status = CLI_FAILED;
  if (status != CLI_DONE) {
    target_close(&target);
    return status;
  }
  const json_t *profiles = json_object_get(target.entry, "profiles");
  const struct steer_domain *steer = target.state->steer;
  json_t *list = json_array();
  wrap_to(output.file, "", 0, "%s", target.name);
  for (uint32_t r = 0; r < steer->region_count; r++) {
    for (uint32_t l = 1; target.picked[r] && l <= steer->regions[r].level_count; l++) {
      wrap_to(output.file, "", ITEM, "%s level %u", steer->regions[r].name, l);
      json_array_append_new(list, json_pack("{s:s, s:i, s:o}", "region", steer->regions[r].name,
                                            "level", (int)l, "profiles",
                                            list_level(output.file, &target, r, l, profiles)));
    }
  }
  fputs("  shift[A:B,10] moves 10 percentage points of a level's sum from A to B\n", output.file);
  json_t *document = json_pack("{s:s, s:o}", "domain", target.name, "levels", list);
  bool ok = output_close(&output, document);
  json_decref(document);
  target_close(&target);
  return ok ? CLI_DONE : CLI_FAILED;
}

int endpoints_profiles(int argc, char **argv) {
  struct common common = {0};
  const struct cli_option options[] = {COMMON_OUTPUT(common), COMMON_PLACE(common)};
  const struct cli_spec spec = {
      .usage = "sluice endpoints profiles [DOMAIN[REGIONS]] [--json]",
      .about = "Lists the profiles that `endpoints set` knows: those built in, and those of\n"
               "`profiles:` of the configuration.  With a domain: the weights that each of them\n"
               "would set in each level, or why it would be refused.",
      .examples = "sluice endpoints profiles\n"
                  "endpoints profiles 'cdn[global]'",
      .options = options,
      .option_count = CLI_COUNT(options),
      .max_args = 1,
  };
  size_t count;
  int status;
  if (!common_parse(&spec, argc, argv, &count, &common, &status))
    return status;
  struct backend *backend = backend_open(&common.to);
  if (!backend)
    return CLI_FAILED;
  status = count > 0 ? list_domain(backend, &common, argv[1]) : list_all(backend, &common);
  backend_close(backend);
  return status;
}

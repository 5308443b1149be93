/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/endpoints/common.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/utf8.h"
#include "tools/endpoints/show.h"
#include "tools/times.h"

enum { REASON_MAX = 1024, AS_MAX = 255 };

static bool is_utf8(const char *text) {
  for (size_t n; *text; text += n)
    if ((n = utf8_sequence((const unsigned char *)text)) == 0)
      return false;
  return true;
}

static int check_options(struct common *c) {
  c->output = c->json ? OUTPUT_JSON : OUTPUT_TEXT;
  if (c->format && !output_format_read(c->format, &c->output))
    return cli_usage("--format %s is not known; write text, json or slack", c->format);
  if (c->json && c->output != OUTPUT_JSON)
    return cli_usage("--json and --format %s exclude each other", c->format);
  if (c->reason && (!is_utf8(c->reason) || strlen(c->reason) > REASON_MAX))
    return cli_usage("the reason must be UTF-8 text of at most %d octets", REASON_MAX);
  if (c->to.as && (!is_utf8(c->to.as) || strlen(c->to.as) > AS_MAX))
    return cli_usage("--as must be UTF-8 text of at most %d octets", AS_MAX);
  int64_t seconds = 0;
  if (c->lasts && !times_read_span(c->lasts, &seconds))
    return cli_usage("--for %s is no time; write for example 90s, 30m, 2h or 7d", c->lasts);
  c->expires_at = c->lasts ? (int64_t)time(NULL) + seconds : 0;
  return CLI_DONE;
}

bool common_parse(const struct cli_spec *spec, int argc, char **argv, size_t *count,
                  struct common *common, int *status) {
  enum cli_next next = cli_parse(spec, argc, argv, count);
  *status = next == CLI_EXIT_DONE ? CLI_DONE : CLI_USAGE;
  if (next != CLI_GO_ON)
    return false;
  for (size_t i = 1; i <= *count; i++)
    if (!is_utf8(argv[i])) {
      cli_error("%s is no name: it is not UTF-8", argv[i]);
      return false;
    }
  *status = check_options(common);
  return *status == CLI_DONE;
}

/* ---- a domain ------------------------------------------------------------------------------- */

int target_open(struct backend *backend, const char *text, struct target *target) {
  *target = (struct target){0};
  if (selector_read(&target->selector, text))
    return backend_resolve(backend, target->selector.domain, target->name);
  cli_error("out of memory");
  return CLI_FAILED;
}

void target_close(struct target *target) {
  selector_close(&target->selector);
  effect_close(&target->effect);
  state_free(target->state);
  free(target->picked);
  json_decref(target->entry);
  *target = (struct target){0};
}

int target_pick(struct target *target, struct state *state) {
  char why[SELECTOR_WHY] = "out of memory";
  effect_close(&target->effect);
  state_free(target->state);
  free(target->picked);
  target->state = state;
  uint32_t count = state->steer->region_count;
  target->picked = calloc(count, sizeof *target->picked);
  const char **names = calloc(count, sizeof *names);
  for (uint32_t r = 0; names && r < count; r++)
    names[r] = state->steer->regions[r].name;
  bool ok = names && target->picked &&
            selector_match(&target->selector, names, count, target->picked, why);
  free(names);
  if (ok)
    return CLI_DONE;
  cli_error("%s: %s", state->name, why);
  return CLI_FAILED;
}

int target_compute(struct target *target) {
  effect_close(&target->effect);
  if (effect_compute(&target->effect, target->state->steer, &target->state->facts, target->picked))
    return CLI_DONE;
  cli_error("out of memory");
  return CLI_FAILED;
}

int target_load(struct backend *backend, struct target *target) {
  struct state *state;
  int status = backend_domain(backend, target->name, &state);
  if (status == CLI_DONE)
    status = target_pick(target, state);
  if (status == CLI_DONE)
    status = target_compute(target);
  if (status == CLI_DONE && !target->entry)
    target->entry = backend_entry(backend, target->state);
  return status;
}

json_t *target_show(struct backend *backend, struct output *output, const struct target *target) {
  struct show show = {
      .state = target->state,
      .effect = &target->effect,
      .owner = json_string_value(json_object_get(target->entry, "owner")),
      .now = (int64_t)time(NULL),
      .colour = output->colour,
      .offline = backend_is_offline(backend),
  };
  if (output->format == OUTPUT_JSON)
    return show_json(&show);
  show_text(output->file, &show);
  return NULL;
}

const char **target_endpoints(const struct steer_domain *domain) {
  const char **names = calloc(domain->endpoint_count, sizeof *names);
  for (uint32_t e = 0; names && e < domain->endpoint_count; e++)
    names[e] = domain->endpoints[e].name;
  return names;
}

int target_no_endpoint(const struct state *state, const char *endpoint) {
  const char **names = target_endpoints(state->steer);
  const char *near = names ? cli_did_you_mean(endpoint, names, state->steer->endpoint_count) : "";
  struct buf known;
  buf_init(&known);
  for (uint32_t e = 0; names && e < state->steer->endpoint_count && known.len < 300; e++)
    buf_printf(&known, "%s%s", e ? ", " : "", names[e]);
  if (*near)
    cli_error("%s has no endpoint `%s`%s", state->name, endpoint, near);
  else
    cli_error("%s has no endpoint `%s`; there are: %s", state->name, endpoint, buf_text(&known));
  buf_close(&known);
  free(names);
  return CLI_FAILED;
}

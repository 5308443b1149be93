/* SPDX-License-Identifier: Apache-2.0 */
/* `endpoints enable` and `endpoints disable`. */
#include <string.h>

#include "tools/endpoints/change.h"
#include "tools/endpoints/common.h"
#include "tools/times.h"
#include "tools/wrap.h"

enum { MAX_ENDPOINTS = 1000 };

struct enabling {
  char **endpoints;
  size_t count;
  int value; /* STATE_STATUS_... */
};

static int plan_enabling(void *arg, struct plan *plan) {
  const struct enabling *enabling = arg;
  for (size_t i = 0; i < enabling->count; i++) {
    long endpoint = steer_endpoint_find(plan->state->steer, enabling->endpoints[i]);
    if (endpoint < 0)
      return target_no_endpoint(plan->state, enabling->endpoints[i]);
    bool twice = false;
    for (size_t j = 0; j < i; j++)
      twice = twice || !strcmp(enabling->endpoints[i], enabling->endpoints[j]);
    if (!twice)
      plan_status(plan, (uint16_t)endpoint, enabling->value);
  }
  return CLI_DONE;
}

#define ENABLE_USAGE "sluice endpoints enable DOMAIN ENDPOINT... [--for TIME] [--reason TEXT]"
#define DISABLE_USAGE "sluice endpoints disable DOMAIN ENDPOINT... [--for TIME] [--reason TEXT]"

/* Prints what was done; false after an error. */
static bool print(const struct common *common, const char *domain, const struct enabling *enabling,
                  const json_t *changes) {
  struct output output;
  char until[TIMES_TEXT];
  if (!output_open(&output, common->output))
    return false;
  for (size_t i = 0; i < enabling->count; i++) {
    bool ends = common->expires_at > 0;
    wrap_to(output.file, "", 0, "%s: %s is %s%s%s", domain, enabling->endpoints[i],
            enabling->value == STATE_STATUS_ENABLED ? "enabled" : "disabled", ends ? " until " : "",
            ends ? times_utc(common->expires_at, until) : "");
  }
  json_t *document = json_pack("{s:s, s:O}", "domain", domain, "changes", changes);
  bool ok = output_close(&output, document);
  json_decref(document);
  return ok;
}

static int run(int argc, char **argv, int value) {
  struct common common = {0};
  const struct cli_option options[] = {COMMON_FOR(common), COMMON_WHY(common),
                                       COMMON_OUTPUT(common), COMMON_PLACE(common)};
  const struct cli_spec spec = {
      .usage = value == STATE_STATUS_ENABLED ? ENABLE_USAGE : DISABLE_USAGE,
      .about = value == STATE_STATUS_ENABLED
                   ? "Puts endpoints back into the answers.  This wins over `enabled:` of the\n"
                     "configuration; health still counts."
                   : "Takes endpoints out of the answers by hand.  This wins over `enabled:` of\n"
                     "the configuration.  They are still probed.  When all endpoints of a region\n"
                     "are disabled or unhealthy, the fallback still keeps answers coming.",
      .examples = value == STATE_STATUS_ENABLED
                      ? "sluice endpoints enable cdn central-4\n"
                        "endpoints enable cdn.tm.example.com. central-4 central-5"
                      : "sluice endpoints disable cdn central-4 --reason \"disk replacement\"\n"
                        "endpoints disable cdn central-4 --for 2h",
      .options = options,
      .option_count = CLI_COUNT(options),
      .min_args = 2,
      .max_args = MAX_ENDPOINTS,
  };
  size_t count;
  int status;
  if (!common_parse(&spec, argc, argv, &count, &common, &status))
    return status;
  struct backend *backend = backend_open(&common.to);
  if (!backend)
    return CLI_FAILED;
  struct enabling enabling = {argv + 2, count - 1, value};
  const struct change change = {
      .command = value == STATE_STATUS_ENABLED ? "enable" : "disable",
      .reason = common.reason,
      .expires_at = common.expires_at,
      .plan = plan_enabling,
      .arg = &enabling,
  };
  char domain[NAME_MAX_TEXT];
  struct change_result result = {0};
  status = backend_resolve(backend, argv[1], domain);
  if (status == CLI_DONE)
    status = change_make(backend, domain, &change, &result);
  if (status == CLI_DONE && !print(&common, domain, &enabling, result.changes))
    status = CLI_PARTIAL;
  status = change_end(backend, status);
  change_result_close(&result);
  backend_close(backend);
  return status;
}

int endpoints_enable(int argc, char **argv) {
  return run(argc, argv, STATE_STATUS_ENABLED);
}

int endpoints_disable(int argc, char **argv) {
  return run(argc, argv, STATE_STATUS_DISABLED);
}

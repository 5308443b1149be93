/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice health override`: a change like those of `endpoints`. */
#include <string.h>

#include "tools/endpoints/change.h"
#include "tools/endpoints/common.h"
#include "tools/times.h"

struct forcing {
  const char *endpoint;
  int value;      /* 1 up, 2 down, 0 what the checker says */
  uint8_t family; /* 0: those that the endpoint has */
};

static bool has_family(const struct steer_endpoint *endpoint, uint8_t family) {
  return endpoint->host || (family == 6 ? endpoint->addr6_count : endpoint->addr4_count) > 0;
}

static int plan_forcing(void *arg, struct plan *plan) {
  const struct forcing *forcing = arg;
  const struct steer_domain *steer = plan->state->steer;
  long endpoint = steer_endpoint_find(steer, forcing->endpoint);
  if (endpoint < 0)
    return target_no_endpoint(plan->state, forcing->endpoint);
  for (uint8_t family = 4; family <= 6; family = (uint8_t)(family + 2)) {
    bool meant = forcing->family
                     ? forcing->family == family
                     : forcing->value == 0 || has_family(&steer->endpoints[endpoint], family);
    if (meant)
      plan_health(plan, (uint16_t)endpoint, family, forcing->value);
  }
  return CLI_DONE;
}

/* Prints what was done; false after an error. */
static bool print(const struct common *common, const char *domain, const struct forcing *forcing,
                  const json_t *changes) {
  static const char *const words[] = {"what the checker says", "forced up", "forced down"};
  struct output output;
  char until[TIMES_TEXT];
  if (!output_open(&output, common->output))
    return false;
  fprintf(output.file, "%s: health of %s%s is %s", domain, forcing->endpoint,
          forcing->family == 4   ? " for IPv4"
          : forcing->family == 6 ? " for IPv6"
                                 : "",
          words[forcing->value]);
  if (common->expires_at > 0)
    fprintf(output.file, " until %s", times_utc(common->expires_at, until));
  fputc('\n', output.file);
  json_t *document = json_pack("{s:s, s:O}", "domain", domain, "changes", changes);
  bool ok = output_close(&output, document);
  json_decref(document);
  return ok;
}

static int run(const char *name, struct forcing *forcing, const struct common *common) {
  struct backend *backend = backend_open(&common->to);
  if (!backend)
    return CLI_FAILED;
  const struct change change = {
      .command = "health",
      .reason = common->reason,
      .expires_at = common->expires_at,
      .plan = plan_forcing,
      .arg = forcing,
  };
  char domain[NAME_MAX_TEXT];
  struct change_result result = {0};
  int status = backend_resolve(backend, name, domain);
  if (status == CLI_DONE)
    status = change_make(backend, domain, &change, &result);
  if (status == CLI_DONE && !print(common, domain, forcing, result.changes))
    status = CLI_PARTIAL;
  status = change_end(backend, status);
  change_result_close(&result);
  backend_close(backend);
  return status;
}

int endpoints_force_health(int argc, char **argv) {
  static const char *const values[] = {"auto", "up", "down"};
  struct common common = {0};
  const char *family = NULL;
  const struct cli_option options[] = {
      {"family", "4|6", "only for A (4) or for AAAA (6); both by default", &family, NULL},
      COMMON_FOR(common),
      COMMON_WHY(common),
      COMMON_OUTPUT(common),
      COMMON_PLACE(common),
  };
  const struct cli_spec spec = {
      .usage = "sluice health override DOMAIN ENDPOINT up|down|auto [OPTION...]",
      .about = "Forces what the health checker says about an endpoint, for drills and tests.\n"
               "Unlike `endpoints disable` it obeys the fallback as measured health does.\n"
               "`auto` ends the override.",
      .examples = "sluice health override cdn central-4 down --for 10m\n"
                  "sluice health override cdn central-4 down --family 6\n"
                  "sluice health override cdn central-4 auto",
      .options = options,
      .option_count = CLI_COUNT(options),
      .min_args = 3,
      .max_args = 3,
  };
  size_t count;
  int status;
  if (!common_parse(&spec, argc, argv, &count, &common, &status))
    return status;
  struct forcing forcing = {.endpoint = argv[2], .value = -1};
  for (int i = 0; i < 3; i++)
    if (strcmp(argv[3], values[i]) == 0)
      forcing.value = i;
  if (forcing.value < 0)
    return cli_usage("%s is no state; write up, down or auto", argv[3]);
  if (family && strcmp(family, "4") && strcmp(family, "6"))
    return cli_usage("--family %s is not known; write --family 4 or --family 6", family);
  forcing.family = family ? (uint8_t)(*family - '0') : 0;
  return run(argv[1], &forcing, &common);
}

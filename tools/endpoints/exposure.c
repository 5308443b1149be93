/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "tools/endpoints/common.h"
#include "tools/times.h"
#include "tools/wrap.h"

enum { ITEM = 2, NAME_WIDTH = 36, EXPECTED = 64 };

static json_int_t integer(const json_t *object, const char *key) {
  return json_integer_value(json_object_get(object, key));
}

static const char *string(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "?";
}

/* "95%", or "-" where nothing was answered. */
static const char *share_text(const json_t *share, char out[EFFECT_SHARE]) {
  if (!json_is_number(share))
    return "-";
  return effect_share_text(json_number_value(share), out);
}

/* "95%", or "95% A, 100% AAAA" where the types differ. */
static void expected_text(const json_t *expected, char out[EXPECTED]) {
  const char *type;
  json_t *chance;
  char share[EFFECT_SHARE];
  double first = -1;
  bool differ = false;
  json_object_foreach((json_t *)expected, type, chance) {
    double value = json_number_value(chance);
    differ = differ || (first >= 0 && fabs(value - first) > 1e-9);
    first = value;
  }
  snprintf(out, EXPECTED, "%s", first >= 0 ? effect_share_text(first, share) : "-");
  size_t n = 0;
  json_object_foreach((json_t *)expected, type, chance) {
    if (differ && n < EXPECTED)
      n += (size_t)snprintf(out + n, EXPECTED - n, "%s%s %.8s", n ? ", " : "",
                            effect_share_text(json_number_value(chance), share), type);
  }
}

/* A name in its column; a longer one has a line of its own. */
static void print_label(FILE *out, unsigned indent, const char *name) {
  fprintf(out, "%*s", (int)indent, "");
  cli_print_text(out, name);
  size_t used = indent + strlen(name);
  if (used > NAME_WIDTH) {
    fputc('\n', out);
    used = 0;
  }
  fprintf(out, "%*s", (int)(NAME_WIDTH - used), "");
}

static void print_region(FILE *out, const json_t *region) {
  char given[EFFECT_SHARE];
  char expected[EXPECTED];
  size_t i;
  const json_t *endpoint;
  fputc('\n', out);
  print_label(out, 0, string(region, "region"));
  fprintf(out, "%12s %7s  %s\n", "answers", "given", "expected");
  json_array_foreach(json_object_get(region, "endpoints"), i, endpoint) {
    expected_text(json_object_get(endpoint, "expected"), expected);
    print_label(out, ITEM, string(endpoint, "endpoint"));
    fprintf(out, "%12lld %7s  %s\n", (long long)integer(endpoint, "answers"),
            share_text(json_object_get(endpoint, "share"), given), expected);
  }
}

static void print_resolvers(FILE *out, const json_t *resolvers) {
  char share[EFFECT_SHARE];
  char error[64];
  size_t i;
  const json_t *network;
  const json_t *largest = json_object_get(resolvers, "largest");
  long long seen = (long long)integer(resolvers, "seen");
  fputc('\n', out);
  wrap_to(out, "", 0, "resolvers: %lld seen%s", seen,
          json_is_true(json_object_get(resolvers, "exact")) ? ""
                                                            : " (an estimate, good to about 9%)");
  json_array_foreach(largest, i, network) {
    *error = 0;
    if (integer(network, "error") > 0)
      snprintf(error, sizeof error, "  (%lld of them may be others')",
               (long long)integer(network, "error"));
    print_label(out, ITEM, string(network, "network"));
    fprintf(out, "%12lld %7s%s\n", (long long)integer(network, "answers"),
            share_text(json_object_get(network, "share"), share), error);
  }
  if (json_array_size(largest) > 0)
    wrap_to(out, "", 0, "One draw of the largest, %s, moves %s of the cache fills.",
            string(json_array_get(largest, 0), "network"),
            share_text(json_object_get(json_array_get(largest, 0), "share"), share));
}

static void print_exposure(FILE *out, const char *domain, const json_t *exposure) {
  char span[TIMES_TEXT];
  long long answers = (long long)integer(exposure, "answers");
  size_t i;
  const json_t *region;
  wrap_to(out, "", 0, "%s", domain);
  wrap_to(out, "", ITEM, "%lld answer%s in the last %s", answers, cli_s(answers),
          times_span((double)integer(exposure, "seconds"), span));
  json_array_foreach(json_object_get(exposure, "regions"), i, region) print_region(out, region);
  print_resolvers(out, json_object_get(exposure, "resolvers"));
}

/* Nothing in the reply is trusted; the domain is looked up first, for its hints. */
static int ask(struct backend *backend, const char *domain, json_t **reply) {
  struct state *state;
  int status = backend_domain(backend, domain, &state);
  state_free(state);
  if (status != CLI_DONE)
    return status;
  if (backend_is_offline(backend)) {
    cli_error("no server runs, so that nothing is answered; start sluiced");
    return CLI_FAILED;
  }
  status = backend_call(backend, json_pack("{s:s, s:s}", "command", "exposure", "domain", domain),
                        reply);
  if (status != CLI_DONE || json_is_object(json_object_get(*reply, "exposure")))
    return status;
  cli_error("the server's answer tells no exposure");
  return CLI_FAILED;
}

int endpoints_exposure(int argc, char **argv) {
  struct common common = {0};
  const struct cli_option options[] = {COMMON_OUTPUT(common), COMMON_PLACE(common)};
  const struct cli_spec spec = {
      .usage = "sluice endpoints exposure DOMAIN [--json]",
      .about = "Prints what was answered in the last minutes: for each region and endpoint the\n"
               "answers, their share and the expected one; the number of resolvers (networks of\n"
               "/24 and /56) and the largest of them.  The share of the largest is what one draw\n"
               "can move: a canary of 5% that this resolver draws gets all its users.\n"
               "The counts of large servers are estimates from samples.",
      .examples = "sluice endpoints exposure cdn\n"
                  "endpoints exposure cdn --json | jq .exposure.resolvers.largest",
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
  char domain[NAME_MAX_TEXT];
  json_t *reply = NULL;
  struct output output;
  status = backend_resolve(backend, argv[1], domain);
  if (status == CLI_DONE)
    status = ask(backend, domain, &reply);
  if (status == CLI_DONE && !output_open(&output, common.output))
    status = CLI_FAILED;
  if (status == CLI_DONE) {
    json_t *exposure = json_object_get(reply, "exposure");
    print_exposure(output.file, domain, exposure);
    json_t *document = json_pack("{s:s, s:O}", "domain", domain, "exposure", exposure);
    status = output_close(&output, document) ? CLI_DONE : CLI_FAILED;
    json_decref(document);
  }
  json_decref(reply);
  backend_close(backend);
  return status;
}

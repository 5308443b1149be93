/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "tools/endpoints/common.h"
#include "tools/endpoints/level.h"

enum { MAX_DOMAINS = 10000 };

/* What is asked for: the arguments, or the names of all domains. */
static int list_targets(struct backend *backend, char **args, size_t count, json_t **texts) {
  *texts = json_array();
  if (count > 0) {
    for (size_t i = 0; i < count; i++)
      json_array_append_new(*texts, json_string(args[i]));
    return CLI_DONE;
  }
  json_t *list;
  int status = backend_domains(backend, NULL, &list);
  if (status != CLI_DONE)
    return status;
  size_t i;
  const json_t *domain;
  json_array_foreach(list, i, domain) json_array_append(*texts, json_object_get(domain, "name"));
  json_decref(list);
  return CLI_DONE;
}

static int show_one(struct backend *backend, const char *text, struct output *output,
                    json_t *documents, size_t *behind) {
  struct target target;
  int status = target_open(backend, text, &target);
  if (status == CLI_DONE)
    status = target_load(backend, &target);
  if (status == CLI_DONE) {
    if (json_array_size(documents) > 0 && output->format != OUTPUT_JSON)
      fputc('\n', output->file);
    json_t *document = target_show(backend, output, &target);
    json_t *providers = backend_look(backend, target.state);
    *behind +=
        level_show(output->format == OUTPUT_JSON ? NULL : output->file, target.state, providers);
    if (json_array_size(providers) > 0 && document)
      json_object_set(document, "providers", providers);
    json_decref(providers);
    json_array_append_new(documents, document ? document : json_null());
  }
  target_close(&target);
  return status;
}

static int show_all(struct backend *backend, const struct common *common, const json_t *texts) {
  struct output output;
  size_t i;
  const json_t *text;
  int status = CLI_DONE;
  size_t behind = 0;
  json_t *documents = json_array();
  if (!output_open(&output, common->output)) {
    json_decref(documents);
    return CLI_FAILED;
  }
  json_array_foreach(texts, i, text) {
    if (status == CLI_DONE && json_is_string(text))
      status = show_one(backend, json_string_value(text), &output, documents, &behind);
  }
  if (json_array_size(texts) == 0 && output.format != OUTPUT_JSON)
    fputs("no steered names\n", output.file);
  json_t *document = json_pack("{s:O}", "domains", documents);
  if (status != CLI_DONE) { /* what was printed as text is true nevertheless */
    if (output.format != OUTPUT_TEXT) {
      fclose(output.file);
      free(output.text);
    } else {
      cli_flush();
    }
  } else if (!output_close(&output, document)) {
    status = CLI_FAILED;
  }
  json_decref(document);
  json_decref(documents);
  if (status == CLI_DONE && behind > 0) {
    cli_error("providers differ; `sluice status` tells more");
    status = CLI_PARTIAL;
  }
  return status;
}

int endpoints_get(int argc, char **argv) {
  struct common common = {0};
  const struct cli_option options[] = {COMMON_OUTPUT(common), COMMON_PLACE(common)};
  const struct cli_spec spec = {
      .usage = "sluice endpoints get [DOMAIN[REGIONS]...] [--json | --format slack]",
      .about = "Prints for every region and level of the domains (all by default): endpoint,\n"
               "weight, share of answers now, configured share where that differs, status and\n"
               "why, and what was set by hand by whom, why and until when.\n"
               "\n"
               "A share is one of cache fills, not of users: a resolver that asks once answers\n"
               "all its users for the TTL, and one with 40% of the users moves all of them with\n"
               "one draw (`endpoints exposure`).  Caches keep an older answer for up to the TTL.\n"
               "With `answers` above 1 a share is the chance of being in the answer.\n"
               "\n"
               "REGIONS are patterns in square brackets, with * ? and [], matched against the\n"
               "names of the regions without regard to case: cdn[us-*,na].  Quote them, so that\n"
               "the shell leaves them alone.\n"
               "A provider is named only where it differs, as sluice-syncd saw it last.\n"
               "Exit status: 3 if a provider differs, or if no server runs, so that nothing is\n"
               "served.",
      .examples = "sluice endpoints get cdn\n"
                  "endpoints get 'cdn[us-*,na]' api.eu\n"
                  "endpoints get cdn --json | jq '.domains[0].regions'",
      .options = options,
      .option_count = CLI_COUNT(options),
      .max_args = MAX_DOMAINS,
  };
  size_t count;
  int status;
  if (!common_parse(&spec, argc, argv, &count, &common, &status))
    return status;
  struct backend *backend = backend_open(&common.to);
  if (!backend)
    return CLI_FAILED;
  json_t *texts = NULL;
  status = list_targets(backend, argv + 1, count, &texts);
  if (status == CLI_DONE)
    status = show_all(backend, &common, texts);
  if (status == CLI_DONE && backend_is_offline(backend)) {
    cli_error("the server is not running; start sluiced");
    status = CLI_PARTIAL;
  }
  json_decref(texts);
  backend_close(backend);
  return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "tools/endpoints/change.h"
#include "tools/endpoints/common.h"
#include "tools/endpoints/show.h"
#include "tools/times.h"
#include "tools/wrap.h"

enum { LIMIT = 20, LIMIT_MAX = 100000, ITEM = 2, BELOW = 4 };

static const char *string(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text && *text ? text : NULL;
}

/* "sluice: ok", of an object target -> result. */
static void print_result(FILE *out, const json_t *result) {
  struct buf text;
  const char *name;
  json_t *value;
  if (json_object_size(result) == 0)
    return;
  buf_init(&text);
  json_object_foreach((json_t *)result, name, value) {
    const char *said = json_string_value(value);
    char *dumped = said ? NULL : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    buf_printf(&text, "%s%s: %s", text.len ? ", " : "", name, said ? said : dumped ? dumped : "?");
    free(dumped);
  }
  wrap_to(out, "", BELOW, "%s", buf_text(&text));
  buf_close(&text);
}

/* What ended by itself: overrides as the server lists them. */
static void print_dropped(FILE *out, const json_t *list) {
  size_t i;
  const json_t *item;
  char text[SHOW_OVERRIDE];
  json_array_foreach(list, i, item) {
    int kind = state_kind(string(item, "kind"));
    const char *region = string(item, "region");
    json_int_t level = json_integer_value(json_object_get(item, "level"));
    const struct store_override o = {
        .key = {.kind = kind < 0 ? STORE_WEIGHT : (enum store_kind)kind,
                .family = (uint8_t)json_integer_value(json_object_get(item, "family"))},
        .value = (int32_t)json_integer_value(json_object_get(item, "value"))};
    const char *endpoint = string(item, "endpoint");
    if (region && level > 0)
      wrap_to(out, "", ITEM, "%s level %lld: %s: %s ended", region, (long long)level,
              endpoint ? endpoint : "?", show_override_text(&o, text));
    else
      wrap_to(out, "", ITEM, "%s: %s ended", endpoint ? endpoint : "?",
              show_override_text(&o, text));
  }
}

static void print_row(FILE *out, const json_t *row) {
  char when[TIMES_TEXT];
  const char *who = string(row, "who");
  const char *origin = string(row, "origin");
  const char *domain = string(row, "domain");
  const char *reason = string(row, "reason");
  const char *command = string(row, "command");
  const json_t *what = json_object_get(row, "what");
  json_int_t until = json_integer_value(json_object_get(what, "until"));
  wrap_to(out, "", 0, "%s %s %s by %s%s%s%s",
          times_utc(json_integer_value(json_object_get(row, "at")), when), command ? command : "?",
          domain ? domain : "", who ? who : "somebody", origin ? " (" : "", origin ? origin : "",
          origin ? ")" : "");
  if (reason)
    wrap_to(out, "", BELOW, "%s", reason);
  if (until > 0)
    wrap_to(out, "", BELOW, "until %s", times_utc(until, when));
  json_int_t count = json_integer_value(json_object_get(what, "change_count"));
  change_print(out, json_object_get(what, "changes"));
  print_dropped(out, json_object_get(what, "dropped"));
  if (count > 0)
    wrap_to(out, "", ITEM, "... %lld changes in all", (long long)count);
  print_result(out, json_object_get(row, "result"));
}

static bool read_limit(const char *text, size_t *limit) {
  char *end;
  unsigned long value = text ? strtoul(text, &end, 10) : LIMIT;
  *limit = value;
  return !text || (text[0] >= '1' && text[0] <= '9' && !*end && value <= LIMIT_MAX);
}

static int print_history(const struct common *common, const json_t *list, const char *domain) {
  struct output output;
  size_t i;
  const json_t *row;
  if (!output_open(&output, common->output))
    return CLI_FAILED;
  json_array_foreach(list, i, row) print_row(output.file, row);
  if (json_array_size(list) == 0)
    fprintf(output.file, "nothing was ever set%s%s\n", domain ? " at " : "", domain ? domain : "");
  json_t *document = json_pack("{s:O}", "history", list);
  bool ok = output_close(&output, document);
  json_decref(document);
  return ok ? CLI_DONE : CLI_FAILED;
}

int endpoints_history(int argc, char **argv) {
  struct common common = {0};
  const char *limit_text = NULL;
  const struct cli_option options[] = {
      {"limit", "N", "how many (default 20), the latest first", &limit_text, NULL},
      COMMON_OUTPUT(common),
      COMMON_PLACE(common),
  };
  const struct cli_spec spec = {
      .usage = "sluice endpoints history [DOMAIN] [--limit N] [--json]",
      .about = "Prints the audit trail of what was set at run time: when, who, from where, what,\n"
               "why, and the result at each provider.",
      .examples = "sluice endpoints history cdn\n"
                  "endpoints history --limit 100 --json | jq '.history[].who'",
      .options = options,
      .option_count = CLI_COUNT(options),
      .max_args = 1,
  };
  size_t count, limit;
  int status;
  if (!common_parse(&spec, argc, argv, &count, &common, &status))
    return status;
  if (!read_limit(limit_text, &limit))
    return cli_usage("--limit %s is no number from 1 to %d", limit_text, LIMIT_MAX);
  struct backend *backend = backend_open(&common.to);
  if (!backend)
    return CLI_FAILED;
  char domain[NAME_MAX_TEXT];
  json_t *list = NULL;
  status = count > 0 ? backend_resolve(backend, argv[1], domain) : CLI_DONE;
  if (status == CLI_DONE)
    status = backend_history(backend, count > 0 ? domain : NULL, limit, &list);
  if (status == CLI_DONE)
    status = print_history(&common, list, count > 0 ? domain : NULL);
  json_decref(list);
  backend_close(backend);
  return status;
}

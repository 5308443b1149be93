/* SPDX-License-Identifier: Apache-2.0 */
/* What `sync verify` found, for people and for programs. */
#include <stdio.h>
#include <string.h>

#include "tools/cli.h"
#include "tools/client.h"
#include "tools/sync/verify.h"
#include "tools/wrap.h"

enum { VERSION = 1, P_TEXT = 40, LABEL = 160 };

#define P_LEAST 1e-12

static const char *const verdicts[] = {"same", "differs", "silent", "skipped"};

/* ---- one line ------------------------------------------------------------------------------- */

static const char *p_text(double p, char out[P_TEXT]) {
  if (p < P_LEAST)
    snprintf(out, P_TEXT, "p below %g", P_LEAST);
  else
    snprintf(out, P_TEXT, "p %.2g", p);
  return out;
}

static const char *verdict_text(enum verify_verdict verdict) {
  static const char *const texts[] = {"as the model says", "DIFFERS", "SILENT", "SKIPPED"};
  return texts[verdict];
}

static double share(const json_t *shares, const char *name) {
  return 100 * json_real_value(json_object_get(shares, name));
}

static void show_share(const char *name, const json_t *expected, const json_t *observed) {
  enum { WIDTH = 46 };
  if (strlen(name) > WIDTH)
    wrap_print("      ", 8, "%s", name);
  printf("      %-*s %9.2f %% %9.2f %%\n", WIDTH, strlen(name) > WIDTH ? "" : name,
         share(expected, name), share(observed, name));
}

static void show_shares(const struct verify_line *line) {
  const char *name;
  json_t *value;
  printf("      %-46s %11s %11s\n", "", "expected", "observed");
  json_object_foreach(line->expected, name, value) {
    show_share(name, line->expected, line->observed);
  }
  json_object_foreach(line->observed, name, value) {
    if (!json_object_get(line->expected, name))
      show_share(name, line->expected, line->observed);
  }
}

static void show_steered(const struct verify_line *line) {
  char p[P_TEXT];
  char drawn[P_TEXT] = "";
  if (line->draws > 0)
    snprintf(drawn, sizeof drawn, " (%u draws", line->draws);
  char label[LABEL];
  snprintf(label, sizeof label, "    %s%s%.100s: ", line->type, line->region ? " " : "",
           line->region ? line->region : "");
  bool long_name = strlen(label) > WRAP_COLUMNS / 2;
  if (long_name)
    wrap_print("    ", 4, "%s", label);
  wrap_print(long_name ? "      " : label, 6, "%s%s%s%s%s%s%s", verdict_text(line->verdict), drawn,
             drawn[0] && line->place ? " as " : "", line->place ? line->place : "",
             drawn[0] ? ", " : "", drawn[0] ? p_text(line->p, p) : "", drawn[0] ? ")" : "");
  if (line->text)
    wrap_print("      ", 6, "%s", line->text);
  if (line->verdict == VERIFY_DIFFERS)
    show_shares(line);
}

/* "192.0.2.1, 192.0.2.2" */
static void list_text(const json_t *list, char *out, size_t size) {
  size_t at = 0;
  size_t i;
  const json_t *item;
  snprintf(out, size, "nothing");
  json_array_foreach(list, i, item) {
    int n = snprintf(out + at, size - at, "%s%s", i ? ", " : "", json_string_value(item));
    at = at + (size_t)n < size ? at + (size_t)n : size - 1;
  }
}

static void show_plain(const struct verify_line *line) {
  char expected[400];
  char observed[400];
  list_text(line->expected, expected, sizeof expected);
  list_text(line->observed, observed, sizeof observed);
  if (line->verdict == VERIFY_DIFFERS)
    wrap_print("    ~ ", 6, "%s %s: DIFFERS (%s): %s -> %s", line->name, line->type, line->text,
               expected, observed);
  else if (line->verdict == VERIFY_SAME)
    wrap_print("    = ", 6, "%s %s: as configured: %s", line->name, line->type, observed);
  else
    wrap_print("    ! ", 6, "%s %s: %s: %s", line->name, line->type, verdict_text(line->verdict),
               line->text ? line->text : "");
}

/* ---- blocks --------------------------------------------------------------------------------- */

static void show_domain(const struct sync_target *t, const struct verify_report *report,
                        const char *domain) {
  const char *server = NULL;
  for (size_t i = 0; i < report->count; i++) {
    const struct verify_line *line = &report->lines[i];
    if (!line->steered || strcmp(line->name, domain) != 0)
      continue;
    if (!server)
      printf("%s at %s\n", domain, t->provider->name);
    if (!server || strcmp(server, line->server) != 0)
      wrap_print("", 2, "%s", line->server);
    server = line->server;
    show_steered(line);
  }
}

/* How many lines of the server, from this one on, are not about steered names. */
static size_t count_plain(const struct verify_report *report, const char *server, size_t *same) {
  size_t count = 0;
  *same = 0;
  for (size_t i = 0; i < report->count; i++) {
    const struct verify_line *line = &report->lines[i];
    if (line->steered || strcmp(line->server, server) != 0)
      continue;
    count++;
    *same += line->verdict == VERIFY_SAME;
  }
  return count;
}

static void show_rest(const struct sync_target *t, const struct verify_report *report,
                      bool verbose) {
  const char *server = NULL;
  for (size_t i = 0; i < report->count; i++) {
    const struct verify_line *line = &report->lines[i];
    size_t same;
    if (line->steered)
      continue;
    if (!server)
      printf("%s other records at %s\n", t->zone->name, t->provider->name);
    if (!server || strcmp(server, line->server) != 0) {
      size_t total = count_plain(report, line->server, &same);
      wrap_print("", 2, "%s: %zu of %zu as configured", line->server, same, total);
    }
    server = line->server;
    if (verbose || line->verdict != VERIFY_SAME)
      show_plain(line);
  }
}

void verify_show(const struct sync_run *run, const struct verify_report *reports, unsigned draws,
                 bool verbose) {
  size_t lines = 0;
  struct verify_report sum = {0};
  for (size_t z = 0; z < run->zone_count; z++)
    for (size_t d = 0; d < run->zones[z].zone->domain_count; d++)
      for (size_t i = 0; i < run->target_count; i++)
        if (run->targets[i].zone == &run->zones[z])
          show_domain(&run->targets[i], &reports[i], run->zones[z].domains[d].name);
  for (size_t i = 0; i < run->target_count; i++) {
    const struct sync_target *t = &run->targets[i];
    show_rest(t, &reports[i], verbose);
    if (t->state == SYNC_FAILED || t->error.text[0] != '\0') {
      printf("%s at %s: FAILED\n", t->zone->name, t->provider->name);
      wrap_print("", 2, "%s", t->error.text);
    }
    lines += reports[i].count;
    sum.differ += reports[i].differ;
    sum.silent += reports[i].silent;
    sum.skipped += reports[i].skipped;
  }
  if (!run->facts)
    wrap_print("", 0,
               "Note: no server told what is in force (%s): weights and statuses are those of the "
               "configuration.",
               run->note);
  wrap_print("", 0, "%zu looked at: %zu as the model says, %zu differ%s, %zu silent, %zu skipped.",
             lines, lines - sum.differ - sum.silent - sum.skipped, sum.differ,
             sum.differ == 1 ? "s" : "", sum.silent, sum.skipped);
  wrap_print("", 0,
             "%u draws each. One draw is one answer to a resolver, not one user: a resolver gives "
             "what it drew to all of its users.",
             draws);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *line_json(const struct sync_target *t, const struct verify_line *line) {
  return json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:s?, s:s?, s:I, s:f, s:O?, s:O?, s:s, s:s?}",
                   "provider", t->provider->name, "zone", t->zone->name, "server", line->server,
                   "name", line->name, "type", line->type, "steered", (int)line->steered, "region",
                   line->region, "place", line->place, "draws", (json_int_t)line->draws, "p",
                   line->p, "expected", line->expected, "observed", line->observed, "verdict",
                   verdicts[line->verdict], "text", line->text);
}

json_t *verify_json(const struct sync_run *run, const struct verify_report *reports,
                    unsigned draws) {
  json_t *lines = json_array();
  json_t *errors = json_array();
  size_t counts[4] = {0};
  bool ok = lines && errors;
  for (size_t i = 0; ok && i < run->target_count; i++) {
    const struct sync_target *t = &run->targets[i];
    for (size_t k = 0; ok && k < reports[i].count; k++) {
      ok = json_array_append_new(lines, line_json(t, &reports[i].lines[k])) == 0;
      counts[reports[i].lines[k].verdict]++;
    }
    if (ok && t->error.text[0] != '\0')
      ok = json_array_append_new(errors, json_pack("{s:s, s:s, s:s, s:s}", "provider",
                                                   t->provider->name, "zone", t->zone->name,
                                                   "failure", sync_failure_name(t->error.failure),
                                                   "error", t->error.text)) == 0;
  }
  json_t *out =
      ok ? json_pack("{s:i, s:s, s:s?, s:s, s:s?, s:I, s:I, s:I, s:I, s:I, s:O, s:O}", "v", VERSION,
                     "kind", "verify", "git", *run->commit.id ? run->commit.id : NULL, "actor",
                     client_user(), "note", run->facts ? NULL : run->note, "draws",
                     (json_int_t)draws, "same", (json_int_t)counts[VERIFY_SAME], "differ",
                     (json_int_t)counts[VERIFY_DIFFERS], "silent",
                     (json_int_t)counts[VERIFY_SILENT], "skipped",
                     (json_int_t)counts[VERIFY_SKIPPED], "lines", lines, "errors", errors)
         : NULL;
  json_decref(lines);
  json_decref(errors);
  return out;
}

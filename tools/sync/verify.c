/* SPDX-License-Identifier: Apache-2.0 */
/* One target at its name servers. */
#include "tools/sync/verify.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/sync/verify_private.h"
#include "zones/record.h"

enum { SERVERS_MAX = 256, WHY = 512 };

/* ---- lines ---------------------------------------------------------------------------------- */

static void close_line(struct verify_line *line) {
  free(line->server);
  free(line->name);
  free(line->type);
  free(line->region);
  free(line->place);
  free(line->text);
  json_decref(line->expected);
  json_decref(line->observed);
}

void verify_report_close(struct verify_report *report) {
  for (size_t i = 0; i < report->count; i++)
    close_line(&report->lines[i]);
  free(report->lines);
  *report = (struct verify_report){0};
}

struct verify_line *verify_line_add(const struct verify_job *job, const char *name,
                                    const char *type, enum verify_verdict verdict) {
  struct verify_report *report = job->report;
  if ((report->count & (report->count + 1)) == 0) { /* 0, 1, 3, 7, ... */
    struct verify_line *lines = realloc(report->lines, (2 * report->count + 2) * sizeof *lines);
    if (!lines)
      return NULL;
    report->lines = lines;
  }
  struct verify_line line = {
      .server = strdup(job->server->text),
      .name = strdup(name),
      .type = strdup(type),
      .p = 1,
      .verdict = verdict,
  };
  if (!line.server || !line.name || !line.type) {
    close_line(&line);
    return NULL;
  }
  report->lines[report->count] = line;
  return &report->lines[report->count++];
}

bool verify_line_say(struct verify_line *line, const char *format, ...) {
  char *text = NULL;
  va_list args;
  va_start(args, format);
  int n = vasprintf(&text, format, args);
  va_end(args);
  if (n < 0)
    return false;
  free(line->text);
  line->text = text;
  return true;
}

static void count(struct verify_report *report) {
  report->differ = report->silent = report->skipped = 0;
  for (size_t i = 0; i < report->count; i++) {
    report->differ += report->lines[i].verdict == VERIFY_DIFFERS;
    report->silent += report->lines[i].verdict == VERIFY_SILENT;
    report->skipped += report->lines[i].verdict == VERIFY_SKIPPED;
  }
}

bool verify_selects(const struct sync_zone *zone, const char *name) {
  for (size_t i = 0; i < zone->name_count; i++)
    if (strcmp(zone->names[i], name) == 0)
      return true;
  return zone->name_count == 0;
}

/* ---- name servers --------------------------------------------------------------------------- */

json_t *verify_servers(struct sync_run *run, const struct sync_provider *provider, const char *zone,
                       struct provider_error *error) {
  json_t *given = json_object_get(provider->settings, "servers");
  if (json_array_size(given) == 0) /* the zone's NS records may name those of others, too */
    given = json_object_get(provider->settings, "ns");
  if (json_array_size(given) > 0)
    return json_incref(given);
  if (!provider->kind || !provider->kind->servers) {
    *error = provider->error;
    if (provider->kind)
      provider_fail(error, PROVIDER_LOCAL,
                    "%s: it does not tell its name servers; set `servers:` of the provider",
                    provider->name);
    return NULL;
  }
  void *self = sync_provider_open(run, provider, false, error);
  json_t *list = self ? provider->kind->servers(self, zone, error) : NULL;
  if (self)
    provider->kind->close(self);
  if (list && json_array_size(list) > 0)
    return list;
  if (list)
    provider_fail(error, PROVIDER_GONE,
                  "%s: %.200s has no name servers; set `servers:` of the provider", provider->name,
                  zone);
  json_decref(list);
  return NULL;
}

/* The SOA record first: whoever does not answer it for the zone is not asked anything else. */
static bool probe(struct verify_job *job, bool *serves) {
  const struct ask_question question = {
      .name = job->target->zone->name, .type = RECORD_SOA, .family = AF_UNSPEC};
  struct verify_observed seen;
  struct ask_answer answer = {0};
  bool ok = verify_observed_open(&seen) &&
            ask_one(job->server, &question, job->options->timeout_ms, &answer) &&
            verify_observed_add(&seen, &answer, question.name, "SOA");
  const char *why = seen.why;
  if (ok && seen.silent == 0 &&
      (json_object_get(seen.sets, "NXDOMAIN") || json_object_get(seen.sets, "no data")))
    why = "it has no SOA record there: it does not serve the zone";
  *serves = ok && why[0] == '\0';
  if (ok && !*serves) {
    struct verify_line *line = verify_line_add(job, question.name, "SOA", VERIFY_SILENT);
    ok = line && verify_line_say(line, "%.250s", why);
  }
  ask_answer_close(&answer);
  verify_observed_close(&seen);
  return ok;
}

static bool ask_server(struct verify_job *job) {
  bool serves;
  if (!probe(job, &serves))
    return false;
  if (!serves)
    return true;
  job->dead = false;
  bool ok = (!job->options->plain || verify_plain(job)) &&
            (!job->options->steered || job->dead || verify_steered(job));
  if (ok && job->dead) {
    struct verify_line *line = verify_line_add(job, job->target->zone->name, "SOA", VERIFY_SILENT);
    ok = line && verify_line_say(line, "it stopped answering; what was left was not asked");
  }
  return ok;
}

/* ---- the target ----------------------------------------------------------------------------- */

/* All addresses of the list; those that are none become lines. */
static bool resolve(struct verify_job *job, const json_t *texts, struct ask_server *out,
                    size_t *count_out) {
  size_t i;
  const json_t *item;
  *count_out = 0;
  json_array_foreach(texts, i, item) {
    const char *text = json_string_value(item);
    struct ask_server *found = NULL;
    size_t n = 0;
    char why[ASK_TEXT] = "";
    struct ask_server unknown = {0};
    if (!text || ask_resolve(text, &found, &n, why)) {
      for (size_t k = 0; k < n && *count_out < SERVERS_MAX; k++)
        out[(*count_out)++] = found[k];
      free(found);
      continue;
    }
    snprintf(unknown.text, sizeof unknown.text, "%.200s", text);
    job->server = &unknown;
    struct verify_line *line = verify_line_add(job, job->target->zone->name, "SOA", VERIFY_SILENT);
    if (!line || !verify_line_say(line, "%.250s", why))
      return false;
  }
  return true;
}

static bool work(struct verify_job *job, const json_t *texts, struct provider_error *error) {
  const char *name = job->target->provider->name;
  struct ask_server *servers = calloc(SERVERS_MAX, sizeof *servers);
  size_t n = 0;
  bool ok = servers && resolve(job, texts, servers, &n);
  if (ok && n == 0)
    provider_fail(error, PROVIDER_UNREACHABLE, "%s: none of its name servers has an address", name);
  size_t tests = verify_tests(job->target) * (n + 1);
  size_t targets = job->options->targets > 0 ? job->options->targets : 1;
  job->alpha = VERIFY_ALPHA / (double)(tests > 0 ? tests : 1) / (double)targets;
  bool asked = ok && n > 0;
  for (size_t i = 0; ok && i < n; i++) {
    job->server = &servers[i];
    ok = ask_server(job);
  }
  free(servers);
  if (!ok)
    provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", name);
  return ok && asked;
}

bool verify_target(const struct sync_run *run, const struct sync_target *target,
                   const json_t *servers, const struct verify_options *options,
                   struct verify_report *report, struct provider_error *error) {
  char why[WHY];
  *error = target->error;
  if (target->state == SYNC_FAILED)
    return false;
  struct verify_geo *own = NULL;
  if (!options->geo)
    own = verify_geo_open(NULL, NULL, run->options.settings, why);
  struct verify_job job = {
      .run = run,
      .target = target,
      .options = options,
      .geo = options->geo ? options->geo : own,
      .report = report,
  };
  bool ok =
      job.geo ? work(&job, servers, error) : provider_fail(error, PROVIDER_LOCAL, "%.400s", why);
  verify_geo_close(own);
  count(report);
  return ok;
}

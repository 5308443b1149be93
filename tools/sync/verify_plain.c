/* SPDX-License-Identifier: Apache-2.0 */
/* RRsets that are not steered: one question each, compared as sets. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tools/sync/verify_private.h"
#include "zones/record.h"

enum { WINDOW = 64 };

struct looking {
  struct verify_job *job;
  const struct provider_object **objects; /* of each question */
  size_t count;
  bool failed;
};

/* ---- what can be asked for ------------------------------------------------------------------ */

static bool is_below(const char *name, const char *parent) {
  size_t n = strlen(name);
  size_t p = strlen(parent);
  return n > p && name[n - p - 1] == '.' && strcmp(name + n - p, parent) == 0;
}

/* True if a delegation of the zone hides it: other servers answer for it. */
static bool is_hidden(const struct sync_target *t, const struct provider_object *object) {
  for (size_t i = 0; i < t->desired.count; i++) {
    const struct provider_object *cut = &t->desired.items[i];
    if (strcmp(cut->type, "NS") != 0 || strcmp(cut->name, t->zone->name) == 0)
      continue;
    if (is_below(object->name, cut->name))
      return true;
    if (strcmp(object->name, cut->name) == 0)
      return strcmp(object->type, "NS") != 0 && strcmp(object->type, "DS") != 0;
  }
  return false;
}

static bool is_asked(const struct sync_target *t, const struct provider_object *object) {
  bool apex_ns = strcmp(object->type, "NS") == 0 && strcmp(object->name, t->zone->name) == 0;
  return !object->domain && json_is_array(json_object_get(object->body, "values")) &&
         (!apex_ns || t->provider->kind->can.apex_ns) && verify_selects(t->zone, object->name) &&
         !is_hidden(t, object);
}

/* ---- answers -------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b) {
  return strcmp(json_string_value(*(json_t *const *)a), json_string_value(*(json_t *const *)b));
}

/* The values of the answer, sorted, each once; *ttl is the largest. */
static json_t *values_of(const struct ask_answer *answer, const struct provider_object *object,
                         uint32_t *ttl) {
  size_t count = json_array_size(answer->records);
  json_t **found = calloc(count + 1, sizeof(json_t *));
  json_t *out = json_array();
  size_t n = 0;
  size_t i;
  json_t *item;
  bool ok = found && out;
  json_array_foreach(ok ? answer->records : NULL, i, item) {
    const char *type = json_string_value(json_object_get(item, "type"));
    uint32_t its = (uint32_t)json_integer_value(json_object_get(item, "ttl"));
    if (strcmp(json_string_value(json_object_get(item, "name")), object->name) != 0 ||
        strcmp(type, object->type) != 0)
      continue;
    found[n++] = json_object_get(item, "value");
    *ttl = its > *ttl ? its : *ttl;
  }
  if (ok)
    qsort(found, n, sizeof(json_t *), by_text);
  for (i = 0; ok && i < n; i++)
    if (i == 0 || !json_equal(found[i], found[i - 1]))
      ok = json_array_append(out, found[i]) == 0;
  free(found);
  if (ok)
    return out;
  json_decref(out);
  return NULL;
}

/* "; held back: ..." where the plan has a reason to leave it. */
static const char *held_text(const struct sync_target *t, const struct provider_object *object) {
  for (size_t i = 0; i < t->plan.count; i++)
    if (t->plan.items[i].new == object && t->plan.items[i].held)
      return sync_hold_text(t->plan.items[i].held);
  return NULL;
}

static bool add_silent(const struct looking *l, const struct provider_object *object,
                       const char *why) {
  struct verify_line *line = verify_line_add(l->job, object->name, object->type, VERIFY_SILENT);
  return line && verify_line_say(line, "%.250s", why);
}

static bool compare(const struct looking *l, const struct provider_object *object,
                    const struct ask_answer *answer) {
  const json_t *wanted = json_object_get(object->body, "values");
  uint32_t most = (uint32_t)json_integer_value(json_object_get(object->body, "ttl"));
  uint32_t ttl = 0;
  json_t *values = values_of(answer, object, &ttl);
  struct verify_line *line =
      values ? verify_line_add(l->job, object->name, object->type, VERIFY_SAME) : NULL;
  if (!line) {
    json_decref(values);
    return false;
  }
  bool equal = json_equal(values, wanted);
  const char *held = held_text(l->job->target, object);
  line->observed = values;
  line->expected = json_deep_copy(wanted);
  line->draws = 1;
  if (equal && ttl <= most)
    return true;
  line->verdict = VERIFY_DIFFERS;
  if (equal)
    return verify_line_say(line, "its TTL is %u, above the %u of the configuration%s%.150s", ttl,
                           most, held ? "; held back: " : "", held ? held : "");
  return verify_line_say(line, "%s%s%.150s",
                         answer->rcode != 0             ? verify_rcode(answer->rcode)
                         : json_array_size(values) == 0 ? "it has no such records"
                                                        : "other values",
                         held ? "; held back: " : "", held ? held : "");
}

static void heard(void *arg, size_t index, const struct ask_answer *answer) {
  enum { NXDOMAIN = 3 };
  struct looking *l = arg;
  const struct provider_object *object = l->objects[index];
  bool cut = strcmp(object->type, "NS") == 0 && answer->referral;
  bool ok;
  char why[64];
  if (!answer->answered) {
    ok = add_silent(l, object, answer->why);
  } else if (answer->rcode != 0 && answer->rcode != NXDOMAIN) {
    snprintf(why, sizeof why, "it answers %s", verify_rcode(answer->rcode));
    ok = add_silent(l, object, why);
  } else if (!answer->authoritative && !cut) {
    ok = add_silent(l, object, "its answer is not authoritative: it does not serve the name");
  } else {
    ok = compare(l, object, answer);
  }
  l->failed = l->failed || !ok;
}

bool verify_plain(struct verify_job *job) {
  const struct sync_target *t = job->target;
  struct looking l = {.job = job, .objects = calloc(t->desired.count + 1, sizeof *l.objects)};
  struct ask_question *questions = calloc(t->desired.count + 1, sizeof *questions);
  char why[ASK_TEXT] = "";
  bool ok = l.objects && questions;
  for (size_t i = 0; ok && i < t->desired.count; i++) {
    const struct provider_object *object = &t->desired.items[i];
    if (!is_asked(t, object))
      continue;
    questions[l.count] =
        (struct ask_question){.name = object->name,
                              .type = record_type(object->type, strlen(object->type)),
                              .family = AF_UNSPEC};
    l.objects[l.count++] = object;
  }
  if (ok && l.count > 0 &&
      !ask_many(job->server, questions, l.count, WINDOW, job->options->timeout_ms, heard, &l,
                why)) {
    job->dead = true;
    ok = strcmp(why, ASK_MEMORY) != 0;
  }
  free(l.objects);
  free(questions);
  return ok && !l.failed;
}

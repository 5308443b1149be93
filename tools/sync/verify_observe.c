/* SPDX-License-Identifier: Apache-2.0 */
/* What answers hold, and whether they are drawn as expected. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/sync/chi_square.h"
#include "tools/sync/verify_private.h"

enum { VALUES_MAX = 4096, RCODE_NOERROR = 0, RCODE_NXDOMAIN = 3 };

bool verify_observed_open(struct verify_observed *observed) {
  *observed = (struct verify_observed){.sets = json_object()};
  return observed->sets;
}

void verify_observed_close(struct verify_observed *observed) {
  json_decref(observed->sets);
  *observed = (struct verify_observed){0};
}

const char *verify_rcode(unsigned rcode) {
  static _Thread_local char text[24];
  static const char *const names[] = {"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN",
                                      "NOTIMP",  "REFUSED", "YXDOMAIN", "YXRRSET",
                                      "NXRRSET", "NOTAUTH", "NOTZONE"};
  if (rcode < sizeof names / sizeof *names)
    return names[rcode];
  snprintf(text, sizeof text, "RCODE %u", rcode);
  return text;
}

/* ---- taking in ------------------------------------------------------------------------------ */

static bool count(json_t *sets, const char *set, uint64_t times) {
  json_int_t before = json_integer_value(json_object_get(sets, set));
  return json_object_set_new(sets, set, json_integer(before + (json_int_t)times)) == 0;
}

/* True if the answer is none that this zone's server would give; `why` says it. */
static bool is_none(const struct ask_answer *answer, char *why) {
  if (!answer->answered)
    snprintf(why, ASK_TEXT, "%.250s", answer->why);
  else if (answer->rcode != RCODE_NOERROR && answer->rcode != RCODE_NXDOMAIN)
    snprintf(why, ASK_TEXT, "it answers %s", verify_rcode(answer->rcode));
  else if (answer->referral)
    snprintf(why, ASK_TEXT, "it refers to other name servers: it does not serve the zone");
  else if (!answer->authoritative)
    snprintf(why, ASK_TEXT, "its answer is not authoritative: it does not serve the zone");
  else
    return false;
  return true;
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The values of the type at the name as one set; an alias that nobody expects is one, too. */
static char *set_of(struct verify_observed *o, const struct ask_answer *answer, const char *name,
                    const char *type) {
  const char *values[VALUES_MAX];
  size_t n = 0;
  size_t size = 16;
  size_t i;
  const json_t *item;
  json_array_foreach(answer->records, i, item) {
    const char *its = json_string_value(json_object_get(item, "type"));
    bool wanted = strcmp(its, type) == 0;
    if (n == VALUES_MAX || (!wanted && strcmp(its, "CNAME") != 0) ||
        strcmp(json_string_value(json_object_get(item, "name")), name) != 0)
      continue;
    uint32_t ttl = (uint32_t)json_integer_value(json_object_get(item, "ttl"));
    o->ttl = ttl > o->ttl ? ttl : o->ttl;
    values[n] = json_string_value(json_object_get(item, "value"));
    size += strlen(values[n++]) + 1;
  }
  char *out = calloc(1, size);
  size_t at = 0;
  qsort(values, n, sizeof *values, by_text);
  for (size_t k = 0; out && k < n; k++)
    if (k == 0 || strcmp(values[k], values[k - 1]) != 0)
      at += (size_t)snprintf(out + at, size - at, "%s%s", at ? " " : "", values[k]);
  if (out && n == 0)
    snprintf(out, size, "%s", answer->rcode == RCODE_NXDOMAIN ? "NXDOMAIN" : "no data");
  return out;
}

bool verify_observed_add(struct verify_observed *o, const struct ask_answer *answer,
                         const char *name, const char *type) {
  if (is_none(answer, o->why)) {
    o->silent++;
    return true;
  }
  char *set = set_of(o, answer, name, type);
  bool ok = set && count(o->sets, set, 1);
  free(set);
  o->answers++;
  o->subnets += answer->subnet;
  return ok;
}

bool verify_observed_join(struct verify_observed *o, const struct verify_observed *more) {
  const char *set;
  json_t *times;
  bool ok = true;
  json_object_foreach(more->sets, set, times) {
    ok = count(o->sets, set, (uint64_t)json_integer_value(times)) && ok;
  }
  o->answers += more->answers;
  o->silent += more->silent;
  o->subnets += more->subnets;
  o->ttl = more->ttl > o->ttl ? more->ttl : o->ttl;
  if (more->silent > 0)
    memcpy(o->why, more->why, sizeof o->why);
  return ok;
}

/* ---- comparing ------------------------------------------------------------------------------ */

/* What the sets are in terms of cells. */
struct counts {
  uint64_t *of;
  uint64_t other; /* answers that cannot be */
};

/* The cell that all values of the set lead to, or -1. */
static long one_cell(const struct verify_cells *cells, char *set) {
  long cell = -1;
  char *rest;
  for (char *value = strtok_r(set, " ", &rest); value; value = strtok_r(NULL, " ", &rest)) {
    const json_t *place = json_object_get(cells->places, value);
    if (!place || (cell >= 0 && cell != (long)json_integer_value(place)))
      return -1;
    cell = (long)json_integer_value(place);
  }
  return cell;
}

/* Counts each value of the set; false if one is not to be there, or there are too few. */
static bool each_cell(const struct verify_cells *cells, char *set, uint64_t times, uint64_t *of) {
  size_t found = 0;
  char *rest;
  char *copy = strdup(set);
  bool ok = copy;
  for (char *v = ok ? strtok_r(copy, " ", &rest) : NULL; v; v = strtok_r(NULL, " ", &rest)) {
    ok = ok && json_object_get(cells->places, v);
    found++;
  }
  free(copy);
  if (!ok || found < cells->least)
    return false;
  for (char *v = strtok_r(set, " ", &rest); v; v = strtok_r(NULL, " ", &rest))
    of[json_integer_value(json_object_get(cells->places, v))] += times;
  return true;
}

static bool take_set(const struct verify_cells *cells, const char *text, uint64_t times,
                     struct counts *counts) {
  if (!cells->several && !cells->parts) {
    const json_t *place = json_object_get(cells->places, text);
    if (place)
      counts->of[json_integer_value(place)] += times;
    else
      counts->other += times;
    return true;
  }
  char *set = strdup(text);
  if (!set)
    return false;
  if (cells->several) {
    if (!each_cell(cells, set, times, counts->of))
      counts->other += times;
  } else {
    long cell = one_cell(cells, set);
    if (cell >= 0)
      counts->of[cell] += times;
    else
      counts->other += times;
  }
  free(set);
  return true;
}

static bool count_cells(const struct verify_cells *cells, const struct verify_observed *o,
                        struct counts *counts) {
  const char *set;
  json_t *times;
  *counts = (struct counts){.of = calloc(cells->count + 1, sizeof *counts->of)};
  bool ok = counts->of;
  json_object_foreach(o->sets, set, times) {
    ok = ok && take_set(cells, set, (uint64_t)json_integer_value(times), counts);
  }
  return ok;
}

/* Each share by itself, with the declared error. */
static double chance_of_each(const struct verify_cells *cells, const struct verify_observed *o,
                             const struct counts *counts) {
  double least = 1;
  for (size_t i = 0; i < cells->count; i++) {
    double low = cells->shares[i] - cells->error;
    double high = (cells->several ? cells->most[i] : cells->shares[i]) + cells->error;
    double p = chi_square_share(counts->of[i], o->answers, low > 0 ? low : 0, high < 1 ? high : 1);
    least = p < least ? p : least;
  }
  least *= (double)cells->count;
  return least < 1 ? least : 1;
}

double verify_chance(const struct verify_cells *cells, const struct verify_observed *o) {
  struct counts counts;
  double p = -1;
  if (count_cells(cells, o, &counts)) {
    if (counts.other > 0)
      p = 0;
    else if (cells->several || cells->error > 0)
      p = chance_of_each(cells, o, &counts);
    else
      p = chi_square_test(cells->shares, counts.of, cells->count);
  }
  free(counts.of);
  return p;
}

/* ---- shares --------------------------------------------------------------------------------- */

json_t *verify_shares_expected(const struct verify_cells *cells) {
  json_t *out = json_object();
  bool ok = out;
  for (size_t i = 0; ok && i < cells->count; i++)
    ok = json_object_set_new(out, cells->texts[i], json_real(cells->shares[i])) == 0;
  if (ok)
    return out;
  json_decref(out);
  return NULL;
}

json_t *verify_shares_observed(const struct verify_cells *cells, const struct verify_observed *o) {
  struct counts counts;
  json_t *out = json_object();
  bool ok = count_cells(cells, o, &counts) && out;
  double answers = o->answers > 0 ? (double)o->answers : 1;
  for (size_t i = 0; ok && i < cells->count; i++)
    ok = json_object_set_new(out, cells->texts[i], json_real((double)counts.of[i] / answers)) == 0;
  const char *set;
  json_t *times;
  json_object_foreach(o->sets, set, times) {
    struct counts one = {.of = counts.of};
    ok = ok && take_set(cells, set, 1, &one);
    if (ok && one.other > 0)
      ok = json_object_set_new(out, set, json_real((double)json_integer_value(times) / answers)) ==
           0;
  }
  free(counts.of);
  if (ok)
    return out;
  json_decref(out);
  return NULL;
}

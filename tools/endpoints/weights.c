/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/endpoints/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/utf8.h"

enum {
  MAX_WEIGHT = 65535,
  ALL = 10000, /* hundredths of a percentage point in a whole */
  MOSTLY = 95,
};

const char *const weights_builtin[][2] = {
    {"only[E]", "E 100, all others 0"},
    {"mostly[E]", "E 95, the others share 5 (integers, the remainder to the first)"},
    {"even", "1 each"},
    {"without[E]", "E 0, the others as they are"},
    {"shift[A:B,10]", "10 percentage points of the level's sum from A to B"},
    {NULL, NULL},
};

static bool fail(char *why, const char *format, const char *text) {
  snprintf(why, WEIGHTS_WHY, format, text);
  utf8_repair(why);
  return false;
}

/* ---- reading -------------------------------------------------------------------------------- */

static bool add_item(struct weights *w, const char *name, size_t len, uint16_t weight, char *why) {
  char *copy = strndup(name, len);
  if (!copy)
    return fail(why, "%s", "out of memory");
  w->items[w->count++] = (struct weights_item){.endpoint = copy, .weight = weight};
  return true;
}

/* Decimal digits without leading zeros, at most 65535. */
static bool read_weight(const char *text, uint16_t *weight) {
  size_t n = strspn(text, "0123456789");
  if (n == 0 || n > 5 || text[n] || (n > 1 && text[0] == '0'))
    return false;
  unsigned long value = strtoul(text, NULL, 10);
  *weight = (uint16_t)value;
  return value <= MAX_WEIGHT;
}

static bool read_assignment(struct weights *w, const char *arg, char *why) {
  const char *equals = strchr(arg, '=');
  uint16_t weight;
  if (!equals)
    return fail(why, "`%.200s` is no ENDPOINT=WEIGHT; a profile stands alone", arg);
  if (equals == arg)
    return fail(why, "`%.200s` names no endpoint; write ENDPOINT=WEIGHT", arg);
  if (!equals[1])
    return fail(why, "`%.200s` has no weight; write 0 for no traffic", arg);
  if (!read_weight(equals + 1, &weight))
    return fail(why, "`%.200s`: a weight is an integer from 0 to 65535", arg);
  for (size_t i = 0; i < w->count; i++)
    if (strlen(w->items[i].endpoint) == (size_t)(equals - arg) &&
        !memcmp(w->items[i].endpoint, arg, (size_t)(equals - arg)))
      return fail(why, "%.200s is given two weights; give it one", w->items[i].endpoint);
  return add_item(w, arg, (size_t)(equals - arg), weight, why);
}

/* Percentage points with at most two decimals, above 0 and up to 100, in hundredths. */
static bool read_points(const char *text, size_t len, uint32_t *points) {
  uint32_t value = 0;
  size_t i = 0;
  while (i < len && i < 3 && text[i] >= '0' && text[i] <= '9')
    value = value * 10 + (uint32_t)(text[i++] - '0');
  if (i == 0)
    return false;
  value *= 100;
  if (i < len && text[i] == '.') {
    uint32_t unit = 10;
    size_t first = ++i;
    for (; i < len && i < first + 2 && text[i] >= '0' && text[i] <= '9'; i++, unit /= 10)
      value += (uint32_t)(text[i] - '0') * unit;
    if (i == first)
      return false;
  }
  if (i < len && text[i] == '%')
    i++;
  *points = value;
  return i == len && value > 0 && value <= ALL;
}

static bool read_shift(struct weights *w, const char *inside, size_t len, char *why) {
  const char *colon = memchr(inside, ':', len);
  const char *comma = memrchr(inside, ',', len);
  if (!colon || !comma || comma < colon || colon == inside || comma == colon + 1)
    return fail(why, "`%.200s`: write shift[FROM:TO,POINTS], as in shift[a:b,10]", w->profile);
  if (!read_points(comma + 1, (size_t)(inside + len - comma - 1), &w->points))
    return fail(why,
                "`%.200s`: the percentage points are a number above 0, up to 100, with at most two "
                "decimals",
                w->profile);
  w->kind = WEIGHTS_SHIFT;
  if (!add_item(w, inside, (size_t)(colon - inside), 0, why) ||
      !add_item(w, colon + 1, (size_t)(comma - colon - 1), 0, why))
    return false;
  if (!strcmp(w->items[0].endpoint, w->items[1].endpoint))
    return fail(why, "`%.200s` shifts from an endpoint to itself", w->profile);
  return true;
}

static bool read_profile(struct weights *w, const char *text, char *why) {
  static const struct {
    const char *name;
    enum weights_kind kind;
    bool bare;
  } known[] = {{"only", WEIGHTS_ONLY, false},
               {"mostly", WEIGHTS_MOSTLY, false},
               {"even", WEIGHTS_EVEN, true},
               {"without", WEIGHTS_WITHOUT, false},
               {"shift", WEIGHTS_SHIFT, false}};
  size_t n = strcspn(text, "[");
  size_t len = strlen(text);
  bool bare = !text[n];
  if (!n)
    return fail(why, "`%.200s` names no profile; `endpoints profiles` lists them", text);
  w->profile = strdup(text);
  if (!w->profile)
    return fail(why, "%s", "out of memory");
  if (!bare && text[len - 1] != ']')
    return fail(why, "`%.200s`: the bracket is not closed", text);
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strlen(known[i].name) != n || memcmp(known[i].name, text, n))
      continue;
    if (known[i].bare && !bare)
      return fail(why, "the profile %.200s takes nothing in brackets", known[i].name);
    if (!known[i].bare && (bare || len < n + 3))
      return known[i].kind == WEIGHTS_SHIFT
                 ? fail(why, "`%.200s`: write shift[FROM:TO,POINTS], as in shift[a:b,10]", text)
                 : fail(why, "the profile %.200s needs an endpoint in brackets: NAME[ENDPOINT]",
                        known[i].name);
    w->kind = known[i].kind;
    if (bare)
      return true;
    const char *inside = text + n + 1;
    return w->kind == WEIGHTS_SHIFT ? read_shift(w, inside, len - n - 2, why)
                                    : add_item(w, inside, len - n - 2, 0, why);
  }
  w->kind = WEIGHTS_NAMED;
  return true;
}

bool weights_read(struct weights *weights, char *const *args, size_t count, char *why) {
  *weights = (struct weights){.kind = WEIGHTS_ASSIGN};
  if (count == 0 || count > WEIGHTS_MAX_ITEMS)
    return fail(why, "%s",
                count ? "too many weights" : "no weights; write ENDPOINT=WEIGHT or a profile");
  weights->items = calloc(count + 2, sizeof *weights->items);
  if (!weights->items)
    return fail(why, "%s", "out of memory");
  if (count == 1 && !strchr(args[0], '='))
    return read_profile(weights, args[0], why);
  for (size_t i = 0; i < count; i++)
    if (!read_assignment(weights, args[i], why))
      return false;
  return true;
}

void weights_close(struct weights *weights) {
  for (size_t i = 0; i < weights->count; i++)
    free(weights->items[i].endpoint);
  free(weights->items);
  free(weights->profile);
  *weights = (struct weights){0};
}

/* ---- configured profiles --------------------------------------------------------------------- */

static bool unknown_profile(const struct weights *w, const json_t *profiles, char *why) {
  static const char *const builtin[] = {"only", "mostly", "even", "without", "shift"};
  size_t own = json_object_size(profiles);
  const char **names = calloc(own + 5, sizeof *names);
  size_t count = 0;
  const char *name;
  json_t *profile;
  char word[64];
  for (size_t i = 0; names && i < 5; i++)
    names[count++] = builtin[i];
  json_object_foreach((json_t *)profiles, name, profile) if (names && count < own + 5)
      names[count++] = name;
  snprintf(word, sizeof word, "%.*s", (int)strcspn(w->profile, "["), w->profile);
  const char *near = names ? diag_nearest(word, names, count) : NULL;
  snprintf(why, WEIGHTS_WHY, "there is no profile `%.200s`%s%.200s%s", w->profile,
           near ? "; did you mean " : "; `endpoints profiles DOMAIN` lists them", near ? near : "",
           near ? "?" : ", and a weight is set by ENDPOINT=WEIGHT");
  utf8_repair(why);
  free(names);
  return false;
}

bool weights_define(struct weights *weights, const json_t *profiles, char *why) {
  if (weights->kind != WEIGHTS_NAMED)
    return true;
  json_t *profile = json_object_get(profiles, weights->profile);
  size_t count = json_object_size(profile);
  if (count == 0 || count > WEIGHTS_MAX_ITEMS)
    return unknown_profile(weights, profiles, why);
  struct weights_item *items = realloc(weights->items, count * sizeof *items);
  if (!items)
    return fail(why, "%s", "out of memory");
  weights->items = items;
  const char *endpoint;
  json_t *value;
  json_object_foreach(profile, endpoint, value) {
    json_int_t weight = json_integer_value(value);
    if (!json_is_integer(value) || weight < 0 || weight > MAX_WEIGHT)
      return fail(why, "the profile %.200s is not well-formed in the build; build it again",
                  weights->profile);
    if (!add_item(weights, endpoint, strlen(endpoint), (uint16_t)weight, why))
      return false;
  }
  weights->kind = WEIGHTS_ASSIGN;
  return true;
}

/* ---- arithmetic ----------------------------------------------------------------------------- */

static size_t find(const char *const *names, size_t count, const char *name) {
  size_t i = 0;
  while (i < count && strcmp(names[i], name) != 0)
    i++;
  return i;
}

const char *weights_missing(const struct weights *weights, const char *const *names, size_t count) {
  for (size_t i = 0; i < weights->count; i++)
    if (find(names, count, weights->items[i].endpoint) == count)
      return weights->items[i].endpoint;
  return NULL;
}

static void put(struct weights_level *level, size_t i, uint32_t weight) {
  level->weights[i] = (uint16_t)weight;
  level->touched[i] = true;
}

static bool apply_mostly(const char *profile, size_t chosen, struct weights_level *level,
                         char *why) {
  size_t others = level->count - 1;
  const uint32_t rest = 100 - MOSTLY;
  if (others == 0)
    return fail(why, "%.200s: there is no other endpoint in the level", profile);
  if (others > rest) {
    snprintf(why, WEIGHTS_WHY,
             "%.200s: %zu others would share %u, so that some would get 0; set weights by "
             "ENDPOINT=WEIGHT",
             profile, others, rest);
    return false;
  }
  bool first = true;
  for (size_t i = 0; i < level->count; i++) {
    if (i == chosen) {
      put(level, i, MOSTLY);
      continue;
    }
    put(level, i, (uint32_t)(rest / others + (first ? rest % others : 0)));
    first = false;
  }
  return true;
}

static uint64_t divisor(uint64_t a, uint64_t b) {
  while (b) {
    uint64_t r = a % b;
    a = b;
    b = r;
  }
  return a;
}

/* Fills `out` with the weights after the shift, times the smallest factor that makes all of them
 * integers. */
static void shift(const struct weights_level *level, size_t from, size_t to, uint64_t sum,
                  uint32_t points, uint64_t *out) {
  uint64_t factor = ALL / divisor(sum * points, ALL);
  uint64_t moved = sum * points * factor / ALL;
  for (size_t i = 0; i < level->count; i++)
    out[i] = level->weights[i] * factor;
  out[from] -= moved;
  out[to] += moved;
}

/* Makes the weights smaller where they have a common divisor; true if all fit then. */
static bool reduce(uint64_t *weights, size_t count) {
  uint64_t common = 0, largest = 0;
  for (size_t i = 0; i < count; i++) {
    common = divisor(weights[i], common);
    largest = weights[i] > largest ? weights[i] : largest;
  }
  if (largest <= MAX_WEIGHT)
    return true;
  for (size_t i = 0; common && i < count; i++)
    weights[i] /= common;
  return common && largest / common <= MAX_WEIGHT;
}

static bool apply_shift(const struct weights *w, size_t from, size_t to,
                        struct weights_level *level, char *why) {
  uint64_t sum = 0;
  for (size_t i = 0; i < level->count; i++)
    sum += level->weights[i];
  if ((uint64_t)level->weights[from] * ALL < sum * w->points || sum == 0) {
    snprintf(why, WEIGHTS_WHY, "%.200s: %.100s has %u of %llu, which is less than that", w->profile,
             w->items[0].endpoint, level->weights[from], (unsigned long long)sum);
    return false;
  }
  uint64_t *exact = calloc(level->count, sizeof *exact);
  if (!exact)
    return fail(why, "%s", "out of memory");
  shift(level, from, to, sum, w->points, exact);
  bool fits = reduce(exact, level->count);
  for (size_t i = 0; fits && i < level->count; i++)
    if (exact[i] != level->weights[i] || i == from || i == to)
      put(level, i, (uint32_t)exact[i]);
  free(exact);
  return fits || fail(why, "%.200s: no weights up to 65535 have exactly these shares", w->profile);
}

static bool apply_items(const struct weights *w, struct weights_level *level) {
  for (size_t i = 0; i < w->count; i++)
    put(level, find(level->names, level->count, w->items[i].endpoint), w->items[i].weight);
  return true;
}

bool weights_apply(const struct weights *weights, struct weights_level *level, char *why) {
  const char *missing = weights_missing(weights, level->names, level->count);
  if (missing)
    return fail(why, "the level has no endpoint %.200s", missing);
  size_t first = weights->count ? find(level->names, level->count, weights->items[0].endpoint) : 0;
  switch (weights->kind) {
  case WEIGHTS_ASSIGN:
    return apply_items(weights, level);
  case WEIGHTS_ONLY:
    for (size_t i = 0; i < level->count; i++)
      put(level, i, i == first ? 100 : 0);
    return true;
  case WEIGHTS_MOSTLY:
    return apply_mostly(weights->profile, first, level, why);
  case WEIGHTS_EVEN:
    for (size_t i = 0; i < level->count; i++)
      put(level, i, 1);
    return true;
  case WEIGHTS_WITHOUT:
    put(level, first, 0);
    return true;
  case WEIGHTS_SHIFT:
    return apply_shift(weights, first, find(level->names, level->count, weights->items[1].endpoint),
                       level, why);
  default:
    return fail(why, "the profile %.200s is not defined", weights->profile);
  }
}

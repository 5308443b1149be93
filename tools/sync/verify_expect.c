/* SPDX-License-Identifier: Apache-2.0 */
/* Which answers may come, and with which shares. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "tools/sync/verify_private.h"
#include "zones/record.h"

/* One endpoint's part. */
struct part {
  json_t *values; /* sorted texts */
  double chance;
};

void verify_cells_close(struct verify_cells *cells) {
  for (size_t i = 0; i < cells->count; i++)
    free(cells->texts[i]);
  free(cells->texts);
  free(cells->shares);
  free(cells->most);
  json_decref(cells->places);
  *cells = (struct verify_cells){0};
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The texts of an array, sorted, each once, with spaces between them; malloc'd. */
static char *set_text(const json_t *values) {
  size_t count = json_array_size(values);
  const char **texts = calloc(count + 1, sizeof *texts);
  size_t size = 1;
  for (size_t i = 0; texts && i < count; i++) {
    texts[i] = json_string_value(json_array_get(values, i));
    size += strlen(texts[i]) + 1;
  }
  char *out = texts ? calloc(1, size) : NULL;
  if (out)
    qsort(texts, count, sizeof *texts, by_text);
  size_t at = 0;
  for (size_t i = 0; out && i < count; i++)
    if (i == 0 || strcmp(texts[i], texts[i - 1]) != 0)
      at += (size_t)snprintf(out + at, size - at, "%s%s", at ? " " : "", texts[i]);
  free(texts);
  return out;
}

/* ---- cells ---------------------------------------------------------------------------------- */

static bool open_cells(struct verify_cells *cells, size_t most) {
  *cells = (struct verify_cells){
      .texts = calloc(most + 1, sizeof *cells->texts),
      .shares = calloc(most + 1, sizeof *cells->shares),
      .most = calloc(most + 1, sizeof *cells->most),
      .places = json_object(),
  };
  return cells->texts && cells->shares && cells->most && cells->places;
}

/* The cell of this text, made if need be; -1 without memory. */
static long cell_of(struct verify_cells *cells, const char *text) {
  const json_t *place = json_object_get(cells->places, text);
  if (place)
    return (long)json_integer_value(place);
  long index = (long)cells->count;
  char *copy = strdup(text);
  if (!copy || json_object_set_new(cells->places, text, json_integer(index)) != 0) {
    free(copy);
    return -1;
  }
  cells->texts[cells->count++] = copy;
  return index;
}

static bool add_set(struct verify_cells *cells, const json_t *values, double chance) {
  char *text = set_text(values);
  long cell = text ? cell_of(cells, text) : -1;
  free(text);
  if (cell >= 0)
    cells->shares[cell] += chance;
  return cell >= 0;
}

bool verify_cells_set(const json_t *values, struct verify_cells *out) {
  json_t *none = json_pack("[s]", "no data");
  bool ok =
      open_cells(out, 1) && none && add_set(out, json_array_size(values) > 0 ? values : none, 1);
  json_decref(none);
  return ok;
}

/* ---- answers of one endpoint ---------------------------------------------------------------- */

static bool one_cell_each(struct verify_cells *cells, const struct part *parts, size_t count) {
  bool ok = true;
  for (size_t i = 0; ok && i < count; i++)
    ok = add_set(cells, parts[i].values, parts[i].chance);
  return ok;
}

static size_t find(size_t *groups, size_t i) {
  while (groups[i] != i)
    i = groups[i] = groups[groups[i]];
  return i;
}

/* Endpoints that have a value in common are one group. */
static bool join_groups(const struct part *parts, size_t count, size_t *groups) {
  json_t *first = json_object();
  bool ok = first;
  for (size_t i = 0; i < count; i++)
    groups[i] = i;
  for (size_t i = 0; ok && i < count; i++)
    for (size_t k = 0; ok && k < json_array_size(parts[i].values); k++) {
      const char *value = json_string_value(json_array_get(parts[i].values, k));
      const json_t *seen = json_object_get(first, value);
      if (seen)
        groups[find(groups, i)] = find(groups, (size_t)json_integer_value(seen));
      else
        ok = json_object_set_new(first, value, json_integer((json_int_t)i)) == 0;
    }
  json_decref(first);
  return ok;
}

/* A cell for each group; each of its values leads there. */
static bool cells_of_groups(struct verify_cells *cells, const struct part *parts, size_t count) {
  size_t *groups = calloc(count + 1, sizeof *groups);
  bool ok = groups && join_groups(parts, count, groups);
  cells->parts = true;
  for (size_t g = 0; ok && g < count; g++) {
    json_t *all = json_array();
    double chance = 0;
    for (size_t i = 0; i < count; i++)
      if (find(groups, i) == g) {
        ok = json_array_extend(all, parts[i].values) == 0 && ok;
        chance += parts[i].chance;
      }
    if (json_array_size(all) > 0) {
      size_t cell = cells->count;
      cells->texts[cell] = set_text(all);
      ok = ok && cells->texts[cell];
      cells->count += cells->texts[cell] != NULL;
      cells->shares[cell] = chance;
      for (size_t k = 0; ok && k < json_array_size(all); k++)
        ok = json_object_set_new(cells->places, json_string_value(json_array_get(all, k)),
                                 json_integer((json_int_t)cell)) == 0;
    }
    json_decref(all);
  }
  free(groups);
  return ok;
}

/* ---- answers of several --------------------------------------------------------------------- */

static int by_number(const void *a, const void *b) {
  const size_t *x = a;
  const size_t *y = b;
  return (*x > *y) - (*x < *y);
}

/* A value is in an answer if any of its endpoints is: at least as often as the most frequent one,
 * at most as often as all of them together. */
static bool cells_of_values(struct verify_cells *cells, const struct part *parts, size_t count,
                            size_t answers) {
  size_t *sizes = calloc(count + 1, sizeof *sizes);
  size_t total = 0;
  bool ok = sizes;
  cells->several = true;
  for (size_t i = 0; ok && i < count; i++) {
    sizes[i] = json_array_size(parts[i].values);
    total += sizes[i];
    for (size_t k = 0; ok && k < sizes[i]; k++) {
      long cell = cell_of(cells, json_string_value(json_array_get(parts[i].values, k)));
      ok = cell >= 0;
      if (!ok)
        break;
      double chance = parts[i].chance;
      cells->most[cell] = cells->most[cell] + chance < 1 ? cells->most[cell] + chance : 1;
      cells->shares[cell] = chance > cells->shares[cell] ? chance : cells->shares[cell];
    }
  }
  if (ok)
    qsort(sizes, count, sizeof *sizes, by_number);
  for (size_t i = 0; ok && i < answers && i < count; i++)
    cells->least += sizes[i];
  if (total > cells->count) /* shared ones: fewer may be left */
    cells->least = 1;
  free(sizes);
  return ok;
}

/* ---- by the model --------------------------------------------------------------------------- */

static bool add_value(json_t *values, uint16_t type, const uint8_t *rdata, size_t len) {
  char *text = provider_rdata_wire(type, rdata, len);
  bool ok = text && json_array_append_new(values, json_string(text)) == 0;
  free(text);
  return ok;
}

static size_t host_len(const uint8_t *host) {
  return name_wire_len(host, NAME_MAX_WIRE);
}

static json_t *values_of(const struct steer_endpoint *e, enum steer_type type) {
  json_t *values = json_array();
  bool ok = values;
  for (uint32_t i = 0; ok && type == STEER_A && i < e->addr4_count; i++)
    ok = add_value(values, RECORD_A, e->addr4[i], sizeof e->addr4[i]);
  for (uint32_t i = 0; ok && type == STEER_AAAA && i < e->addr6_count; i++)
    ok = add_value(values, RECORD_AAAA, e->addr6[i], sizeof e->addr6[i]);
  if (ok && type == STEER_CNAME)
    ok = add_value(values, RECORD_CNAME, e->host, host_len(e->host));
  if (ok)
    return values;
  json_decref(values);
  return NULL;
}

static bool make(const struct steer_domain *steer, const struct draw_table *table,
                 enum steer_type type, const struct provider_fidelity *f,
                 struct verify_cells *out) {
  struct part *parts = calloc(table->count + 1U, sizeof *parts);
  double *chances = calloc(table->count + 1U, sizeof *chances);
  size_t most = 0;
  bool ok = parts && chances;
  if (ok)
    draw_probabilities(table, chances);
  for (size_t i = 0; ok && i < table->count; i++) {
    parts[i] =
        (struct part){values_of(&steer->endpoints[table->items[i].endpoint], type), chances[i]};
    ok = parts[i].values;
    most += json_array_size(parts[i].values);
  }
  ok = ok && open_cells(out, most);
  if (ok && table->answers > 1)
    ok = cells_of_values(out, parts, table->count, table->answers);
  else if (ok && f->grade[LAYER_WEIGHT] == FIDELITY_APPROX)
    ok = cells_of_groups(out, parts, table->count);
  else if (ok)
    ok = one_cell_each(out, parts, table->count);
  if (f->grade[LAYER_WEIGHT] == FIDELITY_APPROX) {
    out->error = f->error[LAYER_WEIGHT];
    out->least = 1;
  }
  for (size_t i = 0; parts && i < table->count; i++)
    json_decref(parts[i].values);
  free(parts);
  free(chances);
  return ok;
}

bool verify_cells_make(const struct steer_domain *steer, uint32_t region, enum steer_type type,
                       const struct steer_facts *facts, const struct provider_fidelity *fidelity,
                       struct verify_cells *out) {
  struct steer_domain declared = *steer;
  *out = (struct verify_cells){0};
  if (fidelity->grade[LAYER_WEIGHT] == FIDELITY_LOST) /* one endpoint in each answer is left */
    declared.answers = 1;
  struct draw_table *table = draw_table_build(&declared, region, type, facts);
  bool ok = table && make(&declared, table, type, fidelity, out);
  free(table);
  return ok;
}

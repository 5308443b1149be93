/* SPDX-License-Identifier: Apache-2.0 */
/* Steered names: draws from a place of each region, against the model. */
#include <stdlib.h>
#include <string.h>

#include "steering/atom.h"
#include "tools/sync/verify_private.h"
#include "zones/domain_json.h"
#include "zones/record.h"

enum {
  WINDOW = 64,
  FEW = 16, /* draws where there is nothing to draw: turns of a round robin, stale servers */
  SILENT_PART = 20, /* more than one question in so many without any answer is told as silent */
  TESTS = 1 + VERIFY_FAMILIES, /* of a region: all draws, and those of each place */
};

/* One region of one domain and type. */
struct look {
  struct verify_job *job;
  const struct sync_domain *domain;
  enum steer_type type;
  const struct provider_fidelity *fidelity;
  struct steer_facts facts;
  uint32_t region;
  const struct verify_place *places; /* VERIFY_FAMILIES of them; NULL: without client subnet */
  unsigned draws;
  struct verify_cells cells;
  struct verify_observed observed[VERIFY_FAMILIES];
  bool failed;
  char why[ASK_TEXT];
};

static const char *type_text(enum steer_type type) {
  static const char *const names[STEER_TYPES] = {"A", "AAAA", "CNAME"};
  return names[type];
}

/* A resolver asks a name of host names for an address. */
static uint16_t question_type(enum steer_type type) {
  return type == STEER_AAAA ? RECORD_AAAA : RECORD_A;
}

/* ---- asking --------------------------------------------------------------------------------- */

/* The place of each draw: the families take turns. */
static size_t family_of(const struct look *look, size_t draw) {
  size_t family = draw % VERIFY_FAMILIES;
  if (!look->places)
    return 0;
  return look->places[family].known ? family : VERIFY_FAMILIES - 1 - family;
}

static void heard(void *arg, size_t index, const struct ask_answer *answer) {
  struct look *look = arg;
  if (!verify_observed_add(&look->observed[family_of(look, index)], answer, look->domain->name,
                           type_text(look->type)))
    look->failed = true;
}

/* Fills in what is observed; false without memory. */
static bool draw(struct look *look) {
  struct ask_question *questions = calloc(look->draws + 1U, sizeof *questions);
  bool ok = questions;
  for (size_t f = 0; f < VERIFY_FAMILIES; f++)
    ok = verify_observed_open(&look->observed[f]) && ok;
  for (size_t i = 0; ok && i < look->draws; i++) {
    questions[i] = (struct ask_question){
        .name = look->domain->name, .type = question_type(look->type), .family = AF_UNSPEC};
    if (!look->places)
      continue;
    const struct verify_place *place = &look->places[family_of(look, i)];
    questions[i].family = place->family;
    questions[i].bits = place->bits;
    memcpy(questions[i].subnet, place->octets, sizeof place->octets);
  }
  if (ok && !ask_many(look->job->server, questions, look->draws, WINDOW,
                      look->job->options->timeout_ms, heard, look, look->why)) {
    look->job->dead = true;
    ok = strcmp(look->why, ASK_MEMORY) != 0;
  }
  free(questions);
  return ok && !look->failed;
}

/* ---- the line ------------------------------------------------------------------------------- */

static bool join(char **out, const char *text) {
  char *joined;
  if (asprintf(&joined, "%s%s%s", *out ? *out : "", *out ? ", " : "", text) < 0)
    return false;
  free(*out);
  *out = joined;
  return true;
}

/* A line of these answers; `places` is the bit set of families. */
static struct verify_line *add_line(const struct look *look, const struct verify_observed *o,
                                    unsigned places, double p, enum verify_verdict verdict) {
  const struct steer_domain *steer = look->domain->domain->steer;
  struct verify_line *line =
      verify_line_add(look->job, look->domain->name, type_text(look->type), verdict);
  if (!line)
    return NULL;
  line->steered = true;
  line->draws = (unsigned)o->answers;
  line->p = p;
  line->region = strdup(steer->regions[look->region].name);
  line->expected = verify_shares_expected(&look->cells);
  line->observed = verify_shares_observed(&look->cells, o);
  bool ok = line->region && line->expected && line->observed;
  for (size_t f = 0; ok && look->places && f < VERIFY_FAMILIES; f++)
    if ((places & 1U << f) != 0 && look->places[f].known)
      ok = join(&line->place, look->places[f].text);
  return ok ? line : NULL;
}

/* The first region of the domain, other than this one, whose shares these are; or -1. */
static long other_region(const struct look *look, const struct verify_observed *o) {
  const struct steer_domain *steer = look->domain->domain->steer;
  for (uint32_t r = 0; r < steer->region_count; r++) {
    struct verify_cells cells;
    bool made = verify_cells_make(steer, r, look->type, &look->facts, look->fidelity, &cells);
    double p = made ? verify_chance(&cells, o) : 0;
    verify_cells_close(&cells);
    if (r != look->region && p >= look->job->alpha)
      return r;
  }
  return -1;
}

/* What the provider has declared that may be the reason: "geo is approximate: ...", or NULL. */
static const char *declared(const struct look *look) {
  static _Thread_local char text[ASK_TEXT];
  static const enum provider_layer layers[] = {LAYER_GEO, LAYER_STATUS};
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
    enum provider_layer layer = layers[i];
    if (look->fidelity->grade[layer] == FIDELITY_EXACT || (layer == LAYER_GEO && !look->places))
      continue;
    snprintf(text, sizeof text, "%s is %s: %.200s", provider_layer_name(layer),
             look->fidelity->grade[layer] == FIDELITY_LOST ? "lost" : "approximate",
             look->fidelity->why[layer]);
    return text;
  }
  return NULL;
}

static bool differs(const struct look *look, const struct verify_observed *o, unsigned places,
                    double p) {
  const struct steer_domain *steer = look->domain->domain->steer;
  long other = other_region(look, o);
  bool blind = look->places && o->subnets == 0;
  struct verify_line *line =
      add_line(look, o, places, p, blind && other >= 0 ? VERIFY_SKIPPED : VERIFY_DIFFERS);
  if (!line)
    return false;
  const char *name = other >= 0 ? steer->regions[other].name : "";
  if (blind && other >= 0)
    return verify_line_say(line,
                           "it takes no notice of client subnets (RFC 7871): its answers are those "
                           "of region %.63s, where this machine may be",
                           name);
  if (other >= 0)
    return verify_line_say(
        line,
        "its answers are those of region %.63s: its location data may differ, or "
        "its regions",
        name);
  const char *layer = declared(look);
  return layer ? verify_line_say(line, "shares differ; there, %.200s", layer)
               : verify_line_say(line, "shares differ");
}

static bool too_long(const struct look *look, const struct verify_observed *o, unsigned places,
                     double p) {
  struct verify_line *line = add_line(look, o, places, p, VERIFY_DIFFERS);
  return line && verify_line_say(line, "its TTL is %u, above the %u of the configuration", o->ttl,
                                 look->domain->domain->steer->ttl);
}

static bool silent(const struct look *look, const struct verify_observed *o) {
  struct verify_line *line = add_line(look, o, 3, 1, VERIFY_SILENT);
  return line && verify_line_say(line, "%llu of %u questions without an answer: %.200s",
                                 (unsigned long long)(look->draws - o->answers), look->draws,
                                 o->why[0] ? o->why : look->why);
}

static bool same(const struct look *look, const struct verify_observed *o, double p) {
  bool many = (look->draws - o->answers) * SILENT_PART > look->draws;
  struct verify_line *line = add_line(look, o, 3, p, many ? VERIFY_SILENT : VERIFY_SAME);
  if (line && o->answers < look->draws)
    return verify_line_say(line, "%llu of %u questions without an answer: %.200s",
                           (unsigned long long)(look->draws - o->answers), look->draws, o->why);
  return line;
}

/* All draws together, and those of each place: what differs is told of the places where it does. */
static bool judge(const struct look *look, const struct verify_observed *all) {
  double alpha = look->job->alpha;
  double whole = verify_chance(&look->cells, all);
  unsigned bad = 0;
  double least = whole;
  if (all->answers * 2 < look->draws)
    return silent(look, all);
  for (unsigned f = 0; f < VERIFY_FAMILIES; f++) {
    double p = verify_chance(&look->cells, &look->observed[f]);
    least = p < least ? p : least;
    bad |= p < alpha ? 1U << f : 0;
  }
  if (least < 0)
    return false;
  if (bad == 1 || bad == 2)
    return differs(look, &look->observed[bad - 1], bad, least);
  if (bad != 0 || whole < alpha)
    return differs(look, all, 3, least);
  if (all->ttl > look->domain->domain->steer->ttl)
    return too_long(look, all, 3, whole);
  return same(look, all, whole);
}

static bool look_at(struct look *look) {
  struct verify_observed all = {0};
  bool ok = draw(look) && verify_observed_open(&all);
  for (size_t f = 0; ok && f < VERIFY_FAMILIES; f++)
    ok = verify_observed_join(&all, &look->observed[f]);
  ok = ok && judge(look, &all);
  for (size_t f = 0; f < VERIFY_FAMILIES; f++)
    verify_observed_close(&look->observed[f]);
  verify_observed_close(&all);
  return ok;
}

static bool skip_region(const struct look *look, const char *why) {
  struct verify_line *line =
      verify_line_add(look->job, look->domain->name, type_text(look->type), VERIFY_SKIPPED);
  if (!line)
    return false;
  line->steered = true;
  line->region = strdup(look->domain->domain->steer->regions[look->region].name);
  return line->region && verify_line_say(line, "%s", why);
}

static bool look_at_region(struct look *look) {
  const struct steer_domain *steer = look->domain->domain->steer;
  if (look->places && !look->places[0].known && !look->places[1].known)
    return skip_region(look, look->fidelity->grade[LAYER_GEO] == FIDELITY_LOST
                                 ? "its places are lost at this provider, as declared"
                                 : "no place of it is known: name a location database (--geo)");
  bool ok = verify_cells_make(steer, look->region, look->type, &look->facts, look->fidelity,
                              &look->cells) &&
            look_at(look);
  verify_cells_close(&look->cells);
  return ok;
}

/* ---- names that are not steered there ------------------------------------------------------- */

/* The plain RRset that the provider is to have instead of steering, or NULL. */
static const json_t *plain_values(const struct sync_target *t, const char *name, const char *type) {
  for (size_t i = 0; i < t->desired.count; i++) {
    const struct provider_object *o = &t->desired.items[i];
    const json_t *values = json_object_get(o->body, "values");
    if (strcmp(o->name, name) == 0 && strcmp(o->type, type) == 0 && json_is_array(values) &&
        json_object_get(o->body, "ttl") && json_object_size(o->body) == 2)
      return values;
  }
  return NULL;
}

/* Every answer is to be this set. */
static bool look_at_set(struct look *look, const json_t *values) {
  struct verify_line *line;
  look->draws = FEW;
  look->places = NULL;
  look->region = 0;
  size_t before = look->job->report->count;
  bool ok = verify_cells_set(values, &look->cells) && look_at(look);
  verify_cells_close(&look->cells);
  for (size_t i = before; ok && i < look->job->report->count; i++) {
    line = &look->job->report->lines[i];
    free(line->region);
    line->region = NULL;
    line->p = 1;
    if (line->verdict == VERIFY_DIFFERS && line->text && strstr(line->text, "region"))
      ok = verify_line_say(line, "it is to have this one answer there");
  }
  return ok;
}

/* ---- domains -------------------------------------------------------------------------------- */

/* As `compile` in run.c: health counts where it is pushed, or the provider's own probes find it. */
static struct steer_facts facts_of(const struct verify_job *job, const struct sync_domain *d,
                                   const struct provider_fidelity *fidelity) {
  const char *health =
      json_string_value(json_object_get(job->target->provider->settings, "health"));
  bool none =
      (health && strcmp(health, "none") == 0) || fidelity->grade[LAYER_STATUS] == FIDELITY_LOST;
  return (struct steer_facts){.status = none ? d->manual : d->status, .weights = d->weights};
}

/* As declared for this domain, but the error of its shares only where weights are scaled: else it
 * is about the addresses of an endpoint, and the endpoints' shares stay. */
static struct provider_fidelity fidelity_of(const struct verify_job *job, size_t d) {
  const struct sync_domain *domain = &job->target->zone->domains[d];
  const struct steer_domain *steer = domain->domain->steer;
  uint32_t most = job->target->provider->kind->can.weight_max;
  struct provider_fidelity out = job->target->fidelity[d];
  size_t at = 0;
  for (uint32_t r = 0; r < steer->region_count; r++)
    for (uint32_t l = 0; l < steer->regions[r].level_count; l++)
      for (uint32_t e = 0; e < steer->regions[r].levels[l].entry_count; e++, at++) {
        int32_t set = domain->weights ? domain->weights[at] : -1;
        uint32_t weight = set >= 0 ? (uint32_t)set : steer->regions[r].levels[l].entries[e].weight;
        if (weight > most)
          return out;
      }
  if (out.grade[LAYER_WEIGHT] == FIDELITY_APPROX && steer->answers == 1)
    out.error[LAYER_WEIGHT] = 0;
  return out;
}

static size_t atoms_of(const struct steer_domain *d) {
  size_t count = 0;
  for (uint32_t r = 0; r < d->region_count; r++)
    count += d->regions[r].atom_count;
  return count;
}

/* Regions of the model with the atoms of `from`; those alone where it has less of them, else net
 * atoms and `global`, which need no location data. */
static bool reduce(const struct steer_domain *model, const struct steer_domain *from,
                   struct steer_domain *out) {
  bool fewer = from && atoms_of(from) < atoms_of(model);
  *out = *model;
  out->regions = calloc(model->region_count, sizeof *out->regions);
  if (!out->regions)
    return false;
  for (uint32_t r = 0; r < model->region_count; r++) {
    const struct steer_region *mine = &model->regions[r];
    struct steer_region *left = &out->regions[r];
    long its = fewer ? steer_region_find(from, mine->name) : -1;
    *left = *mine;
    left->atom_count = 0;
    left->atoms = calloc(mine->atom_count + 1, sizeof *left->atoms);
    if (!left->atoms)
      return false;
    for (uint32_t i = 0; i < mine->atom_count; i++) {
      bool keep = !fewer && (mine->atoms[i].kind == ATOM_NET || mine->atoms[i].kind == ATOM_GLOBAL);
      for (uint32_t k = 0; fewer && k < (its >= 0 ? from->regions[its].atom_count : 0); k++) {
        keep = steer_atom_equal(&from->regions[its].atoms[k], &mine->atoms[i]);
        if (keep)
          break;
      }
      if (keep)
        left->atoms[left->atom_count++] = mine->atoms[i];
    }
  }
  return true;
}

/* Places of the regions, as far as the provider has them. */
static struct verify_place *places_of(const struct verify_job *job, size_t d,
                                      const struct provider_fidelity *fidelity) {
  const struct steer_domain *steer = job->target->zone->domains[d].domain->steer;
  if (fidelity->grade[LAYER_GEO] != FIDELITY_LOST)
    return verify_places(job->geo, steer, NULL);
  char why[DOMAIN_JSON_WHY];
  const json_t *after = job->target->after ? job->target->after[d] : NULL;
  struct steer_domain *declared = after ? domain_json_decode(after, why) : NULL;
  struct steer_domain left;
  struct verify_place *out =
      reduce(steer, declared, &left) ? verify_places(job->geo, steer, &left) : NULL;
  for (uint32_t r = 0; left.regions && r < left.region_count; r++)
    free(left.regions[r].atoms);
  free(left.regions);
  steer_domain_free(declared);
  return out;
}

static bool look_at_type(struct look *look, const struct verify_place *places) {
  const struct steer_domain *steer = look->domain->domain->steer;
  const json_t *values = plain_values(look->job->target, look->domain->name, type_text(look->type));
  if (values)
    return look_at_set(look, values);
  bool ok = true;
  for (uint32_t r = 0; ok && !look->job->dead && r < steer->region_count; r++) {
    look->region = r;
    look->places = steer->region_count > 1 ? &places[r * VERIFY_FAMILIES] : NULL;
    look->draws = look->job->options->draws ? look->job->options->draws : VERIFY_DRAWS;
    ok = look_at_region(look);
  }
  return ok;
}

static const char *refusal_of(const struct sync_target *t, const char *name) {
  for (size_t i = 0; i < t->refusal_count; i++)
    if (strcmp(t->refusals[i].domain, name) == 0)
      return t->refusals[i].why;
  return NULL;
}

static bool look_at_domain(struct verify_job *job, size_t d) {
  const struct sync_domain *domain = &job->target->zone->domains[d];
  const struct steer_domain *steer = domain->domain->steer;
  const struct provider_fidelity fidelity = fidelity_of(job, d);
  const char *refusal = refusal_of(job->target, domain->name);
  if (refusal) {
    struct verify_line *line = verify_line_add(job, domain->name, "steered", VERIFY_SKIPPED);
    if (line)
      line->steered = true;
    return line && verify_line_say(line, "refused there: %.300s", refusal);
  }
  struct verify_place *places = places_of(job, d, &fidelity);
  bool ok = places;
  for (int type = 0; ok && !job->dead && type < STEER_TYPES; type++) {
    struct look look = {
        .job = job,
        .domain = domain,
        .type = (enum steer_type)type,
        .fidelity = &fidelity,
        .facts = facts_of(job, domain, &fidelity),
    };
    bool absent = !steer->offers[type] && type != STEER_CNAME && !steer->offers[STEER_CNAME];
    if (steer->offers[type])
      ok = look_at_type(&look, places);
    else if (absent)
      ok = look_at_set(&look, NULL);
  }
  free(places);
  return ok;
}

bool verify_steered(struct verify_job *job) {
  const struct sync_zone *zone = job->target->zone;
  bool ok = true;
  for (size_t d = 0; ok && !job->dead && d < zone->zone->domain_count; d++)
    if (verify_selects(zone, zone->domains[d].name))
      ok = look_at_domain(job, d);
  return ok;
}

size_t verify_tests(const struct sync_target *target) {
  const struct sync_zone *zone = target->zone;
  size_t count = 0;
  for (size_t d = 0; d < zone->zone->domain_count; d++)
    count += (size_t)zone->domains[d].domain->steer->region_count * STEER_TYPES * TESTS;
  return count;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "server/facts.h"

#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <urcu-qsbr.h>
#include <uv.h>

#include "base/fs.h"
#include "base/log.h"
#include "server/endpoint_index.h"
#include "server/facts_store.h"

enum {
  STATE_FILE_MAX = 256 << 20,
  STATE_FILE_MODE = 0600,
  THREADS_MAX = 16,
  THREAD_LEAST = 4096, /* domains for which one more thread is worth starting */
  PIECE = 256,         /* domains that a thread takes at a time */
};

struct facts {
  struct fact_table table;
  char *path; /* or NULL: nothing is kept */
  bool unsaved;
  bool ignore_measured; /* what the checker said does not count */
  uint64_t mark;        /* of the latest change */
};

/* ---- the file ---------------------------------------------------------------------------------
 */

static void set_aside(const char *path, const char *reason) {
  char aside[4096];
  snprintf(aside, sizeof aside, "%s.damaged", path);
  if (rename(path, aside) == 0)
    log_warning("%s is damaged (%s): set aside as %s, no earlier status is known", path, reason,
                aside);
  else
    log_warning("%s is damaged (%s): ignored, no earlier status is known", path, reason);
}

static bool parse(struct facts *facts, const uint8_t *text, size_t length, char *why) {
  json_error_t error;
  json_t *root = json_loadb((const char *)text, length, JSON_REJECT_DUPLICATES, &error);
  if (root == NULL) {
    snprintf(why, FACTS_WHY, "line %d: %.100s", error.line, error.text);
    return false;
  }
  bool ok = fact_table_from_json(&facts->table, root, &facts->unsaved);
  if (!ok)
    snprintf(why, FACTS_WHY, "not a status file of this version");
  json_decref(root);
  return ok;
}

/* False only if the server cannot go on: what is damaged is set aside. */
static bool read_state(struct facts *facts, char *why) {
  uint8_t *text = NULL;
  size_t length = 0;
  char reason[FACTS_WHY];
  if (access(facts->path, F_OK) != 0 && errno == ENOENT)
    return true;
  if (!fs_read(facts->path, STATE_FILE_MAX, &text, &length, why))
    return false;
  bool ok = parse(facts, text, length, reason);
  free(text);
  if (ok)
    return true;
  fact_table_close(&facts->table);
  set_aside(facts->path, reason);
  return fact_table_init(&facts->table);
}

struct facts *facts_open(const char *state_dir, char *why) {
  struct facts *facts = calloc(1, sizeof *facts);
  if (facts == NULL || !fact_table_init(&facts->table))
    goto out_of_memory;
  if (state_dir == NULL)
    return facts;
  facts->path = fs_join(state_dir, "status.json");
  if (facts->path == NULL)
    goto out_of_memory;
  if (fs_make_dirs(state_dir, why) && read_state(facts, why))
    return facts;
  facts_close(facts);
  return NULL;
out_of_memory:
  snprintf(why, FACTS_WHY, "out of memory");
  facts_close(facts);
  return NULL;
}

void facts_close(struct facts *facts) {
  if (facts == NULL)
    return;
  fact_table_close(&facts->table);
  free(facts->path);
  free(facts);
}

struct facts_save {
  struct buf copy;
  const char *path; /* of the facts */
};

struct facts_save *facts_save_begin(struct facts *facts) {
  if (!facts->unsaved || facts->path == NULL)
    return NULL;
  struct facts_save *save = calloc(1, sizeof *save);
  if (save == NULL)
    return NULL;
  buf_init(&save->copy);
  save->path = facts->path;
  fact_table_copy(&facts->table, &save->copy);
  facts->unsaved = false;
  return save;
}

bool facts_save_run(const struct facts_save *save, char *why) {
  struct buf text;
  buf_init(&text);
  fact_copy_to_text(&save->copy, &text);
  bool ok = !save->copy.failed && !text.failed;
  if (ok)
    ok = fs_write_atomic(save->path, text.data, text.len, STATE_FILE_MODE, why);
  else
    snprintf(why, FACTS_WHY, "out of memory");
  buf_close(&text);
  return ok;
}

void facts_save_end(struct facts *facts, struct facts_save *save, bool done) {
  facts->unsaved = facts->unsaved || !done;
  buf_close(&save->copy);
  free(save);
}

bool facts_flush(struct facts *facts, char *why) {
  if (!facts->unsaved || facts->path == NULL)
    return true;
  struct facts_save *save = facts_save_begin(facts);
  snprintf(why, FACTS_WHY, "out of memory");
  bool ok = save != NULL && facts_save_run(save, why);
  if (save != NULL)
    facts_save_end(facts, save, ok);
  return ok;
}

/* ---- draw tables ------------------------------------------------------------------------------
 */

struct steer_facts facts_of(const struct served *served, uint32_t domain) {
  return (struct steer_facts){.status = served->states[domain].status,
                              .weights = served->states[domain].weights};
}

/* What layer 2 sees of a record now. */
static struct steer_status status_now(const struct facts *facts, const struct fact *fact) {
  if (!facts->ignore_measured)
    return fact_status(fact);
  struct fact forced = *fact;
  forced.values[FACT_HEALTH4] = forced.values[FACT_HEALTH6] = HEALTH_UNKNOWN;
  return fact_status(&forced);
}

/* True if layer 2 judges both the same way: not known counts as up. */
static bool is_same_for_layers(struct steer_status a, struct steer_status b) {
  return a.manual == b.manual && (a.health4 == HEALTH_DOWN) == (b.health4 == HEALTH_DOWN) &&
         (a.health6 == HEALTH_DOWN) == (b.health6 == HEALTH_DOWN);
}

/* Makes room for the status of a domain's endpoints; false without memory. */
static bool make_room(struct served *served, uint32_t domain) {
  struct served_domain *state = &served->states[domain];
  if (state->facts != NULL)
    return true;
  size_t count = served->domains[domain].steer->endpoint_count;
  state->facts = calloc(count, sizeof(struct fact *) + sizeof *state->status);
  if (state->facts == NULL)
    return false;
  state->status = (struct steer_status *)(void *)(state->facts + count);
  return true;
}

/* Makes room for the weights of a domain's entries; false without memory. */
static bool make_weights(struct served *served, uint32_t domain) {
  struct served_domain *state = &served->states[domain];
  uint32_t count = served->domains[domain].steer->entry_count;
  if (state->weights != NULL)
    return true;
  state->weights = malloc(((size_t)count + 1) * sizeof *state->weights);
  for (uint32_t i = 0; state->weights != NULL && i < count; i++)
    state->weights[i] = -1;
  return state->weights != NULL;
}

bool facts_set_weight(struct served *served, uint32_t domain, uint32_t entry, int32_t weight) {
  if (!make_weights(served, domain))
    return false;
  served->states[domain].weights[entry] = weight;
  return true;
}

/* Domains whose tables have to be made anew, with the new tables. */
struct refresh {
  uint32_t *domains;
  const struct view_draws **draws;
  size_t count;
};

static bool refresh_init(struct refresh *r, size_t most) {
  *r = (struct refresh){.domains = calloc(most + 1, sizeof *r->domains),
                        .draws = calloc(most + 1, sizeof *r->draws)};
  return r->domains != NULL && r->draws != NULL;
}

/* What the threads of refresh_compute() have in common. */
struct work {
  struct refresh *refresh;
  const struct served *served;
  atomic_size_t next; /* of the domains, nobody has taken it yet */
  atomic_bool failed;
};

enum { AHEAD_REGIONS = 4, AHEAD_LEVELS = 2 }; /* of a domain; what is more is not fetched */

static void fetch_levels(const struct steer_domain *steer) {
  uint32_t count = steer->region_count < AHEAD_REGIONS ? steer->region_count : AHEAD_REGIONS;
  for (uint32_t r = 0; r < count; r++)
    __builtin_prefetch(steer->regions[r].levels);
}

static void fetch_entries(const struct steer_domain *steer) {
  uint32_t count = steer->region_count < AHEAD_REGIONS ? steer->region_count : AHEAD_REGIONS;
  for (uint32_t r = 0; r < count; r++) {
    const struct steer_region *region = &steer->regions[r];
    for (uint32_t l = 0; l < region->level_count && l < AHEAD_LEVELS; l++)
      __builtin_prefetch(region->levels[l].entries);
  }
}

/* A domain is some pointers deep, and none of it is in the cache when a change touches many: each
 * step of the way is fetched while those before it are computed. */
static void look_ahead(const struct work *work, size_t i, size_t end) {
  enum { STEER = 12, PARTS = 8, LEVELS = 5, ENTRIES = 2, LINE = 64 };
  const uint32_t *domains = work->refresh->domains;
  const struct view_domain *served = work->served->domains;
  if (i + STEER < end) {
    __builtin_prefetch(served[domains[i + STEER]].steer);
    __builtin_prefetch(work->served->states[domains[i + STEER]].status);
  }
  if (i + PARTS < end) {
    const struct steer_domain *steer = served[domains[i + PARTS]].steer;
    size_t regions = steer->region_count * sizeof *steer->regions;
    size_t endpoints = steer->endpoint_count * sizeof *steer->endpoints;
    for (size_t at = 0; at < regions && at < AHEAD_REGIONS * sizeof *steer->regions; at += LINE)
      __builtin_prefetch((const char *)steer->regions + at);
    for (size_t at = 0; at < endpoints && at < AHEAD_REGIONS * sizeof *steer->endpoints; at += LINE)
      __builtin_prefetch((const char *)steer->endpoints + at);
  }
  if (i + LEVELS < end)
    fetch_levels(served[domains[i + LEVELS]].steer);
  if (i + ENTRIES < end)
    fetch_entries(served[domains[i + ENTRIES]].steer);
}

/* Takes pieces of the list until there is none left, so that nobody waits for a thread that the
 * system lets wait. */
static void *compute_pieces(void *arg) {
  struct work *work = arg;
  struct refresh *r = work->refresh;
  size_t from;
  while ((from = atomic_fetch_add(&work->next, PIECE)) < r->count) {
    size_t end = from + PIECE < r->count ? from + PIECE : r->count;
    for (size_t i = from; i < end; i++) {
      look_ahead(work, i, end);
      struct steer_facts known = facts_of(work->served, r->domains[i]);
      r->draws[i] = load_make_draws(work->served->domains[r->domains[i]].steer, &known);
      if (r->draws[i] == NULL)
        atomic_store(&work->failed, true);
    }
  }
  return NULL;
}

/* Makes the new tables; many of them on all processors, for a change that touches every domain has
 * to be live at once. */
static bool refresh_compute(struct refresh *r, const struct served *served) {
  struct work work = {.refresh = r, .served = served};
  pthread_t threads[THREADS_MAX];
  size_t wanted = r->count / THREAD_LEAST;
  size_t processors = uv_available_parallelism();
  if (wanted > processors - 1)
    wanted = processors - 1;
  if (wanted > THREADS_MAX)
    wanted = THREADS_MAX;
  size_t started = 0;
  while (started < wanted && pthread_create(&threads[started], NULL, compute_pieces, &work) == 0)
    started++;
  compute_pieces(&work);
  for (size_t i = 0; i < started; i++)
    pthread_join(threads[i], NULL);
  return !atomic_load(&work.failed);
}

/* Publishes the new tables; afterwards `draws` holds the old ones. */
static void refresh_swap(struct refresh *r, struct served *served) {
  for (size_t i = 0; i < r->count; i++)
    r->draws[i] = atomic_exchange_explicit(&served->domains[r->domains[i]].draws, r->draws[i],
                                           memory_order_acq_rel);
}

static void refresh_close(struct refresh *r) {
  for (size_t i = 0; r->draws != NULL && i < r->count; i++)
    load_free_draws(r->draws[i]);
  free(r->domains);
  free(r->draws);
}

static void refresh_add(struct refresh *r, struct served *served, uint32_t domain, uint64_t mark) {
  if (served->states[domain].mark == mark)
    return;
  served->states[domain].mark = mark;
  r->domains[r->count++] = domain;
}

/* ---- a new view -------------------------------------------------------------------------------
 */

/* Where records are looked up. */
struct finder {
  const struct served *served;
  struct endpoint_index *index;
};

/* Where a record's endpoint is in the view; false if it is not there any more. */
static bool find_target(const struct finder *in, const struct fact *fact, uint32_t *domain,
                        uint16_t *endpoint) {
  long d = load_find_domain(in->served, fact->owner);
  long e =
      d >= 0 ? endpoint_index_find(in->index, in->served->domains[d].steer, fact->endpoint) : -1;
  if (e < 0)
    return false;
  *domain = (uint32_t)d;
  *endpoint = (uint16_t)e;
  return true;
}

static bool keep_target(void *arg, const struct fact *fact) {
  uint32_t domain;
  uint16_t endpoint;
  return find_target(arg, fact, &domain, &endpoint);
}

bool facts_force(struct facts *facts, const uint8_t *owner, const char *endpoint, uint8_t field,
                 uint8_t value) {
  struct fact *fact = fact_table_get(&facts->table, owner, endpoint);
  if (fact != NULL)
    fact->values[field] = value;
  return fact != NULL;
}

bool facts_attach(struct facts *facts, struct served *served) {
  struct refresh refresh;
  struct finder finder = {.served = served, .index = endpoint_index_new()};
  bool ok = refresh_init(&refresh, served->domain_count) && finder.index != NULL;
  uint64_t mark = ++facts->mark;
  size_t gone = 0;
  for (uint32_t d = 0; ok && d < served->domain_count; d++)
    if (served->states[d].weights != NULL)
      refresh_add(&refresh, served, d, mark);
  for (size_t i = 0; ok && i < facts->table.capacity; i++) {
    struct fact *fact = facts->table.slots[i];
    uint32_t domain;
    uint16_t endpoint;
    if (fact == NULL)
      continue;
    if (!find_target(&finder, fact, &domain, &endpoint)) {
      gone++;
      continue;
    }
    ok = make_room(served, domain);
    if (ok) {
      served->states[domain].facts[endpoint] = fact;
      struct steer_status status = status_now(facts, fact);
      served->states[domain].status[endpoint] = status;
      if (!is_same_for_layers(status, (struct steer_status){.manual = MANUAL_NONE}))
        refresh_add(&refresh, served, domain, mark);
    }
  }
  ok = ok && refresh_compute(&refresh, served);
  if (ok)
    refresh_swap(&refresh, served);
  refresh_close(&refresh);
  if (ok && gone > 0) {
    facts->unsaved = true;
    ok = fact_table_filter(&facts->table, keep_target, &finder);
  }
  endpoint_index_free(finder.index);
  return ok;
}

/* ---- changes ----------------------------------------------------------------------------------
 */

struct undo {
  struct fact *fact; /* NULL: nothing was changed; not of FACT_WEIGHT */
  int32_t value;
  bool changed;
};

/* The record of an endpoint, made if there is none; NULL without memory. */
static struct fact *take_fact(struct facts *facts, struct served *served,
                              const struct fact_change *change) {
  if (!make_room(served, change->domain))
    return NULL;
  struct fact **place = &served->states[change->domain].facts[change->endpoint];
  const struct steer_domain *steer = served->domains[change->domain].steer;
  if (*place == NULL)
    *place = fact_table_get(&facts->table, steer->owner, steer->endpoints[change->endpoint].name);
  return *place;
}

static bool change_weight(struct facts *facts, struct served *served,
                          const struct fact_change *change, struct undo *undo,
                          struct refresh *refresh) {
  if (!make_weights(served, change->domain))
    return false;
  int32_t *weight = &served->states[change->domain].weights[change->entry];
  *undo = (struct undo){.value = *weight, .changed = true};
  if (*weight != change->value)
    refresh_add(refresh, served, change->domain, facts->mark);
  *weight = change->value;
  return true;
}

/* Also takes the change over into the status that layer 2 reads. */
static bool change_status(struct facts *facts, struct served *served,
                          const struct fact_change *change, struct undo *undo,
                          struct refresh *refresh) {
  struct fact *fact = take_fact(facts, served, change);
  if (fact == NULL)
    return false;
  *undo = (struct undo){.fact = fact, .value = fact->values[change->field], .changed = true};
  fact->values[change->field] = (uint8_t)change->value;
  struct steer_status *status = &served->states[change->domain].status[change->endpoint];
  struct steer_status next = status_now(facts, fact);
  if (!is_same_for_layers(*status, next))
    refresh_add(refresh, served, change->domain, facts->mark);
  *status = next;
  return true;
}

/* Latest first, so that what was changed twice gets its first value back. */
static void take_back(const struct facts *facts, struct served *served,
                      const struct fact_change *changes, struct undo *undos, size_t count) {
  for (size_t i = count; i-- > 0;) {
    struct served_domain *state = &served->states[changes[i].domain];
    struct fact *fact = undos[i].fact;
    if (!undos[i].changed)
      continue;
    if (fact == NULL) {
      state->weights[changes[i].entry] = undos[i].value;
      continue;
    }
    fact->values[changes[i].field] = (uint8_t)undos[i].value;
    state->status[changes[i].endpoint] = status_now(facts, fact);
  }
}

/* As look_ahead(), for the records. */
static void look_ahead_at_facts(const struct served *served, const struct fact_change *changes,
                                size_t i, size_t count) {
  enum { STATE = 16, LIST = 10, FACT = 5 };
  if (i + STATE < count)
    __builtin_prefetch(&served->states[changes[i + STATE].domain]);
  if (i + LIST < count) {
    const struct served_domain *state = &served->states[changes[i + LIST].domain];
    __builtin_prefetch(state->facts);
    __builtin_prefetch(state->status);
  }
  if (i + FACT < count && changes[i + FACT].field != FACT_WEIGHT) {
    const struct served_domain *state = &served->states[changes[i + FACT].domain];
    if (state->facts != NULL)
      __builtin_prefetch(state->facts[changes[i + FACT].endpoint]);
  }
}

static bool change_all(struct facts *facts, struct served *served,
                       const struct fact_change *changes, size_t count, struct undo *undos,
                       struct refresh *refresh) {
  facts->mark++;
  for (size_t i = 0; i < count; i++) {
    look_ahead_at_facts(served, changes, i, count);
    bool weight = changes[i].field == FACT_WEIGHT;
    if (!(weight ? change_weight : change_status)(facts, served, &changes[i], &undos[i], refresh))
      return false;
  }
  return refresh_compute(refresh, served);
}

static bool is_measurement(const struct fact_change *change) {
  return change->field == FACT_HEALTH4 || change->field == FACT_HEALTH6;
}

bool facts_apply(struct facts *facts, struct served *served, const struct fact_change *changes,
                 size_t count, const struct fact_commit *commit, char *why) {
  struct refresh refresh;
  struct undo *undos = calloc(count + 1, sizeof *undos);
  snprintf(why, FACTS_WHY, "out of memory");
  bool ok = refresh_init(&refresh, count) && undos != NULL &&
            change_all(facts, served, changes, count, undos, &refresh);
  if (ok && commit != NULL)
    ok = commit->run(commit->arg, why); /* nothing can fail after it */
  if (ok) {
    refresh_swap(&refresh, served);
    if (refresh.count > 0)
      synchronize_rcu(); /* one wait for all */
    for (size_t i = 0; i < count; i++)
      facts->unsaved = facts->unsaved || is_measurement(&changes[i]);
  } else if (undos != NULL) {
    take_back(facts, served, changes, undos, count);
  }
  refresh_close(&refresh);
  free(undos);
  return ok;
}

/* ---- all of what was measured -----------------------------------------------------------------
 */

/* Computes the status of all endpoints of a view again. */
static void update_all(const struct facts *facts, struct served *served, struct refresh *refresh) {
  for (uint32_t d = 0; d < served->domain_count; d++) {
    struct served_domain *state = &served->states[d];
    for (uint32_t e = 0; state->facts != NULL && e < served->domains[d].steer->endpoint_count;
         e++) {
      if (state->facts[e] == NULL)
        continue;
      struct steer_status next = status_now(facts, state->facts[e]);
      if (refresh != NULL && !is_same_for_layers(state->status[e], next))
        refresh_add(refresh, served, d, facts->mark);
      state->status[e] = next;
    }
  }
}

bool facts_ignore_measured(struct facts *facts, struct served *served, bool ignore) {
  struct refresh refresh;
  if (facts->ignore_measured == ignore)
    return true;
  bool ok = refresh_init(&refresh, served->domain_count);
  if (ok) {
    facts->ignore_measured = ignore;
    facts->mark++;
    update_all(facts, served, &refresh);
    ok = refresh_compute(&refresh, served);
    if (ok) {
      refresh_swap(&refresh, served);
      synchronize_rcu();
    } else {
      facts->ignore_measured = !ignore;
      update_all(facts, served, NULL);
    }
  }
  refresh_close(&refresh);
  return ok;
}

/* ---- looking ----------------------------------------------------------------------------------
 */

struct fact_health facts_health(const struct served *served, uint32_t domain, uint16_t endpoint,
                                int family) {
  struct fact **facts = served->states[domain].facts;
  const struct fact *fact = facts != NULL ? facts[endpoint] : NULL;
  if (fact == NULL)
    return (struct fact_health){.measured = HEALTH_UNKNOWN};
  return (struct fact_health){.measured = fact->values[family == 4 ? FACT_HEALTH4 : FACT_HEALTH6],
                              .forced = fact->values[family == 4 ? FACT_FORCED4 : FACT_FORCED6]};
}

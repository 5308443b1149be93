/* SPDX-License-Identifier: Apache-2.0 */
#include "server/facts.h"

#include <errno.h>
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
#include "server/facts_store.h"

enum {
  STATE_FILE_MAX = 256 << 20,
  STATE_FILE_MODE = 0600,
  SHARES_MAX = 16,
  SHARE_LEAST = 4096, /* domains for which one more thread is worth starting */
};

struct facts {
  struct fact_table table;
  char *path; /* or NULL: nothing is kept */
  bool unsaved;
  uint64_t mark; /* of the latest change */
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
  bool ok = fact_table_from_json(&facts->table, root);
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

static bool save(struct facts *facts, char *why) {
  if (facts->path == NULL)
    return true;
  json_t *root = fact_table_to_json(&facts->table);
  char *text = root != NULL ? json_dumps(root, JSON_INDENT(1)) : NULL;
  json_decref(root);
  if (text == NULL) {
    snprintf(why, FACTS_WHY, "out of memory");
    return false;
  }
  bool ok = fs_write_atomic(facts->path, text, strlen(text), STATE_FILE_MODE, why);
  free(text);
  facts->unsaved = facts->unsaved && !ok;
  return ok;
}

bool facts_flush(struct facts *facts, char *why) {
  return !facts->unsaved || save(facts, why);
}

/* ---- draw tables ------------------------------------------------------------------------------
 */

struct steer_facts facts_of(const struct served *served, uint32_t domain) {
  return (struct steer_facts){.status = served->states[domain].status};
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

/* A share of the work of refresh_compute(). */
struct share {
  struct refresh *refresh;
  const struct served *served;
  size_t from, to;
  pthread_t thread;
  bool started;
  bool ok;
};

static void *compute_share(void *arg) {
  struct share *share = arg;
  struct refresh *r = share->refresh;
  share->ok = true;
  for (size_t i = share->from; share->ok && i < share->to; i++) {
    struct steer_facts known = facts_of(share->served, r->domains[i]);
    r->draws[i] = load_make_draws(share->served->domains[r->domains[i]].steer, &known);
    share->ok = r->draws[i] != NULL;
  }
  return NULL;
}

/* Makes the new tables; many of them on all processors, for a change that touches every domain has
 * to be live at once. */
static bool refresh_compute(struct refresh *r, const struct served *served) {
  struct share shares[SHARES_MAX];
  size_t count = r->count / SHARE_LEAST + 1;
  size_t processors = uv_available_parallelism();
  if (count > processors)
    count = processors;
  if (count > SHARES_MAX)
    count = SHARES_MAX;
  bool ok = true;
  for (size_t i = 0; i < count; i++) {
    shares[i] = (struct share){.refresh = r,
                               .served = served,
                               .from = r->count * i / count,
                               .to = r->count * (i + 1) / count};
    shares[i].started =
        i > 0 && pthread_create(&shares[i].thread, NULL, compute_share, &shares[i]) == 0;
  }
  for (size_t i = 0; i < count; i++)
    if (!shares[i].started)
      compute_share(&shares[i]);
  for (size_t i = 0; i < count; i++) {
    if (shares[i].started)
      pthread_join(shares[i].thread, NULL);
    ok = ok && shares[i].ok;
  }
  return ok;
}

/* Publishes the new tables; afterwards `draws` holds the old ones. */
static void refresh_swap(struct refresh *r, struct served *served) {
  for (size_t i = 0; i < r->count; i++)
    r->draws[i] = atomic_exchange_explicit(&served->domains[r->domains[i]].draws, r->draws[i],
                                           memory_order_acq_rel);
}

static void refresh_close(struct refresh *r, const struct served *served) {
  for (size_t i = 0; r->draws != NULL && i < r->count; i++)
    load_free_draws(r->draws[i], load_table_count(served->domains[r->domains[i]].steer));
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

/* Where a record's endpoint is in the view; false if it is not there any more. */
static bool find_target(const struct served *served, const struct fact *fact, uint32_t *domain,
                        uint16_t *endpoint) {
  long d = load_find_domain(served, fact->owner);
  long e = d >= 0 ? steer_endpoint_find(served->domains[d].steer, fact->endpoint) : -1;
  if (e < 0)
    return false;
  *domain = (uint32_t)d;
  *endpoint = (uint16_t)e;
  return true;
}

static void log_dropped(const struct fact *fact, const char *what, const struct fact_note *note) {
  char name[NAME_MAX_TEXT];
  log_notice("%s of %s at %s, set by %s, is dropped: the configuration has no such endpoint", what,
             fact->endpoint, name_to_text(name, fact->owner),
             note->who != NULL ? note->who : "someone");
}

static bool keep_target(void *arg, const struct fact *fact) {
  const struct served *served = arg;
  uint32_t domain;
  uint16_t endpoint;
  if (find_target(served, fact, &domain, &endpoint))
    return true;
  if (fact->values[FACT_MANUAL] != 0)
    log_dropped(fact, "manual status", &fact->notes[KIND_MANUAL]);
  if (fact->values[FACT_FORCED4] != 0 || fact->values[FACT_FORCED6] != 0)
    log_dropped(fact, "forced health", &fact->notes[KIND_FORCED]);
  return false;
}

bool facts_attach(struct facts *facts, struct served *served) {
  struct refresh refresh;
  bool ok = refresh_init(&refresh, facts->table.count);
  uint64_t mark = ++facts->mark;
  size_t gone = 0;
  for (size_t i = 0; ok && i < facts->table.capacity; i++) {
    struct fact *fact = facts->table.slots[i];
    uint32_t domain;
    uint16_t endpoint;
    if (fact == NULL)
      continue;
    if (!find_target(served, fact, &domain, &endpoint)) {
      gone++;
      continue;
    }
    ok = make_room(served, domain);
    if (ok) {
      served->states[domain].facts[endpoint] = fact;
      served->states[domain].status[endpoint] = fact_status(fact);
      if (!is_same_for_layers(fact_status(fact), (struct steer_status){.manual = MANUAL_NONE}))
        refresh_add(&refresh, served, domain, mark);
    }
  }
  ok = ok && refresh_compute(&refresh, served);
  if (ok)
    refresh_swap(&refresh, served);
  refresh_close(&refresh, served);
  if (!ok || gone == 0)
    return ok;
  facts->unsaved = true;
  return fact_table_filter(&facts->table, keep_target, served);
}

/* ---- changes ----------------------------------------------------------------------------------
 */

struct undo {
  struct fact *fact;
  struct fact_note note; /* the old one, if the author changed it */
  uint8_t value;
  bool noted;
};

static enum fact_kind kind_of(uint8_t field) {
  return field == FACT_MANUAL ? KIND_MANUAL : KIND_FORCED;
}

static bool kind_is_set(const struct fact *fact, enum fact_kind kind) {
  if (kind == KIND_MANUAL)
    return fact->values[FACT_MANUAL] != 0;
  return fact->values[FACT_FORCED4] != 0 || fact->values[FACT_FORCED6] != 0;
}

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

static bool change_fact(struct fact *fact, const struct fact_change *change,
                        const struct fact_author *author, struct undo *undo) {
  if (fact == NULL)
    return false;
  *undo = (struct undo){.fact = fact, .value = fact->values[change->field]};
  if (author != NULL) {
    struct fact_note note = {.since = 0};
    if (!fact_note_set(&note, author)) {
      undo->fact = NULL;
      return false;
    }
    undo->noted = true;
    undo->note = fact->notes[kind_of(change->field)];
    fact->notes[kind_of(change->field)] = note;
  }
  fact->values[change->field] = change->value;
  if (author != NULL && !kind_is_set(fact, kind_of(change->field)))
    fact_note_clear(&fact->notes[kind_of(change->field)]);
  return true;
}

/* Takes one change over into the status that layer 2 reads. */
static void change_status(struct facts *facts, struct served *served,
                          const struct fact_change *change, const struct fact *fact,
                          struct refresh *refresh) {
  struct steer_status *status = &served->states[change->domain].status[change->endpoint];
  struct steer_status next = fact_status(fact);
  if (!is_same_for_layers(*status, next))
    refresh_add(refresh, served, change->domain, facts->mark);
  *status = next;
}

/* Latest first, so that an endpoint changed twice gets its first value back. */
static void take_back(struct served *served, const struct fact_change *changes, struct undo *undos,
                      size_t count) {
  for (size_t i = count; i-- > 0;) {
    struct fact *fact = undos[i].fact;
    if (fact == NULL)
      continue;
    fact->values[changes[i].field] = undos[i].value;
    if (undos[i].noted) {
      fact_note_clear(&fact->notes[kind_of(changes[i].field)]);
      fact->notes[kind_of(changes[i].field)] = undos[i].note;
    }
    served->states[changes[i].domain].status[changes[i].endpoint] = fact_status(fact);
  }
}

static bool change_all(struct facts *facts, struct served *served,
                       const struct fact_change *changes, size_t count,
                       const struct fact_author *author, struct undo *undos,
                       struct refresh *refresh) {
  facts->mark++;
  for (size_t i = 0; i < count; i++) {
    struct fact *fact = take_fact(facts, served, &changes[i]);
    if (!change_fact(fact, &changes[i], author, &undos[i]))
      return false;
    change_status(facts, served, &changes[i], fact, refresh);
  }
  return refresh_compute(refresh, served);
}

bool facts_apply(struct facts *facts, struct served *served, const struct fact_change *changes,
                 size_t count, const struct fact_author *author, char *why) {
  struct refresh refresh;
  struct undo *undos = calloc(count + 1, sizeof *undos);
  snprintf(why, FACTS_WHY, "out of memory");
  bool ok = refresh_init(&refresh, count) && undos != NULL &&
            change_all(facts, served, changes, count, author, undos, &refresh);
  if (ok && author != NULL)
    ok = save(facts, why); /* before anyone sees it: what was confirmed survives a restart */
  if (ok) {
    facts->unsaved = facts->unsaved || author == NULL;
    refresh_swap(&refresh, served);
    if (refresh.count > 0)
      synchronize_rcu(); /* one wait for all */
    for (size_t i = 0; i < count; i++)
      fact_note_clear(&undos[i].note);
  } else if (undos != NULL) {
    take_back(served, changes, undos, count);
  }
  refresh_close(&refresh, served);
  free(undos);
  return ok;
}

/* ---- listing ----------------------------------------------------------------------------------
 */

static int list_one(json_t *list, const struct fact *fact, const char *kind, const char *value,
                    int family, const struct fact_note *note) {
  char name[NAME_MAX_TEXT];
  json_t *json =
      json_pack("{s:s, s:s, s:s, s:s, s:o, s:s?, s:s?, s:I}", "domain",
                name_to_text(name, fact->owner), "endpoint", fact->endpoint, "kind", kind, "value",
                value, "family", family != 0 ? json_integer(family) : json_null(), "who", note->who,
                "reason", note->reason, "since", (json_int_t)note->since);
  return json_array_append_new(list, json);
}

static int list_fact(json_t *list, const struct fact *fact) {
  const uint8_t *v = fact->values;
  int failed = 0;
  if (v[FACT_MANUAL] != MANUAL_NONE)
    failed |=
        list_one(list, fact, "manual", v[FACT_MANUAL] == MANUAL_DISABLED ? "disable" : "enable", 0,
                 &fact->notes[KIND_MANUAL]);
  const struct fact_note *note = &fact->notes[KIND_FORCED];
  const char *const texts[] = {"auto", "up", "down"};
  if (v[FACT_FORCED4] == v[FACT_FORCED6]) {
    if (v[FACT_FORCED4] != HEALTH_UNKNOWN)
      failed |= list_one(list, fact, "health", texts[v[FACT_FORCED4]], 0, note);
    return failed;
  }
  if (v[FACT_FORCED4] != HEALTH_UNKNOWN)
    failed |= list_one(list, fact, "health", texts[v[FACT_FORCED4]], 4, note);
  if (v[FACT_FORCED6] != HEALTH_UNKNOWN)
    failed |= list_one(list, fact, "health", texts[v[FACT_FORCED6]], 6, note);
  return failed;
}

json_t *facts_overrides(const struct facts *facts) {
  json_t *list = json_array();
  for (size_t i = 0; list != NULL && i < facts->table.capacity; i++) {
    if (facts->table.slots[i] == NULL || list_fact(list, facts->table.slots[i]) == 0)
      continue;
    json_decref(list);
    return NULL;
  }
  return list;
}

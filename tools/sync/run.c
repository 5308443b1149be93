/* SPDX-License-Identifier: Apache-2.0 */
/* Reading, planning and applying: a thread for each provider, and several that only read where it
 * has many zones. */
#include "tools/sync/run.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"
#include "tools/cli.h"
#include "tools/sync/lock.h"
#include "zones/record.h"

enum { READERS = 8, ZONES_EACH = 4 };

/* What one thread works on. */
struct worker {
  struct sync_run *run;
  struct sync_provider *provider;
  bool apply;
  size_t part, parts; /* each takes every `parts`-th target of the provider */
  pthread_t thread;
  bool started;
};

/* ---- opening -------------------------------------------------------------------------------- */

static bool get_secret(void *arg, const char *name, char *out, size_t size, char *why) {
  const struct sync_run *run = arg;
  struct secret secret;
  if (!secret_read(run->secrets, name, &secret, why))
    return false;
  bool fits = secret.length < size;
  if (fits)
    memcpy(out, secret.text, secret.length + 1);
  else
    snprintf(why, SECRET_WHY, "the secret %.100s is too long", name);
  secret_wipe(&secret);
  return fits;
}

void *sync_provider_open(struct sync_run *run, const struct sync_provider *provider, bool writes,
                         struct provider_error *error) {
  const struct provider_context context = {
      .name = provider->name,
      .settings = provider->settings,
      .secret = get_secret,
      .secret_arg = run,
      .marker = provider->mark,
      .deadline_ms = (uint64_t)json_integer_value(json_object_get(provider->settings, "timeout")),
      .read_only = !writes,
  };
  *error = provider->error;
  return provider->kind ? provider->kind->open(&context, error) : NULL;
}

/* ---- what should be there ------------------------------------------------------------------- */

static bool flush(struct sync_target *t, const struct model_rr *rr, json_t *values) {
  char name[NAME_MAX_TEXT];
  char type[16];
  return provider_add_rrset(&t->desired, name_to_text(name, rr->owner),
                            record_type_text(rr->type, type), rr->ttl, values);
}

/* True for the NS RRset that the options have instead of the configuration. */
static bool is_replaced(const struct sync_run *run, const struct sync_target *t,
                        const struct model_rr *rr) {
  char owner[NAME_MAX_TEXT];
  const char *wanted = run->options.cut ? run->options.cut : t->zone->name;
  return rr->type == RECORD_NS && run->options.apex_ns_count > 0 &&
         strcmp(name_to_text(owner, rr->owner), wanted) == 0;
}

static bool add_apex_ns(const struct sync_run *run, struct sync_target *t, uint32_t ttl) {
  const char *owner = run->options.cut ? run->options.cut : t->zone->name;
  json_t *values = json_array();
  bool ok = values;
  for (size_t i = 0; ok && i < run->options.apex_ns_count; i++)
    ok = json_array_append_new(values, json_string(run->options.apex_ns[i])) == 0;
  if (ok)
    return provider_add_rrset(&t->desired, owner, "NS", ttl, values);
  json_decref(values);
  return false;
}

static bool add_static(const struct sync_run *run, struct sync_target *t) {
  const struct model_zone *zone = t->zone->zone;
  for (size_t i = 0, end; i < zone->rr_count; i = end) {
    const struct model_rr *first = &zone->rrs[i];
    bool replaced = is_replaced(run, t, first);
    json_t *values = json_array();
    bool ok = values;
    for (end = i; end < zone->rr_count && zone->rrs[end].type == first->type &&
                  name_equal(zone->rrs[end].owner, first->owner);
         end++) {
      char *text =
          ok ? provider_rdata_wire(first->type, zone->rrs[end].rdata, zone->rrs[end].rdata_len)
             : NULL;
      ok = text && json_array_append_new(values, json_string(text)) == 0;
      free(text);
    }
    if (!ok || first->type == RECORD_SOA || replaced) {
      json_decref(values);
      if (!ok || (replaced && !add_apex_ns(run, t, first->ttl)))
        return false;
      continue;
    }
    if (!flush(t, first, values))
      return false;
  }
  return true;
}

static bool allows(const struct model_domain *domain, const char *provider, const char *layer) {
  size_t i;
  const json_t *item;
  const json_t *options = json_object_get(domain->providers, provider);
  json_array_foreach(json_object_get(options, "allow_loss"), i, item) {
    if (json_is_string(item) && strcmp(json_string_value(item), layer) == 0)
      return true;
  }
  return false;
}

/* A lost layer that the domain does not allow. */
static bool judge_loss(struct sync_target *t, size_t d) {
  const struct provider_fidelity *f = &t->fidelity[d];
  for (int layer = 0; layer < PROVIDER_LAYERS; layer++) {
    const char *name = provider_layer_name((enum provider_layer)layer);
    char *why;
    if (f->grade[layer] != FIDELITY_LOST ||
        allows(t->zone->zone->domains + d, t->provider->name, name))
      continue;
    if (asprintf(&why, "%s would be lost (%s)", name, f->why[layer]) < 0)
      return false;
    t->refusals[t->refusal_count++] = (struct sync_refusal){t->zone->domains[d].name, why};
    return true;
  }
  return true;
}

static void set_status(struct provider_fidelity *f, enum provider_grade grade, const char *why) {
  f->grade[LAYER_STATUS] = grade;
  f->error[LAYER_STATUS] = 1;
  snprintf(f->why[LAYER_STATUS], sizeof f->why[LAYER_STATUS], "%s", why);
}

/* What the provider's kind does not see, where health is not pushed: checks that do not count
 * (`none`), and health that was set by hand without any check. */
static void judge_health(const struct sync_domain *d, bool none, struct provider_fidelity *f) {
  bool checks = json_object_size(d->domain->health) > 0;
  if (none && checks)
    set_status(f, FIDELITY_LOST, "its setting `health: none`: endpoints that are down stay");
  for (uint32_t i = 0; !checks && d->status && i < d->domain->steer->endpoint_count; i++)
    if (d->status[i].health4 == HEALTH_DOWN || d->status[i].health6 == HEALTH_DOWN)
      set_status(f, FIDELITY_APPROX,
                 "health that is set by hand does not reach it; set the provider's health: pushed");
}

static bool compile(struct sync_target *t, void *self) {
  const struct sync_zone *zone = t->zone;
  const char *health = json_string_value(json_object_get(t->provider->settings, "health"));
  bool pushed = !health ? !t->provider->kind->can.native : strcmp(health, "pushed") == 0;
  bool none = health && strcmp(health, "none") == 0;
  for (size_t i = 0; i < zone->zone->domain_count; i++) {
    const struct sync_domain *d = &zone->domains[i];
    struct provider_domain domain = {
        .steer = d->domain->steer,
        .name = d->name,
        .health = none ? NULL : d->domain->health,
        .facts = {.status = pushed ? d->status : d->manual, .weights = d->weights},
        .pushed = pushed,
    };
    if (!t->provider->kind->compile(self, &domain, &t->desired, &t->fidelity[i], &t->error))
      return false;
    if (!pushed)
      judge_health(d, none, &t->fidelity[i]);
    if (!judge_loss(t, i))
      return provider_fail(&t->error, PROVIDER_LOCAL, "%s: out of memory", t->provider->name);
  }
  return true;
}

/* A static record at the very name and type of a record that the provider needs for a steered name:
 * the two would be refused, or answered together. */
static bool check_helpers(struct sync_target *t) {
  json_t *taken = json_object();
  bool ok = taken;
  for (size_t i = 0; ok && i < t->desired.count; i++)
    if (!t->desired.items[i].domain)
      ok = json_object_set_new(taken, t->desired.items[i].key, json_true()) == 0;
  if (!ok)
    provider_fail(&t->error, PROVIDER_LOCAL, "%s: out of memory", t->provider->name);
  for (size_t i = 0; ok && i < t->desired.count; i++) {
    const struct provider_object *o = &t->desired.items[i];
    char *key = NULL;
    if (o->part && asprintf(&key, "%s/%s", o->name, o->type) > 0 && json_object_get(taken, key))
      ok = provider_fail(&t->error, PROVIDER_REFUSED,
                         "%s: %.150s %s of the configuration is where the provider needs a helper "
                         "record of %.150s; give it another name",
                         t->provider->name, o->name, o->type, o->domain ? o->domain : "");
    free(key);
  }
  json_decref(taken);
  return ok;
}

/* ---- one target ----------------------------------------------------------------------------- */

static bool make_plan(const struct sync_run *run, struct sync_target *t, struct sync_plan *plan) {
  const struct sync_plan_input input = {
      .zone = t->zone->name,
      .mark = t->provider->mark,
      .can = &t->provider->kind->can,
      .actual = &t->actual,
      .desired = &t->desired,
      .refusals = t->refusals,
      .refusal_count = t->refusal_count,
      .names = t->zone->names,
      .name_count = t->zone->name_count,
      .others = t->zone->others,
      .other_count = t->zone->others ? t->zone->zone->domain_count : 0,
      .consents = run->options.consents,
  };
  return sync_plan_make(&input, plan);
}

static bool prepare(const struct sync_run *run, struct sync_target *t) {
  size_t n = t->zone->zone->domain_count + 1;
  t->fidelity = calloc(n, sizeof *t->fidelity);
  t->refusals = calloc(n, sizeof *t->refusals);
  t->before = calloc(n, sizeof *t->before);
  t->after = calloc(n, sizeof *t->after);
  return t->fidelity && t->refusals && t->before && t->after && add_static(run, t);
}

static void plan_target(const struct worker *w, struct sync_target *t, void *self) {
  const char *name = w->provider->name;
  t->state = SYNC_FAILED;
  if (!prepare(w->run, t)) {
    provider_fail(&t->error, PROVIDER_LOCAL, "%s: no memory, or a record of %.200s cannot be told",
                  name, t->zone->name);
    return;
  }
  if (!w->provider->kind->read(self, t->zone->name, &t->actual, &t->error) || !compile(t, self) ||
      !check_helpers(t))
    return;
  if (!sync_documents_adopt(t) || !make_plan(w->run, t, &t->plan)) {
    provider_fail(&t->error, PROVIDER_LOCAL, "%s: out of memory", name);
    return;
  }
  sync_documents_make(t, self);
  t->state = SYNC_PLANNED;
}

/* True if what a change wanted is there now; `there` leads from keys to places in `objects`. */
static bool is_seen(const struct sync_item *item, const struct provider_objects *objects,
                    const json_t *there) {
  const struct provider_object *wanted = item->new ? item->new : item->old;
  const json_t *place = json_object_get(there, wanted->key);
  if (!item->new)
    return !place;
  const struct provider_object *object = place ? &objects->items[json_integer_value(place)] : NULL;
  return object && !object->opaque && json_equal(object->body, item->new->body);
}

/* True if all that a change is about is as it was before. */
static bool is_untouched(const struct sync_item *item, const struct provider_objects *objects,
                         const json_t *there) {
  const struct provider_object *about = item->old ? item->old : item->new;
  const json_t *place = json_object_get(there, about->key);
  if (!item->old)
    return !place;
  return place && json_equal(objects->items[json_integer_value(place)].body, item->old->body);
}

/* How many of the changes that were asked for are not to be seen: each is looked for itself, since
 * a new plan may hold back what another writer has changed meanwhile.  *touched: some of them were
 * begun at least.  False without memory. */
static bool count_unseen(const struct sync_plan *asked, const struct provider_objects *objects,
                         size_t *count, bool *touched) {
  json_t *there = json_object();
  bool ok = there;
  *count = 0;
  *touched = false;
  for (size_t i = 0; ok && i < objects->count; i++)
    ok = json_object_set_new(there, objects->items[i].key, json_integer((json_int_t)i)) == 0;
  for (size_t i = 0; ok && i < asked->count; i++)
    if (!asked->items[i].held && !is_seen(&asked->items[i], objects, there)) {
      (*count)++;
      *touched = *touched || !is_untouched(&asked->items[i], objects, there);
    }
  json_decref(there);
  return ok;
}

/* The second half of markers that name too much since a name has changed its type (plan.h): from
 * what is there now, which `t->actual` holds. */
static bool narrow_once(const struct worker *w, struct sync_target *t, void *self, bool write,
                        size_t *count, struct provider_error *error) {
  struct sync_plan after = {0};
  size_t done;
  bool failed = true;
  struct provider_change *changes = sync_documents_adopt(t) && make_plan(w->run, t, &after)
                                        ? sync_plan_narrowing(&t->plan, &after, count, &failed)
                                        : NULL;
  bool ok = !failed || provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", w->provider->name);
  if (ok && write && changes)
    ok = w->provider->kind->apply(self, t->zone->name, changes, *count, &done, error);
  free(changes);
  sync_plan_close(&after);
  return ok;
}

/* Markers, too, count only once they are seen. */
static bool narrow(const struct worker *w, struct sync_target *t, void *self,
                   struct provider_error *error) {
  size_t count = 0;
  if (!narrow_once(w, t, self, true, &count, error))
    return false;
  if (count == 0)
    return true;
  provider_objects_close(&t->actual);
  provider_objects_init(&t->actual);
  if (!w->provider->kind->read(self, t->zone->name, &t->actual, error) ||
      !narrow_once(w, t, self, false, &count, error))
    return false;
  return count == 0 || provider_fail(error, PROVIDER_CONFLICT,
                                     "%s: %zu markers of %.100s are not to be seen there; run it "
                                     "again",
                                     w->provider->name, count, t->zone->name);
}

/* What was asked for against what is there now, which `t->actual` holds; false: cannot be told. */
static bool judge(const struct worker *w, struct sync_target *t, void *self, bool failed) {
  size_t left = 0;
  bool touched = false;
  struct provider_error error;
  if (!count_unseen(&t->plan, &t->actual, &left, &touched))
    return false;
  t->seen = left < t->asked ? t->asked - left : 0;
  if (!failed && left == 0)
    t->state = SYNC_APPLIED;
  else if (!failed)
    provider_fail(&t->error, PROVIDER_CONFLICT,
                  "%s: %zu of %zu changes of %.100s are not to be seen there; run it again",
                  w->provider->name, left, t->asked, t->zone->name);
  if (t->state == SYNC_APPLIED && sync_plan_has_widened(&t->plan) && !narrow(w, t, self, &error)) {
    t->state = SYNC_PARTIAL;
    t->error = error;
  }
  if (t->state != SYNC_APPLIED && t->seen == 0 && !touched) /* as it was before */
    t->state = SYNC_FAILED;
  return true;
}

static void read_back(const struct worker *w, struct sync_target *t, void *self, bool failed) {
  struct provider_error error = {.failure = PROVIDER_LOCAL, .text = "out of memory"};
  struct provider_objects before = t->actual;
  t->state = SYNC_PARTIAL;
  provider_objects_init(&t->actual);
  bool ok =
      w->provider->kind->read(self, t->zone->name, &t->actual, &error) && judge(w, t, self, failed);
  if (!ok && !failed)
    provider_fail(&t->error, error.failure,
                  "%s: the changes of %.100s were sent, but could not be read back (%.250s)",
                  w->provider->name, t->zone->name, error.text);
  provider_objects_close(&t->actual);
  t->actual = before;
}

static void apply_target(const struct worker *w, struct sync_target *t, void *self) {
  size_t count;
  size_t done = 0;
  bool failed;
  if (t->state != SYNC_PLANNED)
    return;
  struct provider_change *changes = sync_plan_changes(&t->plan, &count, &failed);
  if (failed) {
    t->state = SYNC_FAILED;
    provider_fail(&t->error, PROVIDER_LOCAL, "%s: out of memory", w->provider->name);
    return;
  }
  if (!changes) {
    t->state = SYNC_APPLIED;
    return;
  }
  t->asked = count;
  bool ok = w->provider->kind->apply(self, t->zone->name, changes, count, &done, &t->error);
  free(changes);
  read_back(w, t, self, !ok);
}

static void *work(void *arg) {
  const struct worker *w = arg;
  struct provider_error error;
  size_t turn = 0;
  void *self = sync_provider_open(w->run, w->provider, w->apply, &error);
  for (size_t i = 0; i < w->run->target_count; i++) {
    struct sync_target *t = &w->run->targets[i];
    /* What is another thread's is not even read. */
    if (t->provider != w->provider || turn++ % w->parts != w->part)
      continue;
    if (w->apply ? t->state != SYNC_PLANNED : t->error.failure != PROVIDER_OK)
      continue;
    if (self && w->provider->kind->select)
      w->provider->kind->select(self, t->zone->names, t->zone->name_count);
    if (!self) {
      t->state = SYNC_FAILED;
      t->error = error;
    } else if (w->apply) {
      apply_target(w, t, self);
    } else {
      plan_target(w, t, self);
    }
  }
  if (self)
    w->provider->kind->close(self);
  return NULL;
}

/* Requests wait for the network most of the time: with many zones several are asked for at once.
 * What writes goes one after the other. */
static size_t count_parts(const struct sync_run *run, const struct sync_provider *provider,
                          bool apply) {
  size_t zones = 0;
  for (size_t i = 0; i < run->target_count; i++)
    zones += run->targets[i].provider == provider;
  size_t parts = (zones + ZONES_EACH - 1) / ZONES_EACH;
  if (apply || parts == 0 || !provider->kind || provider->kind->can.one_reader)
    return 1;
  return parts < READERS ? parts : READERS;
}

static void run_all(struct sync_run *run, bool apply) {
  struct worker *workers = calloc(run->provider_count * READERS + 1, sizeof *workers);
  size_t count = 0;
  json_object_seed(0);
  for (size_t i = 0; i < run->provider_count; i++) {
    size_t parts = count_parts(run, &run->providers[i], apply);
    for (size_t part = 0; part < parts; part++) {
      struct worker alone = {
          .run = run, .provider = &run->providers[i], .apply = apply, .part = part, .parts = parts};
      struct worker *w = workers ? &workers[count++] : &alone;
      *w = alone;
      w->started = workers && pthread_create(&w->thread, NULL, work, w) == 0;
      if (!w->started)
        work(w);
    }
  }
  for (size_t i = 0; i < count; i++)
    if (workers[i].started)
      pthread_join(workers[i].thread, NULL);
  free(workers);
}

void sync_run_plan(struct sync_run *run) {
  run_all(run, false);
}

void sync_run_apply(struct sync_run *run) {
  if (!run->locked && run->options.lock_wait_ms == 0)
    run->options.lock_wait_ms = SYNC_LOCK_WAIT_MS;
  if (sync_run_lock(run))
    run_all(run, true);
  sync_run_unlock(run);
}

/* ---- the whole ------------------------------------------------------------------------------ */

bool sync_run_digest(const struct sync_run *run, char out[SYNC_DIGEST]) {
  json_t *list = json_array();
  bool ok = list;
  for (size_t i = 0; ok && i < run->target_count; i++) {
    const struct sync_target *t = &run->targets[i];
    if (t->state == SYNC_FAILED)
      continue;
    json_t *plan = sync_plan_json(&t->plan);
    ok = plan &&
         json_array_append_new(list, json_pack("{s:s, s:s, s:o}", "provider", t->provider->name,
                                               "zone", t->zone->name, "items", plan)) == 0;
  }
  ok = ok && sync_digest(list, out);
  json_decref(list);
  return ok;
}

int sync_run_status(const struct sync_run *run) {
  size_t failed = 0;
  size_t partial = 0;
  size_t changed = 0;
  for (size_t i = 0; i < run->target_count; i++) {
    const struct sync_target *t = &run->targets[i];
    failed += t->state == SYNC_FAILED;
    partial += t->state == SYNC_PARTIAL || t->plan.held > 0;
    changed += t->seen;
  }
  if (failed == run->target_count && changed == 0)
    return CLI_FAILED;
  return failed + partial > 0 ? CLI_PARTIAL : CLI_DONE;
}

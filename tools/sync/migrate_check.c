/* SPDX-License-Identifier: Apache-2.0 */
/* Before anything is changed: can the zone move, and which name servers are whose. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/sync/migrate.h"
#include "tools/sync/nameset.h"
#include "zones/record.h"

/* ---- whose name servers --------------------------------------------------------------------- */

static json_t *ask_names(struct migrate_job *job, struct sync_run *run,
                         const struct sync_provider *provider) {
  struct provider_error error;
  void *self = sync_provider_open(run, provider, false, &error);
  json_t *list = self ? provider->kind->servers(self, job->zone, &error) : NULL;
  if (self)
    provider->kind->close(self);
  json_t *set = list ? nameset_read(list) : NULL;
  if (!list)
    migrate_fail_provider(job, provider->name, &error);
  else if (!set)
    migrate_fail(job, "%s: what it says of its name servers are no names", provider->name);
  json_decref(list);
  return set;
}

/* `ns:` of a provider's settings, or NULL. */
static const json_t *set_names(const struct sync_run *run, const char *provider) {
  const json_t *all = json_object_get(run->model->settings, "providers");
  return json_object_get(json_object_get(all, provider), "ns");
}

/* As the settings or the provider tell; *known false: neither does.  NULL on failure. */
static json_t *told_names(struct migrate_job *job, struct sync_run *run,
                          const struct sync_provider *provider, bool *known) {
  const json_t *ns = set_names(run, provider->name);
  *known = json_array_size(ns) > 0 || provider->kind->can.names_servers;
  if (json_array_size(ns) > 0)
    return nameset_read(ns);
  return *known ? ask_names(job, run, provider) : json_array();
}

static bool unknown_names(struct migrate_job *job, const char *provider) {
  return migrate_fail(
      job,
      "%s: its name servers are not known; write `ns: [NAME, ...]` of this provider "
      "in defaults.yaml, or give them by --ns NAME,...",
      provider);
}

static bool is_gone(const struct sync_target *t) {
  return t->state == SYNC_FAILED && t->error.failure == PROVIDER_GONE;
}

static bool find_new(struct migrate_job *job, struct sync_run *run, const struct sync_target *to,
                     const json_t *apex) {
  struct migrate_state *s = &job->state;
  bool known = true;
  bool made;
  json_t *set = NULL;
  if (job->names) {
    set = nameset_read(job->names);
  } else {
    bool assigned =
        json_array_size(set_names(run, s->to)) == 0 && to->provider->kind->can.names_servers;
    if (assigned && job->dry && is_gone(to)) { /* told once the zone is made */
      json_decref(s->new);
      s->new = json_array();
      return s->new || migrate_fail(job, "out of memory");
    }
    if (assigned && !migrate_make_zone(job, run, to, &made))
      return false;
    set = told_names(job, run, to->provider, &known);
  }
  if (set && !known && to->state != SYNC_FAILED) {
    json_t *there = migrate_ns_of(&to->actual, job->zone);
    json_decref(set);
    set = there ? nameset_minus(there, apex) : NULL;
    json_decref(there);
  }
  if (!set)
    return job->why[0] ? false : migrate_fail(job, "out of memory");
  json_decref(s->new);
  s->new = set;
  return json_array_size(set) > 0 ? true : unknown_names(job, s->to);
}

static json_t *fail_third(struct migrate_job *job, const char *provider) {
  migrate_fail(job,
               "the zone is at %s too: write `ns: [NAME, ...]` of %s or of %s in defaults.yaml, so "
               "that it is known whose name servers are whose",
               provider, provider, job->state.from);
  return NULL;
}

/* Those of providers that are down, by the settings alone. */
static json_t *find_third_down(struct migrate_job *job, const struct sync_run *run) {
  json_t *all = json_array();
  for (size_t i = 0; all && i < json_array_size(job->state.down); i++) {
    const char *name = json_string_value(json_array_get(job->state.down, i));
    const json_t *ns = set_names(run, name);
    if (strcmp(name, job->state.from) == 0 || !migrate_is_listed(run, name))
      continue;
    json_t *set = nameset_read(ns);
    json_t *sum = set ? nameset_union(all, set) : NULL;
    json_decref(set);
    json_decref(all);
    all = sum ? sum : fail_third(job, name);
  }
  return all;
}

/* The name servers of third providers of the zone; NULL on failure. */
static json_t *find_third(struct migrate_job *job, struct sync_run *run) {
  json_t *all = find_third_down(job, run);
  for (size_t i = 0; all && i < run->target_count; i++) {
    const struct sync_provider *p = run->targets[i].provider;
    bool known = true;
    if (strcmp(p->name, job->state.from) == 0 || strcmp(p->name, job->state.to) == 0)
      continue;
    json_t *set = p->kind ? told_names(job, run, p, &known) : NULL;
    json_t *sum = set ? nameset_union(all, set) : NULL;
    json_decref(set);
    json_decref(all);
    all = sum;
    if (all && !known) {
      json_decref(all);
      all = fail_third(job, p->name);
    }
  }
  return all;
}

/* Of all NS records that there are, those of the provider that is left; `from` NULL: it is down and
 * cannot tell. */
static json_t *choose_old(struct migrate_job *job, struct sync_run *run,
                          const struct sync_target *from, const json_t *all) {
  const json_t *ns = set_names(run, job->state.from);
  bool known = json_array_size(ns) > 0;
  json_t *told = from    ? told_names(job, run, from->provider, &known)
                 : known ? nameset_read(ns)
                         : json_array();
  json_t *out = NULL;
  if (told && known) {
    out = nameset_common(told, all);
  } else if (told) {
    json_t *third = find_third(job, run);
    json_t *left = third ? nameset_minus(all, third) : NULL;
    out = left ? nameset_minus(left, job->state.new) : NULL;
    json_decref(left);
    json_decref(third);
  }
  json_decref(told);
  return out;
}

static bool find_old(struct migrate_job *job, struct sync_run *run, const struct sync_target *from,
                     const struct migrate_view *view) {
  struct migrate_state *s = &job->state;
  json_t *all = nameset_union(view->apex.all ? view->apex.all : s->apex, view->parent.all);
  json_t *old = all ? choose_old(job, run, from, all) : NULL;
  json_t *left = old ? nameset_minus(all, old) : NULL;
  json_t *others = left ? nameset_minus(left, s->new) : NULL;
  json_decref(left);
  json_decref(all);
  if (!others) {
    json_decref(old);
    return job->why[0] ? false : migrate_fail(job, "out of memory");
  }
  json_decref(s->old);
  json_decref(s->others);
  s->old = old;
  s->others = others;
  const char *both = nameset_first_common(old, s->new);
  if (both)
    return migrate_fail(job, "%.255s would be a name server of %s and of %s", both, s->from, s->to);
  return json_array_size(old) > 0
             ? true
             : migrate_fail(job, "none of the NS records of %.255s is a name server of %s",
                            job->zone, s->from);
}

/* ---- the checks ----------------------------------------------------------------------------- */

bool migrate_check_provider(struct migrate_job *job, const struct sync_target *t) {
  if (!t)
    return migrate_fail(job, "out of memory");
  if (!t->provider->kind)
    return migrate_fail_provider(job, t->provider->name, &t->provider->error);
  if (!t->provider->kind->can.apex_ns)
    return migrate_fail(
        job,
        "%s: providers of type %s do not let the NS records of the apex be changed, "
        "so it cannot have the zone beside another one",
        t->provider->name, t->provider->kind->type);
  return true;
}

/* Not there is fine where it can be made. */
static bool check_to(struct migrate_job *job, const struct sync_target *t) {
  bool gone = is_gone(t);
  if (t->state == SYNC_FAILED && !(gone && t->provider->kind->create_zone))
    return migrate_fail_provider(job, t->provider->name, &t->error);
  return gone || t->provider->kind->can.deployed || migrate_judge_kept(job, t);
}

static bool check_signed(struct migrate_job *job) {
  bool is_signed;
  if (!migrate_look_signed(job, &is_signed))
    return false;
  return !is_signed ? true
                    : migrate_fail(job,
                                   "the parent zone has DS records of %.255s: its answers are "
                                   "signed, and those of another provider would be bogus; take "
                                   "the DS records out and wait for their TTL first",
                                   job->zone);
}

static bool take_view(struct migrate_job *job, const struct migrate_view *view) {
  struct migrate_state *s = &job->state;
  const struct {
    const struct migrate_seen *seen;
    json_t **set;
    const char *where;
  } parts[] = {{&view->apex, &s->apex, "its providers"},
               {&view->parent, &s->parent, "the parent zone"}};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    if (!parts[i].seen->any && json_array_size(s->down) > 0 && json_array_size(*parts[i].set) > 0)
      continue; /* as configured: those who could tell are down */
    if (json_array_size(parts[i].seen->all) == 0)
      return migrate_fail(job, "%s: no NS records of %.255s", parts[i].where, job->zone);
    if (!nameset_equal(parts[i].seen->all, parts[i].seen->any))
      return migrate_fail(job,
                          "the NS records of %.255s differ between the name servers of %s; wait "
                          "until they are the same",
                          job->zone, parts[i].where);
    json_decref(*parts[i].set);
    *parts[i].set = json_incref(parts[i].seen->all);
  }
  s->apex_ttl = view->apex.any ? view->apex.ttl : s->apex_ttl;
  s->parent_ttl = view->parent.ttl;
  s->negative_ttl = view->negative_ttl;
  return true;
}

/* The NS RRset of the apex as configured, which the state has until others tell it; for a zone of
 * which nobody that can be asked has one. */
static bool take_configured(struct migrate_job *job, const struct sync_run *run) {
  const struct model_zone *zone = run->zones[0].zone;
  struct migrate_state *s = &job->state;
  bool ok = true;
  json_array_clear(s->apex);
  for (size_t i = 0; ok && i < zone->rr_count; i++) {
    const struct model_rr *rr = &zone->rrs[i];
    if (rr->type != RECORD_NS || !name_equal(rr->owner, zone->apex))
      continue;
    char *name = provider_rdata_wire(rr->type, rr->rdata, rr->rdata_len);
    ok = name && nameset_add(s->apex, name);
    free(name);
    s->apex_ttl = rr->ttl;
  }
  return ok ? true : migrate_fail(job, "out of memory");
}

/* The NS records that the provider that is left has, as far as they are known. */
static json_t *find_apex(struct migrate_job *job, const struct sync_run *run,
                         const struct sync_target *from) {
  const json_t *ns = set_names(run, job->state.from);
  if (from)
    return migrate_ns_of(&from->actual, job->zone);
  if (!take_configured(job, run))
    return NULL;
  return json_array_size(ns) > 0 ? nameset_read(ns) : json_incref(job->state.apex);
}

static bool check_all(struct migrate_job *job, struct sync_run *run) {
  struct migrate_state *s = &job->state;
  const struct sync_target *from = migrate_target(run, s->from);
  const struct sync_target *to = migrate_target(run, s->to);
  struct migrate_view view = {0};
  bool down = migrate_is_down(s, s->from);
  if ((!down && (!migrate_check_provider(job, from) || !migrate_judge(job, from) ||
                 !migrate_judge_kept(job, from))) ||
      !migrate_check_provider(job, to) || !check_to(job, to))
    return false;
  json_t *apex = find_apex(job, run, down ? NULL : from);
  bool ok = apex ? find_new(job, run, to, apex) : migrate_fail(job, "out of memory");
  json_decref(s->old); /* until more is known */
  s->old = apex ? apex : json_array();
  ok = ok && migrate_check_glue(job, run, s->new) && migrate_find(job, run) &&
       migrate_look_twice(job, s->to, &view) && find_old(job, run, from, &view) &&
       take_view(job, &view) && check_signed(job);
  migrate_view_close(&view);
  return ok;
}

bool migrate_do_check(struct migrate_job *job) {
  struct sync_run run;
  job->why[0] = '\0';
  bool ok = migrate_run_open(job, &run, NULL, NULL) && check_all(job, &run);
  migrate_run_close(&run);
  return ok;
}

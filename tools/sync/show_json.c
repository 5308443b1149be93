/* SPDX-License-Identifier: Apache-2.0 */
/* Plans, results and drift for programs. */
#include <string.h>

#include "tools/client.h"
#include "tools/sync/run.h"

enum { VERSION = 1 };

const char *sync_failure_name(enum provider_failure failure) {
  static const char *const names[] = {"none",     "unreachable", "throttled", "denied", "gone",
                                      "conflict", "refused",     "garbage",   "local"};
  return names[failure];
}

static json_t *body(const struct provider_object *object) {
  return object ? json_incref(object->body) : json_null();
}

static json_t *item_json(const struct sync_target *t, const struct sync_item *item) {
  static const char *const ops[] = {"create", "update", "delete"};
  const struct provider_object *o = item->new ? item->new : item->old;
  return json_pack("{s:s, s:s, s:s?, s:s, s:s, s:s, s:s, s:o, s:o, s:s?, s:s?, s:b}", "provider",
                   t->provider->name, "zone", t->zone->name, "domain", item->domain, "op",
                   ops[item->op], "key", o->key, "name", o->name, "type", o->type, "old",
                   body(item->old), "new", body(item->new), "held",
                   item->held ? sync_hold_text(item->held) : NULL, "owner",
                   item->old ? item->old->owner : NULL, "marker", (int)item->marker);
}

static json_t *fidelity_json(const struct provider_fidelity *f) {
  static const char *const grades[] = {"exact", "approximate", "lost"};
  json_t *out = json_object();
  for (int i = 0; i < PROVIDER_LAYERS; i++) {
    json_t *layer = json_pack("{s:s}", "grade", grades[f->grade[i]]);
    if (f->grade[i] != FIDELITY_EXACT) {
      json_object_set_new(layer, "error", json_real(f->error[i]));
      json_object_set_new(layer, "why", json_string(f->why[i]));
    }
    json_object_set_new(out, provider_layer_name((enum provider_layer)i), layer);
  }
  return out;
}

static json_t *refusal_of(const struct sync_target *t, const char *domain) {
  for (size_t i = 0; i < t->refusal_count; i++)
    if (strcmp(t->refusals[i].domain, domain) == 0)
      return json_string(t->refusals[i].why);
  return json_null();
}

static json_t *shares_or_null(const struct sync_target *t, size_t d, bool after) {
  json_t *all = sync_shares(t, d, after);
  json_t *shares = sync_shares_one(all);
  json_decref(all);
  return shares ? shares : json_null();
}

static json_t *domains_json(const struct sync_target *t) {
  json_t *out = json_object();
  for (size_t i = 0; i < t->zone->zone->domain_count; i++) {
    const char *name = t->zone->domains[i].name;
    json_object_set_new(out, name,
                        json_pack("{s:o, s:o, s:o, s:o}", "fidelity",
                                  fidelity_json(&t->fidelity[i]), "refused", refusal_of(t, name),
                                  "before", shares_or_null(t, i, false), "after",
                                  shares_or_null(t, i, true)));
  }
  return out;
}

static json_t *kept_json(const struct sync_plan *plan) {
  json_t *out = json_array();
  for (size_t i = 0; i < plan->kept_count; i++)
    json_array_append_new(out,
                          json_pack("{s:s, s:s?, s:b}", "key", plan->kept[i]->key, "owner",
                                    plan->kept[i]->owner, "opaque", (int)plan->kept[i]->opaque));
  return out;
}

static json_t *target_json(const struct sync_target *t) {
  static const char *const states[] = {"failed", "planned", "applied", "partial"};
  const struct sync_plan *p = &t->plan;
  json_t *out = json_pack("{s:s, s:s, s:s}", "provider", t->provider->name, "zone", t->zone->name,
                          "state", states[t->state]);
  if (!out || (t->state == SYNC_FAILED && p->kept == NULL))
    return out;
  json_t *more =
      json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "creates",
                (json_int_t)p->creates, "updates", (json_int_t)p->updates, "deletes",
                (json_int_t)p->deletes, "held", (json_int_t)p->held, "equal", (json_int_t)p->equal,
                "unmarked", (json_int_t)p->unmarked, "asked", (json_int_t)t->asked, "seen",
                (json_int_t)t->seen, "kept", kept_json(p), "domains", domains_json(t));
  json_object_update(out, more);
  json_decref(more);
  return out;
}

static json_t *error_json(const struct sync_target *t) {
  return json_pack("{s:s, s:s, s:s, s:s}", "provider", t->provider->name, "zone", t->zone->name,
                   "failure", sync_failure_name(t->error.failure), "error", t->error.text);
}

json_t *sync_json(const struct sync_run *run, const char *kind) {
  char digest[SYNC_DIGEST];
  json_t *items = json_array();
  json_t *targets = json_array();
  json_t *errors = json_array();
  for (size_t i = 0; i < run->target_count; i++) {
    const struct sync_target *t = &run->targets[i];
    json_array_append_new(targets, target_json(t));
    if (t->state == SYNC_FAILED || t->state == SYNC_PARTIAL)
      json_array_append_new(errors, error_json(t));
    for (size_t k = 0; k < t->plan.count; k++)
      json_array_append_new(items, item_json(t, &t->plan.items[k]));
  }
  return json_pack("{s:i, s:s, s:s?, s:s, s:s?, s:s?, s:o, s:o, s:o}", "v", VERSION, "kind", kind,
                   "git", *run->commit.id ? run->commit.id : NULL, "actor", client_user(), "digest",
                   sync_run_digest(run, digest) ? digest : NULL, "note",
                   *run->note ? run->note : NULL, "items", items, "providers", targets, "errors",
                   errors);
}

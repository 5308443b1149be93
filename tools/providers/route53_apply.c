/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doing changes: health checks that are new, then batches of record sets, then health checks that
 * go.  Batches of different names do not wait for one another: they are asked for once all are
 * sent.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/providers/route53_private.h"

enum { INSYNC_WAIT_MS = 300000, INSYNC_FIRST_MS = 250, INSYNC_MOST_MS = 5000 };

/* ---- health checks -------------------------------------------------------------------------- */

static const char *key_of(const struct provider_object *object) {
  return object->key + strlen(ROUTE53_HEALTH) + 1;
}

/* Makes the check and keeps its id. */
static bool create_check(struct route53 *r, const struct provider_object *object,
                         struct provider_error *error) {
  static const char what[] = "a health check";
  char reference[128];
  char id[ROUTE53_ID];
  struct buf body;
  xmlDoc *doc = NULL;
  buf_init(&body);
  /* The reference of a check that was removed is never free again. */
  snprintf(reference, sizeof reference, "%.20s:%.24s:%012llx", r->prefix, key_of(object),
           (unsigned long long)(rng_next(&r->rng) >> 16));
  const struct route53_call call = {.method = "POST",
                                    .path = "/healthcheck",
                                    .body = &body,
                                    .idempotent = true,
                                    .what = what,
                                    .root = "CreateHealthCheckResponse"};
  bool ok = route53_write_check(&body, object->body, reference, 0)
                ? route53_send(r, &call, &doc, error)
                : route53_garbage(r, "", "", error);
  buf_close(&body);
  if (!ok)
    return false;
  char *text = route53_text(route53_child(xmlDocGetRootElement(doc), "HealthCheck"), "Id");
  xmlFreeDoc(doc);
  ok = route53_take_id(text, "/healthcheck/", id);
  free(text);
  if (!ok)
    return route53_garbage(r, what, "it has no id", error);
  return json_object_set_new(r->checks, key_of(object), json_pack("{s:s}", "id", id)) == 0 ||
         route53_garbage(r, "", "", error);
}

static bool update_check(struct route53 *r, const struct provider_change *change,
                         struct provider_error *error) {
  const char *id = json_string_value(json_object_get(change->old->raw, "id"));
  json_int_t version = json_integer_value(json_object_get(change->old->raw, "version"));
  char path[ROUTE53_ID + 20];
  struct buf body;
  buf_init(&body);
  snprintf(path, sizeof path, "/healthcheck/%.64s", id ? id : "");
  const struct route53_call call = {
      .method = "POST", .path = path, .body = &body, .what = "a health check"};
  bool ok = id && version > 0 && route53_write_check(&body, change->new->body, NULL, version)
                ? route53_send(r, &call, NULL, error)
                : route53_garbage(r, "", "", error);
  buf_close(&body);
  return ok;
}

bool route53_delete_check(struct route53 *r, const struct provider_object *object,
                          struct provider_error *error) {
  const char *id = json_string_value(json_object_get(object->raw, "id"));
  char path[ROUTE53_ID + 20];
  snprintf(path, sizeof path, "/healthcheck/%.64s", id ? id : "");
  const struct route53_call call = {.method = "DELETE", .path = path, .what = "a health check"};
  return id ? route53_send(r, &call, NULL, error) : route53_garbage(r, "", "", error);
}

static bool is_check(const struct provider_change *change) {
  return strcmp((change->new ? change->new : change->old)->type, ROUTE53_HEALTH) == 0;
}

static bool change_checks(struct route53 *r, const struct provider_change *changes, size_t count,
                          bool deletes, size_t *done, struct provider_error *error) {
  for (size_t i = 0; i < count; i++) {
    const struct provider_change *c = &changes[i];
    if (!is_check(c) || (c->op == PROVIDER_DELETE) != deletes)
      continue;
    bool ok = c->op == PROVIDER_CREATE   ? create_check(r, c->new, error)
              : c->op == PROVIDER_UPDATE ? update_check(r, c, error)
                                         : route53_delete_check(r, c->old, error);
    if (!ok)
      return false;
    *done += 1;
  }
  return true;
}

/* ---- INSYNC --------------------------------------------------------------------------------- */

/* Changes that were accepted and are to be asked for. */
struct pending {
  char (*ids)[ROUTE53_ID];
  size_t count;
};

static void sleep_ms(long ms) {
  struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
  nanosleep(&t, NULL);
}

/* "PENDING" or "INSYNC" of a reply, which is freed, and the id. */
static bool take_change(struct route53 *r, xmlDoc *doc, char id[ROUTE53_ID], bool *insync,
                        struct provider_error *error) {
  const xmlNode *info = route53_child(xmlDocGetRootElement(doc), "ChangeInfo");
  char *text = route53_text(info, "Id");
  char *status = route53_text(info, "Status");
  bool ok = route53_take_id(text, "/change/", id) && status;
  *insync = ok && strcmp(status, "INSYNC") == 0;
  ok = ok && (*insync || strcmp(status, "PENDING") == 0);
  free(text);
  free(status);
  xmlFreeDoc(doc);
  return ok || route53_garbage(r, "a change", "it has no id or status", error);
}

/* Asks for one change until it is INSYNC, within what is left of *wait (ms). */
static bool wait_one(struct route53 *r, char id[ROUTE53_ID], long *wait, long *step,
                     struct provider_error *error) {
  char path[ROUTE53_ID + 20];
  snprintf(path, sizeof path, "/change/%.63s", id);
  const struct route53_call call = {.method = "GET",
                                    .path = path,
                                    .idempotent = true,
                                    .what = "a change",
                                    .root = "GetChangeResponse"};
  for (bool insync = false;;) {
    xmlDoc *doc = NULL;
    if (!route53_send(r, &call, &doc, error) || !take_change(r, doc, id, &insync, error))
      return false;
    if (insync)
      return true;
    if (*wait <= 0)
      return provider_fail(error, PROVIDER_UNREACHABLE,
                           "%s: change %s is still PENDING after %d s; look again later", r->name,
                           id, INSYNC_WAIT_MS / 1000);
    sleep_ms(*step);
    *wait -= *step;
    *step = *step * 3 / 2 > INSYNC_MOST_MS ? INSYNC_MOST_MS : *step * 3 / 2;
  }
}

/* Waits for all, the last one first: the others are through by then, most times. */
static bool wait_insync(struct route53 *r, struct pending *pending, struct provider_error *error) {
  long wait = INSYNC_WAIT_MS;
  long step = INSYNC_FIRST_MS;
  if (pending->count > 0)
    sleep_ms(step);
  while (pending->count > 0) {
    if (!wait_one(r, pending->ids[pending->count - 1], &wait, &step, error))
      return false;
    pending->count--;
  }
  return true;
}

/* ---- batches -------------------------------------------------------------------------------- */

static bool write_batch(struct route53 *r, const struct route53_batch *batch, struct buf *out) {
  size_t records = 0;
  size_t chars = 0;
  bool ok = true;
  buf_printf(out, "<ChangeResourceRecordSetsRequest xmlns=\"%s\"><ChangeBatch><Changes>",
             ROUTE53_NAMESPACE);
  for (size_t i = 0; ok && i < batch->count; i++) {
    const struct provider_change *c = batch->changes[i];
    const char *key = c->new ? json_string_value(json_object_get(c->new->body, "health")) : NULL;
    ok = (!key || json_object_get(r->checks, key)) &&
         route53_write_change(out, route53_action(c), c->new ? c->new : c->old, r->checks,
                              r->zone_id, &records, &chars);
  }
  buf_add_str(out, "</Changes></ChangeBatch></ChangeResourceRecordSetsRequest>");
  return ok && !out->failed;
}

static bool send_batch(struct route53 *r, const char *zone, const struct route53_batch *batch,
                       struct pending *pending, struct provider_error *error) {
  char path[ROUTE53_ID + 30];
  char what[300];
  bool insync = false;
  struct buf body;
  xmlDoc *doc = NULL;
  buf_init(&body);
  snprintf(path, sizeof path, "/hostedzone/%s/rrset", r->zone_id);
  snprintf(what, sizeof what, "zone %.255s", zone);
  const struct route53_call call = {.method = "POST",
                                    .path = path,
                                    .body = &body,
                                    .what = what,
                                    .root = "ChangeResourceRecordSetsResponse"};
  bool ok =
      write_batch(r, batch, &body)
          ? route53_send(r, &call, &doc, error)
          : provider_fail(error, PROVIDER_LOCAL,
                          "%s: out of memory, or a record's health check is not there", r->name);
  buf_close(&body);
  ok = ok && take_change(r, doc, pending->ids[pending->count], &insync, error);
  pending->count += ok && !insync;
  return ok;
}

static bool send_all(struct route53 *r, const char *zone, const struct route53_batches *batches,
                     size_t *done, struct provider_error *error) {
  struct pending pending = {.ids = calloc(batches->count + 1, sizeof *pending.ids)};
  bool ok = pending.ids ? true : route53_garbage(r, "", "", error);
  for (size_t i = 0; ok && i < batches->count; i++) {
    const struct route53_batch *batch = &batches->items[i];
    ok = (!batch->waits || wait_insync(r, &pending, error)) &&
         send_batch(r, zone, batch, &pending, error);
    *done += ok ? batch->count : 0;
  }
  ok = ok && wait_insync(r, &pending, error);
  free(pending.ids);
  return ok;
}

static bool send_batches(struct route53 *r, const char *zone, const struct provider_change *changes,
                         size_t count, size_t *done, struct provider_error *error) {
  struct route53_batches batches;
  const char *too_large;
  bool ok = route53_batches_make(changes, count, &batches, &too_large);
  if (!ok && too_large)
    provider_fail(error, PROVIDER_REFUSED,
                  "%s: the changes of %.255s exceed what one batch may hold (%d records, %d "
                  "characters), and cannot be parted; give it fewer endpoints or regions",
                  r->name, too_large, ROUTE53_RECORDS_MAX, ROUTE53_VALUES_MAX);
  else if (!ok)
    route53_garbage(r, "", "", error);
  else
    ok = send_all(r, zone, &batches, done, error);
  route53_batches_close(&batches);
  return ok;
}

/* ---- the whole ------------------------------------------------------------------------------ */

/* True if a record set uses a health check that is there already: then its id must be known. */
static bool needs_checks(const struct provider_change *changes, size_t count) {
  json_t *made = json_object();
  bool needs = !made;
  for (size_t i = 0; made && i < count; i++)
    if (is_check(&changes[i]) && changes[i].op == PROVIDER_CREATE)
      json_object_set_new(made, key_of(changes[i].new), json_true());
  for (size_t i = 0; !needs && i < count; i++) {
    const json_t *key = changes[i].new ? json_object_get(changes[i].new->body, "health") : NULL;
    needs = key && !json_object_get(made, json_string_value(key));
  }
  json_decref(made);
  return needs;
}

static bool find_checks(struct route53 *r, const char *zone, const struct provider_change *changes,
                        size_t count, struct provider_error *error) {
  struct provider_objects ignored;
  if (!needs_checks(changes, count)) {
    r->checks = json_object();
    return r->checks || route53_garbage(r, "", "", error);
  }
  provider_objects_init(&ignored);
  bool ok = route53_list_checks(r, zone, &ignored, error);
  provider_objects_close(&ignored);
  return ok;
}

bool route53_apply(void *self, const char *zone, const struct provider_change *changes,
                   size_t count, size_t *done, struct provider_error *error) {
  struct route53 *r = self;
  *done = 0;
  if (r->read_only)
    return provider_fail(error, PROVIDER_LOCAL, "%s: opened for reading only", r->name);
  if (count == 0)
    return true;
  route53_forget(r);
  bool ok = route53_find_zone(r, zone, error) && find_checks(r, zone, changes, count, error) &&
            change_checks(r, changes, count, false, done, error) &&
            send_batches(r, zone, changes, count, done, error) &&
            change_checks(r, changes, count, true, done, error);
  route53_forget(r); /* what is there now, a new read tells */
  return ok;
}

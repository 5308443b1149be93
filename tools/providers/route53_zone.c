/* SPDX-License-Identifier: Apache-2.0 */
/* Hosted zones: which one has the name, its name servers, making and removing it. */
#include <libxml/xmlwriter.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/providers/route53_private.h"

enum { PAGES_MAX = 1000, NAMED = 3 /* ids or records in a message */ };

static void name_it(char what[300], const char *zone) {
  snprintf(what, 300, "zone %.255s", zone);
}

/* ---- finding -------------------------------------------------------------------------------- */

/* The name with which the next page begins, and its path; false: there is none that goes on. */
static bool next_zones(const xmlNode *root, struct buf *path, char name[NAME_MAX_TEXT]) {
  char *text = route53_text(root, "NextDNSName");
  char *id = route53_text(root, "NextHostedZoneId");
  bool ok = text && id && route53_name(text, name);
  buf_clear(path);
  buf_add_str(path, "/hostedzonesbyname");
  route53_add_query(path, '?', "dnsname", text ? text : "");
  route53_add_query(path, '&', "hostedzoneid", id ? id : "");
  route53_add_query(path, '&', "maxitems", "100");
  free(text);
  free(id);
  return ok && !path->failed;
}

/*
 * Lists zones from the name on until all of this name have been seen.  Those behind it on the page
 * are noted as well, so that a run over many zones needs no request for each.
 */
static bool list_zones(struct route53 *r, const char *zone, struct provider_error *error) {
  char what[300];
  char next[NAME_MAX_TEXT] = "";
  struct buf path;
  bool more = true;
  char *octal = route53_octal_name(zone);
  name_it(what, zone);
  buf_init(&path);
  buf_add_str(&path, "/hostedzonesbyname");
  route53_add_query(&path, '?', "dnsname", octal ? octal : "");
  route53_add_query(&path, '&', "maxitems", "100");
  free(octal);
  json_decref(r->zones);
  r->zones = json_object();
  bool ok = r->zones && !path.failed ? true : route53_garbage(r, what, "", error);
  for (size_t page = 0; ok && more; page++) {
    const struct route53_call call = {.method = "GET",
                                      .path = buf_text(&path),
                                      .idempotent = true,
                                      .what = what,
                                      .root = "ListHostedZonesByNameResponse"};
    xmlDoc *doc = NULL;
    ok = page < PAGES_MAX ? route53_send(r, &call, &doc, error)
                          : route53_garbage(r, what, "the list has no end", error);
    const xmlNode *root = ok ? xmlDocGetRootElement(doc) : NULL;
    if (ok && (!route53_read_zones(r->zones, root) || !route53_is_truncated(root, &more) ||
               (more && !next_zones(root, &path, next))))
      ok = route53_garbage(r, what, "the list of zones is not complete", error);
    xmlFreeDoc(doc);
    if (ok && more && strcmp(next, zone) != 0) { /* of `next` there may be more than were listed */
      json_object_del(r->zones, next);
      more = false;
    }
  }
  buf_close(&path);
  return ok;
}

static bool set_prefix(struct route53 *r, const char *zone) {
  const char *const texts[] = {r->marker, zone, NULL};
  char digest[ROUTE53_KEY];
  if (!route53_digest(texts, digest))
    return false;
  snprintf(r->prefix, sizeof r->prefix, "sluice:%.8s", digest);
  return true;
}

/* The ids of the public zones of the name, borrowed; NULL with *ok: there is none. */
static const json_t *ids_of(struct route53 *r, const char *zone, bool *ok,
                            struct provider_error *error) {
  const json_t *ids = json_object_get(r->zones, zone);
  *ok = set_prefix(r, zone) ? true : route53_garbage(r, "", "", error);
  if (*ok && !ids) {
    *ok = list_zones(r, zone, error);
    ids = *ok ? json_object_get(r->zones, zone) : NULL;
  }
  return ids;
}

bool route53_find_zone(struct route53 *r, const char *zone, struct provider_error *error) {
  bool ok;
  const json_t *ids = ids_of(r, zone, &ok, error);
  size_t count = json_array_size(ids);
  char list[NAMED * (ROUTE53_ID + 2)] = "";
  if (!ok)
    return false;
  if (count == 0)
    return provider_fail(error, PROVIDER_GONE,
                         "%s: zone %.200s is not there; create it, or check the account of the "
                         "provider's `secret`",
                         r->name, zone);
  for (size_t i = 0; i < count && i < NAMED; i++)
    snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "",
             json_string_value(json_array_get(ids, i)));
  if (count > 1)
    return provider_fail(error, PROVIDER_REFUSED,
                         "%s: there are %zu public zones of the name %.200s (%s%s); remove all but "
                         "the one that the parent zone delegates to",
                         r->name, count, zone, list, count > NAMED ? ", ..." : "");
  snprintf(r->zone_id, sizeof r->zone_id, "%s", list);
  return true;
}

/* ---- name servers --------------------------------------------------------------------------- */

json_t *route53_servers(void *self, const char *zone, struct provider_error *error) {
  struct route53 *r = self;
  char path[ROUTE53_ID + 20];
  xmlDoc *doc = NULL;
  if (!route53_find_zone(r, zone, error))
    return NULL;
  snprintf(path, sizeof path, "/hostedzone/%s", r->zone_id);
  const struct route53_call call = {.method = "GET",
                                    .path = path,
                                    .idempotent = true,
                                    .what = "the zone's name servers",
                                    .root = "GetHostedZoneResponse"};
  if (!route53_send(r, &call, &doc, error))
    return NULL;
  const xmlNode *set = route53_child(xmlDocGetRootElement(doc), "DelegationSet");
  const xmlNode *list = route53_child(set, "NameServers");
  json_t *out = json_array();
  for (const xmlNode *child = list ? list->children : NULL; child; child = child->next) {
    char name[NAME_MAX_TEXT];
    char *text = child->type == XML_ELEMENT_NODE ? route53_text(child, NULL) : NULL;
    if (text && route53_name(text, name))
      json_array_append_new(out, json_string(name));
    free(text);
  }
  xmlFreeDoc(doc);
  if (json_array_size(out) > 0)
    return out;
  json_decref(out);
  route53_garbage(r, "the zone", "it has no name servers", error);
  return NULL;
}

/* ---- making --------------------------------------------------------------------------------- */

/* The document of CreateHostedZone.  Its reference makes a repeated request the same one. */
static bool write_zone(struct route53 *r, const char *zone, struct buf *out) {
  char *octal = route53_octal_name(zone);
  xmlChar *name = octal ? xmlEncodeSpecialChars(NULL, BAD_CAST octal) : NULL;
  buf_printf(out, "<CreateHostedZoneRequest xmlns=\"%s\"><Name>%s</Name>", ROUTE53_NAMESPACE,
             name ? (const char *)name : "");
  buf_printf(out, "<CallerReference>%.20s:%016llx</CallerReference></CreateHostedZoneRequest>",
             r->prefix, (unsigned long long)rng_next(&r->rng));
  free(octal);
  bool ok = name && !out->failed;
  xmlFree(name);
  return ok;
}

bool route53_create_zone(void *self, const char *zone, struct provider_error *error) {
  struct route53 *r = self;
  struct buf body;
  char what[300];
  bool ok;
  name_it(what, zone);
  route53_forget(r);
  if (r->read_only)
    return provider_fail(error, PROVIDER_LOCAL, "%s: opened for reading only", r->name);
  size_t there = json_array_size(ids_of(r, zone, &ok, error));
  if (!ok)
    return false;
  if (there > 0)
    return provider_fail(error, PROVIDER_CONFLICT, "%s: zone %.200s is there already", r->name,
                         zone);
  buf_init(&body);
  const struct route53_call call = {.method = "POST",
                                    .path = "/hostedzone",
                                    .body = &body,
                                    .idempotent = true,
                                    .what = what,
                                    .root = "CreateHostedZoneResponse"};
  xmlDoc *doc = NULL;
  ok = write_zone(r, zone, &body) ? route53_send(r, &call, &doc, error)
                                  : route53_garbage(r, what, "", error);
  xmlFreeDoc(doc);
  buf_close(&body);
  route53_forget(r);
  /* A reply that was lost: the reference is known then. */
  if (!ok && error->failure == PROVIDER_CONFLICT)
    ok = route53_find_zone(r, zone, error);
  return ok;
}

/* ---- removing ------------------------------------------------------------------------------- */

/* Nothing but what Route 53 itself makes may be left; else the first of it is told. */
static bool check_empty(struct route53 *r, const char *zone, const struct provider_objects *objects,
                        struct provider_error *error) {
  size_t left = 0;
  const struct provider_object *first = NULL;
  for (size_t i = 0; i < objects->count; i++) {
    const struct provider_object *o = &objects->items[i];
    bool own =
        strcmp(o->name, zone) == 0 && (strcmp(o->type, "SOA") == 0 || strcmp(o->type, "NS") == 0);
    if (own || strcmp(o->type, ROUTE53_HEALTH) == 0)
      continue;
    first = first ? first : o;
    left++;
  }
  return left == 0 ? true
                   : provider_fail(error, PROVIDER_REFUSED,
                                   "%s: zone %.100s still holds %zu record sets (%.150s %.16s%s); "
                                   "remove them first",
                                   r->name, zone, left, first->name, first->type,
                                   left > 1 ? ", ..." : "");
}

bool route53_delete_zone(void *self, const char *zone, struct provider_error *error) {
  struct route53 *r = self;
  struct provider_objects objects;
  char path[ROUTE53_ID + 20];
  char what[300];
  if (r->read_only)
    return provider_fail(error, PROVIDER_LOCAL, "%s: opened for reading only", r->name);
  name_it(what, zone);
  provider_objects_init(&objects);
  route53_forget(r);
  bool ok = route53_read(r, zone, &objects, error) && check_empty(r, zone, &objects, error);
  /* Health checks that a killed run has left: nobody would ever look for them again. */
  for (size_t i = 0; ok && i < objects.count; i++)
    if (strcmp(objects.items[i].type, ROUTE53_HEALTH) == 0)
      ok = route53_delete_check(r, &objects.items[i], error);
  snprintf(path, sizeof path, "/hostedzone/%s", r->zone_id);
  const struct route53_call call = {
      .method = "DELETE", .path = path, .what = what, .root = "DeleteHostedZoneResponse"};
  ok = ok && route53_send(r, &call, NULL, error);
  provider_objects_close(&objects);
  route53_forget(r);
  return ok;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a zone: all pages of its record sets, and of the account's health checks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/providers/route53_private.h"

enum { PAGES_MAX = 10000 };

/* The path of the next page, in `path`; false: there is none that goes on from here. */
static bool next_sets(const struct route53 *r, const xmlNode *root, struct buf *path) {
  char *name = route53_text(root, "NextRecordName");
  char *type = route53_text(root, "NextRecordType");
  char *identifier = route53_text(root, "NextRecordIdentifier");
  buf_clear(path);
  buf_printf(path, "/hostedzone/%s/rrset", r->zone_id);
  if (identifier)
    route53_add_query(path, '?', "identifier", identifier);
  route53_add_query(path, identifier ? '&' : '?', "maxitems", "300");
  route53_add_query(path, '&', "name", name ? name : "");
  route53_add_query(path, '&', "type", type ? type : "");
  bool ok = name && type;
  free(name);
  free(type);
  free(identifier);
  return ok;
}

static bool next_checks(const xmlNode *root, struct buf *path) {
  char *marker = route53_text(root, "NextMarker");
  buf_clear(path);
  buf_add_str(path, "/healthcheck");
  route53_add_query(path, '?', "marker", marker ? marker : "");
  route53_add_query(path, '&', "maxitems", "100");
  bool ok = marker;
  free(marker);
  return ok;
}

/* A page that was got: of record sets it is taken in, of checks it is kept. */
static bool take_page(struct route53 *r, xmlDoc *doc, struct route53_reading *sets) {
  if (sets) {
    bool ok = route53_read_sets(sets, xmlDocGetRootElement(doc));
    xmlFreeDoc(doc);
    return ok;
  }
  xmlDoc **pages = realloc(r->check_pages, (r->check_page_count + 1) * sizeof *pages);
  if (!pages) {
    xmlFreeDoc(doc);
    return false;
  }
  r->check_pages = pages;
  pages[r->check_page_count++] = doc;
  return true;
}

/* All pages of one list: of the zone's record sets, or (without `sets`) of the health checks. */
static bool get_pages(struct route53 *r, struct route53_reading *sets,
                      struct provider_error *error) {
  const char *what = sets ? "the records" : "the health checks";
  struct route53_call call = {.method = "GET",
                              .idempotent = true,
                              .what = what,
                              .root = sets ? "ListResourceRecordSetsResponse"
                                           : "ListHealthChecksResponse"};
  struct buf path;
  buf_init(&path);
  if (sets)
    buf_printf(&path, "/hostedzone/%s/rrset?maxitems=300", r->zone_id);
  else
    buf_add_str(&path, "/healthcheck?maxitems=100");
  bool ok = true;
  bool more = true;
  for (size_t page = 0; ok && more; page++) {
    xmlDoc *doc = NULL;
    char *before = strdup(buf_text(&path));
    bool goes_on = true;
    call.path = before;
    more = false;
    ok = !before || path.failed ? route53_garbage(r, what, "", error)
         : page < PAGES_MAX     ? route53_send(r, &call, &doc, error)
                                : route53_garbage(r, what, "the list has no end", error);
    const xmlNode *root = ok ? xmlDocGetRootElement(doc) : NULL;
    bool told = ok && route53_is_truncated(root, &more);
    if (told && more)
      goes_on = (sets ? next_sets(r, root, &path) : next_checks(root, &path)) && before &&
                strcmp(before, buf_text(&path)) != 0;
    free(before);
    if (ok && !take_page(r, doc, sets))
      ok = route53_garbage(r, what, sets ? sets->why : "", error);
    else if (ok && !told)
      ok = route53_garbage(r, what, "it does not say whether that is all", error);
    else if (ok && !goes_on)
      ok = route53_garbage(r, what, "there is more, but not where", error);
  }
  buf_close(&path);
  return ok;
}

/* Takes the zone's health checks from the pages, which are got if they are not there. */
static bool take_checks(struct route53 *r, struct route53_reading *reading,
                        struct provider_error *error) {
  if (!r->checks_listed)
    r->checks_listed = get_pages(r, NULL, error);
  bool ok = r->checks_listed;
  for (size_t i = 0; ok && i < r->check_page_count; i++)
    if (!route53_read_checks(reading, xmlDocGetRootElement(r->check_pages[i])))
      ok = route53_garbage(r, "the health checks", reading->why, error);
  return ok;
}

static bool open_reading(struct route53_reading *reading, const struct route53 *r, const char *zone,
                         struct provider_objects *out) {
  *reading = (struct route53_reading){.marker = r->marker,
                                      .zone = zone,
                                      .prefix = r->prefix,
                                      .out = out,
                                      .checks = json_object(),
                                      .ids = json_object(),
                                      .seen = json_object()};
  return reading->checks && reading->ids && reading->seen;
}

/* Keeps the checks that were found, if all went well. */
static void close_reading(struct route53_reading *reading, struct route53 *r, bool ok) {
  json_decref(reading->ids);
  json_decref(reading->seen);
  json_decref(r->checks);
  r->checks = ok ? reading->checks : NULL;
  if (!ok)
    json_decref(reading->checks);
}

bool route53_list_checks(struct route53 *r, const char *zone, struct provider_objects *out,
                         struct provider_error *error) {
  struct route53_reading reading;
  bool ok = open_reading(&reading, r, zone, out) ? take_checks(r, &reading, error)
                                                 : route53_garbage(r, "", "", error);
  close_reading(&reading, r, ok);
  return ok;
}

/* What was listed for other zones serves this one too, but no zone twice. */
static bool note_read(struct route53 *r, const char *zone) {
  if (json_object_get(r->read, zone))
    route53_forget(r);
  r->read = r->read ? r->read : json_object();
  return json_object_set_new(r->read, zone, json_true()) == 0;
}

bool route53_read(void *self, const char *zone, struct provider_objects *out,
                  struct provider_error *error) {
  struct route53 *r = self;
  struct route53_reading reading;
  if (!note_read(r, zone))
    return route53_garbage(r, "", "", error);
  if (!route53_find_zone(r, zone, error)) {
    route53_forget(r);
    return false;
  }
  bool ok = open_reading(&reading, r, zone, out)
                ? take_checks(r, &reading, error) && get_pages(r, &reading, error)
                : route53_garbage(r, "", "", error);
  if (ok && !route53_link_checks(&reading))
    ok = route53_garbage(r, "", "", error);
  close_reading(&reading, r, ok);
  if (!ok)
    route53_forget(r);
  return ok;
}

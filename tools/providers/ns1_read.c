/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A zone as NS1 has it: its list, page by page, then one request more for each record that has
 * filters or meta ("tier" above 1), several at a time, and the zone's feeds.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "tools/providers/ns1_private.h"
#include "tools/providers/web.h"

enum { NAME = 1100, TYPE = 16, WHAT = 300 };

struct reading {
  struct ns1 *n;
  const char *zone;
  json_t *first;   /* page of the list */
  json_t *records; /* as listed; those that were asked for take the place of their items */
  json_t *seen;    /* NAME/TYPE */
  size_t *places;  /* of what is asked for, in `records` */
  struct ns1_call *calls;
  size_t call_count;
};

/* ---- names ---------------------------------------------------------------------------------- */

char *ns1_absolute(const char *name) {
  size_t len = name ? strlen(name) : 0;
  char *out = len > 0 && len < 1024 ? malloc(len + 2) : NULL;
  if (!out)
    return NULL;
  for (size_t i = 0; i < len; i++)
    out[i] = (char)tolower((unsigned char)name[i]);
  if (out[len - 1] != '.')
    out[len++] = '.';
  out[len] = '\0';
  return out;
}

static bool same_name(const char *name, const char *dotted) {
  size_t len = strlen(dotted);
  if (len > 1)
    len--;
  return name && strncasecmp(name, dotted, len) == 0 &&
         (name[len] == '\0' || strcmp(name + len, ".") == 0);
}

static bool is_below(const char *name, const char *zone) {
  size_t a = strlen(name);
  size_t z = strlen(zone);
  return a >= z && strcasecmp(name + a - z, zone) == 0 && (a == z || name[a - z - 1] == '.');
}

static bool garbage(const struct reading *r, const char *what, struct provider_error *error) {
  char where[WHAT];
  snprintf(where, sizeof where, "zone %.255s", r->zone);
  return ns1_garbage(r->n, where, what, error);
}

/* ---- the list ------------------------------------------------------------------------------- */

static bool take_page(void *arg, json_t *page, struct provider_error *error) {
  struct reading *r = arg;
  json_t *list = json_object_get(page, "records");
  const char *name = json_string_value(json_object_get(page, "zone"));
  if (!json_is_array(list) || (name && !same_name(name, r->zone)))
    return garbage(r, "the list of records is missing, or the name is another", error);
  if (!r->first)
    r->first = json_incref(page);
  return json_array_extend(r->records, list) == 0 || web_no_memory(r->n->name, error);
}

/* The name (malloc'd) and type of an item; false: it is malformed, or there twice. */
static bool take_item(struct reading *r, const json_t *item, char **name, const char **type,
                      struct provider_error *error) {
  char key[NAME];
  *name = ns1_absolute(json_string_value(json_object_get(item, "domain")));
  *type = json_string_value(json_object_get(item, "type"));
  if (!*name || !*type || !**type || strlen(*type) >= TYPE || !is_below(*name, r->zone))
    return garbage(r, "a record is malformed, or of another zone", error);
  snprintf(key, sizeof key, "%s/%s", *name, *type);
  if (json_object_get(r->seen, key))
    return provider_fail(
        error, PROVIDER_CONFLICT,
        "%s: %.250s %s is listed twice: the zone changed while it was read; run it again",
        r->n->name, *name, *type);
  return json_object_set_new(r->seen, key, json_true()) == 0 || web_no_memory(r->n->name, error);
}

/* ---- whole records -------------------------------------------------------------------------- */

/* The list says all of a record of tier 1. */
static bool is_whole(const json_t *item) {
  const json_t *tier = json_object_get(item, "tier");
  const char *text = json_string_value(tier);
  return json_integer_value(tier) == 1 || (text && strcmp(text, "1") == 0);
}

static bool is_selected(const struct ns1 *n, const char *name) {
  for (size_t i = 0; i < n->name_count; i++)
    if (strcmp(n->names[i], name) == 0)
      return true;
  return !n->names;
}

static bool ask(struct reading *r, size_t place, const char *name, const char *type,
                struct provider_error *error) {
  char what[WHAT];
  struct ns1_call *call = &r->calls[r->call_count];
  snprintf(what, sizeof what, "%.250s %.16s", name, type);
  r->places[r->call_count++] = place;
  call->wanted = true;
  return ns1_call_fill(r->n, call, ns1_url(r->n, "zones", r->zone, name, type), NULL, what, error);
}

static bool take_replies(struct reading *r, struct provider_error *error) {
  for (size_t i = 0; i < r->call_count; i++) {
    const json_t *item = json_array_get(r->records, r->places[i]);
    const char *type = json_string_value(json_object_get(item, "type"));
    char *name = ns1_absolute(json_string_value(json_object_get(item, "domain")));
    const char *is = json_string_value(json_object_get(r->calls[i].reply, "type"));
    bool same = name &&
                same_name(json_string_value(json_object_get(r->calls[i].reply, "domain")), name) &&
                is && type && strcasecmp(is, type) == 0;
    free(name);
    if (!same)
      return garbage(r, "asked for one record, it gives another", error);
    if (json_array_set(r->records, r->places[i], r->calls[i].reply) != 0)
      return web_no_memory(r->n->name, error);
  }
  return true;
}

/* All records of which the list does not say all. */
static bool ask_all(struct reading *r, struct provider_error *error) {
  size_t count = json_array_size(r->records);
  r->calls = calloc(count + 1, sizeof *r->calls);
  r->places = calloc(count + 1, sizeof *r->places);
  bool ok = r->calls && r->places ? true : web_no_memory(r->n->name, error);
  for (size_t i = 0; ok && i < count; i++) {
    const json_t *item = json_array_get(r->records, i);
    char *name;
    const char *type;
    ok = take_item(r, item, &name, &type, error);
    if (ok && !is_whole(item) && is_selected(r->n, name) && strcmp(type, "SOA") != 0)
      ok = ask(r, i, name, type, error);
    free(name);
  }
  if (ok && !ns1_calls(r->n, NS1_GET, r->calls, r->call_count, error)) {
    if (error->failure == PROVIDER_GONE)
      error->failure = PROVIDER_CONFLICT;
    ok = false;
  }
  return ok && take_replies(r, error);
}

/* ---- objects -------------------------------------------------------------------------------- */

/* The body of what we do not understand: a digest. */
static json_t *opaque_body(const json_t *record) {
  char hex[33];
  char *text = ns1_sorted_text(record);
  bool ok = text && ns1_digest(text, sizeof hex - 1, hex);
  free(text);
  return ok ? json_pack("{s:s}", "digest", hex) : NULL;
}

static json_t *canonical(const struct ns1 *n, const char *type, json_t *record) {
  if (!json_object_get(record, "answers"))
    return is_whole(record) ? ns1_canonical_short(type, record) : NULL;
  json_t *named = ns1_feeds_name(n, record);
  json_t *body = named ? ns1_canonical(type, named) : NULL;
  json_decref(named);
  return body;
}

static bool add_object(struct reading *r, json_t *record, struct provider_objects *out,
                       struct provider_error *error) {
  const char *type = json_string_value(json_object_get(record, "type"));
  char *name = ns1_absolute(json_string_value(json_object_get(record, "domain")));
  if (!name || !type || strcmp(type, "SOA") == 0) {
    free(name);
    return true;
  }
  json_t *body = canonical(r->n, type, record);
  char *owner = ns1_owner(body);
  bool opaque = !body;
  struct provider_object *object =
      ns1_add_record(out, name, type, body ? body : opaque_body(record));
  bool ok = object;
  if (ok) {
    object->opaque = opaque;
    object->raw = json_incref(record);
    object->owner = owner;
    ok = !owner || (object->domain = strdup(name)) != NULL;
  } else {
    free(owner);
  }
  free(name);
  return ok || web_no_memory(r->n->name, error);
}

/* "hostmaster@example.net" as a name (RFC 1035 section 8). */
static void add_mailbox(struct buf *out, const char *text) {
  const char *at = strchr(text, '@');
  for (const char *c = text; *c; c++) {
    if (*c == '.' && at && c < at)
      buf_add_str(out, "\\");
    buf_add_u8(out, (uint8_t)(c == at ? '.' : *c));
  }
}

/* The SOA is in the zone itself, not among its records; what is not told whole is left out. */
static bool add_soa(const struct reading *r, struct provider_objects *out) {
  static const char *const numbers[] = {"serial", "refresh", "retry", "expiry", "nx_ttl"};
  const json_t *ttl = json_object_get(r->first, "ttl");
  const char *master = json_string_value(json_object_get(r->first, "primary_master"));
  const char *mailbox = json_string_value(json_object_get(r->first, "hostmaster"));
  struct buf text;
  buf_init(&text);
  buf_printf(&text, "%.255s. ", master ? master : "");
  add_mailbox(&text, mailbox ? mailbox : "");
  buf_add_str(&text, ".");
  bool whole = master && mailbox && json_is_integer(ttl);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    const json_t *number = json_object_get(r->first, numbers[i]);
    whole = whole && json_is_integer(number);
    buf_printf(&text, " %lld", (long long)json_integer_value(number));
  }
  char *value = whole && !text.failed ? provider_rdata_text("SOA", buf_text(&text)) : NULL;
  bool ok = !text.failed;
  if (value)
    ok = provider_add_rrset(out, r->zone, "SOA", (uint32_t)json_integer_value(ttl),
                            json_pack("[s]", value));
  free(value);
  buf_close(&text);
  return ok;
}

static bool use_feeds(const struct reading *r) {
  size_t i;
  const json_t *record;
  json_array_foreach(r->records, i, record) {
    if (ns1_has_feed(record))
      return true;
  }
  return r->n->feeds;
}

static bool read_all(struct reading *r, struct provider_objects *out,
                     struct provider_error *error) {
  char what[WHAT];
  snprintf(what, sizeof what, "zone %.255s", r->zone);
  char *url = ns1_url(r->n, "zones", r->zone, NULL, NULL);
  if (!ns1_list(r->n, url, what, take_page, r, error) || !ask_all(r, error))
    return false;
  ns1_feeds_forget(r->n);
  if (use_feeds(r) && !ns1_feeds_read(r->n, r->zone, out, error))
    return false;
  for (size_t i = 0; i < json_array_size(r->records); i++)
    if (!add_object(r, json_array_get(r->records, i), out, error))
      return false;
  return (add_soa(r, out) && ns1_feeds_link(out)) || web_no_memory(r->n->name, error);
}

bool ns1_read(void *self, const char *zone, struct provider_objects *out,
              struct provider_error *error) {
  struct reading r = {.n = self, .zone = zone, .records = json_array(), .seen = json_object()};
  bool ok = r.records && r.seen ? read_all(&r, out, error) : web_no_memory(r.n->name, error);
  json_decref(r.first);
  json_decref(r.records);
  json_decref(r.seen);
  ns1_calls_close(r.calls, r.call_count);
  free(r.places);
  return ok;
}

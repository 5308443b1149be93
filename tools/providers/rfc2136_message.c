/* SPDX-License-Identifier: Apache-2.0 */
/* UPDATE messages (RFC 2136 section 2) out of changes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "tools/providers/rfc2136_private.h"
#include "zones/record.h"

enum {
  CLASS_IN = 1,
  CLASS_NONE = 254,
  CLASS_ANY = 255,
  TYPE_NS = 2,
  TYPE_CNAME = 5,
  TYPE_ANY = 255
};
enum { OPCODE = 5 << 3 };

/* All that happens to one name and its marker. */
struct group {
  size_t first, count; /* of the sorted changes */
  size_t order;        /* the first of them as given */
  int turn;            /* TURN_ below */
  struct buf expect, update;
  unsigned expects, updates;
};

/* Name servers of the zone come after their addresses, and before old addresses go: BIND refuses
 * what leaves a name server without any.  A marker that no record of its name goes with keeps the
 * side of the records on which it was given: nothing is there without its mark in between. */
enum { TURN_MARK, TURN_ADD, TURN_SERVERS, TURN_DELETE, TURN_UNMARK };

struct entry {
  const struct provider_change *change;
  char *key; /* the name, without the prefix of markers */
  size_t order;
};

struct maker {
  const char *provider, *zone;
  struct provider_error *error;
  struct entry *entries;
  struct group *groups;
  size_t count, group_count;
};

/* ---- records -------------------------------------------------------------------------------- */

static bool local(const struct maker *m) {
  return provider_fail(m->error, PROVIDER_LOCAL, "%s: out of memory", m->provider);
}

/* Appends a record; `rdata` is NULL where the form has none. */
static bool add_rr(const struct maker *m, struct buf *out, unsigned *count, const char *name,
                   uint16_t type, uint16_t rclass, uint32_t ttl, const uint8_t *rdata, size_t len) {
  uint8_t owner[NAME_BUF];
  const char *why;
  size_t n = name_from_text(owner, name, strlen(name), NULL, &why);
  if (n == 0)
    return provider_fail(m->error, PROVIDER_LOCAL, "%s: %.200s is no name: %s", m->provider, name,
                         why);
  buf_add(out, owner, n);
  const uint8_t head[10] = {(uint8_t)(type >> 8), (uint8_t)type,        (uint8_t)(rclass >> 8),
                            (uint8_t)rclass,      (uint8_t)(ttl >> 24), (uint8_t)(ttl >> 16),
                            (uint8_t)(ttl >> 8),  (uint8_t)ttl,         (uint8_t)(len >> 8),
                            (uint8_t)len};
  buf_add(out, head, sizeof head);
  if (len > 0)
    buf_add(out, rdata, len);
  (*count)++;
  return out->failed ? local(m) : true;
}

/* Presentation form to octets; returns their number, or 0. */
static size_t from_text(const char *type, const char *value, uint8_t *out) {
  uint8_t *rdata;
  size_t len;
  if (!provider_rdata_parse(type, value, &rdata, &len))
    return 0;
  if (len <= RECORD_MAX_RDATA)
    memcpy(out, rdata, len);
  free(rdata);
  return len <= RECORD_MAX_RDATA ? len : 0;
}

static int digit(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool from_hex(const char *text, uint8_t *out, size_t *len) {
  size_t n = strlen(text);
  if (n % 2 != 0 || n / 2 > RECORD_MAX_RDATA)
    return false;
  for (size_t i = 0; i < n; i += 2) {
    int high = digit(text[i]);
    int low = digit(text[i + 1]);
    if (high < 0 || low < 0)
      return false;
    out[i / 2] = (uint8_t)(high << 4 | low);
  }
  *len = n / 2;
  return true;
}

/* The data of an RRset: as it was read where that is known, so that it is exact. */
static const json_t *data_of(const struct provider_object *object, bool *raw) {
  const json_t *list = json_object_get(object->raw, "rdata");
  *raw = json_array_size(list) > 0;
  return *raw ? list : json_object_get(object->body, "values");
}

typedef bool (*take_rdata)(const struct maker *m, struct group *g,
                           const struct provider_object *object, uint16_t type,
                           const uint8_t *rdata, size_t len);

static bool each_rdata(const struct maker *m, struct group *g, const struct provider_object *object,
                       uint16_t type, take_rdata take) {
  static _Thread_local uint8_t rdata[RECORD_MAX_RDATA];
  size_t i;
  const json_t *item;
  bool raw;
  json_array_foreach(data_of(object, &raw), i, item) {
    const char *text = json_string_value(item);
    size_t len = 0;
    bool ok = text && (raw ? from_hex(text, rdata, &len)
                           : (len = from_text(object->type, text, rdata)) > 0);
    if (!ok)
      return provider_fail(m->error, PROVIDER_LOCAL, "%s: a value of %.200s %s cannot be written",
                           m->provider, object->name, object->type);
    if (!take(m, g, object, type, rdata, len))
      return false;
  }
  return true;
}

static uint32_t ttl_of(const struct provider_object *object) {
  return (uint32_t)json_integer_value(json_object_get(object->body, "ttl"));
}

static bool expect_rdata(const struct maker *m, struct group *g,
                         const struct provider_object *object, uint16_t type, const uint8_t *rdata,
                         size_t len) {
  return add_rr(m, &g->expect, &g->expects, object->name, type, CLASS_IN, 0, rdata, len);
}

static bool add_rdata(const struct maker *m, struct group *g, const struct provider_object *object,
                      uint16_t type, const uint8_t *rdata, size_t len) {
  return add_rr(m, &g->update, &g->updates, object->name, type, CLASS_IN, ttl_of(object), rdata,
                len);
}

/* ---- changes -------------------------------------------------------------------------------- */

static const struct provider_object *object_of(const struct provider_change *change) {
  return change->new ? change->new : change->old;
}

static bool is_apex_ns(const struct maker *m, const struct provider_object *object) {
  return strcmp(object->type, "NS") == 0 && strcmp(object->name, m->zone) == 0;
}

/* True if the group takes something away at this name. */
static bool has_old(const struct maker *m, const struct group *g, const char *name) {
  for (size_t i = g->first; i < g->first + g->count; i++)
    if (m->entries[i].change->old && strcmp(m->entries[i].change->old->name, name) == 0)
      return true;
  return false;
}

/* What is new expects its place to be free.  A CNAME beside other data would be left out without
 * an error (RFC 2136 section 3.4.2.2), so that is expected, too. */
static bool expect_nothing(const struct maker *m, struct group *g,
                           const struct provider_object *new, uint16_t type) {
  bool old = has_old(m, g, new->name);
  if (type == TYPE_CNAME && !old)
    return add_rr(m, &g->expect, &g->expects, new->name, TYPE_ANY, CLASS_NONE, 0, NULL, 0);
  if (!add_rr(m, &g->expect, &g->expects, new->name, type, CLASS_NONE, 0, NULL, 0))
    return false;
  return old || add_rr(m, &g->expect, &g->expects, new->name, TYPE_CNAME, CLASS_NONE, 0, NULL, 0);
}

static bool add_expectations(const struct maker *m, struct group *g) {
  for (size_t i = g->first; i < g->first + g->count; i++) {
    const struct provider_change *change = m->entries[i].change;
    const struct provider_object *object = object_of(change);
    uint16_t type = record_type(object->type, strlen(object->type));
    if (type == 0)
      return provider_fail(m->error, PROVIDER_LOCAL, "%s: type %.20s of %.200s is not known",
                           m->provider, object->type, object->name);
    bool ok = change->old ? each_rdata(m, g, change->old, type, expect_rdata)
                          : expect_nothing(m, g, change->new, type);
    if (!ok)
      return false;
  }
  return true;
}

static bool add_deletes(const struct maker *m, struct group *g) {
  for (size_t i = g->first; i < g->first + g->count; i++) {
    const struct provider_object *old = m->entries[i].change->old;
    if (old && !is_apex_ns(m, old) &&
        !add_rr(m, &g->update, &g->updates, old->name, record_type(old->type, strlen(old->type)),
                CLASS_ANY, 0, NULL, 0))
      return false;
  }
  return true;
}

static bool add_additions(const struct maker *m, struct group *g) {
  for (size_t i = g->first; i < g->first + g->count; i++) {
    const struct provider_object *new = m->entries[i].change->new;
    if (new && !each_rdata(m, g, new, record_type(new->type, strlen(new->type)), add_rdata))
      return false;
  }
  return true;
}

static bool has_value(const struct provider_object *object, const char *value) {
  size_t i;
  const json_t *item;
  json_array_foreach(json_object_get(object->body, "values"), i, item) {
    if (strcmp(json_string_value(item), value) == 0)
      return true;
  }
  return false;
}

/* Adds or deletes (class NONE) one name server of the apex. */
static bool name_server(const struct maker *m, struct group *g, uint16_t rclass, uint32_t ttl,
                        const uint8_t *rdata, size_t len) {
  return add_rr(m, &g->update, &g->updates, m->zone, TYPE_NS, rclass, ttl, rdata, len);
}

/*
 * Name servers of the apex one by one, after the new ones were added: those that are not to be any
 * more go.  To change the TTL those that stay go and come back, for Knot takes what is there
 * already for done, whatever its TTL.  The last one of a zone cannot go, so that a lone one gets
 * company until then; nobody sees that, for the message is done as a whole.
 */
static bool settle_servers(const struct maker *m, struct group *g,
                           const struct provider_change *change) {
  static _Thread_local uint8_t rdata[RECORD_MAX_RDATA];
  static const uint8_t company[] = "\2ns\7invalid";
  uint32_t ttl = ttl_of(change->new);
  bool again = ttl_of(change->old) != ttl;
  bool alone = again && json_array_size(json_object_get(change->new->body, "values")) == 1;
  size_t i;
  const json_t *item;
  if (alone && !name_server(m, g, CLASS_IN, ttl, company, sizeof company))
    return false;
  json_array_foreach(json_object_get(change->old->body, "values"), i, item) {
    const char *value = json_string_value(item);
    bool stays = has_value(change->new, value);
    if (stays && !again)
      continue;
    size_t len = from_text("NS", value, rdata);
    if (len == 0)
      return local(m);
    if (!name_server(m, g, CLASS_NONE, 0, rdata, len) ||
        (stays && !name_server(m, g, CLASS_IN, ttl, rdata, len)))
      return false;
  }
  return !alone || name_server(m, g, CLASS_NONE, 0, company, sizeof company);
}

static bool drop_servers(const struct maker *m, struct group *g) {
  for (size_t i = g->first; i < g->first + g->count; i++) {
    const struct provider_change *change = m->entries[i].change;
    if (!change->old || !is_apex_ns(m, change->old))
      continue;
    if (!change->new)
      return provider_fail(m->error, PROVIDER_REFUSED,
                           "%s: %.200s cannot lose all its name servers", m->provider, m->zone);
    if (!settle_servers(m, g, change))
      return false;
  }
  return true;
}

/* ---- groups --------------------------------------------------------------------------------- */

static const char prefix[] = "_sluice.";
static const char wildcard[] = "_wildcard.";

static bool is_marker(const struct provider_object *object) {
  return strcmp(object->type, "TXT") == 0 && strncmp(object->name, prefix, sizeof prefix - 1) == 0;
}

/* The name that an object is changed with: markers go with what they mark. */
static char *key_of(const struct provider_object *object) {
  char *out;
  if (!is_marker(object))
    return strdup(object->name);
  const char *name = object->name + sizeof prefix - 1;
  if (strncmp(name, wildcard, sizeof wildcard - 1) != 0)
    return strdup(name);
  return asprintf(&out, "*.%s", name + sizeof wildcard - 1) < 0 ? NULL : out;
}

static int by_key(const void *a, const void *b) {
  const struct entry *x = a;
  const struct entry *y = b;
  int c = strcmp(x->key, y->key);
  return c != 0 ? c : (x->order > y->order) - (x->order < y->order);
}

static int by_turn(const void *a, const void *b) {
  const struct group *x = a;
  const struct group *y = b;
  if (x->turn != y->turn)
    return x->turn < y->turn ? -1 : 1;
  return (x->order > y->order) - (x->order < y->order);
}

static bool sort_changes(struct maker *m, const struct provider_change *changes, size_t count) {
  m->entries = calloc(count + 1, sizeof *m->entries);
  m->groups = calloc(count + 1, sizeof *m->groups);
  if (!m->entries || !m->groups)
    return local(m);
  for (size_t i = 0; i < count; i++) {
    m->entries[i] = (struct entry){&changes[i], key_of(object_of(&changes[i])), i};
    m->count = i + 1;
    if (!m->entries[i].key)
      return local(m);
  }
  qsort(m->entries, count, sizeof *m->entries, by_key);
  return true;
}

/* The place of the first change of a record, as given. */
static size_t first_record(const struct maker *m) {
  size_t first = SIZE_MAX;
  for (size_t i = 0; i < m->count; i++)
    if (!is_marker(object_of(m->entries[i].change)) && m->entries[i].order < first)
      first = m->entries[i].order;
  return first;
}

static int turn_of(const struct maker *m, const struct group *g, size_t first) {
  int turn = g->order < first ? TURN_MARK : TURN_UNMARK;
  for (size_t i = g->first; i < g->first + g->count; i++) {
    const struct provider_change *change = m->entries[i].change;
    if (is_marker(object_of(change)))
      continue;
    if (change->new &&is_apex_ns(m, change->new))
      return TURN_SERVERS;
    if (change->new)
      turn = TURN_ADD;
    else if (turn != TURN_ADD)
      turn = TURN_DELETE;
  }
  return turn;
}

static void make_groups(struct maker *m) {
  size_t first = first_record(m);
  for (size_t i = 0, end; i < m->count; i = end) {
    struct group *g = &m->groups[m->group_count++];
    *g = (struct group){.first = i, .order = m->entries[i].order};
    buf_init(&g->expect);
    buf_init(&g->update);
    for (end = i; end < m->count && strcmp(m->entries[end].key, m->entries[i].key) == 0;)
      end++;
    g->count = end - i;
    g->turn = turn_of(m, g, first);
  }
  qsort(m->groups, m->group_count, sizeof *m->groups, by_turn);
}

static bool fill_group(const struct maker *m, struct group *g) {
  return add_expectations(m, g) && add_deletes(m, g) && add_additions(m, g) && drop_servers(m, g);
}

/* ---- messages ------------------------------------------------------------------------------- */

static void put16(uint8_t *at, size_t value) {
  at[0] = (uint8_t)(value >> 8);
  at[1] = (uint8_t)value;
}

/* One message of the groups from `from` to before `to`. */
static bool pack(const struct maker *m, size_t from, size_t to, size_t size,
                 struct rfc2136_message *out) {
  uint8_t zone[NAME_BUF];
  const char *why;
  size_t n = name_from_text(zone, m->zone, strlen(m->zone), NULL, &why);
  size_t expects = 0;
  size_t updates = 0;
  uint8_t *p = calloc(1, size);
  if (!p)
    return local(m);
  out->octets = p;
  out->len = RFC2136_HEADER;
  memcpy(p + out->len, zone, n);
  put16(p + out->len + n, RECORD_SOA);
  put16(p + out->len + n + 2, CLASS_IN);
  out->len += n + 4;
  for (size_t i = from; i < to; i++) {
    if (m->groups[i].expect.len > 0)
      memcpy(p + out->len, m->groups[i].expect.data, m->groups[i].expect.len);
    out->len += m->groups[i].expect.len;
    expects += m->groups[i].expects;
  }
  for (size_t i = from; i < to; i++) {
    if (m->groups[i].update.len > 0)
      memcpy(p + out->len, m->groups[i].update.data, m->groups[i].update.len);
    out->len += m->groups[i].update.len;
    updates += m->groups[i].updates;
    out->changes += m->groups[i].count;
  }
  p[2] = OPCODE;
  put16(p + 4, 1);
  put16(p + 6, expects);
  put16(p + 8, updates);
  return true;
}

static bool pack_all(const struct maker *m, size_t max, struct rfc2136_messages *out) {
  const size_t frame = RFC2136_HEADER + NAME_MAX_WIRE + 4;
  out->items = calloc(m->group_count + 1, sizeof *out->items);
  if (!out->items)
    return local(m);
  for (size_t from = 0, to; from < m->group_count; from = to) {
    size_t size = frame;
    for (to = from; to < m->group_count; to++) {
      size_t more = m->groups[to].expect.len + m->groups[to].update.len;
      if (size + more > max)
        break;
      size += more;
    }
    if (to == from)
      return provider_fail(m->error, PROVIDER_REFUSED,
                           "%s: the records of %.200s are too large for one message of %zu octets; "
                           "give it fewer",
                           m->provider, m->entries[m->groups[from].first].key, max);
    if (!pack(m, from, to, size, &out->items[out->count++]))
      return false;
  }
  return true;
}

bool rfc2136_messages_make(const char *provider, const char *zone,
                           const struct provider_change *changes, size_t count, size_t max,
                           struct rfc2136_messages *out, struct provider_error *error) {
  struct maker m = {.provider = provider, .zone = zone, .error = error};
  *out = (struct rfc2136_messages){0};
  bool ok = sort_changes(&m, changes, count);
  if (ok)
    make_groups(&m);
  for (size_t i = 0; ok && i < m.group_count; i++)
    ok = fill_group(&m, &m.groups[i]);
  ok = ok && pack_all(&m, max, out);
  for (size_t i = 0; i < m.group_count; i++) {
    buf_close(&m.groups[i].expect);
    buf_close(&m.groups[i].update);
  }
  for (size_t i = 0; i < m.count; i++)
    free(m.entries[i].key);
  free(m.groups);
  free(m.entries);
  return ok;
}

void rfc2136_messages_close(struct rfc2136_messages *messages) {
  for (size_t i = 0; i < messages->count; i++)
    free(messages->items[i].octets);
  free(messages->items);
  *messages = (struct rfc2136_messages){0};
}

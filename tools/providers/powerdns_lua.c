/* SPDX-License-Identifier: Apache-2.0 */
/* The code of a LUA record.  It is cut at spaces later (powerdns_text.h): no space in a string, no
 * long word. */
#include "tools/providers/powerdns_lua.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "steering/layers.h"
#include "tools/providers/powerdns_text.h"

/* ---- endpoints ------------------------------------------------------------------------------ */

/* Numbers of the endpoints in the code's table `e`, from 1; 0: not in it. */
struct places {
  uint32_t *number;
  uint32_t count;
};

static void add_address(struct buf *out, int family, const void *octets, bool *first) {
  char text[INET6_ADDRSTRLEN];
  if (!inet_ntop(family, octets, text, sizeof text))
    return;
  buf_add_str(out, *first ? "" : ", ");
  powerdns_quote(out, text);
  *first = false;
}

/* {'192.0.2.1', '192.0.2.2'} */
static void add_endpoint(struct buf *out, const struct steer_endpoint *e, enum steer_type type) {
  bool first = true;
  buf_add_str(out, "{");
  for (uint32_t i = 0; type == STEER_A && i < e->addr4_count; i++)
    add_address(out, AF_INET, e->addr4[i], &first);
  for (uint32_t i = 0; type == STEER_AAAA && i < e->addr6_count; i++)
    add_address(out, AF_INET6, e->addr6[i], &first);
  if (type == STEER_CNAME) {
    char name[NAME_MAX_TEXT];
    powerdns_quote(out, name_to_text(name, e->host));
  }
  buf_add_str(out, "}");
}

static void number_used(const struct steer_domain *d, enum steer_type type, struct places *places) {
  for (uint32_t r = 0; r < d->region_count; r++)
    for (uint32_t l = 0; l < d->regions[r].level_count; l++)
      for (uint32_t i = 0; i < d->regions[r].levels[l].entry_count; i++) {
        uint16_t e = d->regions[r].levels[l].entries[i].endpoint;
        if (steer_endpoint_has(&d->endpoints[e], type))
          places->number[e] = 1;
      }
  for (uint32_t e = 0; e < d->endpoint_count; e++)
    if (places->number[e])
      places->number[e] = ++places->count;
}

static void add_table(struct buf *out, const struct steer_domain *d, enum steer_type type,
                      const struct places *places) {
  bool first = true;
  buf_add_str(out, "local e = {");
  for (uint32_t e = 0; e < d->endpoint_count; e++) {
    if (!places->number[e])
      continue;
    buf_add_str(out, first ? "" : ", ");
    add_endpoint(out, &d->endpoints[e], type);
    first = false;
  }
  buf_add_str(out, "} ");
}

/* ---- layer 4 -------------------------------------------------------------------------------- */

/* l: {{endpoint, weight above 0}, ...}.  pickwrandom() uses the server's generator; Lua's own would
 * begin with the same seed in each query. */
static const char draw_one_code[] =
    "local function d(l) local w = {} for i, x in ipairs(l) do w[i] = {x[2], tostring(x[1])} end "
    "return e[tonumber(pickwrandom(w))] end ";

/* n different ones, without replacement; equal addresses once. */
static const char draw_many_code[] =
    "local function d(l, n) local r, s = {}, {} while n > 0 and #l > 0 do local w = {} "
    "for i, x in ipairs(l) do w[i] = {x[2], tostring(i)} end local i = tonumber(pickwrandom(w)) "
    "for _, a in ipairs(e[l[i][1]]) do if not s[a] then s[a] = true r[#r + 1] = a end end "
    "table.remove(l, i) n = n - 1 end return r end ";

/* ---- layers 2 and 3, in the record ---------------------------------------------------------- */

/* l: the levels, best first, of {endpoint, weight} without those that are drained or disabled.  The
 * check gives all addresses back if none is up: that is the rule for an all-down region. */
static const char walk_before[] =
    "local function h(l, n) local a, s, u = {}, {}, {} for _, v in ipairs(l) do "
    "for _, x in ipairs(v) do for _, t in ipairs(e[x[1]]) do if not s[t] then s[t] = true "
    "a[#a + 1] = t end end end end for _, t in ipairs(";
static const char walk_after[] =
    ") do u[t] = true end for _, v in ipairs(l) do local c, k, m = {}, {}, 0 "
    "for _, x in ipairs(v) do for _, t in ipairs(e[x[1]]) do if u[t] then c[#c + 1] = x "
    "m = m + x[2] break end end end for _, x in ipairs(c) do if m == 0 then k[#k + 1] = {x[1], 1} "
    "elseif x[2] > 0 then k[#k + 1] = {x[1], x[2]} end end "
    "if #k > 0 then return d(k, n) end end return e[l[1][1][1]] end ";

/* ---- one region ----------------------------------------------------------------------------- */

struct writing {
  const struct steer_domain *steer;
  enum steer_type type;
  struct steer_facts facts;
  struct places places;
  bool checks;       /* layers 2 and 3 run in the record */
  bool draws, walks; /* the code needs these functions */
  struct buf *out;
};

/* What is always the answer: all addresses of these endpoints, each once. */
static void add_fixed(struct writing *w, const struct draw_table *table) {
  if (table->count == 1) {
    buf_printf(w->out, "e[%u]", w->places.number[table->items[0].endpoint]);
    return;
  }
  bool first = true;
  size_t size = w->type == STEER_A ? 4 : 16;
  struct buf seen;
  buf_init(&seen);
  buf_add_str(w->out, "{");
  for (uint32_t i = 0; i < table->count; i++) {
    const struct steer_endpoint *e = &w->steer->endpoints[table->items[i].endpoint];
    uint32_t count = w->type == STEER_A ? e->addr4_count : e->addr6_count;
    const uint8_t *octets = w->type == STEER_A ? e->addr4[0] : e->addr6[0];
    for (uint32_t k = 0; k < count; k++, octets += size) {
      bool twice = false;
      for (size_t at = 0; at < seen.len && !twice; at += size)
        twice = memcmp(seen.data + at, octets, size) == 0;
      if (twice)
        continue;
      buf_add(&seen, octets, size);
      add_address(w->out, w->type == STEER_A ? AF_INET : AF_INET6, octets, &first);
    }
  }
  buf_add_str(w->out, "}");
  w->out->failed = w->out->failed || seen.failed;
  buf_close(&seen);
}

/* Layers 2 and 3 have been decided: draws from what is left. */
static void add_drawn(struct writing *w, const struct draw_table *table) {
  if (table->count <= table->answers) {
    add_fixed(w, table);
    return;
  }
  w->draws = true;
  buf_add_str(w->out, "d({");
  for (uint32_t i = 0; i < table->count; i++)
    buf_printf(w->out, "%s{%u, %u}", i ? ", " : "", w->places.number[table->items[i].endpoint],
               (unsigned)table->items[i].weight);
  if (table->answers > 1)
    buf_printf(w->out, "}, %u)", (unsigned)table->answers);
  else
    buf_add_str(w->out, "})");
}

/* Neither disabled nor drained: what a check decides about. */
static bool is_candidate(const struct writing *w, const struct layer_entry *entry,
                         uint32_t level_count) {
  const struct steer_status *status = w->facts.status ? &w->facts.status[entry->endpoint] : NULL;
  return !status_is_disabled(&w->steer->endpoints[entry->endpoint], status) &&
         (entry->weight > 0 || entry->level == level_count);
}

/* Adds the levels for the check; how many different endpoints they have, up to 2. */
static unsigned add_levels(struct writing *w, const struct layer_entry *entries, size_t count,
                           uint32_t level_count, struct buf *out) {
  unsigned level = 0;
  unsigned different = 0;
  uint16_t last = 0;
  for (size_t i = 0; i < count; i++) {
    const struct layer_entry *e = &entries[i];
    if (!is_candidate(w, e, level_count))
      continue;
    buf_add_str(out, e->level == level ? ", " : level ? "}, {" : "{");
    buf_printf(out, "{%u, %u}", w->places.number[e->endpoint], (unsigned)e->weight);
    if (different == 0 || (different == 1 && e->endpoint != last))
      different++;
    last = e->endpoint;
    level = e->level;
  }
  buf_add_str(out, level ? "}" : "");
  return different;
}

/* Adds the call that checks; false if no check could change the answer. */
static bool add_checked(struct writing *w, uint32_t region) {
  struct layer_entry *entries = calloc(layer_entry_max(w->steer, region), sizeof *entries);
  struct buf levels;
  buf_init(&levels);
  unsigned different = 0;
  if (entries) {
    size_t count = layer_entries(w->steer, region, w->type, &w->facts, entries);
    different = add_levels(w, entries, count, w->steer->regions[region].level_count, &levels);
  }
  w->out->failed = w->out->failed || !entries || levels.failed;
  if (different > 1) {
    w->draws = w->walks = true;
    buf_printf(w->out, "h({%s}, %u)", buf_text(&levels), (unsigned)w->steer->answers);
  }
  free(entries);
  buf_close(&levels);
  return different > 1;
}

static void add_region(struct writing *w, uint32_t region) {
  buf_add_str(w->out, "return ");
  if (w->checks && add_checked(w, region))
    return;
  struct draw_table *table = draw_table_build(w->steer, region, w->type, &w->facts);
  if (table)
    add_drawn(w, table);
  else
    w->out->failed = true;
  free(table);
}

/* ---- layer 1 -------------------------------------------------------------------------------- */

struct placed_atom {
  const struct steer_atom *atom;
  uint32_t region;
};

static int compare_u32(uint32_t a, uint32_t b) {
  return (a > b) - (a < b);
}

/* The most specific first; those that can share a condition are neighbours. */
static int by_rank(const void *a, const void *b) {
  const struct placed_atom *x = a;
  const struct placed_atom *y = b;
  int c = compare_u32(y->atom->kind, x->atom->kind);
  if (c == 0)
    c = compare_u32(y->atom->net_bits, x->atom->net_bits);
  if (c == 0 && x->atom->kind == ATOM_SUBDIVISION)
    c = memcmp(x->atom->code, y->atom->code, 2);
  if (c == 0)
    c = compare_u32(x->region, y->region);
  if (c == 0)
    c = strcmp(x->atom->code, y->atom->code);
  if (c == 0)
    c = compare_u32(x->atom->asn, y->atom->asn);
  if (c == 0)
    c = compare_u32(x->atom->net_family, y->atom->net_family);
  return c ? c : memcmp(x->atom->net, y->atom->net, sizeof x->atom->net);
}

static bool share_condition(const struct placed_atom *a, const struct placed_atom *b) {
  return a->region == b->region && a->atom->kind == b->atom->kind &&
         a->atom->net_bits == b->atom->net_bits &&
         (a->atom->kind != ATOM_SUBDIVISION || memcmp(a->atom->code, b->atom->code, 2) == 0);
}

static void add_net(struct buf *out, const struct steer_atom *a) {
  char text[INET6_ADDRSTRLEN];
  if (!inet_ntop(a->net_family == 4 ? AF_INET : AF_INET6, a->net, text, sizeof text))
    return;
  buf_printf(out, "'%s/%u'", text, (unsigned)a->net_bits);
  /* PowerDNS does not take a mapped address for an IPv4 one. */
  if (a->net_family == 4)
    buf_printf(out, ", '::ffff:%s/%u'", text, (unsigned)a->net_bits + 96);
}

static void add_atom(struct buf *out, const struct steer_atom *a) {
  switch (a->kind) {
  case ATOM_NET:
    add_net(out, a);
    break;
  case ATOM_ASN:
    buf_printf(out, "'%u'", a->asn);
    break;
  case ATOM_SUBDIVISION:
    powerdns_quote(out, a->code + 3);
    break;
  default:
    powerdns_quote(out, a->code);
  }
}

static void add_condition(struct buf *out, const struct placed_atom *atoms, size_t count) {
  static const char *const calls[] = {[ATOM_CONTINENT] = "continent",
                                      [ATOM_COUNTRY] = "country",
                                      [ATOM_SUBDIVISION] = "region",
                                      [ATOM_ASN] = "asnum",
                                      [ATOM_NET] = "netmask"};
  const struct steer_atom *first = atoms[0].atom;
  if (first->kind == ATOM_SUBDIVISION)
    buf_printf(out, "country('%.2s') and ", first->code);
  buf_printf(out, "%s({", calls[first->kind]);
  for (size_t i = 0; i < count; i++) {
    buf_add_str(out, i ? ", " : "");
    add_atom(out, atoms[i].atom);
  }
  buf_add_str(out, "})");
}

static uint32_t global_region(const struct placed_atom *atoms, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (atoms[i].atom->kind == ATOM_GLOBAL)
      return atoms[i].region;
  return 0;
}

static void add_fence(struct writing *w) {
  const struct steer_domain *d = w->steer;
  size_t count = 0;
  for (uint32_t r = 0; r < d->region_count; r++)
    count += d->regions[r].atom_count;
  struct placed_atom *atoms = calloc(count, sizeof *atoms);
  if (!atoms) {
    w->out->failed = true;
    return;
  }
  size_t n = 0;
  for (uint32_t r = 0; r < d->region_count; r++)
    for (uint32_t i = 0; i < d->regions[r].atom_count; i++)
      atoms[n++] = (struct placed_atom){&d->regions[r].atoms[i], r};
  qsort(atoms, count, sizeof *atoms, by_rank);
  bool any = false;
  for (size_t i = 0, end; i < count && d->region_count > 1; i = end) {
    for (end = i + 1; end < count && share_condition(&atoms[i], &atoms[end]);)
      end++;
    if (atoms[i].atom->kind == ATOM_GLOBAL)
      break;
    buf_add_str(w->out, any ? " elseif " : "if ");
    add_condition(w->out, atoms + i, end - i);
    buf_add_str(w->out, " then ");
    add_region(w, atoms[i].region);
    any = true;
  }
  buf_add_str(w->out, any ? " end " : "");
  add_region(w, global_region(atoms, count));
  free(atoms);
}

/* ---- the whole ------------------------------------------------------------------------------ */

static void add_functions(const struct writing *w, const struct powerdns_probe *probe,
                          struct buf *out) {
  if (w->draws)
    buf_add_str(out, w->steer->answers > 1 ? draw_many_code : draw_one_code);
  if (!w->walks)
    return;
  buf_add_str(out, walk_before);
  buf_add(out, probe->before.data, probe->before.len);
  buf_add_str(out, "a");
  buf_add(out, probe->after.data, probe->after.len);
  buf_add_str(out, walk_after);
}

/* What our checker says does not count: only what people said. */
static bool keep_manual(struct writing *w) {
  struct steer_status *manual = calloc(w->steer->endpoint_count, sizeof *manual);
  for (uint32_t i = 0; manual && i < w->steer->endpoint_count; i++)
    manual[i].manual = w->facts.status[i].manual;
  w->facts.status = manual;
  return manual;
}

void powerdns_lua_code(const struct provider_domain *domain, enum steer_type type,
                       const struct powerdns_probe *probe, struct buf *out) {
  const struct steer_domain *d = domain->steer;
  bool own = !domain->pushed && domain->facts.status;
  struct buf fence;
  struct writing w = {
      .steer = d, .type = type, .facts = domain->facts, .checks = probe != NULL, .out = &fence};
  buf_init(&fence);
  w.places.number = calloc(d->endpoint_count, sizeof *w.places.number);
  if (w.places.number && (!own || keep_manual(&w))) {
    number_used(d, type, &w.places);
    add_fence(&w);
    add_table(out, d, type, &w.places);
    add_functions(&w, probe, out);
    buf_add(out, fence.data, fence.len);
    out->failed = out->failed || fence.failed;
  } else {
    out->failed = true;
  }
  if (own)
    free((void *)(uintptr_t)w.facts.status);
  free(w.places.number);
  buf_close(&fence);
}

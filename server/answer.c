/* SPDX-License-Identifier: Apache-2.0 */
#include "server/answer.h"

#include <string.h>

#include "server/cookie.h"
#include "server/exposure_ring.h"
#include "server/wire.h"

enum {
  SUBNET4 = 24, /* what `draw_per: subnet` draws once for */
  SUBNET6 = 56,
  MAPPED_BITS = 96,
};

uint8_t *answer_room(struct answer *a, size_t n) {
  if (a->truncated || n > a->limit - a->at) {
    a->truncated = true;
    return NULL;
  }
  return a->q->packet + a->at;
}

const struct image_entry *answer_find_entry(const struct image_node *node, uint16_t type) {
  const struct image_entry *e = image_node_entries(node);
  for (unsigned i = 0; i < node->entries && e[i].type <= type; i++)
    if (e[i].type == type)
      return &e[i];
  return node->flags & NODE_CNAME ? e : NULL;
}

/* ---- finished bodies ---------------------------------------------------------------------------
 */

/*
 * Copies a body behind the question.  `longer` is by how much the question is longer than the
 * body's home; pointers that move with it are listed in the body.
 */
static void put_body(struct answer *a, const uint8_t *body, const struct image_entry *e,
                     unsigned longer) {
  uint8_t *to = answer_room(a, e->length);
  if (!to)
    return;
  memcpy(to, body, e->length);
  a->at += e->length;
  a->ancount = (uint16_t)(a->ancount + e->ancount);
  if (!(e->flags & ENTRY_EXTRA))
    return;
  struct image_extra x = image_entry_extra(body);
  a->nscount = (uint16_t)(a->nscount + x.nscount);
  a->arcount = (uint16_t)(a->arcount + x.arcount);
  if (longer == 0)
    return;
  for (unsigned i = 0; i < x.fixups; i++) {
    uint8_t *pointer = to + image_fixup(body, e->length, i);
    wire_put16(pointer, (uint16_t)(wire_u16(pointer) + longer));
  }
}

static void put_entry(struct answer *a, const struct image_node *node,
                      const struct image_entry *e) {
  unsigned longer =
      a->q->name.len > node->name_len ? (unsigned)(a->q->name.len - node->name_len) : 0;
  const uint8_t *body = image_entry_body(node, e);
  size_t start = a->at;
  put_body(a, body, e, longer);
  a->rcode = e->rcode;
  if ((e->flags & ENTRY_CHASE) == 0 || a->truncated)
    return;
  struct image_extra x = image_entry_extra(body);
  compose_chase(a, image_entry_target(body, e->length, &x), start + x.target);
}

/* RFC 2308 section 3: the SOA in the authority section. */
static void put_negative(struct answer *a, const struct image *image) {
  const struct image_header *h = image->header;
  put_body(a, image->base + h->negative.body, &h->negative,
           (unsigned)(a->q->name.len - h->apex_len));
}

/* ---- steering ----------------------------------------------------------------------------------
 */

bool answer_is_steered(const struct view_domain *domain, uint16_t qtype, enum steer_type *type) {
  const struct steer_domain *d = domain->steer;
  if (d->offers[STEER_CNAME]) {
    *type = STEER_CNAME;
    return true;
  }
  *type = qtype == TYPE_A ? STEER_A : STEER_AAAA;
  return (qtype == TYPE_A || qtype == TYPE_AAAA) && d->offers[*type];
}

void answer_client(const struct query *q, struct geo_address *client) {
  const struct edns_subnet *s = &q->edns.subnet;
  if (!s->present || s->source == 0)
    *client = q->source;
  else if (s->family == 1)
    geo_address_set4(client, s->address);
  else
    geo_address_set6(client, s->address);
}

static uint8_t scope_of(const struct query *q, const struct steer_domain *domain,
                        const struct geo_address *client, uint8_t outcome_scope) {
  const struct edns_subnet *s = &q->edns.subnet;
  if (!s->present || s->source == 0)
    return 0; /* RFC 7871 section 7.2.1: the answer is for everyone who hides */
  unsigned shift = client->mapped ? MAPPED_BITS : 0;
  unsigned scope = outcome_scope ? outcome_scope + shift : 0;
  if (domain->draw_per == DRAW_PER_SUBNET) {
    unsigned wish = client->family == 4 ? SUBNET4 + shift : SUBNET6;
    if (wish > s->source)
      wish = s->source;
    if (wish > scope)
      scope = wish;
  }
  return (uint8_t)scope;
}

static void put_records(struct answer *a, struct image_records r, uint16_t owner_at) {
  uint8_t *to = answer_room(a, r.length);
  if (!to || r.count == 0)
    return;
  memcpy(to, r.data, r.length);
  a->at += r.length;
  a->ancount = (uint16_t)(a->ancount + r.count);
  if (owner_at == WIRE_QUESTION)
    return;
  size_t size = r.length / r.count;
  for (unsigned i = 0; i < r.count; i++)
    wire_put16(to + i * size, (uint16_t)(WIRE_POINTER | owner_at));
}

/* Appends those records of `r` that are not yet among the ones from `first` on: endpoints of one
 * answer may share an address. */
static void put_new_records(struct answer *a, struct image_records r, size_t first,
                            uint16_t owner_at) {
  size_t size = r.count ? (size_t)r.length / r.count : 0;
  for (unsigned i = 0; i < r.count; i++) {
    struct image_records one = {r.data + i * size, (uint16_t)size, 1};
    bool there = false;
    for (size_t at = first; at < a->at && !there; at += size)
      there = memcmp(a->q->packet + at + 2, one.data + 2, size - 2) == 0;
    if (!there)
      put_records(a, one, owner_at);
  }
}

/* Tells the main thread what was drawn (server/exposure.h). */
__attribute__((noinline, cold)) static void sample(struct answer *a, const struct view_domain *d,
                                                   const uint16_t *drawn, size_t count) {
  struct query_worker *worker = a->worker;
  const struct exposure_sample sample = {.resolver = exposure_resolver(&a->q->source),
                                         .domain = d->id,
                                         .view = a->view->generation,
                                         .region = a->q->ahead.outcome.region};
  worker->exposure_left =
      worker->exposure == NULL
          ? UINT32_MAX
          : exposure_ring_put(worker->exposure, (uint32_t)rng_next(&worker->rng), &sample, drawn,
                              count);
}

/* All that a steered answer pays for, when it is not sampled. */
static inline bool is_sampled(struct query_worker *worker) {
  return __builtin_expect(--worker->exposure_left == 0, 0);
}

static void draw_several(struct answer *a, const struct view_zone *zone, uint32_t domain,
                         const struct draw_table *table, enum steer_type type, uint16_t owner_at) {
  uint16_t drawn[STEER_MAX_ANSWERS];
  size_t n = draw_many(table, &a->worker->rng, drawn);
  size_t first = a->at;
  for (size_t i = 0; i < n; i++)
    put_new_records(a, image_steer(zone->image, domain, drawn[i], type), first, owner_at);
  if (is_sampled(a->worker))
    sample(a, &zone->domains[domain], drawn, n);
}

const uint8_t *answer_steer(struct answer *a, const struct view_zone *zone, uint32_t domain,
                            enum steer_type type, uint16_t owner_at) {
  const struct view_domain *d = &zone->domains[domain];
  struct query *q = a->q;
  struct geo_address client;
  answer_client(q, &client);
  if (q->ahead.domain != d) {
    q->ahead.outcome = geo_table_lookup(d->geo, &client);
    const struct view_draws *draws = atomic_load_explicit(&d->draws, memory_order_acquire);
    q->ahead.tables = &draws->tables[q->ahead.outcome.region * STEER_TYPES];
    q->ahead.domain = d;
    q->ahead.drawn = false;
  }
  const struct draw_table *table = q->ahead.tables[type];
  uint8_t scope = scope_of(q, d->steer, &client, q->ahead.outcome.scope);
  if (scope > a->scope)
    a->scope = scope;
  a->steered = true;
  if (table->answers > 1) {
    draw_several(a, zone, domain, table, type, owner_at);
    return NULL;
  }
  bool drawn = q->ahead.drawn && q->ahead.type == type;
  uint16_t endpoint = drawn ? q->ahead.endpoint : draw_one(table, &a->worker->rng);
  q->ahead.drawn = false;
  put_records(a, image_steer(zone->image, domain, endpoint, type), owner_at);
  if (is_sampled(a->worker))
    sample(a, d, &endpoint, 1);
  return type == STEER_CNAME ? d->steer->endpoints[endpoint].host : NULL;
}

static void put_steered(struct answer *a, const struct view_zone *zone, uint32_t domain,
                        enum steer_type type) {
  size_t start = a->at;
  const uint8_t *host = answer_steer(a, zone, domain, type, WIRE_QUESTION);
  bool alias_asked = a->q->qtype == TYPE_CNAME || a->q->qtype == TYPE_ANY;
  if (host && !alias_asked && !a->truncated)
    compose_chase(a, host, start + 12); /* pointer, type, class, TTL, length */
}

/* ---- what a name comes to (RFC 1034 section 4.3.2) ----------------------------------------------
 */

/* RFC 8482 section 4.1: one RRset that exists, the smallest. */
static const struct image_entry *any_entry(const struct image_node *node) {
  const struct image_entry *e = image_node_entries(node);
  const struct image_entry *best = NULL;
  for (unsigned i = 0; i < node->entries; i++) {
    if (node->flags & NODE_CNAME && e[i].type != TYPE_CNAME)
      continue;
    if (!best || e[i].length < best->length)
      best = &e[i];
  }
  return best;
}

static void no_data(struct answer *a, const struct image *image) {
  query_count(a->worker, COUNT_NODATA);
  put_negative(a, image);
}

static void at_node(struct answer *a, const struct view_zone *zone, const struct image_node *node) {
  uint16_t qtype = a->q->qtype;
  a->q->origin = node;
  const struct image_entry *e =
      qtype == TYPE_ANY ? any_entry(node) : answer_find_entry(node, qtype);
  if (e) {
    put_entry(a, node, e);
    return;
  }
  if (node->domain != 0) {
    uint32_t domain = node->domain - 1;
    enum steer_type type;
    bool offered = answer_is_steered(&zone->domains[domain], qtype, &type);
    if (!offered && qtype == TYPE_ANY)
      offered = answer_is_steered(&zone->domains[domain], TYPE_A, &type) ||
                answer_is_steered(&zone->domains[domain], TYPE_AAAA, &type);
    if (offered) {
      put_steered(a, zone, domain, type);
      return;
    }
  }
  no_data(a, zone->image);
}

static void referral(struct answer *a, const struct image_node *cut) {
  query_count(a->worker, COUNT_REFERRAL);
  a->aa = false;
  a->q->origin = cut;
  put_entry(a, cut, answer_find_entry(cut, TYPE_NS));
}

static void at_exact(struct answer *a, const struct view_zone *zone,
                     const struct image_node *node) {
  if ((node->flags & NODE_CUT) == 0) {
    at_node(a, zone, node);
    return;
  }
  if (a->q->qtype != TYPE_DS) {
    referral(a, node);
    return;
  }
  const struct image_entry *ds = answer_find_entry(node, TYPE_DS); /* RFC 4035 section 3.1.4.1 */
  if (ds)
    put_entry(a, node, ds);
  else
    no_data(a, zone->image);
}

static void below_encloser(struct answer *a, const struct view_zone *zone) {
  const struct image *image = zone->image;
  const struct image_node *encloser = qname_encloser(&a->q->name, image);
  if (encloser->flags & NODE_CUT) {
    referral(a, encloser);
    return;
  }
  if (encloser->flags & NODE_DNAME) {
    compose_dname(a, encloser);
    return;
  }
  if (encloser->wildcard != 0) { /* RFC 4592 section 3.3.1: the source of synthesis */
    at_exact(a, zone, image_node_at(image, encloser->wildcard));
    return;
  }
  a->rcode = RCODE_NXDOMAIN;
  put_negative(a, image);
}

static const struct image_node *exact_node(const struct query *q, const struct view_zone *zone) {
  const struct image_node *n = q->hint;
  if (zone == q->zone) {
    if (!n)
      return NULL;
    if (n->name_len == q->name.len && memcmp(image_node_name(n), q->name.name, n->name_len) == 0)
      return n;
  }
  return qname_find(&q->name, zone->image, 0);
}

static void look_up(struct answer *a) {
  struct query *q = a->q;
  const struct view_zone *zone = q->zone;
  if (!zone) {
    a->rcode = RCODE_REFUSED;
    return;
  }
  if (q->qtype == TYPE_DS && q->name.len == zone->image->header->apex_len) {
    /* DS belongs to the parent's side (RFC 4035 section 3.1.4.1), where we serve that too. */
    const struct view_zone *parent = qname_zone(&q->name, a->view, true);
    if (parent)
      zone = parent;
  }
  if (__builtin_expect(zone->state != VIEW_ZONE_SERVED, 0)) {
    a->rcode = RCODE_SERVFAIL; /* RFC 1034 section 4.3.5: expired, or never transferred */
    return;
  }
  a->aa = true;
  const struct image_node *node = exact_node(q, zone);
  if (node)
    at_exact(a, zone, node);
  else
    below_encloser(a, zone);
}

/* ---- class CH ----------------------------------------------------------------------------------
 */

static bool is_name(const struct qname *name, const char *wire, size_t len) {
  return name->len == len && memcmp(name->name, wire, len) == 0;
}

/* version.bind and id.server (RFC 4892), where the settings give them a text. */
static void chaos(struct answer *a) {
  static const char version_bind[] = "\7version\4bind";
  static const char version_server[] = "\7version\6server";
  static const char id_server[] = "\2id\6server";
  static const char hostname_bind[] = "\10hostname\4bind";
  const struct qname *name = &a->q->name;
  const char *text = NULL;
  if (is_name(name, version_bind, sizeof version_bind) ||
      is_name(name, version_server, sizeof version_server))
    text = a->worker->config->version;
  if (is_name(name, id_server, sizeof id_server) ||
      is_name(name, hostname_bind, sizeof hostname_bind))
    text = a->worker->config->server_id;
  a->rcode = RCODE_REFUSED;
  if (!text || (a->q->qtype != TYPE_TXT && a->q->qtype != TYPE_ANY))
    return;
  size_t len = strnlen(text, 255);
  uint8_t *to = answer_room(a, 13 + len);
  if (!to)
    return;
  wire_put16(to, WIRE_POINTER | WIRE_QUESTION);
  wire_put16(to + 2, TYPE_TXT);
  wire_put16(to + 4, CLASS_CH);
  wire_put32(to + 6, 0);
  wire_put16(to + 10, (uint16_t)(1 + len));
  to[12] = (uint8_t)len;
  memcpy(to + 13, text, len);
  a->at += 13 + len;
  a->ancount = 1;
  a->aa = true;
  a->rcode = RCODE_NOERROR;
}

/* ---- the message -------------------------------------------------------------------------------
 */

static size_t size_limit(const struct query *q, const struct query_config *config) {
  size_t limit = 65535;
  if (q->transport == TRANSPORT_UDP) {
    limit = q->edns.present ? q->edns.payload : EDNS_MIN_PAYLOAD;
    if (limit > config->udp_max)
      limit = config->udp_max;
  }
  return limit < q->capacity ? limit : q->capacity;
}

/* A truncated message has no records at all: half an RRset helps nobody (RFC 2181 section 9). */
static void truncate_message(struct answer *a) {
  query_count(a->worker, COUNT_TRUNCATED);
  a->at = a->q->question_end;
  a->ancount = a->nscount = a->arcount = 0;
  a->rcode = RCODE_NOERROR;
}

static void put_header(struct answer *a) {
  struct query *q = a->q;
  uint8_t *p = q->packet;
  unsigned flags = WIRE_QR | (q->flags & (WIRE_OPCODE | WIRE_RD)) | (a->rcode & WIRE_RCODE);
  flags |= q->flags & WIRE_CD; /* RFC 4035 section 3.1.6 */
  flags |= a->aa ? WIRE_AA : 0;
  flags |= a->truncated ? WIRE_TC : 0;
  wire_put16(p + WIRE_FLAGS, (uint16_t)flags);
  wire_put16(p + WIRE_QDCOUNT, q->question_end > WIRE_QUESTION);
  wire_put16(p + WIRE_ANCOUNT, a->ancount);
  wire_put16(p + WIRE_NSCOUNT, a->nscount);
  wire_put16(p + WIRE_ARCOUNT, (uint16_t)(a->arcount + q->edns.present));
}

static void put_opt(struct answer *a, struct edns_reply *reply, size_t limit) {
  struct query *q = a->q;
  reply->rcode_high = (uint8_t)(a->rcode >> 4);
  q->edns.subnet.scope = a->scope;
  a->at += edns_write(&q->edns, reply, q->packet, a->at, limit);
}

static const struct cookie_secrets *cookies_on(const struct query_worker *worker) {
  return atomic_load_explicit(&worker->config->cookies, memory_order_acquire);
}

/* The cookie of the response, if there is to be one.  False on a malformed one: FORMERR. */
static bool make_cookie(struct query *q, struct query_worker *worker, struct edns_reply *reply,
                        uint8_t out[COOKIE_SIZE]) {
  if (!q->edns.cookie_present)
    return true;
  const struct cookie_secrets *secrets = cookies_on(worker);
  if (!secrets)
    return true;
  struct cookie_option option;
  if (!cookie_parse(q->edns.cookie, q->edns.cookie_len, &option))
    return false;
  size_t address_len = q->source.family == 4 ? 4 : 16;
  enum cookie_status status =
      cookie_respond(secrets, &option, q->source.octets, address_len, worker->now, out);
  reply->cookie = out;
  q->proven = status == COOKIE_VALID || status == COOKIE_RENEW;
  query_count(worker, q->proven               ? COUNT_COOKIE_VALID
                      : status == COOKIE_NONE ? COUNT_COOKIE_NEW
                                              : COUNT_COOKIE_BAD);
  return true;
}

static void prepare_reply(struct query *q, struct query_worker *worker, struct edns_reply *reply) {
  const struct query_config *config = worker->config;
  *reply = (struct edns_reply){
      .payload = config->udp_max,
      .nsid = config->nsid,
      .nsid_len = config->nsid_len,
      .extended_error = EDE_NONE,
      .keepalive = -1,
  };
  if (!q->edns.present)
    return;
  if (q->verdict == VERDICT_LOOK_UP && !q->zone)
    reply->extended_error = EDE_NOT_AUTHORITATIVE;
  else if (q->verdict == VERDICT_LOOK_UP && q->zone->state != VIEW_ZONE_SERVED)
    reply->extended_error = q->zone->state == VIEW_ZONE_EXPIRED ? EDE_INVALID_DATA : EDE_NOT_READY;
  if (q->verdict == VERDICT_TRANSFER)
    reply->extended_error = EDE_PROHIBITED;
  if (q->transport == TRANSPORT_UDP)
    return;
  if (q->edns.keepalive_asked && config->tcp_idle_ms != 0)
    reply->keepalive = (int)(config->tcp_idle_ms / 100);
  reply->padding = q->edns.padding_asked && q->transport == TRANSPORT_TLS;
}

static void fill(struct answer *a, bool cookie_ok) {
  if (!cookie_ok) {
    a->rcode = RCODE_FORMERR;
    return;
  }
  switch (a->q->verdict) {
  case VERDICT_LOOK_UP:
    look_up(a);
    break;
  case VERDICT_CHAOS:
    chaos(a);
    break;
  case VERDICT_COOKIE:
    if (cookies_on(a->worker))
      a->rcode = RCODE_NOERROR;
    break;
  default: /* an error that was found before */
    break;
  }
}

size_t answer_make(struct query *q, const struct view *view, struct query_worker *worker) {
  struct answer a = {
      .q = q,
      .view = view,
      .worker = worker,
      .at = q->question_end,
      .rcode = q->rcode,
  };
  struct edns_reply reply;
  uint8_t cookie[COOKIE_SIZE];
  prepare_reply(q, worker, &reply);
  bool cookie_ok = make_cookie(q, worker, &reply, cookie);
  /* The OPT stands behind all else but its place is taken first: it must always fit. */
  size_t opt = q->edns.present ? edns_size(&q->edns, &reply) : 0;
  size_t limit = size_limit(q, worker->config);
  a.limit = limit > opt + q->question_end ? limit - opt : q->question_end;

  fill(&a, cookie_ok);
  if (a.truncated)
    truncate_message(&a);
  if (a.steered)
    query_count(worker, COUNT_STEERED);
  if (q->edns.subnet.present)
    query_count(worker, COUNT_ECS);
  put_header(&a);
  if (q->edns.present)
    put_opt(&a, &reply, limit);
  q->rcode = a.rcode;
  return a.at;
}

size_t answer_slip(struct query *q, struct query_worker *worker) {
  struct answer a = {
      .q = q,
      .worker = worker,
      .at = q->question_end,
      .aa = (wire_u16(q->packet + WIRE_FLAGS) & WIRE_AA) != 0,
      .truncated = true,
  };
  struct edns_reply reply;
  prepare_reply(q, worker, &reply);
  put_header(&a);
  if (q->edns.present)
    put_opt(&a, &reply, size_limit(q, worker->config));
  return a.at;
}

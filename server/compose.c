/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slow road: an alias that leads to another zone, to a steered name or through a DNAME.
 * Finished bodies of other names are taken apart here and written again under the names that they
 * have in this message.  Everything stays bounded: at most IMAGE_MAX_CHAIN aliases, none given
 * twice.
 */
#include <string.h>

#include "server/answer.h"
#include "server/wire.h"

enum {
  RR_FIXED = 10, /* type, class, TTL, rdata length */
  POINTER_LEN = 2,
  SOA_NUMBERS = 20,
  QUESTION_TAIL = 4,
  EXPANDED_MAX = 2 * NAME_MAX_WIRE + SOA_NUMBERS,
};

/* ---- taking a finished body apart --------------------------------------------------------------
 */

/* A finished body and the question that it was made for, as the one address space of its pointers.
 */
struct source {
  const uint8_t *home; /* wire name, at offset 12 */
  size_t home_len;
  const uint8_t *body; /* behind the question */
  size_t length;
  size_t at; /* of the next record in the body */
};

/* One record of it, with the names expanded. */
struct record {
  bool home_owner; /* the owner is the home, whatever that is called in this message */
  uint16_t type;
  const uint8_t *fixed; /* type, class and TTL: eight octets */
  const uint8_t *rdata;
  size_t rdata_len;
  uint8_t owner[NAME_BUF];
  uint8_t expanded[EXPANDED_MAX]; /* rdata of types whose names may be compressed */
};

static struct source source_of(const struct image_node *node, const struct image_entry *e) {
  return (struct source){
      .home = image_node_name(node),
      .home_len = node->name_len,
      .body = image_entry_body(node, e),
      .length = e->length,
  };
}

/* The octets from a message offset on, up to the end of what they stand in; NULL if there are none.
 */
static const uint8_t *octets_at(const struct source *s, size_t offset, size_t *left) {
  size_t start = WIRE_QUESTION + s->home_len + QUESTION_TAIL;
  if (offset >= start && offset - start < s->length) {
    *left = s->length - (offset - start);
    return s->body + (offset - start);
  }
  if (offset >= WIRE_QUESTION && offset - WIRE_QUESTION < s->home_len) {
    *left = s->home_len - (offset - WIRE_QUESTION);
    return s->home + (offset - WIRE_QUESTION);
  }
  return NULL;
}

/*
 * Expands the name at body offset `at` into `out` (NAME_BUF).  Returns how many octets it takes in
 * the body, 0 if it is malformed: an image is checked for what memory safety needs, not for its
 * names.
 */
static size_t expand_name(const struct source *s, size_t at, uint8_t *out) {
  size_t offset = WIRE_QUESTION + s->home_len + QUESTION_TAIL + at;
  size_t taken = 0; /* in the body, once a pointer was met */
  size_t walked = 0;
  size_t len = 0;
  for (;;) {
    size_t left;
    const uint8_t *p = octets_at(s, offset, &left);
    if (!p)
      return 0;
    if (*p >= 0xc0) {
      size_t to = left < POINTER_LEN ? offset : wire_u16(p) & WIRE_POINTER_MAX;
      if (to >= offset)
        return 0;
      if (taken == 0)
        taken = walked + POINTER_LEN;
      offset = to;
      continue;
    }
    size_t n = *p + 1u;
    if (*p > NAME_MAX_LABEL || n > left || len + n > NAME_MAX_WIRE)
      return 0;
    memcpy(out + len, p, n);
    len += n;
    walked += n;
    offset += n;
    if (n == 1)
      break;
  }
  memset(out + len, 0, NAME_PAD);
  return taken ? taken : walked;
}

/* Expands the rdata of those types that compile.c compresses. */
static bool expand_rdata(const struct source *s, size_t at, size_t rdlen, struct record *r) {
  size_t first = r->type == TYPE_MX ? 2 : 0;
  int names = r->type == TYPE_SOA ? 2 : 1;
  size_t end = at + rdlen;
  if (rdlen < first)
    return false;
  memcpy(r->expanded, s->body + at, first);
  size_t len = first;
  at += first;
  for (int i = 0; i < names; i++) {
    uint8_t name[NAME_BUF];
    size_t took = at < end ? expand_name(s, at, name) : 0;
    if (took == 0 || took > end - at)
      return false;
    size_t n = name_wire_len(name, NAME_MAX_WIRE);
    memcpy(r->expanded + len, name, n);
    len += n;
    at += took;
  }
  if (end - at > SOA_NUMBERS)
    return false;
  memcpy(r->expanded + len, s->body + at, end - at);
  r->rdata = r->expanded;
  r->rdata_len = len + (end - at);
  return true;
}

static bool is_compressible(uint16_t type) {
  return type == TYPE_NS || type == TYPE_CNAME || type == TYPE_PTR || type == TYPE_MX ||
         type == TYPE_SOA;
}

static bool next_record(struct source *s, struct record *r) {
  size_t took = s->at < s->length ? expand_name(s, s->at, r->owner) : 0;
  if (took == 0 || s->length - s->at < took + RR_FIXED)
    return false;
  const uint8_t *owner = s->body + s->at;
  r->home_owner = took == POINTER_LEN && wire_u16(owner) == (WIRE_POINTER | WIRE_QUESTION);
  r->fixed = owner + took;
  r->type = wire_u16(r->fixed);
  size_t rdlen = wire_u16(r->fixed + 8);
  size_t at = s->at + took + RR_FIXED;
  if (rdlen > s->length - at)
    return false;
  s->at = at + rdlen;
  if (is_compressible(r->type))
    return expand_rdata(s, at, rdlen, r);
  r->rdata = s->body + at;
  r->rdata_len = rdlen;
  return true;
}

/* ---- writing records again ---------------------------------------------------------------------
 */

struct given_dname {
  const struct image_node *node;
  size_t target_at; /* where in the message its target stands */
};

struct chase {
  struct answer *a;
  unsigned count;                               /* aliases given so far */
  size_t name_at;                               /* where in the message the current name stands */
  struct qname name;                            /* the current name */
  uint8_t given[IMAGE_MAX_CHAIN + 1][NAME_BUF]; /* owners of the aliases given */
  unsigned dname_count;
  struct given_dname dnames[IMAGE_MAX_CHAIN + 1]; /* each once, however often the chain goes
                                                   * through it */
};

static bool was_given(const struct chase *c, const uint8_t *owner) {
  for (unsigned i = 0; i < c->count; i++)
    if (name_equal(c->given[i], owner))
      return true;
  return false;
}

/* Notes an alias's owner.  False if that name was given already, or the chain is too long. */
static bool note_alias(struct chase *c, const uint8_t *owner) {
  if (c->count > IMAGE_MAX_CHAIN || was_given(c, owner))
    return false;
  name_copy_lower(c->given[c->count++], owner);
  return true;
}

/*
 * Where in the message the current name stands from octet `skip` on; 0 if no label starts there.
 * Every pointer must go back, so that this ends whatever an image holds.
 */
static size_t find_suffix(const struct chase *c, size_t skip) {
  const uint8_t *p = c->a->q->packet;
  size_t at = c->name_at;
  while (at + 1 < c->a->at) {
    if (p[at] >= 0xc0) {
      size_t to = wire_u16(p + at) & WIRE_POINTER_MAX;
      if (to >= at)
        return 0;
      at = to;
      continue;
    }
    if (skip == 0)
      return at;
    size_t n = p[at] + 1u;
    if (n > skip)
      return 0;
    skip -= n;
    at += n;
  }
  return 0;
}

/* As a pointer where the owner is the current name or one above it. */
static size_t put_owner(uint8_t *to, const struct chase *c, const uint8_t *owner) {
  size_t len = name_wire_len(owner, NAME_MAX_WIRE);
  if (len > POINTER_LEN && len <= c->name.len) {
    size_t skip = c->name.len - len;
    size_t at = name_equal(c->name.name + skip, owner) ? find_suffix(c, skip) : 0;
    if (at != 0 && at <= WIRE_POINTER_MAX) {
      wire_put16(to, (uint16_t)(WIRE_POINTER | at));
      return POINTER_LEN;
    }
  }
  memcpy(to, owner, len);
  return len;
}

/* Appends one record; returns the offset of its rdata in the message, 0 if it does not fit. */
static size_t put_record(struct chase *c, const uint8_t *owner, const uint8_t *fixed,
                         const uint8_t *rdata, size_t rdata_len, uint16_t *count) {
  struct answer *a = c->a;
  uint8_t name[NAME_MAX_WIRE];
  size_t owner_len = put_owner(name, c, owner);
  uint8_t *to = answer_room(a, owner_len + RR_FIXED + rdata_len);
  if (!to)
    return 0;
  memcpy(to, name, owner_len);
  memcpy(to + owner_len, fixed, RR_FIXED - 2);
  wire_put16(to + owner_len + RR_FIXED - 2, (uint16_t)rdata_len);
  memcpy(to + owner_len + RR_FIXED, rdata, rdata_len);
  size_t rdata_at = a->at + owner_len + RR_FIXED;
  a->at = rdata_at + rdata_len;
  (*count)++;
  return rdata_at;
}

/* The chain goes on at `target`, which stands at `at` in the message. */
static void move_to(struct chase *c, const uint8_t *target, size_t at) {
  uint8_t copy[NAME_BUF]; /* the target may be in the name that is replaced */
  size_t len = name_copy_lower(copy, target);
  qname_read(&c->name, copy, len);
  qname_hash(&c->name, copy);
  c->name_at = at;
}

/* Appends `records` records of a body, one section's; false if the chain ends within them.  `home`
 * is what the body's home is called in this message. */
static bool put_section(struct chase *c, struct source *s, const uint8_t *home, unsigned records,
                        uint16_t *count) {
  for (unsigned i = 0; i < records; i++) {
    struct record r;
    if (!next_record(s, &r))
      return false;
    const uint8_t *owner = r.home_owner ? home : r.owner;
    bool alias = r.type == TYPE_CNAME && count == &c->a->ancount;
    if (alias && !note_alias(c, owner))
      return false;
    size_t at = put_record(c, owner, r.fixed, r.rdata, r.rdata_len, count);
    if (at == 0)
      return false;
    if (alias)
      move_to(c, r.rdata, at);
  }
  return true;
}

/* Appends a finished entry under the current name; true if the chain goes on at a new name. */
static bool put_entry(struct chase *c, const struct image_node *node, const struct image_entry *e) {
  struct answer *a = c->a;
  struct source s = source_of(node, e);
  struct image_extra x = {0};
  if (e->flags & ENTRY_EXTRA)
    x = image_entry_extra(s.body);
  /* A wildcard is called by the name that it stands for. */
  uint8_t home[NAME_BUF];
  name_copy_lower(home, node->flags & NODE_WILDCARD ? c->name.name : image_node_name(node));
  if (!put_section(c, &s, home, e->ancount, &a->ancount))
    return false;
  a->rcode = e->rcode;
  if (!put_section(c, &s, home, x.nscount, &a->nscount) ||
      !put_section(c, &s, home, x.arcount, &a->arcount))
    return false;
  return (e->flags & ENTRY_CHASE) != 0;
}

static void put_negative(struct chase *c, const struct image *image) {
  const struct image_header *h = image->header;
  struct source s = {
      .home = h->apex,
      .home_len = h->apex_len,
      .body = image->base + h->negative.body,
      .length = h->negative.length,
  };
  struct record r;
  if (next_record(&s, &r))
    put_record(c, r.owner, r.fixed, r.rdata, r.rdata_len, &c->a->nscount);
}

/* ---- following ---------------------------------------------------------------------------------
 */

/* Puts the DNAME into the answer, if it is not there already.  Returns where its target stands in
 * the message, 0 if it cannot be given. */
static size_t put_dname(struct chase *c, const struct image_node *node, const struct record *r) {
  for (unsigned i = 0; i < c->dname_count; i++)
    if (c->dnames[i].node == node)
      return c->dnames[i].target_at;
  if (c->dname_count > IMAGE_MAX_CHAIN)
    return 0;
  size_t at =
      put_record(c, image_node_name(node), r->fixed, r->rdata, r->rdata_len, &c->a->ancount);
  c->dnames[c->dname_count++] = (struct given_dname){.node = node, .target_at = at};
  return at;
}

/* The rdata of the synthesised CNAME: the target, whose end stands in the DNAME already.  Returns
 * its length. */
static size_t compress_target(uint8_t *to, const uint8_t *target, size_t prefix, size_t len,
                              size_t dname_at) {
  if (len - prefix <= POINTER_LEN || dname_at > WIRE_POINTER_MAX) {
    memcpy(to, target, len);
    return len;
  }
  memcpy(to, target, prefix);
  wire_put16(to + prefix, (uint16_t)(WIRE_POINTER | dname_at));
  return prefix + POINTER_LEN;
}

/* RFC 6672 section 3.1: the DNAME, and the CNAME synthesised from it.  True if the chain goes on.
 */
static bool through_dname(struct chase *c, const struct image_node *node) {
  struct answer *a = c->a;
  struct source s = source_of(node, answer_find_entry(node, TYPE_DNAME));
  struct record r;
  if (!next_record(&s, &r) || r.type != TYPE_DNAME || r.rdata_len == 0 ||
      name_wire_len(r.rdata, r.rdata_len) != r.rdata_len)
    return false;
  if (was_given(c, c->name.name))
    return false;
  size_t dname_at = put_dname(c, node, &r);
  if (dname_at == 0)
    return false;

  size_t prefix = (size_t)(c->name.len - node->name_len);
  if (prefix + r.rdata_len > NAME_MAX_WIRE) {
    a->rcode = RCODE_YXDOMAIN; /* RFC 6672 section 2.2 */
    return false;
  }
  uint8_t target[NAME_BUF];
  /* The prefix keeps the query's case where it comes from the question. */
  const uint8_t *from = c->name_at == WIRE_QUESTION ? a->q->packet + WIRE_QUESTION : c->name.name;
  memcpy(target, from, prefix);
  memcpy(target + prefix, r.rdata, r.rdata_len);
  uint8_t fixed[RR_FIXED - 2];
  memcpy(fixed, r.fixed, sizeof fixed); /* class and TTL are the DNAME's */
  wire_put16(fixed, TYPE_CNAME);
  if (!note_alias(c, c->name.name))
    return false;
  uint8_t rdata[NAME_MAX_WIRE];
  size_t rdata_len = compress_target(rdata, target, prefix, prefix + r.rdata_len, dname_at);
  size_t at = put_record(c, c->name.name, fixed, rdata, rdata_len, &a->ancount);
  if (at == 0)
    return false;
  move_to(c, target, at);
  return a->q->qtype != TYPE_CNAME && a->q->qtype != TYPE_ANY;
}

static bool through_steered(struct chase *c, const struct view_zone *zone, uint32_t domain,
                            enum steer_type type) {
  struct answer *a = c->a;
  if (c->name_at > WIRE_POINTER_MAX)
    return false;
  if (type == STEER_CNAME && !note_alias(c, c->name.name))
    return false;
  size_t start = a->at;
  const uint8_t *host = answer_steer(a, zone, domain, type, (uint16_t)c->name_at);
  if (!host || a->truncated)
    return false;
  move_to(c, host, start + POINTER_LEN + RR_FIXED);
  return true;
}

static void put_referral(struct chase *c, const struct image_node *cut) {
  query_count(c->a->worker, COUNT_REFERRAL);
  put_entry(c, cut, answer_find_entry(cut, TYPE_NS));
}

/* What the current name has for the query's type; true if the chain goes on at a new name. */
static bool at_node(struct chase *c, const struct view_zone *zone, const struct image_node *node) {
  uint16_t qtype = c->a->q->qtype;
  if ((node->flags & NODE_CUT) && qtype != TYPE_DS) {
    put_referral(c, node);
    return false;
  }
  const struct image_entry *e = answer_find_entry(node, qtype);
  if (e)
    return put_entry(c, node, e);
  enum steer_type type;
  if (node->domain != 0 && answer_is_steered(&zone->domains[node->domain - 1], qtype, &type))
    return through_steered(c, zone, node->domain - 1, type);
  query_count(c->a->worker, COUNT_NODATA);
  put_negative(c, zone->image);
  return false;
}

static bool below_encloser(struct chase *c, const struct view_zone *zone) {
  const struct image *image = zone->image;
  const struct image_node *encloser = qname_encloser(&c->name, image);
  if (encloser->flags & NODE_CUT) {
    put_referral(c, encloser);
    return false;
  }
  if (encloser->flags & NODE_DNAME)
    return through_dname(c, encloser);
  if (encloser->wildcard != 0)
    return at_node(c, zone, image_node_at(image, encloser->wildcard));
  c->a->rcode = RCODE_NXDOMAIN; /* of the last name: RFC 6604 section 3 */
  put_negative(c, image);
  return false;
}

/* RFC 1034 section 4.3.2 step 3a: start again with the alias's target. */
static bool step(struct chase *c) {
  if (was_given(c, c->name.name))
    return false;
  const struct view_zone *zone = qname_zone(&c->name, c->a->view, false);
  if (!zone || zone->state != VIEW_ZONE_SERVED)
    return false; /* who resolves asks for the rest by itself */
  const struct image_node *node = qname_find(&c->name, zone->image, 0);
  return node ? at_node(c, zone, node) : below_encloser(c, zone);
}

static void run(struct chase *c) {
  while (c->count <= IMAGE_MAX_CHAIN && !c->a->truncated && step(c)) {
  }
}

/* Notes the aliases that the finished body has put into the message already. */
static void note_finished(struct chase *c) {
  const struct query *q = c->a->q;
  struct source s = {
      .home = q->packet + WIRE_QUESTION,
      .home_len = q->name.len,
      .body = q->packet + q->question_end,
      .length = c->a->at - q->question_end,
  };
  struct record r;
  for (unsigned i = 0; i < c->a->ancount && next_record(&s, &r); i++)
    if (r.type == TYPE_CNAME)
      note_alias(c, r.owner);
}

void compose_chase(struct answer *a, const uint8_t *target, size_t target_at) {
  struct chase c;
  c.a = a;
  c.count = 0;
  c.dname_count = 0;
  note_finished(&c);
  move_to(&c, target, target_at);
  run(&c);
}

void compose_dname(struct answer *a, const struct image_node *node) {
  struct chase c;
  c.a = a;
  c.count = 0;
  c.dname_count = 0;
  c.name = a->q->name;
  c.name_at = WIRE_QUESTION;
  if (through_dname(&c, node))
    run(&c);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "server/notify_out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/wire.h"

enum { BUCKETS = 4096, IDS = 65536, QUESTION_TAIL = 4, SECOND_MS = 1000, NOT_SENT = -1 };

/* A zone to tell one target about. */
struct entry {
  struct entry *next; /* of its bucket */
  uint64_t due;       /* when to send, or to send again */
  size_t place;       /* in the heap */
  int id;             /* of the message, NOT_SENT before the first one */
  unsigned tries;
  const char *reason; /* what is known about why it fails */
  const struct tsig_key *key;
  struct tsig_session *session; /* while it is in flight with a key */
  struct address target;
  size_t soa_len;
  uint8_t apex[NAME_BUF];
  uint8_t soa[];
};

struct notify_out {
  struct entry *buckets[BUCKETS];
  struct entry **heap; /* by `due`, the first one first */
  size_t count;
  size_t cap;
  struct entry *by_id[IDS];
  size_t in_flight;
  struct rng rng;
  uint64_t second; /* start of the second that `second_sent` counts */
  unsigned second_sent;
  struct notify_out_counters counters;
};

/* ---- the heap ---------------------------------------------------------------------------------
 */

static void put(struct notify_out *n, size_t place, struct entry *entry) {
  n->heap[place] = entry;
  entry->place = place;
}

static void sift_up(struct notify_out *n, size_t at) {
  struct entry *entry = n->heap[at];
  while (at > 0 && n->heap[(at - 1) / 2]->due > entry->due) {
    put(n, at, n->heap[(at - 1) / 2]);
    at = (at - 1) / 2;
  }
  put(n, at, entry);
}

static void sift_down(struct notify_out *n, size_t at) {
  struct entry *entry = n->heap[at];
  for (;;) {
    size_t child = 2 * at + 1;
    if (child >= n->count)
      break;
    if (child + 1 < n->count && n->heap[child + 1]->due < n->heap[child]->due)
      child++;
    if (n->heap[child]->due >= entry->due)
      break;
    put(n, at, n->heap[child]);
    at = child;
  }
  put(n, at, entry);
}

static void set_due(struct notify_out *n, struct entry *entry, uint64_t due) {
  entry->due = due;
  sift_up(n, entry->place);
  sift_down(n, entry->place);
}

static bool heap_add(struct notify_out *n, struct entry *entry) {
  if (n->count == n->cap) {
    size_t cap = n->cap != 0 ? n->cap * 2 : 64;
    struct entry **more = realloc(n->heap, cap * sizeof(struct entry *));
    if (more == NULL)
      return false;
    n->heap = more;
    n->cap = cap;
  }
  put(n, n->count++, entry);
  sift_up(n, entry->place);
  return true;
}

static void heap_remove(struct notify_out *n, const struct entry *entry) {
  struct entry *last = n->heap[--n->count];
  if (last == entry)
    return;
  put(n, entry->place, last);
  sift_up(n, last->place);
  sift_down(n, last->place);
}

/* ---- entries ----------------------------------------------------------------------------------
 */

static struct entry **bucket_of(struct notify_out *n, const uint8_t *apex) {
  return &n->buckets[name_hash(apex) % BUCKETS];
}

static bool same_socket(const union address_socket *a, const union address_socket *b) {
  if (a->sa.sa_family != b->sa.sa_family)
    return false;
  if (a->sa.sa_family == AF_INET)
    return a->v4.sin_port == b->v4.sin_port && a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
  return a->v6.sin6_port == b->v6.sin6_port &&
         memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof a->v6.sin6_addr) == 0;
}

static void end_flight(struct notify_out *n, struct entry *entry) {
  if (entry->session != NULL)
    tsig_close(entry->session);
  free(entry->session);
  entry->session = NULL;
  if (entry->id == NOT_SENT)
    return;
  n->by_id[entry->id] = NULL;
  n->in_flight--;
  entry->id = NOT_SENT;
}

static void drop(struct notify_out *n, struct entry *entry) {
  struct entry **link = bucket_of(n, entry->apex);
  while (*link != entry)
    link = &(*link)->next;
  *link = entry->next;
  heap_remove(n, entry);
  end_flight(n, entry);
  free(entry);
}

static void tell_end(const struct entry *entry, const char *reason, struct notify_out_end *end) {
  name_to_text(end->zone, entry->apex);
  memcpy(end->target, entry->target.text, sizeof end->target);
  end->reason = reason;
}

struct notify_out *notify_out_new(uint64_t seed) {
  struct notify_out *n = calloc(1, sizeof *n);
  if (n != NULL)
    rng_seed(&n->rng, seed);
  return n;
}

void notify_out_free(struct notify_out *n) {
  if (n == NULL)
    return;
  while (n->count > 0)
    drop(n, n->heap[n->count - 1]);
  free(n->heap);
  free(n);
}

bool notify_out_add(struct notify_out *n, const uint8_t *apex, const uint8_t *soa, size_t soa_len,
                    const struct address *target, const struct tsig_key *key, uint64_t now) {
  uint8_t name[NAME_BUF];
  name_copy_lower(name, apex);
  if (soa == NULL || soa_len > NOTIFY_OUT_SOA_MAX)
    soa_len = 0;
  struct entry *entry = calloc(1, sizeof *entry + soa_len);
  if (entry == NULL)
    return false;
  memcpy(entry->apex, name, sizeof name);
  if (soa_len > 0)
    memcpy(entry->soa, soa, soa_len);
  entry->soa_len = soa_len;
  entry->target = *target;
  entry->key = key;
  entry->id = NOT_SENT;
  entry->due = now;
  struct entry **bucket = bucket_of(n, name);
  for (struct entry *old = *bucket; old != NULL; old = old->next)
    if (name_equal(old->apex, name) && same_socket(&old->target.socket, &target->socket)) {
      drop(n, old); /* it would tell of an older change */
      break;
    }
  if (!heap_add(n, entry)) {
    free(entry);
    return false;
  }
  entry->next = *bucket;
  *bucket = entry;
  return true;
}

void notify_out_forget(struct notify_out *n, const uint8_t *apex) {
  uint8_t name[NAME_BUF];
  name_copy_lower(name, apex);
  struct entry *next;
  for (struct entry *entry = *bucket_of(n, name); entry != NULL; entry = next) {
    next = entry->next;
    if (name_equal(entry->apex, name))
      drop(n, entry);
  }
}

/* ---- sending ----------------------------------------------------------------------------------
 */

static bool take_id(struct notify_out *n, struct entry *entry) {
  if (entry->id != NOT_SENT)
    return true;
  if (n->in_flight >= NOTIFY_OUT_IN_FLIGHT)
    return false;
  /* At most a quarter of all is taken, so this ends soon. */
  uint32_t id = rng_below(&n->rng, IDS);
  while (n->by_id[id] != NULL)
    id = rng_below(&n->rng, IDS);
  n->by_id[id] = entry;
  entry->id = (int)id;
  n->in_flight++;
  return true;
}

/* RFC 1996 section 3.7: the question, and the new SOA as a hint.  0 if it cannot be made. */
static size_t write_message(struct entry *entry, uint8_t *out, uint64_t unix_now) {
  size_t name_len = name_wire_len(entry->apex, NAME_MAX_WIRE);
  memset(out, 0, WIRE_QUESTION);
  wire_put16(out + WIRE_ID, (uint16_t)entry->id);
  wire_put16(out + WIRE_FLAGS, (uint16_t)(OPCODE_NOTIFY << WIRE_OPCODE_SHIFT | WIRE_AA));
  wire_put16(out + WIRE_QDCOUNT, 1);
  wire_put16(out + WIRE_ANCOUNT, entry->soa_len > 0);
  size_t at = WIRE_QUESTION;
  memcpy(out + at, entry->apex, name_len);
  at += name_len;
  wire_put16(out + at, TYPE_SOA);
  wire_put16(out + at + 2, CLASS_IN);
  at += QUESTION_TAIL;
  memcpy(out + at, entry->soa, entry->soa_len);
  at += entry->soa_len;
  if (entry->key == NULL)
    return at;
  if (entry->session == NULL)
    entry->session = calloc(1, sizeof *entry->session);
  if (entry->session == NULL)
    return 0;
  return tsig_sign_request(entry->session, entry->key, out, at, NOTIFY_OUT_MESSAGE, unix_now);
}

static bool may_send(struct notify_out *n, uint64_t now) {
  if (now - n->second >= SECOND_MS) {
    n->second = now;
    n->second_sent = 0;
  }
  return n->second_sent < NOTIFY_OUT_PER_SECOND;
}

enum notify_out_event notify_out_next(struct notify_out *n, uint64_t now, uint64_t unix_now,
                                      struct notify_out_message *message,
                                      struct notify_out_end *end) {
  if (n->count == 0 || n->heap[0]->due > now)
    return NOTIFY_OUT_NOTHING;
  struct entry *entry = n->heap[0];
  if (entry->tries == NOTIFY_OUT_TRIES) {
    n->counters.failed++;
    tell_end(entry, entry->reason != NULL ? entry->reason : "no answer", end);
    drop(n, entry);
    return NOTIFY_OUT_GIVE_UP;
  }
  if (!may_send(n, now))
    return NOTIFY_OUT_NOTHING;
  if (!take_id(n, entry)) {
    set_due(n, entry, now + NOTIFY_OUT_FIRST_MS);
    return NOTIFY_OUT_NOTHING;
  }
  message->length = write_message(entry, message->octets, unix_now);
  if (message->length == 0) {
    n->counters.failed++;
    tell_end(entry, "it cannot be signed", end);
    drop(n, entry);
    return NOTIFY_OUT_GIVE_UP;
  }
  set_due(n, entry, now + ((uint64_t)NOTIFY_OUT_FIRST_MS << entry->tries));
  entry->tries++;
  n->second_sent++;
  n->counters.sent++;
  message->target = &entry->target;
  return NOTIFY_OUT_SEND;
}

uint64_t notify_out_wait(const struct notify_out *n, uint64_t now) {
  if (n->count == 0)
    return UINT64_MAX;
  if (n->heap[0]->due > now)
    return n->heap[0]->due - now;
  /* Something is due but may not be sent yet. */
  return now - n->second >= SECOND_MS ? 0 : SECOND_MS - (now - n->second);
}

/* ---- answers ----------------------------------------------------------------------------------
 */

static const char *rcode_text(unsigned rcode) {
  switch (rcode) {
  case RCODE_FORMERR:
    return "FORMERR";
  case RCODE_SERVFAIL:
    return "SERVFAIL";
  case RCODE_NXDOMAIN:
    return "NXDOMAIN";
  case RCODE_NOTIMP:
    return "NOTIMP";
  case RCODE_REFUSED:
    return "REFUSED";
  case RCODE_NOTAUTH:
    return "NOTAUTH";
  default:
    return "an error";
  }
}

/* True if the packet repeats our question; an error may leave it out. */
static bool is_our_question(const struct entry *entry, const uint8_t *packet, size_t length) {
  unsigned count = wire_u16(packet + WIRE_QDCOUNT);
  if (count == 0)
    return (wire_u16(packet + WIRE_FLAGS) & WIRE_RCODE) != RCODE_NOERROR;
  size_t name_len = name_wire_len(packet + WIRE_QUESTION, length - WIRE_QUESTION);
  if (count != 1 || name_len == 0 || length - WIRE_QUESTION - name_len < QUESTION_TAIL)
    return false;
  const uint8_t *tail = packet + WIRE_QUESTION + name_len;
  return name_equal(packet + WIRE_QUESTION, entry->apex) && wire_u16(tail) == TYPE_SOA &&
         wire_u16(tail + 2) == CLASS_IN;
}

/* The entry that the packet answers, by ID, address and question; NULL if there is none. */
static struct entry *find_entry(const struct notify_out *n, const union address_socket *from,
                                const uint8_t *packet, size_t length) {
  if (length < WIRE_QUESTION)
    return NULL;
  unsigned flags = wire_u16(packet + WIRE_FLAGS);
  if ((flags & WIRE_QR) == 0 || (flags & WIRE_OPCODE) != OPCODE_NOTIFY << WIRE_OPCODE_SHIFT)
    return NULL;
  struct entry *entry = n->by_id[wire_u16(packet + WIRE_ID)];
  if (entry == NULL || !same_socket(&entry->target.socket, from) ||
      !is_our_question(entry, packet, length))
    return NULL;
  return entry;
}

bool notify_out_reply(struct notify_out *n, const union address_socket *from, const uint8_t *packet,
                      size_t length, uint64_t unix_now, struct notify_out_end *end) {
  struct entry *entry = find_entry(n, from, packet, length);
  if (entry == NULL)
    return false;
  if (entry->session != NULL) {
    enum tsig_result result = tsig_verify_response(entry->session, packet, length, unix_now);
    if (result != TSIG_OK) { /* it may be forged: the next try decides */
      entry->reason = tsig_result_text(result);
      return false;
    }
  }
  unsigned rcode = wire_u16(packet + WIRE_FLAGS) & WIRE_RCODE;
  if (rcode == RCODE_NOERROR)
    n->counters.acked++;
  else
    n->counters.failed++;
  tell_end(entry, rcode == RCODE_NOERROR ? NULL : rcode_text(rcode), end);
  drop(n, entry);
  return true;
}

const struct notify_out_counters *notify_out_get_counters(const struct notify_out *n) {
  return &n->counters;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A batch that looks ahead gives the same responses, octet by octet, as one that does not. */
#include <criterion/criterion.h>
#include <string.h>

#include "server/query.h"
#include "server/wire.h"
#include "zone_fixture.h"

enum { BATCH = 200, FEW = 60, SLOT = 4096 };

static const char zone_text[] =
    "example. 3600 IN SOA ns1.example. host.example. 1 7200 900 1209600 60\n"
    "example. 3600 IN NS ns1.example.\n"
    "ns1.example. 3600 IN A 192.0.2.1\n"
    "alias.example. 300 IN CNAME steer.example.\n"
    "onealias.example. 300 IN CNAME hosts.example.\n";

static struct query_config config = {.udp_max = QUERY_UDP_MAX};
static struct query_worker worker;
static struct query queries[BATCH];
static uint8_t packets[2][BATCH][SLOT];
static size_t lengths[2][BATCH];

/* Draws that are not made ahead, because of the name, the type or their number, come in another
 * order; the plain ones alone repeat exactly. */
static const char *const plain_names[] = {"steer.example.", "hosts.example.",    "STEER.example.",
                                          "ns1.example.",   "onealias.example.", "missing.example.",
                                          "steer.example.", "www.elsewhere."};
static const char *const all_names[] = {"steer.example.", "several.example.", "alias.example.",
                                        "hosts.example.", "missing.example.", "inner.example.",
                                        "other.example."};
static const uint16_t types[] = {TYPE_A, TYPE_AAAA, TYPE_TXT, TYPE_A, TYPE_ANY};

static size_t put_query(uint8_t *p, unsigned i, bool plain) {
  const char *text = plain ? plain_names[i % 8] : all_names[i % 7];
  uint16_t type = types[i % (plain ? 4 : 5)];
  const char *why;
  uint8_t name[NAME_BUF];
  memset(p, 0, WIRE_QUESTION);
  wire_put16(p, (uint16_t)i);
  wire_put16(p + WIRE_QDCOUNT, 1);
  size_t n = name_from_text(name, text, strlen(text), NULL, &why);
  memcpy(p + WIRE_QUESTION, name, n);
  uint8_t *at = p + WIRE_QUESTION + n;
  wire_put16(at, type);
  wire_put16(at + 2, CLASS_IN);
  at += 4;
  if (i % 3 != 0) { /* with a client subnet */
    const uint8_t opt[] = {0, 0, TYPE_OPT, 4, 208, 0, 0,  0, 0,   0, 11,
                           0, 8, 0,        7, 0,   1, 24, 0, 203, 0, (uint8_t)i};
    wire_put16(p + WIRE_ARCOUNT, 1);
    memcpy(at, opt, sizeof opt);
    at += sizeof opt;
  }
  return (size_t)(at - p);
}

static void run(const struct view *view, unsigned turn, unsigned count, bool plain) {
  rng_seed(&worker.rng, 7);
  worker.config = &config;
  for (unsigned i = 0; i < count; i++) {
    struct query *q = &queries[i];
    q->packet = packets[turn][i];
    q->length = put_query(packets[turn][i], i, plain);
    q->capacity = SLOT;
    q->transport = TRANSPORT_UDP;
    geo_address_set4(&q->source, (const uint8_t[]){127, 0, 0, 1});
    query_parse(q, view, &worker);
  }
  for (unsigned i = 0; i < count; i++)
    query_locate(&queries[i]);
  if (turn == 1)
    query_look_ahead(queries, count, &worker);
  for (unsigned i = 0; i < count; i++)
    lengths[turn][i] = query_answer(&queries[i], view, &worker);
}

/* Runs the batch without and with a look ahead. */
static void run_both(unsigned count, bool plain) {
  static const uint16_t weights[] = {1, 2, 3, 4};
  struct steer_domain *domains[] = {
      zone_fixture_domain("steer.example.", 4, weights, NULL),
      zone_fixture_domain("several.example.", 4, weights, NULL),
      zone_fixture_domain("hosts.example.", 1, weights, "cdn.test"),
      zone_fixture_domain("inner.example.", 1, weights, "ns1.example"),
  };
  domains[1]->answers = 2;
  struct zone_fixture_zone zone = {"example.", zone_text, domains, 4};
  struct zone_fixture *fixture = zone_fixture_new(&zone, 1);
  run(zone_fixture_view(fixture), 0, count, plain);
  uint64_t steered = worker.counters[COUNT_STEERED];
  cr_assert_gt(steered, count / 4);
  run(zone_fixture_view(fixture), 1, count, plain);
  cr_assert_eq(worker.counters[COUNT_STEERED], 2 * steered);
  zone_fixture_free(fixture);
}

Test(ahead, the_same_draws_give_the_same_octets) {
  run_both(FEW, true);
  for (unsigned i = 0; i < FEW; i++) {
    cr_assert_eq(lengths[0][i], lengths[1][i], "query %u", i);
    cr_assert_eq(memcmp(packets[0][i], packets[1][i], lengths[0][i]), 0, "query %u", i);
  }
}

/* More steered queries than are looked at ahead, several draws, aliases: other draws, but responses
 * of the same form. */
Test(ahead, gives_responses_of_the_same_form) {
  run_both(BATCH, false);
  for (unsigned i = 0; i < BATCH; i++) {
    cr_assert_eq(lengths[0][i], lengths[1][i], "query %u", i);
    cr_assert_eq(memcmp(packets[0][i], packets[1][i], WIRE_QUESTION), 0, "query %u", i);
  }
}

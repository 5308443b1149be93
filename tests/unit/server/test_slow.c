/* SPDX-License-Identifier: Apache-2.0 */
/* Signed queries and requests for transfers, in memory. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <string.h>

#include "server/slow.h"
#include "server/transfer_policy.h"
#include "server/wire.h"
#include "zone_fixture.h"

enum { NOW = 1700000000 };

static const char zone_text[] =
    "example.com. 300 IN SOA ns.example.com. h.example.com. 9 1 2 3 60\n"
    "example.com. 300 IN NS ns.example.com.\n"
    "ns.example.com. 300 IN A 192.0.2.1\n";

static struct zone_fixture *fixture;
static struct view view;
static struct view_transfer transfers[1];
static struct tsig_keys *keys;
static const struct tsig_key *key;
static struct query_config config;
static struct query_worker worker;
static struct query q;
static uint8_t packet[QUERY_BUF];
static struct slow_transfer transfer;
static struct tsig_session client; /* of a signed request */

static void setup(void) {
  static const struct tsig_policy policy = {.allow_md5 = false};
  char why[TSIG_WHY];
  static const struct zone_fixture_zone zone = {.apex = "example.com.", .text = zone_text};
  fixture = zone_fixture_new(&zone, 1);
  view = *zone_fixture_view(fixture);
  view.transfers = transfers;
  keys = tsig_keys_new(&policy);
  cr_assert(tsig_keys_add(keys, "k", "hmac-sha256", "c2VjcmV0", why));
  key = tsig_keys_find(keys, (const uint8_t *)"\1k");
  config = (struct query_config){.udp_max = QUERY_UDP_MAX, .keys = keys};
  worker.config = &config;
  rng_seed(&worker.rng, 1);
}

static void teardown(void) {
  tsig_close(&client);
  if (transfer.wanted)
    slow_transfer_close(&transfer);
  tsig_keys_free(keys);
  zone_fixture_free(fixture);
}

TestSuite(slow, .init = setup, .fini = teardown);

/* Writes a query; `serial` adds the SOA of an IXFR. */
static size_t make_query(const char *name, uint16_t type, const uint32_t *serial) {
  const char *why;
  memset(packet, 0, WIRE_QUESTION);
  wire_put16(packet, 0xbeef);
  wire_put16(packet + WIRE_QDCOUNT, 1);
  uint8_t wire[NAME_BUF];
  size_t n = name_from_text(wire, name, strlen(name), NULL, &why);
  memcpy(packet + WIRE_QUESTION, wire, n);
  size_t at = WIRE_QUESTION + n;
  wire_put16(packet + at, type);
  wire_put16(packet + at + 2, CLASS_IN);
  at += 4;
  if (serial == NULL)
    return at;
  static const uint8_t soa[] = {0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 0, 0, 24, 0xc0, 12, 0xc0, 12};
  memcpy(packet + at, soa, sizeof soa);
  memset(packet + at + sizeof soa, 0, 20);
  wire_put32(packet + at + sizeof soa, *serial);
  wire_put16(packet + WIRE_NSCOUNT, 1);
  return at + sizeof soa + 20;
}

static size_t ask(size_t length, enum query_transport transport) {
  static const uint8_t address[4] = {192, 0, 2, 77};
  q.packet = packet;
  q.length = length;
  q.capacity = transport == TRANSPORT_UDP ? 4096 : QUERY_BUF;
  q.transport = transport;
  geo_address_set4(&q.source, address);
  query_parse(&q, &view, &worker);
  cr_assert(slow_is_needed(&q));
  return slow_respond(&q, &view, &worker, NOW, transport == TRANSPORT_UDP ? NULL : &transfer);
}

static size_t sign(size_t length) {
  return tsig_sign_request(&client, key, packet, length, sizeof packet, NOW);
}

static unsigned rcode(void) {
  return wire_u16(packet + WIRE_FLAGS) & WIRE_RCODE;
}

static void allow(const char *text) {
  char why[TRANSFER_POLICY_WHY] = "";
  json_t *json = json_loads(text, 0, NULL);
  transfers[0].policy = transfer_policy_read(json, why);
  transfers[0].records = "/data/builds/x/zones/example.com.records";
  json_decref(json);
  cr_assert(transfers[0].policy != NULL, "%s", why);
}

/* ---- signed queries ---------------------------------------------------------------------------
 */

Test(slow, signed_query) {
  for (int udp = 0; udp < 2; udp++) {
    size_t n = sign(make_query("ns.example.com.", TYPE_A, NULL));
    n = ask(n, udp ? TRANSPORT_UDP : TRANSPORT_TCP);
    cr_expect_eq(rcode(), RCODE_NOERROR);
    cr_expect_eq(wire_u16(packet + WIRE_ANCOUNT), 1);
    cr_expect_eq(wire_u16(packet + WIRE_ARCOUNT), 1);
    cr_expect_eq(tsig_verify_response(&client, packet, n, NOW), TSIG_OK);
  }
  cr_expect_eq(worker.counters[COUNT_TSIG_GOOD], 2);
  cr_expect_eq(worker.counters[COUNT_QUERIES], 2);
}

Test(slow, wrong_signature) {
  size_t n = sign(make_query("ns.example.com.", TYPE_A, NULL));
  packet[WIRE_QUESTION + 1] ^= 1;
  n = ask(n, TRANSPORT_UDP);
  cr_expect_eq(rcode(), RCODE_NOTAUTH);
  cr_expect_eq(wire_u16(packet + WIRE_ANCOUNT), 0);
  cr_expect_eq(wire_u16(packet + WIRE_ARCOUNT), 1);
  cr_expect_neq(tsig_verify_response(&client, packet, n, NOW), TSIG_OK);
  cr_expect_eq(worker.counters[COUNT_TSIG_BAD], 1);
}

Test(slow, unknown_key) {
  static const struct tsig_policy policy = {.allow_md5 = false};
  struct tsig_keys *others = tsig_keys_new(&policy);
  char why[TSIG_WHY];
  cr_assert(tsig_keys_add(others, "other", "hmac-sha256", "c2VjcmV0", why));
  key = tsig_keys_find(others, (const uint8_t *)"\5other");
  size_t n = sign(make_query("ns.example.com.", TYPE_A, NULL));
  n = ask(n, TRANSPORT_UDP);
  cr_expect_eq(rcode(), RCODE_NOTAUTH);
  cr_expect_eq(tsig_verify_response(&client, packet, n, NOW), TSIG_PEER_ERROR);
  cr_expect_eq(client.error, 17); /* BADKEY */
  tsig_keys_free(others);
}

Test(slow, clocks_differ) {
  size_t n = make_query("ns.example.com.", TYPE_A, NULL);
  n = tsig_sign_request(&client, key, packet, n, sizeof packet, NOW - 1000);
  n = ask(n, TRANSPORT_TCP);
  cr_expect_eq(rcode(), RCODE_NOTAUTH);
  cr_expect_eq(tsig_verify_response(&client, packet, n, NOW - 1000), TSIG_PEER_ERROR);
  cr_expect_eq(client.error, 18); /* BADTIME */
  cr_expect_eq(client.peer_time, NOW);
}

/* RFC 8945 section 5.1: the TSIG record must be the last one. */
Test(slow, not_last) {
  size_t n = sign(make_query("ns.example.com.", TYPE_A, NULL));
  static const uint8_t opt[11] = {0, 0, 41, 4, 0};
  memcpy(packet + n, opt, sizeof opt);
  wire_put16(packet + WIRE_ARCOUNT, 2);
  n = ask(n + sizeof opt, TRANSPORT_UDP);
  cr_expect_eq(rcode(), RCODE_FORMERR);
  cr_expect_eq(wire_u16(packet + WIRE_ARCOUNT), 1, "OPT, but no TSIG");
  cr_expect_gt(n, 12);
}

Test(slow, truncated_with_signature) {
  config.udp_max = 512;
  zone_fixture_free(fixture);
  char text[4096] = "example.com. 300 IN SOA ns.example.com. h.example.com. 9 1 2 3 60\n"
                    "example.com. 300 IN NS ns.example.com.\n"
                    "big.example.com. 300 IN TXT ";
  for (unsigned i = 0; i < 45; i++)
    strcat(text, "\"0123456789\" ");
  strcat(text, "\n");
  struct zone_fixture_zone zone = {.apex = "example.com.", .text = text};
  fixture = zone_fixture_new(&zone, 1);
  view = *zone_fixture_view(fixture);
  /* About 450 octets: fits 512 alone, but not with a signature. */
  size_t n = sign(make_query("big.example.com.", TYPE_TXT, NULL));
  n = ask(n, TRANSPORT_UDP);
  cr_expect(wire_u16(packet + WIRE_FLAGS) & WIRE_TC);
  cr_expect_eq(wire_u16(packet + WIRE_ANCOUNT), 0);
  cr_expect_leq(n, 512);
  cr_expect_eq(tsig_verify_response(&client, packet, n, NOW), TSIG_OK);
  n = sign(make_query("big.example.com.", TYPE_TXT, NULL));
  n = ask(n, TRANSPORT_TCP);
  cr_expect_eq(wire_u16(packet + WIRE_ANCOUNT), 1);
  cr_expect_eq(tsig_verify_response(&client, packet, n, NOW), TSIG_OK);
}

Test(slow, no_keys) {
  config.keys = NULL;
  size_t n = sign(make_query("ns.example.com.", TYPE_A, NULL));
  cr_expect_gt(ask(n, TRANSPORT_UDP), 12);
  cr_expect_eq(rcode(), RCODE_REFUSED);
}

/* ---- transfers --------------------------------------------------------------------------------
 */

Test(slow, refused_by_default) {
  size_t n = ask(make_query("example.com.", TYPE_AXFR, NULL), TRANSPORT_TCP);
  cr_expect_eq(n, WIRE_QUESTION + 13 + 4);
  cr_expect_eq(rcode(), RCODE_REFUSED);
  cr_expect(!transfer.wanted);
  view.transfers = NULL;
  ask(make_query("example.com.", TYPE_AXFR, NULL), TRANSPORT_TCP);
  cr_expect_eq(rcode(), RCODE_REFUSED);
  cr_expect_eq(worker.counters[COUNT_TRANSFER_REFUSED], 2);
}

Test(slow, not_an_apex) {
  allow("{\"allow\": [\"0.0.0.0/0\"]}");
  ask(make_query("ns.example.com.", TYPE_AXFR, NULL), TRANSPORT_TCP);
  cr_expect_eq(rcode(), RCODE_NOTAUTH);
  ask(make_query("example.org.", TYPE_AXFR, NULL), TRANSPORT_TCP);
  cr_expect_eq(rcode(), RCODE_NOTAUTH);
  cr_expect(!transfer.wanted);
}

Test(slow, granted) {
  allow("{\"allow\": [\"192.0.2.77\"]}");
  cr_expect_eq(ask(make_query("Example.COM.", TYPE_AXFR, NULL), TRANSPORT_TCP), 0);
  cr_assert(transfer.wanted);
  cr_expect(!transfer.wish.incremental);
  cr_expect_eq(transfer.wish.serial, 9);
  cr_expect_str_eq(transfer.wish.path, transfers[0].records);
  cr_expect_eq(transfer.head.id, 0xbeef);
  cr_expect_arr_eq(transfer.head.question, "\7Example\3COM\0\0\374\0\1", 17);
  uint8_t out[65535];
  size_t n = slow_transfer_fail(&transfer, RCODE_SERVFAIL, out, NOW);
  cr_expect_eq(n, WIRE_QUESTION + 17);
  cr_expect_eq(wire_u16(out + WIRE_FLAGS), WIRE_QR | RCODE_SERVFAIL);
}

Test(slow, granted_to_a_key) {
  allow("{\"tsig\": \"K\"}");
  ask(make_query("example.com.", TYPE_AXFR, NULL), TRANSPORT_TCP);
  cr_expect_eq(rcode(), RCODE_REFUSED, "without the key");
  cr_expect_eq(ask(sign(make_query("example.com.", TYPE_AXFR, NULL)), TRANSPORT_TCP), 0);
  cr_assert(transfer.wanted);
  uint8_t out[65535];
  size_t n = slow_transfer_fail(&transfer, RCODE_SERVFAIL, out, NOW);
  cr_expect_eq(tsig_verify_response(&client, out, n, NOW), TSIG_OK);
}

/* A refusal is signed as well. */
Test(slow, refused_to_a_key) {
  allow("{\"tsig\": \"K\", \"allow\": [\"192.0.2.78\"]}");
  size_t n = ask(sign(make_query("example.com.", TYPE_AXFR, NULL)), TRANSPORT_TCP);
  cr_expect_eq(rcode(), RCODE_REFUSED);
  cr_expect_eq(tsig_verify_response(&client, packet, n, NOW), TSIG_OK);
}

Test(slow, incremental) {
  uint32_t have = 4000000000u;
  allow("{\"allow\": [\"192.0.2.0/24\"]}");
  cr_expect_eq(ask(make_query("example.com.", TYPE_IXFR, &have), TRANSPORT_TCP), 0);
  cr_assert(transfer.wanted);
  cr_expect(transfer.wish.incremental);
  cr_expect_eq(transfer.wish.have, have);
}

/* RFC 1995 section 3: the client's SOA belongs to the request. */
Test(slow, incremental_without_soa) {
  allow("{\"allow\": [\"192.0.2.0/24\"]}");
  ask(make_query("example.com.", TYPE_IXFR, NULL), TRANSPORT_TCP);
  cr_expect_eq(rcode(), RCODE_FORMERR);
  uint32_t have = 1;
  size_t n = make_query("example.com.", TYPE_IXFR, &have);
  packet[n - 36 + 3] = TYPE_NS;
  ask(n, TRANSPORT_TCP);
  cr_expect_eq(rcode(), RCODE_FORMERR);
  cr_expect(!transfer.wanted);
}

Test(slow, over_udp) {
  uint32_t have = 1;
  allow("{\"allow\": [\"192.0.2.0/24\"]}");
  ask(make_query("example.com.", TYPE_AXFR, NULL), TRANSPORT_UDP);
  cr_expect_eq(rcode(), RCODE_REFUSED);
  ask(make_query("example.com.", TYPE_IXFR, &have), TRANSPORT_UDP);
  cr_expect_eq(rcode(), RCODE_NOERROR);
  cr_expect_eq(wire_u16(packet + WIRE_ANCOUNT), 1);
  cr_expect_eq(wire_u16(packet + WIRE_NSCOUNT), 0);
  cr_expect(wire_u16(packet + WIRE_FLAGS) & WIRE_AA);
  /* The question stays what it was, and the record is the SOA. */
  cr_expect_eq(wire_u16(packet + WIRE_QUESTION + 13), TYPE_IXFR);
  cr_expect_eq(wire_u16(packet + WIRE_QUESTION + 17 + 2), TYPE_SOA);
}

/* A zone of a build that is older than records files. */
Test(slow, no_records) {
  allow("{\"allow\": [\"192.0.2.0/24\"]}");
  transfers[0].records = NULL;
  ask(make_query("example.com.", TYPE_AXFR, NULL), TRANSPORT_TCP);
  cr_expect_eq(rcode(), RCODE_SERVFAIL);
  cr_expect(!transfer.wanted);
}

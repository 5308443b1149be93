/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any packet, over UDP and TCP: no fault, and a response that keeps the rules: the query's ID, QR
 * set, not longer than allowed, every record whole, no octet behind the last.
 */
#include <stdlib.h>
#include <string.h>

#include "server/wire.h"
#include "zone_fixture.h"

static const char zone_text[] =
    "example. 3600 IN SOA ns1.example. host.example. 1 7200 900 1209600 60\n"
    "example. 3600 IN NS ns1.example.\n"
    "www.example. 300 IN A 192.0.2.80\n"
    "*.w.example. 300 IN MX 10 mail.example.\n"
    "*.l.example. 300 IN CNAME l2.l.example.\n"
    "a.example. 300 IN CNAME www.other.test.\n"
    "s.example. 300 IN CNAME steer.example.\n"
    "c.example. 300 IN CNAME b.example.\n"
    "b.example. 300 IN CNAME x.d.example.\n"
    "sub.example. 300 IN NS ns.sub.example.\n"
    "ns.sub.example. 300 IN A 192.0.2.53\n"
    "d.example. 300 IN DNAME t.d2.example.\n"
    "d2.example. 300 IN DNAME d.example.\n";

static const char other_text[] =
    "other.test. 3600 IN SOA ns1.other.test. host.other.test. 1 7200 900 1209600 60\n"
    "other.test. 3600 IN NS ns1.other.test.\n"
    "www.other.test. 300 IN CNAME a.example.\n";

static struct zone_fixture *fixture;
static struct query_worker worker;
static struct query_config config = {
    .udp_max = QUERY_UDP_MAX, .nsid = "fuzz", .nsid_len = 4, .version = "v", .server_id = "id"};
static uint8_t packet[QUERY_BUF];

static void set_up(void) {
  static const uint16_t weights[] = {1, 2, 3};
  static struct steer_domain *domains[2];
  domains[0] = zone_fixture_domain("steer.example.", 3, weights, NULL);
  domains[1] = zone_fixture_domain("h.example.", 3, weights, "w.example");
  domains[0]->answers = 2;
  struct zone_fixture_zone zones[] = {{"example.", zone_text, domains, 2},
                                      {"other.test.", other_text, NULL, 0}};
  fixture = zone_fixture_new(zones, 2);
  worker.config = &config;
  rng_seed(&worker.rng, 1);
}

static size_t skip_name(size_t at, size_t len) {
  for (;;) {
    if (at >= len)
      abort();
    if (packet[at] == 0)
      return at + 1;
    if (packet[at] >= 0xc0) {
      if (at + 2 > len || (size_t)(wire_u16(packet + at) & WIRE_POINTER_MAX) >= at)
        abort(); /* pointers go backwards */
      return at + 2;
    }
    at += packet[at] + 1u;
  }
}

static void check_response(size_t len, size_t limit, uint16_t id) {
  if (len < 12 || len > limit || wire_u16(packet) != id || !(packet[2] & 0x80))
    abort();
  size_t at = 12;
  if (wire_u16(packet + WIRE_QDCOUNT) > 1)
    abort();
  if (wire_u16(packet + WIRE_QDCOUNT) == 1)
    at = skip_name(at, len) + 4;
  unsigned records = wire_u16(packet + WIRE_ANCOUNT) + wire_u16(packet + WIRE_NSCOUNT) +
                     wire_u16(packet + WIRE_ARCOUNT);
  for (unsigned i = 0; i < records; i++) {
    at = skip_name(at, len);
    if (at + 10 > len)
      abort();
    at += 10u + wire_u16(packet + at + 8);
  }
  if (at != len)
    abort();
}

static void ask(const uint8_t *data, size_t size, enum query_transport transport) {
  static struct query q;
  memcpy(packet, data, size);
  q.packet = packet;
  q.length = size;
  q.capacity = sizeof packet;
  q.transport = transport;
  uint8_t source[16] = {0};
  geo_address_set6(&q.source, source);
  uint16_t id = size >= 2 ? wire_u16(data) : 0;
  size_t len = query_respond(&q, zone_fixture_view(fixture), &worker);
  if (len == 0) {
    if (size >= 12 && !(data[2] & 0x80))
      abort(); /* only responses and scraps deserve silence */
    return;
  }
  check_response(len, transport == TRANSPORT_UDP ? QUERY_UDP_MAX : 65535, id);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!fixture)
    set_up();
  if (size > 4096)
    return 0;
  ask(data, size, TRANSPORT_UDP);
  ask(data, size, TRANSPORT_TCP);
  return 0;
}

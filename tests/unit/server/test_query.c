/* SPDX-License-Identifier: Apache-2.0 */
/* The query path, bytes in, bytes out; responses are compared as ldns prints them. */
#include <criterion/criterion.h>
#include <ldns/ldns.h>
#include <stdlib.h>
#include <string.h>

#include "server/cookie.h"
#include "server/ratelimit.h"
#include "server/wire.h"
#include "zone_fixture.h"

static const char zone_text[] =
    "example. 3600 IN SOA ns1.example. host.example. 1 7200 900 1209600 60\n"
    "example. 3600 IN NS ns1.example.\n"
    "ns1.example. 3600 IN A 192.0.2.1\n"
    "www.example. 300 IN A 192.0.2.80\n"
    "www.example. 300 IN A 192.0.2.81\n"
    "mx.example. 300 IN MX 10 mail.example.\n"
    "*.wild.example. 300 IN MX 10 mail.example.\n"
    "*.wild.example. 300 IN A 192.0.2.7\n"
    "a.ent.example. 300 IN A 192.0.2.9\n"
    "alias.example. 300 IN CNAME www.example.\n"
    "alias2.example. 300 IN CNAME alias.example.\n"
    "dangling.example. 300 IN CNAME missing.example.\n"
    "out.example. 300 IN CNAME www.elsewhere.test.\n"
    "other.example. 300 IN CNAME www.other.test.\n"
    "steeralias.example. 300 IN CNAME steer.example.\n"
    "hostalias.example. 300 IN CNAME hosts.example.\n"
    "loop1.example. 300 IN CNAME loop2.example.\n"
    "loop2.example. 300 IN CNAME loop1.example.\n"
    "*.l.example. 300 IN CNAME l2.l.example.\n"
    "sub.example. 300 IN NS ns.sub.example.\n"
    "sub.example. 300 IN NS ns.out.test.\n"
    "ns.sub.example. 300 IN A 192.0.2.53\n"
    "intosub.example. 300 IN CNAME www.sub.example.\n"
    "d.example. 300 IN DNAME t.example.\n"
    "x.t.example. 300 IN A 192.0.2.66\n"
    "intodname.example. 300 IN CNAME x.d.example.\n"
    "twice.again.example. 300 IN A 192.0.2.67\n"
    "r.again.example. 300 IN DNAME again.example.\n"
    "dlong.example. 300 IN DNAME "
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa."
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa."
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.example.\n";

static const char other_text[] =
    "other.test. 3600 IN SOA ns1.other.test. host.other.test. 1 7200 900 1209600 60\n"
    "other.test. 3600 IN NS ns1.other.test.\n"
    "www.other.test. 300 IN CNAME real.other.test.\n"
    "real.other.test. 300 IN A 192.0.2.200\n"
    "mail.other.test. 300 IN MX 5 real.other.test.\n";

static struct zone_fixture *fixture;
static struct query_config config = {.udp_max = QUERY_UDP_MAX};
static struct query_worker worker;
static uint8_t packet[QUERY_BUF];

static void set_up(void) {
  static const uint16_t weights[] = {1, 0};
  struct steer_domain *domains[] = {
      zone_fixture_domain("steer.example.", 2, weights, NULL),
      zone_fixture_domain("hosts.example.", 1, weights, "cdn.test"),
      zone_fixture_domain("inner.example.", 1, weights, "wild.example"),
  };
  struct zone_fixture_zone zones[] = {
      {"example.", zone_text, domains, 3},
      {"other.test.", other_text, NULL, 0},
  };
  fixture = zone_fixture_new(zones, 2);
  rng_seed(&worker.rng, 1);
  worker.config = &config;
}

static void tear_down(void) {
  zone_fixture_free(fixture);
}

TestSuite(query, .init = set_up, .fini = tear_down);

static size_t make_query(const char *name, const char *type) {
  ldns_rdf *owner = ldns_dname_new_frm_str(name);
  ldns_pkt *q = ldns_pkt_query_new(owner, ldns_get_rr_type_by_name(type), LDNS_RR_CLASS_IN, 0);
  uint8_t *wire = NULL;
  size_t len = 0;
  ldns_pkt2wire(&wire, q, &len);
  memcpy(packet, wire, len);
  free(wire);
  ldns_pkt_free(q);
  return len;
}

static size_t respond(size_t length, enum query_transport transport) {
  static struct query q;
  q.packet = packet;
  q.length = length;
  q.capacity = sizeof packet;
  q.transport = transport;
  uint8_t loopback[4] = {127, 0, 0, 1};
  geo_address_set4(&q.source, loopback);
  return query_respond(&q, zone_fixture_view(fixture), &worker);
}

/* "RCODE flags | answer | authority | additional", records as "owner TYPE rdata", "; " between. */
static char *describe(size_t length) {
  static char out[65536];
  ldns_pkt *p = NULL;
  cr_assert_eq(ldns_wire2pkt(&p, packet, length), LDNS_STATUS_OK, "malformed response");
  char *rcode = ldns_pkt_rcode2str(ldns_pkt_get_rcode(p));
  int n = snprintf(out, sizeof out, "%s%s%s", rcode, ldns_pkt_aa(p) ? " aa" : "",
                   ldns_pkt_tc(p) ? " tc" : "");
  free(rcode);
  ldns_rr_list *sections[] = {ldns_pkt_answer(p), ldns_pkt_authority(p), ldns_pkt_additional(p)};
  for (int s = 0; s < 3; s++) {
    n += snprintf(out + n, sizeof out - (size_t)n, " |");
    for (size_t i = 0; i < ldns_rr_list_rr_count(sections[s]); i++) {
      ldns_rr *rr = ldns_rr_list_rr(sections[s], i);
      char *owner = ldns_rdf2str(ldns_rr_owner(rr));
      char *type = ldns_rr_type2str(ldns_rr_get_type(rr));
      n += snprintf(out + n, sizeof out - (size_t)n, "%s %s %s", i ? ";" : "", owner, type);
      for (size_t f = 0; f < ldns_rr_rd_count(rr) && ldns_rr_get_type(rr) != LDNS_RR_TYPE_SOA;
           f++) {
        char *rdf = ldns_rdf2str(ldns_rr_rdf(rr, f));
        n += snprintf(out + n, sizeof out - (size_t)n, " %s", rdf);
        free(rdf);
      }
      if (ldns_rr_get_type(rr) == LDNS_RR_TYPE_SOA)
        n += snprintf(out + n, sizeof out - (size_t)n, " %u", ldns_rr_ttl(rr));
      free(owner);
      free(type);
    }
  }
  ldns_pkt_free(p);
  return out;
}

static void expect(const char *name, const char *type, const char *want) {
  size_t length = respond(make_query(name, type), TRANSPORT_UDP);
  char *got = describe(length);
  cr_expect_str_eq(got, want, "%s %s\n  got  %s\n  want %s", name, type, got, want);
}

Test(query, positive) {
  expect("www.example.", "A",
         "NOERROR aa | www.example. A 192.0.2.80; www.example. A 192.0.2.81 | |");
  expect("mx.example.", "MX", "NOERROR aa | mx.example. MX 10 mail.example. | |");
  expect("example.", "SOA", "NOERROR aa | example. SOA 3600 | |");
  expect("example.", "NS", "NOERROR aa | example. NS ns1.example. | |");
}

Test(query, negative) {
  expect("www.example.", "AAAA", "NOERROR aa | | example. SOA 60 |");
  expect("ent.example.", "A", "NOERROR aa | | example. SOA 60 |");
  expect("nothere.example.", "A", "NXDOMAIN aa | | example. SOA 60 |");
  expect("a.b.c.d.nothere.example.", "A", "NXDOMAIN aa | | example. SOA 60 |");
  expect("www.unserved.", "A", "REFUSED | | |");
  expect(".", "NS", "REFUSED | | |");
}

Test(query, wildcard_moves_its_pointers) {
  expect("some.name.wild.example.", "MX",
         "NOERROR aa | some.name.wild.example. MX 10 mail.example. | |");
  expect("x.wild.example.", "A", "NOERROR aa | x.wild.example. A 192.0.2.7 | |");
  expect("*.wild.example.", "A", "NOERROR aa | *.wild.example. A 192.0.2.7 | |");
  expect("x.wild.example.", "TXT", "NOERROR aa | | example. SOA 60 |");
}

Test(query, chains_inside_the_zone) {
  expect("alias2.example.", "A",
         "NOERROR aa | alias2.example. CNAME alias.example.; alias.example. CNAME www.example.; "
         "www.example. A 192.0.2.80; www.example. A 192.0.2.81 | |");
  expect("alias.example.", "CNAME", "NOERROR aa | alias.example. CNAME www.example. | |");
  expect("alias.example.", "TXT",
         "NOERROR aa | alias.example. CNAME www.example. | example. SOA 60 |");
  expect("dangling.example.", "A",
         "NXDOMAIN aa | dangling.example. CNAME missing.example. | example. SOA 60 |");
  expect(
      "loop1.example.", "A",
      "NOERROR aa | loop1.example. CNAME loop2.example.; loop2.example. CNAME loop1.example. | |");
}

Test(query, wildcard_alias_to_itself_repeats_no_record) {
  expect("l2.l.example.", "A", "NOERROR aa | l2.l.example. CNAME l2.l.example. | |");
  expect("x.l.example.", "A",
         "NOERROR aa | x.l.example. CNAME l2.l.example.; l2.l.example. CNAME l2.l.example. | |");
}

Test(query, chains_out_of_the_zone) {
  expect("out.example.", "A", "NOERROR aa | out.example. CNAME www.elsewhere.test. | |");
  expect(
      "other.example.", "A",
      "NOERROR aa | other.example. CNAME www.other.test.; www.other.test. CNAME real.other.test.; "
      "real.other.test. A 192.0.2.200 | |");
  expect(
      "other.example.", "TXT",
      "NOERROR aa | other.example. CNAME www.other.test.; www.other.test. CNAME real.other.test. "
      "| other.test. SOA 60 |");
  expect("intosub.example.", "A",
         "NOERROR aa | intosub.example. CNAME www.sub.example. | sub.example. NS ns.out.test.; "
         "sub.example. NS ns.sub.example. | ns.sub.example. A 192.0.2.53");
}

Test(query, referral) {
  expect("deep.www.sub.example.", "A",
         "NOERROR | | sub.example. NS ns.out.test.; sub.example. NS ns.sub.example. | "
         "ns.sub.example. A 192.0.2.53");
  expect("sub.example.", "NS",
         "NOERROR | | sub.example. NS ns.out.test.; sub.example. NS ns.sub.example. | "
         "ns.sub.example. A 192.0.2.53");
  expect("sub.example.", "DS", "NOERROR aa | | example. SOA 60 |");
}

Test(query, dname) {
  expect("x.d.example.", "A",
         "NOERROR aa | d.example. DNAME t.example.; x.d.example. CNAME x.t.example.; "
         "x.t.example. A 192.0.2.66 | |");
  expect("y.d.example.", "A",
         "NXDOMAIN aa | d.example. DNAME t.example.; y.d.example. CNAME y.t.example. "
         "| example. SOA 60 |");
  expect("x.d.example.", "CNAME",
         "NOERROR aa | d.example. DNAME t.example.; x.d.example. CNAME x.t.example. | |");
  expect("intodname.example.", "A",
         "NOERROR aa | intodname.example. CNAME x.d.example.; d.example. DNAME t.example.; "
         "x.d.example. CNAME x.t.example.; x.t.example. A 192.0.2.66 | |");
  size_t length =
      respond(make_query("bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb."
                         "dlong.example.",
                         "A"),
              TRANSPORT_UDP);
  cr_expect_eq(packet[3] & 15, RCODE_YXDOMAIN);
  cr_expect_gt(length, 0);
}

Test(query, names_behind_a_dname_are_compressed) {
  size_t header_and_question = 12 + strlen("_x_d_example_") + 4;
  size_t dname = 2 + 10 + strlen("_t_example_"); /* the target in full (RFC 6672 section 2.5) */
  size_t cname = 2 + 10 + strlen("_x") + 2;
  size_t address = 2 + 10 + 4;
  cr_expect_eq(respond(make_query("x.d.example.", "A"), TRANSPORT_UDP),
               header_and_question + dname + cname + address);
}

Test(query, a_dname_met_twice_is_given_once) {
  expect("twice.r.r.again.example.", "A",
         "NOERROR aa | r.again.example. DNAME again.example.; "
         "twice.r.r.again.example. CNAME twice.r.again.example.; "
         "twice.r.again.example. CNAME twice.again.example.; "
         "twice.again.example. A 192.0.2.67 | |");
}

Test(query, steered) {
  expect("steer.example.", "A", "NOERROR aa | steer.example. A 192.0.2.10 | |");
  expect("steer.example.", "AAAA", "NOERROR aa | steer.example. AAAA 2001:db8::a | |");
  expect("steer.example.", "TXT", "NOERROR aa | | example. SOA 60 |");
  expect("below.steer.example.", "A", "NXDOMAIN aa | | example. SOA 60 |");
  expect("steeralias.example.", "A",
         "NOERROR aa | steeralias.example. CNAME steer.example.; steer.example. A 192.0.2.10 | |");
  expect("hosts.example.", "A", "NOERROR aa | hosts.example. CNAME e0.cdn.test. | |");
  expect("hosts.example.", "CAA", "NOERROR aa | hosts.example. CNAME e0.cdn.test. | |");
  expect("hostalias.example.", "A",
         "NOERROR aa | hostalias.example. CNAME hosts.example.; hosts.example. CNAME e0.cdn.test. "
         "| |");
  expect("inner.example.", "A",
         "NOERROR aa | inner.example. CNAME e0.wild.example.; e0.wild.example. A 192.0.2.7 | |");
  expect("inner.example.", "MX",
         "NOERROR aa | inner.example. CNAME e0.wild.example.; e0.wild.example. MX 10 mail.example. "
         "| |");
  expect("inner.example.", "CNAME", "NOERROR aa | inner.example. CNAME e0.wild.example. | |");
}

Test(query, any_gives_one_small_rrset) {
  expect("www.example.", "ANY",
         "NOERROR aa | www.example. A 192.0.2.80; www.example. A 192.0.2.81 | |");
  expect("alias.example.", "ANY", "NOERROR aa | alias.example. CNAME www.example. | |");
  expect("steer.example.", "ANY", "NOERROR aa | steer.example. A 192.0.2.10 | |");
  expect("ent.example.", "ANY", "NOERROR aa | | example. SOA 60 |");
}

Test(query, silence_for_short_packets_and_responses) {
  size_t length = make_query("www.example.", "A");
  for (size_t n = 0; n < 12; n++)
    cr_expect_eq(respond(n, TRANSPORT_UDP), 0);
  packet[2] |= 0x80;
  cr_expect_eq(respond(length, TRANSPORT_UDP), 0);
}

Test(query, every_truncated_query_is_formerr) {
  size_t whole = make_query("www.example.", "A");
  for (size_t n = 12; n < whole; n++) {
    make_query("www.example.", "A");
    cr_assert_eq(respond(n, TRANSPORT_UDP), 12);
    cr_assert_eq(packet[3] & 15, RCODE_FORMERR);
  }
}

Test(query, case_of_the_question_is_kept) {
  size_t length = make_query("wWw.ExAmPlE.", "A");
  uint8_t before[64];
  memcpy(before, packet + 12, length - 12);
  respond(length, TRANSPORT_UDP);
  cr_expect_arr_eq(packet + 12, before, length - 12);
  cr_expect_eq(packet[7], 2);
}

/* ---- cookies and rate limiting -----------------------------------------------------------------
 */

static size_t add_cookie(size_t length, size_t cookie_len, const uint8_t *cookie) {
  packet[11] = 1;
  uint8_t opt[] = {
      0, 0, 41, 4, 208, 0, 0, 0, 0, 0, (uint8_t)(4 + cookie_len), 0, 10, 0, (uint8_t)cookie_len};
  memcpy(packet + length, opt, sizeof opt);
  memcpy(packet + length + sizeof opt, cookie, cookie_len);
  return length + sizeof opt + cookie_len;
}

static struct cookie_secrets secrets = {.count = 1, .octets = {{1, 2, 3}}};

static void cookies_on(void) {
  atomic_store(&config.cookies, &secrets);
  worker.now = 1000000;
}

Test(query, a_client_cookie_gets_a_server_cookie_that_then_proves_the_address) {
  cookies_on();
  static const uint8_t client[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  size_t length = respond(add_cookie(make_query("www.example.", "A"), 8, client), TRANSPORT_UDP);
  uint8_t cookie[24];
  memcpy(cookie, packet + length - sizeof cookie, sizeof cookie);
  cr_assert_arr_eq(cookie, client, sizeof client);
  cr_expect_eq(atomic_load(&worker.counters[COUNT_COOKIE_NEW]), 1);

  size_t again = respond(add_cookie(make_query("www.example.", "A"), 24, cookie), TRANSPORT_UDP);
  cr_expect_eq(again, length);
  cr_expect_eq(atomic_load(&worker.counters[COUNT_COOKIE_VALID]), 1);
  cookie[23] ^= 1;
  respond(add_cookie(make_query("www.example.", "A"), 24, cookie), TRANSPORT_UDP);
  cr_expect_eq(packet[3] & 15, RCODE_NOERROR, "a wrong cookie is answered, with a new one");
  cr_expect_eq(atomic_load(&worker.counters[COUNT_COOKIE_BAD]), 1);
}

Test(query, a_cookie_of_impossible_length_is_formerr) {
  cookies_on();
  static const uint8_t junk[41] = {0};
  static const size_t lengths[] = {0, 7, 9, 15, 41};
  for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
    respond(add_cookie(make_query("www.example.", "A"), lengths[i], junk), TRANSPORT_UDP);
    cr_expect_eq(packet[3] & 15, RCODE_FORMERR, "%zu octets", lengths[i]);
    cr_expect_eq(packet[7], 0);
  }
}

Test(query, a_query_for_a_cookie_alone) {
  static const uint8_t client[8] = {8, 7, 6, 5, 4, 3, 2, 1};
  memset(packet, 0, 12);
  size_t length = add_cookie(12, 8, client);
  respond(length, TRANSPORT_UDP);
  cr_expect_eq(packet[3] & 15, RCODE_FORMERR, "cookies are off");
  cookies_on();
  memset(packet, 0, 12);
  length = respond(add_cookie(12, 8, client), TRANSPORT_UDP);
  cr_expect_eq(packet[3] & 15, RCODE_NOERROR);
  cr_expect_eq(packet[5], 0);
  cr_expect_eq(length, 12 + 11 + 4 + 24);
}

static unsigned send_many(unsigned n, const char *name_format, unsigned *slipped) {
  unsigned answered = 0;
  for (unsigned i = 0; i < n; i++) {
    char name[64];
    snprintf(name, sizeof name, name_format, i);
    size_t length = respond(make_query(name, "A"), TRANSPORT_UDP);
    if (length == 0)
      continue;
    if (packet[2] & 2)
      (*slipped)++;
    else
      answered++;
  }
  return answered;
}

Test(query, rate_limit_knows_made_up_names_by_their_source) {
  struct ratelimit_config limits;
  ratelimit_defaults(&limits);
  limits.rate[RATELIMIT_ANSWER] = 10 * 1000;
  limits.rate[RATELIMIT_NXDOMAIN] = 5 * 1000;
  limits.slip = 2;
  char why[RATELIMIT_WHY];
  static const uint8_t seed[16] = {1};
  worker.limit = ratelimit_open(&limits, seed, why);
  worker.now_ms = 5000;
  unsigned slipped = 0;
  cr_expect_eq(send_many(100, "x%u.wild.example.", &slipped), 10);
  cr_expect_eq(slipped, 45, "every second one");
  slipped = 0;
  cr_expect_eq(send_many(100, "nx%u.example.", &slipped), 5);
  cr_expect_eq(send_many(5, "www.example.", &slipped), 5, "another name has tokens of its own");
  cr_expect_eq(respond(make_query("x.wild.example.", "A"), TRANSPORT_TCP) > 0, 1, "TCP is exempt");
  cr_expect_eq(packet[2] & 2, 0);
  ratelimit_close(worker.limit);
  worker.limit = NULL;
}

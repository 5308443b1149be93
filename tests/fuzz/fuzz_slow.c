/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What leaves the fast path: signed queries and requests for transfers, over UDP and TCP; and the
 * answers that secondaries give to NOTIFY.  Input: one octet of options, then a packet.
 *
 * A MAC cannot be guessed, so one option signs the packet with the right key first.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "server/notify_out.h"
#include "server/slow.h"
#include "server/transfer_policy.h"
#include "server/wire.h"
#include "zone_fixture.h"

enum { NOW = 1700000000, OPTION_SIGN = 1, OPTION_TCP = 2, OPTION_NOTIFY = 4 };

static const char zone_text[] =
    "example. 3600 IN SOA ns1.example. host.example. 1 7200 900 1209600 60\n"
    "example. 3600 IN NS ns1.example.\n"
    "www.example. 300 IN A 192.0.2.80\n";

static struct zone_fixture *fixture;
static struct view view;
static struct view_transfer transfers[1];
static struct tsig_keys *keys;
static const struct tsig_key *key;
static struct query_config config = {.udp_max = QUERY_UDP_MAX};
static struct query_worker worker;
static uint8_t packet[QUERY_BUF];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
  if (!condition)
    abort();
}

static void set_up(void) {
  static const struct tsig_policy policy = {.allow_md5 = true, .allow_truncated = true};
  static const struct zone_fixture_zone zone = {.apex = "example.", .text = zone_text};
  char why[TSIG_WHY];
  log_setup("fuzz", LOG_FORMAT_TEXT, LOG_LEVEL_ERROR);
  fixture = zone_fixture_new(&zone, 1);
  view = *zone_fixture_view(fixture);
  view.transfers = transfers;
  json_t *json = json_pack("{s:[s]}", "allow", "0.0.0.0/0");
  transfers[0].policy = transfer_policy_read(json, why);
  transfers[0].records = "/nowhere/builds/x/zones/example.records";
  json_decref(json);
  keys = tsig_keys_new(&policy);
  require(tsig_keys_add(keys, "k", "hmac-sha256", "c2VjcmV0", why));
  key = tsig_keys_find(keys, (const uint8_t *)"\1k");
  config.keys = keys;
  worker.config = &config;
  rng_seed(&worker.rng, 1);
}

static void ask(size_t length, bool tcp) {
  static const uint8_t address[4] = {192, 0, 2, 1};
  struct slow_transfer transfer = {.wanted = false};
  struct query q = {.packet = packet,
                    .length = length,
                    .capacity = tcp ? QUERY_BUF : 4096,
                    .transport = tcp ? TRANSPORT_TCP : TRANSPORT_UDP};
  uint16_t id = wire_u16(packet);
  geo_address_set4(&q.source, address);
  query_parse(&q, &view, &worker);
  if (!slow_is_needed(&q))
    return;
  size_t n = slow_respond(&q, &view, &worker, NOW, tcp ? &transfer : NULL);
  if (transfer.wanted) {
    require(tcp && n == 0);
    n = slow_transfer_fail(&transfer, RCODE_SERVFAIL, packet, NOW);
    slow_transfer_close(&transfer);
  }
  require(n == 0 || (n >= 12 && n <= (tcp ? 65535U : 4096U)));
  require(n == 0 || (wire_u16(packet) == id && (packet[2] & 0x80) != 0));
}

static void answer_notify(const uint8_t *data, size_t size, bool sign) {
  static struct notify_out_message message;
  struct notify_out_end end;
  struct address target;
  const char *why;
  struct notify_out *n = notify_out_new(1);
  require(n != NULL && address_parse("192.0.2.1", &target, &why));
  uint8_t apex[NAME_BUF] = "\7example";
  require(notify_out_add(n, apex, NULL, 0, &target, sign ? key : NULL, 0));
  require(notify_out_next(n, 0, NOW, &message, &end) == NOTIFY_OUT_SEND);
  /* As it came, and again with what must be right before anything else is looked at. */
  uint8_t *copy = malloc(size + 1);
  memcpy(copy, data, size);
  bool taken = notify_out_reply(n, &target.socket, copy, size, NOW, &end);
  if (!taken && size >= 12) {
    memcpy(copy, message.octets, 2);
    copy[2] = (uint8_t)(0x80 | OPCODE_NOTIFY << 3 | (copy[2] & 7));
    taken = notify_out_reply(n, &target.socket, copy, size, NOW, &end);
    require(!taken || !sign || end.reason != NULL || copy[11] != 0);
  }
  free(copy);
  notify_out_free(n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (keys == NULL)
    set_up();
  if (size < 1 || size > 4096 - 512)
    return 0;
  unsigned options = data[0];
  data++;
  size--;
  if (options & OPTION_NOTIFY) {
    answer_notify(data, size, options & OPTION_SIGN);
    return 0;
  }
  memset(packet, 0xee, sizeof packet);
  memcpy(packet, data, size);
  if (options & OPTION_SIGN) {
    struct tsig_session session = {.key = NULL};
    size_t n = tsig_sign_request(&session, key, packet, size, 4096, NOW);
    tsig_close(&session);
    size = n != 0 ? n : size;
  }
  ask(size, options & OPTION_TCP);
  return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A name server that takes zone transfers (RFC 5936) and dynamic updates (RFC 2136), both signed
 * (RFC 8945): BIND, Knot and others.  It knows no steering, so it gets the static answer.
 *
 * All goes over TCP, one connection for each call.  Messages are parsed and signatures checked by
 * the code of our own transfers, which is fuzzed; nothing is used before all of it is proven.
 * An UPDATE is sent once: without an answer nobody knows whether it was done, a new read does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/secret.h"
#include "server/wire.h"
#include "tools/providers/rfc2136_private.h"

enum {
  DEADLINE_MS = 30000,
  MAX_RECORDS = 5000000,
  MAX_OCTETS = 1 << 30,
  TSIG_ROOM = 1024, /* names, the longest MAC and the rest of a signature */
};

struct rfc2136 {
  char *name; /* of the provider, for messages */
  struct address address;
  struct tsig_keys *keys;
  const struct tsig_key *key;
  uint64_t deadline_ms;
  bool read_only;
};

/* One request and its answers. */
struct call {
  struct rfc2136_stream stream;
  struct tsig_session session;
  uint16_t id;
  uint64_t now; /* Unix seconds, for signatures */
  size_t len;   /* of `message` */
  uint8_t message[RFC2136_MESSAGE];
};

/* ---- open and close ------------------------------------------------------------------------- */

static void rfc_close(void *self) {
  struct rfc2136 *r = self;
  if (!r)
    return;
  tsig_keys_free(r->keys);
  free(r->name);
  free(r);
}

static bool use_key(struct rfc2136 *r, const char *secret_name, char *text,
                    struct provider_error *error) {
  static const struct tsig_policy policy = {0};
  char why[TSIG_WHY];
  uint8_t name[NAME_BUF];
  const char *algorithm;
  const char *key;
  const char *secret;
  const char *wrong;
  if (!rfc2136_key(text, &algorithm, &key, &secret, why))
    return provider_fail(error, PROVIDER_LOCAL, "%s: secret %.100s: %s", r->name, secret_name, why);
  r->keys = tsig_keys_new(&policy);
  if (!r->keys)
    return provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", r->name);
  if (!tsig_keys_add(r->keys, key, algorithm, secret, why))
    return provider_fail(error, PROVIDER_LOCAL, "%s: secret %.100s: %.300s", r->name, secret_name,
                         why);
  if (name_from_text(name, key, strlen(key), NULL, &wrong) > 0)
    r->key = tsig_keys_find(r->keys, name);
  return r->key ? true : provider_fail(error, PROVIDER_LOCAL, "%s: no key", r->name);
}

static bool take_secret(const struct provider_context *context, struct rfc2136 *r,
                        struct provider_error *error) {
  const char *name = json_string_value(json_object_get(context->settings, "secret"));
  char text[SECRET_MAX + 1];
  char why[SECRET_WHY] = "there are no secrets";
  if (!name)
    return provider_fail(error, PROVIDER_LOCAL,
                         "%s: `secret` is missing: the name of the secret with the TSIG key",
                         context->name);
  if (!context->secret || !context->secret(context->secret_arg, name, text, sizeof text, why))
    return provider_fail(error, PROVIDER_LOCAL, "%s: secret %.100s: %.300s", context->name, name,
                         why);
  bool ok = use_key(r, name, text, error);
  explicit_bzero(text, sizeof text);
  return ok;
}

static void *rfc_open(const struct provider_context *context, struct provider_error *error) {
  const char *address = json_string_value(json_object_get(context->settings, "address"));
  const char *why = "";
  struct rfc2136 *r = calloc(1, sizeof *r);
  if (r)
    r->name = strdup(context->name);
  if (!r || !r->name) {
    provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", context->name);
    rfc_close(r);
    return NULL;
  }
  r->deadline_ms = context->deadline_ms ? context->deadline_ms : DEADLINE_MS;
  r->read_only = context->read_only;
  if (!address)
    provider_fail(error, PROVIDER_LOCAL,
                  "%s: `address` is missing: that of the name server, such as 192.0.2.53@5353",
                  context->name);
  else if (!address_parse(address, &r->address, &why))
    provider_fail(error, PROVIDER_LOCAL, "%s: `address` %.100s: %s", context->name, address, why);
  else if (take_secret(context, r, error))
    return r;
  rfc_close(r);
  return NULL;
}

/* ---- calls ---------------------------------------------------------------------------------- */

static bool unreachable(const struct rfc2136 *r, const char *what, const char *why,
                        struct provider_error *error) {
  return provider_fail(error, PROVIDER_UNREACHABLE, "%s: %s: %s: %.250s", r->name, r->address.text,
                       what, why);
}

/* Signs what is in the message and sends it. */
static bool call_send(const struct rfc2136 *r, struct call *c, const char *what,
                      struct provider_error *error) {
  char why[RFC2136_WHY];
  if (getrandom(&c->id, sizeof c->id, 0) != (ssize_t)sizeof c->id)
    return provider_fail(error, PROVIDER_LOCAL, "%s: no random number", r->name);
  c->message[0] = (uint8_t)(c->id >> 8);
  c->message[1] = (uint8_t)c->id;
  c->now = (uint64_t)time(NULL);
  c->len = tsig_sign_request(&c->session, r->key, c->message, c->len, sizeof c->message, c->now);
  if (c->len == 0)
    return provider_fail(error, PROVIDER_LOCAL, "%s: the request cannot be signed", r->name);
  return (rfc2136_connect(&c->stream, &r->address, r->deadline_ms, why) &&
          rfc2136_send(&c->stream, c->message, c->len, why)) ||
         unreachable(r, what, why, error);
}

static unsigned rcode_of(const struct call *c) {
  return c->message[3] & WIRE_RCODE;
}

static bool is_answer(const struct call *c, unsigned opcode) {
  unsigned flags = (unsigned)c->message[2] << 8 | c->message[3];
  return c->len >= RFC2136_HEADER && c->message[0] == c->id >> 8 &&
         c->message[1] == (c->id & 0xff) && flags & WIRE_QR &&
         (flags & WIRE_OPCODE) >> WIRE_OPCODE_SHIFT == opcode;
}

/* Receives the next message and checks who it is from.  What says no may be unsigned: it is a
 * failure either way (RFC 8945 section 5.3.2). */
static bool call_receive(const struct rfc2136 *r, struct call *c, const char *zone, bool update,
                         struct provider_error *error) {
  char why[RFC2136_WHY];
  bool ended;
  const char *what = update ? "no answer to the update, which may be done or not" : "the transfer";
  if (!rfc2136_receive(&c->stream, c->message, &c->len, &ended, why))
    return !update && ended && c->session.signed_messages > 0
               ? provider_fail(error, PROVIDER_GARBAGE,
                               "%s: the transfer of %.200s was cut off; nothing of it is used",
                               r->name, zone)
               : unreachable(r, what, why, error);
  if (!is_answer(c, update ? OPCODE_UPDATE : OPCODE_QUERY))
    return provider_fail(error, PROVIDER_GARBAGE,
                         "%s: what comes from %s is no answer to our request; check the provider's "
                         "`address`",
                         r->name, r->address.text);
  enum tsig_result result =
      tsig_verify_response(&c->session, c->message, c->len, (uint64_t)time(NULL));
  if (result != TSIG_OK && result != TSIG_PENDING && result != TSIG_UNSIGNED)
    return rfc2136_signature(r->name, &c->session, result, c->now, error);
  if (rcode_of(c) != RCODE_NOERROR)
    return rfc2136_rcode(r->name, zone, rcode_of(c), update, error);
  return result != TSIG_UNSIGNED || rfc2136_signature(r->name, &c->session, result, c->now, error);
}

static struct call *call_new(void) {
  struct call *c = calloc(1, sizeof *c);
  if (c)
    c->stream.fd = -1;
  return c;
}

static void call_free(struct call *c) {
  if (!c)
    return;
  rfc2136_close(&c->stream);
  tsig_close(&c->session);
  free(c);
}

/* ---- read ----------------------------------------------------------------------------------- */

static bool receive_zone(const struct rfc2136 *r, struct call *c, struct transfer_in *transfer,
                         const char *zone, struct provider_error *error) {
  char why[TRANSFER_IN_WHY];
  enum transfer_result result = TRANSFER_MORE;
  while (result == TRANSFER_MORE) {
    if (!call_receive(r, c, zone, false, error))
      return false;
    result = transfer_in_message(transfer, c->message, c->session.stripped_len, why);
  }
  if (result != TRANSFER_DONE)
    return provider_fail(error, PROVIDER_GARBAGE, "%s: the transfer of %.200s is wrong: %.200s",
                         r->name, zone, why);
  /* RFC 8945 section 5.3.1: what is not signed at the end is not proven. */
  if (c->session.result != TSIG_OK)
    return provider_fail(error, PROVIDER_GARBAGE,
                         "%s: the end of the transfer of %.200s is not signed; nothing is used",
                         r->name, zone);
  return true;
}

static bool rfc_read(void *self, const char *zone, struct provider_objects *out,
                     struct provider_error *error) {
  const struct rfc2136 *r = self;
  const struct transfer_in_limits limits = {.records = MAX_RECORDS, .octets = MAX_OCTETS};
  uint8_t apex[NAME_BUF];
  const char *why;
  if (name_from_text(apex, zone, strlen(zone), NULL, &why) == 0)
    return provider_fail(error, PROVIDER_LOCAL, "%s: %.200s: %s", r->name, zone, why);
  struct transfer_in *transfer = calloc(1, sizeof *transfer);
  struct call *c = call_new();
  bool ok = transfer && c;
  if (!ok)
    provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", r->name);
  if (ok) {
    c->len = transfer_query(c->message, apex, TYPE_AXFR, 0, 0);
    ok = call_send(r, c, "the transfer", error);
    transfer_in_init(transfer, apex, TYPE_AXFR, c->id, 0, &limits);
    ok = ok && receive_zone(r, c, transfer, zone, error);
    if (ok && !rfc2136_objects(transfer, out))
      ok = provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", r->name);
    transfer_in_close(transfer);
  }
  call_free(c);
  free(transfer);
  return ok;
}

/* ---- compile -------------------------------------------------------------------------------- */

static bool rfc_compile(void *self, const struct provider_domain *domain,
                        struct provider_objects *out, struct provider_fidelity *fidelity,
                        struct provider_error *error) {
  const struct rfc2136 *r = self;
  return rfc2136_compile(domain, out, fidelity) ||
         provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", r->name);
}

static json_t *rfc_decompile(void *self, const struct provider_object *const *objects, size_t count,
                             struct provider_error *error) {
  const struct rfc2136 *r = self;
  provider_fail(error, PROVIDER_REFUSED,
                "%s: %.200s: static records do not say which domain they were made from", r->name,
                count > 0 ? objects[0]->name : "");
  return NULL;
}

/* ---- apply ---------------------------------------------------------------------------------- */

static bool send_update(const struct rfc2136 *r, const char *zone,
                        const struct rfc2136_message *message, struct provider_error *error) {
  struct call *c = call_new();
  if (!c)
    return provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", r->name);
  memcpy(c->message, message->octets, message->len);
  c->len = message->len;
  bool ok = call_send(r, c, "the update", error) && call_receive(r, c, zone, true, error);
  call_free(c);
  return ok;
}

static bool rfc_apply(void *self, const char *zone, const struct provider_change *changes,
                      size_t count, size_t *done, struct provider_error *error) {
  const struct rfc2136 *r = self;
  struct rfc2136_messages messages;
  *done = 0;
  if (r->read_only)
    return provider_fail(error, PROVIDER_LOCAL, "%s: opened for reading only", r->name);
  bool ok = rfc2136_messages_make(r->name, zone, changes, count, RFC2136_MESSAGE - TSIG_ROOM,
                                  &messages, error);
  for (size_t i = 0; ok && i < messages.count; i++) {
    ok = send_update(r, zone, &messages.items[i], error);
    if (ok)
      *done += messages.items[i].changes;
  }
  rfc2136_messages_close(&messages);
  return ok;
}

/* ---- zones ---------------------------------------------------------------------------------- */

/* The server that we speak with; the NS records of the zone name those of all providers. */
static json_t *rfc_servers(void *self, const char *zone, struct provider_error *error) {
  const struct rfc2136 *r = self;
  (void)zone;
  json_t *list = json_pack("[s]", r->address.text);
  if (!list)
    provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", r->name);
  return list;
}

const struct provider_kind provider_rfc2136 = {
    .type = "rfc2136",
    .can = {.apex_ns = true, .atomic = false, .compares = true, .weight_max = 0, .pushed = true},
    .open = rfc_open,
    .close = rfc_close,
    .read = rfc_read,
    .compile = rfc_compile,
    .decompile = rfc_decompile,
    .apply = rfc_apply,
    .servers = rfc_servers,
};

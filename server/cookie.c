/* SPDX-License-Identifier: Apache-2.0 */
#include "server/cookie.h"

#include <stdio.h>
#include <string.h>

/* Layout of the server part, RFC 9018 section 4. */
enum {
  VERSION = 1,
  TIME_AT = 4, /* in the server part */
  HASH_AT = 8, /* in the server part */
  ADDRESS_MAX = 16,
  HASHED_FIXED = COOKIE_CLIENT_SIZE + HASH_AT, /* client part, version, reserved, time */
};

static uint64_t load_le64(const uint8_t *p) {
  uint64_t v = 0;
  for (unsigned i = 0; i < 8; i++)
    v |= (uint64_t)p[i] << (8 * i);
  return v;
}

static void store_le64(uint8_t *p, uint64_t v) {
  for (unsigned i = 0; i < 8; i++)
    p[i] = (uint8_t)(v >> (8 * i));
}

static uint32_t load_be32(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void store_be32(uint8_t *p, uint32_t v) {
  for (unsigned i = 0; i < 4; i++)
    p[i] = (uint8_t)(v >> (24 - 8 * i));
}

static uint64_t rotate(uint64_t x, unsigned bits) {
  return x << bits | x >> (64 - bits);
}

static void sip_rounds(uint64_t v[4], unsigned rounds) {
  for (unsigned i = 0; i < rounds; i++) {
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
  }
}

static void sip_block(uint64_t v[4], uint64_t block) {
  v[3] ^= block;
  sip_rounds(v, 2);
  v[0] ^= block;
}

uint64_t cookie_siphash(const uint8_t key[COOKIE_SECRET_SIZE], const uint8_t *data, size_t len) {
  uint64_t k0 = load_le64(key), k1 = load_le64(key + 8);
  uint64_t v[4] = {
      k0 ^ UINT64_C(0x736f6d6570736575),
      k1 ^ UINT64_C(0x646f72616e646f6d),
      k0 ^ UINT64_C(0x6c7967656e657261),
      k1 ^ UINT64_C(0x7465646279746573),
  };
  size_t left = len;
  for (; left >= 8; left -= 8, data += 8)
    sip_block(v, load_le64(data));
  uint64_t last = (uint64_t)len << 56;
  for (size_t i = 0; i < left; i++)
    last |= (uint64_t)data[i] << (8 * i);
  sip_block(v, last);
  v[2] ^= 0xff;
  sip_rounds(v, 4);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* RFC 9018 section 4.4: client cookie | version | reserved | timestamp | client address. */
static uint64_t hash_cookie(const uint8_t *secret, const uint8_t *client, const uint8_t *server,
                            const uint8_t *address, size_t address_len) {
  uint8_t text[HASHED_FIXED + ADDRESS_MAX];
  memcpy(text, client, COOKIE_CLIENT_SIZE);
  memcpy(text + COOKIE_CLIENT_SIZE, server, HASH_AT);
  memcpy(text + HASHED_FIXED, address, address_len);
  return cookie_siphash(secret, text, HASHED_FIXED + address_len);
}

bool cookie_parse(const uint8_t *data, size_t len, struct cookie_option *option) {
  /* RFC 7873 section 5.2.2: 8 octets, or 16 to 40 with a server part; all else is FORMERR. */
  if (len != COOKIE_CLIENT_SIZE && (len < 16 || len > 40))
    return false;
  option->client = data;
  option->server_len = len - COOKIE_CLIENT_SIZE;
  option->server = option->server_len > 0 ? data + COOKIE_CLIENT_SIZE : NULL;
  return true;
}

/* RFC 9018 section 4.3, by the serial arithmetic of RFC 1982. */
static bool age_in_range(uint32_t age) {
  return age <= COOKIE_LIFETIME || (uint32_t)-age <= COOKIE_CLOCK_SKEW;
}

static bool is_older_than_half(uint32_t age) {
  return age <= COOKIE_LIFETIME && age > COOKIE_RENEW_AFTER;
}

enum cookie_status cookie_check(const struct cookie_secrets *secrets,
                                const struct cookie_option *option, const uint8_t *address,
                                size_t address_len, uint32_t now) {
  const uint8_t *server = option->server;
  if (server == NULL)
    return COOKIE_NONE;
  if (option->server_len != COOKIE_SERVER_SIZE || server[0] != VERSION)
    return COOKIE_BAD;
  uint32_t age = now - load_be32(server + TIME_AT);
  if (!age_in_range(age))
    return COOKIE_BAD;
  uint64_t given = load_le64(server + HASH_AT);
  for (size_t i = 0; i < secrets->count; i++) {
    /* The reserved octets are hashed as they came (RFC 9018 section 4.2). */
    if (hash_cookie(secrets->octets[i], option->client, server, address, address_len) != given)
      continue;
    return i > 0 || is_older_than_half(age) ? COOKIE_RENEW : COOKIE_VALID;
  }
  return COOKIE_BAD;
}

void cookie_make(const struct cookie_secrets *secrets, const uint8_t client[COOKIE_CLIENT_SIZE],
                 const uint8_t *address, size_t address_len, uint32_t now,
                 uint8_t out[COOKIE_SIZE]) {
  memmove(out, client, COOKIE_CLIENT_SIZE);
  uint8_t *server = out + COOKIE_CLIENT_SIZE;
  server[0] = VERSION;
  memset(server + 1, 0, 3); /* RFC 9018 section 4.2: reserved, zero when made */
  store_be32(server + TIME_AT, now);
  store_le64(server + HASH_AT, hash_cookie(secrets->octets[0], out, server, address, address_len));
}

enum cookie_status cookie_respond(const struct cookie_secrets *secrets,
                                  const struct cookie_option *option, const uint8_t *address,
                                  size_t address_len, uint32_t now, uint8_t out[COOKIE_SIZE]) {
  enum cookie_status status = cookie_check(secrets, option, address, address_len, now);
  if (status == COOKIE_VALID)
    memmove(out, option->client, COOKIE_SIZE); /* the parts stand side by side in the option */
  else
    cookie_make(secrets, option->client, address, address_len, now, out);
  return status;
}

static int hex_value(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  if (c >= 'A' && c <= 'F')
    return c - 'A' + 10;
  return -1;
}

static bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

/* Reads the trimmed line as one secret; NULL, or what is wrong with it. */
static const char *parse_secret(const char *line, size_t len, uint8_t out[COOKIE_SECRET_SIZE]) {
  for (size_t i = 0; i < len; i++) {
    if (hex_value(line[i]) < 0)
      return "a character that is no hex digit; a secret is 32 hex digits";
  }
  if (len != 2 * COOKIE_SECRET_SIZE)
    return len < 2 * COOKIE_SECRET_SIZE ? "too short; a secret is 32 hex digits"
                                        : "too long; a secret is 32 hex digits";
  uint8_t any = 0;
  for (size_t i = 0; i < COOKIE_SECRET_SIZE; i++) {
    out[i] = (uint8_t)(hex_value(line[2 * i]) << 4 | hex_value(line[2 * i + 1]));
    any |= out[i];
  }
  return any == 0 ? "all zeros; a secret must be random" : NULL;
}

/* Adds a secret to the set; NULL, or what is wrong with it. */
static const char *add_secret(struct cookie_secrets *set, const char *line, size_t len) {
  if (set->count == COOKIE_SECRETS_MAX)
    return "a fourth secret; at most three are accepted at once";
  uint8_t *secret = set->octets[set->count];
  const char *wrong = parse_secret(line, len, secret);
  if (wrong != NULL)
    return wrong;
  for (size_t i = 0; i < set->count; i++) {
    if (memcmp(set->octets[i], secret, COOKIE_SECRET_SIZE) == 0)
      return "the same secret twice; each must be given once";
  }
  set->count++;
  return NULL;
}

bool cookie_secrets_parse(const char *text, size_t len, struct cookie_secrets *secrets, char *why) {
  struct cookie_secrets set = {.count = 0};
  bool ok = false;
  const char *end = text + len;
  unsigned number = 0;
  for (const char *line = text; line < end;) {
    const char *newline = memchr(line, '\n', (size_t)(end - line));
    const char *stop = newline != NULL ? newline : end;
    const char *next = newline != NULL ? newline + 1 : end;
    number++;
    while (line < stop && is_blank(*line))
      line++;
    while (line < stop && is_blank(stop[-1]))
      stop--;
    if (line < stop && *line != '#') {
      const char *wrong = add_secret(&set, line, (size_t)(stop - line));
      if (wrong != NULL) {
        snprintf(why, COOKIE_WHY, "line %u: %s", number, wrong);
        goto done;
      }
    }
    line = next;
  }
  if (set.count == 0) {
    snprintf(why, COOKIE_WHY, "no secret found; give one to three lines of 32 hex digits");
    goto done;
  }
  *secrets = set;
  ok = true;
done:
  cookie_secrets_wipe(&set);
  return ok;
}

void cookie_secrets_generate(struct cookie_secrets *secrets,
                             const uint8_t random[COOKIE_SECRET_SIZE]) {
  cookie_secrets_wipe(secrets);
  memcpy(secrets->octets[0], random, COOKIE_SECRET_SIZE);
  secrets->count = 1;
}

void cookie_secrets_rotate(struct cookie_secrets *secrets,
                           const uint8_t random[COOKIE_SECRET_SIZE]) {
  uint8_t old[COOKIE_SECRET_SIZE];
  memcpy(old, secrets->octets[0], sizeof old);
  cookie_secrets_generate(secrets, random);
  memcpy(secrets->octets[1], old, sizeof old);
  secrets->count = 2;
  explicit_bzero(old, sizeof old);
}

void cookie_secrets_wipe(struct cookie_secrets *secrets) {
  explicit_bzero(secrets, sizeof *secrets);
}

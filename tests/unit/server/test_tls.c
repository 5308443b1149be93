/* SPDX-License-Identifier: Apache-2.0 */
/* The server side of TLS against a client of OpenSSL, all in memory. */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "server/tls.h"
#include "tls_helper.h"

enum { PLAIN_MAX = 131072, ROOM = TLS_OUT_MAX(PLAIN_MAX) };

static char folder[64];
static char cert[96], key[96];
static char why[TLS_WHY];
static enum tls_blame blame;
static struct tls_server *server;
static SSL_CTX *context;
static struct tls_session *session;
static SSL *client;
static uint8_t plain[ROOM + TLS_RECORD_MAX];
static size_t plain_length;
static enum tls_result result;

static void set_up(void) {
  strcpy(folder, "/tmp/sluice-tls-XXXXXX");
  cr_assert_not_null(mkdtemp(folder));
  snprintf(cert, sizeof cert, "%s/cert.pem", folder);
  snprintf(key, sizeof key, "%s/key.pem", folder);
  write_pair(cert, key, 30, NULL);
  server = tls_server_open(cert, key, &blame, why);
  cr_assert_not_null(server, "%s", why);
  context = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_security_level(context, 0);
}

static void hang_up(void) {
  if (client != NULL && SSL_is_init_finished(client))
    SSL_shutdown(client); /* without, OpenSSL holds the session for a broken one */
  SSL_free(client);
  tls_session_close(session);
  client = NULL;
  session = NULL;
}

static void tear_down(void) {
  hang_up();
  SSL_CTX_free(context);
  tls_server_close(server);
  unlink(cert);
  unlink(key);
  rmdir(folder);
}

TestSuite(tls, .init = set_up, .fini = tear_down);

static void dial(uint64_t now_ms) {
  session = tls_session_open(server, now_ms);
  cr_assert_not_null(session);
  client = SSL_new(context);
  SSL_set_bio(client, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  SSL_set_connect_state(client);
  result = TLS_OPEN;
  plain_length = 0;
}

/* Carries what the client has written to the server, `step` octets at a time, and the answers back.
 * Gathers in `plain`. */
static void carry(size_t step) {
  static uint8_t octets[ROOM], answer[ROOM];
  int n = BIO_read(SSL_get_wbio(client), octets, sizeof octets);
  for (size_t at = 0; n > 0 && at < (size_t)n && result != TLS_FAILED; at += step) {
    struct tls_output out = {answer, 0, sizeof answer};
    size_t part = (size_t)n - at < step ? (size_t)n - at : step;
    size_t got;
    result = tls_session_receive(session, octets + at, part, plain + plain_length, &got, &out);
    plain_length += got;
    BIO_write(SSL_get_rbio(client), answer, (int)out.length);
  }
}

static bool shake_hands(size_t step) {
  for (int i = 0; i < 8 && result == TLS_OPEN; i++) {
    int done = SSL_do_handshake(client);
    bool waits = SSL_get_error(client, done) == SSL_ERROR_WANT_READ;
    carry(step);
    if (done == 1 && tls_session_is_established(session))
      return true;
    if (done != 1 && !waits)
      return false;
  }
  return false;
}

static void answer(const uint8_t *octets, size_t length) {
  static uint8_t cipher[ROOM];
  struct tls_output out = {cipher, 0, TLS_OUT_MAX(length)};
  cr_assert(tls_session_send(session, octets, length, &out));
  cr_assert_lt(out.length, length + (length / TLS_RECORD_MAX + 1) * TLS_RECORD_EXTRA);
  cr_assert_eq(BIO_write(SSL_get_rbio(client), cipher, (int)out.length), (int)out.length);
}

static void exchange(size_t step) {
  char text[16];
  cr_assert_eq(SSL_write(client, "question", 8), 8);
  plain_length = 0;
  carry(step);
  cr_assert_eq(result, TLS_OPEN);
  cr_assert_eq(plain_length, 8);
  cr_assert_arr_eq(plain, "question", 8);
  answer((const uint8_t *)"answer", 6);
  cr_assert_eq(SSL_read(client, text, sizeof text), 6);
  cr_assert_arr_eq(text, "answer", 6);
}

/* ---- handshakes -------------------------------------------------------------------------------
 */

static void talk(int version, size_t step) {
  SSL_CTX_set_min_proto_version(context, version);
  SSL_CTX_set_max_proto_version(context, version);
  dial(0);
  cr_assert_not(tls_session_is_established(session));
  cr_assert(shake_hands(step));
  cr_assert_eq(SSL_version(client), version);
  cr_assert_eq(tls_session_fits_transfer(session), version == TLS1_3_VERSION);
  exchange(step);
  exchange(step);
}

Test(tls, version_1_3) {
  talk(TLS1_3_VERSION, SIZE_MAX / 2);
}

Test(tls, version_1_3_octet_by_octet) {
  talk(TLS1_3_VERSION, 1);
}

Test(tls, version_1_2) {
  talk(TLS1_2_VERSION, SIZE_MAX / 2);
}

Test(tls, version_1_2_octet_by_octet) {
  talk(TLS1_2_VERSION, 1);
}

Test(tls, older_versions_are_refused) {
  SSL_CTX_set_min_proto_version(context, TLS1_VERSION);
  SSL_CTX_set_max_proto_version(context, TLS1_1_VERSION);
  dial(0);
  cr_assert_not(shake_hands(1000));
  cr_assert_not(tls_session_is_established(session));
}

Test(tls, weak_suites_are_refused) {
  SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION);
  cr_assert_eq(SSL_CTX_set_cipher_list(context, "ECDHE+AES+SHA1:kRSA"), 1);
  dial(0);
  cr_assert_not(shake_hands(1000));
  cr_assert_eq(result, TLS_FAILED);
}

static bool offer(const char *protocols) {
  cr_assert_eq(
      SSL_CTX_set_alpn_protos(context, (const uint8_t *)protocols, (unsigned)strlen(protocols)), 0);
  dial(0);
  return shake_hands(1000);
}

Test(tls, alpn) {
  const uint8_t *chosen;
  unsigned length;
  cr_assert(offer("\x03"
                  "dot"));
  SSL_get0_alpn_selected(client, &chosen, &length);
  cr_assert_eq(length, 3);
  hang_up();
  cr_assert(offer("\x02h2\x08http/1.1\x03"
                  "dot"));
  SSL_get0_alpn_selected(client, &chosen, &length);
  cr_assert_arr_eq(chosen, "dot", 3);
  hang_up();
  cr_assert_not(offer("\x02h2\x04"
                      "dote\x02"
                      "do"));
  cr_assert_eq(result, TLS_FAILED);
}

/* ---- resumption -------------------------------------------------------------------------------
 */

static SSL_SESSION *ticket;

static int keep_ticket(SSL *ssl, SSL_SESSION *one) {
  (void)ssl;
  SSL_SESSION_free(ticket);
  ticket = one;
  return 1;
}

static bool resumes_at(uint64_t now_ms) {
  dial(now_ms);
  SSL_set_session(client, ticket);
  cr_assert(shake_hands(1000));
  exchange(1000);
  bool resumed = SSL_session_reused(client) == 1;
  hang_up();
  return resumed;
}

static void resume(int version) {
  SSL_CTX_set_max_proto_version(context, version);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT);
  SSL_CTX_sess_set_new_cb(context, keep_ticket);
  dial(0);
  cr_assert(shake_hands(1000));
  exchange(1000);
  hang_up();
  cr_assert_not_null(ticket);
  cr_assert(resumes_at(TLS_ROTATE_MS - 1));
  cr_assert_not(resumes_at(TLS_ROTATE_MS), "ticket keys have changed");
  cr_assert(resumes_at(TLS_ROTATE_MS + 1));
  SSL_SESSION_free(ticket);
  ticket = NULL;
}

Test(tls, tickets_1_3) {
  resume(TLS1_3_VERSION);
}

Test(tls, tickets_1_2) {
  resume(TLS1_2_VERSION);
}

/* ---- data --------------------------------------------------------------------------------------
 */

Test(tls, much_in_both_directions) {
  static uint8_t much[PLAIN_MAX], back[PLAIN_MAX];
  for (size_t i = 0; i < sizeof much; i++)
    much[i] = (uint8_t)(i * 2654435761u >> 24);
  dial(0);
  cr_assert(shake_hands(1000));
  cr_assert_eq(SSL_write(client, much, PLAIN_MAX), PLAIN_MAX);
  carry(65536);
  cr_assert_eq(plain_length, PLAIN_MAX);
  cr_assert_arr_eq(plain, much, PLAIN_MAX);
  answer(much, PLAIN_MAX);
  for (int at = 0; at < PLAIN_MAX;) {
    int n = SSL_read(client, back + at, PLAIN_MAX - at);
    cr_assert_gt(n, 0);
    at += n;
  }
  cr_assert_arr_eq(back, much, PLAIN_MAX);
}

Test(tls, output_that_does_not_fit_breaks_the_session) {
  static const uint8_t text[1000];
  uint8_t small[100];
  dial(0);
  cr_assert(shake_hands(1000));
  struct tls_output out = {small, 0, sizeof small};
  cr_assert_not(tls_session_send(session, text, sizeof text, &out));
  cr_assert_leq(out.length, sizeof small);
  cr_assert_not(tls_session_send(session, text, 1, &out));
}

Test(tls, the_peer_ends) {
  dial(0);
  cr_assert(shake_hands(1000));
  SSL_write(client, "last", 4);
  SSL_shutdown(client);
  carry(SIZE_MAX / 2);
  cr_assert_eq(result, TLS_ENDED);
  cr_assert_eq(plain_length, 4);
  answer((const uint8_t *)"answer", 6); /* it still listens */
}

Test(tls, we_end) {
  char text[1];
  uint8_t octets[256];
  struct tls_output out = {octets, 0, sizeof octets};
  dial(0);
  tls_session_end(session, &out);
  cr_assert_eq(out.length, 0, "nothing to say before the handshake");
  cr_assert(shake_hands(1000));
  tls_session_end(session, &out);
  BIO_write(SSL_get_rbio(client), octets, (int)out.length);
  cr_assert_eq(SSL_read(client, text, 1), 0);
  cr_assert_eq(SSL_get_error(client, 0), SSL_ERROR_ZERO_RETURN);
}

Test(tls, key_updates) {
  dial(0);
  cr_assert(shake_hands(1000));
  for (int i = 0; i < 1000; i++) {
    cr_assert_eq(SSL_key_update(client, SSL_KEY_UPDATE_REQUESTED), 1);
    cr_assert_eq(SSL_do_handshake(client), 1);
  }
  carry(SIZE_MAX / 2);
  cr_assert_eq(result, TLS_OPEN);
  exchange(1000);
}

Test(tls, renegotiation_is_refused) {
  SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION);
  dial(0);
  cr_assert(shake_hands(1000));
  SSL_renegotiate(client);
  SSL_do_handshake(client);
  carry(1000);
  cr_assert_neq(SSL_do_handshake(client), 1);
}

/* ---- what is no TLS ----------------------------------------------------------------------------
 */

static const struct {
  const char *octets;
  size_t length;
} garbage[] = {
    {"\0\x1d\x12\x34\0\0\0\1\0\0\0\0\0\0\3www\7example\3com\0\0\1\0\1", 37}, /* plain DNS */
    {"GET / HTTP/1.1\r\n\r\n", 18},
    {"\x16\x03\x01\xff\xff", 5},             /* too long a record */
    {"\x16\x03\x01\0\4\x02\0\0\0", 9},       /* a hello of a server */
    {"\x16\x03\x01\0\4\x01\xff\xff\xff", 9}, /* 16 MiB of hello */
    {"\x17\x03\x03\0\1x", 6},                /* data before any handshake */
    {"\x15\x03\x01\0\2\2\x28", 7},           /* a fatal alert */
};

Test(tls, garbage) {
  uint8_t octets[4096];
  for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
    struct tls_output out = {octets, 0, sizeof octets};
    size_t got;
    session = tls_session_open(server, 0);
    cr_expect_eq(tls_session_receive(session, (const uint8_t *)garbage[i].octets, garbage[i].length,
                                     plain, &got, &out),
                 TLS_FAILED, "%zu", i);
    cr_expect_eq(got, 0);
    cr_expect_lt(out.length, 16, "an alert at most");
    tls_session_end(session, &out);
    hang_up();
  }
}

/* ---- certificates ------------------------------------------------------------------------------
 */

static void write_text(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  cr_assert_not_null(file);
  fputs(text, file);
  fclose(file);
}

/* The pair on disk is refused with `word` in the reason, and what was there before still works. */
static void expect_refused(const char *word, enum tls_blame file) {
  cr_expect_not(tls_server_reload(server, &blame, why));
  cr_expect(strstr(why, word) != NULL, "%s", why);
  cr_expect_eq(blame, file, "%s", why);
  cr_expect_null(strchr(why, '\n'));
  dial(0);
  cr_expect(shake_hands(1000));
  hang_up();
}

Test(tls, bad_pairs_change_nothing) {
  char other[96];
  snprintf(other, sizeof other, "%s/other", folder);
  write_pair(other, key, 30, NULL);
  expect_refused("is not that of the certificate", TLS_BLAME_KEY);
  write_pair(cert, key, 30, "secret");
  expect_refused("is encrypted", TLS_BLAME_KEY);
  write_text(key, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
  expect_refused("is not a private key", TLS_BLAME_KEY);
  unlink(key);
  expect_refused(key, TLS_BLAME_KEY);
  cr_assert_eq(mkfifo(key, 0600), 0);
  expect_refused(key, TLS_BLAME_KEY);
  write_text(cert, "");
  expect_refused("is not a certificate", TLS_BLAME_CERT);
  write_text(cert, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
  expect_refused("is not a certificate", TLS_BLAME_CERT);
  cr_assert_eq(truncate(cert, TLS_FILE_MAX + 1), 0);
  expect_refused(cert, TLS_BLAME_CERT);
  unlink(other);
}

Test(tls, chain_with_a_broken_end) {
  FILE *file = fopen(cert, "a");
  fputs("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", file);
  fclose(file);
  expect_refused("is not a certificate", TLS_BLAME_CERT);
}

Test(tls, reload_under_an_open_session) {
  dial(0);
  cr_assert(shake_hands(1000));
  write_pair(cert, key, 60, NULL);
  cr_assert(tls_server_reload(server, &blame, why), "%s", why);
  exchange(1000);
  int64_t days = (tls_server_expires(server) - (int64_t)time(NULL)) / 86400;
  cr_assert(days == 59 || days == 60);
}

Test(tls, missing_files_at_the_start) {
  cr_assert_null(tls_server_open("/nonexistent/cert", key, &blame, why));
  cr_assert(strstr(why, "/nonexistent/cert") != NULL, "%s", why);
}

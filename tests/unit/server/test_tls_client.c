/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side of TLS against our server's, all in memory: who is accepted, who is not. */
#include <criterion/criterion.h>
#include <openssl/sha.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/tls.h"
#include "tls_helper.h"

enum { ROOM = TLS_OUT_MAX(1000) };

static char folder[64];
static char cert[96], key[96];
static char why[TLS_WHY];
static enum tls_blame blame;
static struct tls_server *server;
static uint8_t pins[2][TLS_PIN];

static void take_pin(uint8_t *pin) {
  unsigned char *spki = NULL;
  FILE *file = fopen(cert, "r");
  X509 *leaf = PEM_read_X509(file, NULL, NULL, NULL);
  fclose(file);
  int length = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(leaf), &spki);
  cr_assert_gt(length, 0);
  SHA256(spki, (size_t)length, pin);
  OPENSSL_free(spki);
  X509_free(leaf);
}

static void set_up(void) {
  strcpy(folder, "/tmp/sluice-tls-XXXXXX");
  cr_assert_not_null(mkdtemp(folder));
  snprintf(cert, sizeof cert, "%s/cert.pem", folder);
  snprintf(key, sizeof key, "%s/key.pem", folder);
  write_pair(cert, key, 30, NULL);
  server = tls_server_open(cert, key, &blame, why);
  cr_assert_not_null(server, "%s", why);
  memset(pins[0], 1, TLS_PIN);
  take_pin(pins[1]);
}

static void tear_down(void) {
  tls_server_close(server);
  unlink(cert);
  unlink(key);
  rmdir(folder);
}

TestSuite(tls_client, .init = set_up, .fini = tear_down);

/* ---- both sides -------------------------------------------------------------------------------
 */

struct pipe {
  uint8_t octets[ROOM];
  size_t length;
};

static struct tls_session *ours, *theirs;
static struct pipe to_us, to_them;
static uint8_t plain[ROOM + TLS_RECORD_MAX];

/* Gives one side what has come for it. */
static enum tls_result step(struct tls_session *session, struct pipe *in, struct pipe *out,
                            size_t *got) {
  struct tls_output output = {out->octets, out->length, sizeof out->octets};
  enum tls_result result =
      tls_session_receive(session, in->octets, in->length, plain, got, &output);
  in->length = 0;
  out->length = output.length;
  return result;
}

static enum tls_result shake_hands(struct tls_client *client) {
  size_t got;
  ours = tls_session_connect(client);
  theirs = tls_session_open(server, 0);
  cr_assert(ours != NULL && theirs != NULL);
  to_us.length = to_them.length = 0;
  enum tls_result result = TLS_OPEN;
  for (int i = 0; i < 4 && result == TLS_OPEN; i++) {
    result = step(ours, &to_us, &to_them, &got);
    cr_assert_eq(got, 0);
    if (result == TLS_OPEN)
      step(theirs, &to_them, &to_us, &got);
  }
  return result;
}

static void hang_up(void) {
  tls_session_close(ours);
  tls_session_close(theirs);
}

static void expect_accepted(const struct tls_peer *peer) {
  struct tls_client *client = tls_client_open(peer, &blame, why);
  cr_assert_not_null(client, "%s", why);
  cr_assert_eq(shake_hands(client), TLS_OPEN);
  cr_assert(tls_session_is_established(ours));
  cr_assert(tls_session_speaks_dot(ours));
  cr_assert(tls_session_fits_transfer(ours));
  struct tls_output out = {to_them.octets, 0, sizeof to_them.octets};
  cr_assert(tls_session_send(ours, (const uint8_t *)"question", 8, &out));
  to_them.length = out.length;
  size_t got;
  cr_assert_eq(step(theirs, &to_them, &to_us, &got), TLS_OPEN);
  cr_assert_eq(got, 8);
  cr_assert_arr_eq(plain, "question", 8);
  hang_up();
  tls_client_close(client);
}

static void expect_refused(const struct tls_peer *peer, const char *word) {
  char text[TLS_WHY];
  struct tls_client *client = tls_client_open(peer, &blame, why);
  cr_assert_not_null(client, "%s", why);
  cr_assert_eq(shake_hands(client), TLS_FAILED);
  tls_session_why(ours, text, sizeof text);
  cr_assert_not_null(strstr(text, word), "`%s` is not in: %s", word, text);
  struct tls_output out = {to_them.octets, 0, sizeof to_them.octets};
  cr_assert(!tls_session_send(ours, (const uint8_t *)"question", 8, &out));
  hang_up();
  tls_client_close(client);
}

/* ---- who is accepted --------------------------------------------------------------------------
 */

Test(tls_client, pins) {
  expect_accepted(&(struct tls_peer){.pins = pins, .pin_count = 2});
  expect_refused(&(struct tls_peer){.pins = pins, .pin_count = 1}, "none of the `pins`");
}

Test(tls_client, names_stand_in_the_alternative_names_only) {
  char name[] = "ns.test"; /* that of the subject */
  expect_refused(&(struct tls_peer){.hostname = name, .ca_file = cert}, "is not for ns.test");
}

Test(tls_client, unknown_authorities) {
  char name[] = "ns.test";
  expect_refused(&(struct tls_peer){.hostname = name}, "not trusted: self-signed");
}

Test(tls_client, a_pin_does_not_replace_the_name) {
  char name[] = "ns.test";
  expect_refused(
      &(struct tls_peer){.hostname = name, .ca_file = cert, .pins = pins, .pin_count = 2},
      "is not for ns.test");
}

/* ---- files ------------------------------------------------------------------------------------
 */

Test(tls_client, files_that_cannot_be_used) {
  char name[] = "ns.test", none[] = "/nonexistent/file";
  cr_assert_null(
      tls_client_open(&(struct tls_peer){.hostname = name, .ca_file = none}, &blame, why));
  cr_assert_not_null(strstr(why, none), "%s", why);
  cr_assert_eq(blame, TLS_BLAME_CA);
  cr_assert_null(
      tls_client_open(&(struct tls_peer){.hostname = name, .ca_file = key}, &blame, why));
  cr_assert_not_null(strstr(why, "no certificate"), "%s", why);
  struct tls_peer peer = {.pins = pins, .pin_count = 2, .cert_file = cert, .key_file = none};
  cr_assert_null(tls_client_open(&peer, &blame, why));
  cr_assert_not_null(strstr(why, none), "%s", why);
  cr_assert_eq(blame, TLS_BLAME_KEY);
  peer.key_file = key;
  expect_accepted(&peer);
}

Test(tls_client, a_reload_that_fails_changes_nothing) {
  struct tls_peer peer = {.pins = pins, .pin_count = 2, .cert_file = cert, .key_file = key};
  struct tls_client *client = tls_client_open(&peer, &blame, why);
  cr_assert_not_null(client, "%s", why);
  FILE *file = fopen(cert, "w");
  fputs("nothing\n", file);
  fclose(file);
  cr_assert(!tls_client_reload(client, &blame, why));
  cr_assert_not_null(strstr(why, "is not a certificate"), "%s", why);
  cr_assert_eq(blame, TLS_BLAME_CERT);
  cr_assert_eq(shake_hands(client), TLS_OPEN);
  hang_up();
  tls_client_close(client);
}

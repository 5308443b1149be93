/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Octets from the network into a TLS session of either side, in reads of different sizes: whatever
 * they are, the output stays within its bounds, nothing is said before the handshake is done, and a
 * session that has failed stays so, with a reason.
 *
 * Input: octet 0 is the size of the reads, less one; the rest is the stream.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../unit/server/tls_helper.h"
#include "server/tls.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 1 << 16 };

static struct tls_server *server;
static struct tls_client *client;

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  char cert[] = "/tmp/sluice-fuzz-XXXXXX";
  char key[] = "/tmp/sluice-fuzz-XXXXXX";
  char why[TLS_WHY];
  enum tls_blame blame;
  (void)argc;
  (void)argv;
  tls_require(close(mkstemp(cert)) == 0 && close(mkstemp(key)) == 0);
  write_pair(cert, key, 30, NULL);
  server = tls_server_open(cert, key, &blame, why);
  tls_require(server != NULL);
  unlink(cert);
  unlink(key);
  static uint8_t pins[1][TLS_PIN];
  static char name[] = "ns.test";
  static const struct tls_peer peer = {.hostname = name, .pins = pins, .pin_count = 1};
  client = tls_client_open(&peer, &blame, why);
  tls_require(client != NULL);
  return 0;
}

static void check_reason(const struct tls_session *session) {
  char why[TLS_WHY];
  tls_session_why(session, why, sizeof why);
  tls_require(why[0] != '\0');
}

static void talk(struct tls_session *session, bool is_client, const uint8_t *data, size_t size) {
  static uint8_t output[TLS_OUT_MAX(0)];
  tls_require(session != NULL);
  enum tls_result result = TLS_OPEN;
  if (is_client) { /* its first word */
    struct tls_output out = {output, 0, sizeof output};
    uint8_t plain[TLS_RECORD_MAX];
    size_t got;
    tls_require(tls_session_receive(session, NULL, 0, plain, &got, &out) == TLS_OPEN);
    tls_require(got == 0 && out.length > 0);
  }
  size_t step = (size_t)data[0] + 1;
  for (size_t at = 1; at < size && result == TLS_OPEN; at += step) {
    struct tls_output out = {output, 0, sizeof output};
    size_t length = size - at < step ? size - at : step;
    uint8_t *input = malloc(length);
    uint8_t *plain = malloc(length + TLS_RECORD_MAX);
    size_t got;
    tls_require(input != NULL && plain != NULL);
    memcpy(input, data + at, length);
    result = tls_session_receive(session, input, length, plain, &got, &out);
    tls_require(out.length <= out.capacity && got <= length + TLS_RECORD_MAX);
    tls_require(got == 0 || tls_session_is_established(session));
    free(input);
    free(plain);
  }
  struct tls_output out = {output, 0, sizeof output};
  if (result == TLS_FAILED)
    tls_require(!tls_session_send(session, output, 1, &out));
  if (result == TLS_FAILED && is_client)
    check_reason(session);
  tls_session_end(session, &out);
  tls_session_close(session);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1 || size > MOST)
    return 0;
  talk(tls_session_open(server, 0), false, data, size);
  talk(tls_session_connect(client), true, data, size);
  return 0;
}

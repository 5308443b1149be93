/* SPDX-License-Identifier: Apache-2.0 */
/* Accepting goes on after a lack of memory. */
#include <criterion/criterion.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/tcp.h"

enum { DEADLINE_MS = 20000, CLIENTS = 3 };

static atomic_bool failing;
static atomic_uint failed;
static struct address address;
static int reserved;
static struct tcp *tcp;

/* The linker puts it in the place of calloc(). */
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_calloc(size_t count, size_t size) {
  if (!atomic_load(&failing))
    return __real_calloc(count, size);
  atomic_fetch_add(&failed, 1);
  return NULL;
}

/* Binds a free port, so that nobody else gets it before the server listens. */
static int reserve(void) {
  char why[512] = "";
  const char *wrong = "";
  cr_assert(address_parse("127.0.0.1@1", &address, &wrong), "%s", wrong);
  address.socket.v4.sin_port = 0;
  int fd = address_bind(&address, SOCK_STREAM, false, why);
  cr_assert_geq(fd, 0, "%s", why);
  cr_assert_eq(getsockname(fd, &address.socket.sa, &address.length), 0);
  return fd;
}

static int join(void) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  cr_assert_geq(fd, 0);
  cr_assert_eq(connect(fd, &address.socket.sa, address.length), 0);
  return fd;
}

static bool has_accepted(uint64_t wanted) {
  for (int left = DEADLINE_MS; left > 0; left--) {
    if (atomic_load(&tcp_get_counters(tcp)->accepted) == wanted)
      return true;
    poll(NULL, 0, 1);
  }
  return false;
}

static bool has_failed(void) {
  for (int left = DEADLINE_MS; left > 0; left--) {
    if (atomic_load(&failed) > 0)
      return true;
    poll(NULL, 0, 1);
  }
  return false;
}

static void init(void) {
  static const struct view *_Atomic view;
  static struct query_config config;
  const struct tcp_limits limits = {.connections = 100, .per_client = 100, .idle_ms = 600000};
  char why[512] = "";
  reserved = reserve();
  tcp = tcp_open(&address, 1, why);
  cr_assert_not_null(tcp, "%s", why);
  cr_assert(tcp_start(tcp, &view, &config, &limits, why), "%s", why);
}

static void fini(void) {
  close(reserved);
}

TestSuite(tcp_accept, .init = init, .fini = fini);

Test(tcp_accept, goes_on_after_a_lack_of_memory) {
  int clients[CLIENTS + 1];
  atomic_store(&failing, true);
  for (size_t i = 0; i < CLIENTS; i++)
    clients[i] = join();
  cr_assert(has_failed());
  cr_assert_eq(atomic_load(&tcp_get_counters(tcp)->accepted), 0);
  atomic_store(&failing, false);
  cr_expect(has_accepted(CLIENTS));
  clients[CLIENTS] = join();
  cr_expect(has_accepted(CLIENTS + 1));
  tcp_stop(tcp);
  for (size_t i = 0; i <= CLIENTS; i++)
    close(clients[i]);
}

Test(tcp_accept, ends_with_a_lack_of_memory) {
  char octet;
  atomic_store(&failing, true);
  int client = join();
  cr_assert(has_failed());
  tcp_stop(tcp);
  cr_expect_leq(recv(client, &octet, 1, 0), 0); /* closed */
  close(client);
}

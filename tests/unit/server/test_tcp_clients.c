/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <criterion/criterion.h>

#include "server/tcp_clients.h"

static struct tcp_clients clients;
static struct tcp_place places[6];

static union address_socket peer(const char *text) {
  union address_socket out = {.v6 = {.sin6_family = AF_INET6}};
  if (inet_pton(AF_INET6, text, &out.v6.sin6_addr) == 1)
    return out;
  out.v4 = (struct sockaddr_in){.sin_family = AF_INET};
  cr_assert_eq(inet_pton(AF_INET, text, &out.v4.sin_addr), 1);
  return out;
}

static void add(size_t i, const char *text) {
  union address_socket from = peer(text);
  cr_assert(tcp_clients_add(&clients, &places[i], &from));
}

static void init(void) {
  cr_assert(tcp_clients_init(&clients));
}

static void fini(void) {
  while (clients.count > 0)
    tcp_clients_remove(&clients, tcp_clients_idlest(&clients));
  cr_assert_null(tcp_clients_idlest(&clients));
  tcp_clients_close(&clients);
}

TestSuite(tcp_clients, .init = init, .fini = fini);

Test(tcp_clients, idlest) {
  add(0, "192.0.2.1");
  add(1, "192.0.2.2");
  add(2, "192.0.2.1");
  cr_assert_eq(tcp_clients_idlest(&clients), &places[0]);
  tcp_clients_touch(&clients, &places[0]);
  cr_assert_eq(tcp_clients_idlest(&clients), &places[1]);
  cr_assert_eq(tcp_clients_idlest_own(&places[0]), &places[2]);
  tcp_clients_remove(&clients, &places[1]);
  cr_assert_eq(tcp_clients_idlest(&clients), &places[2]);
}

Test(tcp_clients, who_is_one_client) {
  add(0, "192.0.2.1");
  add(1, "192.0.2.1");
  add(2, "192.0.2.2");
  add(3, "2001:db8:0:ff::1");
  add(4, "2001:db8:0:12::2"); /* the same /56 */
  add(5, "2001:db8:0:100::1");
  cr_assert_eq(tcp_clients_count_own(&places[0]), 2);
  cr_assert_eq(tcp_clients_count_own(&places[2]), 1);
  cr_assert_eq(tcp_clients_count_own(&places[3]), 2);
  cr_assert_eq(tcp_clients_count_own(&places[5]), 1);
  cr_assert(tcp_clients_is_same(&places[0], &places[1]));
  cr_assert(tcp_clients_is_same(&places[3], &places[4]));
  cr_assert(!tcp_clients_is_same(&places[0], &places[2]));
  cr_assert(!tcp_clients_is_same(&places[4], &places[5]));
  tcp_clients_remove(&clients, &places[0]);
  cr_assert_eq(tcp_clients_count_own(&places[1]), 1);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A start that fails while signals wait. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/server.h"

static struct settings settings;
static struct server server;
static unsigned caught;

/* As main() does. */
static void on_signal(uv_signal_t *handle, int number) {
  (void)handle;
  caught++;
  if (number == SIGHUP)
    server_reload(&server, NULL, NULL);
  else
    server_stop(&server);
}

Test(start, fails_while_signals_wait) {
  char folder[] = "/tmp/test-start-XXXXXX", control[64], why[SERVER_WHY] = "";
  uv_signal_t handles[2];
  const int numbers[] = {SIGHUP, SIGTERM};
  uv_loop_t loop;
  cr_assert_eq(uv_loop_init(&loop), 0);
  for (size_t i = 0; i < 2; i++) {
    uv_signal_init(&loop, &handles[i]);
    uv_signal_start(&handles[i], on_signal, numbers[i]);
    uv_unref((uv_handle_t *)&handles[i]);
  }
  cr_assert_not_null(mkdtemp(folder));
  snprintf(control, sizeof control, "%s/control", folder);
  settings.data = folder;
  settings.control = control;
  settings.threads = 1;
  cr_expect(!server_open(&server, &settings, &loop, why));
  cr_expect(strstr(why, "no build in") != NULL, "%s", why);
  raise(SIGHUP);
  raise(SIGTERM);
  server_close(&server);
  cr_expect_eq(caught, 2u);
  for (size_t i = 0; i < 2; i++)
    uv_close((uv_handle_t *)&handles[i], NULL);
  uv_run(&loop, UV_RUN_DEFAULT);
  cr_expect_eq(uv_loop_close(&loop), 0);
  cr_expect_eq(rmdir(folder), 0); /* the control socket is removed */
}

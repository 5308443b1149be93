/* SPDX-License-Identifier: Apache-2.0 */
/* sluiced: reads its settings, starts the server and waits for signals. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "base/log.h"
#include "server/server.h"
#include "server/settings.h"

enum { EXIT_USAGE = 2 };

struct signals {
  uv_signal_t hangup, terminate, interrupt;
  struct server *server;
};

static void on_signal(uv_signal_t *handle, int number) {
  struct signals *signals = handle->data;
  if (number == SIGHUP) {
    server_reload(signals->server, NULL, NULL);
    return;
  }
  server_stop(signals->server);
}

static bool catch_signals(struct signals *signals, uv_loop_t *loop, struct server *server) {
  signals->server = server;
  uv_signal_t *handles[] = {&signals->hangup, &signals->terminate, &signals->interrupt};
  const int numbers[] = {SIGHUP, SIGTERM, SIGINT};
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    if (uv_signal_init(loop, handles[i]) != 0)
      return false;
    handles[i]->data = signals;
    uv_unref((uv_handle_t *)handles[i]); /* the loop ends with the server, whatever it waits for */
    if (uv_signal_start(handles[i], on_signal, numbers[i]) != 0)
      return false;
  }
  return true;
}

static void release_signals(struct signals *signals, uv_loop_t *loop) {
  uv_close((uv_handle_t *)&signals->hangup, NULL);
  uv_close((uv_handle_t *)&signals->terminate, NULL);
  uv_close((uv_handle_t *)&signals->interrupt, NULL);
  uv_run(loop, UV_RUN_DEFAULT);
}

static int run(const struct settings *settings) {
  static struct server server;
  static struct signals signals;
  uv_loop_t loop;
  char why[SERVER_WHY];
  if (uv_loop_init(&loop) != 0 || !catch_signals(&signals, &loop, &server)) {
    log_error("out of memory");
    return EXIT_FAILURE;
  }
  bool ok = server_open(&server, settings, &loop, why);
  if (ok)
    uv_run(&loop, UV_RUN_DEFAULT);
  else
    log_error("%s", why);
  server_close(&server);
  release_signals(&signals, &loop);
  uv_loop_close(&loop);
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) {
  static struct settings settings;
  char why[SETTINGS_WHY];
  int status = EXIT_SUCCESS;
  signal(SIGPIPE, SIG_IGN);
  enum settings_result result = settings_read(&settings, argc, argv, why);
  log_setup("sluiced", settings.log, LOG_LEVEL_INFO);
  switch (result) {
  case SETTINGS_OK:
    status = run(&settings);
    break;
  case SETTINGS_DONE:
    break;
  case SETTINGS_USAGE:
    log_error("%s", why);
    status = EXIT_USAGE;
    break;
  case SETTINGS_BAD:
    log_error("%s", why);
    status = EXIT_FAILURE;
    break;
  }
  settings_close(&settings);
  return status;
}

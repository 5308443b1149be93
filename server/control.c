/* SPDX-License-Identifier: Apache-2.0 */
#include "server/control.h"

#include <stdlib.h>

#include "server/commands.h"

enum { REQUEST_MAX = 8 << 20 }; /* a commit may touch thousands of domains */

/* A client whose reload is under way; it may leave meanwhile. */
struct reload {
  struct server *server;
  struct control_client *client;
};

static void on_reloaded(void *arg, const char *why, const char *warning) {
  struct reload *reload = arg;
  control_reply(reload->client, command_reload_reply(reload->server, why, warning));
  free(reload);
}

static void begin_reload(struct server *server, struct control_client *client) {
  struct reload *reload = malloc(sizeof *reload);
  if (reload == NULL) {
    control_reply(client, NULL);
    return;
  }
  *reload = (struct reload){server, client};
  control_wait(client, NULL);
  server_reload(server, on_reloaded, reload);
}

static void serve(void *arg, struct control_client *client, const json_t *request) {
  struct server *server = arg;
  json_t *reply = NULL;
  switch (command_run(server, request, control_client_user(client), &reply)) {
  case COMMAND_RELOAD:
    begin_reload(server, client);
    return;
  case COMMAND_STOP:
    control_reply_and_stop(client, reply);
    return;
  case COMMAND_DONE:
    control_reply(client, reply);
    return;
  }
}

static void stop(void *arg) {
  server_stop(arg);
}

struct control_socket *control_open(uv_loop_t *loop, const char *path, struct server *server,
                                    char *why) {
  const struct control_socket_options options = {
      .path = path,
      .group = server->settings->group,
      .request_max = REQUEST_MAX,
      .serve = serve,
      .stop = stop,
      .arg = server,
  };
  return control_socket_open(loop, &options, why);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "server/control.h"

#include <errno.h>
#include <grp.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/unix_socket.h"
#include "server/commands.h"

enum {
  WHY = 512,
  REQUEST_MAX = 8 << 20, /* a commit may touch thousands of domains */
  REQUEST_LEAST = 4096,  /* room to begin with */
  REQUEST_MS = 10000,
  TICK_MS = 1000,
  CLIENTS_MAX = 64,
  BACKLOG = 64,
  SOCKET_MODE = 0660,
  GROUPS_MAX = 256,
};

struct client {
  uv_pipe_t pipe;
  uv_write_t write;
  struct control *control; /* NULL once the client is closing */
  struct server *server;
  struct client *next, **at; /* the list of all */
  uid_t uid;
  uint64_t waiting_since; /* loop time: of a request that is not whole */
  char *reply;
  size_t length;
  bool busy;    /* a request is being done or its reply being sent */
  bool ended;   /* no more requests will come */
  bool loading; /* a reload will call back */
  bool stops;   /* the reply is the one of `stop` */
  bool closed;
  char *input;
  size_t room;
};

struct control {
  uv_pipe_t pipe;
  uv_timer_t tick;
  struct server *server;
  struct client *clients;
  unsigned client_count;
  unsigned open_handles; /* of the control itself */
  bool closing;
  gid_t group;
  bool has_group;
  char *path;
  dev_t device; /* of the socket, so that a successor's is not removed */
  ino_t inode;
};

/* ---- clients ----------------------------------------------------------------------------------
 */

static void client_free(struct client *c) {
  free(c->input);
  free(c->reply);
  free(c);
}

static void on_client_closed(uv_handle_t *handle) {
  struct client *c = handle->data;
  c->closed = true;
  if (!c->loading) /* else when the reload is done */
    client_free(c);
}

static void client_close(struct client *c) {
  if (uv_is_closing((uv_handle_t *)&c->pipe))
    return;
  *c->at = c->next;
  if (c->next != NULL)
    c->next->at = c->at;
  c->control->client_count--;
  c->control = NULL;
  uv_close((uv_handle_t *)&c->pipe, on_client_closed);
}

static void serve_next(struct client *c);

static void on_replied(uv_write_t *request, int status) {
  struct client *c = request->data;
  struct server *server = c->server;
  bool stops = c->stops;
  free(c->reply);
  c->reply = NULL;
  c->busy = false;
  if (!uv_is_closing((uv_handle_t *)&c->pipe)) {
    if (status < 0 || stops)
      client_close(c);
    else
      serve_next(c);
  }
  if (stops)
    server_stop(server);
}

/* Sends a reply and forgets it; NULL stands for "out of memory". */
static void send_reply(struct client *c, json_t *json) {
  if (json == NULL)
    json = command_error(1, "out of memory");
  char *text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
  json_decref(json);
  if (text == NULL) {
    client_close(c);
    return;
  }
  c->reply = text;
  c->write.data = c;
  size_t length = strlen(text);
  text[length] = '\n'; /* the terminator becomes the end of the line */
  uv_buf_t buffer = uv_buf_init(text, (unsigned)length + 1);
  if (uv_write(&c->write, (uv_stream_t *)&c->pipe, &buffer, 1, on_replied) != 0)
    client_close(c);
}

static void on_reloaded(void *arg, const char *why, const char *warning) {
  struct client *c = arg;
  c->loading = false;
  if (c->closed)
    client_free(c);
  else if (!uv_is_closing((uv_handle_t *)&c->pipe))
    send_reply(c, command_reload_reply(c->server, why, warning));
}

/* `request` is NULL for what is no JSON; its reference is taken over. */
static void serve(struct client *c, json_t *request) {
  json_t *reply = NULL;
  enum command_result result = command_run(c->server, request, c->uid, &reply);
  json_decref(request);
  if (result == COMMAND_RELOAD) {
    c->loading = true;
    server_reload(c->server, on_reloaded, c);
    return;
  }
  c->stops = result == COMMAND_STOP;
  send_reply(c, reply);
}

/* Takes the next whole line, if there is one. */
static void serve_next(struct client *c) {
  c->waiting_since = uv_now(c->pipe.loop);
  char *end = c->length > 0 ? memchr(c->input, '\n', c->length) : NULL;
  if (end != NULL) {
    size_t line = (size_t)(end - c->input);
    c->busy = true;
    json_error_t problem;
    json_t *request = json_loadb(c->input, line, JSON_REJECT_DUPLICATES, &problem);
    c->length -= line + 1;
    memmove(c->input, end + 1, c->length);
    serve(c, request);
  } else if (c->ended || c->length == REQUEST_MAX) {
    client_close(c);
  }
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
  struct client *c = handle->data;
  (void)suggested;
  if (c->length == c->room && c->room < REQUEST_MAX) {
    size_t room = c->room > 0 ? c->room * 2 : REQUEST_LEAST;
    char *input = realloc(c->input, room);
    if (input != NULL) {
      c->input = input;
      c->room = room;
    }
  }
  /* No room makes the read fail, which closes the connection. */
  *buffer = c->input != NULL ? uv_buf_init(c->input + c->length, (unsigned)(c->room - c->length))
                             : uv_buf_init(NULL, 0);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer) {
  struct client *c = stream->data;
  (void)buffer;
  if (n == UV_EOF) {
    c->ended = true;
  } else if (n < 0) { /* also a full buffer while a request is being done */
    client_close(c);
    return;
  }
  if (n > 0)
    c->length += (size_t)n;
  uint64_t since = c->waiting_since;
  if (!c->busy)
    serve_next(c);
  if (!c->busy)
    c->waiting_since = since; /* a part of a request does not win time */
}

/* ---- who may ----------------------------------------------------------------------------------
 */

static bool is_in_group(int fd, gid_t group, gid_t primary) {
  gid_t groups[GROUPS_MAX];
  socklen_t size = sizeof groups;
  if (primary == group)
    return true;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) != 0)
    return false;
  for (size_t i = 0; i < size / sizeof groups[0]; i++)
    if (groups[i] == group)
      return true;
  return false;
}

static bool may_use(const struct control *control, struct client *c) {
  struct ucred peer;
  socklen_t size = sizeof peer;
  uv_os_fd_t fd;
  if (uv_fileno((uv_handle_t *)&c->pipe, &fd) != 0 ||
      getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return false;
  c->uid = peer.uid;
  if (peer.uid == 0 || peer.uid == geteuid())
    return true;
  return control->has_group && is_in_group(fd, control->group, peer.gid);
}

static void on_connection(uv_stream_t *stream, int status) {
  static struct log_limit limit;
  struct control *control = stream->data;
  struct client *c = status == 0 ? calloc(1, sizeof *c) : NULL;
  if (c == NULL) {
    log_limited(&limit, LOG_LEVEL_WARNING, "control socket: cannot accept: %s",
                status == 0 ? "out of memory" : uv_strerror(status));
    return;
  }
  c->control = control;
  c->server = control->server;
  c->pipe.data = c;
  uv_pipe_init(stream->loop, &c->pipe, 0);
  c->next = control->clients;
  c->at = &control->clients;
  if (c->next != NULL)
    c->next->at = &c->next;
  control->clients = c;
  control->client_count++;
  c->waiting_since = uv_now(stream->loop);
  if (uv_accept(stream, (uv_stream_t *)&c->pipe) != 0 || control->client_count > CLIENTS_MAX ||
      uv_read_start((uv_stream_t *)&c->pipe, on_alloc, on_read) != 0) {
    client_close(c);
    return;
  }
  if (may_use(control, c))
    return;
  log_limited(&limit, LOG_LEVEL_WARNING, "control socket: user %lu is not allowed",
              (unsigned long)c->uid);
  client_close(c);
}

/* A request must be whole within its time; who waits for an answer may wait. */
static void on_tick(uv_timer_t *timer) {
  struct control *control = timer->data;
  uint64_t now = uv_now(timer->loop);
  struct client *next;
  for (struct client *c = control->clients; c != NULL; c = next) {
    next = c->next;
    if (!c->loading && now - c->waiting_since > REQUEST_MS)
      client_close(c);
  }
}

/* ---- the socket -------------------------------------------------------------------------------
 */

static bool find_group(struct control *control, const struct settings *settings, char *why) {
  if (settings->group == NULL)
    return true;
  const struct group *group = getgrnam(settings->group);
  if (group == NULL) {
    snprintf(why, WHY, "group `%.100s`: there is no such group", settings->group);
    return false;
  }
  control->group = group->gr_gid;
  control->has_group = true;
  return true;
}

static void on_control_closed(uv_handle_t *handle) {
  struct control *control = handle->data;
  if (--control->open_handles > 0)
    return;
  free(control->path);
  free(control);
}

struct control *control_open(uv_loop_t *loop, const char *path, struct server *server, char *why) {
  struct control *control = calloc(1, sizeof *control);
  char *copy = strdup(path);
  if (control == NULL || copy == NULL) {
    snprintf(why, WHY, "out of memory");
    free(copy);
    free(control);
    return NULL;
  }
  control->path = copy;
  control->server = server;
  int fd =
      find_group(control, server->settings, why) ? unix_socket_bind(path, SOCKET_MODE, why) : -1;
  if (fd < 0) {
    free(copy);
    free(control);
    return NULL;
  }
  control->pipe.data = control->tick.data = control;
  control->open_handles = 2;
  uv_pipe_init(loop, &control->pipe, 0);
  uv_timer_init(loop, &control->tick);
  uv_timer_start(&control->tick, on_tick, TICK_MS, TICK_MS);
  struct stat st;
  if (lstat(path, &st) == 0) {
    control->device = st.st_dev;
    control->inode = st.st_ino;
  }
  int error = uv_pipe_open(&control->pipe, fd);
  if (error != 0)
    close(fd);
  else
    error = uv_listen((uv_stream_t *)&control->pipe, BACKLOG, on_connection);
  if (error == 0)
    return control;
  snprintf(why, WHY, "cannot listen at %s: %s", path, uv_strerror(error));
  control_close(control);
  return NULL;
}

void control_close(struct control *control) {
  if (control == NULL || control->closing)
    return;
  control->closing = true;
  struct stat st;
  if (lstat(control->path, &st) == 0 && st.st_dev == control->device && st.st_ino == control->inode)
    unlink(control->path);
  while (control->clients != NULL)
    client_close(control->clients);
  uv_close((uv_handle_t *)&control->tick, on_control_closed);
  uv_close((uv_handle_t *)&control->pipe, on_control_closed);
}

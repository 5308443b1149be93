/* SPDX-License-Identifier: Apache-2.0 */
#include "base/control_socket.h"

#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/lines.h"
#include "base/log.h"
#include "base/unix_socket.h"
#include "base/utf8.h"

enum {
  REQUEST_MS = 10000,
  TICK_MS = 1000,
  CLIENTS_MAX = 64,
  BACKLOG = 64,
  SOCKET_MODE = 0660,
  GROUPS_MAX = 256,
  READ_MOST = 4096,
  ERROR_TEXT = 1024,
};

struct control_client {
  uv_pipe_t pipe;
  uv_write_t write;
  struct control_socket *socket;
  struct control_client *next, **at; /* the list of all that are open */
  struct lines lines;
  uid_t user;
  char *reply;
  void *waits;
  uint64_t since; /* loop time: of a request that is not whole */
  bool busy;      /* a request is being done or its reply being sent */
  bool waiting;   /* for a reply that comes later */
  bool ended;     /* no more requests will come */
  bool stops;
  bool closed;
};

struct control_socket {
  uv_pipe_t pipe;
  uv_timer_t tick;
  struct control_socket_options options;
  struct control_client *clients;
  unsigned client_count;
  unsigned users; /* its own handles, and the clients: it is freed after them */
  bool closing;
  bool has_group;
  gid_t group;
  char *path;
  dev_t device; /* of the socket, so that a successor's is not removed */
  ino_t inode;
};

/* ---- clients ----------------------------------------------------------------------------------
 */

static void release(struct control_socket *socket) {
  if (--socket->users > 0)
    return;
  free(socket->path);
  free(socket);
}

static void free_client(struct control_client *c) {
  struct control_socket *socket = c->socket;
  lines_close(&c->lines);
  free(c->reply);
  free(c);
  release(socket);
}

static void on_client_closed(uv_handle_t *handle) {
  struct control_client *c = handle->data;
  c->closed = true;
  if (!c->waiting) /* else when the reply comes */
    free_client(c);
}

static void close_client(struct control_client *c) {
  const struct control_socket_options *o = &c->socket->options;
  if (uv_is_closing((uv_handle_t *)&c->pipe))
    return;
  *c->at = c->next;
  if (c->next != NULL)
    c->next->at = c->at;
  c->socket->client_count--;
  uv_close((uv_handle_t *)&c->pipe, on_client_closed);
  if (c->waiting && o->gone != NULL && o->gone(o->arg, c, c->waits))
    c->waiting = false;
}

static void serve_next(struct control_client *c);

static void on_replied(uv_write_t *request, int status) {
  struct control_client *c = request->data;
  struct control_socket *socket = c->socket;
  bool stops = c->stops;
  free(c->reply);
  c->reply = NULL;
  c->busy = false;
  if (!uv_is_closing((uv_handle_t *)&c->pipe)) {
    if (status < 0 || stops)
      close_client(c);
    else
      serve_next(c);
  }
  if (stops && !socket->closing)
    socket->options.stop(socket->options.arg);
}

json_t *control_error(int code, const char *text) {
  char copy[ERROR_TEXT];
  snprintf(copy, sizeof copy, "%s", text);
  utf8_repair(copy);
  return json_pack("{s:b, s:s, s:i}", "ok", 0, "error", copy, "code", code);
}

json_t *control_ok(json_t *reply) {
  if (reply != NULL)
    json_object_set_new(reply, "ok", json_true());
  return reply;
}

static void send_reply(struct control_client *c, json_t *json) {
  if (json == NULL)
    json = control_error(1, "out of memory");
  char *text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
  json_decref(json);
  if (text == NULL) {
    close_client(c);
    return;
  }
  c->reply = text;
  c->write.data = c;
  size_t length = strlen(text);
  text[length] = '\n'; /* the terminator becomes the end of the line */
  uv_buf_t buffer = uv_buf_init(text, (unsigned)length + 1);
  if (uv_write(&c->write, (uv_stream_t *)&c->pipe, &buffer, 1, on_replied) != 0)
    close_client(c);
}

void control_reply(struct control_client *c, json_t *reply) {
  c->waiting = false;
  c->waits = NULL;
  if (!uv_is_closing((uv_handle_t *)&c->pipe)) {
    send_reply(c, reply);
    return;
  }
  json_decref(reply);
  if (c->closed)
    free_client(c);
}

void control_reply_and_stop(struct control_client *c, json_t *reply) {
  c->stops = true;
  control_reply(c, reply);
}

void control_wait(struct control_client *c, void *waits) {
  c->waiting = true;
  c->waits = waits;
}

uid_t control_client_user(const struct control_client *c) {
  return c->user;
}

/* ---- requests ---------------------------------------------------------------------------------
 */

static void serve(struct control_client *c, const char *line, size_t length) {
  const struct control_socket_options *o = &c->socket->options;
  json_error_t problem;
  json_t *request = json_loadb(line, length, JSON_REJECT_DUPLICATES, &problem);
  c->busy = true;
  o->serve(o->arg, c, request);
  json_decref(request);
}

/* Takes the next whole line, if there is one. */
static void serve_next(struct control_client *c) {
  char *line;
  size_t length;
  c->since = uv_now(c->pipe.loop);
  switch (lines_next(&c->lines, &line, &length)) {
  case LINES_LINE:
    serve(c, line, length);
    break;
  case LINES_TOO_LONG:
    close_client(c);
    break;
  case LINES_NONE:
    if (c->ended)
      close_client(c);
    break;
  }
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
  struct control_client *c = handle->data;
  size_t room = 0;
  (void)suggested;
  char *place = lines_room(&c->lines, READ_MOST, &room);
  *buffer = uv_buf_init(place, (unsigned)room); /* without room the read fails, which closes */
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer) {
  struct control_client *c = stream->data;
  (void)buffer;
  if (n == UV_EOF) {
    c->ended = true;
  } else if (n < 0) {
    close_client(c);
    return;
  }
  if (n > 0)
    lines_added(&c->lines, (size_t)n);
  if (c->busy && c->lines.len - c->lines.start > c->socket->options.request_max) {
    close_client(c); /* sends on and on without waiting for replies */
    return;
  }
  uint64_t since = c->since;
  if (!c->busy)
    serve_next(c);
  if (!c->busy)
    c->since = since; /* a part of a request does not win time */
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

static bool may_use(struct control_client *c) {
  static struct log_limit limit;
  const struct control_socket *socket = c->socket;
  struct ucred peer;
  socklen_t size = sizeof peer;
  uv_os_fd_t fd;
  if (uv_fileno((const uv_handle_t *)&c->pipe, &fd) != 0 ||
      getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return false;
  c->user = peer.uid;
  if (peer.uid == 0 || peer.uid == geteuid() ||
      (socket->has_group && is_in_group(fd, socket->group, peer.gid)))
    return true;
  log_limited(&limit, LOG_LEVEL_WARNING, "control socket: user %lu is not allowed",
              (unsigned long)peer.uid);
  return false;
}

static void on_connection(uv_stream_t *stream, int status) {
  static struct log_limit limit;
  struct control_socket *socket = stream->data;
  struct control_client *c = status == 0 ? calloc(1, sizeof *c) : NULL;
  if (c == NULL) {
    log_limited(&limit, LOG_LEVEL_WARNING, "control socket: cannot accept: %s",
                status == 0 ? "out of memory" : uv_strerror(status));
    return;
  }
  c->socket = socket;
  c->pipe.data = c;
  lines_init(&c->lines, socket->options.request_max);
  uv_pipe_init(stream->loop, &c->pipe, 0);
  c->next = socket->clients;
  c->at = &socket->clients;
  if (c->next != NULL)
    c->next->at = &c->next;
  socket->clients = c;
  socket->client_count++;
  socket->users++;
  c->since = uv_now(stream->loop);
  if (uv_accept(stream, (uv_stream_t *)&c->pipe) != 0 || socket->client_count > CLIENTS_MAX ||
      !may_use(c) || uv_read_start((uv_stream_t *)&c->pipe, on_alloc, on_read) != 0)
    close_client(c);
}

static void on_tick(uv_timer_t *timer) {
  struct control_socket *socket = timer->data;
  uint64_t now = uv_now(timer->loop);
  struct control_client *next;
  for (struct control_client *c = socket->clients; c != NULL; c = next) {
    next = c->next;
    if (!c->waiting && now - c->since > REQUEST_MS)
      close_client(c);
  }
}

/* ---- the socket -------------------------------------------------------------------------------
 */

static bool find_group(struct control_socket *socket, char *why) {
  const char *name = socket->options.group;
  if (name == NULL)
    return true;
  const struct group *group = getgrnam(name);
  if (group == NULL) {
    snprintf(why, CONTROL_SOCKET_WHY, "group `%.100s`: there is no such group", name);
    return false;
  }
  socket->group = group->gr_gid;
  socket->has_group = true;
  return true;
}

static void on_closed(uv_handle_t *handle) {
  release(handle->data);
}

static bool listen_at(struct control_socket *socket, char *why) {
  struct stat st;
  int fd = unix_socket_bind(socket->path, SOCKET_MODE, why);
  if (fd < 0)
    return false;
  if (lstat(socket->path, &st) == 0) {
    socket->device = st.st_dev;
    socket->inode = st.st_ino;
  }
  int error = uv_pipe_open(&socket->pipe, fd);
  if (error != 0)
    close(fd);
  else
    error = uv_listen((uv_stream_t *)&socket->pipe, BACKLOG, on_connection);
  if (error != 0) {
    snprintf(why, CONTROL_SOCKET_WHY, "cannot listen at %.300s: %s", socket->path,
             uv_strerror(error));
    return false;
  }
  if (!socket->options.give || !socket->has_group ||
      lchown(socket->path, (uid_t)-1, socket->group) == 0)
    return true;
  snprintf(why, CONTROL_SOCKET_WHY, "cannot give %.300s to its group", socket->path);
  return false;
}

struct control_socket *
control_socket_open(uv_loop_t *loop, const struct control_socket_options *options, char *why) {
  struct control_socket *socket = calloc(1, sizeof *socket);
  char *path = strdup(options->path);
  if (socket == NULL || path == NULL) {
    snprintf(why, CONTROL_SOCKET_WHY, "out of memory");
    free(path);
    free(socket);
    return NULL;
  }
  socket->options = *options;
  socket->path = path;
  socket->pipe.data = socket->tick.data = socket;
  socket->users = 2;
  uv_pipe_init(loop, &socket->pipe, 0);
  uv_timer_init(loop, &socket->tick);
  uv_timer_start(&socket->tick, on_tick, TICK_MS, TICK_MS);
  bool ok = find_group(socket, why) && listen_at(socket, why);
  socket->options.path = socket->options.group = NULL; /* the caller's */
  if (ok)
    return socket;
  control_socket_close(socket);
  return NULL;
}

void control_socket_close(struct control_socket *socket) {
  struct stat st;
  if (socket == NULL || socket->closing)
    return;
  socket->closing = true;
  if (socket->inode != 0 && lstat(socket->path, &st) == 0 && st.st_dev == socket->device &&
      st.st_ino == socket->inode)
    unlink(socket->path);
  while (socket->clients != NULL)
    close_client(socket->clients);
  uv_close((uv_handle_t *)&socket->tick, on_closed);
  uv_close((uv_handle_t *)&socket->pipe, on_closed);
}

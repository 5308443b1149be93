/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/syncd/control.h"

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
  REQUEST_MAX = 64 << 10,
  REQUEST_MS = 10000,
  TICK_MS = 1000,
  CLIENTS_MAX = 64,
  BACKLOG = 64,
  SOCKET_MODE = 0660,
  GROUPS_MAX = 256,
  READ_MOST = 4096,
};

struct client {
  uv_pipe_t pipe;
  uv_write_t write;
  struct syncd_control *control;
  struct client *next, **at;
  struct lines lines;
  struct engine_wait *wait; /* that the client waits for */
  char *reply;
  uint64_t waiting_since; /* loop time: of a request that is not whole */
  bool busy;              /* a request is being done or its reply being sent */
  bool ended;             /* no more requests will come */
  bool stops;
};

struct syncd_control {
  uv_pipe_t pipe;
  uv_timer_t tick;
  struct engine *engine;
  struct client *clients;
  unsigned client_count;
  unsigned open_handles; /* of the control and its clients */
  bool closing;
  bool has_group;
  gid_t group;
  uint64_t started; /* loop time */
  void (*stop)(void *arg);
  void *arg;
  char *path;
  dev_t device; /* of the socket, so that a successor's is not removed */
  ino_t inode;
};

/* ---- clients ----------------------------------------------------------------------------------
 */

static void release(struct syncd_control *control) {
  if (--control->open_handles > 0)
    return;
  free(control->path);
  free(control);
}

static void free_client(struct client *c) {
  lines_close(&c->lines);
  free(c->reply);
  struct syncd_control *control = c->control;
  free(c);
  release(control);
}

static void on_client_closed(uv_handle_t *handle) {
  free_client(handle->data);
}

static void client_close(struct client *c) {
  if (uv_is_closing((uv_handle_t *)&c->pipe))
    return;
  if (c->wait != NULL)
    engine_wait_cancel(c->wait);
  c->wait = NULL;
  *c->at = c->next;
  if (c->next != NULL)
    c->next->at = c->at;
  c->control->client_count--;
  uv_close((uv_handle_t *)&c->pipe, on_client_closed);
}

static void serve_next(struct client *c);

static void on_replied(uv_write_t *request, int status) {
  struct client *c = request->data;
  free(c->reply);
  c->reply = NULL;
  c->busy = false;
  bool stops = c->stops;
  struct syncd_control *control = c->control;
  if (!uv_is_closing((uv_handle_t *)&c->pipe)) {
    if (status < 0 || stops)
      client_close(c);
    else
      serve_next(c);
  }
  if (stops)
    control->stop(control->arg);
}

static json_t *error_json(int code, const char *error) {
  char text[SYNCD_CONTROL_WHY];
  snprintf(text, sizeof text, "%s", error);
  utf8_repair(text);
  return json_pack("{s:b, s:s, s:i}", "ok", false, "error", text, "code", code);
}

/* Sends a reply and forgets it; NULL stands for "out of memory". */
static void send_reply(struct client *c, json_t *json) {
  if (json == NULL)
    json = error_json(1, "out of memory");
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

/* ---- commands ---------------------------------------------------------------------------------
 */

static json_t *with_ok(json_t *reply) {
  if (reply != NULL)
    json_object_set_new(reply, "ok", json_true());
  return reply;
}

static json_t *do_status(struct client *c, const char *domain) {
  json_t *reply = engine_status(c->control->engine, domain);
  if (reply == NULL)
    return NULL;
  json_object_set_new(reply, "pid", json_integer(getpid()));
  json_object_set_new(
      reply, "uptime",
      json_integer((json_int_t)(uv_now(c->pipe.loop) - c->control->started) / 1000));
  return with_ok(reply);
}

static void on_synced(void *arg, json_t *reply) {
  struct client *c = arg;
  c->wait = NULL;
  send_reply(c, with_ok(reply));
}

static void do_sync(struct client *c, const json_t *request, const char *domain) {
  const json_t *given = json_object_get(request, "wait");
  json_int_t wait = json_is_integer(given) ? json_integer_value(given) : ENGINE_WAIT_MS;
  if (domain == NULL) {
    send_reply(c, error_json(2, "`domain` is missing"));
    return;
  }
  if (engine_unready(c->control->engine) != NULL) {
    send_reply(c, error_json(3, engine_unready(c->control->engine)));
    return;
  }
  wait = wait < 0 ? 0 : wait > ENGINE_WAIT_MS ? ENGINE_WAIT_MS : wait;
  c->wait = engine_sync(c->control->engine, domain, (uint64_t)wait, on_synced, c);
}

static void serve(struct client *c, const char *line, size_t length) {
  json_error_t problem;
  json_t *request = json_loadb(line, length, JSON_REJECT_DUPLICATES, &problem);
  const char *command = json_string_value(json_object_get(request, "command"));
  const char *domain = json_string_value(json_object_get(request, "domain"));
  if (command == NULL) {
    send_reply(c, error_json(2, "a request is a JSON object with `command`"));
  } else if (strcmp(command, "status") == 0) {
    send_reply(c, do_status(c, domain));
  } else if (strcmp(command, "sync") == 0) {
    do_sync(c, request, domain);
  } else if (strcmp(command, "retry") == 0) {
    engine_retry(c->control->engine);
    send_reply(c, with_ok(json_object()));
  } else if (strcmp(command, "stop") == 0) {
    c->stops = true;
    send_reply(c, with_ok(json_object()));
  } else {
    send_reply(c,
               error_json(2, "unknown command; sluice-syncd knows status, sync, retry and stop"));
  }
  json_decref(request);
}

/* Takes the next whole line, if there is one. */
static void serve_next(struct client *c) {
  char *line;
  size_t length;
  c->waiting_since = uv_now(c->pipe.loop);
  switch (lines_next(&c->lines, &line, &length)) {
  case LINES_LINE:
    c->busy = true;
    serve(c, line, length);
    break;
  case LINES_TOO_LONG:
    client_close(c);
    break;
  case LINES_NONE:
    if (c->ended)
      client_close(c);
    break;
  }
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
  struct client *c = handle->data;
  size_t room = 0;
  (void)suggested;
  char *place = lines_room(&c->lines, READ_MOST, &room);
  *buffer = uv_buf_init(place, (unsigned)room);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer) {
  struct client *c = stream->data;
  (void)buffer;
  if (n == UV_EOF) {
    c->ended = true;
  } else if (n < 0) {
    client_close(c);
    return;
  }
  if (n > 0)
    lines_added(&c->lines, (size_t)n);
  if (c->busy && c->lines.len - c->lines.start > REQUEST_MAX) {
    client_close(c); /* sends on and on without waiting for replies */
    return;
  }
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

static bool may_use(const struct syncd_control *control, const struct client *c) {
  static struct log_limit limit;
  struct ucred peer;
  socklen_t size = sizeof peer;
  uv_os_fd_t fd;
  if (uv_fileno((const uv_handle_t *)&c->pipe, &fd) != 0 ||
      getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return false;
  if (peer.uid == 0 || peer.uid == geteuid() ||
      (control->has_group && is_in_group(fd, control->group, peer.gid)))
    return true;
  log_limited(&limit, LOG_LEVEL_WARNING, "control socket: user %lu is not allowed",
              (unsigned long)peer.uid);
  return false;
}

static void on_connection(uv_stream_t *stream, int status) {
  static struct log_limit limit;
  struct syncd_control *control = stream->data;
  struct client *c = status == 0 ? calloc(1, sizeof *c) : NULL;
  if (c == NULL) {
    log_limited(&limit, LOG_LEVEL_WARNING, "control socket: cannot accept: %s",
                status == 0 ? "out of memory" : uv_strerror(status));
    return;
  }
  c->control = control;
  c->pipe.data = c;
  lines_init(&c->lines, REQUEST_MAX);
  uv_pipe_init(stream->loop, &c->pipe, 0);
  c->next = control->clients;
  c->at = &control->clients;
  if (c->next != NULL)
    c->next->at = &c->next;
  control->clients = c;
  control->client_count++;
  control->open_handles++;
  c->waiting_since = uv_now(stream->loop);
  if (uv_accept(stream, (uv_stream_t *)&c->pipe) != 0 || control->client_count > CLIENTS_MAX ||
      !may_use(control, c) || uv_read_start((uv_stream_t *)&c->pipe, on_alloc, on_read) != 0)
    client_close(c);
}

/* A request must be whole within its time; who waits for an answer may wait. */
static void on_tick(uv_timer_t *timer) {
  struct syncd_control *control = timer->data;
  uint64_t now = uv_now(timer->loop);
  struct client *next;
  for (struct client *c = control->clients; c != NULL; c = next) {
    next = c->next;
    if (c->wait == NULL && now - c->waiting_since > REQUEST_MS)
      client_close(c);
  }
}

/* ---- the socket -------------------------------------------------------------------------------
 */

static bool find_group(struct syncd_control *control, const char *name, char *why) {
  if (name == NULL)
    return true;
  const struct group *group = getgrnam(name);
  if (group == NULL) {
    snprintf(why, SYNCD_CONTROL_WHY, "group `%.100s`: there is no such group", name);
    return false;
  }
  control->group = group->gr_gid;
  control->has_group = true;
  return true;
}

static void on_control_closed(uv_handle_t *handle) {
  release(handle->data);
}

static bool listen_at(struct syncd_control *control, char *why) {
  int fd = unix_socket_bind(control->path, SOCKET_MODE, why);
  if (fd < 0)
    return false;
  struct stat st;
  if (lstat(control->path, &st) == 0) {
    control->device = st.st_dev;
    control->inode = st.st_ino;
  }
  int error = uv_pipe_open(&control->pipe, fd);
  if (error != 0)
    close(fd);
  else
    error = uv_listen((uv_stream_t *)&control->pipe, BACKLOG, on_connection);
  if (error != 0) {
    snprintf(why, SYNCD_CONTROL_WHY, "cannot listen at %s: %s", control->path, uv_strerror(error));
    return false;
  }
  if (!control->has_group || lchown(control->path, (uid_t)-1, control->group) == 0)
    return true;
  snprintf(why, SYNCD_CONTROL_WHY, "cannot give %s to its group", control->path);
  return false;
}

struct syncd_control *syncd_control_open(uv_loop_t *loop, const char *path, const char *group,
                                         struct engine *engine, void (*stop)(void *arg), void *arg,
                                         char *why) {
  struct syncd_control *control = calloc(1, sizeof *control);
  char *copy = strdup(path);
  if (control == NULL || copy == NULL) {
    snprintf(why, SYNCD_CONTROL_WHY, "out of memory");
    free(copy);
    free(control);
    return NULL;
  }
  control->engine = engine;
  control->path = copy;
  control->stop = stop;
  control->arg = arg;
  control->started = uv_now(loop);
  control->pipe.data = control->tick.data = control;
  control->open_handles = 2;
  uv_pipe_init(loop, &control->pipe, 0);
  uv_timer_init(loop, &control->tick);
  uv_timer_start(&control->tick, on_tick, TICK_MS, TICK_MS);
  if (find_group(control, group, why) && listen_at(control, why))
    return control;
  syncd_control_close(control);
  return NULL;
}

void syncd_control_close(struct syncd_control *control) {
  if (control == NULL || control->closing)
    return;
  control->closing = true;
  struct stat st;
  if (control->inode != 0 && lstat(control->path, &st) == 0 && st.st_dev == control->device &&
      st.st_ino == control->inode)
    unlink(control->path);
  while (control->clients != NULL)
    client_close(control->clients);
  uv_close((uv_handle_t *)&control->tick, on_control_closed);
  uv_close((uv_handle_t *)&control->pipe, on_control_closed);
}

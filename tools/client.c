/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/client.h"

#include <errno.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "tools/cli.h"

enum {
  REPLY_LIMIT = 256 << 20, /* bytes */
  REPLY_WAIT = 120,        /* seconds without a byte; a reload may make location tables first */
};

static const char default_socket[] = "/run/sluice/control.sock";

static const char *find_socket(const char *given) {
  if (given)
    return given;
  const char *variable = getenv("SLUICE_SOCKET");
  return variable && *variable ? variable : default_socket;
}

/* Returns a connected socket, or -1 after an error was printed. */
static int connect_server(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) {
    cli_error("the socket's path %s is too long; at most %zu bytes are possible", path,
              sizeof address.sun_path - 1);
    return -1;
  }
  strcpy(address.sun_path, path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    cli_error("cannot make a socket: %s", strerror(errno));
    return -1;
  }
  struct timeval wait = {.tv_sec = REPLY_WAIT};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
  if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
    return fd;
  if (errno == ENOENT || errno == ECONNREFUSED)
    cli_error("no server listens at %s; start sluiced, or name its socket with --socket", path);
  else if (errno == EACCES || errno == EPERM)
    cli_error("no permission to use %s; run this as root or as a member of the server's group",
              path);
  else
    cli_error("cannot reach the server at %s: %s", path, strerror(errno));
  close(fd);
  return -1;
}

static bool send_all(int fd, const uint8_t *data, size_t len) {
  while (len > 0) {
    ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return false;
    data += n;
    len -= (size_t)n;
  }
  return true;
}

/* Reads up to the end of the line (or of the stream). */
static bool receive_line(int fd, struct buf *line) {
  for (;;) {
    uint8_t *to = buf_reserve(line, 65536);
    if (!to) {
      errno = ENOMEM;
      return false;
    }
    ssize_t n = recv(fd, to, 65536, 0);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return false;
    line->len += (size_t)n;
    if (n == 0 || memchr(to, '\n', (size_t)n))
      return true;
    if (line->len > REPLY_LIMIT) {
      errno = EMSGSIZE;
      return false;
    }
  }
}

static bool exchange(int fd, const char *path, const json_t *request, struct buf *line) {
  char *text = json_dumps(request, JSON_COMPACT);
  if (text)
    buf_add_str(line, text);
  buf_add_u8(line, '\n');
  free(text);
  bool sent = text && !line->failed && send_all(fd, line->data, line->len);
  buf_clear(line);
  /* A server that refuses a request may close before it has read all; what it said still counts. */
  if (text && receive_line(fd, line) && line->len > 0)
    return true;
  if (errno == EAGAIN || errno == EWOULDBLOCK)
    cli_error("the server at %s does not answer; it is stopped or overloaded", path);
  else if (sent)
    cli_error("the server at %s closed the connection without an answer; its log tells why", path);
  else
    cli_error("cannot send to the server at %s: %s", path, strerror(errno));
  return false;
}

/* The exit status that a reply asks for; prints its error. */
static int judge(const char *path, const json_t *reply) {
  const json_t *ok = json_object_get(reply, "ok");
  if (json_is_true(ok))
    return CLI_DONE;
  const char *error = json_string_value(json_object_get(reply, "error"));
  if (!json_is_false(ok) || !error) {
    cli_error("the answer of %s is not one of a server; is it sluiced's control socket?", path);
    return CLI_FAILED;
  }
  cli_error("%s", error);
  json_int_t code = json_integer_value(json_object_get(reply, "code"));
  return code >= CLI_FAILED && code <= CLI_PARTIAL ? (int)code : CLI_FAILED;
}

int client_call(const char *socket_path, json_t *request, json_t **reply) {
  const char *path = find_socket(socket_path);
  *reply = NULL;
  if (!request) {
    cli_error("out of memory");
    return CLI_FAILED;
  }
  int fd = connect_server(path);
  int status = CLI_FAILED;
  struct buf line;
  buf_init(&line);
  if (fd >= 0 && exchange(fd, path, request, &line)) {
    *reply = json_loadb((const char *)line.data, line.len, 0, NULL);
    status = judge(path, *reply);
  }
  if (status != CLI_DONE) {
    json_decref(*reply);
    *reply = NULL;
  }
  buf_close(&line);
  if (fd >= 0)
    close(fd);
  json_decref(request);
  return status;
}

const char *client_user(void) {
  static char name[64];
  const char *sudo = getuid() == 0 ? getenv("SUDO_USER") : NULL;
  const struct passwd *user = sudo && *sudo ? NULL : getpwuid(getuid());
  if (sudo && *sudo)
    snprintf(name, sizeof name, "%s", sudo);
  else if (user)
    snprintf(name, sizeof name, "%s", user->pw_name);
  else
    snprintf(name, sizeof name, "uid %lu", (unsigned long)getuid());
  return name;
}

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
#include "tools/machine.h"

enum { REPLY_LIMIT = 256 << 20 }; /* bytes */

const char *client_find(const struct client_place *place, const char *given, const char *settings) {
  static char path[4096];
  struct machine machine;
  if (given)
    return given;
  const char *variable = getenv(place->variable);
  if (variable && *variable)
    return variable;
  if (!machine_read(&machine, settings))
    return NULL;
  const char *set = place->set(&machine);
  snprintf(path, sizeof path, "%s", set ? set : place->otherwise);
  machine_close(&machine);
  return path;
}

static const char *server_socket(const struct machine *machine) {
  return machine->control;
}

const char *client_socket(const char *given, const char *settings) {
  static const struct client_place place = {"SLUICE_SOCKET", server_socket,
                                            "/run/sluice/control.sock"};
  return client_find(&place, given, settings);
}

/* Returns a connected socket, or -1 with a reason. */
static int connect_server(const char *path, unsigned seconds, enum client_result *result,
                          char *why) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  *result = CLIENT_REFUSED;
  if (strlen(path) >= sizeof address.sun_path) {
    snprintf(why, CLIENT_WHY, "the socket's path %s is too long; at most %zu bytes are possible",
             path, sizeof address.sun_path - 1);
    return -1;
  }
  strcpy(address.sun_path, path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    snprintf(why, CLIENT_WHY, "cannot make a socket: %s", strerror(errno));
    return -1;
  }
  struct timeval wait = {.tv_sec = (time_t)seconds};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
  if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
    return fd;
  if (errno == ENOENT || errno == ECONNREFUSED) {
    *result = CLIENT_ABSENT;
    snprintf(why, CLIENT_WHY,
             "no server listens at %s; start sluiced, or name its socket with --socket", path);
  } else if (errno == EACCES || errno == EPERM) {
    snprintf(why, CLIENT_WHY,
             "no permission to use %s; run this as root or as a member of the server's group",
             path);
  } else if (errno == EAGAIN) {
    snprintf(why, CLIENT_WHY, "the server at %s does not answer; it is stopped or overloaded",
             path);
  } else {
    snprintf(why, CLIENT_WHY, "cannot reach the server at %s: %s", path, strerror(errno));
  }
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

static enum client_result exchange(int fd, const char *path, const char *text, struct buf *line,
                                   char *why) {
  buf_add_str(line, text);
  buf_add_u8(line, '\n');
  bool sent = !line->failed && send_all(fd, line->data, line->len);
  buf_clear(line);
  /* A server that refuses a request may close before it has read all; what it said still counts. */
  if (receive_line(fd, line) && line->len > 0)
    return CLIENT_ANSWERED;
  if (errno == EAGAIN || errno == EWOULDBLOCK)
    snprintf(why, CLIENT_WHY, "the server at %s does not answer; it is stopped or overloaded",
             path);
  else if (sent)
    snprintf(why, CLIENT_WHY,
             "the server at %s closed the connection without an answer; its log tells why", path);
  else
    snprintf(why, CLIENT_WHY, "cannot send to the server at %s: %s", path, strerror(errno));
  return sent ? CLIENT_UNKNOWN : CLIENT_REFUSED;
}

/* True if the reply has the form of one. */
static bool is_reply(const json_t *reply) {
  const json_t *ok = json_object_get(reply, "ok");
  return json_is_true(ok) || (json_is_false(ok) && json_is_string(json_object_get(reply, "error")));
}

enum client_result client_try(const char *path, const json_t *request, unsigned seconds,
                              json_t **reply, char *why) {
  enum client_result result = CLIENT_REFUSED;
  struct buf line;
  *reply = NULL;
  char *text = json_dumps(request, JSON_COMPACT);
  if (!text) {
    snprintf(why, CLIENT_WHY, "out of memory");
    return result;
  }
  buf_init(&line);
  int fd = connect_server(path, seconds, &result, why);
  if (fd < 0)
    goto done;
  result = exchange(fd, path, text, &line, why);
  if (result != CLIENT_ANSWERED)
    goto done;
  *reply = json_loadb((const char *)line.data, line.len, 0, NULL);
  if (is_reply(*reply))
    goto done;
  result = CLIENT_UNKNOWN;
  json_decref(*reply);
  *reply = NULL;
  snprintf(why, CLIENT_WHY,
           "the answer of %s is not one of a server; is it sluiced's control socket?", path);
done:
  if (fd >= 0)
    close(fd);
  buf_close(&line);
  free(text);
  return result;
}

int client_judge(const json_t *reply) {
  if (json_is_true(json_object_get(reply, "ok")))
    return CLI_DONE;
  cli_error("%s", json_string_value(json_object_get(reply, "error")));
  json_int_t code = json_integer_value(json_object_get(reply, "code"));
  return code >= CLI_FAILED && code <= CLI_PARTIAL ? (int)code : CLI_FAILED;
}

int client_call(const char *socket_path, json_t *request, json_t **reply) {
  char why[CLIENT_WHY] = "out of memory";
  *reply = NULL;
  const char *path = request ? client_socket(socket_path, NULL) : "";
  if (!path) {
    json_decref(request);
    return CLI_FAILED;
  }
  enum client_result result =
      request ? client_try(path, request, CLIENT_WAIT, reply, why) : CLIENT_REFUSED;
  json_decref(request);
  if (result != CLIENT_ANSWERED) {
    cli_error("%s", why);
    return CLI_FAILED;
  }
  int status = client_judge(*reply);
  if (status != CLI_DONE) {
    json_decref(*reply);
    *reply = NULL;
  }
  return status;
}

int client_run(const struct client_command *command, int argc, char **argv) {
  const char *socket = NULL;
  const char *settings = NULL;
  bool json = false;
  const struct cli_option options[] = {
      {"socket", "PATH", CLIENT_SOCKET_HELP, &socket, NULL},
      {"settings", "FILE", MACHINE_HELP, &settings, NULL},
      {"json", NULL, "print JSON", NULL, &json},
  };
  const struct cli_spec spec = {
      .usage = command->usage,
      .about = command->about,
      .examples = command->examples,
      .options = options,
      .option_count = CLI_COUNT(options),
  };
  size_t count;
  enum cli_next next = cli_parse(&spec, argc, argv, &count);
  if (next != CLI_GO_ON)
    return next == CLI_EXIT_DONE ? CLI_DONE : CLI_USAGE;
  json_t *reply;
  socket = client_socket(socket, settings);
  if (!socket)
    return CLI_FAILED;
  int status = client_call(socket, json_pack("{s:s}", "command", command->name), &reply);
  if (status != CLI_DONE)
    return status;
  if (command->complete)
    command->complete(reply, settings);
  if (!json)
    command->print(reply);
  bool ok = json ? cli_print_json(reply) : cli_flush();
  if (!ok)
    status = CLI_FAILED;
  else if (command->judge)
    status = command->judge(reply);
  json_decref(reply);
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

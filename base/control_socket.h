/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket of a long-lived program: a Unix stream socket on which a client sends one JSON
 * object in a line and gets one JSON object in a line, one after the other.  The programs keep only
 * their commands.
 *
 * Peers are trusted by their Unix credentials (SO_PEERCRED): root, the program's own user, and
 * members of the configured group.  A request that is too long, or not whole within 10 s, closes
 * the connection, and so does a client that sends on and on without waiting for replies; who waits
 * for an answer may wait.  At most 64 clients at a time.
 *
 * Belongs to the loop's thread.
 */
#ifndef SLUICE_BASE_CONTROL_SOCKET_H
#define SLUICE_BASE_CONTROL_SOCKET_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <uv.h>

enum { CONTROL_SOCKET_WHY = 512 };

struct control_socket;
struct control_client;

struct control_socket_options {
  const char *path;   /* mode 0660 */
  const char *group;  /* whose members may use it; or NULL */
  bool give;          /* the socket's file to that group (a program that drops privileges later does
                       * so itself) */
  size_t request_max; /* octets of a request, its line end not counted */
  /* A request, or NULL for what is none (no JSON); borrowed.  Each call is followed by one
   * control_reply(), now or later. */
  void (*serve)(void *arg, struct control_client *client, const json_t *request);
  /* A client left before the reply that control_wait() has announced.  True: nothing will reply any
   * more.  False: control_reply() comes nevertheless, and `client` stays valid until then.  NULL:
   * always false. */
  bool (*gone)(void *arg, struct control_client *client, void *waits);
  void (*stop)(void *arg); /* see control_reply_and_stop() */
  void *arg;
};

/* Listens on the loop; NULL with one line in `why` (CONTROL_SOCKET_WHY octets).  The group's name
 * and the path are copied. */
struct control_socket *control_socket_open(uv_loop_t *loop,
                                           const struct control_socket_options *options, char *why);

/* Closes all connections (calling `gone` from within) and removes the socket's file, unless that is
 * a successor's.  Afterwards none of the options' functions is called; everything is freed once the
 * loop has closed the handles. */
void control_socket_close(struct control_socket *socket);

/* Replies to the request; the reference is taken over.  NULL stands for "out of memory". */
void control_reply(struct control_client *client, json_t *reply);

/* The same, and when it was sent, or could not be, `stop` is called. */
void control_reply_and_stop(struct control_client *client, json_t *reply);

/* The reply comes later; `waits` is for `gone`. */
void control_wait(struct control_client *client, void *waits);

/* The peer's user. */
uid_t control_client_user(const struct control_client *client);

/* {"ok": false, "error": TEXT, "code": N}: `code` is the exit status that the command line tool
 * should give.  NULL without memory. */
json_t *control_error(int code, const char *text);

/* Adds "ok": true; NULL stays NULL. */
json_t *control_ok(json_t *reply);

#endif

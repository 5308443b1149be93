/* SPDX-License-Identifier: Apache-2.0 */
/* Many questions to one server: a connected UDP socket, and one TCP connection for what is too
 * long for it. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "tools/sync/ask_private.h"

enum {
  WINDOW_MAX = 1024,
  WINDOW_LEAST = 8,
  GROWTH = 4, /* answers that make the window larger by one, once it has become smaller */
  IDS = 65536,
  REFUSED_PAUSE_MS = 200, /* until the next try where nothing listens: it may be starting */
  FRAME = 2,              /* length before a message by TCP */
};

/* A question that is under way. */
struct flight {
  bool used, tcp;
  bool sent; /* by this TCP connection */
  size_t index;
  uint16_t id;
  int tries;
  uint64_t due;
};

struct stream {
  int fd; /* -1: none */
  bool progress;
  uint8_t *in, *out;
  size_t in_len, out_at, out_len, out_size;
};

struct asking {
  const struct ask_server *server;
  const struct ask_question *questions;
  size_t count, next, window, ended, answered, strays;
  size_t limit; /* of the window, for now: a server that is slow, or drops, is asked less at once */
  uint64_t timeout;
  int udp;
  int error;           /* the last one of the sockets: why nothing came */
  char last[ASK_TEXT]; /* why the last question that was not answered was not */
  struct stream tcp;
  struct flight *flights;
  uint16_t *slots; /* of each ID: 1 + flight */
  uint8_t *reply;
  void (*heard)(void *arg, size_t index, const struct ask_answer *answer);
  void *arg;
  bool no_memory;
};

static uint64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static socklen_t address_len(const struct ask_server *server) {
  return server->address.ss_family == AF_INET ? sizeof(struct sockaddr_in)
                                              : sizeof(struct sockaddr_in6);
}

static int connect_to(const struct ask_server *server, int type) {
  int fd = socket(server->address.ss_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return -1;
  if (connect(fd, (const struct sockaddr *)&server->address, address_len(server)) == 0 ||
      errno == EINPROGRESS)
    return fd;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

/* ---- flights -------------------------------------------------------------------------------- */

static void end_flight(struct asking *a, struct flight *f, const struct ask_answer *answer) {
  a->slots[f->id] = 0;
  f->used = false;
  a->ended++;
  a->answered += answer->answered;
  if (answer->answered) {
    a->error = 0;
    a->limit += a->answered % GROWTH == 0 && a->limit < a->window;
  } else {
    snprintf(a->last, sizeof a->last, "%s", answer->why);
  }
  a->heard(a->arg, f->index, answer);
}

static void end_silent(struct asking *a, struct flight *f) {
  struct ask_answer answer = {0};
  int at = snprintf(answer.why, sizeof answer.why, "no answer %s(tried %d times, %llu ms each)",
                    f->tcp ? "by TCP " : "", f->tries, (unsigned long long)a->timeout);
  if (a->error != 0)
    at += snprintf(answer.why + at, sizeof answer.why - (size_t)at, ": %s", strerror(a->error));
  if (a->strays > 0)
    snprintf(answer.why + at, sizeof answer.why - (size_t)at,
             "; %zu message%s from it did not fit the question", a->strays,
             a->strays == 1 ? "" : "s");
  end_flight(a, f, &answer);
}

static bool choose_id(struct asking *a, uint16_t *id) {
  do {
    if (getrandom(id, sizeof *id, 0) != (ssize_t)sizeof *id)
      return false;
  } while (a->slots[*id] != 0);
  return true;
}

/* ---- UDP ------------------------------------------------------------------------------------ */

/* The octets of a flight's question; 0 ends it. */
static size_t make(struct asking *a, struct flight *f, uint8_t *out) {
  struct ask_answer answer = {0};
  const char *why = "";
  size_t len = ask_make(&a->questions[f->index], f->id, out, &why);
  if (len == 0) {
    snprintf(answer.why, sizeof answer.why, "%.100s cannot be asked for: %.100s",
             a->questions[f->index].name, why);
    end_flight(a, f, &answer);
  }
  return len;
}

/* What cannot be sent now counts as lost on the way. */
static void send_udp(struct asking *a, struct flight *f) {
  uint8_t message[ASK_QUERY];
  size_t len = make(a, f, message);
  if (len == 0)
    return;
  f->tries++;
  f->due = now_ms() + a->timeout;
  if (send(a->udp, message, len, MSG_NOSIGNAL) >= 0 || errno == EAGAIN)
    return;
  a->error = errno;
  f->due = now_ms() + REFUSED_PAUSE_MS;
}

/* An error of the socket is one of the path: nobody waits for the whole time then. */
static void hurry(struct asking *a) {
  uint64_t soon = now_ms() + REFUSED_PAUSE_MS;
  for (size_t i = 0; i < a->window; i++)
    if (a->flights[i].used && !a->flights[i].tcp && a->flights[i].due > soon)
      a->flights[i].due = soon;
}

static void to_tcp(struct asking *a, struct flight *f) {
  f->tcp = true;
  f->sent = false;
  f->tries = 0;
  f->due = now_ms() + a->timeout;
}

static void take(struct asking *a, const uint8_t *message, size_t len, bool tcp) {
  struct ask_answer answer;
  unsigned id = len >= FRAME ? (unsigned)message[0] << 8 | message[1] : 0;
  struct flight *f = len >= FRAME && a->slots[id] != 0 ? &a->flights[a->slots[id] - 1] : NULL;
  if (!f || f->tcp != tcp) { /* a late one by UDP is one of these, too */
    a->strays++;
    return;
  }
  enum ask_heard heard = ask_read(&a->questions[f->index], f->id, message, len, &answer);
  if (heard == ASK_STRAY) {
    a->strays++;
  } else if (heard == ASK_NO_MEMORY) {
    a->no_memory = true;
  } else if (heard == ASK_TRUNCATED && !tcp) {
    to_tcp(a, f);
  } else {
    if (heard == ASK_TRUNCATED)
      snprintf(answer.why, sizeof answer.why, "its answer is truncated by TCP as well");
    end_flight(a, f, &answer);
  }
  ask_answer_close(&answer);
}

static void receive_udp(struct asking *a) {
  for (size_t i = 0; i < WINDOW_MAX; i++) { /* then the timers have their turn */
    ssize_t n = recv(a->udp, a->reply, ASK_REPLY, 0);
    if (n >= 0) {
      take(a, a->reply, (size_t)n, false);
      continue;
    }
    if (errno == EINTR)
      continue;
    if (errno != EAGAIN) {
      a->error = errno;
      hurry(a);
    }
    return;
  }
}

/* ---- TCP ------------------------------------------------------------------------------------ */

/* The connection is over: what it still owes is asked again by the next one.  One that ended after
 * answers took nobody's try: servers limit the questions of a connection. */
static void drop_stream(struct asking *a, int error) {
  struct stream *s = &a->tcp;
  bool progress = s->progress;
  if (s->fd >= 0)
    close(s->fd);
  s->fd = -1;
  s->in_len = s->out_len = s->out_at = 0;
  s->progress = false;
  a->error = error;
  for (size_t i = 0; i < a->window; i++) {
    struct flight *f = &a->flights[i];
    if (!f->used || !f->tcp || !f->sent)
      continue;
    f->sent = false;
    f->tries -= progress;
    if (f->tries >= ASK_TRIES)
      end_silent(a, f);
  }
}

static bool queue_tcp(struct asking *a, struct flight *f) {
  struct stream *s = &a->tcp;
  if (s->out_size - s->out_len < FRAME + ASK_QUERY) {
    size_t size = 2 * s->out_size + FRAME + ASK_QUERY;
    uint8_t *out = realloc(s->out, size);
    if (!out)
      return false;
    s->out = out;
    s->out_size = size;
  }
  uint8_t *at = s->out + s->out_len;
  size_t len = make(a, f, at + FRAME);
  if (len == 0)
    return true;
  at[0] = (uint8_t)(len >> 8);
  at[1] = (uint8_t)len;
  s->out_len += FRAME + len;
  f->sent = true;
  f->tries++;
  f->due = now_ms() + a->timeout;
  return true;
}

static void send_tcp(struct asking *a) {
  struct stream *s = &a->tcp;
  bool wanted = false;
  for (size_t i = 0; i < a->window; i++)
    wanted = wanted || (a->flights[i].used && a->flights[i].tcp && !a->flights[i].sent);
  if (wanted && s->fd < 0)
    s->fd = connect_to(a->server, SOCK_STREAM);
  int error = errno;
  for (size_t i = 0; wanted && i < a->window; i++) {
    struct flight *f = &a->flights[i];
    if (f->used && f->tcp && !f->sent && !queue_tcp(a, f))
      a->no_memory = true;
  }
  if (wanted && s->fd < 0)
    drop_stream(a, error);
}

static void flush_tcp(struct asking *a) {
  struct stream *s = &a->tcp;
  while (s->fd >= 0 && s->out_at < s->out_len) {
    ssize_t n = send(s->fd, s->out + s->out_at, s->out_len - s->out_at, MSG_NOSIGNAL);
    if (n > 0) {
      s->out_at += (size_t)n;
      continue;
    }
    if (n < 0 && errno == EINTR)
      continue;
    if (n == 0 || errno != EAGAIN)
      drop_stream(a, n == 0 ? 0 : errno);
    return;
  }
  if (s->out_at == s->out_len)
    s->out_at = s->out_len = 0;
}

/* Every answer shows that the server is at work on the others. */
static void renew_tcp(struct asking *a) {
  a->tcp.progress = true;
  for (size_t i = 0; i < a->window; i++)
    if (a->flights[i].used && a->flights[i].tcp)
      a->flights[i].due = now_ms() + a->timeout;
}

static void receive_tcp(struct asking *a) {
  struct stream *s = &a->tcp;
  ssize_t n = recv(s->fd, s->in + s->in_len, FRAME + ASK_REPLY - s->in_len, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (n <= 0) {
    drop_stream(a, n == 0 ? ECONNRESET : errno);
    return;
  }
  s->in_len += (size_t)n;
  size_t at = 0;
  while (s->in_len - at >= FRAME) {
    size_t len = (size_t)s->in[at] << 8 | s->in[at + 1];
    if (s->in_len - at < FRAME + len)
      break;
    size_t answered = a->ended;
    take(a, s->in + at + FRAME, len, true);
    at += FRAME + len;
    if (a->ended > answered)
      renew_tcp(a);
  }
  memmove(s->in, s->in + at, s->in_len - at);
  s->in_len -= at;
}

/* ---- the window ----------------------------------------------------------------------------- */

static bool fill(struct asking *a) {
  for (size_t i = 0; i < a->window && a->next < a->count && a->next - a->ended < a->limit; i++) {
    struct flight *f = &a->flights[i];
    if (f->used)
      continue;
    *f = (struct flight){.used = true, .index = a->next++};
    if (!choose_id(a, &f->id))
      return false;
    a->slots[f->id] = (uint16_t)(i + 1);
    send_udp(a, f);
  }
  return true;
}

static void expire(struct asking *a) {
  uint64_t now = now_ms();
  bool late = false;
  bool slow = false;
  for (size_t i = 0; i < a->window; i++) {
    struct flight *f = &a->flights[i];
    if (!f->used || f->due > now)
      continue;
    slow = true;
    if (f->tcp)
      late = true;
    else if (f->tries >= ASK_TRIES)
      end_silent(a, f);
    else
      send_udp(a, f);
  }
  if (slow && a->limit > WINDOW_LEAST)
    a->limit = a->limit / 2 > WINDOW_LEAST ? a->limit / 2 : WINDOW_LEAST;
  if (late) {
    a->tcp.progress = false;
    drop_stream(a, ETIMEDOUT);
  }
}

static int wait_ms(const struct asking *a) {
  uint64_t now = now_ms();
  uint64_t due = now + a->timeout;
  for (size_t i = 0; i < a->window; i++)
    if (a->flights[i].used && a->flights[i].due < due)
      due = a->flights[i].due;
  return due > now ? (int)(due - now) : 0;
}

static bool turn(struct asking *a) {
  send_tcp(a);
  flush_tcp(a);
  struct pollfd fds[2] = {{.fd = a->udp, .events = POLLIN}, {.fd = a->tcp.fd, .events = POLLIN}};
  if (a->tcp.out_at < a->tcp.out_len)
    fds[1].events |= POLLOUT;
  if (poll(fds, 2, wait_ms(a)) < 0 && errno != EINTR)
    return false;
  if (fds[0].revents != 0)
    receive_udp(a);
  if (a->tcp.fd >= 0 && (fds[1].revents & (POLLIN | POLLERR | POLLHUP)) != 0)
    receive_tcp(a);
  expire(a);
  return !a->no_memory;
}

/* As many as were under way at once have ended without any answer: the others would, too. */
static bool is_dead(const struct asking *a) {
  return a->answered == 0 && a->ended >= a->window && a->ended < a->count;
}

static bool run(struct asking *a, char *why) {
  while (a->ended < a->count) {
    if (!fill(a) || (a->ended < a->count && !turn(a))) {
      snprintf(why, ASK_TEXT, ASK_MEMORY);
      return false;
    }
    if (is_dead(a)) {
      snprintf(why, ASK_TEXT, "%s", a->last);
      return false;
    }
  }
  return true;
}

bool ask_many(const struct ask_server *server, const struct ask_question *questions, size_t count,
              size_t window, int timeout_ms,
              void (*heard)(void *arg, size_t index, const struct ask_answer *answer), void *arg,
              char *why) {
  struct asking a = {
      .server = server,
      .questions = questions,
      .count = count,
      .window = window == 0           ? 1
                : window < WINDOW_MAX ? window
                                      : WINDOW_MAX,
      .timeout = timeout_ms > 0 ? (uint64_t)timeout_ms : ASK_TIMEOUT_MS,
      .tcp = {.fd = -1},
      .heard = heard,
      .arg = arg,
  };
  a.window = a.window < count || count == 0 ? a.window : count;
  a.limit = a.window;
  a.flights = calloc(a.window, sizeof *a.flights);
  a.slots = calloc(IDS, sizeof *a.slots);
  a.reply = malloc(ASK_REPLY);
  a.tcp.in = malloc(FRAME + ASK_REPLY);
  a.udp = connect_to(server, SOCK_DGRAM);
  bool ok = a.flights && a.slots && a.reply && a.tcp.in;
  if (!ok)
    snprintf(why, ASK_TEXT, ASK_MEMORY);
  else if (a.udp < 0)
    snprintf(why, ASK_TEXT, "%.150s cannot be asked: %.80s", server->text, strerror(errno));
  ok = ok && a.udp >= 0 && run(&a, why);
  if (a.udp >= 0)
    close(a.udp);
  if (a.tcp.fd >= 0)
    close(a.tcp.fd);
  free(a.flights);
  free(a.slots);
  free(a.reply);
  free(a.tcp.in);
  free(a.tcp.out);
  return ok;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/lines.h"
#include "base/log.h"
#include "base/unix_socket.h"
#include "healthcheck/feed_stream.h"
#include "healthcheck/feed_text.h"

enum {
  SOCKET_MODE = 0660,
  LISTEN_BACKLOG = 128,
  SUBSCRIBERS_MAX = 1000,
  READ_MOST = 64 << 10,
  PIECES = 16, /* of a write; so much is in the hands of libuv at a time */
  SESSION = 16,
};

/* A snapshot: the same octets for all that come before the next change. */
struct snapshot {
  struct feed_stream stream;
  size_t refs;
  uint64_t seq;
};

struct subscriber {
  uv_pipe_t pipe;
  uv_write_t write;
  struct feed *feed;
  struct subscriber *next, **at;
  struct snapshot *snapshot; /* that it has to read yet, or NULL */
  struct feed_cursor in_snapshot;
  struct feed_cursor in_stream; /* in what is told to all */
  size_t writing;               /* octets under way, 0: none */
  struct lines lines;
  struct feed_input input;
};

struct feed {
  uv_pipe_t pipe;
  uv_timer_t beat;
  struct feed_source source;
  struct feed_stream stream;
  struct feed_stream *into;  /* where feed_subject() writes, inside of snapshot() */
  struct snapshot *snapshot; /* of now, as long as somebody reads it; borrowed */
  struct subscriber *subscribers;
  size_t subscriber_count;
  size_t open_handles; /* of it and its subscribers */
  uint64_t seq;
  struct buf text; /* for lines that are being made */
  bool failed;     /* out of memory: what was to be told is not whole */
  bool closing;
  dev_t device; /* of the socket, to remove no other one */
  ino_t inode;
  char session[SESSION * 2 + 1];
  char *path;
};

/* ---- the end of a subscriber ------------------------------------------------------------------
 */

static void drop_snapshot(struct feed *feed, struct snapshot *snapshot) {
  if (!snapshot || --snapshot->refs > 0)
    return;
  if (feed->snapshot == snapshot)
    feed->snapshot = NULL;
  feed_stream_close(&snapshot->stream);
  free(snapshot);
}

static void feed_free(struct feed *feed) {
  feed_stream_close(&feed->stream);
  buf_close(&feed->text);
  free(feed->path);
  free(feed);
}

static void handle_closed(struct feed *feed) {
  if (--feed->open_handles == 0)
    feed_free(feed);
}

static void on_subscriber_closed(uv_handle_t *handle) {
  struct subscriber *s = handle->data;
  struct feed *feed = s->feed;
  feed_cursor_close(&s->in_snapshot);
  feed_cursor_close(&s->in_stream);
  drop_snapshot(feed, s->snapshot);
  feed_input_clear(&s->input);
  lines_close(&s->lines);
  free(s);
  handle_closed(feed);
}

static void subscriber_close(struct subscriber *s) {
  if (uv_is_closing((uv_handle_t *)&s->pipe))
    return;
  *s->at = s->next;
  if (s->next)
    s->next->at = s->at;
  s->feed->subscriber_count--;
  uv_close((uv_handle_t *)&s->pipe, on_subscriber_closed);
}

static void cut_all(struct feed *feed) {
  while (feed->subscribers)
    subscriber_close(feed->subscribers);
}

/* ---- sending ----------------------------------------------------------------------------------
 */

static void pump(struct subscriber *s);

static void on_written(uv_write_t *request, int status) {
  struct subscriber *s = request->data;
  size_t octets = s->writing;
  s->writing = 0;
  if (uv_is_closing((uv_handle_t *)&s->pipe))
    return;
  if (status < 0) {
    subscriber_close(s);
    return;
  }
  feed_cursor_move(s->snapshot ? &s->in_snapshot : &s->in_stream, octets);
  if (s->snapshot && feed_cursor_left(&s->in_snapshot, &s->snapshot->stream) == 0) {
    feed_cursor_close(&s->in_snapshot);
    drop_snapshot(s->feed, s->snapshot);
    s->snapshot = NULL;
  }
  pump(s);
}

/* Writes what comes next, unless a write is under way. */
static void pump(struct subscriber *s) {
  uv_buf_t pieces[PIECES];
  if (s->writing > 0 || uv_is_closing((uv_handle_t *)&s->pipe))
    return;
  unsigned count = feed_cursor_look(s->snapshot ? &s->in_snapshot : &s->in_stream, pieces, PIECES);
  if (count == 0)
    return;
  for (unsigned i = 0; i < count; i++)
    s->writing += pieces[i].len;
  s->write.data = s;
  if (uv_write(&s->write, (uv_stream_t *)&s->pipe, pieces, count, on_written) != 0) {
    s->writing = 0;
    subscriber_close(s);
  }
}

static uint64_t backlog(const struct subscriber *s) {
  uint64_t left = feed_cursor_left(&s->in_stream, &s->feed->stream);
  if (s->snapshot)
    left += feed_cursor_left(&s->in_snapshot, &s->snapshot->stream);
  return left;
}

static void no_memory(struct feed *feed) {
  static struct log_limit limit;
  log_limited(&limit, LOG_LEVEL_ERROR, "health feed: out of memory; its subscribers are cut off");
  cut_all(feed);
}

/* Sends on to all, and cuts off who is too far behind. */
static void pump_all(struct feed *feed) {
  static struct log_limit limit;
  struct subscriber *next;
  for (struct subscriber *s = feed->subscribers; s; s = next) {
    next = s->next;
    pump(s);
    if (backlog(s) <= FEED_BACKLOG)
      continue;
    log_limited(&limit, LOG_LEVEL_WARNING,
                "health feed: a subscriber reads too slowly and is cut off");
    subscriber_close(s);
  }
}

/* Tells the lines in feed->text to all. */
static void tell_all(struct feed *feed) {
  if (feed->text.failed || !feed_stream_add(&feed->stream, feed->text.data, feed->text.len)) {
    buf_close(&feed->text);
    buf_init(&feed->text);
    no_memory(feed);
    return;
  }
  pump_all(feed);
}

/* ---- snapshots --------------------------------------------------------------------------------
 */

/* Moves the lines in feed->text to where the snapshot goes. */
static void put_lines(struct feed *feed) {
  if (!feed->failed)
    feed->failed =
        feed->text.failed || !feed_stream_add(feed->into, feed->text.data, feed->text.len);
  if (feed->text.failed) {
    buf_close(&feed->text);
    buf_init(&feed->text);
  }
  buf_clear(&feed->text);
}

/* False without memory. */
static bool put_snapshot(struct feed *feed, struct feed_stream *into, bool hello) {
  feed->into = into;
  feed->failed = false;
  buf_clear(&feed->text);
  if (hello)
    feed_text_hello(&feed->text, feed->session);
  feed_text_mark(&feed->text, "begin", feed->seq);
  put_lines(feed);
  feed->source.snapshot(feed->source.arg, feed);
  feed_text_mark(&feed->text, "end", feed->seq);
  put_lines(feed);
  feed->into = NULL;
  return !feed->failed;
}

void feed_subject(struct feed *feed, uint32_t id, const char *const (*targets)[2], size_t count,
                  const struct feed_verdict verdicts[2]) {
  feed_text_subject(&feed->text, id, targets, count, verdicts);
  put_lines(feed);
}

/* The snapshot of now, with a reference for the caller; NULL without memory. */
static struct snapshot *take_snapshot(struct feed *feed) {
  if (feed->snapshot) {
    feed->snapshot->refs++;
    return feed->snapshot;
  }
  struct snapshot *snapshot = calloc(1, sizeof *snapshot);
  if (!snapshot)
    return NULL;
  snapshot->refs = 1;
  snapshot->seq = feed->seq;
  feed->snapshot = snapshot;
  if (feed_stream_init(&snapshot->stream, true) && put_snapshot(feed, &snapshot->stream, true))
    return snapshot;
  drop_snapshot(feed, snapshot);
  return NULL;
}

/* ---- what subscribers send --------------------------------------------------------------------
 */

static void refuse(struct subscriber *s, const char *why) {
  static struct log_limit limit;
  log_limited(&limit, LOG_LEVEL_WARNING, "health feed: a subscriber is cut off: %s", why);
  subscriber_close(s);
}

static void take_line(struct subscriber *s, const char *line, size_t len) {
  char why[FEED_WHY];
  switch (feed_input_line(&s->input, line, len, why)) {
  case FEED_INPUT_NONE:
    break;
  case FEED_INPUT_OVERRIDES:
    if (s->feed->source.overrides)
      s->feed->source.overrides(s->feed->source.arg, s->input.overrides);
    feed_input_clear(&s->input);
    break;
  case FEED_INPUT_BAD:
    refuse(s, why);
    break;
  }
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
  struct subscriber *s = handle->data;
  size_t room = 0;
  (void)suggested;
  char *to = lines_room(&s->lines, READ_MOST, &room);
  *buffer = uv_buf_init(to, (unsigned)room);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer) {
  struct subscriber *s = stream->data;
  (void)buffer;
  if (n < 0) {
    subscriber_close(s);
    return;
  }
  lines_added(&s->lines, (size_t)n);
  char *line;
  size_t len;
  enum lines_result result = LINES_NONE;
  while (!uv_is_closing((uv_handle_t *)&s->pipe) &&
         (result = lines_next(&s->lines, &line, &len)) == LINES_LINE)
    take_line(s, line, len);
  if (result == LINES_TOO_LONG)
    refuse(s, "it sends an endless line");
}

/* ---- connections ------------------------------------------------------------------------------
 */

static void on_connection(uv_stream_t *stream, int status) {
  static struct log_limit limit;
  struct feed *feed = stream->data;
  struct subscriber *s = status == 0 ? calloc(1, sizeof *s) : NULL;
  if (!s) {
    log_limited(&limit, LOG_LEVEL_WARNING, "health feed: cannot accept: %s",
                status == 0 ? "out of memory" : uv_strerror(status));
    return;
  }
  s->feed = feed;
  s->pipe.data = s;
  lines_init(&s->lines, FEED_LINE);
  uv_pipe_init(stream->loop, &s->pipe, 0);
  feed->open_handles++;
  s->next = feed->subscribers;
  s->at = &feed->subscribers;
  if (s->next)
    s->next->at = &s->next;
  feed->subscribers = s;
  feed->subscriber_count++;
  if (uv_accept(stream, (uv_stream_t *)&s->pipe) != 0) {
    subscriber_close(s);
    return;
  }
  if (feed->subscriber_count > SUBSCRIBERS_MAX) {
    refuse(s, "there are too many");
    return;
  }
  s->snapshot = take_snapshot(feed);
  if (!s->snapshot || uv_read_start((uv_stream_t *)&s->pipe, on_alloc, on_read) != 0) {
    refuse(s, "out of memory");
    return;
  }
  feed_cursor_begin(&s->in_snapshot, &s->snapshot->stream);
  feed_cursor_end(&s->in_stream, &feed->stream);
  pump(s);
}

/* ---- changes ----------------------------------------------------------------------------------
 */

void feed_change(struct feed *feed, uint32_t id, const struct feed_verdict verdicts[2]) {
  feed->seq++;
  feed->snapshot = NULL; /* who reads it goes on with the changes since */
  if (!feed->subscribers)
    return;
  buf_clear(&feed->text);
  feed_text_change(&feed->text, feed->seq, id, verdicts);
  tell_all(feed);
}

void feed_reset(struct feed *feed) {
  feed->snapshot = NULL;
  if (!feed->subscribers)
    return;
  if (put_snapshot(feed, &feed->stream, false))
    pump_all(feed);
  else
    no_memory(feed);
}

static void on_beat(uv_timer_t *timer) {
  struct feed *feed = timer->data;
  if (!feed->subscribers)
    return;
  buf_clear(&feed->text);
  feed_text_mark(&feed->text, "beat", feed->seq);
  tell_all(feed);
}

json_t *feed_json(const struct feed *feed) {
  return json_pack("{s:I, s:I}", "subscribers", (json_int_t)feed->subscriber_count, "seq",
                   (json_int_t)feed->seq);
}

/* ---- opening and closing ----------------------------------------------------------------------
 */

static bool make_session(char *session) {
  unsigned char octets[SESSION];
  if (getrandom(octets, sizeof octets, 0) != sizeof octets)
    return false;
  for (size_t i = 0; i < SESSION; i++)
    snprintf(session + 2 * i, 3, "%02x", octets[i]);
  return true;
}

static void on_closed(uv_handle_t *handle) {
  handle_closed(handle->data);
}

static struct feed *fail(struct feed *feed, char *why, const char *text) {
  snprintf(why, FEED_WHY, "the health feed cannot be opened: %.200s", text);
  if (feed)
    feed_free(feed);
  return NULL;
}

struct feed *feed_open(uv_loop_t *loop, const char *path, const struct feed_source *source,
                       char *why) {
  struct feed *feed = calloc(1, sizeof *feed);
  if (!feed)
    return fail(feed, why, "out of memory");
  feed->source = *source;
  feed->path = strdup(path);
  buf_init(&feed->text);
  if (!feed->path || !feed_stream_init(&feed->stream, false) || !make_session(feed->session))
    return fail(feed, why, "out of memory");
  char reason[UNIX_SOCKET_WHY];
  int fd = unix_socket_bind(path, SOCKET_MODE, reason);
  if (fd < 0)
    return fail(feed, why, reason);
  struct stat st;
  if (lstat(path, &st) == 0) {
    feed->device = st.st_dev;
    feed->inode = st.st_ino;
  }
  feed->pipe.data = feed->beat.data = feed;
  feed->open_handles = 2;
  uv_pipe_init(loop, &feed->pipe, 0);
  uv_timer_init(loop, &feed->beat);
  int rc = uv_pipe_open(&feed->pipe, fd);
  if (rc != 0)
    close(fd);
  else
    rc = uv_listen((uv_stream_t *)&feed->pipe, LISTEN_BACKLOG, on_connection);
  if (rc == 0)
    rc = uv_timer_start(&feed->beat, on_beat, FEED_BEAT_MS, FEED_BEAT_MS);
  if (rc == 0)
    return feed;
  snprintf(why, FEED_WHY, "the health feed cannot listen at %.200s: %s", path, uv_strerror(rc));
  feed_close(feed);
  return NULL;
}

void feed_close(struct feed *feed) {
  if (!feed || feed->closing)
    return;
  struct stat st;
  feed->closing = true;
  cut_all(feed);
  if (lstat(feed->path, &st) == 0 && st.st_dev == feed->device && st.st_ino == feed->inode)
    unlink(feed->path);
  uv_close((uv_handle_t *)&feed->pipe, on_closed);
  uv_close((uv_handle_t *)&feed->beat, on_closed);
}

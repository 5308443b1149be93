/* SPDX-License-Identifier: Apache-2.0 */
#include "server/health_feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/lines.h"
#include "base/log.h"
#include "base/utf8.h"
#include "healthcheck/feed.h"
#include "server/health_lines.h"
#include "server/overrides.h"

enum {
  TICK_MS = 250,
  RETRY_FIRST_MS = 100,
  RETRY_MOST_MS = 1000,
  READ_MOST = 256 << 10,
  APPLY_MOST = 1 << 20, /* changes that are gathered */
  WHY = 256,
};

/* One connection. */
struct link {
  uv_pipe_t pipe;
  uv_connect_t connect;
  uv_write_t write;
  struct health_feed *feed; /* NULL once it is given up */
  struct lines lines;
  char *sending; /* what is being written, or NULL */
};

struct health_feed {
  struct server *server;
  struct health_lines *lines;
  struct link *link; /* or NULL: waiting for the next try */
  uv_timer_t retry;
  uv_timer_t tick;
  size_t open_handles;
  uint64_t retry_ms;
  uint64_t line_at;  /* uv_now() of the last line of this connection, or of its start */
  uint64_t heard_at; /* of the last line after a whole snapshot; at first of the start */
  bool heard;        /* there ever was one */
  bool connected;    /* a whole snapshot came over this connection */
  bool overdue;      /* silent for too long, unless a line waits to be read */
  bool stale;        /* all counts as healthy */
  bool closing;
  char lost[WHY]; /* why there is no news, or empty */
  bool overrides_unsent;
  struct health_changes changes; /* of the lines that were read and are not applied yet */
};

static uint64_t now_of(const struct health_feed *feed) {
  return uv_now(feed->server->loop);
}

/* ---- connections come and go ------------------------------------------------------------------
 */

static void on_link_closed(uv_handle_t *handle) {
  struct link *link = handle->data;
  lines_close(&link->lines);
  free(link->sending);
  free(link);
}

static void drop_link(struct health_feed *feed) {
  struct link *link = feed->link;
  if (link == NULL)
    return;
  feed->link = NULL;
  link->feed = NULL;
  uv_close((uv_handle_t *)&link->pipe, on_link_closed);
}

static void start(struct health_feed *feed);

static void on_retry(uv_timer_t *timer) {
  start(timer->data);
}

/* A reason may quote what the peer has sent, and ends up on terminals. */
static void make_visible(char *text) {
  utf8_repair(text);
  for (; *text != '\0'; text++)
    if ((unsigned char)*text < ' ' || *text == 0x7f)
      *text = '?';
}

/* Gives the connection up and tries again later; said once for each reason. */
static void lose(struct health_feed *feed, const char *reason) {
  char why[WHY];
  snprintf(why, sizeof why, "%s", reason);
  make_visible(why);
  if (strcmp(feed->lost, why) != 0)
    log_warning("the health checker at %s is lost: %s; serving by the last known status",
                feed->server->settings->health, why);
  memcpy(feed->lost, why, sizeof why);
  feed->connected = false;
  feed->overdue = false;
  drop_link(feed);
  if (feed->closing)
    return;
  uv_timer_start(&feed->retry, on_retry, feed->retry_ms, 0);
  feed->retry_ms = feed->retry_ms * 2 < RETRY_MOST_MS ? feed->retry_ms * 2 : RETRY_MOST_MS;
}

/* ---- what the checker is told -----------------------------------------------------------------
 */

/* What the checker needs of an override; NULL without memory. */
static char *override_text_of(const json_t *item) {
  static const char *const keys[] = {"kind",  "domain", "endpoint", "region",
                                     "level", "family", "value"};
  json_t *json = json_object();
  bool ok = json != NULL;
  for (size_t i = 0; ok && i < sizeof keys / sizeof *keys; i++)
    ok = json_object_set(json, keys[i], json_object_get(item, keys[i])) == 0;
  char *text = ok ? json_dumps(json, JSON_COMPACT) : NULL;
  json_decref(json);
  return text;
}

static bool put_overrides(const json_t *list, struct buf *out) {
  size_t count = json_array_size(list);
  size_t i = 0;
  do {
    size_t line = out->len;
    buf_add_str(out, "{\"t\":\"overrides\",\"list\":[");
    for (size_t n = 0; i < count && out->len - line < FEED_LINE / 2; i++, n++) {
      char *text = override_text_of(json_array_get(list, i));
      if (text == NULL)
        return false;
      if (n > 0)
        buf_add_u8(out, ',');
      buf_add_str(out, text);
      free(text);
    }
    buf_add_str(out, i < count ? "],\"more\":true}\n" : "]}\n");
  } while (i < count);
  return !out->failed;
}

static void send_overrides(struct health_feed *feed);

static void on_sent(uv_write_t *write, int status) {
  struct link *link = write->data;
  free(link->sending);
  link->sending = NULL;
  if (link->feed == NULL)
    return;
  if (status < 0)
    lose(link->feed, uv_strerror(status));
  else if (link->feed->overrides_unsent)
    send_overrides(link->feed);
}

/* One list is written at a time; what changes meanwhile goes with the next. */
static void send_overrides(struct health_feed *feed) {
  struct link *link = feed->link;
  struct buf out;
  if (link == NULL || link->sending != NULL || !feed->connected)
    return;
  buf_init(&out);
  json_t *list = overrides_list(feed->server->overrides, 0);
  bool ok = list != NULL && put_overrides(list, &out);
  json_decref(list);
  if (!ok) {
    buf_close(&out);
    log_error("the health checker cannot be told what is overridden: out of memory");
    return;
  }
  uv_buf_t buffer = uv_buf_init((char *)out.data, (unsigned)out.len);
  link->sending = (char *)out.data; /* the buffer's, freed once it is sent */
  link->write.data = link;
  feed->overrides_unsent = false;
  if (uv_write(&link->write, (uv_stream_t *)&link->pipe, &buffer, 1, on_sent) == 0)
    return;
  free(link->sending);
  link->sending = NULL;
  lose(feed, "it cannot be written to");
}

void health_feed_overrides_changed(struct health_feed *feed) {
  if (feed != NULL)
    feed->overrides_unsent = true;
}

/* ---- what the checker tells -------------------------------------------------------------------
 */

/* Puts what was read in force; false if the connection was given up. */
static bool apply(struct health_feed *feed) {
  struct server *server = feed->server;
  char why[FACTS_WHY];
  size_t count = feed->changes.count;
  feed->changes.count = 0;
  if (count == 0 ||
      facts_apply(server->facts, server->served, feed->changes.items, count, NULL, why))
    return true;
  lose(feed, why);
  return false;
}

/* What the checker says counts again, or not any more. */
static void set_stale(struct health_feed *feed, bool stale) {
  static struct log_limit limit;
  if (feed->stale == stale)
    return;
  if (!facts_ignore_measured(feed->server->facts, feed->server->served, stale)) {
    log_limited(&limit, LOG_LEVEL_ERROR, "status of endpoints: out of memory");
    return;
  }
  feed->stale = stale;
  if (stale)
    log_warning("no news of health for %u s: all endpoints count as healthy",
                feed->server->settings->health_stale);
  else
    log_notice("health counts again");
}

static bool take_snapshot(struct health_feed *feed) {
  struct health_map *map = health_lines_map(feed->lines);
  struct served *served = feed->server->served;
  if (!health_map_resolve(map, served) || !health_map_apply_all(map, served, &feed->changes)) {
    lose(feed, "out of memory");
    return false;
  }
  if (!apply(feed))
    return false;
  struct health_counts counts = health_map_counts(map);
  if (!feed->connected)
    log_info("the health checker at %s is there: %zu checks of %zu endpoints",
             feed->server->settings->health, counts.subjects, counts.served);
  feed->connected = true;
  feed->retry_ms = RETRY_FIRST_MS;
  feed->lost[0] = '\0';
  set_stale(feed, false);
  send_overrides(feed);
  return feed->link != NULL;
}

static bool take_line(struct health_feed *feed, const char *line, size_t len) {
  struct health_line_change change;
  char why[HEALTH_LINES_WHY];
  switch (health_lines_read(feed->lines, line, len, &change, why)) {
  case HEALTH_LINE_NONE:
  case HEALTH_LINE_HELLO:
    return true;
  case HEALTH_LINE_SNAPSHOT:
    return take_snapshot(feed);
  case HEALTH_LINE_CHANGE:
    if (!health_map_apply(health_lines_map(feed->lines), change.subject, change.families,
                          &feed->changes)) {
      lose(feed, "out of memory");
      return false;
    }
    return feed->changes.count < APPLY_MOST || apply(feed);
  case HEALTH_LINE_BAD:
    if (apply(feed))
      lose(feed, why);
    return false;
  }
  return true;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
  struct link *link = handle->data;
  size_t room = 0;
  (void)suggested;
  char *to = lines_room(&link->lines, READ_MOST, &room);
  *buffer = uv_buf_init(to, (unsigned)room);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer) {
  struct link *link = stream->data;
  struct health_feed *feed = link->feed;
  (void)buffer;
  if (feed == NULL || n == 0)
    return;
  if (n < 0) {
    lose(feed, n == UV_EOF ? "it has ended the connection" : uv_strerror((int)n));
    return;
  }
  lines_added(&link->lines, (size_t)n);
  char *line;
  size_t len;
  enum lines_result result;
  while ((result = lines_next(&link->lines, &line, &len)) == LINES_LINE) {
    if (!take_line(feed, line, len))
      return;
    feed->line_at = now_of(feed);
    if (!feed->connected)
      continue;
    feed->heard_at = feed->line_at;
    feed->heard = true;
    feed->overdue = false;
  }
  if (apply(feed) && result == LINES_TOO_LONG)
    lose(feed, "it sends an endless line");
}

static void on_connected(uv_connect_t *connect, int status) {
  struct link *link = connect->data;
  struct health_feed *feed = link->feed;
  if (feed == NULL)
    return;
  if (status == 0)
    status = uv_read_start((uv_stream_t *)&link->pipe, on_alloc, on_read);
  if (status != 0)
    lose(feed, uv_strerror(status));
}

static void start(struct health_feed *feed) {
  struct link *link = calloc(1, sizeof *link);
  if (link == NULL) {
    lose(feed, "out of memory");
    return;
  }
  link->feed = feed;
  link->pipe.data = link->connect.data = link;
  lines_init(&link->lines, FEED_LINE);
  uv_pipe_init(feed->server->loop, &link->pipe, 0);
  feed->link = link;
  feed->line_at = now_of(feed);
  feed->overdue = false;
  health_lines_restart(feed->lines);
  uv_pipe_connect(&link->connect, &link->pipe, feed->server->settings->health, on_connected);
}

/* ---- silence ----------------------------------------------------------------------------------
 */

static void on_tick(uv_timer_t *timer) {
  struct health_feed *feed = timer->data;
  uint64_t now = now_of(feed);
  uint64_t stale_ms = (uint64_t)feed->server->settings->health_stale * 1000;
  bool silent = feed->link != NULL && now - feed->line_at >= FEED_SILENCE_MS;
  /* After a pause of this process itself the lines wait in the socket: it is lost only if there is
   * still none by the next tick. */
  if (silent && feed->overdue)
    lose(feed, "it is silent");
  else
    feed->overdue = silent;
  if (feed->overrides_unsent)
    send_overrides(feed);
  if (stale_ms > 0 && !feed->connected && now - feed->heard_at >= stale_ms)
    set_stale(feed, true);
}

/* ---- views ------------------------------------------------------------------------------------
 */

void health_feed_attach(struct health_feed *feed, struct served *served) {
  char why[FACTS_WHY] = "out of memory";
  struct health_map *map = feed != NULL ? health_lines_map(feed->lines) : NULL;
  if (map == NULL)
    return;
  feed->changes.count = 0;
  bool ok =
      health_map_resolve(map, served) && health_map_apply_all(map, served, &feed->changes) &&
      facts_apply(feed->server->facts, served, feed->changes.items, feed->changes.count, NULL, why);
  feed->changes.count = 0;
  if (!ok)
    lose(feed, why);
}

struct health_known health_feed_lookup(const struct server *server, uint32_t domain,
                                       uint16_t endpoint, int family) {
  int f = family == 4 ? 0 : 1;
  const struct health_map *map =
      server->health != NULL ? health_lines_map(server->health->lines) : NULL;
  const struct health_verdict *verdicts =
      map != NULL ? health_map_verdicts(map, domain, endpoint) : NULL;
  struct health_known known = {
      .state = (enum steer_health)facts_health(server->served, domain, endpoint, family).measured};
  if (verdicts == NULL || verdicts[f].state == HEALTH_STATE_NONE)
    return known;
  known.checked = true;
  known.since = verdicts[f].since;
  known.why = verdicts[f].why;
  return known;
}

json_t *health_feed_json(const struct health_feed *feed) {
  if (feed == NULL)
    return json_pack("{s:n, s:b, s:n, s:b, s:n, s:i, s:i, s:i}", "socket", "connected", 0, "age",
                     "stale", 0, "error", "subjects", 0, "targets", 0, "served", 0);
  struct health_counts counts = health_map_counts(health_lines_map(feed->lines));
  json_t *age = feed->heard ? json_integer((json_int_t)((now_of(feed) - feed->heard_at) / 1000))
                            : json_null();
  return json_pack("{s:s, s:b, s:o, s:b, s:s?, s:I, s:I, s:I}", "socket",
                   feed->server->settings->health, "connected", (int)feed->connected, "age", age,
                   "stale", (int)feed->stale, "error", feed->lost[0] != '\0' ? feed->lost : NULL,
                   "subjects", (json_int_t)counts.subjects, "targets", (json_int_t)counts.targets,
                   "served", (json_int_t)counts.served);
}

/* ---- opening and closing ----------------------------------------------------------------------
 */

static void feed_free(struct health_feed *feed) {
  health_lines_free(feed->lines);
  health_changes_close(&feed->changes);
  free(feed);
}

struct health_feed *health_feed_open(struct server *server) {
  struct health_feed *feed = calloc(1, sizeof *feed);
  if (feed == NULL)
    return NULL;
  feed->server = server;
  feed->retry_ms = RETRY_FIRST_MS;
  feed->lines = health_lines_new();
  if (feed->lines == NULL) {
    feed_free(feed);
    return NULL;
  }
  uv_timer_init(server->loop, &feed->retry);
  uv_timer_init(server->loop, &feed->tick);
  feed->retry.data = feed->tick.data = feed;
  feed->open_handles = 2;
  feed->heard_at = now_of(feed);
  uv_timer_start(&feed->tick, on_tick, TICK_MS, TICK_MS);
  start(feed);
  return feed;
}

static void on_closed(uv_handle_t *handle) {
  struct health_feed *feed = handle->data;
  if (--feed->open_handles == 0)
    feed_free(feed);
}

void health_feed_close(struct health_feed *feed) {
  if (feed == NULL || feed->closing)
    return;
  feed->closing = true;
  drop_link(feed);
  uv_close((uv_handle_t *)&feed->retry, on_closed);
  uv_close((uv_handle_t *)&feed->tick, on_closed);
}

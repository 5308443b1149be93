/* SPDX-License-Identifier: Apache-2.0 */
/* Many requests at a time: see http_send_many() in base/http.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/http_private.h"

enum { WINDOW_MAX = 64, POLL_MS = 1000 };

enum place_state { PLACE_FREE, PLACE_WAITING, PLACE_RUNNING };

/* Where one request is under way. */
struct place {
  CURL *curl;
  enum place_state state;
  struct http_exchange *exchange;
  struct http_attempt attempt;
  uint64_t not_before; /* while waiting */
};

struct sending {
  struct http_client *client;
  struct http_exchange *list;
  size_t count, next;
  struct place places[WINDOW_MAX];
  size_t window, running;
  bool failed;
};

/* ---- the end of one ------------------------------------------------------------------------- */

static void finish(struct sending *s, struct place *p) {
  const struct http_exchange *x = p->exchange;
  p->state = PLACE_FREE;
  if (!x->ok || x->reply.status < 200 || x->reply.status > 299)
    s->failed = true;
}

static void fail(struct sending *s, struct place *p) {
  p->exchange->ok = false;
  finish(s, p);
}

static void done(struct sending *s, struct place *p, CURLcode code) {
  struct http_exchange *x = p->exchange;
  long status = 0;
  uint64_t wait;
  curl_easy_getinfo(p->curl, CURLINFO_RESPONSE_CODE, &status);
  http_attempt_close(s->client, p->curl, &p->attempt);
  if (http_attempt_judge(s->client, &p->attempt, code, status, &x->reply, &x->ok, x->why, &wait)) {
    p->state = PLACE_WAITING;
    p->not_before = http_now_ms() + wait;
    return;
  }
  finish(s, p);
}

/* ---- the begin of one ----------------------------------------------------------------------- */

static void begin(struct sending *s, struct place *p) {
  p->attempt.number++;
  p->exchange->sent = true;
  if (!http_attempt_open(s->client, p->curl, &p->attempt) ||
      curl_multi_add_handle(s->client->multi, p->curl) != CURLM_OK) {
    http_attempt_close(s->client, p->curl, &p->attempt);
    snprintf(p->exchange->why, HTTP_WHY, "no memory for a request");
    fail(s, p);
    return;
  }
  p->state = PLACE_RUNNING;
  s->running++;
}

/* True if the limits allow one more now. */
static bool is_allowed(const struct sending *s, const struct http_request *request) {
  bool read = http_is_read(request);
  const struct http_client *client = s->client;
  if (s->running == 0)
    return http_now_ms() >= client->not_before[read];
  if (!client->heard[read] || http_now_ms() < client->not_before[read])
    return false;
  return client->left[read] < 0 || (size_t)client->left[read] > s->running;
}

/* Gives the place the next request. */
static void assign(struct sending *s, struct place *p) {
  struct http_exchange *x = &s->list[s->next++];
  uint64_t now = http_now_ms();
  p->exchange = x;
  p->state = PLACE_WAITING;
  p->not_before = 0;
  p->attempt =
      (struct http_attempt){.request = &x->request, .end = now + s->client->options.deadline_ms};
  if (!p->curl)
    p->curl = curl_easy_init();
  if (!p->curl)
    snprintf(x->why, HTTP_WHY, "no memory for a request");
  else if (http_may_leave(s->client, &x->request, x->why)) {
    if (s->client->not_before[http_is_read(&x->request)] <= p->attempt.end)
      return;
    http_tell_limit(&x->request, x->why);
  }
  fail(s, p);
}

/* A request that waits for its place has no deadline yet: none is given before it may begin. */
static bool may_assign(const struct sending *s) {
  if (s->failed || s->next == s->count)
    return false;
  for (size_t i = 0; i < s->window; i++)
    if (s->places[i].state != PLACE_FREE)
      return s->client->heard[http_is_read(&s->list[s->next].request)] &&
             is_allowed(s, &s->list[s->next].request);
  return true;
}

static void begin_all(struct sending *s) {
  for (size_t i = 0; i < s->window; i++) {
    struct place *p = &s->places[i];
    if (p->state == PLACE_FREE && may_assign(s))
      assign(s, p);
    if (p->state == PLACE_WAITING && http_now_ms() >= p->not_before &&
        is_allowed(s, p->attempt.request))
      begin(s, p);
  }
}

/* ---- all of them ---------------------------------------------------------------------------- */

static bool is_busy(const struct sending *s) {
  for (size_t i = 0; i < s->window; i++)
    if (s->places[i].state != PLACE_FREE)
      return true;
  return !s->failed && s->next < s->count;
}

/* How long nothing can be begun, in ms, unless one that is under way ends. */
static int idle_ms(const struct sending *s) {
  uint64_t now = http_now_ms();
  uint64_t most = POLL_MS;
  for (size_t i = 0; i < s->window; i++) {
    const struct place *p = &s->places[i];
    if (p->state != PLACE_WAITING)
      continue;
    uint64_t limit = s->client->not_before[http_is_read(p->attempt.request)];
    uint64_t at = p->not_before > limit ? p->not_before : limit;
    if (at <= now && s->running > 0)
      continue;
    uint64_t wait = at > now ? at - now : 0;
    most = wait < most ? wait : most;
  }
  return (int)most;
}

/* True if one has ended: another one may begin. */
static bool take_messages(struct sending *s) {
  int left;
  bool any = false;
  for (CURLMsg *m; (m = curl_multi_info_read(s->client->multi, &left)) != NULL;) {
    CURL *curl = m->easy_handle;
    CURLcode code = m->data.result;
    if (m->msg != CURLMSG_DONE)
      continue;
    curl_multi_remove_handle(s->client->multi, curl);
    s->running--;
    any = true;
    for (size_t i = 0; i < s->window; i++)
      if (s->places[i].curl == curl)
        done(s, &s->places[i], code);
  }
  return any;
}

static void give_up(struct sending *s) {
  for (size_t i = 0; i < s->window; i++) {
    struct place *p = &s->places[i];
    if (p->state == PLACE_RUNNING) {
      curl_multi_remove_handle(s->client->multi, p->curl);
      http_attempt_close(s->client, p->curl, &p->attempt);
      free(p->attempt.receiving.body);
      free(p->attempt.receiving.link);
      s->running--;
    }
    if (p->state != PLACE_FREE) {
      snprintf(p->exchange->why, HTTP_WHY, "the requests cannot be driven on");
      fail(s, p);
    }
  }
  s->failed = true;
}

bool http_send_many(struct http_client *client, struct http_exchange *list, size_t count,
                    size_t window) {
  struct sending *s = calloc(1, sizeof *s);
  for (size_t i = 0; i < count; i++) {
    list[i].reply = (struct http_reply){0};
    list[i].sent = list[i].ok = false;
    snprintf(list[i].why, HTTP_WHY, "not sent, since another one failed");
  }
  if (!client->multi)
    client->multi = curl_multi_init();
  if (!s || !client->multi) {
    free(s);
    for (size_t i = 0; i < count; i++)
      snprintf(list[i].why, HTTP_WHY, "no memory for requests");
    return count == 0;
  }
  s->client = client;
  s->list = list;
  s->count = count;
  s->window = window < 1 ? 1 : window > WINDOW_MAX ? WINDOW_MAX : window;
  curl_multi_setopt(client->multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)s->window);
  curl_multi_setopt(client->multi, CURLMOPT_MAXCONNECTS, (long)s->window);
  while (is_busy(s)) {
    int running;
    begin_all(s);
    if (curl_multi_perform(client->multi, &running) != CURLM_OK) {
      give_up(s);
      break;
    }
    if (take_messages(s))
      continue;
    if (is_busy(s) && curl_multi_poll(client->multi, NULL, 0, idle_ms(s), NULL) != CURLM_OK)
      give_up(s);
  }
  bool ok = !s->failed;
  for (size_t i = 0; i < s->window; i++)
    curl_easy_cleanup(s->places[i].curl);
  free(s);
  return ok;
}

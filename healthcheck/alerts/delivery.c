/* SPDX-License-Identifier: Apache-2.0 */
/* Routes, and messages on their way: the secret is read by a thread of the loop's pool, for each
 * try anew; then the request is made and sent. */
#include <inttypes.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/secret.h"
#include "healthcheck/alerts/alerts_private.h"

enum { ROUTES_MAX = 1000, NAME_MAX_TEXT = 256, EVENT_ID = 32, KEY_MAX = 256 };

struct delivery {
  uv_work_t work;
  struct delivery *next;
  struct alerts *alerts; /* NULL: it has been closed meanwhile */
  uint64_t id;           /* of the message */
  json_t *secrets;
  char *name; /* of the secret */
  struct secret secret;
  bool ok;
  bool sending; /* the secret is read, or there is none */
  char why[SECRET_WHY];
};

static int64_t unix_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- routes -----------------------------------------------------------------------------------
 */

void alerts_free_routes(struct alerts_route *routes) {
  for (struct alerts_route *next; routes != NULL; routes = next) {
    next = routes->next;
    free(routes->name);
    free(routes->url);
    free(routes->secret);
    free(routes);
  }
}

static struct alerts_route *find_route(const struct alerts *alerts, const char *name) {
  struct alerts_route *route = alerts->routes;
  while (route != NULL && strcmp(route->name, name) != 0)
    route = route->next;
  return route;
}

static bool read_route(const char *name, const json_t *json, struct alerts_route **out, char *why) {
  const char *url = json_string_value(json_object_get(json, "url"));
  const char *secret = json_string_value(json_object_get(json, "secret"));
  int format = format_find(json_string_value(json_object_get(json, "format")));
  if (format < 0 || strlen(name) >= NAME_MAX_TEXT ||
      (secret == NULL && format_needs_secret((enum format)format, url != NULL))) {
    snprintf(why, ALERTS_WHY, "the alert route %.60s is not whole; build with this version again",
             name);
    return false;
  }
  struct alerts_route *route = calloc(1, sizeof *route);
  snprintf(why, ALERTS_WHY, "out of memory");
  if (route == NULL)
    return false;
  route->next = *out;
  *out = route;
  route->format = (enum format)format;
  route->name = strdup(name);
  route->url = url != NULL ? strdup(url) : NULL;
  route->secret = secret != NULL ? strdup(secret) : NULL;
  return route->name != NULL && (url == NULL || route->url != NULL) &&
         (secret == NULL || route->secret != NULL);
}

bool alerts_read_routes(const json_t *routes, struct alerts_route **out, char *why) {
  const char *name;
  json_t *json;
  *out = NULL;
  if (json_object_size(routes) > ROUTES_MAX) {
    snprintf(why, ALERTS_WHY, "more than %d alert routes", ROUTES_MAX);
    return false;
  }
  json_object_foreach((json_t *)routes, name, json) {
    if (read_route(name, json, out, why))
      continue;
    alerts_free_routes(*out);
    *out = NULL;
    return false;
  }
  return true;
}

static void remove_message(struct alerts *alerts, struct queue_message *message) {
  alerts_record(alerts, json_pack("{s:s, s:I}", "t", "sent", "id", (json_int_t)message->id));
  queue_done(alerts->queue, message, uv_now(alerts->loop) + 1);
}

static void drop_homeless(struct alerts *alerts) {
  struct queue_message *before = NULL;
  for (struct queue_message *m = queue_each(alerts->queue, NULL); m != NULL;
       m = queue_each(alerts->queue, before)) {
    if (m->in_flight || find_route(alerts, m->route) != NULL) {
      before = m;
      continue;
    }
    log_notice("alerts: a message to the route %s is dropped: the route is gone", m->route);
    remove_message(alerts, m);
  }
}

void alerts_take_routes(struct alerts *alerts, struct alerts_route *routes) {
  struct alerts_route *before = alerts->routes;
  alerts->routes = NULL;
  for (struct alerts_route *r = routes; r != NULL; r = r->next)
    for (const struct alerts_route *b = before; b != NULL; b = b->next)
      if (strcmp(b->name, r->name) == 0) {
        memcpy(r->error, b->error, sizeof r->error);
        r->error_since = b->error_since;
      }
  alerts_free_routes(before);
  alerts->routes = routes;
  drop_homeless(alerts);
}

json_t *alerts_failed_json(const struct alerts *alerts) {
  json_t *list = json_array();
  for (const struct alerts_route *r = alerts->routes; r != NULL && list != NULL; r = r->next)
    if (r->error[0] != '\0')
      json_array_append_new(list, json_pack("{s:s, s:s, s:I}", "route", r->name, "error", r->error,
                                            "since", (json_int_t)r->error_since));
  return list;
}

static void set_error(struct alerts *alerts, const char *name, const char *error) {
  struct alerts_route *route = find_route(alerts, name);
  if (route == NULL)
    return;
  if (error != NULL && strcmp(route->error, error) != 0)
    log_warning("alerts: route %s: %s", name, error);
  if (error == NULL && route->error[0] != '\0')
    log_notice("alerts: route %s works again", name);
  if (error != NULL && route->error[0] == '\0')
    route->error_since = unix_ms() / 1000;
  snprintf(route->error, sizeof route->error, "%s", error != NULL ? error : "");
}

/* ---- messages and records ---------------------------------------------------------------------
 */

json_t *alerts_head_record(const struct alerts *alerts) {
  return json_pack("{s:s, s:i, s:I}", "t", "head", "format", 1, "next",
                   (json_int_t)alerts->next_id);
}

json_t *alerts_message_record(const struct queue_message *m) {
  return json_pack("{s:s, s:I, s:s, s:s, s:O, s:I}", "t", "message", "id", (json_int_t)m->id,
                   "route", m->route, "key", m->key, "event", m->event, "born",
                   (json_int_t)m->born);
}

/* The same for each time that the event is sent, and for no other event. */
static void make_id(const struct alerts *alerts, const char *key, const json_t *event,
                    char out[EVENT_ID + 1]) {
  char text[1024];
  uint8_t hash[SHA256_DIGEST_LENGTH];
  const char *host = json_string_value(json_object_get(event, "host"));
  int length = snprintf(text, sizeof text, "%s|%" PRIu64 "|%.255s", key, alerts->next_id,
                        host != NULL ? host : "");
  SHA256((const uint8_t *)text, (size_t)length, hash);
  for (int i = 0; i < EVENT_ID / 2; i++)
    snprintf(out + 2 * i, 3, "%02x", hash[i]);
}

bool alerts_tell(void *arg, const char *route, const char *key, json_t *event) {
  static struct log_limit limit;
  struct alerts *alerts = arg;
  char id[EVENT_ID + 1];
  make_id(alerts, key, event, id);
  if (json_object_set_new(event, "id", json_string(id)) != 0) {
    json_decref(event);
    return false;
  }
  const struct queue_message *m =
      queue_add(alerts->queue, alerts->next_id, route, key, event, unix_ms());
  if (m == NULL) {
    log_limited(&limit, LOG_LEVEL_WARNING,
                "alerts: too many messages are waiting; route %s is told later", route);
    return false;
  }
  alerts->next_id++;
  alerts_record(alerts, alerts_message_record(m));
  log_limited(&limit, LOG_LEVEL_NOTICE, "alert to %s: %s: %s", route,
              json_string_value(json_object_get(event, "action")),
              json_string_value(json_object_get(event, "summary")));
  return true;
}

static const char *short_text(const json_t *record, const char *member, size_t most) {
  const json_t *value = json_object_get(record, member);
  size_t length = json_string_length(value);
  return length > 0 && length < most ? json_string_value(value) : NULL;
}

static bool restore_message(struct alerts *alerts, const json_t *record) {
  json_int_t id = json_integer_value(json_object_get(record, "id"));
  json_int_t born = json_integer_value(json_object_get(record, "born"));
  const char *route = short_text(record, "route", NAME_MAX_TEXT);
  const char *key = short_text(record, "key", KEY_MAX);
  json_t *event = json_object_get(record, "event");
  if (id <= 0 || born < 0 || route == NULL || key == NULL || !json_is_object(event))
    return false;
  if ((uint64_t)id >= alerts->next_id)
    alerts->next_id = (uint64_t)id + 1;
  return queue_find(alerts->queue, (uint64_t)id) != NULL ||
         queue_add(alerts->queue, (uint64_t)id, route, key, json_incref(event), born) != NULL;
}

bool alerts_restore_message(struct alerts *alerts, const json_t *record) {
  const char *kind = json_string_value(json_object_get(record, "t"));
  if (kind == NULL)
    return false;
  if (strcmp(kind, "message") == 0)
    return restore_message(alerts, record);
  json_int_t id = json_integer_value(json_object_get(record, "id"));
  if (strcmp(kind, "head") == 0) {
    json_int_t next = json_integer_value(json_object_get(record, "next"));
    if (next > 0 && (uint64_t)next > alerts->next_id)
      alerts->next_id = (uint64_t)next;
    return json_integer_value(json_object_get(record, "format")) == 1;
  }
  if (strcmp(kind, "sent") != 0 || id <= 0)
    return false;
  struct queue_message *message = queue_find(alerts->queue, (uint64_t)id);
  if (message != NULL)
    queue_done(alerts->queue, message, 0);
  return true;
}

/* ---- sending ----------------------------------------------------------------------------------
 */

static void free_delivery(struct delivery *d) {
  secret_wipe(&d->secret);
  json_decref(d->secrets);
  free(d->name);
  free(d);
}

static void unlink_delivery(struct delivery *d) {
  struct delivery **at = &d->alerts->deliveries;
  while (*at != d)
    at = &(*at)->next;
  *at = d->next;
}

static void try_later(struct alerts *alerts, struct queue_message *message, const char *error,
                      uint64_t after_ms) {
  set_error(alerts, message->route, error);
  if (queue_failed(alerts->queue, message, after_ms, uv_now(alerts->loop) + 1, unix_ms()))
    return;
  log_warning("alerts: a message to %s is given up after a day: %s", message->route, error);
  remove_message(alerts, message);
}

/* After a delivery has ended. */
static void go_on(struct alerts *alerts) {
  if (!alerts->closing)
    alerts_wake(alerts);
  else if (alerts->deliveries == NULL)
    alerts_finish(alerts);
}

static void on_sent(void *arg, const struct sender_result *result) {
  static struct log_limit limit;
  struct delivery *d = arg;
  struct alerts *alerts = d->alerts;
  struct queue_message *message = queue_find(alerts->queue, d->id);
  unlink_delivery(d);
  free_delivery(d);
  if (message == NULL) {
    go_on(alerts);
    return;
  }
  switch (result->verdict) {
  case SENDER_THROUGH:
    set_error(alerts, message->route, NULL);
    remove_message(alerts, message);
    break;
  case SENDER_LATER:
    try_later(alerts, message, result->error, result->after_ms);
    break;
  case SENDER_REFUSED:
    set_error(alerts, message->route, result->error);
    log_limited(&limit, LOG_LEVEL_WARNING, "alerts: a message to %s is given up: %s",
                message->route, result->error);
    remove_message(alerts, message);
  }
  drop_homeless(alerts);
  alerts_save(alerts); /* at once: what is through is not sent again after a crash */
  go_on(alerts);
}

static void post(struct alerts *alerts, struct delivery *d) {
  struct queue_message *message = queue_find(alerts->queue, d->id);
  const struct alerts_route *route = message != NULL ? find_route(alerts, message->route) : NULL;
  struct format_request request;
  d->sending = true;
  char why[FORMAT_WHY] = "out of memory";
  if (route != NULL && d->ok && !alerts->closing &&
      format_make(route->format, route->url, d->secret.text, message->event, &request, why)) {
    secret_wipe(&d->secret);
    if (sender_post(alerts->sender, &request, on_sent, d))
      return;
  }
  unlink_delivery(d);
  if (message != NULL && (route == NULL || alerts->closing))
    queue_back(alerts->queue, message);
  else if (message != NULL)
    try_later(alerts, message, d->ok ? why : d->why, 0);
  free_delivery(d);
  drop_homeless(alerts);
  go_on(alerts);
}

static void read_secret(uv_work_t *work) {
  struct delivery *d = work->data;
  d->ok = secret_read(d->secrets, d->name, &d->secret, d->why);
}

static void on_secret(uv_work_t *work, int status) {
  struct delivery *d = work->data;
  if (d->alerts == NULL) {
    free_delivery(d);
    return;
  }
  if (status != 0)
    d->ok = false;
  post(d->alerts, d);
}

static void deliver(struct alerts *alerts, struct queue_message *message) {
  const struct alerts_route *route = find_route(alerts, message->route);
  struct delivery *d = route != NULL ? calloc(1, sizeof *d) : NULL;
  if (d == NULL) {
    try_later(alerts, message, "out of memory", 0);
    return;
  }
  d->work.data = d;
  d->alerts = alerts;
  d->id = message->id;
  d->ok = true;
  d->next = alerts->deliveries;
  alerts->deliveries = d;
  if (route->secret == NULL) {
    post(alerts, d);
    return;
  }
  d->secrets = json_incref(alerts->secrets);
  d->name = strdup(route->secret);
  if (d->name != NULL && uv_queue_work(alerts->loop, &d->work, read_secret, on_secret) == 0)
    return;
  unlink_delivery(d);
  free_delivery(d);
  try_later(alerts, message, "out of memory", 0);
}

void alerts_send(struct alerts *alerts, const struct moment *now) {
  for (struct queue_message *m; (m = queue_next(alerts->queue, now->mono)) != NULL;)
    deliver(alerts, m);
}

void alerts_end_jobs(struct alerts *alerts) {
  for (struct delivery *d = alerts->deliveries, *next; d != NULL; d = next) {
    next = d->next;
    d->next = NULL;
    /* One that waits for its secret is freed when that is read; one that is sent, by nobody else.
     */
    if (d->name != NULL && !d->sending)
      d->alerts = NULL;
    else
      free_delivery(d);
  }
  alerts->deliveries = NULL;
}

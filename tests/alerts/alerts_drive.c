/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Alerts on a real loop, with facts from standard input, one JSON object a line:
 *   {"do":"configure","routes":{...},"domains":[{zones/domain_json.h, "team","alerts"}]}
 *   {"do":"health","domain":N,"endpoint":NAME,"state":"up"|"down"|"unknown","why":TEXT,"quiet":B}
 *   {"do":"overrides","list":[...]}
 *   {"do":"isolated","value":B}
 *   {"do":"json"}            prints alerts_json() as one line
 *   {"do":"turns"}           prints how often the loop has turned
 *   {"do":"worst"}           prints the longest time between two turns since the last asking, in ms
 * The end of the input ends the program.
 *
 *   alerts_drive OPTIONS    {"spool","secrets","allow","group_ms","quiet_ms"}
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "healthcheck/alerts.h"
#include "zones/domain_json.h"

enum { LINE_ROOM = 8 << 20, TICK_MS = 5 };

static uv_loop_t loop;
static uv_pipe_t input;
static uv_timer_t ticker;
static unsigned long long turns;
static unsigned long long worst, last_turn;
static struct alerts *alerts;
static struct steer_domain **steers;
static size_t steer_count;
static char *line;
static size_t used;

static void die(const char *what) {
  fprintf(stderr, "alerts_drive: %s\n", what);
  exit(2);
}

static void free_steers(void) {
  for (size_t i = 0; i < steer_count; i++)
    steer_domain_free(steers[i]);
  free(steers);
}

static void configure(const json_t *request) {
  const json_t *list = json_object_get(request, "domains");
  size_t count = json_array_size(list);
  struct steer_domain **made = calloc(count + 1, sizeof *made);
  struct alerts_domain *domains = calloc(count + 1, sizeof *domains);
  char why[ALERTS_WHY];
  if (made == NULL || domains == NULL)
    die("out of memory");
  for (size_t i = 0; i < count; i++) {
    const json_t *json = json_array_get(list, i);
    made[i] = domain_json_decode(json, why);
    if (made[i] == NULL)
      die(why);
    domains[i] = (struct alerts_domain){made[i], json_string_value(json_object_get(json, "team")),
                                        json_object_get(json, "alerts")};
  }
  if (!alerts_configure(alerts, json_object_get(request, "routes"), domains, count, why))
    die(why);
  free_steers();
  steers = made;
  steer_count = count;
  free(domains);
}

static void set_health(const json_t *request) {
  size_t domain = (size_t)json_integer_value(json_object_get(request, "domain"));
  const char *name = json_string_value(json_object_get(request, "endpoint"));
  const char *state = json_string_value(json_object_get(request, "state"));
  if (domain >= steer_count || name == NULL || state == NULL)
    die("health of what?");
  long endpoint = steer_endpoint_find(steers[domain], name);
  if (endpoint < 0)
    die("no such endpoint");
  enum steer_health health = HEALTH_UNKNOWN;
  if (strcmp(state, "unknown") != 0)
    health = strcmp(state, "up") == 0 ? HEALTH_UP : HEALTH_DOWN;
  alerts_health(alerts, (uint32_t)domain, (uint16_t)endpoint, health, health,
                json_string_value(json_object_get(request, "why")),
                json_is_true(json_object_get(request, "quiet")));
}

static void print_json(void) {
  json_t *json = alerts_json(alerts);
  char *text = json_dumps(json, JSON_COMPACT);
  printf("%s\n", text);
  fflush(stdout);
  free(text);
  json_decref(json);
}

static void run(const char *text, size_t length) {
  json_t *request = json_loadb(text, length, 0, NULL);
  const char *what = json_string_value(json_object_get(request, "do"));
  if (what == NULL)
    die("a line that is no request");
  if (strcmp(what, "configure") == 0)
    configure(request);
  else if (strcmp(what, "health") == 0)
    set_health(request);
  else if (strcmp(what, "overrides") == 0)
    alerts_overrides(alerts, json_object_get(request, "list"));
  else if (strcmp(what, "isolated") == 0)
    alerts_isolated(alerts, json_is_true(json_object_get(request, "value")));
  else if (strcmp(what, "json") == 0)
    print_json();
  else if (strcmp(what, "turns") == 0)
    printf("%llu\n", turns), fflush(stdout);
  else if (strcmp(what, "worst") == 0)
    printf("%llu\n", worst), fflush(stdout), worst = 0;
  else
    die("unknown request");
  json_decref(request);
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buf) {
  (void)handle;
  (void)suggested;
  *buf = uv_buf_init(line + used, (unsigned)(LINE_ROOM - used));
}

static void on_input(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf) {
  (void)buf;
  if (count < 0) {
    uv_close((uv_handle_t *)stream, NULL);
    uv_close((uv_handle_t *)&ticker, NULL);
    alerts_close(alerts);
    return;
  }
  used += (size_t)count;
  size_t at = 0;
  for (char *end; (end = memchr(line + at, '\n', used - at)) != NULL;) {
    size_t length = (size_t)(end - line) - at;
    run(line + at, length);
    at += length + 1;
  }
  memmove(line, line + at, used - at);
  used -= at;
}

static void on_turn(uv_timer_t *timer) {
  (void)timer;
  unsigned long long now = uv_hrtime() / 1000000;
  if (turns++ > 0 && now - last_turn > worst)
    worst = now - last_turn;
  last_turn = now;
}

int main(int argc, char **argv) {
  char why[ALERTS_WHY];
  json_t *json = argc == 2 ? json_loads(argv[1], 0, NULL) : NULL;
  if (json == NULL)
    die("the options as one JSON object");
  const struct alerts_options options = {
      .spool = json_string_value(json_object_get(json, "spool")),
      .secrets = json_object_get(json, "secrets"),
      .allow = json_object_get(json, "allow"),
      .group_ms = (uint32_t)json_integer_value(json_object_get(json, "group_ms")),
      .quiet_ms = (uint32_t)json_integer_value(json_object_get(json, "quiet_ms")),
  };
  log_setup("alerts_drive", LOG_FORMAT_TEXT, LOG_LEVEL_DEBUG);
  uv_loop_init(&loop);
  line = malloc(LINE_ROOM);
  alerts = alerts_open(&loop, &options, why);
  if (alerts == NULL || line == NULL) {
    uv_run(&loop, UV_RUN_DEFAULT);
    fprintf(stderr, "alerts_drive: %s\n", why);
    json_decref(json);
    free(line);
    return 1;
  }
  json_decref(json);
  uv_timer_init(&loop, &ticker);
  uv_timer_start(&ticker, on_turn, TICK_MS, TICK_MS);
  uv_pipe_init(&loop, &input, 0);
  uv_pipe_open(&input, 0);
  uv_read_start((uv_stream_t *)&input, on_room, on_input);
  log_notice("ready");
  uv_run(&loop, UV_RUN_DEFAULT);
  free_steers();
  free(line);
  return uv_loop_close(&loop) == 0 ? 0 : 3;
}

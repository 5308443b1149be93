/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/alerts/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/secret.h"

static const char *const names[] = {"pagerduty", "slack", "json"};

int format_find(const char *name) {
  for (int i = FORMAT_PAGERDUTY; name != NULL && i <= FORMAT_JSON; i++)
    if (strcmp(name, names[i]) == 0)
      return i;
  return -1;
}

bool format_needs_secret(enum format format, bool has_url) {
  return format != FORMAT_JSON || !has_url;
}

void format_close(struct format_request *request) {
  secret_wipe_text(request->url);
  secret_wipe_text(request->body);
  secret_wipe_text(request->authorization);
  *request = (struct format_request){NULL, NULL, NULL};
}

static const char *text_of(const json_t *event, const char *member) {
  const char *text = json_string_value(json_object_get(event, member));
  return text != NULL ? text : "";
}

static bool is_resolve(const json_t *event) {
  return strcmp(text_of(event, "action"), "resolve") == 0;
}

/* ---- PagerDuty --------------------------------------------------------------------------------
 */

/* What is special about the event, for the incident's page. */
static json_t *custom_details(const json_t *event) {
  static const char *const left_out[] = {"action",   "key",     "id",  "kind",
                                         "severity", "summary", "time"};
  json_t *details = json_copy((json_t *)event);
  for (size_t i = 0; details != NULL && i < sizeof left_out / sizeof *left_out; i++)
    json_object_del(details, left_out[i]);
  return details;
}

static json_t *pagerduty_payload(const json_t *event) {
  char component[300];
  const char *domain = text_of(event, "domain");
  const char *region = text_of(event, "region");
  const char *owner = text_of(event, "owner");
  const char *type = text_of(event, "type");
  if (region[0] != '\0')
    snprintf(component, sizeof component, "region %.200s (%.20s)", region, type);
  else
    snprintf(component, sizeof component, "%.200s",
             text_of(event, "endpoint")[0] != '\0' ? text_of(event, "endpoint") : "sluice");
  return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o}", "summary", text_of(event, "summary"),
                   "source", domain[0] != '\0' ? domain : text_of(event, "host"), "severity",
                   text_of(event, "severity"), "timestamp", text_of(event, "time"), "component",
                   component, "group", owner[0] != '\0' ? owner : "sluice", "class",
                   text_of(event, "kind"), "custom_details", custom_details(event));
}

/* As a JSON text. */
static void add_quoted(struct buf *out, const char *secret) {
  buf_add_u8(out, '"');
  for (; *secret != '\0'; secret++) {
    if (*secret == '"' || *secret == '\\')
      buf_add_u8(out, '\\');
    buf_add_u8(out, (uint8_t)*secret);
  }
  buf_add_u8(out, '"');
}

/* The routing key is put in by hand, so that no copy of it stays in memory that is not wiped.  Room
 * is made before, so that the buffer does not move. */
static char *pagerduty_body(const json_t *event, const char *key) {
  json_t *document =
      json_pack("{s:s, s:s, s:s}", "event_action", is_resolve(event) ? "resolve" : "trigger",
                "dedup_key", text_of(event, "key"), "client", "sluice");
  if (document != NULL && !is_resolve(event) &&
      json_object_set_new(document, "payload", pagerduty_payload(event)) != 0) {
    json_decref(document);
    return NULL;
  }
  char *rest = document != NULL ? json_dumps(document, JSON_COMPACT) : NULL;
  json_decref(document);
  if (rest == NULL)
    return NULL;
  struct buf out;
  buf_init(&out);
  buf_reserve(&out, strlen(rest) + 2 * strlen(key) + 64);
  buf_add_str(&out, "{\"routing_key\":");
  add_quoted(&out, key);
  buf_add_u8(&out, ',');
  buf_add_str(&out, rest + 1);
  buf_add_u8(&out, '\0');
  free(rest);
  if (!out.failed)
    return (char *)out.data;
  buf_close(&out);
  return NULL;
}

/* ---- Slack ------------------------------------------------------------------------------------
 */

/* Slack's three control characters as it wants them. */
static void add_escaped(struct buf *out, const char *text) {
  for (; *text != '\0'; text++) {
    if (*text == '&')
      buf_add_str(out, "&amp;");
    else if (*text == '<')
      buf_add_str(out, "&lt;");
    else if (*text == '>')
      buf_add_str(out, "&gt;");
    else
      buf_add_u8(out, (uint8_t)*text);
  }
}

static const char *slack_mark(const json_t *event) {
  const char *severity = text_of(event, "severity");
  if (is_resolve(event))
    return ":white_check_mark: resolved";
  if (strcmp(severity, "critical") == 0)
    return ":rotating_light: critical";
  if (strcmp(severity, "error") == 0)
    return ":red_circle: error";
  if (strcmp(severity, "warning") == 0)
    return ":warning: warning";
  return ":information_source: info";
}

static void add_context(struct buf *out, const json_t *event) {
  const char *owner = text_of(event, "owner");
  buf_add_str(out, text_of(event, "kind"));
  if (owner[0] != '\0') {
    buf_add_str(out, " | ");
    add_escaped(out, owner);
  }
  buf_add_str(out, " | since ");
  buf_add_str(out, text_of(event, "since"));
  buf_add_str(out, " | ");
  add_escaped(out, text_of(event, "host"));
}

static char *slack_body(const json_t *event) {
  struct buf text;
  struct buf context;
  char *out = NULL;
  buf_init(&text);
  buf_init(&context);
  buf_printf(&text, "%s: ", slack_mark(event));
  add_escaped(&text, text_of(event, "summary"));
  add_context(&context, event);
  const char *line = buf_text(&text);
  json_t *document =
      json_pack("{s:s, s:[{s:s, s:{s:s, s:s}}, {s:s, s:[{s:s, s:s}]}]}", "text", line, "blocks",
                "type", "section", "text", "type", "mrkdwn", "text", line, "type", "context",
                "elements", "type", "mrkdwn", "text", buf_text(&context));
  if (document != NULL && !text.failed && !context.failed)
    out = json_dumps(document, JSON_COMPACT);
  json_decref(document);
  buf_close(&text);
  buf_close(&context);
  return out;
}

/* ---- all --------------------------------------------------------------------------------------
 */

static bool is_url(const char *text) {
  return strncmp(text, "https://", 8) == 0 || strncmp(text, "http://", 7) == 0;
}

static bool fail(struct format_request *out, char *why, const char *reason) {
  format_close(out);
  snprintf(why, FORMAT_WHY, "%s", reason);
  return false;
}

bool format_make(enum format format, const char *url, const char *secret, const json_t *event,
                 struct format_request *out, char *why) {
  bool in_url = format == FORMAT_SLACK || (format == FORMAT_JSON && url == NULL);
  *out = (struct format_request){NULL, NULL, NULL};
  if (secret == NULL && format_needs_secret(format, url != NULL))
    return fail(out, why, "the route has no secret");
  if (in_url && !is_url(secret))
    return fail(out, why, "the route's secret must be the URL of the webhook (https://...)");
  if (in_url)
    out->url = strdup(secret);
  else
    out->url = strdup(url != NULL ? url : FORMAT_PAGERDUTY_URL);
  if (format == FORMAT_PAGERDUTY)
    out->body = pagerduty_body(event, secret);
  else if (format == FORMAT_SLACK)
    out->body = slack_body(event);
  else
    out->body = json_dumps(event, JSON_COMPACT | JSON_SORT_KEYS);
  bool bearer = format == FORMAT_JSON && !in_url && secret != NULL;
  if (bearer && asprintf(&out->authorization, "Authorization: Bearer %s", secret) < 0)
    out->authorization = NULL;
  if (out->url == NULL || out->body == NULL || (bearer && out->authorization == NULL))
    return fail(out, why, "out of memory");
  return true;
}

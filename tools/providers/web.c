/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/providers/web.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"

struct http_options web_options(const struct provider_context *context) {
  return (struct http_options){.deadline_ms = context->deadline_ms,
                               .read_only = context->read_only};
}

char *web_base(const char *url, const char *suffix) {
  size_t len = strlen(url);
  char *base;
  while (len > 0 && url[len - 1] == '/')
    len--;
  return asprintf(&base, "%.*s%s", (int)len, url, suffix) < 0 ? NULL : base;
}

bool web_no_memory(const char *provider, struct provider_error *error) {
  return provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", provider);
}

char *web_secret(const struct provider_context *context, const char *before, const char *what,
                 struct provider_error *error) {
  const char *name = json_string_value(json_object_get(context->settings, "secret"));
  char text[SECRET_MAX + 1];
  char why[SECRET_WHY] = "there are no secrets";
  char *out;
  if (!name) {
    provider_fail(error, PROVIDER_LOCAL, "%s: `secret` is missing: the name of the secret with %s",
                  context->name, what);
    return NULL;
  }
  if (!context->secret || !context->secret(context->secret_arg, name, text, sizeof text, why)) {
    provider_fail(error, PROVIDER_LOCAL, "%s: secret %.100s: %.300s", context->name, name, why);
    return NULL;
  }
  if (asprintf(&out, "%s%s", before, text) < 0) {
    out = NULL;
    web_no_memory(context->name, error);
  }
  explicit_bzero(text, sizeof text);
  return out;
}

bool web_reply_text(const struct http_reply *reply, const char *key, char *out, size_t size) {
  json_t *json = json_loadb(reply->body, reply->body_len, 0, NULL);
  const char *text = json_string_value(json_object_get(json, key));
  snprintf(out, size, "%.*s", (int)strcspn(text ? text : "", "\r\n"), text ? text : "");
  bool found = text;
  json_decref(json);
  return found;
}

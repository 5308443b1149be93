/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Amazon Route 53 by its REST API (docs.aws.amazon.com/Route53/latest/APIReference, 2013-04-01):
 * steering as geolocation, failover and weighted record sets with health checks.
 *
 * Changes are sent in batches, each of which is all or nothing, and count once Route 53 says that
 * they are INSYNC.  Health checks are made before the records that use them and removed after the
 * records that used them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"
#include "tools/providers/route53_private.h"
#include "tools/providers/web.h"

/* ---- open and close ------------------------------------------------------------------------- */

void route53_forget(struct route53 *r) {
  for (size_t i = 0; i < r->check_page_count; i++)
    xmlFreeDoc(r->check_pages[i]);
  free(r->check_pages);
  json_decref(r->checks);
  json_decref(r->zones);
  json_decref(r->read);
  r->check_pages = NULL;
  r->check_page_count = 0;
  r->checks_listed = false;
  r->checks = r->zones = r->read = NULL;
}

static void r53_close(void *self) {
  struct route53 *r = self;
  if (!r)
    return;
  route53_forget(r);
  http_close(r->http);
  secret_wipe_text(r->credentials);
  secret_wipe_text(r->token);
  free(r->name);
  free(r->base);
  free(r->marker);
  free(r);
}

/* "KEY_ID:SECRET_KEY[:SESSION_TOKEN]" into the two that libcurl wants, and the token's header. */
static bool take_secret(const struct provider_context *context, struct route53 *r,
                        struct provider_error *error) {
  static const char form[] =
      "the access key, as KEY_ID:SECRET_KEY or KEY_ID:SECRET_KEY:SESSION_TOKEN";
  char *text = web_secret(context, "", form, error);
  if (!text)
    return false;
  char *key = strchr(text, ':');
  char *token = key ? strchr(key + 1, ':') : NULL;
  bool ok = key && key > text && key[1] && key + 1 != token &&
            (!token || (token[1] && !strchr(token + 1, ':'))) &&
            strcspn(text, " \t\r\n") == strlen(text);
  if (ok && token) {
    *token = '\0';
    if (asprintf(&r->token, "X-Amz-Security-Token: %s", token + 1) < 0)
      r->token = NULL;
    explicit_bzero(token + 1, strlen(token + 1));
  }
  r->credentials = ok ? strdup(text) : NULL;
  secret_wipe_text(text);
  if (!ok)
    return provider_fail(error, PROVIDER_LOCAL, "%s: secret %.100s is none: write %s",
                         context->name,
                         json_string_value(json_object_get(context->settings, "secret")), form);
  return r->credentials && (!token || r->token) ? true : web_no_memory(context->name, error);
}

/* These come with status 400, and nothing was done. */
static enum http_again again(const struct http_reply *reply) {
  static const char *const codes[] = {"Throttling", "ThrottlingException", "RequestLimitExceeded",
                                      "PriorRequestNotComplete", "TooManyRequestsException",
                                      /* until the change that no longer uses it is everywhere: that
                                       * of a run that was killed is known to nobody */
                                      "HealthCheckInUse"};
  for (size_t i = 0; reply->status == 400 && i < sizeof codes / sizeof *codes; i++) {
    char text[100];
    snprintf(text, sizeof text, "<Code>%s</Code>", codes[i]);
    if (strstr(reply->body, text))
      return HTTP_RETRY_LATER;
  }
  return HTTP_NO;
}

static void *r53_open(const struct provider_context *context, struct provider_error *error) {
  const char *url = json_string_value(json_object_get(context->settings, "url"));
  const char *marker = context->marker ? context->marker : "sluice";
  if (strlen(marker) > 32 || strpbrk(marker, " :")) {
    provider_fail(error, PROVIDER_LOCAL,
                  "%s: `marker` must be at most 32 characters without spaces and colons",
                  context->name);
    return NULL;
  }
  struct route53 *r = calloc(1, sizeof *r);
  if (!r) {
    web_no_memory(context->name, error);
    return NULL;
  }
  struct http_options options = web_options(context);
  options.again = again;
  r->name = strdup(context->name);
  r->base = web_base(url ? url : "https://route53.amazonaws.com", "/2013-04-01");
  r->marker = strdup(marker);
  r->read_only = context->read_only;
  r->http = http_open(&options);
  rng_seed_kernel(&r->rng);
  if (!r->name || !r->base || !r->marker || !r->http)
    web_no_memory(context->name, error);
  else if (take_secret(context, r, error))
    return r;
  r53_close(r);
  return NULL;
}

/* ---- compile -------------------------------------------------------------------------------- */

static bool r53_compile(void *self, const struct provider_domain *domain,
                        struct provider_objects *out, struct provider_fidelity *fidelity,
                        struct provider_error *error) {
  struct route53 *r = self;
  return route53_compile(r->name, r->marker, domain, out, fidelity, error);
}

static json_t *r53_decompile(void *self, const struct provider_object *const *objects, size_t count,
                             struct provider_error *error) {
  struct route53 *r = self;
  return route53_decompile(r->name, objects, count, error);
}

const struct provider_kind provider_route53 = {
    .type = "route53",
    .can = {.steers = true,
            .marks = false,
            .apex_ns = true,
            .names_servers = true,
            .atomic = false,
            .one_reader = true,
            .weight_max = ROUTE53_WEIGHT_MAX,
            .pushed = true,
            .native = true},
    .open = r53_open,
    .close = r53_close,
    .read = route53_read,
    .compile = r53_compile,
    .decompile = r53_decompile,
    .apply = route53_apply,
    .servers = route53_servers,
    .create_zone = route53_create_zone,
    .delete_zone = route53_delete_zone,
};

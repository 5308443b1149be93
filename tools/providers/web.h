/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kinds of providers with an HTTP API begin with: an address, a secret that goes into a header
 * field, and what an error's reply says.  Requests themselves are base/http.h's.
 */
#ifndef SLUICE_TOOLS_PROVIDERS_WEB_H
#define SLUICE_TOOLS_PROVIDERS_WEB_H

#include "base/http.h"
#include "tools/providers/provider.h"

/* The options of a client as the context says. */
struct http_options web_options(const struct provider_context *context);

/* The address without slashes at its end, then `suffix`: malloc'd, NULL without memory. */
char *web_base(const char *url, const char *suffix);

/*
 * The text of the secret that the settings name (`secret`), behind `before` ("X-API-Key: "): to be
 * freed with secret_wipe_text().  NULL with an error that says what the secret is to hold
 * (`what`: "the API key").
 */
char *web_secret(const struct provider_context *context, const char *before, const char *what,
                 struct provider_error *error);

/* The text under `key` of a reply that is a JSON object, in one line; false: there is none. */
bool web_reply_text(const struct http_reply *reply, const char *key, char *out, size_t size);

/* False, with the error. */
bool web_no_memory(const char *provider, struct provider_error *error);

#endif

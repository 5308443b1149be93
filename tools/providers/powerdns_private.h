/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the PowerDNS provider share.  Not for use outside of
 * tools/providers/powerdns*.c.
 */
#ifndef SLUICE_TOOLS_PROVIDERS_POWERDNS_PRIVATE_H
#define SLUICE_TOOLS_PROVIDERS_POWERDNS_PRIVATE_H

#include "base/http.h"
#include "tools/providers/powerdns_lua.h"
#include "tools/providers/provider.h"

struct powerdns {
  char *name;          /* of the provider, for messages */
  char *base;          /* ".../api/v1/servers/localhost" */
  char *secret_header; /* "X-API-Key: ..." */
  char *marker;
  bool read_only;
  struct http_client *http;
  struct powerdns_server server; /* as its settings say, once they were asked for */
  bool asked;                    /* for them */
  char *zone;                    /* that was read last; or NULL */
  json_t *rrsets;                /* its RRsets as read: "NAME/TYPE" -> RRset of the API */
  bool secondary;                /* it gets this zone from elsewhere */
};

/* The comment that marks an RRset as ours; its account is the marker. */
#define POWERDNS_COMMENT "managed by sluice; changes by hand are undone"

/*
 * Objects of a zone document (GET zones/ZONE), and the map of its RRsets.  Our LUA records become
 * one object for each type, with the key of a plain RRset of that type, so that one replaces the
 * other.  `document` is hostile; what is beyond the model becomes opaque.
 */
bool powerdns_read_document(const char *provider, const char *zone, const json_t *document,
                            struct provider_objects *out, json_t **rrsets, bool *secondary,
                            struct provider_error *error);

/* The object of one of our LUA records; takes nothing over.  NULL without memory. */
struct provider_object *powerdns_add_lua(struct provider_objects *out, const char *name,
                                         const char *type, uint32_t ttl, const char *content);

/* Octets of one PATCH; the server takes 2 MB (webserver-max-bodysize). */
enum { POWERDNS_BODY = 1 << 20 };

/*
 * The bodies of the PATCHes that do the changes, from the RRsets as last read: an array, empty if
 * nothing would change; NULL with an error.  More than one only if it would be too large; all
 * RRsets of a name are in the same.  *lua becomes true if LUA records are written.
 */
json_t *powerdns_patch(const char *provider, const char *marker, const json_t *rrsets,
                       const struct provider_change *changes, size_t count, bool *lua,
                       struct provider_error *error);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the Route 53 provider share.  Not for use outside of
 * tools/providers/route53*.c.
 *
 * Objects are resource record sets and health checks.  Bodies:
 *   weighted   {"weight", "ttl", "values", "health": KEY if checked}
 *   failover   {"failover": "PRIMARY"|"SECONDARY", "alias": NAME, "evaluate": true}
 *   geo        {"geo": "global"|"continent:eu"|..., "alias": NAME, "evaluate": false}
 *   health     {"type", "address"|"host", "port", "path", "search", "sni", "interval", "threshold",
 *               "disabled", "inverted"}
 * KEY is made from the names of zone, domain, endpoint and type, and is part of the check's
 * CallerReference: the id that AWS gives appears in no body.
 */
#ifndef SLUICE_TOOLS_PROVIDERS_ROUTE53_PRIVATE_H
#define SLUICE_TOOLS_PROVIDERS_ROUTE53_PRIVATE_H

#include <libxml/tree.h>

#include "base/buf.h"
#include "base/http.h"
#include "base/name.h"
#include "base/rng.h"
#include "tools/providers/provider.h"

enum {
  ROUTE53_KEY = 25,           /* hexadecimal digits of a health check's key, and NUL */
  ROUTE53_IDENTIFIER = 129,   /* SetIdentifier */
  ROUTE53_GROUP_MAX = 100,    /* weighted sets of one name and type */
  ROUTE53_RECORDS_MAX = 1000, /* of one batch */
  ROUTE53_VALUES_MAX = 32000, /* characters of one batch */
  ROUTE53_WEIGHT_MAX = 255,
  ROUTE53_SEARCH_MAX = 255,  /* octets that a check looks for in a body */
  ROUTE53_XML_MAX = 8 << 20, /* octets of one reply */
  ROUTE53_ID = 64,           /* of zones, changes and health checks, with NUL */
};

#define ROUTE53_NAMESPACE "https://route53.amazonaws.com/doc/2013-04-01/"
#define ROUTE53_HEALTH "HEALTHCHECK" /* type of the objects that are health checks */

/* ---- names and texts ------------------------------------------------------------------------ */

/* The name as all kinds write it, from Route 53's with its octal escapes; false: no name. */
bool route53_name(const char *text, char out[NAME_MAX_TEXT]);

/* Escapes of record data: `\DDD` decimal (ours) to octal (theirs), and back.  malloc'd. */
char *route53_octal(const char *text);
char *route53_octal_name(const char *text);
char *route53_decimal(const char *text);

/* "_st-REGION-p1.DOMAIN": the helper name of a level (kind 'p') or of a failover pair ('f'). */
bool route53_helper(const char *domain, const char *region, char kind, unsigned level,
                    char out[NAME_MAX_TEXT]);

/* The domain that a helper name belongs to, and its kind and level; false: it is none. */
bool route53_helper_domain(const char *name, char out[NAME_MAX_TEXT], char *kind, unsigned *level);

/* The first 24 hexadecimal digits of SHA-256 over the texts (the list ends with NULL). */
bool route53_digest(const char *const *texts, char out[ROUTE53_KEY]);

/* ---- compile and decompile ------------------------------------------------------------------ */

/* Adds an object with the key NAME/TYPE[/IDENTIFIER]; the body's reference is taken over. */
struct provider_object *route53_add(struct provider_objects *out, const char *name,
                                    const char *type, const char *identifier, const char *domain,
                                    const char *owner, json_t *body);

bool route53_compile(const char *provider, const char *marker, const struct provider_domain *domain,
                     struct provider_objects *out, struct provider_fidelity *fidelity,
                     struct provider_error *error);

json_t *route53_decompile(const char *provider, const struct provider_object *const *objects,
                          size_t count, struct provider_error *error);

/* Weights from 0 to 255 in place of `weights`, by largest remainder; none becomes 0.  Returns the
 * largest error of a share, whichever of the entries are up. */
double route53_scale(const uint32_t *weights, size_t count, uint32_t *out);

/* The body of the health check of an endpoint; NULL: none is needed (or, with *why, possible). */
json_t *route53_check(const struct provider_domain *domain, uint32_t endpoint, enum steer_type type,
                      const char **why);

/* ---- XML ------------------------------------------------------------------------------------ */

/* Parses a reply: no DTD, no entities, no network.  NULL: it is no XML, or its root is another. */
xmlDoc *route53_parse(const char *text, size_t len, const char *root);

/* The first child element with this name, or NULL; its text, or NULL; malloc'd. */
xmlNode *route53_child(const xmlNode *node, const char *name);
char *route53_text(const xmlNode *node, const char *name);

/* What reading gathers over all pages. */
struct route53_reading {
  const char *marker;
  const char *zone;
  const char *prefix; /* of the CallerReferences of this zone's health checks */
  struct provider_objects *out;
  json_t *checks; /* KEY -> {"id", "version", "domain"} */
  json_t *ids;    /* id -> KEY */
  json_t *seen;   /* keys of the objects: none comes twice */
  char why[200];
};

/* Takes one page in; false with `why` ("" without memory). */
bool route53_read_sets(struct route53_reading *r, const xmlNode *root);
bool route53_read_checks(struct route53_reading *r, const xmlNode *root);

/* Adds the public zones of a page: name -> [id...].  False if one has no proper id, or without
 * memory. */
bool route53_read_zones(json_t *zones, const xmlNode *root);

/* Gives health checks the domain of the records that use them. */
bool route53_link_checks(struct route53_reading *r);

/* One change of a batch as XML.  `action` "CREATE", "UPSERT" or "DELETE" (then as it was read).
 * `ids`: KEY -> {"id"}; *records and *chars grow by what counts against the limits. */
bool route53_write_change(struct buf *out, const char *action, const struct provider_object *object,
                          const json_t *ids, const char *alias_zone, size_t *records,
                          size_t *chars);

/* Documents of CreateHealthCheck and UpdateHealthCheck (`version` > 0). */
bool route53_write_check(struct buf *out, const json_t *body, const char *reference,
                         long long version);

/* ---- batches -------------------------------------------------------------------------------- */

/* One batch: changes in the order in which they are sent, which never leaves a name empty. */
struct route53_batch {
  const struct provider_change **changes; /* points into the list of all */
  size_t count;
  bool waits; /* those before it must be INSYNC: it goes on with a domain that was parted */
};

struct route53_batches {
  const struct provider_change **changes; /* of all batches */
  struct route53_batch *items;
  size_t count;
};

/*
 * Cuts the changes of resource record sets into batches: what belongs to one domain stays in one.
 * A domain that is too large for that is parted so that every moment is safe: first what comes or
 * changes below helper names, each group of weighted sets in one batch; then the public name, in
 * one batch; then what goes.  False without memory, or with the name of a domain for which that
 * cannot be (`too_large`): a group or the public name itself is over the limits, or a helper name
 * turns from or to CNAME.
 */
bool route53_batches_make(const struct provider_change *changes, size_t count,
                          struct route53_batches *out, const char **too_large);
void route53_batches_close(struct route53_batches *batches);

/* "DELETE", "CREATE" or "UPSERT". */
const char *route53_action(const struct provider_change *change);

/* ---- one account ---------------------------------------------------------------------------- */

struct route53 {
  char *name, *base, *marker;
  char *credentials; /* "KEY:SECRET", as libcurl takes them */
  char *token;       /* "X-Amz-Security-Token: ..."; or NULL */
  bool read_only;
  struct http_client *http;
  struct rng rng;

  /* The zone that was found last. */
  char zone_id[ROUTE53_ID];
  char prefix[64]; /* of the CallerReferences of its health checks */
  json_t *checks;  /* of it: KEY -> {"id", "version"}; NULL: not read */

  /* Lists that hold for several zones: kept until something is written or a zone is read again. */
  json_t *zones; /* name -> ids of its public zones */
  xmlDoc **check_pages;
  size_t check_page_count;
  bool checks_listed; /* the pages are all there are */
  json_t *read;       /* names of zones that were read since */
};

/* Nothing that was read holds any more. */
void route53_forget(struct route53 *r);

/* ---- requests ------------------------------------------------------------------------------- */

struct route53_call {
  const char *method, *path; /* the query in the order of its keys: libcurl does not sort it */
  const struct buf *body;    /* or NULL */
  bool idempotent;           /* may be done twice */
  const char *what;          /* that it is about, for messages */
  const char *root;          /* of the reply */
};

/* Sends, judges and parses; *out (if not NULL) is freed by xmlFreeDoc(). */
bool route53_send(struct route53 *r, const struct route53_call *call, xmlDoc **out,
                  struct provider_error *error);

/* Adds "KEY=VALUE" in percent encoding. */
void route53_add_query(struct buf *path, char before, const char *key, const char *value);

/* False, with an error: what it says of `what` is wrong (`why`), or ("") there is no memory. */
bool route53_garbage(const struct route53 *r, const char *what, const char *why,
                     struct provider_error *error);

/* The id without its prefix ("/hostedzone/"), or false. */
bool route53_take_id(const char *text, const char *prefix, char out[ROUTE53_ID]);

/* False unless the reply says whether there is more: a part is never taken for the whole. */
bool route53_is_truncated(const xmlNode *root, bool *more);

/* ---- zones ---------------------------------------------------------------------------------- */

/* Finds the public zone of the name: its id and prefix. */
bool route53_find_zone(struct route53 *r, const char *zone, struct provider_error *error);

bool route53_create_zone(void *self, const char *zone, struct provider_error *error);
bool route53_delete_zone(void *self, const char *zone, struct provider_error *error);
json_t *route53_servers(void *self, const char *zone, struct provider_error *error);

/* ---- lists and changes ---------------------------------------------------------------------- */

bool route53_read(void *self, const char *zone, struct provider_objects *out,
                  struct provider_error *error);

/* The health checks of the zone that was found, into `r->checks` and `out`. */
bool route53_list_checks(struct route53 *r, const char *zone, struct provider_objects *out,
                         struct provider_error *error);

bool route53_delete_check(struct route53 *r, const struct provider_object *object,
                          struct provider_error *error);

bool route53_apply(void *self, const char *zone, const struct provider_change *changes,
                   size_t count, size_t *done, struct provider_error *error);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the NS1 provider share: its requests, records of its API in one canonical
 * form, and steered domains as such records.
 *
 * A steered record is a list of answers, each in one NS1 *region*, and a chain of filters that
 * every query passes.  Our fence comes first, then status, priority and weight:
 *
 *   netfence_prefix -> netfence_asn -> geofence_country -> geofence_regional ->
 *   select_first_region -> up -> priority -> weighted_shuffle -> select_first_n
 *
 * One of our regions becomes one NS1 region for each kind of atom (and prefix length), and these
 * come in the order of how specific they are: select_first_region takes the first that is left.
 * The order of NS1 regions matters therefore, that of answers in one does not.
 *
 * Health is pushed: by data feeds (below) where endpoints have checks.
 *
 * What is written is all there is: names of endpoints and regions, levels and weights as configured
 * are in the notes, so that the domain can be told from the record alone.
 *
 * Not for use outside of tools/providers/ns1*.c.
 */
#ifndef SLUICE_TOOLS_PROVIDERS_NS1_PRIVATE_H
#define SLUICE_TOOLS_PROVIDERS_NS1_PRIVATE_H

#include "base/http.h"
#include "tools/providers/provider.h"

enum {
  NS1_NOTE_MAX = 256,
  NS1_LIST_MAX = 1000,
  NS1_KEY = 25,    /* hexadecimal digits of a feed's key, and NUL */
  NS1_PREFIX = 14, /* "0123456789ab-" of a zone's feeds, and NUL */
};

enum ns1_method { NS1_GET, NS1_PUT, NS1_POST, NS1_DELETE };
enum { NS1_METHODS = 4 };

#define NS1_FEED "FEED" /* type of the objects that are data feeds */

struct ns1 {
  char *name; /* of the provider, for messages */
  char *base; /* "https://api.nsone.net/v1", no slash at the end */
  char *secret_header;
  char *marker;
  bool read_only;
  bool feeds; /* health goes by data feeds */
  struct http_client *http[NS1_METHODS];
  const char *const *names; /* that are of interest; NULL: all (provider_kind.select) */
  size_t name_count;
  json_t *labels; /* keys of feeds that were compiled -> what they are of */
  /* Feeds of the zone that was looked at last. */
  json_t *sources;         /* ids of our data sources */
  json_t *by_key;          /* KEY -> {"source", "id"} */
  json_t *by_id;           /* ID -> KEY */
  char prefix[NS1_PREFIX]; /* of the labels of this zone's feeds */
};

/* ---- requests (ns1_api.c) ------------------------------------------------------------------- */

/* One request; all texts are malloc'd and owned. */
struct ns1_call {
  char *url, *text, *what; /* address, body or NULL, and what it is about for messages */
  bool wanted;             /* the reply is wanted as JSON */
  bool once;               /* not to be sent again if the first may have arrived */
  bool done;
  json_t *reply;
  char *link; /* Link header field, or NULL */
};

/* BASE/PATH/A/B/C, with the parts escaped and without final dots; the first NULL ends them. */
char *ns1_url(const struct ns1 *n, const char *path, const char *a, const char *b, const char *c);

/* Takes `url` and `body` (or NULL) over; false without memory. */
bool ns1_call_fill(const struct ns1 *n, struct ns1_call *call, char *url, json_t *body,
                   const char *what, struct provider_error *error);
void ns1_calls_close(struct ns1_call *calls, size_t count);

/* Sends all, several at a time; none is begun after one that failed.  True if all are done; else
 * the error is that of the first one.  One that removes what is not there is done. */
bool ns1_calls(struct ns1 *n, enum ns1_method method, struct ns1_call *calls, size_t count,
               struct provider_error *error);

/* One request: takes `url` and `body` over; *out (if not NULL) is a new reference to the reply,
 * *link (if not NULL) the malloc'd Link header field. */
bool ns1_request(struct ns1 *n, enum ns1_method method, char *url, json_t *body, bool once,
                 const char *what, json_t **out, char **link, struct provider_error *error);

/* A list page by page, `page` for each; takes `url` over. */
typedef bool ns1_page(void *arg, json_t *page, struct provider_error *error);
bool ns1_list(struct ns1 *n, char *url, const char *what, ns1_page *page, void *arg,
              struct provider_error *error);

/* False: what it says of `where` is none of NS1's API. */
bool ns1_garbage(const struct ns1 *n, const char *where, const char *what,
                 struct provider_error *error);

/* ---- reading and changing (ns1_read.c, ns1_apply.c) ----------------------------------------- */

bool ns1_read(void *self, const char *zone, struct provider_objects *out,
              struct provider_error *error);
bool ns1_apply(void *self, const char *zone, const struct provider_change *changes, size_t count,
               size_t *done, struct provider_error *error);

/* "www.example.com." of what the API calls a name; malloc'd, NULL: it is none. */
char *ns1_absolute(const char *name);

/* ---- feeds (ns1_feed.c, ns1_feed_write.c) --------------------------------------------------- */

/*
 * Health by data feeds: one data source of ours per marker, in it one feed for each endpoint and
 * type with a check, of which answers say {"up": {"feed": ID}}.  In canonical records KEY stands
 * for ID ("id:ID" for feeds that are not ours).  KEY is made from the names of domain, endpoint and
 * type; a feed's label is PREFIX-KEY, where PREFIX is made from the zone's name.
 *
 * A feed is an object (`part`) with the key "FEED/KEY" and the body {"up": true or false}.
 */

/* The key; false without memory. */
bool ns1_feed_key(const char *domain, const char *endpoint, const char *type, char out[NS1_KEY]);

/* Sets what the labels of the zone's feeds begin with; false without memory. */
bool ns1_feeds_prefix(struct ns1 *n, const char *zone);

/* Adds the object of a compiled feed. */
bool ns1_feed_add(struct provider_objects *out, const char *domain, const char *endpoint,
                  const char *type, const char *key, bool up);

/* Gets the zone's feeds; their objects go to `out` (if not NULL).  Without one of our sources there
 * are none. */
bool ns1_feeds_read(struct ns1 *n, const char *zone, struct provider_objects *out,
                    struct provider_error *error);

/* The parts of it: forgets what is known, then takes a page of our sources (`arg` is the struct
 * ns1) and of the feeds of one (a struct ns1_feeds).  `page` is hostile. */
struct ns1_feeds {
  struct ns1 *n;
  const char *zone, *source;
  struct provider_objects *out; /* or NULL */
};
bool ns1_feeds_begin(struct ns1 *n, const char *zone);
bool ns1_feeds_sources(void *arg, json_t *page, struct provider_error *error);
bool ns1_feeds_page(void *arg, json_t *page, struct provider_error *error);

/* Gives feeds the domain of the records that use them. */
bool ns1_feeds_link(struct provider_objects *objects);

/* True if an answer of the record goes by a feed. */
bool ns1_has_feed(const json_t *record);

/* The record with keys instead of ids, and with ids instead of keys.  New references; NULL without
 * memory or, for the latter, with the key of a feed that is not there in *missing. */
json_t *ns1_feeds_name(const struct ns1 *n, json_t *record);
json_t *ns1_feeds_resolve(const struct ns1 *n, json_t *record, const char **missing);

/* Makes what is to be made and pushes all new values, in one request for each source; or removes.
 * `finished` is set for each change that was done. */
bool ns1_feeds_set(struct ns1 *n, const char *zone, const struct provider_change *changes,
                   size_t count, bool *finished, struct provider_error *error);
bool ns1_feeds_remove(struct ns1 *n, const struct provider_change *changes, size_t count,
                      bool *finished, struct provider_error *error);

void ns1_feeds_forget(struct ns1 *n);

/* The first `digits` hexadecimal digits of SHA-256 of a text; `out` has room for one octet more. */
bool ns1_digest(const char *text, size_t digits, char *out);

/* ---- records (ns1_record.c) ----------------------------------------------------------------- */

/*
 * A record of the API ("ttl", "answers", "filters", "regions", "use_client_subnet") in canonical
 * form, so that equal JSON is equal behaviour: codes in upper case, prefixes as RFC 4632 and RFC
 * 5952 write them, sorted lists, numbers and truths that came as text, no keys with neutral values.
 * Keys that we do not know and that are not neutral stay, in "more".
 *
 * A record without filters, regions and meta is a plain RRset: {"ttl", "values"}.  Else
 * {"ttl", "subnet", "filters": [...], "order": [regions], "regions": {...}, "answers": [...]}.
 *
 * A new reference; NULL if it is none of that (or no memory).  `record` is hostile.
 */
json_t *ns1_canonical(const char *type, const json_t *record);

/* The same of an item in a zone's list, whose answers are texts ("short_answers"). */
json_t *ns1_canonical_short(const char *type, const json_t *item);

/* The body of a PUT or POST that makes a canonical record; lists that are empty are written, so
 * that nothing of an older record is left.  A new reference, or NULL without memory. */
json_t *ns1_wire(const char *zone, const char *name, const char *type, const json_t *canonical);

/* Adds a record as read or compiled; takes `body` over. */
struct provider_object *ns1_add_record(struct provider_objects *out, const char *name,
                                       const char *type, json_t *body);

/* A digest's text of any document, without regard to the order of lists; malloc'd or NULL. */
char *ns1_sorted_text(const json_t *document);

/* True for null, false, 0, "" and empty lists and objects: what an absent key means too. */
bool ns1_is_neutral(const json_t *value);

/* Parts of an answer from presentation form, and back (malloc'd or NULL). */
json_t *ns1_answer_parts(const char *type, const char *value);
char *ns1_answer_text(const char *type, const json_t *parts);

/* A value as NS1 writes it, with its type's quotation marks, in our canonical form. */
char *ns1_value(const char *type, const char *text);

/* ---- compiler (ns1_compile.c, ns1_decompile.c) ---------------------------------------------- */

/* The canonical record of one type; NULL with an error.  Pure.  `mark` is in the notes.  With
 * `feeds` (an object) health goes by feeds, and gets KEY -> {"endpoint", "up"} for each; without,
 * health is in the record. */
json_t *ns1_compile_type(const char *provider, const char *mark,
                         const struct provider_domain *domain, enum steer_type type, json_t *feeds,
                         struct provider_error *error);

void ns1_judge(const struct provider_domain *domain, struct provider_fidelity *fidelity);

/* Whose mark the record's notes carry: malloc'd; NULL: nobody's. */
char *ns1_owner(const json_t *canonical);

/* provider_kind's decompile(). */
json_t *ns1_decompile(const char *provider, const char *mark,
                      const struct provider_object *const *objects, size_t count,
                      struct provider_error *error);

#endif

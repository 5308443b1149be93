/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A DNS provider: something elsewhere that holds our zones and, as far as it can, our steering.
 * One file (or folder) per kind behind this interface; `sluice sync`, `endpoints get|set` and
 * sluice-syncd use nothing else.  Our own server is a provider like any other.
 *
 * The unit of comparison is the *object*: whatever the provider stores under one key (an RRset, one
 * weighted record set, one record with its filter chain).  A kind compiles a domain to the objects
 * that should be there, and reads those that are there; both in one canonical form, so that equal
 * JSON means "in sync".  The planner (tools/sync/plan.h) does the rest for all kinds alike:
 * matching by key, ownership, limits, digest.  Objects that this tool did not make are *foreign*:
 * kept, listed and never changed without consent.
 *
 * A kind never decides: it reads, compiles, and does exactly the changes that it is given.  What it
 * did counts only once it has been read back.
 *
 * Functions block (in network requests) and belong to one thread for each provider; different
 * providers run in parallel.  Everything that comes from a provider is hostile.
 */
#ifndef SLUICE_TOOLS_PROVIDERS_PROVIDER_H
#define SLUICE_TOOLS_PROVIDERS_PROVIDER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "steering/model.h"

/* ---- errors ---------------------------------------------------------------------------------- */

enum provider_failure {
  PROVIDER_OK,
  PROVIDER_UNREACHABLE, /* no connection, timeout, 5xx after all retries: try again later */
  PROVIDER_THROTTLED,   /* rate limit, after all waiting that was allowed */
  PROVIDER_DENIED,      /* credentials or rights: no use to repeat */
  PROVIDER_GONE,        /* the zone (or object) is not there */
  PROVIDER_CONFLICT,    /* somebody changed it meanwhile: read and plan again */
  PROVIDER_REFUSED,     /* it says that the request is wrong */
  PROVIDER_GARBAGE,     /* the reply is truncated, contradicts itself, or is not of its API */
  PROVIDER_LOCAL,       /* our own side: memory, settings */
};

enum { PROVIDER_TEXT = 512 };

/* One line: provider, object, what is wrong and what to do.  Never holds a secret or a body. */
struct provider_error {
  enum provider_failure failure;
  char text[PROVIDER_TEXT];
};

/* ---- fidelity -------------------------------------------------------------------------------- */

enum provider_layer { LAYER_GEO, LAYER_STATUS, LAYER_PRIORITY, LAYER_WEIGHT };
enum { PROVIDER_LAYERS = 4 };
enum provider_grade { FIDELITY_EXACT, FIDELITY_APPROX, FIDELITY_LOST };

struct provider_fidelity {
  enum provider_grade grade[PROVIDER_LAYERS];
  double error[PROVIDER_LAYERS]; /* largest error of a share, 0 to 1, where approximate */
  char why[PROVIDER_LAYERS][200];
};

/* ---- objects --------------------------------------------------------------------------------- */

struct provider_object {
  char *key;    /* unique in the zone: "cdn.tm.example.com./A", with more where a kind needs it */
  char *name;   /* owner, absolute, lower case, with the final dot */
  char *type;   /* "A", "TXT", ...; the type that is asked for, also for steered objects */
  char *domain; /* the steered name that it belongs to (helper names too), or NULL: static */
  json_t *body; /* canonical: equal documents are equal objects.  Static RRsets of all kinds:
                 * {"ttl": N, "values": [rdata in presentation form, sorted]} */
  json_t *raw;  /* as read, for exact deletes; NULL in what is compiled */
  char *owner;  /* whose marker it carries; NULL: foreign, or a provider without markers */
  bool part;   /* belongs to `domain` and carries its mark itself (helper names, health checks): the
                * planner makes no marker for it */
  bool health; /* says what our checker found, and nothing else: an update is no reason to ask for
                * consent, however many there are at once */
  bool opaque; /* advanced or hand-made, beyond this kind's model: `body` is a digest, listed as
                * drift, never a reason to fail */
};

struct provider_objects {
  struct provider_object *items;
  size_t count;
};

void provider_objects_init(struct provider_objects *objects);
void provider_objects_close(struct provider_objects *objects);

/* A new empty object at the end, to be filled in; NULL without memory. */
struct provider_object *provider_objects_add(struct provider_objects *objects);

/* Adds an RRset in the form of all kinds: key "NAME/TYPE", values in canonical form (below),
 * sorted, without repetition.  `values` is an array of texts, whose reference is taken over; `name`
 * is lower-cased and gets its final dot.  NULL without memory or if a value is none of the type. */
struct provider_object *provider_add_rrset(struct provider_objects *objects, const char *name,
                                           const char *type, uint32_t ttl, json_t *values);

/* Record data as all kinds compare them: presentation form with final dots, names in lower case,
 * IPv6 as RFC 5952.  malloc'd; NULL: not data of the type, or no memory. */
char *provider_rdata_text(const char *type, const char *text);
char *provider_rdata_wire(uint16_t type, const uint8_t *rdata, size_t len);

/* The text as wire format; *rdata is malloc'd.  False: not data of the type, or no memory. */
bool provider_rdata_parse(const char *type, const char *text, uint8_t **rdata, size_t *len);

/* ---- what is to be there --------------------------------------------------------------------- */

/* One steered domain as it is now. */
struct provider_domain {
  const struct steer_domain *steer;
  const char *name;         /* presentation form, lower case, final dot */
  const json_t *health;     /* merged settings per endpoint (zones/config_health.h), or NULL */
  struct steer_facts facts; /* weights, manual status and health as in force */
  bool pushed;              /* health comes from our checker: facts.status counts; else the
                             * provider's own probes are set up from `health` */
};

enum provider_op { PROVIDER_CREATE, PROVIDER_UPDATE, PROVIDER_DELETE };

struct provider_change {
  enum provider_op op;
  const struct provider_object *old; /* as read; NULL: create */
  const struct provider_object *new; /* NULL: delete */
};

/* ---- the interface --------------------------------------------------------------------------- */

struct provider_capabilities {
  bool steers;         /* has steering at all */
  bool marks;          /* can mark what is ours at the object itself; else markers are TXT records
                        * `_sluice.NAME` made by the planner */
  bool apex_ns;        /* lets us manage the NS RRset of the apex */
  bool names_servers;  /* gives each zone its name servers: servers() tells their names */
  bool atomic;         /* one apply() is all or nothing */
  bool compares;       /* apply() fails with PROVIDER_CONFLICT if the zone changed since read() */
  bool deployed;       /* gets its changes by deploys: compared only, apply() is not called */
  bool one_reader;     /* lists of the account serve all zones: one session reads them all; else
                        * several read at once where there are many zones */
  uint32_t weight_max; /* weights above are scaled */
  bool pushed, native; /* ways to get health */
};

/* Given to open(): what the kind may use. */
struct provider_context {
  const char *name;       /* of the provider in defaults.yaml, for messages */
  const json_t *settings; /* its settings there: type, url, health, ... */
  /* Gets a secret by its name (base/secret.h); the caller wipes it. */
  bool (*secret)(void *arg, const char *name, char *out, size_t size, char *why);
  void *secret_arg;
  const char *marker;   /* what marks objects as ours: "sluice", or as the settings say */
  uint64_t deadline_ms; /* for one call, all retries included; 0: the kind's default */
  bool read_only;       /* no request that writes may leave: apply() fails */
};

struct provider_kind {
  const char *type; /* "powerdns", "route53", "ns1", "rfc2136", "sluice" */
  struct provider_capabilities can;

  /* NULL with an error: settings are wrong, a secret is missing. */
  void *(*open)(const struct provider_context *context, struct provider_error *error);
  void (*close)(void *self);

  /* What the next calls are about: only these owners and steered names will be changed (NULL: all).
   * A kind that pays a request for each object may read the others without their content, as
   * opaque.  The names outlive the calls.  NULL: it makes no difference. */
  void (*select)(void *self, const char *const *names, size_t count);

  /* All objects of the zone, the SOA (as far as it is known) among them, all pages, or none. */
  bool (*read)(void *self, const char *zone, struct provider_objects *out,
               struct provider_error *error);

  /* What should be there for a steered domain, and how faithful it is.  Pure: no requests.
   * A kind that cannot steer gives the default answer and says what is lost.  Where the provider
   * has a channel for health beside its records (feeds, health checks), that is objects too
   * (`part`): a change of health alone changes these, and no record. */
  bool (*compile)(void *self, const struct provider_domain *domain, struct provider_objects *out,
                  struct provider_fidelity *fidelity, struct provider_error *error);

  /* The reverse, for import, drift and `endpoints get`: a document as zones/domain_json.h from the
   * objects of one domain; NULL with the reason if they are beyond the model.  Beside that it may
   * have "down": {type: [endpoints]}, "health": {endpoint: settings} (zones/config_health.h) of
   * checks that the provider does itself, as far as it keeps them, and "checked": {endpoint: {}} of
   * those to which our checker's verdicts go. */
  json_t *(*decompile)(void *self, const struct provider_object *const *objects, size_t count,
                       struct provider_error *error);

  /* Does the changes, in an order that never leaves an existing name empty.  On failure *done says
   * how many of them are known to have been done; the caller reads again in any case. */
  bool (*apply)(void *self, const char *zone, const struct provider_change *changes, size_t count,
                size_t *done, struct provider_error *error);

  /* Addresses or names of its name servers for the zone, for verify and migrate: a JSON array. */
  json_t *(*servers)(void *self, const char *zone, struct provider_error *error);

  /* Makes or removes the zone itself, for migrate; may be NULL. */
  bool (*create_zone)(void *self, const char *zone, struct provider_error *error);
  bool (*delete_zone)(void *self, const char *zone, struct provider_error *error);
};

extern const struct provider_kind provider_powerdns, provider_route53, provider_ns1,
    provider_rfc2136, provider_sluice;

/* The kind with this type, or NULL: there is none (yet). */
const struct provider_kind *provider_find(const char *type);

/* The types of all kinds, ", " between them; static storage. */
const char *provider_types(void);

/* The name of a layer: "geo", "status", "priority", "weight". */
const char *provider_layer_name(enum provider_layer layer);

/* For kinds that cannot steer: the RRsets of the default answer (zones/default_answer.h), and the
 * layers that this domain uses as lost, with the reason.  False without memory. */
bool provider_compile_default(const struct provider_domain *domain, struct provider_objects *out,
                              struct provider_fidelity *fidelity);

/* Fills `error` in and returns false. */
bool provider_fail(struct provider_error *error, enum provider_failure failure, const char *format,
                   ...) __attribute__((format(printf, 3, 4)));

#endif

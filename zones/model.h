/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A configuration as read and checked: the input of the builder.
 *
 * config_load() reads a whole tree through a `config_source` (a directory, or a git commit) and
 * reports every problem that it finds in one run.  A model is used only when no error was reported;
 * then every rule of the configuration reference holds.  One model belongs to one thread.
 */
#ifndef SLUICE_ZONES_MODEL_H
#define SLUICE_ZONES_MODEL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "steering/model.h"

/* A static resource record in wire format; rdata uncompressed. */
struct model_rr {
  uint8_t *owner; /* wire name, lower case, NAME_PAD zero octets after it */
  uint8_t *rdata; /* names inside keep their case */
  uint16_t rdata_len;
  uint16_t type;
  uint32_t ttl;
  struct diag_pos pos;
};

enum probe_type {
  PROBE_NONE,
  PROBE_HTTP,
  PROBE_HTTPS,
  PROBE_TCP,
  PROBE_DNS,
  PROBE_ICMP,
  PROBE_EXEC
};

struct model_domain {
  struct steer_domain *steer;
  char *path;       /* of domain.yaml, as shown in messages */
  char *owner_text; /* `owner:`, the team, or NULL */
  /* Per endpoint: object endpoint -> merged, normalised health settings; NULL without.  The keys
   * are told in zones/config_health.h; times are in milliseconds. */
  json_t *health;
  json_t *alerts;    /* normalised `alerts:` (on, page, to) or NULL */
  json_t *profiles;  /* profile -> {endpoint: weight} (of this domain and of defaults.yaml) */
  json_t *providers; /* normalised `providers:` or NULL */
  json_t *pools;     /* endpoints whose `health`... reserved, NULL */
};

enum model_serial { SERIAL_MANAGED, SERIAL_CARRIED }; /* of the deploy, or as in the master file */

struct model_zone {
  uint8_t *apex; /* wire name, lower case, padded */
  char *path;    /* of zone.yaml or of the master file */
  enum model_serial serial_mode;
  /* Every static record, SOA and NS included, no duplicates; sorted in canonical order of owner
   * (name_compare), then type, then rdata; SOA serial 0 when managed. */
  struct model_rr *rrs;
  size_t rr_count;
  struct model_domain *domains;
  size_t domain_count;
  json_t *transfer;       /* normalised `transfer:` or NULL */
  json_t *providers;      /* array of names, or NULL */
  uint8_t input_hash[32]; /* SHA-256 over all inputs of this zone: equal input, equal output */
  /* The zone was not read, since it is as in an earlier build, which has all that is missing here:
   * only apex and path are set (config_source.is_kept). */
  bool kept;
  bool reads_outside; /* its records come in part from files outside of its own directory */
};

struct arena;

struct model {
  struct model_zone *zones; /* sorted by apex in canonical order */
  size_t zone_count;
  char *default_zone;   /* text, or NULL */
  json_t *settings;     /* normalised rest of defaults.yaml: profiles, alerts, providers, regions */
  struct arena *memory; /* of the paths in positions, and of the records; private */
};

void model_free(struct model *model);

/* Where files come from.  Implementations: zones/source_dir.c, zones/source_git.c. */
struct config_source {
  /* Calls visit(arg, path, kind) for every entry below the root, in sorted order. kind: 'f' regular
   * file, 'l' symbolic link, 's' submodule, 'o' other, 'k' a directory at the root that is kept
   * (and whose entries are not visited).  Paths are relative to the root. */
  bool (*list)(struct config_source *source, bool (*visit)(void *arg, const char *path, char kind),
               void *arg, char *why);
  /* Reads one regular file of at most `limit` bytes; malloc'd, NUL-terminated. `why` holds 512
   * bytes. */
  bool (*read)(struct config_source *source, const char *path, size_t limit, uint8_t **data,
               size_t *len, char *why);
  void (*close)(struct config_source *source);
  const char *prefix; /* put before paths in messages ("" for git, "dir/" for a directory) */

  /* The rest is set by the caller, if at all. */
  bool programs_known; /* no warning that exec checks are not looked up */
  /* Tells if the machine's settings (`programs_path`, for messages) define an exec check; without
   * it they are not looked up. */
  bool (*has_program)(const void *programs, const char *name);
  /* The same of the secrets that alert routes name. */
  bool (*has_secret)(const void *programs, const char *name);
  bool provider_secrets; /* and of those that providers name */
  const void *programs;
  const char *programs_path;
  /* Tells if a directory at the root is as in an earlier build and need not be read again; only a
   * source whose list() says 'k' asks.  Which ones that may be: zones/inputs.h. */
  bool (*is_kept)(const void *kept, const char *directory);
  const void *kept;

  /* Set by config_load(): the directory at the root of the zone that is being read; read() then
   * sets read_outside for a path that is not below it. */
  const char *reading;
  bool read_outside;
};

bool config_source_open_dir(const char *dir, struct config_source **source, char *why);

/* Reads everything.  Returns the model (never NULL unless out of memory); usable only if
 * problems->errors is 0. */
struct model *config_load(struct config_source *source, struct diag_list *problems);

/* A model of one or more plain zones from RFC 1035 master files (`build --zone-file`,
 * `--zone-list`). $INCLUDE is allowed below the file's own directory. */
bool model_add_zone_file(struct model *model, const char *path, const char *origin,
                         struct diag_list *problems);
struct model *model_new(void);

#endif

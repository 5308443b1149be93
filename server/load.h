/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a build on disk to a view that workers can read.
 *
 * load_run() opens the images of DATA/current, takes over from the previous view what did not
 * change (images by identity of the file, location data and its tables likewise), and prepares for
 * every steered domain its location table and draw tables.  All or nothing: on failure the previous
 * view is as it was.  It does not touch what readers see and may run in any thread, but only one at
 * a time; the rest belongs to the main thread.
 */
#ifndef SLUICE_SERVER_LOAD_H
#define SLUICE_SERVER_LOAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/view.h"

struct load_image; /* an open image, shared by the views that serve it */
struct load_geo;   /* location data, shared likewise */
struct load_tables;
struct fact; /* what facts.c records about an endpoint */

struct served_zone {
  char *name; /* presentation form, with the final dot */
  uint32_t serial;
  int64_t names;  /* owner names, as the manifest says */
  bool secondary; /* not of the build, but transferred from a primary */
  struct load_image *image;
};

/* A zone that is transferred from a primary (server/secondary.h). */
struct load_secondary {
  const char *name;    /* presentation form, with the final dot */
  const uint8_t *apex; /* wire format, lower case, padded */
  const char *image;   /* path; NULL: nothing can be served, the answer is SERVFAIL */
  int64_t names;       /* owner names */
  bool expired;        /* `image` is NULL because what there was has expired */
};

/* Why a secondary zone is not served, though its image was to be. */
struct load_problem {
  char *zone;   /* presentation form */
  char *why;    /* one line */
  bool damaged; /* the image cannot be used; else the build has a zone of this name */
};

/* What the main thread keeps about a domain beside what workers read. */
struct served_domain {
  struct fact **facts; /* of its endpoints, borrowed; NULL as long as nothing is known of any */
  struct steer_status *status; /* likewise, in the same block of memory */
  int32_t *weights;            /* of its entries, -1: the configuration's; NULL: all of them are */
  uint64_t mark;               /* of the change that touched it last (facts.c) */
};

struct served {
  struct view view; /* what is published */
  char *build_id;
  char *commit; /* or NULL */
  int64_t commit_time;
  char *default_zone;           /* for relative names on the command line, or NULL */
  struct served_zone *zones;    /* view.zone_count of them, as view.zones */
  struct view_domain *domains;  /* of all zones, one after another */
  struct served_domain *states; /* as domains */
  uint32_t domain_count;
  uint32_t changed; /* zones that were not taken over from the previous view */
  uint32_t *index;  /* domains by owner: open addressing, index + 1, 0 = empty */
  uint32_t index_mask;
  struct load_tables *tables;
  struct load_geo *geo;
  struct load_problem *problems; /* of secondary zones; all others are served all the same */
  size_t problem_count;
};

struct load_request {
  const char *data_dir;
  const char *geo_path;                   /* or NULL */
  const char *asn_path;                   /* or NULL */
  const struct served *previous;          /* or NULL at start */
  const struct load_secondary *secondary; /* served beside the build's zones */
  size_t secondary_count;
  bool keep_build; /* take the build's zones from `previous`, whatever DATA/current is */
  struct transfer_policy *transfer; /* for zones without `transfer:` of their own; or NULL */
  bool *bad_places;                 /* or NULL; set if the reason is about the location files */
  const atomic_bool *cancel;        /* or NULL; set by another thread, makes load_run() fail soon */
};

enum { LOAD_WHY = 512 };

/*
 * Returns the new view, or NULL with a one-line reason in `why` (LOAD_WHY octets).  When there is a
 * previous view and just the location files cannot be read, the old location data stay in use and
 * `warning` (LOAD_WHY octets, else empty) says why.
 */
struct served *load_run(const struct load_request *request, char *warning, char *why);

/* Frees a view that no reader uses any more.  May run in any thread. */
void load_free(struct served *served);

/* Index into `domains` of the steered domain with this owner (wire format, lower case), or -1. */
long load_find_domain(const struct served *served, const uint8_t *owner);

/* Frees what a domain published before; NULL is allowed. */
void load_free_draws(const struct view_draws *draws);

/* All draw tables of a domain, in one block; or NULL without memory. */
const struct view_draws *load_make_draws(const struct steer_domain *domain,
                                         const struct steer_facts *facts);

static inline uint32_t load_table_count(const struct steer_domain *domain) {
  return domain->region_count * STEER_TYPES;
}

/* Location data in use; NULL without any. */
const struct geo_db *load_geo_db(const struct served *served);

/* Path of the location file as loaded, or NULL. */
const char *load_geo_path(const struct served *served);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The build's list of checks (checks.json, zones/build_lists.h) as the checker works with it.
 *
 * The same address is checked in the same way only once, however many endpoints of however many
 * domains name it: that is a *probe*.  What has the same set of addresses (or the same host name)
 * and the same settings is judged only once: that is a *subject*, and the endpoints that it stands
 * for are its *targets*.
 *
 * A list is immutable, but for the count of references of its checks; it is read in one thread and
 * used in another afterwards.  The order of endpoints or domains means nothing: probes and subjects
 * are found again by what they are.
 */
#ifndef SLUICE_HEALTHCHECK_LIST_H
#define SLUICE_HEALTHCHECK_LIST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "healthcheck/check.h"
#include "healthcheck/probe.h"
#include "steering/model.h"

enum {
  LIST_WHY = 512,
  LIST_ID = 33, /* hex digits of an identity, and a NUL */
  LIST_MAX_BYTES = 1 << 30,
  LIST_TARGET = 256, /* text of an address or of a host name, and a NUL */
};

/* Settings of a check, shared by all that is checked so.  Outlives its list while it has
 * references; counted by one thread (the loop's). */
struct list_check {
  struct check *check;
  char id[LIST_ID]; /* of all settings */
  unsigned references;
};

void list_check_ref(struct list_check *check);
void list_check_unref(struct list_check *check);

/* One address or host name, checked in one way. */
struct list_probe {
  struct list_check *check;
  struct probe_target target;  /* `host` is the list's */
  char text[INET6_ADDRSTRLEN]; /* of an address; "" for a host name */
};

struct list_target {
  uint32_t domain;   /* index of list.domains */
  uint16_t endpoint; /* index of the domain's endpoints */
};

struct list_subject {
  struct list_check *check;
  const uint32_t *probes; /* indexes of list.probes: IPv4 first, then IPv6; or one host name */
  uint32_t count4, count6;
  bool host; /* then there is one probe, and its verdict stands in both families */
  const struct list_target *targets;
  uint32_t target_count;
};

struct list_domain {
  char *name;                 /* absolute, lower case, with the final dot */
  struct steer_domain *steer; /* NULL where there are no alerts */
  json_t *alerts;             /* or NULL */
  char *owner;                /* or NULL */
  char **endpoints;           /* names, in the order of the configuration */
  uint32_t endpoint_count;
};

struct list {
  struct list_probe *probes;
  struct list_subject *subjects;
  struct list_domain *domains;
  uint32_t probe_count, subject_count, domain_count;
  json_t *routes;                /* of alerts; never NULL */
  char *default_zone;            /* of short names: absolute, with the final dot; or NULL */
  const uint32_t *probe_first;   /* the subjects of probe i are those from [i] up to [i + 1]: */
  const uint32_t *probe_subject; /* indexes of list.subjects */
  struct list_store *store;      /* what the pointers lead to */
};

/* The text of what a probe goes to. */
const char *list_probe_text(const struct list_probe *probe);

/* Reads the text of a checks.json; NULL with one line in `why` (LIST_WHY octets) that names what is
 * wrong.  Trusts nothing in it. */
struct list *list_parse(const char *text, size_t len, char *why);

/* The list of the build that DATA/current points to.  *build (LIST_BUILD octets) gets where it
 * points, "" and *missing true if there is none yet. */
enum { LIST_BUILD = 256 };
struct list *list_read(const char *data, char *build, bool *missing, char *why);

/* Where DATA/current points to; false, with "" in `build`, if nowhere. */
bool list_current(const char *data, char *build);

void list_free(struct list *list);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the judge: what judge.c (facts) and judge_run.c (evaluation) have in common. */
#ifndef SLUICE_HEALTHCHECK_ALERTS_JUDGE_PRIVATE_H
#define SLUICE_HEALTHCHECK_ALERTS_JUDGE_PRIVATE_H

#include "healthcheck/alerts/judge.h"
#include "healthcheck/alerts/map.h"
#include "steering/model.h"

/* What is known of an endpoint. */
struct judge_endpoint {
  uint64_t name; /* hash */
  char *why;     /* of the last result, or NULL */
  bool down;     /* as told last, also by the list before */
  bool hushed;   /* down as known from before: no news until it has been up */
};

struct judge_domain {
  const struct steer_domain *steer; /* NULL: without alerts, the rest is empty */
  char *key;                        /* "cdn.example.com." */
  char *name;                       /* the same without the final dot */
  const char *owner;                /* the engine's */
  char *team;                       /* copy of the owner */
  struct book_policy policy;
  size_t endpoint_count; /* as in `steer`, which may be gone when the next list comes */
  struct judge_endpoint *endpoints;
  struct steer_status *checked;
  struct steer_status *by_hand; /* or NULL */
  int32_t *weights;             /* or NULL */
  struct incident *incidents;   /* by `sibling` */
  bool dirty;
};

struct judge {
  struct book *book;
  char *host;
  struct judge_domain *domains;
  size_t count;
  json_t *overrides;  /* as told last, or NULL */
  struct map by_name; /* key -> struct judge_domain */
  uint32_t *dirty;    /* a ring of `count` */
  size_t dirty_first, dirty_count;
  uint32_t stamp;
  struct book_policy isolated; /* all routes that are in use */
  bool settled;
  uint64_t settle_at;       /* mono ms; 0: settled, or not configured yet */
  struct incident *checker; /* of INCIDENT_ISOLATED, or NULL */
};

/* By name, with or without the final dot; NULL: none with alerts. */
struct judge_domain *judge_find(struct judge *judge, const char *name);
void judge_mark(struct judge *judge, struct judge_domain *domain);
void judge_evaluate(struct judge *judge, struct judge_domain *domain, const struct moment *now);

#endif

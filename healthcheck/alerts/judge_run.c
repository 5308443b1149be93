/* SPDX-License-Identifier: Apache-2.0 */
/* The evaluation of a domain: what its facts mean, against what is in the book. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "healthcheck/alerts/judge_private.h"
#include "healthcheck/alerts/outlook.h"
#include "healthcheck/alerts/text.h"

struct run {
  struct judge *judge;
  struct judge_domain *domain;
  struct outlook_facts facts;
  struct text_source source;
  const struct moment *now;
};

/* True while a restored incident waits for news of an endpoint that it spoke of. */
static bool is_waiting(const struct run *run, const struct incident *i) {
  const struct judge_domain *d = run->domain;
  if (!i->restored || !i->open || run->judge->settle_at == 0)
    return false;
  json_t *detail = i->detail != NULL ? json_loads(i->detail, 0, NULL) : NULL;
  const json_t *reasons = json_object_get(detail, "reasons");
  bool waiting = false;
  size_t k;
  json_t *reason;
  json_array_foreach((json_t *)reasons, k, reason) {
    const char *name = json_string_value(json_object_get(reason, "endpoint"));
    long e = name != NULL ? steer_endpoint_find(d->steer, name) : -1;
    waiting = waiting || (e >= 0 && d->checked[e].health4 == HEALTH_UNKNOWN &&
                          d->checked[e].health6 == HEALTH_UNKNOWN);
  }
  json_decref(detail);
  return waiting && i->kind != INCIDENT_BY_HAND;
}

static void report(const struct run *run, const struct book_report *what) {
  struct judge_domain *d = run->domain;
  struct incident *known = book_find(run->judge->book, &what->name);
  if (known != NULL && is_waiting(run, known)) {
    known->stamp = run->judge->stamp;
    return;
  }
  struct incident *i = book_set(run->judge->book, what, &d->policy, run->now);
  if (i == NULL)
    return;
  i->stamp = run->judge->stamp;
  if (known != NULL)
    return;
  i->sibling = d->incidents;
  d->incidents = i;
}

/* An incident that is neither confirmed nor ended by what is known now. */
static void leave(const struct run *run, const struct incident_name *name) {
  struct incident *known = book_find(run->judge->book, name);
  if (known != NULL)
    known->stamp = run->judge->stamp;
}

static void report_region(const struct run *run, uint32_t region, enum steer_type type,
                          enum incident_kind kind, const struct outlook *o) {
  char text[INCIDENT_SUMMARY];
  char news[INCIDENT_NEWS] = "";
  struct book_report what = {
      .name = {.kind = kind,
               .domain = run->domain->name,
               .region = run->domain->steer->regions[region].name,
               .type = text_type(type)},
      .owner = run->domain->owner,
      .news = news,
      .summary = text,
  };
  switch (kind) {
  case INCIDENT_ALL_DOWN:
    what.severity = SEVERITY_CRITICAL;
    what.page = true;
    what.detail = text_all_down(&run->source, region, type, o, text);
    break;
  case INCIDENT_FAILOVER:
    what.page = run->domain->policy.page;
    what.severity = what.page ? SEVERITY_ERROR : SEVERITY_WARNING;
    snprintf(news, sizeof news, "%u>%u", o->level_by_hand, o->level);
    what.detail = text_failover(&run->source, region, type, o, text);
    break;
  default:
    what.severity = SEVERITY_INFO;
    snprintf(news, sizeof news, "%u>%u%s", o->level_plain, o->level_by_hand,
             o->none_by_hand ? "!" : "");
    what.detail = text_by_hand(&run->source, region, type, o, text);
  }
  report(run, &what);
  json_decref(what.detail);
}

static void judge_region(const struct run *run, uint32_t region, enum steer_type type) {
  struct outlook o;
  struct incident_name failover = {.kind = INCIDENT_FAILOVER,
                                   .domain = run->domain->name,
                                   .region = run->domain->steer->regions[region].name,
                                   .type = text_type(type)};
  if (!outlook_make(run->domain->steer, region, type, &run->facts, &o))
    return;
  if (o.all_down) {
    /* A failover from before is still the story when something comes back: neither news nor over.
     */
    leave(run, &failover);
    report_region(run, region, type, INCIDENT_ALL_DOWN, &o);
  } else if (o.level != o.level_by_hand) {
    report_region(run, region, type, INCIDENT_FAILOVER, &o);
  }
  if (o.level_by_hand != o.level_plain || o.none_by_hand)
    report_region(run, region, type, INCIDENT_BY_HAND, &o);
}

static void judge_endpoint(const struct run *run, uint16_t endpoint) {
  struct judge_domain *d = run->domain;
  const struct steer_endpoint *e = &d->steer->endpoints[endpoint];
  const struct steer_status *status = &d->checked[endpoint];
  bool down4 = status->health4 == HEALTH_DOWN && (e->host != NULL || e->addr4_count > 0);
  bool down6 = status->health6 == HEALTH_DOWN && (e->host != NULL || e->addr6_count > 0);
  bool down = e->host != NULL ? down4 && down6 : down4 || down6;
  if (!down)
    return;
  char text[INCIDENT_SUMMARY];
  char news[INCIDENT_NEWS];
  snprintf(news, sizeof news, "%s%s", down4 ? "4" : "", down6 ? "6" : "");
  struct book_report what = {
      .name = {.kind = INCIDENT_ENDPOINT, .domain = d->name, .endpoint = e->name},
      .owner = d->owner,
      .news = news,
      .summary = text,
  };
  const struct incident *known = book_find(run->judge->book, &what.name);
  if (d->endpoints[endpoint].hushed && (known == NULL || !known->open))
    return;
  bool same = known != NULL && known->open && strcmp(known->news, news) == 0;
  bool used = !same && outlook_is_used(d->steer, &run->facts, endpoint);
  what.severity = same ? known->severity : used ? SEVERITY_WARNING : SEVERITY_INFO;
  what.detail = text_endpoint(&run->source, endpoint, down4, down6, used, text);
  report(run, &what);
  json_decref(what.detail);
}

/* ---- ends -------------------------------------------------------------------------------------
 */

static int find_type(const struct steer_domain *steer, const char *text) {
  for (int t = 0; t < STEER_TYPES; t++)
    if (steer->offers[t] && text != NULL && strcmp(text_type((enum steer_type)t), text) == 0)
      return t;
  return -1;
}

static void end_text(const struct run *run, const struct incident *i, char *out) {
  const struct steer_domain *steer = run->domain->steer;
  if (i->kind == INCIDENT_ENDPOINT) {
    long e = steer_endpoint_find(steer, i->endpoint);
    if (e >= 0)
      text_endpoint_end(&run->source, (uint16_t)e, out);
    else
      snprintf(out, INCIDENT_SUMMARY, "%s: endpoint %s was removed from the configuration",
               run->domain->name, i->endpoint);
    return;
  }
  struct outlook o;
  long region = steer_region_find(steer, i->region);
  int type = find_type(steer, i->type);
  if (region < 0 || type < 0)
    snprintf(out, INCIDENT_SUMMARY, "%s: region %s (%s) was removed from the configuration",
             run->domain->name, i->region, i->type);
  else if (outlook_make(steer, (uint32_t)region, (enum steer_type)type, &run->facts, &o))
    text_region_end(&run->source, i, &o, out);
  else
    snprintf(out, INCIDENT_SUMMARY, "%s: region %s (%s) has recovered", run->domain->name,
             i->region, i->type);
}

static void end_others(const struct run *run) {
  char text[INCIDENT_SUMMARY];
  for (struct incident *i = run->domain->incidents; i != NULL; i = i->sibling) {
    if (i->stamp == run->judge->stamp || (!i->open && !i->restored) || is_waiting(run, i))
      continue;
    end_text(run, i, text);
    book_end(run->judge->book, i, text, &run->domain->policy, run->now);
  }
}

/* ---- all of it --------------------------------------------------------------------------------
 */

static bool is_any_down(const struct judge_domain *d) {
  for (size_t i = 0; i < d->endpoint_count; i++)
    if (d->checked[i].health4 == HEALTH_DOWN || d->checked[i].health6 == HEALTH_DOWN)
      return true;
  return false;
}

void judge_evaluate(struct judge *judge, struct judge_domain *d, const struct moment *now) {
  bool down = is_any_down(d);
  if (!down && d->by_hand == NULL && d->weights == NULL && d->incidents == NULL)
    return;
  char *whys[64];
  char **all = whys;
  char **more = NULL;
  if (d->endpoint_count > sizeof whys / sizeof *whys) {
    more = calloc(d->endpoint_count, sizeof *more);
    all = more;
  }
  for (size_t i = 0; all != NULL && i < d->endpoint_count; i++)
    all[i] = d->endpoints[i].why;
  struct run run = {
      .judge = judge,
      .domain = d,
      .facts = {d->checked, d->by_hand, d->weights},
      .now = now,
  };
  run.source = (struct text_source){d->name, d->steer, &run.facts, all};
  judge->stamp++;
  for (uint32_t r = 0; r < d->steer->region_count; r++)
    for (int t = 0; t < STEER_TYPES; t++)
      if (d->steer->offers[t])
        judge_region(&run, r, (enum steer_type)t);
  for (uint32_t e = 0; down && e < d->steer->endpoint_count; e++)
    judge_endpoint(&run, (uint16_t)e);
  end_others(&run);
  free(more);
}

/* What earlier runs left is believed no longer than this, if nothing has confirmed it. */
static void settle(struct judge *judge, const struct moment *now) {
  char text[INCIDENT_SUMMARY];
  size_t at = 0;
  for (struct incident *i; (i = book_next(judge->book, &at)) != NULL;) {
    struct judge_domain *d = NULL;
    if (!i->restored)
      continue;
    if (i->domain != NULL)
      d = judge_find(judge, i->domain);
    if (d != NULL)
      judge_mark(judge, d);
    if (i->kind != INCIDENT_ISOLATED)
      continue;
    snprintf(text, sizeof text, "checker on %.200s is no longer isolated",
             i->region != NULL ? i->region : judge->host);
    book_end(judge->book, i, text, &judge->isolated, now);
  }
}

bool judge_run(struct judge *judge, size_t most, const struct moment *now) {
  if (judge->count != 0 && judge->settle_at == 0 && !judge->settled)
    judge->settle_at = now->mono + JUDGE_SETTLE_MS;
  if (judge->settle_at != 0 && judge->settle_at <= now->mono) {
    judge->settle_at = 0;
    judge->settled = true;
    settle(judge, now);
  }
  for (; most > 0 && judge->dirty_count > 0; most--) {
    struct judge_domain *d = &judge->domains[judge->dirty[judge->dirty_first]];
    judge->dirty_first = (judge->dirty_first + 1) % judge->count;
    judge->dirty_count--;
    d->dirty = false;
    judge_evaluate(judge, d, now);
  }
  return judge->dirty_count > 0;
}

uint64_t judge_wait(const struct judge *judge, const struct moment *now) {
  if (judge->dirty_count > 0)
    return 0;
  if (judge->settle_at == 0)
    return UINT64_MAX;
  return judge->settle_at > now->mono ? judge->settle_at - now->mono : 0;
}

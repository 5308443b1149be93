/* SPDX-License-Identifier: Apache-2.0 */
/* What sluice-syncd tells of its providers. */
#include "tools/syncd/engine_private.h"

static json_t *seconds_or_null(json_int_t seconds) {
  return seconds > 0 ? json_integer(seconds) : json_null();
}

/* What the last reading found; null: nothing ever. */
static json_t *drift_status(const struct provider *p) {
  if (p->drift_at == 0)
    return json_null();
  return json_pack("{s:I, s:I, s:s, s:b}", "at", (json_int_t)p->drift_at, "names",
                   (json_int_t)p->drift_names, "what", p->drift_what, "now", (int)p->drift_now);
}

/* How many of a list's keys are domains. */
static size_t count_domains(const json_t *list) {
  size_t count = 0;
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)(uintptr_t)list, key, value) {
    count += !round_is_zone(key);
  }
  return count;
}

static json_int_t count_waiting(const struct provider *p) {
  json_int_t count = 0;
  const char *key;
  json_t *value;
  json_object_foreach(p->waiting, key, value) {
    count += json_integer_value(value);
  }
  return count;
}

static json_t *provider_status(const struct provider *p) {
  const char *domain;
  const json_t *job;
  json_int_t since = 0;
  json_int_t next = 0;
  json_t *job_;
  json_object_foreach(p->queue.jobs, domain, job_) {
    job = job_;
    json_int_t at = json_integer_value(json_object_get(job, "since"));
    json_int_t then = json_integer_value(json_object_get(job, "next")) / 1000;
    since = since == 0 || at < since ? at : since;
    next = next == 0 || then < next ? then : next;
  }
  size_t behind = json_object_size(p->queue.jobs);
  size_t names = count_domains(p->queue.jobs);
  return json_pack("{s:s, s:I, s:I, s:I, s:o, s:o, s:b, s:s?, s:I, s:o, s:s?, s:o}", "name",
                   p->queue.name, "domains", (json_int_t)count_domains(p->places), "behind",
                   (json_int_t)names, "zones_behind", (json_int_t)(behind - names), "since",
                   seconds_or_null(since), "next", seconds_or_null(next), "working",
                   (int)p->working, "error", behind && p->error[0] ? p->error : NULL, "waiting",
                   count_waiting(p), "checked", seconds_or_null(p->checked), "check_error",
                   p->check_error[0] ? p->check_error : NULL, "drift", drift_status(p));
}

json_t *engine_domain_status(const struct engine *engine, const char *domain) {
  json_t *list = json_array();
  for (struct provider *p = engine->providers; list != NULL && p != NULL; p = p->next) {
    if (json_object_get(p->places, domain) == NULL)
      continue;
    const json_t *job = json_object_get(p->queue.jobs, domain);
    const char *error = json_string_value(json_object_get(job, "error"));
    json_array_append_new(
        list,
        json_pack("{s:s, s:b, s:o, s:s?, s:O?}", "name", p->queue.name, "level", (int)(job == NULL),
                  "since", seconds_or_null(json_integer_value(json_object_get(job, "since"))),
                  "error", job != NULL && error == NULL ? "not done yet" : error, "holds",
                  json_object_get(p->holds, domain)));
  }
  return json_pack("{s:s, s:o?}", "domain", domain, "providers", list);
}

void engine_retry(struct engine *engine) {
  const char *domain;
  json_t *job;
  for (struct provider *p = engine->providers; p != NULL; p = p->next) {
    json_object_foreach(p->queue.jobs, domain, job) {
      json_object_set_new(job, "next", json_integer(0));
      json_object_set_new(job, "attempts", json_integer(0));
    }
    p->queue.dirty = true;
    engine_start_round(p);
  }
}

const char *engine_unready(const struct engine *engine) {
  if (engine->ever)
    return NULL;
  return engine->said[0] ? engine->said : "the configuration is being read";
}

json_t *engine_status(const struct engine *engine, const char *domain) {
  json_t *list = json_array();
  for (struct provider *p = engine->providers; list != NULL && p != NULL; p = p->next)
    if (p->places != NULL || json_object_size(p->queue.jobs) > 0)
      json_array_insert_new(list, 0, provider_status(p));
  const char *why = engine->said[0] ? engine->said : engine_unready(engine);
  json_t *reply = json_pack("{s:s?, s:o?}", "server", why, "providers", list);
  if (reply != NULL && domain != NULL)
    json_object_set_new(reply, "domain", engine_domain_status(engine, domain));
  return reply;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What is known, as JSON for the control socket. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/name.h"
#include "healthcheck/engine_private.h"
#include "healthcheck/index.h"

enum {
  USERS_MAX = 100, /* of a check that are named */
  PART = 1000,     /* checks in one reply */
};

static json_t *text_or_null(const char *text) {
  json_t *json = text != NULL && *text != '\0' ? json_string(text) : NULL;
  return json != NULL ? json : json_null(); /* also for what is no UTF-8 */
}

/* ---- names ------------------------------------------------------------------------------------
 */

/* "cdn.example.com" is "cdn.example.com."; 2 for equal, 1 for the beginning of a longer name. */
static int match_name(const char *given, size_t len, const char *name) {
  if (strncasecmp(given, name, len) != 0 || name[len] != '.')
    return 0;
  return name[len + 1] == '\0' ? 2 : 1;
}

/* The whole name, or INDEX_NONE; *begins: how many names begin with it, *first: one of them. */
static uint32_t find_name(const struct list *list, const char *given, size_t len, uint32_t *begins,
                          uint32_t *first) {
  *begins = 0;
  for (uint32_t i = 0; i < list->domain_count; i++) {
    int match = match_name(given, len, list->domains[i].name);
    if (match == 2)
      return i;
    if (match == 1 && (*begins)++ == 0)
      *first = i;
  }
  return INDEX_NONE;
}

bool engine_find_domain(const struct engine *engine, const char *given, uint32_t *index,
                        char *why) {
  const struct list *list = engine->list;
  size_t len = strlen(given);
  bool absolute = len > 0 && given[len - 1] == '.';
  uint32_t begins = 0, first = 0;
  *index = list != NULL ? find_name(list, given, len - absolute, &begins, &first) : INDEX_NONE;
  if (*index == INDEX_NONE && !absolute && list != NULL && list->default_zone != NULL) {
    char name[2 * NAME_MAX_TEXT];
    uint32_t others, other;
    snprintf(name, sizeof name, "%.1000s.%.1000s", given, list->default_zone);
    *index = find_name(list, name, strlen(name) - 1, &others, &other);
  }
  if (*index == INDEX_NONE && !absolute && begins == 1)
    *index = first;
  if (*index != INDEX_NONE)
    return true;
  if (begins > 1 && !absolute)
    snprintf(why, ENGINE_WHY, "%.200s could be several domains; write the whole name", given);
  else
    snprintf(why, ENGINE_WHY, "there is no domain %.200s with a health check", given);
  return false;
}

bool engine_find_endpoint(const struct engine *engine, uint32_t domain, const char *endpoint,
                          uint16_t *index) {
  const struct list_domain *d = &engine->list->domains[domain];
  for (uint32_t i = 0; i < d->endpoint_count; i++) {
    if (strcmp(d->endpoints[i], endpoint) != 0)
      continue;
    *index = (uint16_t)i;
    return true;
  }
  return false;
}

/* ---- checks -----------------------------------------------------------------------------------
 */

/* Whose checks are wanted. */
struct wanted {
  bool all, any_endpoint;
  uint32_t domain;
  uint16_t endpoint;
};

static bool is_wanted(const struct wanted *wanted, const struct list_target *target) {
  return wanted->all || (target->domain == wanted->domain &&
                         (wanted->any_endpoint || target->endpoint == wanted->endpoint));
}

/* The endpoints that a probe counts for; *matches: how many of them are wanted. */
static json_t *users_json(const struct engine *engine, const struct slot *slot,
                          const struct wanted *wanted, uint64_t *count, uint64_t *matches) {
  const struct list *list = engine->list;
  json_t *users = json_array();
  *count = *matches = 0;
  for (uint32_t i = list->probe_first[slot->probe]; i < list->probe_first[slot->probe + 1]; i++) {
    const struct list_subject *subject = &list->subjects[list->probe_subject[i]];
    for (uint32_t t = 0; t < subject->target_count; t++) {
      const struct list_target *target = &subject->targets[t];
      const struct list_domain *domain = &list->domains[target->domain];
      bool match = is_wanted(wanted, target);
      *count += 1;
      *matches += match;
      if (match && json_array_size(users) < USERS_MAX)
        json_array_append_new(
            users, json_pack("[s, s]", domain->name, domain->endpoints[target->endpoint]));
    }
  }
  return users;
}

const char *engine_what(const struct check *check) {
  return check->type == CHECK_HTTP || check->type == CHECK_HTTPS ? check->path
         : check->type == CHECK_DNS                              ? check->name
         : check->type == CHECK_EXEC                             ? check->program
                                                                 : NULL;
}

static json_t *next_json(const struct engine *engine, const struct slot *slot, uint64_t now) {
  uint64_t due = schedule_due(engine->schedule, slot->entry);
  if (slot->running != NULL || due == UINT64_MAX)
    return json_null();
  return json_integer(due > now ? (json_int_t)(due - now) : 0);
}

static json_t *check_json(const struct engine *engine, const struct slot *slot, json_t *users,
                          uint64_t count, uint64_t now) {
  const struct check *check = slot->check->check;
  json_t *out =
      json_pack("{s:s, s:s, s:o, s:o, s:s, s:I, s:b, s:o, s:o, s:b, s:o, s:o, s:I}", "target",
                slot->text, "type", check_type_name(check->type), "port",
                check->port != 0 ? json_integer(check->port) : json_null(), "what",
                text_or_null(engine_what(check)), "state",
                machine_state_name((enum machine_state)slot->judged), "since",
                (json_int_t)slot->since, "held", slot->held, "held_ms",
                slot->held && slot->machine.held_to > now
                    ? json_integer((json_int_t)(slot->machine.held_to - now))
                    : json_null(),
                "last",
                slot->at == 0 ? json_null()
                              : json_pack("{s:b, s:I}", "ok", slot->ok, "at", (json_int_t)slot->at),
                "running", slot->running != NULL, "next_ms", next_json(engine, slot, now), "users",
                users, "user_count", (json_int_t)count);
  if (out == NULL)
    return NULL;
  json_object_set_new(out, "why", text_or_null(slot->why));
  json_object_set_new(out, "interval_ms", json_integer(check->interval));
  return out;
}

json_t *engine_checks(struct engine *engine, const char *domain, const char *endpoint,
                      json_int_t from, char *why) {
  struct wanted wanted = {.all = domain == NULL, .any_endpoint = endpoint == NULL};
  uint64_t now = engine_now(engine);
  why[0] = '\0';
  if (domain != NULL && !engine_find_domain(engine, domain, &wanted.domain, why))
    return NULL;
  if (domain != NULL && endpoint != NULL &&
      !engine_find_endpoint(engine, wanted.domain, endpoint, &wanted.endpoint)) {
    snprintf(why, ENGINE_WHY, "%.200s has no endpoint %.80s", domain, endpoint);
    return NULL;
  }
  uint32_t count = engine->list != NULL ? engine->list->probe_count : 0;
  uint32_t i = from > 0 && from < (json_int_t)count ? (uint32_t)from : from > 0 ? count : 0;
  json_t *list = json_array();
  for (; i < count && json_array_size(list) < PART; i++) {
    uint64_t users_count, matches;
    json_t *users = users_json(engine, engine->slots[i], &wanted, &users_count, &matches);
    if (matches > 0)
      json_array_append_new(list, check_json(engine, engine->slots[i], users, users_count, now));
    else
      json_decref(users);
  }
  return json_pack("{s:o, s:o}", "checks", list, "next",
                   i < count ? json_integer((json_int_t)i) : json_null());
}

/* ---- status -----------------------------------------------------------------------------------
 */

static json_t *reload_json(const struct engine *engine) {
  if (engine->reloaded_at == 0)
    return json_null();
  return json_pack("{s:b, s:I, s:o}", "ok", engine->reload_error[0] == '\0', "at",
                   (json_int_t)engine->reloaded_at, "error", text_or_null(engine->reload_error));
}

static json_t *states_json(const struct engine *engine) {
  json_int_t counts[3] = {0}, held = 0;
  for (uint32_t i = 0; engine->list != NULL && i < engine->list->probe_count; i++) {
    counts[engine->slots[i]->judged]++;
    held += engine->slots[i]->held;
  }
  return json_pack("{s:I, s:I, s:I, s:I}", "up", counts[MACHINE_UP], "down", counts[MACHINE_DOWN],
                   "unknown", counts[MACHINE_UNKNOWN], "held", held);
}

json_t *engine_status(struct engine *engine) {
  const struct list *list = engine->list;
  return json_pack(
      "{s:o, s:I, s:I, s:I, s:o, s:b, s:o, s:o, s:o, s:{s:I, s:I, s:I, s:I}}", "build",
      text_or_null(engine->build), "checks", (json_int_t)(list ? list->probe_count : 0), "subjects",
      (json_int_t)(list ? list->subject_count : 0), "domains",
      (json_int_t)(list ? list->domain_count : 0), "states", states_json(engine), "isolated",
      engine->isolated, "last_reload", reload_json(engine), "feed",
      engine->feed != NULL ? feed_json(engine->feed) : json_null(), "alerts",
      engine->alerts != NULL ? alerts_json(engine->alerts) : json_null(), "probes", "done",
      (json_int_t)engine->probes_done, "void", (json_int_t)engine->probes_void, "running",
      (json_int_t)schedule_running(engine->schedule), "late_max_ms", (json_int_t)engine->late_max);
}

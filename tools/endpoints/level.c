/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/endpoints/level.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/cli.h"
#include "tools/client.h"
#include "tools/sync/lock.h"
#include "tools/sync/run.h"
#include "tools/times.h"
#include "tools/wrap.h"
#include "zones/domain_list.h"

enum { GRACE_S = 5, LOOK_S = 3, ITEM = 2, BELOW = 4 };

static const char default_socket[] = "/run/sluice/syncd.sock";

/* True if the configuration that is served knows other providers at all. */
static bool has_providers(const struct state *state) {
  char why[DOMAIN_LIST_WHY];
  char path[4096];
  snprintf(path, sizeof path, "%s/current/domains.json", state->data ? state->data : "");
  struct domain_list *list = state->data ? domain_list_open(path, why) : NULL;
  bool some = list && json_object_size(json_object_get(domain_list_header(list), "providers")) > 0;
  domain_list_close(list);
  return some;
}

static json_t *one(const char *name, bool level, const char *error) {
  return json_pack("{s:s, s:b, s:s?}", "name", name, "level", (int)level, "error", error);
}

static const char unknown[] = "other providers";

/* What stands for all providers, where not even their names are known. */
static json_t *nobody(const char *why) {
  return json_pack("[o]", one(unknown, false, why));
}

bool level_is_unknown(const json_t *providers) {
  const char *name = json_string_value(json_object_get(json_array_get(providers, 0), "name"));
  return name && strcmp(name, unknown) == 0;
}

/* ---- by sluice-syncd ------------------------------------------------------------------------- */

/* Takes the reference of `request` over.  *absent: nobody listens. */
static json_t *ask(const struct level_place *place, json_t *request, unsigned seconds, bool *absent,
                   char *why) {
  const char *path =
      place->machine && place->machine->syncd ? place->machine->syncd : default_socket;
  json_t *reply = NULL;
  enum client_result result =
      request ? client_try(path, request, seconds, &reply, why) : CLIENT_REFUSED;
  json_decref(request);
  *absent = result == CLIENT_ABSENT;
  if (result != CLIENT_ANSWERED)
    return NULL;
  if (json_is_true(json_object_get(reply, "ok")))
    return reply;
  snprintf(why, CLIENT_WHY, "sluice-syncd: %.400s",
           json_string_value(json_object_get(reply, "error")));
  json_decref(reply);
  return NULL;
}

/* Only what has the right form. */
static json_t *checked(const json_t *list) {
  json_t *out = json_array();
  size_t i;
  json_t *item;
  json_array_foreach(list, i, item) {
    if (json_is_string(json_object_get(item, "name")))
      json_array_append(out, item);
  }
  return out;
}

/* ---- without one ----------------------------------------------------------------------------- */

/* Narrows a run down to one domain; false if it is at no provider. */
static bool narrow(struct sync_run *run, const char *domain) {
  bool found = false;
  for (size_t t = 0; t < run->target_count; t++) {
    struct sync_target *target = &run->targets[t];
    bool mine = false;
    for (size_t i = 0; i < target->zone->zone->domain_count && !mine; i++)
      mine = strcmp(target->zone->domains[i].name, domain) == 0;
    if (mine && target->zone->name_count == 0) {
      target->zone->names = calloc(1, sizeof *target->zone->names);
      char *name = target->zone->names ? strdup(domain) : NULL;
      if (!name)
        return false;
      target->zone->names[0] = name;
      target->zone->name_count = 1;
    }
    if (mine)
      found = true;
    else
      run->targets[t--] = run->targets[--run->target_count];
  }
  return found;
}

static json_t *results(const struct sync_run *run) {
  json_t *out = json_array();
  for (size_t i = 0; i < run->target_count; i++) {
    const struct sync_target *target = &run->targets[i];
    bool own = target->provider->kind && target->provider->kind->can.deployed;
    bool held = target->state == SYNC_APPLIED && target->plan.held > 0;
    if (!own)
      json_array_append_new(out, one(target->provider->name, target->state == SYNC_APPLIED && !held,
                                     held ? "something is held back; see `sluice sync plan`"
                                     : target->error.text[0] ? target->error.text
                                                             : NULL));
  }
  return out;
}

/* Other runs at the same providers are waited for; what is told of them is in the results. */
static json_t *level_run(struct sync_run *run) {
  char why[CLIENT_WHY] = "";
  cli_capture(why, sizeof why);
  bool ok = sync_run_lock(run);
  cli_capture(NULL, 0);
  if (!ok)
    return nobody(*why ? why : "out of memory");
  sync_run_plan(run);
  sync_run_apply(run);
  return results(run);
}

static json_t *bring_here(const struct level_place *place, const char *domain) {
  struct sync_run run;
  char why[CLIENT_WHY] = "";
  const struct sync_options options = {
      .config = place->machine ? place->machine->syncd_config : NULL,
      .settings = place->settings,
      .socket = place->socket,
      .lock_wait_ms = SYNC_LOCK_WAIT_MS,
      .consents = SYNC_LARGE, /* of nothing but this one name */
  };
  cli_capture(why, sizeof why);
  bool ok = sync_run_open(&run, &options) == CLI_DONE;
  cli_capture(NULL, 0);
  json_t *out = NULL;
  if (!ok || !run.facts) {
    char text[CLIENT_WHY];
    snprintf(text, sizeof text,
             "sluice-syncd is not running, and this process cannot do it: %.600s",
             ok     ? run.note
             : *why ? why
                    : "the configuration cannot be read");
    out = nobody(text);
  } else if (narrow(&run, domain)) {
    out = level_run(&run);
  } else {
    out = json_array();
  }
  sync_run_close(&run);
  return out;
}

/* ---- the interface --------------------------------------------------------------------------- */

json_t *level_bring(const struct level_place *place, const struct state *state, uint64_t wait_ms) {
  char why[CLIENT_WHY] = "out of memory";
  bool absent;
  if (!has_providers(state))
    return json_array();
  json_t *reply = ask(place,
                      json_pack("{s:s, s:s, s:I}", "command", "sync", "domain", state->name, "wait",
                                (json_int_t)wait_ms),
                      (unsigned)(wait_ms / 1000) + GRACE_S, &absent, why);
  if (!reply)
    return absent ? bring_here(place, state->name) : nobody(why);
  json_t *list = checked(json_object_get(reply, "providers"));
  json_decref(reply);
  return list;
}

json_t *level_look(const struct level_place *place, const struct state *state) {
  char why[CLIENT_WHY] = "out of memory";
  bool absent;
  if (!has_providers(state))
    return json_array();
  json_t *reply = ask(place, json_pack("{s:s, s:s}", "command", "status", "domain", state->name),
                      LOOK_S, &absent, why);
  if (!reply)
    return absent ? json_array() : nobody(why);
  json_t *list = checked(json_object_get(json_object_get(reply, "domain"), "providers"));
  json_decref(reply);
  return list;
}

void level_retry(const char *settings) {
  struct machine machine;
  char why[CLIENT_WHY] = "";
  bool absent;
  cli_capture(why, sizeof why);
  bool known = machine_read(&machine, settings);
  cli_capture(NULL, 0);
  const struct level_place place = {.machine = known ? &machine : NULL};
  json_decref(ask(&place, json_pack("{s:s}", "command", "retry"), LOOK_S, &absent, why));
  if (known)
    machine_close(&machine);
}

/* ---- what differs ---------------------------------------------------------------------------- */

static const json_t *find_region(const json_t *document, const char *name) {
  size_t i;
  const json_t *region;
  json_array_foreach(json_object_get(document, "regions"), i, region) {
    const char *mine = json_string_value(json_object_get(region, "name"));
    if (mine && strcmp(mine, name) == 0)
      return region;
  }
  return NULL;
}

/* The weight of an endpoint in a level of the document, or -1. */
static json_int_t held_weight(const json_t *region, uint32_t level, const char *endpoint) {
  const json_t *entries = json_array_get(json_object_get(region, "levels"), level);
  size_t i;
  const json_t *entry;
  json_array_foreach(entries, i, entry) {
    const char *name = json_string_value(json_array_get(entry, 0));
    if (name && strcmp(name, endpoint) == 0 && json_is_integer(json_array_get(entry, 1)))
      return json_integer_value(json_array_get(entry, 1));
  }
  return -1;
}

static void show_weights(FILE *out, const struct state *state, const char *provider,
                         const json_t *holds) {
  const struct steer_domain *steer = state->steer;
  size_t at = 0;
  for (uint32_t r = 0; r < steer->region_count; r++) {
    const json_t *region = find_region(holds, steer->regions[r].name);
    for (uint32_t l = 0; l < steer->regions[r].level_count; l++)
      for (uint32_t e = 0; e < steer->regions[r].levels[l].entry_count; e++, at++) {
        const struct steer_entry *entry = &steer->regions[r].levels[l].entries[e];
        const char *endpoint = steer->endpoints[entry->endpoint].name;
        json_int_t here = state->weights[at] >= 0 ? state->weights[at] : entry->weight;
        json_int_t there = held_weight(region, l, endpoint);
        if (there < 0)
          wrap_to(out, "", ITEM, "%s: %s level %u: no %s (here weight %lld)", provider,
                  steer->regions[r].name, l + 1, endpoint, (long long)here);
        else if (there != here)
          wrap_to(out, "", ITEM, "%s: %s level %u: %s weight %lld (here %lld)", provider,
                  steer->regions[r].name, l + 1, endpoint, (long long)there, (long long)here);
      }
  }
}

size_t level_show(FILE *out, const struct state *state, const json_t *providers) {
  size_t behind = 0;
  size_t i;
  const json_t *item;
  json_array_foreach(providers, i, item) {
    char when[TIMES_TEXT];
    const char *name = json_string_value(json_object_get(item, "name"));
    const char *error = json_string_value(json_object_get(item, "error"));
    json_int_t since = json_integer_value(json_object_get(item, "since"));
    if (json_is_true(json_object_get(item, "level")))
      continue;
    behind++;
    if (!out)
      continue;
    wrap_to(out, "", ITEM, "%s is behind%s%s: %s", name, since ? " since " : "",
            since ? times_utc(since, when) : "", error ? error : "for an unknown reason");
    if (json_is_object(json_object_get(item, "holds")))
      show_weights(out, state, name, json_object_get(item, "holds"));
  }
  return behind;
}

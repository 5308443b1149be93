/* SPDX-License-Identifier: Apache-2.0 */
/* What is in force on top of the configuration, as the running server tells it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/client.h"
#include "tools/endpoints/state.h"
#include "tools/sync/run.h"

void sync_facts_close(struct sync_domain *domain) {
  free(domain->weights);
  free(domain->status);
  free(domain->manual);
  domain->weights = NULL;
  domain->status = domain->manual = NULL;
}

bool sync_facts_make(struct sync_domain *domain) {
  const struct steer_domain *steer = domain->domain->steer;
  domain->weights = malloc((steer->entry_count + 1) * sizeof *domain->weights);
  domain->status = calloc(steer->endpoint_count + 1, sizeof *domain->status);
  domain->manual = calloc(steer->endpoint_count + 1, sizeof *domain->manual);
  if (!domain->weights || !domain->status || !domain->manual)
    return false;
  for (uint32_t i = 0; i < steer->entry_count; i++)
    domain->weights[i] = -1;
  return true;
}

/* By names, since the configuration may be another than the server's. */
static void take_weights(struct sync_domain *domain, const struct state *state) {
  const struct steer_domain *mine = domain->domain->steer;
  size_t at = 0;
  for (uint32_t r = 0; r < mine->region_count; r++) {
    long region = steer_region_find(state->steer, mine->regions[r].name);
    for (uint32_t l = 0; l < mine->regions[r].level_count; l++) {
      const struct steer_level *level = &mine->regions[r].levels[l];
      for (uint32_t e = 0; e < level->entry_count; e++, at++) {
        long endpoint =
            steer_endpoint_find(state->steer, mine->endpoints[level->entries[e].endpoint].name);
        long entry = region >= 0 && endpoint >= 0
                         ? state_entry(state->steer, (uint32_t)region, l + 1, (uint32_t)endpoint)
                         : -1;
        if (entry >= 0)
          domain->weights[at] = state->weights[entry];
      }
    }
  }
}

static void take_status(struct sync_domain *domain, const struct state *state) {
  const struct steer_domain *mine = domain->domain->steer;
  for (uint32_t i = 0; i < mine->endpoint_count; i++) {
    long endpoint = steer_endpoint_find(state->steer, mine->endpoints[i].name);
    if (endpoint < 0)
      continue;
    domain->status[i] = state->status[endpoint];
    domain->manual[i].manual = state->status[endpoint].manual;
  }
}

bool sync_facts_read(struct sync_domain *domain, const char *socket, char *note, size_t size) {
  char why[CLIENT_WHY] = "out of memory";
  json_t *request = json_pack("{s:s, s:s}", "command", "domain", "domain", domain->name);
  json_t *reply = NULL;
  bool ok = sync_facts_make(domain) && request &&
            client_try(socket, request, CLIENT_WAIT, &reply, why) == CLIENT_ANSWERED;
  json_decref(request);
  if (!ok) {
    snprintf(note, size, "%.480s", why);
    return false;
  }
  if (!json_is_true(json_object_get(reply, "ok"))) { /* not served yet: as configured */
    json_decref(reply);
    return true;
  }
  struct state *state = state_read(reply, why);
  if (!state) {
    snprintf(note, size, "%.480s", why);
    return false;
  }
  take_weights(domain, state);
  take_status(domain, state);
  state_free(state);
  return true;
}

static void close_all(struct sync_run *run) {
  for (size_t z = 0; z < run->zone_count; z++)
    for (size_t i = 0; i < run->zones[z].zone->domain_count; i++)
      sync_facts_close(&run->zones[z].domains[i]);
}

void sync_run_read_facts(struct sync_run *run) {
  char why[sizeof run->note] = "";
  close_all(run);
  run->facts = true;
  run->note[0] = '\0';
  for (size_t z = 0; z < run->zone_count; z++)
    for (size_t i = 0; run->facts && i < run->zones[z].zone->domain_count; i++)
      run->facts =
          sync_facts_read(&run->zones[z].domains[i], run->socket, run->note, sizeof run->note);
  if (run->facts)
    return;
  close_all(run); /* some and not others would be worse than none */
  if (run->options.server_only)
    return;
  run->facts = sync_facts_read_store(run, why, sizeof why);
  if (run->facts) {
    memcpy(run->note, why, sizeof why);
    return;
  }
  close_all(run);
  size_t len = strlen(run->note);
  if (*why)
    snprintf(run->note + len, sizeof run->note - len, "; %s", why);
}

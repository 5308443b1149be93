/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/model.h"

#include <stdlib.h>

#include "zones/arena.h"

struct model *model_new(void) {
  struct model *model = calloc(1, sizeof *model);
  if (model == NULL)
    return NULL;
  model->memory = malloc(sizeof *model->memory);
  if (model->memory == NULL) {
    free(model);
    return NULL;
  }
  arena_init(model->memory);
  return model;
}

static void free_domain(struct model_domain *domain) {
  steer_domain_free(domain->steer);
  free(domain->path);
  free(domain->owner_text);
  json_decref(domain->health);
  json_decref(domain->alerts);
  json_decref(domain->profiles);
  json_decref(domain->providers);
  json_decref(domain->pools);
}

static void free_zone(struct model_zone *zone) {
  for (size_t i = 0; i < zone->domain_count; i++)
    free_domain(&zone->domains[i]);
  free(zone->domains);
  free(zone->rrs);
  free(zone->apex);
  free(zone->path);
  json_decref(zone->transfer);
  json_decref(zone->providers);
}

void model_free(struct model *model) {
  if (model == NULL)
    return;
  for (size_t i = 0; i < model->zone_count; i++)
    free_zone(&model->zones[i]);
  free(model->zones);
  free(model->default_zone);
  json_decref(model->settings);
  arena_close(model->memory);
  free(model->memory);
  free(model);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "steering/layers.h"
#include "tools/sync/run.h"
#include "zones/domain_json.h"

enum { NAME_SHOWN = 64 };

/* Names come from a provider: what could drive a terminal does not get on. */
static const char *clean(const char *name, char out[NAME_SHOWN]) {
  size_t i = 0;
  for (; name[i] && i < NAME_SHOWN - 1; i++)
    out[i] = name[i] > ' ' && name[i] < 0x7f ? name[i] : '?';
  out[i] = '\0';
  return out;
}

static json_t *region_shares(const struct steer_domain *steer, uint32_t region,
                             enum steer_type type) {
  struct draw_table *table = draw_table_build(steer, region, type, NULL);
  double *chances = table ? malloc((table->count + 1U) * sizeof *chances) : NULL;
  json_t *out = json_object();
  if (chances)
    draw_probabilities(table, chances);
  for (uint16_t i = 0; chances && i < table->count; i++) {
    char name[NAME_SHOWN];
    json_object_set_new(out, clean(steer->endpoints[table->items[i].endpoint].name, name),
                        json_real(chances[i]));
  }
  free(chances);
  free(table);
  return out;
}

json_t *sync_shares(const json_t *document) {
  char why[DOMAIN_JSON_WHY];
  struct steer_domain *steer = document ? domain_json_decode(document, why) : NULL;
  if (!steer)
    return NULL;
  enum steer_type type = steer->offers[STEER_CNAME] ? STEER_CNAME
                         : steer->offers[STEER_A]   ? STEER_A
                                                    : STEER_AAAA;
  json_t *out = json_object();
  for (uint32_t r = 0; out && r < steer->region_count; r++) {
    char name[NAME_SHOWN];
    json_object_set_new(out, clean(steer->regions[r].name, name), region_shares(steer, r, type));
  }
  steer_domain_free(steer);
  return out;
}

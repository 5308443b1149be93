/* SPDX-License-Identifier: Apache-2.0 */
/* What is in force: of each name at each provider, as a mark. */
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "tools/sync/run.h"
#include "tools/syncd/round.h"
#include "zones/domain_json.h"

enum { LINK_MAX = 256 };

struct watch {
  const struct syncd_settings *settings;
  struct sync_run run;
  bool open;
  bool fresh;                 /* just opened: its facts are of now */
  char build[LINK_MAX];       /* that `run` is of */
  char (*zones)[SYNC_DIGEST]; /* mark of each target's zone, which only a new build changes */
};

struct watch *watch_open(const struct syncd_settings *settings) {
  struct watch *watch = calloc(1, sizeof *watch);
  if (watch)
    watch->settings = settings;
  return watch;
}

void watch_close(struct watch *watch) {
  if (watch && watch->open)
    sync_run_close(&watch->run);
  if (watch)
    free(watch->zones);
  free(watch);
}

static void current_build(const struct watch *watch, char out[LINK_MAX]) {
  char *path = watch->settings->data ? fs_join(watch->settings->data, "current") : NULL;
  ssize_t len = path ? readlink(path, out, LINK_MAX - 1) : 0;
  out[len > 0 ? len : 0] = '\0';
  free(path);
}

bool round_mark_zone(const struct sync_target *target, char out[SYNC_DIGEST]) {
  const struct model_zone *zone = target->zone->zone;
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned len = 0;
  char *settings = json_dumps(target->provider->settings, JSON_COMPACT | JSON_SORT_KEYS);
  EVP_MD_CTX *context = EVP_MD_CTX_new();
  bool ok = settings && context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1 &&
            EVP_DigestUpdate(context, settings, strlen(settings) + 1) == 1;
  for (size_t i = 0; ok && i < zone->domain_count; i++)
    ok = EVP_DigestUpdate(context, target->zone->domains[i].name,
                          strlen(target->zone->domains[i].name) + 1) == 1;
  for (size_t i = 0; ok && i < zone->rr_count; i++) {
    const struct model_rr *rr = &zone->rrs[i];
    char owner[NAME_MAX_TEXT];
    const uint32_t numbers[] = {rr->type, rr->ttl, (uint32_t)rr->rdata_len};
    name_to_text(owner, rr->owner);
    ok = EVP_DigestUpdate(context, owner, strlen(owner) + 1) == 1 &&
         EVP_DigestUpdate(context, numbers, sizeof numbers) == 1 &&
         EVP_DigestUpdate(context, rr->rdata, rr->rdata_len) == 1;
  }
  ok = ok && EVP_DigestFinal_ex(context, hash, &len) == 1 && 2 * len + 1 == SYNC_DIGEST;
  for (unsigned i = 0; ok && i < len; i++)
    snprintf(out + 2 * (size_t)i, 3, "%02x", hash[i]);
  EVP_MD_CTX_free(context);
  free(settings);
  return ok;
}

static bool mark_zones(struct watch *watch) {
  free(watch->zones);
  watch->zones = calloc(watch->run.target_count + 1, sizeof *watch->zones);
  for (size_t i = 0; watch->zones && i < watch->run.target_count; i++)
    if (!round_mark_zone(&watch->run.targets[i], watch->zones[i]))
      return false;
  return watch->zones;
}

static bool reopen(struct watch *watch, char *why) {
  char build[LINK_MAX];
  current_build(watch, build);
  if (watch->open && strcmp(build, watch->build) == 0)
    return true;
  if (watch->open)
    sync_run_close(&watch->run);
  const struct sync_options options = {.config = watch->settings->config,
                                       .settings = watch->settings->file,
                                       .socket = watch->settings->server,
                                       .server_only = true};
  watch->open = round_open(&watch->run, &options, why);
  if (watch->open && !mark_zones(watch)) {
    sync_run_close(&watch->run);
    watch->open = false;
    snprintf(why, PROVIDER_TEXT, "out of memory");
  }
  watch->fresh = watch->open;
  memcpy(watch->build, build, sizeof build);
  return watch->open;
}

static bool read_facts(struct watch *watch, char *why) {
  struct sync_run *run = &watch->run;
  if (watch->fresh) {
    watch->fresh = false;
    return true;
  }
  for (size_t z = 0; z < run->zone_count; z++)
    for (size_t i = 0; i < run->zones[z].zone->domain_count; i++) {
      sync_facts_close(&run->zones[z].domains[i]);
      if (!sync_facts_read(&run->zones[z].domains[i], run->socket, why, PROVIDER_TEXT))
        return false;
    }
  return true;
}

static bool is_pushed(const struct sync_provider *provider) {
  const char *health = json_string_value(json_object_get(provider->settings, "health"));
  return health ? strcmp(health, "pushed") == 0 : !provider->kind || !provider->kind->can.native;
}

bool round_mark(const struct sync_provider *provider, const struct sync_domain *domain,
                char out[SYNC_DIGEST]) {
  const struct steer_domain *steer = domain->domain->steer;
  const struct steer_status *status = is_pushed(provider) ? domain->status : domain->manual;
  json_t *weights = json_array();
  json_t *states = json_array();
  for (uint32_t i = 0; i < steer->entry_count; i++)
    json_array_append_new(weights, json_integer(domain->weights[i]));
  for (uint32_t i = 0; i < steer->endpoint_count; i++)
    json_array_append_new(
        states, json_integer(status[i].manual << 16 | status[i].health4 << 8 | status[i].health6));
  json_t *steering = domain_json_encode(steer);
  json_t *all = json_pack("{s:o?, s:O?, s:O?, s:O?, s:o, s:o}", "steer", steering, "health",
                          domain->domain->health, "options", domain->domain->providers, "provider",
                          provider->settings, "weights", weights, "status", states);
  bool ok = steering && all && sync_digest(all, out);
  json_decref(all);
  return ok;
}

static bool add_target(const struct watch *watch, size_t index, json_t *places) {
  const struct sync_target *target = &watch->run.targets[index];
  const struct sync_provider *provider = target->provider;
  if (provider->kind && provider->kind->can.deployed)
    return true; /* one of no kind stays, so that it is told to be behind */
  json_t *mine = json_object_get(places, provider->name);
  if (!mine) {
    mine = json_object();
    if (!mine || json_object_set_new(places, provider->name, mine) != 0)
      return false;
  }
  char key[NAME_MAX_TEXT + sizeof ROUND_ZONE];
  snprintf(key, sizeof key, "%s%s", ROUND_ZONE, target->zone->name);
  if (json_object_set_new(mine, key, json_string(watch->zones[index])) != 0)
    return false;
  for (size_t i = 0; i < target->zone->zone->domain_count; i++) {
    const struct sync_domain *domain = &target->zone->domains[i];
    char mark[SYNC_DIGEST];
    if (!round_mark(provider, domain, mark) ||
        json_object_set_new(mine, domain->name, json_string(mark)) != 0)
      return false;
  }
  return true;
}

json_t *watch_look(struct watch *watch, char *why) {
  snprintf(why, PROVIDER_TEXT, "out of memory");
  if (!reopen(watch, why) || !read_facts(watch, why))
    return NULL;
  json_t *places = json_object();
  bool ok = places;
  for (size_t i = 0; ok && i < watch->run.target_count; i++)
    ok = add_target(watch, i, places);
  if (ok)
    return places;
  json_decref(places);
  return NULL;
}

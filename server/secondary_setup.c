/* SPDX-License-Identifier: Apache-2.0 */
/* Start and end of the secondary zones, what the loader is told about them, and their status. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "server/secondary_private.h"

/* ---- open -------------------------------------------------------------------------------------
 */

static bool out_of_memory(char *why) {
  snprintf(why, SECONDARY_WHY, "out of memory");
  return false;
}

static void take_kept(struct managed *m, int64_t now) {
  char why[SECONDARY_STORE_WHY];
  if (!secondary_files_look(&m->files, &m->info, why)) {
    if (why[0] == '\0')
      return;
    log_error("secondary %s: %s; it is set aside and fetched anew", m->name, why);
    secondary_files_set_aside(&m->files);
    return;
  }
  int64_t age = (int64_t)time(NULL) - m->info.refreshed;
  if (age < 0) /* the clock was put back */
    age = 0;
  int64_t most = SECONDARY_EXPIRE_MOST_S;
  secondary_zone_restore(&m->zone, &m->info.soa, (age > most ? most : age) * 1000, now);
}

static bool open_zone(struct secondary *s, size_t i, char *why) {
  struct managed *m = &s->zones[i];
  char name[NAME_MAX_TEXT];
  m->owner = s;
  m->settings = &s->options.settings->zones[i];
  m->name = strdup(name_to_text(name, m->settings->apex));
  if (m->name == NULL || uv_mutex_init(&m->files_lock) != 0) {
    free(m->name);
    return out_of_memory(why);
  }
  s->count = i + 1;
  if (!secondary_files_init(&m->files, s->options.state, m->settings->apex))
    return out_of_memory(why);
  int64_t now = secondary_now(s);
  struct rng rng;
  rng_seed_kernel(&rng);
  secondary_zone_init(&m->zone, (unsigned)m->settings->primary_count, rng_next(&rng), now);
  if (!settings_secondary_key(s->options.settings, m->settings, s->options.keys, &m->key, why))
    return false;
  take_kept(m, now);
  m->served = secondary_is_servable(m, now);
  return true;
}

static bool make_gate(struct secondary *s) {
  const struct settings_secondary *settings = s->options.settings;
  size_t total = 0;
  for (size_t i = 0; i < settings->count; i++)
    total += settings->zones[i].primary_count;
  s->gate_zones = calloc(settings->count + 1, sizeof *s->gate_zones);
  s->gate_primaries = calloc(total + 1, sizeof *s->gate_primaries);
  if (s->gate_zones == NULL || s->gate_primaries == NULL)
    return false;
  struct notify_primary *primary = s->gate_primaries;
  for (size_t i = 0; i < settings->count; i++) {
    const struct settings_secondary_zone *zone = &settings->zones[i];
    s->gate_zones[i].primaries = primary;
    s->gate_zones[i].primary_count = (unsigned)zone->primary_count;
    name_copy_lower(s->gate_zones[i].apex, zone->apex);
    for (size_t p = 0; p < zone->primary_count; p++, primary++) {
      address_to_geo(&zone->primaries[p].address.socket, &primary->address);
      primary->has_key = zone->has_key;
      if (zone->has_key)
        name_copy_lower(primary->key, zone->key);
    }
  }
  s->gate.zones = s->gate_zones;
  s->gate.zone_count = settings->count;
  s->gate.keys = s->options.keys;
  s->gate.udp_payload = s->options.udp_payload;
  return true;
}

/* Connections to the peers of `tls:`; false if the files of one cannot be used. */
static bool open_tls(struct secondary *s, char *why) {
  const struct settings_tls_peers *peers = s->options.tls;
  enum tls_blame blame;
  s->tls = calloc(peers->count + 1, sizeof *s->tls);
  if (s->tls == NULL)
    return out_of_memory(why);
  for (size_t i = 0; i < peers->count; i++) {
    s->tls[i] = tls_client_open(&peers->items[i].peer, &blame, why);
    if (s->tls[i] != NULL)
      continue;
    settings_tls_peers_blame(peers, &peers->items[i], blame, why);
    return false;
  }
  return true;
}

void secondary_reload_tls(struct secondary *s, char *warning) {
  const struct settings_tls_peers *peers = s->options.tls;
  enum tls_blame blame;
  char reason[TLS_WHY];
  warning[0] = '\0';
  for (size_t i = 0; i < peers->count; i++) {
    if (tls_client_reload(s->tls[i], &blame, reason))
      continue;
    settings_tls_peers_blame(peers, &peers->items[i], blame, reason);
    snprintf(warning, SECONDARY_WHY, "the old files of tls `%.40s` stay in use: %.430s",
             peers->items[i].name, reason);
    log_warning("%s", warning);
  }
}

struct secondary *secondary_open(const struct secondary_options *options, char *why) {
  if (!settings_secondary_has_state(options->settings, options->state, why))
    return NULL;
  struct secondary *s = calloc(1, sizeof *s);
  if (s == NULL) {
    out_of_memory(why);
    return NULL;
  }
  size_t count = options->settings->count;
  s->options = *options;
  struct rng rng;
  rng_seed_kernel(&rng);
  s->seed = rng_next(&rng);
  s->zones = calloc(count + 1, sizeof *s->zones);
  s->wanted = calloc(count + 1, sizeof *s->wanted);
  bool ok = (s->zones != NULL && s->wanted != NULL && make_gate(s)) || out_of_memory(why);
  ok = ok && open_tls(s, why);
  for (size_t i = 0; ok && i < count; i++)
    ok = open_zone(s, i, why);
  if (ok)
    ok = secondary_init_handles(s) || out_of_memory(why);
  if (ok)
    return s;
  secondary_close(s);
  return NULL;
}

void secondary_close(struct secondary *s) {
  char why[SECONDARY_STORE_WHY];
  if (s == NULL)
    return;
  for (size_t i = 0; i < s->count; i++) {
    struct managed *m = &s->zones[i];
    if (m->unwritten && !secondary_files_confirm(&m->files, &m->info, why))
      log_error("%s", why);
    secondary_files_close(&m->files);
    uv_mutex_destroy(&m->files_lock);
    free(m->name);
  }
  for (size_t i = 0; s->tls != NULL && i < s->options.tls->count; i++)
    tls_client_close(s->tls[i]);
  free(s->tls);
  free(s->zones);
  free(s->wanted);
  free(s->gate_zones);
  free(s->gate_primaries);
  free(s);
}

const struct notify_gate *secondary_gate(const struct secondary *s) {
  return &s->gate;
}

/* ---- loading ----------------------------------------------------------------------------------
 */

const struct load_secondary *secondary_wanted(struct secondary *s, size_t *count) {
  for (size_t i = 0; i < s->count; i++) {
    const struct managed *m = &s->zones[i];
    s->wanted[i] = (struct load_secondary){.name = m->name,
                                           .apex = m->settings->apex,
                                           .image = m->served ? m->files.image : NULL,
                                           .names = m->info.names,
                                           .expired = m->zone.has_data};
  }
  *count = s->count;
  return s->wanted;
}

static struct managed *find(struct secondary *s, const char *name) {
  for (size_t i = 0; i < s->count; i++)
    if (strcmp(s->zones[i].name, name) == 0)
      return &s->zones[i];
  return NULL;
}

void secondary_published(struct secondary *s, const struct served *served) {
  for (size_t i = 0; i < served->problem_count; i++) {
    const struct load_problem *problem = &served->problems[i];
    struct managed *m = find(s, problem->zone);
    if (m == NULL || !problem->damaged) {
      log_error("secondary %s: %s", problem->zone, problem->why);
      continue;
    }
    log_error("secondary %s: %s; it is set aside and fetched anew", problem->zone, problem->why);
    if (m->save != NULL)
      continue; /* a new one is being written already */
    secondary_files_set_aside(&m->files);
    m->served = false;
    m->zone.has_data = false;
    secondary_zone_refresh(&m->zone, secondary_now(s));
  }
  secondary_look_at_all(s);
}

/* ---- status -----------------------------------------------------------------------------------
 */

uint64_t secondary_count(const struct secondary *s, enum secondary_counter counter) {
  return s->counters[counter];
}

const char *secondary_counter_name(enum secondary_counter counter) {
  static const char *const names[SECONDARY_COUNTERS] = {[SECONDARY_SOA_QUERIES] =
                                                            "secondary_soa_queries",
                                                        [SECONDARY_AXFR] = "secondary_axfr",
                                                        [SECONDARY_IXFR] = "secondary_ixfr",
                                                        [SECONDARY_FAILURES] = "secondary_failures",
                                                        [SECONDARY_NOTIFIES] = "secondary_notifies",
                                                        [SECONDARY_OCTETS] = "secondary_octets",
                                                        [SECONDARY_TLS] = "secondary_tls"};
  return names[counter];
}

/* A time of the loop's clock as Unix seconds. */
static json_t *time_json(const struct secondary *s, bool known, int64_t at) {
  if (!known)
    return json_null();
  return json_integer((json_int_t)((int64_t)time(NULL) + (at - secondary_now(s)) / 1000));
}

static json_t *zone_json(const struct managed *m) {
  const struct secondary *s = m->owner;
  const struct secondary_zone *z = &m->zone;
  bool idle = z->step == SECONDARY_IDLE;
  json_t *primaries = json_array();
  json_t *tls = json_array();
  for (size_t i = 0; i < m->settings->primary_count; i++) {
    const struct settings_primary *primary = &m->settings->primaries[i];
    json_array_append_new(primaries, json_string(primary->address.text));
    json_array_append_new(tls,
                          primary->tls != NULL ? json_string(primary->tls->name) : json_null());
  }
  json_t *serial = z->has_data ? json_integer((json_int_t)z->soa.serial) : json_null();
  json_t *error = m->error[0] != '\0' ? json_string(m->error) : json_null();
  return json_pack(
      "{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o}", "zone", m->name, "state",
      secondary_state_text(secondary_zone_state(z, secondary_now(s))), "serial", serial,
      "primaries", primaries, "tls", tls, "refreshed", time_json(s, z->has_data, z->refreshed_at),
      "next_refresh", time_json(s, idle, z->next_at), "expires",
      time_json(s, z->has_data, secondary_zone_expires_at(z)), "busy", !idle, "error", error);
}

json_t *secondary_json(const struct secondary *s) {
  json_t *list = json_array();
  for (size_t i = 0; i < s->count; i++)
    json_array_append_new(list, zone_json(&s->zones[i]));
  return list;
}

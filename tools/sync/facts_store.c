/* SPDX-License-Identifier: Apache-2.0 */
/* What was set by hand, from the server's store where the server itself does not answer.  Health is
 * not in it: everything counts as up, as at a server that has just started. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/store.h"
#include "tools/endpoints/state.h"
#include "tools/machine.h"
#include "tools/sync/run.h"

/* ---- one override ---------------------------------------------------------------------------- */

static void take_weight(struct sync_domain *domain, const struct store_override *o,
                        uint32_t endpoint) {
  const struct steer_domain *steer = domain->domain->steer;
  long region = steer_region_find(steer, o->key.region);
  long entry = region < 0 ? -1 : state_entry(steer, (uint32_t)region, o->key.level, endpoint);
  if (entry >= 0 && o->value >= 0)
    domain->weights[entry] = o->value;
}

static void take_status(struct steer_status *status, const struct store_override *o) {
  if (o->value == STATE_STATUS_ENABLED || o->value == STATE_STATUS_DISABLED)
    status->manual = o->value == STATE_STATUS_ENABLED ? MANUAL_ENABLED : MANUAL_DISABLED;
}

static void take_health(struct steer_status *status, const struct store_override *o) {
  if (o->value != HEALTH_UP && o->value != HEALTH_DOWN)
    return;
  if (o->key.family == 4)
    status->health4 = (uint8_t)o->value;
  else
    status->health6 = (uint8_t)o->value;
}

static bool take(void *arg, const struct store_override *o) {
  struct sync_domain *domain = arg;
  long endpoint = steer_endpoint_find(domain->domain->steer, o->key.endpoint);
  if (endpoint < 0 || (o->expires_at > 0 && o->expires_at <= (int64_t)time(NULL)))
    return true; /* as the server will see it when it starts */
  if (o->key.kind == STORE_WEIGHT)
    take_weight(domain, o, (uint32_t)endpoint);
  else if (o->key.kind == STORE_STATUS) {
    take_status(&domain->status[endpoint], o);
    take_status(&domain->manual[endpoint], o);
  } else {
    take_health(&domain->status[endpoint], o);
  }
  return true;
}

/* ---- the store ------------------------------------------------------------------------------- */

/* SQLite makes files beside a store also for reading, and what root makes there must be the
 * server's. */
static bool become_owner(const char *path, uid_t *uid, gid_t *gid) {
  struct stat st;
  *uid = geteuid();
  *gid = getegid();
  if (stat(path, &st) != 0)
    return false;
  return *uid != 0 || st.st_uid == 0 || (setegid(st.st_gid) == 0 && seteuid(st.st_uid) == 0);
}

static bool become_self(uid_t uid, gid_t gid) {
  return seteuid(uid) == 0 && setegid(gid) == 0;
}

static bool read_all(struct sync_run *run, struct store *store, char *why) {
  for (size_t z = 0; z < run->zone_count; z++)
    for (size_t i = 0; i < run->zones[z].zone->domain_count; i++) {
      struct sync_domain *domain = &run->zones[z].domains[i];
      if (!sync_facts_make(domain) || !store_load(store, domain->name, take, domain, why))
        return false;
    }
  return true;
}

static bool read_store(struct sync_run *run, const char *path, char *note, size_t size) {
  char why[STORE_WHY] = "out of memory";
  uid_t uid;
  gid_t gid;
  bool ok = become_owner(path, &uid, &gid);
  struct store *store = ok ? store_open(path, why) : NULL;
  ok = store && read_all(run, store, why);
  if (store)
    store_close(store);
  if (!become_self(uid, gid))
    abort(); /* never on with the wrong rights */
  if (ok)
    snprintf(note, size,
             "the server does not answer; weights and statuses are those of its store, and every "
             "endpoint that is not forced counts as healthy");
  else
    snprintf(note, size, "its store cannot be read either: %.300s", why);
  return ok;
}

bool sync_facts_read_store(struct sync_run *run, char *note, size_t size) {
  struct machine machine;
  note[0] = '\0';
  if (!machine_read(&machine, run->options.settings))
    return false;
  char *path = machine.state ? fs_join(machine.state, "store.db") : NULL;
  bool ok = path && access(path, F_OK) == 0 && read_store(run, path, note, size);
  free(path);
  machine_close(&machine);
  return ok;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The locks of a run: of all its targets, always in the same order, so that no two runs wait for
 * each other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli.h"
#include "tools/machine.h"
#include "tools/sync/lock.h"
#include "tools/sync/run.h"

struct wanted {
  struct sync_target *target;
  char name[SYNC_LOCK_NAME];
};

static int compare(const void *a, const void *b) {
  return strcmp(((const struct wanted *)a)->name, ((const struct wanted *)b)->name);
}

static const char *text(const struct sync_provider *provider, const char *key) {
  return json_string_value(json_object_get(provider->settings, key));
}

/* The targets that can be changed at all, in the order of their locks; malloc'd. */
static struct wanted *list_targets(struct sync_run *run, size_t *count) {
  struct wanted *list = malloc((run->target_count + 1) * sizeof *list);
  *count = 0;
  for (size_t i = 0; list && i < run->target_count; i++) {
    struct sync_target *t = &run->targets[i];
    if (!t->provider->kind || t->provider->kind->can.deployed)
      continue;
    const char *url = text(t->provider, "url");
    const char *address = text(t->provider, "address");
    list[*count].target = t;
    sync_lock_name(t->provider->kind->type,
                   url       ? url
                   : address ? address
                             : "",
                   t->zone->name, list[*count].name);
    (*count)++;
  }
  if (list)
    qsort(list, *count, sizeof *list, compare);
  return list;
}

static void take_all(struct sync_run *run, struct wanted *list, size_t count, int folder) {
  char why[SYNC_LOCK_WHY] = "";
  int64_t until = sync_lock_now() + run->options.lock_wait_ms;
  enum sync_lock_result result = SYNC_LOCK_TAKEN;
  for (size_t i = 0; i < count; i++) {
    struct sync_target *t = list[i].target;
    if (i == 0 || strcmp(list[i].name, list[i - 1].name) != 0) {
      struct sync_lock *lock;
      result = sync_lock_take(folder, list[i].name, until, &lock, why);
      if (lock)
        run->locks[run->lock_count++] = lock;
    }
    if (result == SYNC_LOCK_TAKEN)
      continue;
    t->state = SYNC_FAILED;
    if (result == SYNC_LOCK_HELD)
      provider_fail(&t->error, PROVIDER_CONFLICT,
                    "%s: %.150s is being changed there by %.150s; nothing was changed, run it "
                    "again once that is done",
                    t->provider->name, t->zone->name, why);
    else
      provider_fail(&t->error, PROVIDER_LOCAL, "%s: %.300s", t->provider->name, why);
  }
}

/* Of the machine's settings; what is wrong with them was told when the run was opened. */
static char *find_folder(const struct sync_run *run) {
  struct machine machine;
  if (run->options.locks)
    return strdup(run->options.locks);
  if (!machine_read(&machine, run->options.settings))
    return NULL;
  char *folder = machine.syncd_locks ? strdup(machine.syncd_locks) : NULL;
  machine_close(&machine);
  return folder;
}

/* A deploy may have come while others were waited for; what they have brought to the providers
 * must not be undone by an older commit. */
static bool is_current(const struct sync_run *run) {
  struct machine machine;
  char commit[sizeof run->build];
  if (!*run->build || run->options.locks)
    return true;
  if (!machine_read(&machine, run->options.settings))
    return false;
  bool found = sync_find_current(&machine, commit, sizeof commit);
  machine_close(&machine);
  if (found && strcmp(commit, run->build) != 0)
    cli_error("nothing was changed: a deploy came in between, the configuration is commit %.12s "
              "now; run it again",
              commit);
  return found && strcmp(commit, run->build) == 0;
}

bool sync_run_lock(struct sync_run *run) {
  char note[SYNC_LOCK_WHY];
  char why[SYNC_LOCK_WHY];
  size_t count;
  if (run->locked)
    return true;
  struct wanted *list = list_targets(run, &count);
  char *path = find_folder(run);
  int folder = sync_lock_open_folder(path, note, why);
  run->locks = calloc(count + 1, sizeof(struct sync_lock *));
  run->locked = list && run->locks;
  if (!run->locked)
    cli_error("out of memory");
  memcpy(run->warning, note, sizeof note);
  if (run->locked && folder < 0)
    snprintf(run->warning, sizeof run->warning,
             "other runs at the same providers are not kept out: %.400s", why);
  else if (run->locked)
    take_all(run, list, count, folder);
  if (folder >= 0)
    close(folder);
  free(path);
  free(list);
  if (!run->locked || !is_current(run))
    return false;
  sync_run_read_facts(run);
  return true;
}

void sync_run_unlock(struct sync_run *run) {
  for (size_t i = 0; i < run->lock_count; i++)
    sync_lock_release(run->locks[i]);
  free(run->locks);
  run->locks = NULL;
  run->lock_count = 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "server/load_transfer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/transfer_policy.h"

struct taker {
  struct view_transfer *transfers;
  const struct load_request *request;
  const json_t *last;                  /* most zones have the settings of the one before */
  struct transfer_policy *last_policy; /* borrowed */
  uint32_t previous;                   /* index of the previous view's zones, for keep_build */
  size_t secondary;                    /* index of the request's secondary zones */
  char *why;
};

static bool out_of_memory(char *why) {
  snprintf(why, LOAD_WHY, "out of memory");
  return false;
}

/* Zones that nobody may transfer need no path. */
static bool set_records(struct view_transfer *transfer, const char *path, char *why) {
  if (transfer->policy == NULL || path == NULL)
    return true;
  transfer->records = strdup(path);
  return transfer->records != NULL || out_of_memory(why);
}

static bool take_policy(struct taker *t, struct view_transfer *transfer, const json_t *json,
                        const char *zone) {
  char reason[TRANSFER_POLICY_WHY];
  if (json == NULL || json_is_null(json)) {
    transfer->policy = transfer_policy_take(t->request->transfer);
    return true;
  }
  if (t->last != NULL && json_equal(t->last, json)) {
    transfer->policy = transfer_policy_take(t->last_policy);
    return true;
  }
  transfer->policy = transfer_policy_read(json, reason);
  if (transfer->policy == NULL) {
    snprintf(t->why, LOAD_WHY, "zone %.200s: transfer: %.250s", zone, reason);
    return false;
  }
  t->last = json;
  t->last_policy = transfer->policy;
  return true;
}

/* As in the view before: the build is the same, and its files may be gone. */
static bool keep(struct taker *t, struct view_transfer *transfer) {
  const struct served *previous = t->request->previous;
  while (previous->zones[t->previous].secondary)
    t->previous++;
  const struct view_transfer *from = &previous->view.transfers[t->previous++];
  transfer->policy = transfer_policy_take(from->policy);
  return set_records(transfer, from->records, t->why);
}

/* A secondary zone has its records beside its image. */
static bool take_secondary(struct taker *t, struct view_transfer *transfer,
                           const struct load_secondary *from) {
  static const char suffix[] = "image";
  transfer->policy = transfer_policy_take(t->request->transfer);
  size_t n = from->image != NULL ? strlen(from->image) : 0;
  if (transfer->policy == NULL || n < sizeof suffix ||
      strcmp(from->image + n - (sizeof suffix - 1), suffix) != 0)
    return true;
  char *path = NULL;
  if (asprintf(&path, "%.*srecords", (int)(n - (sizeof suffix - 1)), from->image) < 0)
    return out_of_memory(t->why);
  transfer->records = path;
  return true;
}

/* The secondary zone of this name: those that are served have the order of the request. */
static const struct load_secondary *next_secondary(struct taker *t, const char *name) {
  while (t->secondary < t->request->secondary_count) {
    const struct load_secondary *at = &t->request->secondary[t->secondary++];
    if (strcmp(at->name, name) == 0)
      return at;
  }
  return NULL;
}

bool load_transfer_take(struct served *served, const struct load_request *request,
                        const struct manifest *manifest, char *why) {
  struct taker t = {.request = request, .why = why};
  uint32_t count = served->view.zone_count;
  t.transfers = calloc((size_t)count + 1, sizeof *t.transfers);
  if (t.transfers == NULL)
    return out_of_memory(why);
  served->view.transfers = t.transfers;
  for (uint32_t i = 0; i < count; i++) {
    struct view_transfer *transfer = &t.transfers[i];
    const struct served_zone *zone = &served->zones[i];
    bool ok = true;
    if (zone->secondary) {
      const struct load_secondary *from = next_secondary(&t, zone->name);
      ok = from == NULL || take_secondary(&t, transfer, from);
    } else if (request->keep_build) {
      ok = keep(&t, transfer);
    } else {
      ok = take_policy(&t, transfer, manifest->zones[i].transfer, zone->name) &&
           set_records(transfer, manifest->zones[i].records, why);
    }
    if (!ok)
      return false;
  }
  return true;
}

void load_transfer_free(struct served *served) {
  const struct view_transfer *transfers = served->view.transfers;
  for (uint32_t i = 0; transfers != NULL && i < served->view.zone_count; i++) {
    free((void *)(uintptr_t)transfers[i].records);
    transfer_policy_free(transfers[i].policy);
  }
  free((void *)(uintptr_t)transfers);
}

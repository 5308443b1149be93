/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The static records of one zone while they are collected, and their canonical order.
 */
#ifndef SLUICE_ZONES_RR_LIST_H
#define SLUICE_ZONES_RR_LIST_H

#include "zones/arena.h"
#include "zones/model.h"

struct rr_list {
  struct arena *memory; /* of owners and data; the model's */
  struct model_rr *rrs;
  size_t count;
  size_t cap;
};

/* Adds a record; `owner` must already be in `memory`, the data is copied.  False without memory. */
bool rr_list_add(struct rr_list *list, uint8_t *owner, uint16_t type, uint32_t ttl,
                 const uint8_t *rdata, uint16_t rdata_len, struct diag_pos pos);

/* An owner name in lower case, padded, in `memory`; NULL without memory. */
uint8_t *rr_list_owner(struct rr_list *list, const uint8_t *name);

/*
 * Sorts in canonical order and drops repeated records.  Where the TTLs of an RRset differ, the
 * first written one counts, and each record that differs is reported (an error, or a warning if
 * `lenient`).
 */
bool rr_list_sort(struct rr_list *list, const uint8_t *apex, bool lenient,
                  struct diag_list *problems);

#endif

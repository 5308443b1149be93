/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds endpoints of domains by name, for who asks many times in a row about the same domain: with
 * thousands of endpoints a search from the start each time would take minutes.
 */
#ifndef SLUICE_SERVER_ENDPOINT_INDEX_H
#define SLUICE_SERVER_ENDPOINT_INDEX_H

#include "steering/model.h"

struct endpoint_index;

struct endpoint_index *endpoint_index_new(void);
void endpoint_index_free(struct endpoint_index *index);

/* As steer_endpoint_find(). */
long endpoint_index_find(struct endpoint_index *index, const struct steer_domain *domain,
                         const char *name);

#endif

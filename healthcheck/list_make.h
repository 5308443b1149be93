/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a list of checks (healthcheck/list.h): what is equal is kept once.  Inside of the reading
 * of a list.
 */
#ifndef SLUICE_HEALTHCHECK_LIST_MAKE_H
#define SLUICE_HEALTHCHECK_LIST_MAKE_H

#include "healthcheck/list.h"

enum { LIST_ADDRESSES = 4000 }; /* of one endpoint, as zones/domain_json.c has it */

struct list_making {
  struct probe_target targets[LIST_ADDRESSES]; /* of the endpoint that is being read */
  struct list_making_state *state;
};

struct list_making *list_make_begin(void);

/* Ends the making; the list, or NULL if `ok` is false or there is no memory. */
struct list *list_make_end(struct list_making *making, bool ok);

/* Copies that live with the list; NULL without memory. */
char *list_make_text(struct list_making *making, const char *text);
void *list_make_array(struct list_making *making, size_t count, size_t size);

void list_make_routes(struct list_making *making, json_t *routes);

/* A new domain, valid until the next one is made; NULL with a reason (LIST_WHY octets). */
struct list_domain *list_make_domain(struct list_making *making, const char *name, uint32_t *index,
                                     char *why);

/* The settings that equal these; NULL with a reason (CHECK_WHY octets). */
struct list_check *list_make_check(struct list_making *making, const json_t *health, char *why);

/* Puts a target to the subject of the first `count` of making->targets (sorted, IPv4 first) with
 * this check; false without memory. */
bool list_make_subject(struct list_making *making, struct list_check *check, size_t count,
                       struct list_target target);

#endif

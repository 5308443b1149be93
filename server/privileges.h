/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Giving up what is not needed once all addresses are bound.
 */
#ifndef SLUICE_SERVER_PRIVILEGES_H
#define SLUICE_SERVER_PRIVILEGES_H

#include <stdbool.h>
#include <sys/types.h>

enum { PRIVILEGES_WHY = 512 };

struct privileges {
  uid_t uid;
  gid_t gid;
};

/* Finds a user; false with a one-line reason in `why` (PRIVILEGES_WHY octets). */
bool privileges_find(const char *user, struct privileges *found, char *why);

/* The same for a group. */
bool privileges_find_group(const char *group, gid_t *gid, char *why);

/* Becomes the user `name`, for good; false with a reason.  Before other threads start. */
bool privileges_drop(const char *name, const struct privileges *to, char *why);

/* No program that this process starts can gain rights (set-user-ID and the like). */
void privileges_no_new(void);

#endif

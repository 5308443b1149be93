/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store without a server, for tools/endpoints/backend.c.  It answers as the server does, with
 * the same objects.
 */
#ifndef SLUICE_TOOLS_ENDPOINTS_BACKEND_PRIVATE_H
#define SLUICE_TOOLS_ENDPOINTS_BACKEND_PRIVATE_H

#include <jansson.h>

#include "tools/machine.h"

struct offline;

enum { OFFLINE_WHY = 1024 };

/* NULL with one line in `why` (OFFLINE_WHY octets). */
struct offline *offline_open(const struct machine *machine, const char *who, char *why);
void offline_close(struct offline *offline);

/* The folder of the current build. */
const char *offline_data(const struct offline *offline);

/* Carries out a request of server/control.h: status (only `build`), domain, domains, commit,
 * history.  A new reference, or NULL without memory. */
json_t *offline_call(struct offline *offline, const json_t *request);

#endif

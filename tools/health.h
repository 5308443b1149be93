/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of `sluice health`. */
#ifndef SLUICE_TOOLS_HEALTH_H
#define SLUICE_TOOLS_HEALTH_H

#include <jansson.h>

int health_list(int argc, char **argv);
int health_test(int argc, char **argv);

/* A request about DOMAIN[/ENDPOINT], or about all for NULL; NULL without memory. */
json_t *health_where(const char *command, const char *given);

#endif

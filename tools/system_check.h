/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice check --system FILE`: the machine's settings, judged by the very readers of the programs
 * that use them (server/settings.h, healthcheck/settings.h, tools/machine.h).
 */
#ifndef SLUICE_TOOLS_SYSTEM_CHECK_H
#define SLUICE_TOOLS_SYSTEM_CHECK_H

#include <stdbool.h>

/* False after the first error of each reader was printed. */
bool system_check(const char *path);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice check --system FILE`: the machine's settings, judged by the very readers of the programs
 * that use them (server/settings.h, healthcheck/settings.h, tools/machine.h).  Secrets that the
 * alert routes of the current build name, and with a section `syncd:` those of its providers, are
 * read once (base/secret.h) and never shown; a variable that is not set is a warning only, since
 * the programs have environments of their own.
 */
#ifndef SLUICE_TOOLS_SYSTEM_CHECK_H
#define SLUICE_TOOLS_SYSTEM_CHECK_H

#include <stdbool.h>

/* False after the first error of each reader, and all of the secrets, were printed. */
bool system_check(const char *path);

#endif

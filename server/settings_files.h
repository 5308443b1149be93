/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the machine's settings name outside of their file: keys, users, files of TLS, of cookies and
 * of locations.  sluiced finds out at its start, and ends with the first; `sluice check --system`
 * asks here for all of them, in the same words.
 */
#ifndef SLUICE_SERVER_SETTINGS_FILES_H
#define SLUICE_SERVER_SETTINGS_FILES_H

#include "server/settings.h"

/* Gets a line for each thing that is wrong: "path:line:column: what".  It may be called in a child
 * process that has become `user:`, so it can write, but not remember. */
typedef void settings_tell_fn(void *arg, const char *line);

/* False if something was told.  `serves`: what a server cannot do without must be there, too. */
bool settings_files_check(const struct settings *settings, bool serves, settings_tell_fn *tell,
                          void *arg);

#endif

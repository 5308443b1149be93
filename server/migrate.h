/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From earlier versions, which kept manual status and forced health in status.json: such entries
 * are taken over into the store, once.
 */
#ifndef SLUICE_SERVER_MIGRATE_H
#define SLUICE_SERVER_MIGRATE_H

#include "base/store.h"

/*
 * Reads `state_dir`/status.json, if there is one, and commits what was set by hand.  The commit's
 * request is made of the file's contents, so that doing it again after a crash changes nothing;
 * facts_flush() writes the file without these entries.  A damaged file is left alone: facts_open()
 * has set it aside.  False with a reason (STORE_WHY octets) if the store cannot take it.
 */
bool migrate_status_file(const char *state_dir, struct store *store, char *why);

#endif

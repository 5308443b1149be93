/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan in a file: made by `sync plan --out FILE`, looked at by whoever has to, and done by `sync
 * apply --plan FILE`, which plans again and insists on the same digest: the file is never executed,
 * only compared.
 *
 * {"format": 1, "kind": "sluice sync plan", "made": Unix seconds, "actor": TEXT, "git":
 * commit|null, "names": [ZONE|DOMAIN,...], "providers": "P,..."|null, "consents":
 * ["take-over",...], "digest": HEX, "targets": [{"provider", "zone", "items": as
 * sync_plan_json()}]}
 */
#ifndef SLUICE_TOOLS_SYNC_SAVED_H
#define SLUICE_TOOLS_SYNC_SAVED_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/sync/run.h"

enum { SYNC_SAVED_WHY = 512 };

/* Writes the file whole or not at all; false after an error was printed. */
bool sync_saved_write(const struct sync_run *run, const char *path);

/* The checked document of a file or a text, or NULL with one line in `why` (SYNC_SAVED_WHY). */
json_t *sync_saved_read(const char *path, char *why);
json_t *sync_saved_parse(const uint8_t *text, size_t len, char *why);

/* Takes over zones, providers and consents, as borrowed texts; `args` is malloc'd.  False without
 * memory. */
bool sync_saved_options(const json_t *saved, struct sync_options *options);

const char *sync_saved_digest(const json_t *saved);

/* What would be done now that the file does not say, and the reverse: a new reference to an array
 * of {"provider", "zone", "key", "then", "now"} (each item as sync_plan_json() gives it, or null;
 * key "" where the whole zone could be read only at one of the two times).  NULL without memory. */
json_t *sync_saved_compare(const json_t *saved, const struct sync_run *run);

/* The same for people: a line for each, on stdout. */
void sync_saved_show(const json_t *differences);

#endif

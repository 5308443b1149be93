/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of domains on the command line: relative ones are completed with the default zone.
 */
#ifndef SLUICE_TOOLS_NAMES_H
#define SLUICE_TOOLS_NAMES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/name.h"
#include "zones/model.h"

/* The zones that a name may end in; filled by one of the functions below. */
struct name_zones {
  uint8_t (*apexes)[NAME_BUF];
  size_t count;
  uint8_t default_zone[NAME_BUF];
  bool has_default;
};

/* False without memory.  names_close() frees. */
bool names_from_model(struct name_zones *zones, const struct model *model);

/* From `zones` (objects with `name`) and `default_zone` of the `build` in a server's status.  A
 * server that names no default zone and has just one zone: that one. */
bool names_from_status(struct name_zones *zones, const json_t *build);
void names_close(struct name_zones *zones);

/*
 * Reads a domain: absolute with a final dot or when it ends in one of the zones, else relative to
 * the default zone.  Writes it in lower case to `out` (NAME_BUF); false after a one-line error was
 * printed.
 */
bool names_resolve(const struct name_zones *zones, const char *text, uint8_t *out);

/* The steered domain that answers for a name: its own, or that of the wildcard at the closest
 * encloser (RFC 4592 section 3.3.1); NULL if the name is not steered. */
const struct model_domain *names_find_domain(const struct model *model, const uint8_t *name);

/* True if a server has to be asked for its zones: the text does not end with a dot of its own. */
bool names_need_zones(const char *text);

/*
 * The rest of a resolution: `build` of the server's status, NULL where names_need_zones() is false.
 * `out` holds NAME_MAX_TEXT; returns the exit status, 0 if fine.
 */
int names_resolve_with(const json_t *build, const char *text, char *out);

/* Resolves a domain for a request to the server at `socket_path`, which is asked for its zones when
 * the text alone does not tell.  `out` holds NAME_MAX_TEXT; returns the exit status, 0 if fine. */
int names_resolve_at_server(const char *socket_path, const char *text, char *out);

#endif

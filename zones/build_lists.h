/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lists of a build that other programs read: checks.json and domains.json.
 *
 * checks.json   {"format":1, "routes": alert routes of defaults.yaml,
 *                "domains":[{"domain","zone","owner","alerts",
 *                            "endpoints":{NAME:{"enabled",
 *                                               "addresses":[...] or "host":"...",
 *                                               "health":{...}}}}]}
 *               only domains with a health check, only endpoints with one
 * domains.json  {"format":1, "default_zone", "providers": of defaults.yaml,
 *                "domains":[{"domain","zone","owner","path","ttl","profiles","providers"}]}
 *
 * Unknown values are null.  Same model, same bytes: keys are sorted.
 */
#ifndef SLUICE_ZONES_BUILD_LISTS_H
#define SLUICE_ZONES_BUILD_LISTS_H

#include "base/buf.h"
#include "zones/model.h"

/* Both append to `out`; false without memory. */
bool build_checks_json(const struct model *model, struct buf *out);
bool build_domains_json(const struct model *model, struct buf *out);

/* Appends a JSON document with sorted keys and a final newline; takes the reference over (NULL, for
 * example of a failed allocation, gives false). */
bool build_dump(json_t *document, struct buf *out);

#endif

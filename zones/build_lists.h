/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lists of a build that other programs read: checks.json and domains.json.
 *
 * checks.json   {"domains":[{"domain","zone","owner","alerts",
 *                            "endpoints":{NAME:{"enabled",
 *                                               "addresses":[...] or "host":"...",
 *                                               "health":{...}}},
 *                            "steer": the whole domain, as in zones/domain_json.h}],
 *                "format":1, "routes": alert routes of defaults.yaml}
 *               only domains with a health check; in "endpoints" only those with one, in "steer"
 *               all; one domain in a line
 * domains.json  the first line: {"default_zone","domains": how many,"format":2,
 *                                "providers": of defaults.yaml}
 *               then for each domain a line:
 *               {"domain","owner","path","profiles","providers",
 *                "steer": as in zones/domain_json.h,"ttl","zone"}
 *               sorted, to be searched with zones/domain_list.h
 *
 * Unknown values are null.  Same model, same bytes: keys are sorted.
 */
#ifndef SLUICE_ZONES_BUILD_LISTS_H
#define SLUICE_ZONES_BUILD_LISTS_H

#include "base/buf.h"
#include "zones/model.h"

/* Both append to `out`; false without memory.  `before` is the same list of the build that the
 * model's kept zones are in (zones/build_kept.h), NULL if it keeps none. */
bool build_checks_json(const struct model *model, const struct buf *before, struct buf *out);
bool build_domains_json(const struct model *model, const struct buf *before, struct buf *out);

/* Appends a JSON document with sorted keys and a final newline; takes the reference over (NULL, for
 * example of a failed allocation, gives false). */
bool build_dump(json_t *document, struct buf *out);

#endif

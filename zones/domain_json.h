/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A steered domain as JSON, for programs that do not open images: the lists of a build
 * (zones/build_lists.h), the control socket's `domain`, and what reads them (sluice endpoints,
 * sluice-healthd).
 *
 * {"owner": "cdn.tm.example.com.", "ttl": 30, "answers": 1, "draw_per": "query"|"subnet",
 *  "types": ["A","AAAA"] or ["CNAME"],
 *  "endpoints": [{"name", "enabled": bool, "addresses": [...] or "host": "..."}...],
 *  "regions": [{"name", "atoms": ["global", "country:ca", ...],
 *               "levels": [[["central-4", 100], ["central-5", 0]], ...]}...]}
 *
 * Endpoints, regions, levels and entries keep the order of the configuration.
 */
#ifndef SLUICE_ZONES_DOMAIN_JSON_H
#define SLUICE_ZONES_DOMAIN_JSON_H

#include <jansson.h>

#include "steering/model.h"

enum { DOMAIN_JSON_WHY = 256 };

/* A new reference, or NULL without memory. */
json_t *domain_json_encode(const struct steer_domain *domain);

/*
 * The domain that a document describes; trusts nothing in it and establishes what
 * steer_domain_validate() asks for.  Unknown keys are ignored.  NULL with one line in `why`
 * (DOMAIN_JSON_WHY octets); freed by steer_domain_free().
 */
struct steer_domain *domain_json_decode(const json_t *json, char *why);

#endif

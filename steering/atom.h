/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading atoms: the short and the long spellings of spec/steering.md, layer 1.
 */
#ifndef SLUICE_STEERING_ATOM_H
#define SLUICE_STEERING_ATOM_H

#include "steering/model.h"

/*
 * Reads one atom.  `global`, `continent:eu`, `country:ca`, `subdivision:ca-qc`, `asn:64500`,
 * `net:192.0.2.0/24`, or short: a CIDR prefix, two letters (continents first, else a country of
 * ISO 3166-1 or XK), `cc-xxx` (a subdivision).  Case is ignored.  False with a message in *why (a
 * static text such as "host bits are set", "unknown country") if the text is of such a form but
 * wrong; false with *why NULL if it has none of these forms (it may then be a defined region name).
 */
bool steer_atom_parse(const char *text, struct steer_atom *atom, const char **why);

/* True if a defined region of this name would shadow a built-in form. */
bool steer_atom_is_built_in_form(const char *text);

/* True if both match the same clients by the same rule (so two regions must not both hold it). */
bool steer_atom_equal(const struct steer_atom *a, const struct steer_atom *b);

/* The long spelling, e.g. "country:ca"; `out` holds 64 bytes. */
char *steer_atom_text(const struct steer_atom *atom, char *out);

/* GeoNames' continent of an ISO 3166-1 country (lower case), or NULL if the country is unknown. */
const char *steer_country_continent(const char *country);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The default answer of a steered domain (spec: "a zone transfer, a master file or a provider that
 * cannot steer"): from the configuration alone, never from health or run-time overrides.
 */
#ifndef SLUICE_ZONES_DEFAULT_ANSWER_H
#define SLUICE_ZONES_DEFAULT_ANSWER_H

#include "zones/model.h"

/*
 * Calls `visit` for each record.  A and AAAA: the addresses of all endpoints of level 1 of `global`
 * that have a weight above 0 and are not `enabled: false`; all of the level where none is left.  A
 * domain of host names: the CNAME of the one with the largest weight, the first written on a tie.
 * The record is valid during the call only.
 */
void default_answer(const struct steer_domain *domain,
                    void (*visit)(void *arg, const struct model_rr *rr), void *arg);

#endif

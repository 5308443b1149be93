/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a checked zone to its products: the image, and the standard master file.
 *
 * Pure: same model and serial, same bytes.
 */
#ifndef SLUICE_ZONES_COMPILE_H
#define SLUICE_ZONES_COMPILE_H

#include "base/buf.h"
#include "zones/model.h"

/* Appends the image of the zone (zones/image.h) to `out`; false with a reason in `why` (512 bytes),
 * for example an RRset that fits no message. */
bool compile_image(const struct model_zone *zone, uint32_t serial, struct buf *out, char *why);

/* Appends the zone as an RFC 1035 master file: absolute names, one record a line, canonical order;
 * a steered name stands in it with its default answer (spec/steering.md). */
bool compile_master_file(const struct model_zone *zone, uint32_t serial, struct buf *out,
                         char *why);

#endif

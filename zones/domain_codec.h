/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steered domains in a zone image (zones/image.h).  The span `domains` is
 *
 *   u64 offsets[domain_count]    of each domain's blob, from the start of the file
 *   blobs                        each aligned to 8:
 *     struct image_records_ref[endpoint_count * STEER_TYPES], then the model as a run of fields
 *
 * preceded by endpoint_count as a u64.  The finished records stand behind the blobs.  The model is
 * read once, when an image is opened, into a steer_domain; the records are used in place.
 */
#ifndef SLUICE_ZONES_DOMAIN_CODEC_H
#define SLUICE_ZONES_DOMAIN_CODEC_H

#include "base/buf.h"
#include "zones/image.h"
#include "zones/model.h"

/* Appends all domains of a zone to an image that starts at `base` in `out`. */
bool domain_codec_write(const struct model_zone *zone, struct buf *out, size_t base,
                        struct image_span *span, char *why);

/* Reads the domains of an image whose header was checked, into image->domains and image->records.
 * On failure the caller frees what is there with domain_codec_free(). */
bool domain_codec_read(struct image *image, char *why);
void domain_codec_free(struct image *image);

#endif

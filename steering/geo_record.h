/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the records of location files say, in the GeoIP2 schema or the flat one.
 * Not for use outside of steering/.
 */
#ifndef SLUICE_STEERING_GEO_RECORD_H
#define SLUICE_STEERING_GEO_RECORD_H

#include "steering/geo.h"
#include "steering/mmdb_data.h"

/* Both read the record at `offset`; false when it is damaged.  *known becomes true if the record
 * has a field of one of the schemas (it is never set to false); unknown fields are skipped. */
bool geo_record_place(struct mmdb_data *data, size_t offset, struct geo_location *location,
                      bool *known);
bool geo_record_asn(struct mmdb_data *data, size_t offset, uint32_t *asn, bool *known);

#endif

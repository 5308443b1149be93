/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The zone that a transfer leads to: its records in canonical order, checked for what serving it
 * needs.  Pure; may run in any thread.
 */
#ifndef SLUICE_SERVER_SECONDARY_MODEL_H
#define SLUICE_SERVER_SECONDARY_MODEL_H

#include "server/transfer_in.h"
#include "zones/records.h"

enum { SECONDARY_MODEL_WHY = 512 };

struct secondary_model {
  struct model_zone zone; /* for compile_image() and records_compile(); SERIAL_CARRIED */
  size_t names;           /* owner names */
  bool is_signed;         /* it has DNSKEY records at its apex */

  /* private */
  struct arena memory;
  uint8_t apex[NAME_BUF];
};

enum secondary_model_result {
  SECONDARY_MODEL_OK,
  SECONDARY_MODEL_MISMATCH, /* the changes do not fit the records we have: ask for the whole zone */
  SECONDARY_MODEL_BAD,      /* no zone that can be served */
};

/*
 * Makes the zone from a transfer that is complete and proven, and for an incremental one from the
 * records it applies to (`old`, else NULL).  Both must outlive the model, which refers to them.  On
 * anything but OK, `why` (SECONDARY_MODEL_WHY octets) is set.  secondary_model_close() is needed in
 * every case.
 */
enum secondary_model_result secondary_model_make(struct secondary_model *model,
                                                 const struct transfer_in *transfer,
                                                 const struct records *old, char *why);
void secondary_model_close(struct secondary_model *model);

#endif

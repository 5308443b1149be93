/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making the files of a build's zones, on all CPUs: each is taken over from the live build when it
 * is still right, or compiled and written.
 */
#ifndef SLUICE_ZONES_BUILD_PRODUCTS_H
#define SLUICE_ZONES_BUILD_PRODUCTS_H

#include "zones/builddir.h"
#include "zones/compile.h"

typedef bool build_compile_fn(const struct model_zone *zone, uint32_t serial, struct buf *out,
                              char *why);

struct build_product {
  /* set by the caller */
  const struct model_zone *zone;
  build_compile_fn *compile;
  uint32_t serial;
  char file[BUILDDIR_FILE + 32];
  char sha[BUILDDIR_SHA + 1]; /* of the file in the live build if that can be taken over, else "" */
  /* set by build_make_products(), which leaves the hash of the file in `sha` */
  bool made; /* written, not taken over */
  bool lost; /* of a kept zone, and the live build does not have it: cannot be made */
};

/* Makes all; false with a one-line reason in `why` (512 bytes) when one cannot be. */
bool build_make_products(struct builddir *dir, struct build_product *items, size_t count,
                         char *why);

#endif

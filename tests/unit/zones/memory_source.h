/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A configuration in memory, for tests and fuzzing.
 */
#ifndef SLUICE_TESTS_MEMORY_SOURCE_H
#define SLUICE_TESTS_MEMORY_SOURCE_H

#include "zones/model.h"

struct memory_file {
  const char *path;
  const void *data;
  size_t len;
};

struct memory_source {
  struct config_source base; /* first */
  const struct memory_file *files;
  size_t count;
};

/* Files in the order of their paths; they must outlive the source.  Nothing to close. */
void memory_source_init(struct memory_source *source, const struct memory_file *files,
                        size_t count);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A configuration of hostile files: the input is cut at lines of `%%` into defaults.yaml,
 * zone.yaml, domain.yaml and a master file.  Whatever they hold, the reader must come back with a
 * model or with errors, and a model without errors must satisfy the steering's own checks.
 */
#include <stdlib.h>
#include <string.h>

#include "memory_source.h"
#include "zones/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FILES = 4 };

static void check(const struct model *model) {
  const char *why;
  for (size_t z = 0; z < model->zone_count; z++)
    for (size_t d = 0; d < model->zones[z].domain_count; d++)
      if (!steer_domain_validate(model->zones[z].domains[d].steer, &why))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct memory_file files[FILES] = {{"defaults.yaml", NULL, 0},
                                     {"z.example/a/domain.yaml", NULL, 0},
                                     {"z.example/x.zone", NULL, 0},
                                     {"z.example/zone.yaml", NULL, 0}};
  static const size_t order[FILES] = {0, 3, 1, 2};
  static const char separator[] = "\n%%\n";
  const uint8_t *at = data;
  const uint8_t *end = data + size;
  for (size_t i = 0; i < FILES; i++) {
    const uint8_t *cut = i + 1 < FILES ? memmem(at, (size_t)(end - at), separator, 4) : NULL;
    files[order[i]].data = at;
    files[order[i]].len = (size_t)((cut != NULL ? cut + 1 : end) - at);
    at = cut != NULL ? cut + 4 : end;
  }
  struct memory_source source;
  struct diag_list problems;
  diag_init(&problems);
  memory_source_init(&source, files, FILES);
  struct model *model = config_load(&source.base, &problems);
  if (model != NULL && problems.errors == 0)
    check(model);
  diag_sort(&problems);
  model_free(model);
  diag_close(&problems);
  return 0;
}

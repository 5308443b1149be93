/* SPDX-License-Identifier: Apache-2.0 */
/* A saved plan, which anybody may have written: what is taken of it is within bounds, and it can be
 * compared with a plan (here: with none). */
#include <stdlib.h>
#include <string.h>

#include "tools/sync/saved.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
  if (!condition)
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char why[SYNC_SAVED_WHY] = "";
  struct sync_options options = {0};
  const struct sync_run run = {0};
  json_object_seed(1);
  json_t *saved = sync_saved_parse(data, size, why);
  if (!saved) {
    require(why[0] != 0);
    return 0;
  }
  require(strlen(sync_saved_digest(saved)) == SYNC_DIGEST - 1);
  require(sync_saved_options(saved, &options));
  require(options.args[options.arg_count] == NULL);
  for (size_t i = 0; i < options.arg_count; i++)
    require(options.args[i]);
  json_t *differences = sync_saved_compare(saved, &run);
  require(json_is_array(differences));
  json_decref(differences);
  free(options.args);
  json_decref(saved);
  return 0;
}

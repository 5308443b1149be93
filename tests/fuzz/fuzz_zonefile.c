/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hostile master file: it must give sorted records inside the zone, or errors.
 */
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "memory_source.h"
#include "zones/zone_check.h"
#include "zones/zonefile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t apex[NAME_BUF] = "\x01z\x07"
                                      "example";

static void check(const struct rr_list *list) {
  for (size_t i = 0; i < list->count; i++) {
    const struct model_rr *rr = &list->rrs[i];
    if (name_wire_len(rr->owner, NAME_MAX_WIRE) == 0 || !name_is_below_or_equal(rr->owner, apex))
      abort();
    if (i > 0 && name_compare(list->rrs[i - 1].owner, rr->owner) > 0)
      abort();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct memory_file file = {"x.zone", data, size};
  struct memory_source source;
  struct arena arena;
  struct diag_list problems;
  arena_init(&arena);
  diag_init(&problems);
  memory_source_init(&source, &file, 1);
  struct rr_list list = {.memory = &arena};
  struct zonefile zonefile = {&source.base, "/root", apex, &list, &problems, false};
  zonefile_read(&zonefile, "x.zone");
  if (rr_list_sort(&list, apex, true, &problems)) {
    check(&list);
    struct model_zone zone = {.apex = (uint8_t *)apex, .path = (char *)"x.zone"};
    zone.rrs = list.rrs;
    zone.rr_count = list.count;
    struct zone_check run = {.zone = &zone, .problems = &problems};
    zone_check_run(&run);
  }
  diag_sort(&problems);
  free(list.rrs);
  arena_close(&arena);
  diag_close(&problems);
  return 0;
}

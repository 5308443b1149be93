/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The build's list of checks.  What is taken must hold together: indexes in range, each probe known
 * to its subjects, and the same text gives the same list.
 */
#include <stdlib.h>
#include <string.h>

#include "healthcheck/list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
  if (!condition)
    abort();
}

static void look_at_subject(const struct list *list, uint32_t index) {
  const struct list_subject *subject = &list->subjects[index];
  uint32_t count = subject->count4 + subject->count6;
  require(count > 0 && subject->target_count > 0 && (!subject->host || count == 1));
  for (uint32_t i = 0; i < count; i++) {
    uint32_t probe = subject->probes[i];
    bool known = false;
    require(probe < list->probe_count && list->probes[probe].check == subject->check);
    uint8_t family = list->probes[probe].target.family;
    require(family == (subject->host ? 0 : i < subject->count4 ? 4 : 6));
    for (uint32_t s = list->probe_first[probe]; s < list->probe_first[probe + 1]; s++)
      known = known || list->probe_subject[s] == index;
    require(known);
  }
  for (uint32_t t = 0; t < subject->target_count; t++) {
    const struct list_target *target = &subject->targets[t];
    require(target->domain < list->domain_count);
    require(target->endpoint < list->domains[target->domain].endpoint_count);
  }
}

static void look_at(const struct list *list) {
  for (uint32_t i = 0; i < list->subject_count; i++)
    look_at_subject(list, i);
  for (uint32_t i = 0; i < list->probe_count; i++) {
    const struct check *check = list->probes[i].check->check;
    require(check->interval >= check->timeout && check->rise > 0 && check->fall > 0);
    require(strlen(list_probe_text(&list->probes[i])) < LIST_TARGET);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char why[LIST_WHY] = "";
  struct list *list = list_parse((const char *)data, size, why);
  if (list == NULL) {
    require(why[0] != '\0');
    return 0;
  }
  look_at(list);
  struct list *again = list_parse((const char *)data, size, why);
  require(again != NULL && again->probe_count == list->probe_count &&
          again->subject_count == list->subject_count);
  list_free(again);
  list_free(list);
  return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of domains: searched and read through.  What the iteration gives without an error must be
 * found by its name.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/name.h"
#include "zones/domain_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
  if (!condition)
    abort();
}

static void find_again(struct domain_list *list, const char *name) {
  uint8_t wire[NAME_BUF];
  const char *problem;
  char why[DOMAIN_LIST_WHY];
  json_t *entry;
  if (!name_from_text(wire, name, strlen(name), NULL, &problem))
    return;
  if (domain_list_find(list, wire, &entry, why) == DOMAIN_LIST_FOUND)
    json_decref(entry);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static int file = -1;
  char path[32], why[DOMAIN_LIST_WHY] = "";
  if (file < 0)
    file = memfd_create("list", 0);
  require(file >= 0 && ftruncate(file, 0) == 0);
  require(pwrite(file, data, size, 0) == (ssize_t)size);
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  struct domain_list *list = domain_list_open(path, why);
  if (list == NULL) {
    require(why[0] != '\0');
    return 0;
  }
  find_again(list, "a.example.");
  json_t *entry;
  while (domain_list_next(list, &entry, why) == DOMAIN_LIST_FOUND) {
    find_again(list, json_string_value(json_object_get(entry, "domain")));
    json_decref(entry);
  }
  domain_list_close(list);
  return 0;
}

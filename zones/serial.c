/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/serial.h"

#include <string.h>

bool serial_is_greater(uint32_t a, uint32_t b) {
  uint32_t ahead = a - b;
  return ahead != 0 && ahead < UINT32_C(0x80000000);
}

uint32_t serial_next(uint32_t serial) {
  return serial == UINT32_MAX ? 1 : serial + 1;
}

bool serial_is_valid(const json_t *value) {
  return json_is_integer(value) && json_integer_value(value) >= 0 &&
         json_integer_value(value) <= UINT32_MAX;
}

static uint32_t serial_of(const json_t *entry) {
  return (uint32_t)json_integer_value(json_object_get(entry, "serial"));
}

static bool is_same(const json_t *entry, const char *input) {
  const char *before = json_string_value(json_object_get(entry, "input"));
  return before && !strcmp(before, input);
}

uint32_t serial_choose(const json_t *const *entries, size_t count, const char *input) {
  const json_t *greatest = NULL;
  for (size_t i = 0; i < count; i++)
    if (entries[i] && (!greatest || serial_is_greater(serial_of(entries[i]), serial_of(greatest))))
      greatest = entries[i];
  if (!greatest)
    return 1;
  /* Two places that give one serial to two contents: neither may go on with it. */
  for (size_t i = 0; i < count; i++)
    if (entries[i] && serial_of(entries[i]) == serial_of(greatest) && !is_same(entries[i], input))
      return serial_next(serial_of(greatest));
  return serial_of(greatest);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The checker's state file: what is taken is found again, and is the same once written. */
#include <stdlib.h>
#include <string.h>

#include "healthcheck/state_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
  if (!condition)
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct check check;
  static struct list_check settings = {
      .check = &check, .references = 1, .id = "0123456789abcdef0123456789abcdef"};
  struct list_probe probe = {.check = &settings, .target = {.family = 4}, .text = "192.0.2.1"};
  char why[STATE_FILE_WHY] = "";
  struct state_file *file = state_file_parse((const char *)data, size, why);
  if (file == NULL) {
    require(why[0] != '\0');
    return 0;
  }
  const struct state_saved *saved = state_file_similar(file, &probe);
  if (saved != NULL) {
    struct buf out;
    buf_init(&out);
    state_file_begin(&out);
    state_file_add(&out, probe.text, saved);
    state_file_add(&out, "www.example.com", saved);
    state_file_end(&out);
    struct state_file *again = state_file_parse((const char *)out.data, out.len, why);
    require(again != NULL && state_file_count(again) == 2);
    const struct state_saved *same = state_file_similar(again, &probe);
    require(same != NULL && same->state == saved->state && same->held == saved->held);
    state_file_free(again);
    buf_close(&out);
  }
  (void)state_file_take(file, &probe);
  state_file_free(file);
  return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a subscriber sends to the checker: lines, in pieces of a size that the first octet says.
 */
#include <stdlib.h>
#include <string.h>

#include "base/lines.h"
#include "healthcheck/feed_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
  if (!condition)
    abort();
}

static bool take(struct feed_input *input, const char *line, size_t len) {
  char why[FEED_WHY] = "";
  enum feed_input_result result = feed_input_line(input, line, len, why);
  require((result == FEED_INPUT_BAD) == (why[0] != '\0'));
  if (result == FEED_INPUT_OVERRIDES) {
    require(json_is_array(input->overrides));
    feed_input_clear(input);
  }
  return result != FEED_INPUT_BAD;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct lines lines;
  struct feed_input input = {NULL};
  size_t piece = size > 0 ? data[0] % 64u + 1 : 1;
  bool good = true;
  lines_init(&lines, 300);
  for (size_t at = 1; good && at < size; at += piece) {
    size_t room, n = size - at < piece ? size - at : piece;
    char *to = lines_room(&lines, n, &room);
    require(to != NULL && room >= n);
    memcpy(to, data + at, n);
    lines_added(&lines, n);
    char *line;
    size_t len;
    enum lines_result result;
    while ((result = lines_next(&lines, &line, &len)) == LINES_LINE && good) {
      require(len <= 300 && line[len] == '\0');
      good = take(&input, line, len);
    }
    good = good && result != LINES_TOO_LONG;
  }
  feed_input_clear(&input);
  lines_close(&lines);
  return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "memory_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool list(struct config_source *source, bool (*visit)(void *, const char *, char), void *arg,
                 char *why) {
  const struct memory_source *s = (struct memory_source *)source;
  why[0] = '\0';
  for (size_t i = 0; i < s->count; i++)
    if (!visit(arg, s->files[i].path, 'f'))
      return false;
  return true;
}

static bool read_file(struct config_source *source, const char *path, size_t limit, uint8_t **data,
                      size_t *len, char *why) {
  const struct memory_source *s = (struct memory_source *)source;
  for (size_t i = 0; i < s->count; i++) {
    const struct memory_file *file = &s->files[i];
    if (strcmp(file->path, path) != 0 || file->len > limit)
      continue;
    *data = malloc(file->len + 1);
    if (*data == NULL)
      break;
    if (file->len > 0)
      memcpy(*data, file->data, file->len);
    (*data)[file->len] = '\0';
    *len = file->len;
    return true;
  }
  snprintf(why, 512, "cannot read %.300s", path);
  return false;
}

static void close_nothing(struct config_source *source) {
  (void)source;
}

void memory_source_init(struct memory_source *source, const struct memory_file *files,
                        size_t count) {
  *source = (struct memory_source){
      .base = {.list = list, .read = read_file, .close = close_nothing, .prefix = ""},
      .files = files,
      .count = count,
  };
}

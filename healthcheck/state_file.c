/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/state_file.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/utf8.h"
#include "healthcheck/index.h"
#include "zones/arena.h"

enum { STATE_FORMAT = 1, FIELDS = 8, HELD_MAX = 86400 * 1000 };

struct record {
  const char *target;
  struct state_saved saved;
  uint32_t next; /* of the same target, or INDEX_NONE */
  bool taken;
};

struct state_file {
  struct arena arena;
  struct record *records;
  size_t count, cap;
  struct index targets; /* the first record of each */
};

__attribute__((format(printf, 2, 3))) static bool fail(char *why, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(why, STATE_FILE_WHY, format, args);
  va_end(args);
  return false;
}

/* ---- in memory --------------------------------------------------------------------------------
 */

struct state_file *state_file_new(void) {
  struct state_file *file = calloc(1, sizeof *file);
  if (file == NULL)
    return NULL;
  arena_init(&file->arena);
  index_open(&file->targets);
  return file;
}

void state_file_free(struct state_file *file) {
  if (file == NULL)
    return;
  index_close(&file->targets);
  arena_close(&file->arena);
  free(file->records);
  free(file);
}

size_t state_file_count(const struct state_file *file) {
  return file->count;
}

struct target_key {
  const struct state_file *file;
  const char *target;
};

static bool same_target(const void *arg, uint32_t position) {
  const struct target_key *key = arg;
  return strcmp(key->file->records[position].target, key->target) == 0;
}

static uint32_t find_target(const struct state_file *file, const char *target, uint64_t *hash) {
  struct target_key key = {.file = file, .target = target};
  *hash = index_hash(&file->targets, target, strlen(target));
  return index_find(&file->targets, *hash, same_target, &key);
}

static bool grow(struct state_file *file) {
  if (file->count < file->cap)
    return true;
  size_t cap = file->cap > 0 ? file->cap * 2 : 64;
  struct record *more = cap < INDEX_NONE ? realloc(file->records, cap * sizeof *more) : NULL;
  if (more == NULL)
    return false;
  file->records = more;
  file->cap = cap;
  return true;
}

bool state_file_put(struct state_file *file, const char *target, const struct state_saved *saved) {
  const char *why = saved->why != NULL ? saved->why : "";
  char *target_copy = arena_copy(&file->arena, target, strlen(target), 1);
  char *why_copy = arena_copy(&file->arena, why, strlen(why), 1);
  if (target_copy == NULL || why_copy == NULL || !grow(file))
    return false;
  uint64_t hash;
  uint32_t position = (uint32_t)file->count;
  uint32_t first = find_target(file, target, &hash);
  struct record *record = &file->records[position];
  *record = (struct record){.target = target_copy, .saved = *saved, .next = INDEX_NONE};
  record->saved.why = why_copy;
  if (first != INDEX_NONE) {
    record->next = file->records[first].next;
    file->records[first].next = position;
  } else if (!index_add(&file->targets, hash, position)) {
    return false;
  }
  file->count++;
  return true;
}

const struct state_saved *state_file_take(struct state_file *file, const struct list_probe *probe) {
  uint64_t hash;
  for (uint32_t i = find_target(file, list_probe_text(probe), &hash); i != INDEX_NONE;
       i = file->records[i].next) {
    if (strcmp(file->records[i].saved.id, probe->check->id) != 0)
      continue;
    file->records[i].taken = true;
    return &file->records[i].saved;
  }
  return NULL;
}

const struct state_saved *state_file_similar(const struct state_file *file,
                                             const struct list_probe *probe) {
  uint64_t hash;
  const struct state_saved *any = NULL;
  const struct check *check = probe->check->check;
  for (uint32_t i = find_target(file, list_probe_text(probe), &hash); i != INDEX_NONE;
       i = file->records[i].next) {
    const struct record *record = &file->records[i];
    if (record->taken)
      continue;
    if (record->saved.type == check->type && record->saved.port == check->port)
      return &record->saved;
    any = &record->saved;
  }
  return any;
}

/* ---- reading ----------------------------------------------------------------------------------
 */

static const char *text_at(const json_t *row, size_t field, size_t most) {
  const json_t *value = json_array_get(row, field);
  const char *text = json_string_value(value);
  if (text == NULL || json_string_length(value) > most || strlen(text) != json_string_length(value))
    return NULL;
  return text;
}

static bool number_at(const json_t *row, size_t field, json_int_t most, json_int_t *number) {
  const json_t *value = json_array_get(row, field);
  *number = json_integer_value(value);
  return json_is_integer(value) && *number >= 0 && *number <= most;
}

static bool type_at(const json_t *row, size_t field, uint8_t *type) {
  const char *text = text_at(row, field, LIST_ID);
  for (int i = CHECK_HTTP; text != NULL && i <= CHECK_EXEC; i++) {
    *type = (uint8_t)i;
    if (strcmp(text, check_type_name((enum check_type)i)) == 0)
      return true;
  }
  return false;
}

static bool read_row(struct state_file *file, const json_t *row, char *why) {
  struct state_saved saved = {.why = text_at(row, 7, STATE_FILE_WHY)};
  json_int_t port, since, held;
  const char *target = text_at(row, 0, LIST_TARGET - 1);
  const char *id = text_at(row, 1, LIST_ID - 1);
  const char *state = text_at(row, 4, LIST_ID);
  if (json_array_size(row) != FIELDS || target == NULL || *target == '\0' || id == NULL ||
      strspn(id, "0123456789abcdef") != LIST_ID - 1 || !type_at(row, 2, &saved.type) ||
      !number_at(row, 3, UINT16_MAX, &port) || state == NULL ||
      !number_at(row, 5, INT64_MAX, &since) || !number_at(row, 6, HELD_MAX, &held) ||
      saved.why == NULL)
    return fail(why, "is not [target, id, type, port, state, since, held, why]");
  if (strcmp(state, "up") != 0 && strcmp(state, "down") != 0)
    return fail(why, "has a state that is neither up nor down");
  saved.state = state[0] == 'u' ? MACHINE_UP : MACHINE_DOWN;
  saved.port = (uint16_t)port;
  saved.since = since;
  saved.held = (uint32_t)held;
  memcpy(saved.id, id, LIST_ID);
  return state_file_put(file, target, &saved) || fail(why, "out of memory");
}

static bool read_rows(struct state_file *file, const json_t *document, char *why) {
  const json_t *checks = json_object_get(document, "checks");
  if (json_integer_value(json_object_get(document, "format")) != STATE_FORMAT)
    return fail(why, "`format` is not %d", STATE_FORMAT);
  if (!json_is_array(checks))
    return fail(why, "`checks` is not a list");
  for (size_t i = 0; i < json_array_size(checks); i++) {
    char reason[STATE_FILE_WHY];
    if (!read_row(file, json_array_get(checks, i), reason))
      return fail(why, "check %zu %.400s", i + 1, reason);
  }
  return true;
}

struct state_file *state_file_parse(const char *text, size_t len, char *why) {
  json_error_t error;
  struct state_file *file = state_file_new();
  json_t *document = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
  bool ok = false;
  if (file == NULL)
    fail(why, "out of memory");
  else if (document == NULL)
    fail(why, "line %d: %.160s", error.line, error.text);
  else
    ok = read_rows(file, document, why);
  json_decref(document);
  if (ok)
    return file;
  state_file_free(file);
  return NULL;
}

static struct state_file *set_aside(const char *path, const char *reason, char *damaged,
                                    char *why) {
  char *aside = NULL;
  if (asprintf(&aside, "%s.damaged", path) < 0) {
    fail(why, "out of memory");
    return NULL;
  }
  if (rename(path, aside) != 0) {
    fail(why, "%.150s is damaged (%.150s) and cannot be set aside: %s", path, reason,
         strerror(errno));
    free(aside);
    return NULL;
  }
  fail(damaged, "%.100s is damaged, it is now %.100s: %.250s", path, aside, reason);
  utf8_repair(damaged);
  free(aside);
  struct state_file *file = state_file_new();
  if (file == NULL)
    fail(why, "out of memory");
  return file;
}

struct state_file *state_file_read(const char *path, char *damaged, char *why) {
  uint8_t *text = NULL;
  size_t len = 0;
  char reason[STATE_FILE_WHY];
  struct stat st;
  damaged[0] = '\0';
  if (lstat(path, &st) != 0 && errno == ENOENT) {
    struct state_file *empty = state_file_new();
    if (empty == NULL)
      fail(why, "out of memory");
    return empty;
  }
  if (!fs_read(path, STATE_FILE_MAX, &text, &len, why)) {
    bool is_file = stat(path, &st) == 0 && S_ISREG(st.st_mode);
    if (!is_file || st.st_size <= STATE_FILE_MAX)
      return NULL; /* no damage but missing rights, a folder, a broken disk */
    return set_aside(path, "it is too large", damaged, why);
  }
  struct state_file *file = state_file_parse((const char *)text, len, reason);
  free(text);
  return file != NULL ? file : set_aside(path, reason, damaged, why);
}

/* ---- writing ----------------------------------------------------------------------------------
 */

void state_file_begin(struct buf *out) {
  buf_printf(out, "{\"format\":%d,\"checks\":[", STATE_FORMAT);
}

static void add_text(struct buf *out, const char *text) {
  buf_add_u8(out, '"');
  for (const char *p = text; *p != '\0'; p++) {
    if (*p == '"' || *p == '\\')
      buf_add_u8(out, '\\');
    buf_add_u8(out, (unsigned char)*p < ' ' ? (uint8_t)' ' : (uint8_t)*p);
  }
  buf_add_u8(out, '"');
}

void state_file_add(struct buf *out, const char *target, const struct state_saved *saved) {
  /* A row after the first begins with a comma. */
  bool first = out->len > 0 && out->data[out->len - 1] == '[';
  buf_add_str(out, first ? "\n[" : ",\n[");
  add_text(out, target);
  buf_printf(out, ",\"%s\",\"%s\",%u,\"%s\",%lld,%u,", saved->id,
             check_type_name((enum check_type)saved->type), (unsigned)saved->port,
             machine_state_name((enum machine_state)saved->state), (long long)saved->since,
             (unsigned)saved->held);
  add_text(out, saved->why != NULL ? saved->why : "");
  buf_add_u8(out, ']');
}

void state_file_end(struct buf *out) {
  buf_add_str(out, "\n]}\n");
}

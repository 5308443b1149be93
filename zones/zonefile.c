/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/zonefile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/name.h"
#include "zones/record.h"
#include "zones/yaml_tree.h"

enum { PATH_SIZE = 4096 };

/* What all files of one zone share. */
struct shared {
  const struct zonefile *zone;
  struct record_rdata rdata;
  size_t errors_before;
  size_t includes;
  size_t bytes;
};

/* One file being read. */
struct state {
  struct shared *shared;
  const char *path;  /* relative to the root */
  const char *shown; /* as in messages; lives as long as the model */
  unsigned depth;
  uint8_t origin[NAME_BUF];
  uint8_t *owner;                     /* of the last record, NULL before the first */
  char last_owner[NAME_MAX_WIRE + 1]; /* as written, to know it again */
  size_t last_owner_len;
  bool has_default_ttl; /* $TTL */
  uint32_t default_ttl;
  bool has_last_ttl; /* the last TTL that a record gave */
  uint32_t last_ttl;
};

static struct diag_pos pos_of(const struct state *s, const struct master_word *word) {
  return (struct diag_pos){s->shown, word->line, master_column(word)};
}

static bool fail(const struct state *s, const struct master_word *word, const char *message) {
  diag_error(s->shared->zone->problems, pos_of(s, word), "%s", message);
  return false;
}

static bool too_many(const struct shared *shared) {
  return shared->zone->problems->errors - shared->errors_before >= ZONEFILE_MAX_ERRORS;
}

static int shown_len(const struct master_word *word) {
  return (int)(word->len < 60 ? word->len : 60);
}

/* ---- paths ------------------------------------------------------------------------------------
 */

bool zonefile_resolve(const char *from, const char *path, char *out, size_t size) {
  const char *slash = strrchr(from, '/');
  size_t len = slash == NULL ? 0 : (size_t)(slash - from);
  if (path[0] == '/' || path[0] == '\0' || len + 1 > size)
    return false;
  memcpy(out, from, len);
  out[len] = '\0';
  while (*path != '\0') {
    size_t n = strcspn(path, "/");
    if (n == 2 && path[0] == '.' && path[1] == '.') {
      if (len == 0)
        return false;
      while (len > 0 && out[--len] != '/')
        ;
      out[len] = '\0';
    } else if (n > 0 && !(n == 1 && path[0] == '.')) {
      /* Git's own files are no part of what it keeps, and hold secrets. */
      if (len + n + 2 > size || (n == 4 && memcmp(path, ".git", 4) == 0))
        return false;
      if (len > 0)
        out[len++] = '/';
      memcpy(out + len, path, n);
      len += n;
      out[len] = '\0';
    }
    path += n;
    path += *path == '/';
  }
  return len > 0;
}

/* ---- directives -------------------------------------------------------------------------------
 */

static bool read_file(struct shared *shared, const char *path, const char *shown, unsigned depth,
                      const struct state *parent, const uint8_t *origin, char *why);

static bool directive_origin(struct state *s, const struct master_entry *entry) {
  if (entry->count != 2)
    return fail(s, &entry->words[0], "$ORIGIN needs one domain name, as `$ORIGIN example.com.`");
  const char *why = NULL;
  uint8_t name[NAME_BUF];
  const struct master_word *word = &entry->words[1];
  if (word->len == 1 && word->text[0] == '@')
    return true;
  if (name_from_text(name, word->text, word->len, s->origin, &why) == 0) {
    diag_error(s->shared->zone->problems, pos_of(s, word), "`%.*s` is not a domain name: %s",
               shown_len(word), word->text, why);
    return false;
  }
  memcpy(s->origin, name, sizeof s->origin);
  s->last_owner_len = 0;
  return true;
}

static bool directive_ttl(struct state *s, const struct master_entry *entry) {
  if (entry->count != 2)
    return fail(s, &entry->words[0], "$TTL needs one time, as `$TTL 3600`");
  if (!record_ttl(entry->words[1].text, entry->words[1].len, &s->default_ttl))
    return fail(s, &entry->words[1],
                "a TTL must be 0 to 2147483647 seconds, such as 3600 or 1h30m");
  s->has_default_ttl = true;
  return true;
}

/* The word as a path: escapes are those of RFC 1035, so a backslash takes the next character. */
static bool include_path(const struct state *s, const struct master_word *word, char *out) {
  char written[PATH_SIZE];
  size_t n = 0;
  for (size_t i = 0; i < word->len && n + 1 < sizeof written; i++) {
    if (word->text[i] == '\\' && i + 1 < word->len)
      i++;
    written[n++] = word->text[i];
  }
  written[n] = '\0';
  if (word->len >= sizeof written)
    return false;
  const char *path = written;
  const char *root = s->shared->zone->root;
  size_t root_len = root != NULL ? strlen(root) : 0;
  if (path[0] == '/' && root_len > 0 && strncmp(path, root, root_len) == 0 &&
      path[root_len] == '/') {
    path += root_len + 1;
    return zonefile_resolve("", path, out, PATH_SIZE);
  }
  return zonefile_resolve(s->path, path, out, PATH_SIZE);
}

static bool directive_include(struct state *s, const struct master_entry *entry) {
  const struct zonefile *zone = s->shared->zone;
  char path[PATH_SIZE];
  char why[512];
  uint8_t origin[NAME_BUF];
  if (entry->count != 2 && entry->count != 3)
    return fail(s, &entry->words[0],
                "$INCLUDE needs a file and may have an origin, as `$INCLUDE "
                "part.zone sub.example.com.`");
  const struct master_word word = entry->words[1];
  memcpy(origin, s->origin, sizeof origin);
  if (entry->count == 3) {
    const char *reason = NULL;
    const struct master_word *o = &entry->words[2];
    if (!(o->len == 1 && o->text[0] == '@') &&
        name_from_text(origin, o->text, o->len, s->origin, &reason) == 0) {
      diag_error(zone->problems, pos_of(s, o), "`%.*s` is not a domain name: %s", shown_len(o),
                 o->text, reason);
      return false;
    }
  }
  if (!include_path(s, &word, path)) {
    diag_error(zone->problems, pos_of(s, &word),
               "$INCLUDE of `%.*s` leaves the repository; only files inside of it may be included",
               shown_len(&word), word.text);
    return false;
  }
  if (s->depth + 1 >= ZONEFILE_MAX_DEPTH)
    return fail(s, &word, "$INCLUDE is nested too deep (a file that includes itself?): at most 8");
  if (++s->shared->includes > ZONEFILE_MAX_INCLUDES)
    return fail(s, &word, "too many $INCLUDE: at most 1000 in a zone");
  size_t n = strlen(zone->source->prefix) + strlen(path) + 1;
  char *shown = arena_alloc(zone->list->memory, n, 1);
  if (shown == NULL)
    return fail(s, &word, "out of memory");
  snprintf(shown, n, "%s%s", zone->source->prefix, path);
  why[0] = '\0';
  if (read_file(s->shared, path, shown, s->depth + 1, s, origin, why))
    return true;
  if (why[0] != '\0')
    fail(s, &word, why);
  return false;
}

static bool word_is(const struct master_word *word, const char *text) {
  return word->len == strlen(text) && strncasecmp(word->text, text, word->len) == 0;
}

static bool directive(struct state *s, const struct master_entry *entry) {
  const struct master_word *word = &entry->words[0];
  if (word_is(word, "$ORIGIN"))
    return directive_origin(s, entry);
  if (word_is(word, "$TTL"))
    return directive_ttl(s, entry);
  if (word_is(word, "$INCLUDE"))
    return directive_include(s, entry);
  diag_error(s->shared->zone->problems, pos_of(s, word),
             "unknown directive `%.*s`; known are $ORIGIN, $TTL and $INCLUDE", shown_len(word),
             word->text);
  return false;
}

/* ---- records ----------------------------------------------------------------------------------
 */

static bool read_owner(struct state *s, const struct master_word *word) {
  const struct zonefile *zone = s->shared->zone;
  uint8_t name[NAME_BUF];
  if (s->owner != NULL && word->len == s->last_owner_len && word->len > 0 &&
      memcmp(word->text, s->last_owner, word->len) == 0)
    return true;
  s->last_owner_len = 0;
  if (word->quoted)
    return fail(s, word, "an owner name must not stand in quotes");
  if (word->len == 1 && word->text[0] == '@') {
    memcpy(name, s->origin, sizeof name);
  } else {
    const char *why = NULL;
    if (name_from_text(name, word->text, word->len, s->origin, &why) == 0) {
      diag_error(zone->problems, pos_of(s, word), "`%.*s` is not a domain name: %s",
                 shown_len(word), word->text, why);
      return false;
    }
  }
  s->owner = rr_list_owner(zone->list, name);
  if (s->owner == NULL)
    return fail(s, word, "out of memory");
  if (word->len <= NAME_MAX_WIRE) {
    memcpy(s->last_owner, word->text, word->len);
    s->last_owner_len = word->len;
  }
  return true;
}

static int read_class(const struct master_word *word) {
  if (word->len == 2 && strncasecmp(word->text, "IN", 2) == 0)
    return 1;
  if (word_is(word, "CLASS1")) /* RFC 3597 section 5 */
    return 1;
  if (word_is(word, "CH") || word_is(word, "HS") || word_is(word, "CS") ||
      (word->len > 5 && strncasecmp(word->text, "CLASS", 5) == 0))
    return 2;
  return 0;
}

/* [TTL] [class] in any order, from word *at on; leaves *at at the type. */
static bool read_ttl_and_class(struct state *s, const struct master_entry *entry, size_t *at,
                               bool *has_ttl, uint32_t *ttl) {
  bool has_class = false;
  *has_ttl = false;
  for (size_t i = *at; i < entry->count; i++) {
    const struct master_word *word = &entry->words[i];
    if (!*has_ttl && word->len > 0 && word->text[0] >= '0' && word->text[0] <= '9') {
      if (!record_ttl(word->text, word->len, ttl)) {
        return fail(s, word, "a TTL must be 0 to 2147483647 seconds, such as 3600 or 1h30m");
      }
      *has_ttl = true;
      continue;
    }
    int class = has_class ? 0 : read_class(word);
    if (class == 2)
      return fail(s, word, "the class must be IN");
    if (class == 0) {
      *at = i;
      return true;
    }
    has_class = true;
  }
  return fail(s, &entry->words[entry->count - 1], "the record has no type and no data behind this");
}

static bool choose_ttl(struct state *s, const struct master_word *word, uint16_t type, bool has_ttl,
                       uint32_t *ttl) {
  if (has_ttl) {
    s->has_last_ttl = true;
    s->last_ttl = *ttl;
  } else if (s->has_default_ttl) {
    *ttl = s->default_ttl; /* RFC 2308 section 4 */
  } else if (s->has_last_ttl) {
    *ttl = s->last_ttl; /* RFC 1035 section 5.1 */
  } else if (type == RECORD_SOA) {
    const uint8_t *minimum = s->shared->rdata.data + s->shared->rdata.len - 4;
    *ttl = (uint32_t)minimum[0] << 24 | (uint32_t)minimum[1] << 16 | (uint32_t)minimum[2] << 8 |
           minimum[3];
    s->has_last_ttl = true;
    s->last_ttl = *ttl;
  } else {
    return fail(s, word, "no TTL is known here; put `$TTL 3600` at the start of the file");
  }
  return true;
}

static bool record(struct state *s, const struct master_entry *entry) {
  const struct zonefile *zone = s->shared->zone;
  const struct master_word *first = &entry->words[0];
  size_t type_at = 0;
  if (!entry->owner_omitted) {
    if (!read_owner(s, first))
      return false;
    type_at = 1;
  } else if (s->owner == NULL) {
    return fail(s, first, "the first record needs an owner name, such as `@`");
  }
  bool has_ttl;
  uint32_t ttl = 0;
  if (!read_ttl_and_class(s, entry, &type_at, &has_ttl, &ttl))
    return false;
  const struct master_word *type_word = &entry->words[type_at];
  uint16_t type = record_type(type_word->text, type_word->len);
  if (type == 0) {
    diag_error(zone->problems, pos_of(s, type_word),
               "unknown type `%.*s`; a type without a name is written as TYPE65400",
               shown_len(type_word), type_word->text);
    return false;
  }
  size_t bad;
  char why[RECORD_WHY];
  const struct master_word *words = type_word + 1;
  size_t count = entry->count - type_at - 1;
  if (!record_read(type, words, count, s->origin, &s->shared->rdata, &bad, why)) {
    const struct master_word *at = bad < count ? &words[bad]
                                   : count > 0 ? &words[count - 1]
                                               : type_word;
    return fail(s, at, why);
  }
  if (!choose_ttl(s, type_word, type, has_ttl, &ttl))
    return false;
  if (!name_is_below_or_equal(s->owner, zone->apex)) {
    char owner[NAME_MAX_TEXT];
    char apex[NAME_MAX_TEXT];
    diag_error(zone->problems, pos_of(s, first), "`%s` is outside of the zone `%s`; remove it",
               name_to_text(owner, s->owner), name_to_text(apex, zone->apex));
    return false;
  }
  return rr_list_add(zone->list, s->owner, type, ttl, s->shared->rdata.data, s->shared->rdata.len,
                     pos_of(s, first)) ||
         fail(s, first, "out of memory");
}

/* ---- files ------------------------------------------------------------------------------------
 */

static bool read_entries(struct state *s, const char *data, size_t len) {
  struct master_text text;
  bool ok = true;
  master_text_init(&text, data, len);
  for (;;) {
    struct master_entry entry;
    struct master_word where;
    const char *why = NULL;
    enum master_result result = master_text_next(&text, &entry, &where, &why);
    if (result == MASTER_END)
      break;
    if (result == MASTER_BAD)
      ok = fail(s, &where, why) && ok;
    else if (!entry.owner_omitted && !entry.words[0].quoted && entry.words[0].len > 0 &&
             entry.words[0].text[0] == '$')
      ok = directive(s, &entry) && ok;
    else
      ok = record(s, &entry) && ok;
    if (!ok && too_many(s->shared)) {
      if (s->depth == 0)
        diag_error(s->shared->zone->problems, (struct diag_pos){s->shown, text.line, 1},
                   "too many problems; the rest of the file was not read");
      break;
    }
  }
  master_text_close(&text);
  return ok;
}

static bool read_text(struct shared *shared, const char *path, const char *shown, unsigned depth,
                      const struct state *parent, const uint8_t *origin, const char *data,
                      size_t len) {
  const struct zonefile *zone = shared->zone;
  struct diag_pos pos = {shown, 0, 0};
  shared->bytes += len;
  if (shared->bytes > ZONEFILE_MAX_BYTES) {
    diag_error(zone->problems, pos, "the file is too large: at most 1 GiB for a zone");
    return false;
  }
  if (zone->utf8 && !yaml_utf8_check((const uint8_t *)data, len, &pos.line, &pos.column)) {
    diag_error(zone->problems, pos, "the file is not UTF-8; write other bytes as \\DDD");
    return false;
  }
  struct state s = {.shared = shared, .path = path, .shown = shown, .depth = depth};
  memcpy(s.origin, origin, name_wire_len(origin, NAME_MAX_WIRE));
  if (parent != NULL) {
    s.has_default_ttl = parent->has_default_ttl;
    s.default_ttl = parent->default_ttl;
    s.has_last_ttl = parent->has_last_ttl;
    s.last_ttl = parent->last_ttl;
  }
  return read_entries(&s, data, len);
}

/* `why` stays empty if the problem was already reported. */
static bool read_file(struct shared *shared, const char *path, const char *shown, unsigned depth,
                      const struct state *parent, const uint8_t *origin, char *why) {
  const struct zonefile *zone = shared->zone;
  uint8_t *data = NULL;
  size_t len = 0;
  if (!zone->source->read(zone->source, path, ZONEFILE_MAX_BYTES, &data, &len, why))
    return false;
  why[0] = '\0';
  bool ok = read_text(shared, path, shown, depth, parent, origin, (const char *)data, len);
  free(data);
  return ok;
}

static char *shown_path(const struct zonefile *zone, const char *path) {
  size_t n = strlen(zone->source->prefix) + strlen(path) + 1;
  char *shown = arena_alloc(zone->list->memory, n, 1);
  if (shown != NULL)
    snprintf(shown, n, "%s%s", zone->source->prefix, path);
  return shown;
}

bool zonefile_read_text(const struct zonefile *zone, const char *path, const char *data,
                        size_t len) {
  struct shared *shared = calloc(1, sizeof *shared);
  char *shown = shown_path(zone, path);
  bool ok = false;
  if (shared != NULL && shown != NULL) {
    shared->zone = zone;
    shared->errors_before = zone->problems->errors;
    ok = read_text(shared, path, shown, 0, NULL, zone->apex, data, len);
  } else {
    diag_error(zone->problems, (struct diag_pos){path, 0, 0}, "out of memory");
  }
  free(shared);
  return ok;
}

bool zonefile_read(const struct zonefile *zone, const char *path) {
  uint8_t *data = NULL;
  size_t len = 0;
  char why[512];
  if (!zone->source->read(zone->source, path, ZONEFILE_MAX_BYTES, &data, &len, why)) {
    char *shown = shown_path(zone, path);
    diag_error(zone->problems, (struct diag_pos){shown != NULL ? shown : path, 0, 0}, "%s", why);
    return false;
  }
  bool ok = zonefile_read_text(zone, path, (const char *)data, len);
  free(data);
  return ok;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/domain_list.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/name.h"

enum {
  CHUNK = 4096,
  MOST = 1 << 20, /* read at once */
  NEAR = 1 << 14, /* so few octets are read through rather than halved */
};

static const char line_start[] = "{\"domain\": \"";

/* A line of the file, and where it is. */
struct line {
  uint64_t at;   /* its first octet */
  uint64_t next; /* of the line after it */
  char *text;    /* with a NUL for its end; in list->text */
  size_t len;
};

struct domain_list {
  int fd;
  uint64_t size;
  uint64_t first; /* where the domains begin */
  uint64_t at;    /* of the iteration */
  json_t *header;
  char *text; /* the line that was read last */
  size_t capacity;
  char before[DOMAIN_LIST_KEY]; /* key that the iteration gave last */
  uint64_t given;
  char path[];
};

static enum domain_list_result bad(const struct domain_list *list, char *why, const char *format,
                                   ...) __attribute__((format(printf, 3, 4)));

static enum domain_list_result bad(const struct domain_list *list, char *why, const char *format,
                                   ...) {
  char text[200];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  snprintf(why, DOMAIN_LIST_WHY, "%.250s: %s", list->path, text);
  return DOMAIN_LIST_BAD;
}

char *domain_list_key(char *out, const uint8_t *owner) {
  uint8_t lower[NAME_BUF];
  char text[NAME_MAX_TEXT];
  name_copy_lower(lower, owner);
  name_to_text(text, lower);
  char *o = out;
  for (const char *t = text; *t; t++) {
    if (*t == '\\' || *t == '"')
      *o++ = '\\';
    *o++ = *t;
  }
  *o = '\0';
  return out;
}

/* ---- lines ------------------------------------------------------------------------------------
 */

/* Reads up to `len` octets at `at`; fewer at the end of the file, -1 with errno. */
static ssize_t read_at(const struct domain_list *list, void *to, size_t len, uint64_t at) {
  size_t got = 0;
  while (got < len) {
    ssize_t n = pread(list->fd, (char *)to + got, len - got, (off_t)(at + got));
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return -1;
    if (n == 0)
      break;
    got += (size_t)n;
  }
  return (ssize_t)got;
}

static bool make_room(struct domain_list *list, size_t len) {
  if (len <= list->capacity)
    return true;
  char *more = realloc(list->text, len);
  if (!more)
    return false;
  list->text = more;
  list->capacity = len;
  return true;
}

/* The line that starts at `at`, which is before the end of the file. */
static bool read_line(struct domain_list *list, uint64_t at, struct line *line, char *why) {
  size_t want = CHUNK;
  for (size_t len = 0;;) {
    if (!make_room(list, len + want)) {
      bad(list, why, "not enough memory");
      return false;
    }
    ssize_t n = read_at(list, list->text + len, want, at + len);
    if (n < 0) {
      bad(list, why, "cannot read: %s", strerror(errno));
      return false;
    }
    char *end = memchr(list->text + len, '\n', (size_t)n);
    if (end) {
      *end = '\0';
      len = (size_t)(end - list->text);
      *line = (struct line){.at = at, .next = at + len + 1, .text = list->text, .len = len};
      return true;
    }
    len += (size_t)n;
    if ((size_t)n < want || len > DOMAIN_LIST_LINE) {
      bad(list, why, "%s",
          len > DOMAIN_LIST_LINE ? "a line is too long"
                                 : "the last line is cut short; run `sluice build` again");
      return false;
    }
    if (want < MOST)
      want *= 2;
  }
}

/* The start of the first line at or after `at`, or `end`. */
static bool next_start(struct domain_list *list, uint64_t at, uint64_t end, uint64_t *start,
                       char *why) {
  char chunk[4096];
  /* The line may start here: then the octet before is a line end. */
  for (uint64_t from = at - 1; from < end;) {
    ssize_t n = read_at(list, chunk, sizeof chunk, from);
    if (n <= 0) {
      bad(list, why, "cannot read: %s", n < 0 ? strerror(errno) : "the file became shorter");
      return false;
    }
    const char *found = memchr(chunk, '\n', (size_t)n);
    if (found) {
      *start = from + (uint64_t)(found - chunk) + 1;
      if (*start > end)
        *start = end;
      return true;
    }
    from += (size_t)n;
  }
  *start = end;
  return true;
}

/* Copies the text between the quotes; false if the line does not begin as it must. */
static bool key_of(const struct line *line, char key[DOMAIN_LIST_KEY]) {
  size_t skip = sizeof line_start - 1;
  if (line->len < skip || memcmp(line->text, line_start, skip) != 0)
    return false;
  size_t n = 0;
  for (const char *t = line->text + skip; *t && *t != '"'; t++) {
    if (n + 3 > DOMAIN_LIST_KEY)
      return false;
    key[n++] = *t;
    if (*t != '\\')
      continue;
    if (t[1] != '\\' && t[1] != '"')
      return false;
    key[n++] = *++t;
  }
  key[n] = '\0';
  return n > 0 && line->text[skip + n] == '"';
}

static enum domain_list_result parse(const struct domain_list *list, const struct line *line,
                                     json_t **entry, char *why) {
  json_error_t error;
  *entry = json_loadb(line->text, line->len, 0, &error);
  if (json_is_object(*entry) && json_is_string(json_object_get(*entry, "domain")))
    return DOMAIN_LIST_FOUND;
  const char *text = *entry ? "it is not a domain" : error.text;
  bad(list, why, "the line at octet %llu is damaged: %.100s", (unsigned long long)line->at, text);
  json_decref(*entry);
  *entry = NULL;
  return DOMAIN_LIST_BAD;
}

/* ---- opening ----------------------------------------------------------------------------------
 */

static bool read_header(struct domain_list *list, char *why) {
  struct line line;
  json_error_t error;
  if (list->size == 0) {
    bad(list, why, "the file is empty; run `sluice build` again");
    return false;
  }
  if (!read_line(list, 0, &line, why))
    return false;
  list->header = json_loadb(line.text, line.len, 0, &error);
  const json_t *format = json_object_get(list->header, "format");
  if (!json_is_integer(format) || json_integer_value(format) != DOMAIN_LIST_FORMAT ||
      !json_is_integer(json_object_get(list->header, "domains"))) {
    bad(list, why, "it is no list of domains of format %d; run `sluice build` again",
        DOMAIN_LIST_FORMAT);
    return false;
  }
  list->first = list->at = line.next;
  char last;
  if (read_at(list, &last, 1, list->size - 1) == 1 && last == '\n')
    return true;
  bad(list, why, "the last line is cut short; run `sluice build` again");
  return false;
}

struct domain_list *domain_list_open(const char *path, char *why) {
  size_t len = strlen(path) + 1;
  struct domain_list *list = calloc(1, sizeof *list + len);
  if (!list) {
    snprintf(why, DOMAIN_LIST_WHY, "not enough memory");
    return NULL;
  }
  memcpy(list->path, path, len);
  struct stat st;
  /* O_NONBLOCK: opening a FIFO must not wait for a writer. */
  list->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (list->fd < 0 || fstat(list->fd, &st) != 0) {
    bad(list, why, "cannot read: %s", strerror(errno));
    goto fail;
  }
  if (!S_ISREG(st.st_mode)) {
    bad(list, why, "it is not a regular file");
    goto fail;
  }
  list->size = (uint64_t)st.st_size;
  if (read_header(list, why))
    return list;
fail:
  domain_list_close(list);
  return NULL;
}

void domain_list_close(struct domain_list *list) {
  if (!list)
    return;
  if (list->fd >= 0)
    close(list->fd);
  json_decref(list->header);
  free(list->text);
  free(list);
}

const json_t *domain_list_header(const struct domain_list *list) {
  return list->header;
}

/* ---- one ----------------------------------------------------------------------------------------
 */

static enum domain_list_result read_keyed(struct domain_list *list, uint64_t at, struct line *line,
                                          char key[DOMAIN_LIST_KEY], char *why) {
  if (!read_line(list, at, line, why))
    return DOMAIN_LIST_BAD;
  if (!key_of(line, key))
    return bad(list, why, "the line at octet %llu does not begin with a domain",
               (unsigned long long)at);
  return DOMAIN_LIST_FOUND;
}

/* Line by line from `low` to `high`, both starts of lines (or the end). */
static enum domain_list_result find_between(struct domain_list *list, const char *wanted,
                                            uint64_t low, uint64_t high, json_t **entry,
                                            char *why) {
  while (low < high) {
    struct line line;
    char key[DOMAIN_LIST_KEY];
    if (read_keyed(list, low, &line, key, why) != DOMAIN_LIST_FOUND)
      return DOMAIN_LIST_BAD;
    int order = strcmp(key, wanted);
    if (order == 0)
      return parse(list, &line, entry, why);
    if (order > 0)
      return DOMAIN_LIST_NONE;
    low = line.next;
  }
  return DOMAIN_LIST_NONE;
}

enum domain_list_result domain_list_find(struct domain_list *list, const uint8_t *owner,
                                         json_t **entry, char *why) {
  char wanted[DOMAIN_LIST_KEY];
  domain_list_key(wanted, owner);
  *entry = NULL;
  uint64_t low = list->first, high = list->size;
  while (high - low > NEAR) {
    uint64_t start;
    if (!next_start(list, low + (high - low) / 2, high, &start, why))
      return DOMAIN_LIST_BAD;
    if (start >= high)
      break; /* the upper half is inside of one long line */
    struct line line;
    char key[DOMAIN_LIST_KEY];
    if (read_keyed(list, start, &line, key, why) != DOMAIN_LIST_FOUND)
      return DOMAIN_LIST_BAD;
    int order = strcmp(key, wanted);
    if (order == 0)
      return parse(list, &line, entry, why);
    if (order < 0)
      low = line.next;
    else
      high = start;
  }
  return find_between(list, wanted, low, high, entry, why);
}

/* ---- all ----------------------------------------------------------------------------------------
 */

void domain_list_rewind(struct domain_list *list) {
  list->at = list->first;
  list->before[0] = '\0';
  list->given = 0;
}

enum domain_list_result domain_list_next(struct domain_list *list, json_t **entry, char *why) {
  *entry = NULL;
  if (list->at >= list->size) {
    json_int_t promised = json_integer_value(json_object_get(list->header, "domains"));
    if ((uint64_t)promised != list->given)
      return bad(list, why, "it has %llu domains and promises %lld; run `sluice build` again",
                 (unsigned long long)list->given, (long long)promised);
    return DOMAIN_LIST_NONE;
  }
  struct line line;
  char key[DOMAIN_LIST_KEY];
  if (read_keyed(list, list->at, &line, key, why) != DOMAIN_LIST_FOUND)
    return DOMAIN_LIST_BAD;
  if (strcmp(list->before, key) >= 0)
    return bad(list, why, "the line at octet %llu is out of order", (unsigned long long)line.at);
  if (parse(list, &line, entry, why) != DOMAIN_LIST_FOUND)
    return DOMAIN_LIST_BAD;
  memcpy(list->before, key, sizeof key);
  list->at = line.next;
  list->given++;
  return DOMAIN_LIST_FOUND;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "steering/mmdb_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "steering/mmdb_data.h"

enum {
  FILE_MAX = 1 << 30,
  METADATA_MAX = 128 * 1024, /* the format: metadata starts in the last 128 KiB */
  METADATA_STEPS = 16384,
};

static bool write_all(int fd, const uint8_t *bytes, size_t len) {
  while (len > 0) {
    ssize_t n = write(fd, bytes, len);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    bytes += n;
    len -= (size_t)n;
  }
  return true;
}

static bool copy_file(int from, int to, const char *path, char *why) {
  enum { CHUNK = 1 << 18 };
  uint8_t *chunk = malloc(CHUNK);
  size_t total = 0;
  bool ok = false;
  if (!chunk) {
    snprintf(why, MMDB_WHY, "out of memory");
    return false;
  }
  for (;;) {
    ssize_t n = read(from, chunk, CHUNK);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0) {
      snprintf(why, MMDB_WHY, "cannot read %s: %s", path, strerror(errno));
      break;
    }
    if (n == 0) {
      ok = true;
      break;
    }
    total += (size_t)n;
    if (total > FILE_MAX) {
      snprintf(why, MMDB_WHY, "%s: larger than 1 GiB, so not a location database", path);
      break;
    }
    if (!write_all(to, chunk, (size_t)n)) {
      snprintf(why, MMDB_WHY, "cannot copy %s to memory: %s", path, strerror(errno));
      break;
    }
  }
  free(chunk);
  return ok;
}

/* True if the value at *offset has the type; moves past the whole value. */
static bool take(struct mmdb_data *data, size_t *offset, enum mmdb_type type,
                 struct mmdb_value *value) {
  size_t head = *offset;
  return mmdb_read(data, &head, value) && value->type == type && mmdb_skip(data, offset);
}

/* An array of texts, or a map of texts to texts. */
static bool are_texts(struct mmdb_data *data, size_t offset, enum mmdb_type type) {
  struct mmdb_value list;
  struct mmdb_value text;
  if (!mmdb_read(data, &offset, &list) || list.type != type)
    return false;
  size_t at = list.content;
  for (uint64_t i = 0; i < (uint64_t)list.count * (type == MMDB_MAP ? 2 : 1); i++)
    if (!take(data, &at, MMDB_STRING, &text))
      return false;
  return true;
}

/* libmaxminddb 1.7 leaks memory when it refuses these two for what they hold. */
static bool lists_are_texts(struct mmdb_data *data) {
  size_t offset = 0;
  struct mmdb_value map;
  struct mmdb_value key;
  if (!mmdb_read(data, &offset, &map) || map.type != MMDB_MAP)
    return false;
  size_t at = map.content;
  for (uint32_t i = 0; i < map.count; i++) {
    if (!take(data, &at, MMDB_STRING, &key))
      return false;
    if ((mmdb_is(data, &key, "languages") && !are_texts(data, at, MMDB_ARRAY)) ||
        (mmdb_is(data, &key, "description") && !are_texts(data, at, MMDB_MAP)) ||
        !mmdb_skip(data, &at))
      return false;
  }
  return true;
}

/*
 * libmaxminddb follows every pointer in the metadata, so that a few hundred bytes of nested arrays
 * would keep it busy without end.  Only metadata that can be walked in few steps gets that far.
 */
static bool metadata_is_sane(const uint8_t *bytes, size_t len) {
  static const char marker[] = "\xab\xcd\xefMaxMind.com";
  const size_t marker_len = sizeof marker - 1;
  const uint8_t *from = len > METADATA_MAX ? bytes + len - METADATA_MAX : bytes;
  const uint8_t *end = bytes + len, *start = NULL, *found;
  while ((found = memmem(from, (size_t)(end - from), marker, marker_len)))
    start = from = found + marker_len;
  if (!start)
    return false;
  struct mmdb_data data = {start, (size_t)(end - start), METADATA_STEPS};
  size_t offset = 0;
  return mmdb_check(&data, &offset) && lists_are_texts(&data);
}

static bool check_copy(int fd, const char *name, char *why) {
  struct stat st;
  if (fstat(fd, &st) != 0 || st.st_size == 0) {
    snprintf(why, MMDB_WHY, "%s: empty, not a MaxMind DB", name);
    return false;
  }
  size_t len = (size_t)st.st_size;
  void *bytes = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
  if (bytes == MAP_FAILED) {
    snprintf(why, MMDB_WHY, "cannot map the copy of %s: %s", name, strerror(errno));
    return false;
  }
  bool ok = metadata_is_sane(bytes, len);
  munmap(bytes, len);
  if (!ok)
    snprintf(why, MMDB_WHY, "%s: not a MaxMind DB, or its metadata is damaged or cut off", name);
  return ok;
}

static bool open_copy(int fd, const char *name, MMDB_s *mmdb, char *why) {
  char copy[64];
  if (!check_copy(fd, name, why))
    return false;
  snprintf(copy, sizeof copy, "/proc/self/fd/%d", fd);
  int status = MMDB_open(copy, MMDB_MODE_MMAP, mmdb);
  if (status != MMDB_SUCCESS) {
    snprintf(why, MMDB_WHY, "%s: %s", name,
             status == MMDB_IO_ERROR ? strerror(errno) : MMDB_strerror(status));
    return false;
  }
  if (mmdb->metadata.ip_version == 4 || mmdb->metadata.ip_version == 6)
    return true;
  snprintf(why, MMDB_WHY, "%s: its IP version is %u, not 4 or 6", name,
           (unsigned)mmdb->metadata.ip_version);
  MMDB_close(mmdb);
  return false;
}

static int open_regular(const char *path, char *why) {
  struct stat st;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    snprintf(why, MMDB_WHY, "cannot read %s: %s", path, strerror(errno));
    return -1;
  }
  if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
    return fd;
  snprintf(why, MMDB_WHY, "cannot read %s: not a regular file", path);
  close(fd);
  return -1;
}

static int new_copy(char *why) {
  int fd = memfd_create("location-database", MFD_CLOEXEC);
  if (fd < 0)
    snprintf(why, MMDB_WHY, "cannot make memory for the database: %s", strerror(errno));
  return fd;
}

bool mmdb_file_open(const char *path, MMDB_s *mmdb, char *why) {
  int from = open_regular(path, why);
  if (from < 0)
    return false;
  int fd = new_copy(why);
  bool ok = fd >= 0 && copy_file(from, fd, path, why) && open_copy(fd, path, mmdb, why);
  if (fd >= 0)
    close(fd);
  close(from);
  return ok;
}

bool mmdb_file_open_memory(const void *bytes, size_t len, MMDB_s *mmdb, char *why) {
  int fd = new_copy(why);
  if (fd < 0)
    return false;
  bool ok = write_all(fd, bytes, len);
  if (!ok)
    snprintf(why, MMDB_WHY, "cannot copy the database to memory: %s", strerror(errno));
  ok = ok && open_copy(fd, "location database", mmdb, why);
  close(fd);
  return ok;
}

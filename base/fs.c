/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  MAX_DEPTH = 64, /* of a tree that is removed: each level holds a descriptor open */
  MAX_TRIES = 100,
};

static bool fail(char *why, const char *what, const char *path) {
  const char *reason = strerror(errno);
  snprintf(why, FS_WHY, "cannot %s %s: %s", what, path, reason);
  return false;
}

char *fs_join(const char *a, const char *b) {
  size_t la = strlen(a);
  size_t lb = strlen(b);
  char *out = malloc(la + lb + 2);
  if (!out)
    return NULL;
  memcpy(out, a, la);
  out[la] = '/';
  memcpy(out + la + 1, b, lb + 1);
  return out;
}

/* ---- reading ------------------------------------------------------------------------------- */

/* Reads until the end of the file, which may have grown or shrunk since its size was asked. */
static bool read_all(int fd, size_t limit, uint8_t **data, size_t *len, size_t expected) {
  size_t cap = expected + 2;
  size_t used = 0;
  uint8_t *bytes = malloc(cap);
  while (bytes) {
    ssize_t n = read(fd, bytes + used, cap - used - 1);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      break;
    used += (size_t)n;
    if (used > limit) {
      errno = EFBIG;
      break;
    }
    if (n == 0) {
      bytes[used] = 0;
      *data = bytes;
      *len = used;
      return true;
    }
    if (used + 1 < cap)
      continue;
    uint8_t *more = realloc(bytes, cap * 2);
    if (!more)
      break;
    bytes = more;
    cap *= 2;
  }
  int saved = errno;
  free(bytes);
  errno = saved;
  return false;
}

bool fs_read(const char *path, size_t limit, uint8_t **data, size_t *len, char *why) {
  /* O_NONBLOCK: opening a FIFO must not wait for a writer. */
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0)
    return fail(why, "read", path);
  struct stat st;
  bool ok = false;
  if (fstat(fd, &st) != 0)
    fail(why, "read", path);
  else if (!S_ISREG(st.st_mode))
    snprintf(why, FS_WHY, "cannot read %s: it is not a regular file", path);
  else if (st.st_size < 0 || (uint64_t)st.st_size > limit)
    snprintf(why, FS_WHY, "cannot read %s: it is larger than %zu bytes", path, limit);
  else if (!read_all(fd, limit, data, len, (size_t)st.st_size))
    fail(why, "read", path);
  else
    ok = true;
  close(fd);
  return ok;
}

/* ---- writing ------------------------------------------------------------------------------- */

bool fs_write_all(int fd, const void *data, size_t len) {
  const uint8_t *rest = data;
  while (len > 0) {
    ssize_t n = write(fd, rest, len);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return false;
    rest += n;
    len -= (size_t)n;
  }
  return true;
}

/* Makes the entries of the folder that holds `path` durable. */
static bool sync_parent(const char *path) {
  char *folder = strdup(path);
  if (!folder)
    return false;
  char *slash = strrchr(folder, '/');
  if (!slash)
    strcpy(folder, ".");
  else if (slash == folder)
    folder[1] = 0;
  else
    *slash = 0;
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  free(folder);
  if (fd < 0)
    return false;
  bool ok = fsync(fd) == 0 || errno == EINVAL; /* some file systems cannot sync a folder */
  close(fd);
  return ok;
}

/* "dir/.name.tmp-PID-N" beside "dir/name": removable by who knows the pattern after a crash. */
static char *temporary_name(const char *path, unsigned n) {
  const char *slash = strrchr(path, '/');
  int folder = slash ? (int)(slash - path) + 1 : 0;
  char *out = NULL;
  if (asprintf(&out, "%.*s.%s.tmp-%ld-%u", folder, path, path + folder, (long)getpid(), n) < 0)
    return NULL;
  return out;
}

static bool write_open_file(int fd, const void *data, size_t len, unsigned mode) {
  return fchmod(fd, (mode_t)mode) == 0 && fs_write_all(fd, data, len) && fsync(fd) == 0;
}

bool fs_write_atomic(const char *path, const void *data, size_t len, unsigned mode, char *why) {
  for (unsigned n = 0; n < MAX_TRIES; n++) {
    char *temporary = temporary_name(path, n);
    if (!temporary)
      return fail(why, "write", path);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno == EEXIST) {
      free(temporary);
      continue;
    }
    bool ok = fd >= 0 && write_open_file(fd, data, len, mode);
    int saved = errno;
    if (fd >= 0 && close(fd) != 0 && ok) {
      ok = false;
      saved = errno;
    }
    if (ok && rename(temporary, path) != 0) {
      ok = false;
      saved = errno;
    }
    if (!ok && fd >= 0)
      unlink(temporary);
    free(temporary);
    errno = saved;
    if (!ok || !sync_parent(path))
      return fail(why, "write", path);
    return true;
  }
  return fail(why, "write", path);
}

bool fs_switch_link(const char *link, const char *target, char *why) {
  for (unsigned n = 0; n < MAX_TRIES; n++) {
    char *temporary = temporary_name(link, n);
    if (!temporary)
      return fail(why, "write", link);
    if (symlink(target, temporary) != 0) {
      bool taken = errno == EEXIST;
      free(temporary);
      if (taken)
        continue;
      return fail(why, "write", link);
    }
    bool ok = rename(temporary, link) == 0;
    int saved = errno;
    if (!ok)
      unlink(temporary);
    free(temporary);
    errno = saved;
    if (!ok || !sync_parent(link))
      return fail(why, "write", link);
    return true;
  }
  return fail(why, "write", link);
}

/* ---- folders ------------------------------------------------------------------------------- */

static bool is_folder(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool make_one(const char *path) {
  if (mkdir(path, 0777) == 0)
    return true;
  int problem = errno;
  if (is_folder(path))
    return true;
  errno = problem == EEXIST ? ENOTDIR : problem; /* a file, or a link that leads nowhere */
  return false;
}

bool fs_make_dirs(const char *path, char *why) {
  char *part = strdup(path);
  if (!part)
    return fail(why, "make folder", path);
  bool ok = true;
  for (char *p = part + (*part == '/'); ok && *p; p++) {
    if (*p != '/' || p[1] == '/' || !p[1])
      continue;
    *p = 0;
    ok = make_one(part);
    *p = '/';
  }
  ok = ok && make_one(part);
  if (!ok)
    fail(why, "make folder", path);
  free(part);
  return ok;
}

static bool remove_children(int fd, unsigned depth);

/* Removes one entry of the folder `at`; links are removed, not followed. */
static bool remove_entry(int at, const char *name, unsigned depth) {
  if (unlinkat(at, name, 0) == 0 || errno == ENOENT)
    return true;
  if (errno != EISDIR && errno != EPERM) /* Linux says EISDIR, POSIX EPERM */
    return false;
  if (depth >= MAX_DEPTH) {
    errno = ELOOP;
    return false;
  }
  int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return false;
  return remove_children(fd, depth + 1) && unlinkat(at, name, AT_REMOVEDIR) == 0;
}

/* Takes `fd` over. */
static bool remove_children(int fd, unsigned depth) {
  DIR *dir = fdopendir(fd);
  if (!dir) {
    close(fd);
    return false;
  }
  bool ok = true;
  struct dirent *entry;
  while (ok && (errno = 0, entry = readdir(dir))) {
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
      continue;
    ok = remove_entry(dirfd(dir), entry->d_name, depth);
  }
  if (ok && errno)
    ok = false;
  int saved = errno;
  closedir(dir);
  errno = saved;
  return ok;
}

bool fs_remove_tree(const char *path, char *why) {
  if (remove_entry(AT_FDCWD, path, 0))
    return true;
  return fail(why, "remove", path);
}

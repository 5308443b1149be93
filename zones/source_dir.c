/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration in a directory.  No symbolic link is followed below its root. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zones/model.h"

enum { WHY = 512, MAX_DEPTH = 64, MAX_PATH = 4096 };

struct source_dir {
  struct config_source base;
  int root;
  char prefix[];
};

static bool fail(char *why, const char *path, int error) {
  snprintf(why, WHY, "cannot read %.300s: %s", path, strerror(error));
  return false;
}

/* ---- listing ----------------------------------------------------------------------------------
 */

struct walk {
  bool (*visit)(void *arg, const char *path, char kind);
  void *arg;
  char *why;
  char path[MAX_PATH];
};

static int compare_names(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static void free_names(char **names, size_t count) {
  for (size_t i = 0; i < count; i++)
    free(names[i]);
  free(names);
}

/* The entries of a directory, sorted; takes `fd`. */
static bool read_names(int fd, char ***names, size_t *count) {
  DIR *dir = fdopendir(fd);
  if (dir == NULL) {
    close(fd);
    return false;
  }
  size_t cap = 0;
  *names = NULL;
  *count = 0;
  bool ok = true;
  for (struct dirent *e; ok && (e = readdir(dir)) != NULL;) {
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
      continue;
    if (*count == cap) {
      cap = cap == 0 ? 16 : cap * 2;
      char **grown = realloc(*names, cap * sizeof *grown);
      ok = grown != NULL;
      if (!ok)
        break;
      *names = grown;
    }
    char *copy = strdup(e->d_name);
    ok = copy != NULL;
    if (ok)
      (*names)[(*count)++] = copy;
  }
  closedir(dir);
  if (!ok)
    errno = ENOMEM;
  else if (*count > 0)
    qsort(*names, *count, sizeof **names, compare_names);
  return ok;
}

static bool walk_dir(struct walk *w, int fd, size_t len, unsigned depth);

static bool visit_entry(struct walk *w, int dir, const char *name, size_t len, unsigned depth) {
  struct stat st;
  size_t n = strlen(name);
  if (len + n + 2 > sizeof w->path) {
    snprintf(w->why, WHY, "a path is longer than 4095 bytes");
    return false;
  }
  if (len > 0)
    w->path[len++] = '/';
  memcpy(w->path + len, name, n + 1);
  len += n;
  if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
    return errno == ENOENT || fail(w->why, w->path, errno); /* gone meanwhile */
  if (!S_ISDIR(st.st_mode))
    return w->visit(w->arg, w->path, S_ISREG(st.st_mode) ? 'f' : S_ISLNK(st.st_mode) ? 'l' : 'o');
  if (strcmp(name, ".git") == 0)
    return true;
  if (depth + 1 >= MAX_DEPTH) {
    snprintf(w->why, WHY, "%.300s: directories are nested too deep", w->path);
    return false;
  }
  int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return fail(w->why, w->path, errno);
  if (faccessat(fd, ".git", F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
    close(fd);
    return w->visit(w->arg, w->path, 's');
  }
  return walk_dir(w, fd, len, depth + 1);
}

/* Recurses at most MAX_DEPTH deep.  Takes `fd`. */
static bool walk_dir(struct walk *w, int fd, size_t len, unsigned depth) {
  char **names = NULL;
  size_t count = 0;
  int dir = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  bool ok = dir >= 0;
  if (!ok)
    close(fd);
  else
    ok = read_names(fd, &names, &count);
  if (!ok)
    fail(w->why, len > 0 ? w->path : ".", errno);
  for (size_t i = 0; ok && i < count; i++) {
    ok = visit_entry(w, dir, names[i], len, depth);
    w->path[len] = '\0';
  }
  free_names(names, count);
  if (dir >= 0)
    close(dir);
  return ok;
}

static bool list(struct config_source *source, bool (*visit)(void *, const char *, char), void *arg,
                 char *why) {
  struct source_dir *s = (struct source_dir *)source;
  struct walk *w = calloc(1, sizeof *w);
  int fd = openat(s->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  bool ok = false;
  if (w == NULL || fd < 0) {
    fail(why, ".", w == NULL ? ENOMEM : errno);
    if (fd >= 0)
      close(fd);
  } else {
    why[0] = '\0';
    w->visit = visit;
    w->arg = arg;
    w->why = why;
    ok = walk_dir(w, fd, 0, 0);
  }
  free(w);
  return ok;
}

/* ---- reading ----------------------------------------------------------------------------------
 */

/* Opens step by step, so that no symbolic link on the way is followed. */
static int open_below(int root, const char *path) {
  int dir = root;
  char part[256];
  for (;;) {
    size_t n = strcspn(path, "/");
    if (n == 0 || n >= sizeof part || (n == 2 && path[0] == '.' && path[1] == '.')) {
      errno = EINVAL;
      break;
    }
    memcpy(part, path, n);
    part[n] = '\0';
    bool last = path[n] == '\0';
    int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | (last ? O_NONBLOCK : O_DIRECTORY);
    int fd = openat(dir, part, flags);
    int error = errno;
    if (dir != root)
      close(dir);
    errno = error;
    if (fd < 0 || last)
      return fd;
    dir = fd;
    path += n + 1;
  }
  if (dir != root)
    close(dir);
  errno = EINVAL;
  return -1;
}

static bool read_all(int fd, size_t size, uint8_t **data, size_t *len) {
  uint8_t *buffer = malloc(size + 1);
  if (buffer == NULL) {
    errno = ENOMEM;
    return false;
  }
  size_t n = 0;
  while (n < size) {
    ssize_t got = read(fd, buffer + n, size - n);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0) {
      free(buffer);
      return false;
    }
    if (got == 0)
      break;
    n += (size_t)got;
  }
  buffer[n] = '\0';
  *data = buffer;
  *len = n;
  return true;
}

static bool read_path(struct config_source *source, const char *path, size_t limit, uint8_t **data,
                      size_t *len, char *why) {
  struct source_dir *s = (struct source_dir *)source;
  struct stat st;
  int fd = open_below(s->root, path);
  bool ok = false;
  if (fd < 0) {
    if (errno == ELOOP || errno == ENOTDIR)
      snprintf(why, WHY, "cannot read %.300s: symbolic links are not followed", path);
    else
      fail(why, path, errno);
    return false;
  }
  if (fstat(fd, &st) != 0)
    fail(why, path, errno);
  else if (!S_ISREG(st.st_mode))
    snprintf(why, WHY, "cannot read %.300s: it is not a regular file", path);
  else if ((uint64_t)st.st_size > limit)
    snprintf(why, WHY, "the file is too large: %lld bytes, at most %zu are allowed",
             (long long)st.st_size, limit);
  else if (!read_all(fd, (size_t)st.st_size, data, len))
    fail(why, path, errno);
  else
    ok = true;
  close(fd);
  return ok;
}

static void close_source(struct config_source *source) {
  struct source_dir *s = (struct source_dir *)source;
  close(s->root);
  free(s);
}

bool config_source_open_dir(const char *dir, struct config_source **source, char *why) {
  size_t n = strlen(dir);
  struct source_dir *s = malloc(sizeof *s + n + 2);
  if (s == NULL)
    return fail(why, dir, ENOMEM);
  s->root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (s->root < 0) {
    fail(why, dir, errno);
    free(s);
    return false;
  }
  snprintf(s->prefix, n + 2, "%s%s", strcmp(dir, ".") == 0 ? "" : dir,
           n == 0 || dir[n - 1] == '/' || strcmp(dir, ".") == 0 ? "" : "/");
  s->base = (struct config_source){
      .list = list, .read = read_path, .close = close_source, .prefix = s->prefix};
  *source = &s->base;
  return true;
}

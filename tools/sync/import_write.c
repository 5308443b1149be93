/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files, all or none: into a hidden directory beside their place, which the checker reads once
 * more, and from there by renames that never replace anything.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "tools/cli.h"
#include "tools/sync/import.h"

static const char prefix[] = ".sluice-import-";

static bool fail(const char *what, const char *path) {
  cli_error("nothing was written: cannot %s %s: %s", what, path, strerror(errno));
  return false;
}

/* ---- files ---------------------------------------------------------------------------------- */

static bool write_file(const char *path, const struct buf *text) {
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  bool ok = fd >= 0 && fs_write_all(fd, text->data, text->len) && fsync(fd) == 0;
  if (!ok)
    fail("write", path);
  if (fd >= 0)
    close(fd);
  return ok;
}

static bool sync_directory(const char *path) {
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  bool ok = fd >= 0 && fsync(fd) == 0;
  if (!ok)
    fail("write", path);
  if (fd >= 0)
    close(fd);
  return ok;
}

/* The directories on the way to a file below `root`, and the file. */
static bool write_below(const char *root, const struct import_file *file) {
  char *path = fs_join(root, file->path);
  size_t skip = strlen(root) + 1;
  bool ok = path;
  if (!path)
    cli_error("out of memory");
  for (char *slash = ok ? strchr(path + skip, '/') : NULL; ok && slash;
       slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    ok = mkdir(path, 0777) == 0 || errno == EEXIST || fail("make", path);
    *slash = '/';
  }
  ok = ok && write_file(path, &file->text);
  free(path);
  return ok;
}

static bool sync_below(const char *root, const struct import *import) {
  char *zone = fs_join(root, import->directory);
  bool ok = zone != NULL;
  for (size_t i = 0; ok && i < import->domain_count; i++) {
    if (import->domains[i].dropped)
      continue;
    char *path = fs_join(zone, import->domains[i].directory);
    ok = path && sync_directory(path);
    free(path);
  }
  ok = ok && sync_directory(zone) && sync_directory(root);
  free(zone);
  return ok;
}

static bool write_tree(const char *root, const struct import *import) {
  bool ok = true;
  for (size_t i = 0; ok && i < import->file_count; i++)
    ok = write_below(root, &import->files[i]);
  return ok && sync_below(root, import);
}

/* ---- the hidden directory ------------------------------------------------------------------- */

/* What a killed import left over: nobody holds its lock any more. */
static void remove_leftovers(const char *parent) {
  DIR *dir = opendir(parent);
  for (const struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
    char why[FS_WHY];
    if (strncmp(e->d_name, prefix, sizeof prefix - 1) != 0)
      continue;
    int fd = openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    char *path = fs_join(parent, e->d_name);
    if (fd >= 0 && path && flock(fd, LOCK_EX | LOCK_NB) == 0)
      fs_remove_tree(path, why);
    free(path);
    if (fd >= 0)
      close(fd);
  }
  if (dir)
    closedir(dir);
}

/* malloc'd, and the descriptor that holds its lock; NULL after an error was printed. */
static char *make_hidden(const char *parent, int *lock) {
  char *path = NULL;
  remove_leftovers(parent);
  if (asprintf(&path, "%s/%sXXXXXX", parent, prefix) < 0) {
    cli_error("out of memory");
    return NULL;
  }
  if (!mkdtemp(path)) {
    fail("write in", parent);
    free(path);
    return NULL;
  }
  *lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (*lock >= 0)
    flock(*lock, LOCK_EX | LOCK_NB);
  mode_t mask = umask(0);
  umask(mask);
  chmod(path, 0777 & ~mask);
  return path;
}

/* Renames without replacing anything. */
static bool move(const char *from, const char *to) {
  if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
    return true;
  struct stat st;
  if (errno != EINVAL && errno != ENOSYS)
    return fail("make", to);
  /* A file system that does not know the flag. */
  if (lstat(to, &st) == 0) {
    errno = EEXIST;
    return fail("make", to);
  }
  return rename(from, to) == 0 || fail("make", to);
}

/* ---- into place ----------------------------------------------------------------------------- */

/* defaults.yaml comes first: without the zone it does no harm. */
static bool move_parts(const char *hidden, const struct import *import) {
  char *defaults = import->target ? NULL : fs_join(hidden, "defaults.yaml");
  char *new_defaults = fs_join(import->out, "defaults.yaml");
  char *zone = fs_join(hidden, import->directory);
  char *new_zone = fs_join(import->out, import->directory);
  bool ok = new_defaults && zone && new_zone && (import->target || defaults);
  if (!ok)
    cli_error("out of memory");
  ok = ok && (!defaults || move(defaults, new_defaults));
  bool moved = ok && defaults;
  ok = ok && move(zone, new_zone);
  if (!ok && moved)
    unlink(new_defaults);
  free(defaults);
  free(new_defaults);
  free(zone);
  free(new_zone);
  return ok;
}

/* What has been renamed is there; only a crash of the machine could still undo it. */
static void settle(struct import *import, const char *directory) {
  int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 || fsync(fd) != 0)
    import_note(import, "%s could not be flushed to the disk: %s", directory, strerror(errno));
  if (fd >= 0)
    close(fd);
}

static char *parent_of(const char *path) {
  size_t len = strlen(path);
  while (len > 1 && path[len - 1] == '/')
    len--;
  while (len > 0 && path[len - 1] != '/')
    len--;
  while (len > 1 && path[len - 1] == '/')
    len--;
  return len == 0 ? strdup(".") : strndup(path, len);
}

bool import_write(struct import *import) {
  struct stat st;
  bool there = stat(import->out, &st) == 0;
  if (!there && errno != ENOENT)
    return fail("look at", import->out);
  char *parent = there ? strdup(import->out) : parent_of(import->out);
  char why[FS_WHY];
  int lock = -1;
  char *hidden = parent ? make_hidden(parent, &lock) : NULL;
  bool ok = hidden && write_tree(hidden, import) && import_check_written(import, hidden);
  if (ok && there)
    ok = move_parts(hidden, import);
  else if (ok)
    ok = move(hidden, import->out);
  if (ok)
    settle(import, parent);
  if (hidden && (there || !ok))
    fs_remove_tree(hidden, why);
  if (lock >= 0)
    close(lock);
  free(hidden);
  free(parent);
  return ok;
}

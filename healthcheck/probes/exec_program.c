/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/probes/exec_program.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINKS = 20, SHOWN = 90 };

struct walk {
  uid_t own;
  unsigned links;
  char at[PATH_MAX];       /* the folder reached, without links in it; "" is the root */
  char rest[2 * PATH_MAX]; /* what is still to be followed */
  char *why;
};

static bool fail(const struct walk *walk, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Long paths are shown by their end. */
static bool fail(const struct walk *walk, const char *path, const char *format, ...) {
  char what[EXEC_PROGRAM_WHY - SHOWN];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  size_t len = strlen(path);
  snprintf(walk->why, EXEC_PROGRAM_WHY, "%s%s %s", len > SHOWN - 4 ? "..." : "",
           len > SHOWN - 4 ? path + len - (SHOWN - 8) : path, what);
  return false;
}

static bool check_owner(const struct walk *walk, const char *path, const struct stat *st) {
  if (st->st_uid == 0 || st->st_uid == walk->own)
    return true;
  return fail(walk, path, "belongs neither to root nor to the checker's user");
}

static bool writable_by_others(const struct stat *st) {
  return (st->st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

static bool check_folder(const struct walk *walk, const char *path, const struct stat *st) {
  if (!check_owner(walk, path, st))
    return false;
  if (writable_by_others(st) && (st->st_mode & S_ISVTX) == 0)
    return fail(walk, path, "is a folder that group or others may write to");
  return true;
}

static bool check_file(const struct walk *walk, const char *path, const struct stat *st) {
  struct stat folder;
  if (!S_ISREG(st->st_mode))
    return fail(walk, path,
                S_ISDIR(st->st_mode) ? "is a folder, not a program" : "is no regular file");
  if (!check_owner(walk, path, st))
    return false;
  if (writable_by_others(st))
    return fail(walk, path, "is writable by group or others");
  if ((st->st_mode & (S_IXUSR | S_IXGRP | S_IXOTH)) == 0)
    return fail(walk, path, "is not executable");
  const char *name = walk->at[0] != '\0' ? walk->at : "/";
  if (lstat(name, &folder) < 0)
    return fail(walk, name, "cannot be looked at: %s", strerror(errno));
  if (writable_by_others(&folder))
    return fail(walk, name, "is a folder that group or others may write to");
  return true;
}

/* Takes the next word of the rest to `word` (NAME_MAX + 1); false at the end. */
static bool next_word(struct walk *walk, char *word, bool *too_long) {
  const char *start = walk->rest + strspn(walk->rest, "/");
  size_t len = strcspn(start, "/");
  *too_long = len > NAME_MAX;
  if (len == 0 || *too_long)
    return false;
  memcpy(word, start, len);
  word[len] = '\0';
  memmove(walk->rest, start + len, strlen(start + len) + 1);
  return true;
}

/* Puts the target of the link in front of the rest. */
static bool follow_link(struct walk *walk, const char *path) {
  char target[PATH_MAX], rest[sizeof walk->rest];
  ssize_t len = readlink(path, target, sizeof target - 1);
  if (len <= 0)
    return fail(walk, path, "cannot be followed: %s", strerror(len < 0 ? errno : EINVAL));
  target[len] = '\0';
  if (++walk->links > LINKS)
    return fail(walk, path, "leads through too many links");
  int size = snprintf(rest, sizeof rest, "%s/%s", target, walk->rest);
  if (size < 0 || (size_t)size >= sizeof rest)
    return fail(walk, path, "leads to too long a path");
  memcpy(walk->rest, rest, (size_t)size + 1);
  if (target[0] == '/')
    walk->at[0] = '\0';
  return true;
}

static void go_up(struct walk *walk) {
  char *slash = strrchr(walk->at, '/');
  if (slash != NULL)
    *slash = '\0';
}

/* One word further.  *done: the program is reached, and good. */
static bool step(struct walk *walk, const char *word, bool *done) {
  char path[PATH_MAX];
  struct stat st;
  if (strcmp(word, ".") == 0)
    return true;
  if (strcmp(word, "..") == 0) {
    go_up(walk);
    return true;
  }
  int size = snprintf(path, sizeof path, "%s/%s", walk->at, word);
  if (size < 0 || (size_t)size >= sizeof path)
    return fail(walk, walk->at, "leads to too long a path");
  if (lstat(path, &st) < 0)
    return errno == ENOENT ? fail(walk, path, "does not exist")
                           : fail(walk, path, "cannot be looked at: %s", strerror(errno));
  if (S_ISLNK(st.st_mode))
    return check_owner(walk, path, &st) && follow_link(walk, path);
  if (walk->rest[strspn(walk->rest, "/")] == '\0') {
    *done = true;
    return check_file(walk, path, &st);
  }
  if (!S_ISDIR(st.st_mode))
    return fail(walk, path, "is not a folder");
  memcpy(walk->at, path, (size_t)size + 1);
  return check_folder(walk, path, &st);
}

bool exec_program_check(const char *path, uid_t own, char *why) {
  struct walk walk = {.own = own, .why = why};
  char word[NAME_MAX + 1];
  struct stat root;
  bool done = false, too_long;
  if (path[0] != '/')
    return fail(&walk, path, "is not an absolute path");
  if (strlen(path) >= PATH_MAX)
    return fail(&walk, path, "is too long a path");
  memcpy(walk.rest, path, strlen(path) + 1);
  if (lstat("/", &root) < 0 || !check_folder(&walk, "/", &root))
    return false;
  while (!done) {
    if (!next_word(&walk, word, &too_long))
      return fail(&walk, path,
                  too_long ? "has too long a name in it" : "is a folder, not a program");
    if (!step(&walk, word, &done))
      return false;
  }
  return true;
}

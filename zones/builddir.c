/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/builddir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/name.h"

enum {
  SYNC_EACH = 32,       /* so many files are waited for one by one, more by one syncfs */
  READ_CHUNK = 1 << 20, /* of a file that is hashed */
};

/* Only the holder of the lock uses them. */
static const char next_name[] = ".next";
static const char prepared_name[] = ".prepared";

static bool fail(const struct builddir *dir, char *why, const char *what, const char *file) {
  snprintf(why, FS_WHY, "cannot %s %s/%s: %m", what, dir->data, file);
  return false;
}

/* ---- hashes -------------------------------------------------------------------------------- */

void builddir_hex(const uint8_t *bytes, size_t n, char *out) {
  static const char digits[] = "0123456789abcdef";
  for (size_t i = 0; i < n; i++) {
    *out++ = digits[bytes[i] >> 4];
    *out++ = digits[bytes[i] & 15];
  }
  *out = 0;
}

bool builddir_sha(const void *data, size_t len, char out[BUILDDIR_SHA + 1]) {
  uint8_t md[EVP_MAX_MD_SIZE];
  if (!EVP_Digest(data, len, md, NULL, EVP_sha256(), NULL))
    return false;
  builddir_hex(md, BUILDDIR_SHA / 2, out);
  return true;
}

static bool hash_stream(int fd, EVP_MD_CTX *ctx, uint8_t *chunk) {
  for (;;) {
    ssize_t n = read(fd, chunk, READ_CHUNK);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return n == 0;
    if (!EVP_DigestUpdate(ctx, chunk, (size_t)n))
      return false;
  }
}

static bool hash_file(int fd, char out[BUILDDIR_SHA + 1]) {
  uint8_t md[EVP_MAX_MD_SIZE];
  EVP_MD_CTX *ctx = EVP_MD_CTX_new();
  uint8_t *chunk = malloc(READ_CHUNK);
  bool ok = ctx && chunk && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) &&
            hash_stream(fd, ctx, chunk) && EVP_DigestFinal_ex(ctx, md, NULL);
  if (ok)
    builddir_hex(md, BUILDDIR_SHA / 2, out);
  free(chunk);
  EVP_MD_CTX_free(ctx);
  return ok;
}

/* ---- names --------------------------------------------------------------------------------- */

static bool is_plain(uint8_t c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

bool builddir_zone_file(const uint8_t *apex, const char *suffix, char out[BUILDDIR_FILE + 32]) {
  static const char digits[] = "0123456789abcdef";
  char text[NAME_MAX_WIRE * 3 + 1];
  size_t n = 0;
  if (!*apex)
    text[n++] = '.';
  for (const uint8_t *label = apex; *label; label += *label + 1) {
    for (unsigned i = 1; i <= *label; i++) {
      uint8_t c = label[i];
      if (is_plain(c)) {
        text[n++] = (char)c;
        continue;
      }
      text[n++] = '%';
      text[n++] = digits[c >> 4];
      text[n++] = digits[c & 15];
    }
    text[n++] = '.';
  }
  text[n] = 0;
  /* "%%" never comes from the escaping above, so the two spellings cannot meet. */
  char sha[BUILDDIR_SHA + 1];
  if (n > BUILDDIR_FILE) {
    if (!builddir_sha(text, n, sha))
      return false;
    snprintf(text, sizeof text, "%%%%%s.", sha);
  }
  snprintf(out, BUILDDIR_FILE + 32, "zones/%.*s%s", BUILDDIR_FILE, text, suffix);
  return true;
}

static bool is_build_name(const char *name) {
  return strlen(name) == BUILDDIR_ID && strspn(name, "0123456789abcdef") == BUILDDIR_ID;
}

/* ---- cleaning ------------------------------------------------------------------------------ */

/* Removes DATA/<folder>/<name>; a failure is left for the next build to meet again. */
static void remove_below(const struct builddir *dir, const char *folder, const char *name) {
  char why[FS_WHY];
  char *path = NULL;
  if (asprintf(&path, "%s/%s/%s", dir->data, folder, name) < 0)
    return;
  fs_remove_tree(path, why);
  free(path);
}

/* A build that was killed while it switched the link leaves the link's temporary name. */
static void remove_link_leftovers(const struct builddir *dir) {
  DIR *list = opendir(dir->data);
  if (!list)
    return;
  struct dirent *entry;
  while ((entry = readdir(list)))
    if (!strncmp(entry->d_name, ".current.tmp-", 13))
      remove_below(dir, ".", entry->d_name);
  closedir(list);
}

struct old_build {
  char name[BUILDDIR_ID + 1];
  struct timespec made;
};

static int newest_first(const void *a, const void *b) {
  const struct old_build *x = a;
  const struct old_build *y = b;
  if (x->made.tv_sec != y->made.tv_sec)
    return x->made.tv_sec < y->made.tv_sec ? 1 : -1;
  if (x->made.tv_nsec != y->made.tv_nsec)
    return x->made.tv_nsec < y->made.tv_nsec ? 1 : -1;
  return strcmp(x->name, y->name);
}

/* All complete builds but the live one, in no order; malloc'd. */
static struct old_build *list_old(const struct builddir *dir, size_t *count) {
  *count = 0;
  size_t cap = 0;
  struct old_build *items = NULL;
  int fd = openat(dir->builds, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
  if (!list) {
    if (fd >= 0)
      close(fd);
    return NULL;
  }
  struct dirent *entry;
  while ((entry = readdir(list))) {
    struct stat st;
    if (!is_build_name(entry->d_name) || !strcmp(entry->d_name, dir->current) ||
        fstatat(dir->builds, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    if (*count == cap) {
      cap = cap ? cap * 2 : 16;
      struct old_build *more = realloc(items, cap * sizeof *items);
      if (!more)
        break;
      items = more;
    }
    memcpy(items[*count].name, entry->d_name, BUILDDIR_ID + 1);
    items[*count].made = st.st_mtim;
    (*count)++;
  }
  closedir(list);
  return items;
}

static void remove_old(const struct builddir *dir) {
  size_t count;
  struct old_build *items = list_old(dir, &count);
  if (count)
    qsort(items, count, sizeof *items, newest_first);
  for (size_t i = BUILDDIR_KEEP - 1; i < count; i++)
    remove_below(dir, "builds", items[i].name);
  free(items);
}

/* ---- opening ------------------------------------------------------------------------------- */

static bool take_lock(struct builddir *dir, char *why) {
  char *path = fs_join(dir->data, "lock");
  if (path)
    dir->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  free(path);
  if (dir->lock < 0)
    return fail(dir, why, "open", "lock");
  while (flock(dir->lock, LOCK_EX) != 0)
    if (errno != EINTR)
      return fail(dir, why, "lock", "lock");
  return true;
}

static bool open_previous(struct builddir *dir, char *why) {
  char target[64];
  char *link = fs_join(dir->data, "current");
  if (!link)
    return fail(dir, why, "read", "current");
  ssize_t n = readlink(link, target, sizeof target - 1);
  free(link);
  if (n < 0 && errno == ENOENT)
    return true;
  if (n < 0 && errno != EINVAL)
    return fail(dir, why, "read", "current");
  target[n < 0 ? 0 : n] = 0;
  if (strncmp(target, "builds/", 7) || !is_build_name(target + 7)) {
    snprintf(why, FS_WHY, "%s/current is not a link to a build; give another folder or remove it",
             dir->data);
    return false;
  }
  memcpy(dir->current, target + 7, BUILDDIR_ID + 1);
  dir->previous = openat(dir->builds, dir->current, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (dir->previous < 0)
    return fail(dir, why, "open", target);
  return true;
}

static bool make_next(struct builddir *dir, char *why) {
  if (mkdirat(dir->builds, next_name, 0755) != 0)
    return fail(dir, why, "make folder", "builds/.next");
  dir->next = openat(dir->builds, next_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (dir->next < 0 || mkdirat(dir->next, "zones", 0755) != 0)
    return fail(dir, why, "make folder", "builds/.next/zones");
  return true;
}

static void reset(struct builddir *dir) {
  memset(dir, 0, sizeof *dir);
  dir->lock = dir->builds = dir->next = dir->previous = -1;
}

bool builddir_open(struct builddir *dir, const char *data, char *why) {
  reset(dir);
  dir->data = strdup(data);
  char *builds = fs_join(data, "builds");
  bool ok = false;
  if (!dir->data || !builds)
    snprintf(why, FS_WHY, "out of memory");
  else
    ok = fs_make_dirs(builds, why) && take_lock(dir, why);
  if (ok) {
    dir->builds = open(builds, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ok = dir->builds >= 0 || fail(dir, why, "open", "builds");
  }
  if (ok) {
    remove_below(dir, "builds", next_name);
    remove_link_leftovers(dir);
    ok = open_previous(dir, why) && make_next(dir, why);
  }
  free(builds);
  if (!ok)
    builddir_close(dir);
  return ok;
}

static void close_fd(int fd) {
  if (fd >= 0)
    close(fd);
}

void builddir_close(struct builddir *dir) {
  if (dir->next >= 0)
    remove_below(dir, "builds", next_name);
  if (dir->builds >= 0)
    remove_old(dir);
  close_fd(dir->next);
  close_fd(dir->previous);
  close_fd(dir->builds);
  close_fd(dir->lock); /* and the lock goes with it */
  free(dir->data);
  reset(dir);
}

/* ---- files --------------------------------------------------------------------------------- */

bool builddir_has(const struct builddir *dir, const char *file, const char *sha) {
  if (dir->previous < 0)
    return false;
  int fd = openat(dir->previous, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0)
    return false;
  struct stat st;
  char found[BUILDDIR_SHA + 1];
  bool same =
      fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && hash_file(fd, found) && !strcmp(found, sha);
  close(fd);
  return same;
}

bool builddir_link(struct builddir *dir, const char *file) {
  return dir->previous >= 0 && linkat(dir->previous, file, dir->next, file, 0) == 0;
}

bool builddir_write(struct builddir *dir, const char *file, const void *data, size_t len,
                    char *why) {
  int fd = openat(dir->next, file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
  bool ok = fd >= 0 && fs_write_all(fd, data, len);
  if (ok && dir->written >= SYNC_EACH)
    dir->sync_all = true;
  else if (ok)
    ok = fsync(fd) == 0;
  int saved = errno;
  if (fd >= 0 && close(fd) != 0 && ok) {
    ok = false;
    saved = errno;
  }
  errno = saved;
  if (!ok)
    return fail(dir, why, "write", file);
  dir->written++;
  return true;
}

/* ---- switching ----------------------------------------------------------------------------- */

static bool sync_next(const struct builddir *dir) {
  if (dir->sync_all && syncfs(dir->next) != 0)
    return false;
  int zones = openat(dir->next, "zones", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (zones < 0)
    return false;
  bool ok = fsync(zones) == 0;
  close(zones);
  return ok && fsync(dir->next) == 0;
}

/* A folder of that name is an earlier build of the same content: trade places with it, since it may
 * be damaged (and may be live).  It then goes as the temporary folder. */
static bool give_name(const struct builddir *dir, const char *from, const char *id, char *why) {
  bool ok = renameat2(dir->builds, from, dir->builds, id, RENAME_NOREPLACE) == 0;
  if (!ok && errno == EINVAL) /* a file system without these flags */
    ok = renameat(dir->builds, from, dir->builds, id) == 0;
  else if (!ok && errno == EEXIST)
    ok = renameat2(dir->builds, from, dir->builds, id, RENAME_EXCHANGE) == 0;
  if (ok && fsync(dir->builds) == 0)
    return true;
  char file[32];
  snprintf(file, sizeof file, "builds/%s", from);
  return fail(dir, why, "rename", file);
}

static bool point_to(struct builddir *dir, const char *id, char *why) {
  if (!strcmp(dir->current, id))
    return true;
  char target[sizeof "builds/" + BUILDDIR_ID];
  snprintf(target, sizeof target, "builds/%.*s", BUILDDIR_ID, id);
  char *link = fs_join(dir->data, "current");
  if (!link) {
    errno = ENOMEM;
    return fail(dir, why, "write", "current");
  }
  bool ok = fs_switch_link(link, target, why);
  free(link);
  if (ok)
    memcpy(dir->current, target + 7, BUILDDIR_ID + 1);
  return ok;
}

bool builddir_switch(struct builddir *dir, const char *id, char *why) {
  if (!sync_next(dir))
    return fail(dir, why, "write", "builds/.next");
  return give_name(dir, next_name, id, why) && point_to(dir, id, why);
}

bool builddir_prepare(struct builddir *dir, char *why) {
  if (!sync_next(dir))
    return fail(dir, why, "write", "builds/.next");
  remove_below(dir, "builds", prepared_name);
  if (renameat(dir->builds, next_name, dir->builds, prepared_name) != 0 || fsync(dir->builds) != 0)
    return fail(dir, why, "rename", "builds/.next");
  return true;
}

/* True if a folder's manifest has the hash that `id` is the start of. */
static bool is_build(const struct builddir *dir, const char *folder, const char *id) {
  char file[64];
  char sha[BUILDDIR_SHA + 1];
  snprintf(file, sizeof file, "%s/manifest.json", folder);
  int fd = openat(dir->builds, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0)
    return false;
  bool same = hash_file(fd, sha) && !memcmp(sha, id, BUILDDIR_ID);
  close(fd);
  return same;
}

bool builddir_publish(struct builddir *dir, const char *id, char *why) {
  if (is_build_name(id) && is_build(dir, prepared_name, id)) {
    if (!give_name(dir, prepared_name, id, why))
      return false;
    remove_below(dir, "builds", prepared_name);
    return point_to(dir, id, why);
  }
  if (is_build_name(id) && is_build(dir, id, id))
    return point_to(dir, id, why);
  snprintf(why, FS_WHY, "the build %.16s is not in %s any more", id, dir->data);
  return false;
}

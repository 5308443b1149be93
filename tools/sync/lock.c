/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sync/lock.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tools/sync/plan.h"

enum {
  FOLDER_MODE = 0770,
  OWN_FOLDER_MODE = 0700,
  FILE_MODE = 0660,
  POLL_MS = 50,
  HOLDER_MAX = 512,
  NAME_SHOWN = 64,
  DIGITS = 16,
};

struct sync_lock {
  int fd;
  int folder;
  char name[SYNC_LOCK_NAME];
};

int64_t sync_lock_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- folders --------------------------------------------------------------------------------- */

bool sync_lock_make_folder(const char *folder, char *why) {
  if (mkdir(folder, FOLDER_MODE) != 0)
    return errno == EEXIST ||
           (snprintf(why, SYNC_LOCK_WHY, "cannot make %.200s: %s", folder, strerror(errno)), false);
  if (chmod(folder, FOLDER_MODE) == 0) /* whatever the umask */
    return true;
  snprintf(why, SYNC_LOCK_WHY, "cannot give %.200s its rights: %s", folder, strerror(errno));
  return false;
}

static int open_folder(int at, const char *path) {
  return openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* One of ours, that nobody else can write to: what stands there already may be somebody's trap. */
static int open_own(const char *path, char *why) {
  struct stat st;
  if (mkdir(path, OWN_FOLDER_MODE) != 0 && errno != EEXIST) {
    snprintf(why, SYNC_LOCK_WHY, "cannot make %.200s: %s", path, strerror(errno));
    return -1;
  }
  int fd = open_folder(AT_FDCWD, path);
  if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 022) == 0)
    return fd;
  snprintf(why, SYNC_LOCK_WHY,
           "%.200s is not a folder of this user alone; remove it, or name another as `locks:` in "
           "the section `syncd:` of the machine's settings",
           path);
  if (fd >= 0)
    close(fd);
  return -1;
}

static int open_fallback(char *why) {
  char path[512];
  const char *runtime = getenv("XDG_RUNTIME_DIR");
  if (runtime && *runtime == '/' && strlen(runtime) < 400) {
    snprintf(path, sizeof path, "%s/sluice-locks", runtime);
    int fd = open_own(path, why);
    if (fd >= 0)
      return fd;
  }
  snprintf(path, sizeof path, "/tmp/sluice-locks-%u", (unsigned)geteuid());
  return open_own(path, why);
}

int sync_lock_open_folder(const char *folder, char *note, char *why) {
  const char *path = folder ? folder : SYNC_LOCK_FOLDER;
  int fd = open_folder(AT_FDCWD, path);
  int error = fd < 0 ? errno : 0;
  note[0] = '\0';
  if (fd >= 0 && faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) == 0)
    return fd;
  if (fd >= 0) {
    error = errno;
    close(fd);
  }
  bool asked = strcmp(path, SYNC_LOCK_FOLDER) != 0;
  if (asked || error != ENOENT)
    snprintf(note, SYNC_LOCK_WHY,
             "locks in %.200s cannot be used (%s): this run does not see those of other users, and "
             "they not this one",
             path, strerror(error));
  return open_fallback(why);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Readable as far as that goes; the digest makes it one of a kind. */
void sync_lock_name(const char *kind, const char *place, const char *zone,
                    char out[SYNC_LOCK_NAME]) {
  char digest[SYNC_DIGEST] = "";
  json_t *all = json_pack("[s, s, s]", kind, place, zone);
  if (!all || !sync_digest(all, digest))
    snprintf(digest, sizeof digest, "%s", "0");
  json_decref(all);
  snprintf(out, SYNC_LOCK_NAME, "%.20s-%.*s-%.*s.lock", kind, NAME_SHOWN, zone, DIGITS, digest);
  for (char *c = out; *c; c++)
    if (!isalnum((unsigned char)*c) && *c != '.' && *c != '-')
      *c = '_';
}

/* ---- who holds it ---------------------------------------------------------------------------- */

/* Text that a terminal takes as it is. */
static void show(const char *text, char *out, size_t size) {
  size_t n = 0;
  for (; text && *text && n + 1 < size; text++)
    out[n++] = (char)((*text >= ' ' && *text < 0x7f) ? *text : '?');
  out[n] = '\0';
}

static void tell_holder(int fd, char *why) {
  char text[HOLDER_MAX];
  char user[64];
  char program[64];
  ssize_t len = pread(fd, text, sizeof text, 0);
  json_t *holder = len > 0 ? json_loadb(text, (size_t)len, 0, NULL) : NULL;
  json_int_t pid = json_integer_value(json_object_get(holder, "pid"));
  json_int_t age = (json_int_t)time(NULL) - json_integer_value(json_object_get(holder, "since"));
  show(json_string_value(json_object_get(holder, "user")), user, sizeof user);
  show(json_string_value(json_object_get(holder, "program")), program, sizeof program);
  if (pid > 0)
    snprintf(why, SYNC_LOCK_WHY, "process %lld of %s (%s), for %lld s", (long long)pid,
             *user ? user : "an unknown user", *program ? program : "?",
             (long long)(age > 0 ? age : 0));
  else
    snprintf(why, SYNC_LOCK_WHY, "another process");
  json_decref(holder);
}

/* The name of who runs this; threads of sluice-syncd ask too. */
static const char *who(char *out, size_t size) {
  char space[1024];
  struct passwd user;
  struct passwd *found = NULL;
  const char *sudo = getuid() == 0 ? getenv("SUDO_USER") : NULL;
  if (sudo && *sudo)
    snprintf(out, size, "%s", sudo);
  else if (getpwuid_r(getuid(), &user, space, sizeof space, &found) == 0 && found)
    snprintf(out, size, "%s", user.pw_name);
  else
    snprintf(out, size, "uid %lu", (unsigned long)getuid());
  return out;
}

static void write_holder(int fd) {
  char text[HOLDER_MAX];
  char user[64];
  json_t *holder =
      json_pack("{s:I, s:s, s:s, s:I}", "pid", (json_int_t)getpid(), "user", who(user, sizeof user),
                "program", program_invocation_short_name, "since", (json_int_t)time(NULL));
  size_t len = holder ? json_dumpb(holder, text, sizeof text, JSON_COMPACT) : 0;
  json_decref(holder);
  /* It is only told: without room on the disk the lock holds as well. */
  if (ftruncate(fd, 0) != 0 || len == 0 || len > sizeof text || pwrite(fd, text, len, 0) < 0)
    return;
}

/* ---- the lock -------------------------------------------------------------------------------- */

static int open_file(int folder, const char *name, char *why) {
  struct stat st;
  struct stat parent;
  int fd = openat(folder, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, FILE_MODE);
  if (fd < 0) {
    snprintf(why, SYNC_LOCK_WHY, "cannot open the lock %.200s: %s", name, strerror(errno));
    return -1;
  }
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_nlink > 1 ||
      fstat(folder, &parent) != 0) {
    snprintf(why, SYNC_LOCK_WHY, "the lock %.200s is no plain file with one name; remove it", name);
    close(fd);
    return -1;
  }
  /* For the folder's group, whoever of it was the first. */
  if (st.st_uid == geteuid() && (parent.st_mode & 020) &&
      ((st.st_gid != parent.st_gid && fchown(fd, (uid_t)-1, parent.st_gid) != 0) ||
       ((st.st_mode & 0777) != FILE_MODE && fchmod(fd, FILE_MODE) != 0))) {
    snprintf(why, SYNC_LOCK_WHY, "cannot give the lock %.200s to the folder's group: %s", name,
             strerror(errno));
    close(fd);
    return -1;
  }
  return fd;
}

/* Who had it may have removed the file just before it let go: then the lock is nobody's any more.
 */
static bool is_removed(int fd) {
  struct stat st;
  return fstat(fd, &st) == 0 && st.st_nlink == 0;
}

/* An open file that is locked; -1 with the reason. */
static int lock_file(int folder, const char *name, int64_t until_ms, enum sync_lock_result *result,
                     char *why) {
  const struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};
  *result = SYNC_LOCK_FAILED;
  for (;;) {
    int fd = open_file(folder, name, why);
    if (fd < 0)
      return -1;
    bool taken = flock(fd, LOCK_EX | LOCK_NB) == 0;
    bool held = !taken && errno == EWOULDBLOCK;
    bool removed = is_removed(fd);
    if (taken && !removed)
      return fd;
    if (!removed && held && sync_lock_now() >= until_ms) {
      tell_holder(fd, why);
      *result = SYNC_LOCK_HELD;
    } else if (!removed && !held) {
      snprintf(why, SYNC_LOCK_WHY, "cannot lock %.200s: %s", name, strerror(errno));
    }
    close(fd);
    if (!removed && (!held || *result == SYNC_LOCK_HELD))
      return -1;
    if (!removed)
      nanosleep(&pause, NULL);
  }
}

enum sync_lock_result sync_lock_take(int folder, const char *name, int64_t until_ms,
                                     struct sync_lock **out, char *why) {
  enum sync_lock_result result;
  struct sync_lock *lock = calloc(1, sizeof *lock);
  *out = NULL;
  snprintf(why, SYNC_LOCK_WHY, "out of memory");
  if (!lock)
    return SYNC_LOCK_FAILED;
  snprintf(lock->name, sizeof lock->name, "%s", name);
  lock->fd = lock_file(folder, name, until_ms, &result, why);
  lock->folder = lock->fd < 0 ? -1 : fcntl(folder, F_DUPFD_CLOEXEC, 0);
  if (lock->fd < 0) {
    free(lock);
    return result;
  }
  write_holder(lock->fd);
  *out = lock;
  return SYNC_LOCK_TAKEN;
}

void sync_lock_release(struct sync_lock *lock) {
  if (!lock)
    return;
  if (lock->folder >= 0) {
    unlinkat(lock->folder, lock->name, 0); /* while it is ours; see is_removed() */
    close(lock->folder);
  }
  close(lock->fd);
  free(lock);
}

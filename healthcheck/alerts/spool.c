/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/alerts/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/log.h"

enum {
  SUM = 16,             /* hexadecimal digits */
  LONG_LEAST = 4 << 20, /* octets under which a journal is never written anew */
  LONG_TIMES = 4,       /* how much longer than what it has to hold */
  LONG_MOST = 512 << 20,
  PENDING_MOST = 64 << 20,
};

struct spool {
  uv_loop_t *loop;
  char *path;
  int lock;
  int fd;
  int stale;     /* of the journal before, while a sync of it runs; or -1 */
  size_t length; /* of the journal */
  size_t base;   /* its length when it was written anew */
  struct buf pending;
  struct buf whole; /* while it is written anew */
  bool rewriting;
  bool failing; /* said in the log */
  uv_fs_t *sync;
  bool sync_again;
  bool orphaned; /* closed while the pool still syncs */
};

/* ---- reading ----------------------------------------------------------------------------------
 */

static bool read_sum(const char *line, uint64_t *sum) {
  *sum = 0;
  for (int i = 0; i < SUM; i++) {
    char c = line[i];
    unsigned digit;
    if (c >= '0' && c <= '9')
      digit = (unsigned)(c - '0');
    else if (c >= 'a' && c <= 'f')
      digit = (unsigned)(c - 'a' + 10);
    else
      return false;
    *sum = *sum << 4 | digit;
  }
  return line[SUM] == ' ';
}

static json_t *read_line(const char *line, size_t length) {
  uint64_t sum;
  if (length <= SUM + 1 || length > SPOOL_RECORD || !read_sum(line, &sum))
    return NULL;
  const char *text = line + SUM + 1;
  size_t rest = length - SUM - 1;
  if (XXH3_64bits(text, rest) != sum)
    return NULL;
  json_t *record = json_loadb(text, rest, 0, NULL);
  if (json_is_object(record))
    return record;
  json_decref(record);
  return NULL;
}

size_t spool_parse(const char *data, size_t length, bool (*take)(void *arg, const json_t *record),
                   void *arg) {
  size_t damaged = 0;
  for (size_t at = 0; at < length;) {
    const char *end = memchr(data + at, '\n', length - at);
    if (end == NULL)
      break; /* it was being written when the program ended */
    size_t n = (size_t)(end - data) - at;
    json_t *record = read_line(data + at, n);
    if (record == NULL || !take(arg, record))
      damaged++;
    json_decref(record);
    at += n + 1;
  }
  return damaged;
}

/* ---- opening ----------------------------------------------------------------------------------
 */

static bool take_lock(struct spool *spool, const char *folder, char *why) {
  char *path = fs_join(folder, "lock");
  if (path == NULL) {
    snprintf(why, SPOOL_WHY, "out of memory");
    return false;
  }
  spool->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  bool ok = spool->lock >= 0 && flock(spool->lock, LOCK_EX | LOCK_NB) == 0;
  if (!ok && spool->lock >= 0 && errno == EWOULDBLOCK)
    snprintf(why, SPOOL_WHY,
             "the spool %s is in use by another checker; stop it, or set another "
             "`healthd: spool:`",
             folder);
  else if (!ok)
    snprintf(why, SPOOL_WHY, "cannot lock %s: %s", path, strerror(errno));
  free(path);
  return ok;
}

/* Keeps a damaged journal where people can look at it. */
static void set_aside(const char *path, const uint8_t *data, size_t length, size_t damaged) {
  char aside[4096];
  char why[FS_WHY];
  snprintf(aside, sizeof aside, "%s.damaged", path);
  if (fs_write_atomic(aside, data, length, 0600, why))
    log_warning("%s is damaged (%zu records cannot be read): a copy is in %s, the rest is used",
                path, damaged, aside);
  else
    log_warning("%s is damaged (%zu records cannot be read), the rest is used; %s", path, damaged,
                why);
}

static bool read_journal(struct spool *spool, bool (*take)(void *arg, const json_t *record),
                         void *arg, char *why) {
  uint8_t *data = NULL;
  size_t length = 0;
  if (access(spool->path, F_OK) != 0 && errno == ENOENT)
    return true;
  if (!fs_read(spool->path, SPOOL_FILE, &data, &length, why))
    return false;
  size_t damaged = spool_parse((const char *)data, length, take, arg);
  size_t whole = length;
  while (whole > 0 && data[whole - 1] != '\n')
    whole--;
  if (whole != length && truncate(spool->path, (off_t)whole) != 0)
    log_warning("cannot shorten %s: %s", spool->path, strerror(errno));
  spool->length = spool->base = whole;
  if (damaged > 0)
    set_aside(spool->path, data, length, damaged);
  free(data);
  return true;
}

static void spool_free(struct spool *spool) {
  if (spool->fd >= 0)
    close(spool->fd);
  if (spool->stale >= 0)
    close(spool->stale);
  if (spool->lock >= 0)
    close(spool->lock);
  buf_close(&spool->pending);
  buf_close(&spool->whole);
  free(spool->path);
  free(spool);
}

struct spool *spool_open(uv_loop_t *loop, const char *folder,
                         bool (*take)(void *arg, const json_t *record), void *arg, char *why) {
  struct spool *spool = calloc(1, sizeof *spool);
  if (spool == NULL) {
    snprintf(why, SPOOL_WHY, "out of memory");
    return NULL;
  }
  spool->loop = loop;
  spool->fd = spool->stale = spool->lock = -1;
  buf_init(&spool->pending);
  buf_init(&spool->whole);
  spool->path = fs_join(folder, "alerts.journal");
  if (spool->path == NULL) {
    snprintf(why, SPOOL_WHY, "out of memory");
    goto failed;
  }
  if (!fs_make_dirs(folder, why))
    goto failed;
  if (chmod(folder, 0700) != 0) {
    snprintf(why, SPOOL_WHY, "cannot use the spool %s: %s", folder, strerror(errno));
    goto failed;
  }
  if (take_lock(spool, folder, why) && read_journal(spool, take, arg, why))
    return spool;
failed:
  spool_free(spool);
  return NULL;
}

/* ---- writing ----------------------------------------------------------------------------------
 */

void spool_add(struct spool *spool, json_t *record) {
  struct buf *out = spool->rewriting ? &spool->whole : &spool->pending;
  char *text = record != NULL ? json_dumps(record, JSON_COMPACT) : NULL;
  json_decref(record);
  if (text == NULL || out->len > PENDING_MOST) {
    log_warning("alerts: a record could not be kept for the spool");
    free(text);
    return;
  }
  size_t length = strlen(text);
  if (length + SUM + 1 <= SPOOL_RECORD)
    buf_printf(out, "%016" PRIx64 " %s\n", (uint64_t)XXH3_64bits(text, length), text);
  else
    log_warning("alerts: a record is too long for the spool");
  free(text);
}

bool spool_is_long(const struct spool *spool, size_t needed) {
  if (spool->length > LONG_MOST && spool->length / 2 > spool->base)
    return true;
  return spool->length > LONG_LEAST && spool->length / LONG_TIMES > needed &&
         spool->length / 2 > spool->base;
}

static bool open_journal(struct spool *spool) {
  if (spool->fd >= 0)
    return true;
  spool->fd = open(spool->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  return spool->fd >= 0;
}

static void tell_failure(struct spool *spool, const char *reason) {
  if (!spool->failing)
    log_error("cannot write %s: %s; alerts go on, but do not survive a restart until it works",
              spool->path, reason);
  spool->failing = true;
}

static void start_sync(struct spool *spool);

static void on_sync(uv_fs_t *request) {
  struct spool *spool = request->data;
  uv_fs_req_cleanup(request);
  free(request);
  spool->sync = NULL;
  if (spool->stale >= 0)
    close(spool->stale);
  spool->stale = -1;
  if (spool->orphaned)
    spool_free(spool);
  else if (spool->sync_again)
    start_sync(spool);
}

/* Against a crash of the machine; what is written survives one of the program anyway. */
static void start_sync(struct spool *spool) {
  if (spool->sync != NULL) {
    spool->sync_again = true;
    return;
  }
  spool->sync_again = false;
  spool->sync = calloc(1, sizeof *spool->sync);
  if (spool->sync == NULL)
    return;
  spool->sync->data = spool;
  if (uv_fs_fdatasync(spool->loop, spool->sync, spool->fd, on_sync) != 0) {
    free(spool->sync);
    spool->sync = NULL;
  }
}

/* Takes off what a write that failed has left, so that the next line begins a line. */
static void cut_back(struct spool *spool, off_t length) {
  if (ftruncate(spool->fd, length) == 0)
    return;
  close(spool->fd);
  spool->fd = -1;
}

static bool write_all(struct spool *spool) {
  const uint8_t *data = spool->pending.data;
  size_t left = spool->pending.len;
  off_t before = lseek(spool->fd, 0, SEEK_END);
  while (left > 0) {
    ssize_t n = write(spool->fd, data, left);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0) {
      int reason = errno;
      if (before >= 0)
        cut_back(spool, before);
      errno = reason;
      return false;
    }
    data += n;
    left -= (size_t)n;
  }
  return true;
}

bool spool_flush(struct spool *spool) {
  if (spool->pending.failed) {
    buf_close(&spool->pending);
    buf_init(&spool->pending);
    tell_failure(spool, "out of memory");
    return false;
  }
  if (spool->pending.len == 0)
    return true;
  if (!open_journal(spool) || !write_all(spool)) {
    tell_failure(spool, strerror(errno));
    return false;
  }
  if (spool->failing)
    log_notice("%s is written again", spool->path);
  spool->failing = false;
  spool->length += spool->pending.len;
  buf_clear(&spool->pending);
  start_sync(spool);
  return true;
}

void spool_rewrite_begin(struct spool *spool) {
  buf_clear(&spool->whole);
  spool->rewriting = true;
}

bool spool_rewrite_end(struct spool *spool) {
  char why[FS_WHY];
  spool->rewriting = false;
  bool ok = !spool->whole.failed;
  snprintf(why, sizeof why, "out of memory");
  ok = ok &&
       fs_write_atomic(spool->path, spool->whole.len > 0 ? (const void *)spool->whole.data : "",
                       spool->whole.len, 0600, why);
  size_t length = spool->whole.len;
  buf_close(&spool->whole);
  buf_init(&spool->whole);
  if (!ok) {
    spool->base = spool->length; /* not again at once */
    tell_failure(spool, why);
    return false;
  }
  /* The descriptor is of the file before; a sync of it may still run in the pool. */
  if (spool->fd >= 0 && spool->sync == NULL)
    close(spool->fd);
  else if (spool->fd >= 0 && spool->stale < 0)
    spool->stale = spool->fd;
  else if (spool->fd >= 0)
    close(spool->fd); /* the sync is of the one before it */
  spool->fd = -1;
  buf_clear(&spool->pending); /* it is in the whole */
  spool->length = spool->base = length;
  return true;
}

void spool_close(struct spool *spool) {
  if (spool == NULL)
    return;
  spool_flush(spool);
  if (spool->sync == NULL)
    spool_free(spool);
  else
    spool->orphaned = true;
}

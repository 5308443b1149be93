/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/utf8.h"

enum { MESSAGE_MAX = 2048, LINE_MAX_BYTES = 6 * MESSAGE_MAX + 256, LINES_PER_SECOND = 10 };

static const char *log_program = "sluice";
static enum log_format log_form = LOG_FORMAT_TEXT;
static enum log_level log_verbosity = LOG_LEVEL_INFO;
static bool log_to_journal;

/* systemd names the device and inode of the journal's stream in JOURNAL_STREAM; a redirected stderr
 * inherits the variable, but not the inode. */
static bool stderr_is_journal(void) {
  const char *stream = getenv("JOURNAL_STREAM");
  struct stat st;
  if (stream == NULL || fstat(STDERR_FILENO, &st) != 0)
    return false;
  char *end = NULL;
  unsigned long long device = strtoull(stream, &end, 10);
  if (end == stream || *end != ':')
    return false;
  unsigned long long inode = strtoull(end + 1, NULL, 10);
  return device == (unsigned long long)st.st_dev && inode == (unsigned long long)st.st_ino;
}

void log_setup(const char *program, enum log_format format, enum log_level most_verbose) {
  log_program = program;
  log_form = format;
  log_verbosity = most_verbose;
  log_to_journal = stderr_is_journal();
}

static const char *level_name(enum log_level level) {
  switch (level) {
  case LOG_LEVEL_ERROR:
    return "error";
  case LOG_LEVEL_WARNING:
    return "warning";
  case LOG_LEVEL_NOTICE:
    return "notice";
  case LOG_LEVEL_INFO:
    return "info";
  case LOG_LEVEL_DEBUG:
    return "debug";
  }
  return "info";
}

/* Copies `text` so that nothing in it can end the line or speak to a terminal. */
static size_t put_escaped(char *out, const char *text, bool json) {
  size_t n = 0;
  for (const unsigned char *s = (const unsigned char *)text; *s != 0;) {
    size_t sequence = utf8_sequence(s);
    if (json && (*s == '"' || *s == '\\')) {
      out[n++] = '\\';
      out[n++] = (char)*s++;
    } else if (*s < 0x20 || *s == 0x7f || sequence == 0) {
      n += (size_t)sprintf(out + n, json ? "\\u%04x" : "\\x%02x", *s++);
    } else {
      memcpy(out + n, s, sequence);
      n += sequence;
      s += sequence;
    }
  }
  return n;
}

static size_t put_json(char *line, enum log_level level, const char *message) {
  struct timespec now;
  struct tm utc;
  char stamp[32];
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &utc);
  strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
  size_t n = (size_t)sprintf(
      line, "{\"time\":\"%s.%03ldZ\",\"level\":\"%s\",\"program\":\"%s\",\"message\":\"", stamp,
      now.tv_nsec / 1000000, level_name(level), log_program);
  n += put_escaped(line + n, message, true);
  memcpy(line + n, "\"}\n", 3);
  return n + 3;
}

static size_t put_text(char *line, enum log_level level, const char *message) {
  size_t n = 0;
  if (log_to_journal)
    n = (size_t)sprintf(line, "<%d>", (int)level);
  else
    n = (size_t)sprintf(line, "%s: %s%s", log_program,
                        level <= LOG_LEVEL_WARNING ? level_name(level) : "",
                        level <= LOG_LEVEL_WARNING ? ": " : "");
  n += put_escaped(line + n, message, false);
  line[n++] = '\n';
  return n;
}

static void write_message(enum log_level level, const char *message) {
  char line[LINE_MAX_BYTES];
  size_t n =
      log_form == LOG_FORMAT_JSON ? put_json(line, level, message) : put_text(line, level, message);
  /* A log that cannot be written has nowhere to say so. */
  ssize_t written;
  do
    written = write(STDERR_FILENO, line, n);
  while (written < 0 && errno == EINTR);
}

static void write_format(enum log_level level, const char *format, va_list args) {
  if (level > log_verbosity)
    return;
  int saved = errno;
  char message[MESSAGE_MAX];
  vsnprintf(message, sizeof message, format, args);
  write_message(level, message);
  errno = saved;
}

#define LOG_FUNCTION(name, level)                                                                  \
  void name(const char *format, ...) {                                                             \
    va_list args;                                                                                  \
    va_start(args, format);                                                                        \
    write_format(level, format, args);                                                             \
    va_end(args);                                                                                  \
  }
LOG_FUNCTION(log_error, LOG_LEVEL_ERROR)
LOG_FUNCTION(log_warning, LOG_LEVEL_WARNING)
LOG_FUNCTION(log_notice, LOG_LEVEL_NOTICE)
LOG_FUNCTION(log_info, LOG_LEVEL_INFO)
LOG_FUNCTION(log_debug, LOG_LEVEL_DEBUG)

/* Any thread may come here; a spin lock is enough, for the state is tiny and never held over I/O.
 */
static atomic_flag limit_lock = ATOMIC_FLAG_INIT;

/* Counts one event; true if it may be written. *left_out: how many the last window left out. */
static bool limit_take(struct log_limit *limit, unsigned *left_out) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  while (atomic_flag_test_and_set_explicit(&limit_lock, memory_order_acquire))
    ;
  *left_out = 0;
  if (limit->second != (long long)now.tv_sec) {
    *left_out = limit->left_out;
    *limit = (struct log_limit){.second = (long long)now.tv_sec};
  }
  bool take = limit->written < LINES_PER_SECOND;
  if (take)
    limit->written++;
  else
    limit->left_out++;
  atomic_flag_clear_explicit(&limit_lock, memory_order_release);
  return take;
}

void log_limited(struct log_limit *limit, enum log_level level, const char *format, ...) {
  if (level > log_verbosity)
    return;
  unsigned left_out = 0;
  bool take = limit_take(limit, &left_out);
  if (left_out > 0) {
    char message[64];
    snprintf(message, sizeof message, "%u lines like the next one were left out", left_out);
    write_message(level, message);
  }
  if (!take)
    return;
  va_list args;
  va_start(args, format);
  write_format(level, format, args);
  va_end(args);
}

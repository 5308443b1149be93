/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logging of the long-lived programs: one line per event on stderr, with a journald level prefix
 * ("<6>") when stderr is the journal, plain on a terminal or file, or one JSON object per line.
 *
 * Never called per query.  Any thread may log; a line is written with one write(2).  Events that
 * the network can cause are limited with log_limited(): at most ten lines a second for each call
 * site, and the number left out is said once the second is over.
 */
#ifndef SLUICE_BASE_LOG_H
#define SLUICE_BASE_LOG_H

#include <stdbool.h>

enum log_level {
  LOG_LEVEL_ERROR = 3,
  LOG_LEVEL_WARNING = 4,
  LOG_LEVEL_NOTICE = 5,
  LOG_LEVEL_INFO = 6,
  LOG_LEVEL_DEBUG = 7
};
enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };

/* Sets what is written; called once, before other threads start. */
void log_setup(const char *program, enum log_format format, enum log_level most_verbose);

void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_notice(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* State of one rate-limited call site; static storage, zero-initialised. */
struct log_limit {
  long long second; /* CLOCK_MONOTONIC second of the current window */
  unsigned written;
  unsigned left_out;
};
void log_limited(struct log_limit *limit, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif

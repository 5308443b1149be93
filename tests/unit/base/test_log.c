/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

static FILE *file;
static char text[65536];

/* stderr goes to a file, so that what was written can be looked at. */
static void init(void) {
  file = tmpfile();
  cr_assert_not_null(file);
  dup2(fileno(file), STDERR_FILENO);
}

static const char *written(void) {
  ssize_t n = pread(fileno(file), text, sizeof text - 1, 0);
  cr_assert_geq(n, 0);
  text[n] = '\0';
  return text;
}

static unsigned count_lines(void) {
  unsigned lines = 0;
  for (const char *p = written(); *p; p++)
    lines += *p == '\n';
  return lines;
}

TestSuite(log, .init = init);

Test(log, text) {
  log_setup("prog", LOG_FORMAT_TEXT, LOG_LEVEL_INFO);
  log_info("one %d", 1);
  log_debug("not shown");
  log_error("two");
  cr_assert_str_eq(written(), "prog: one 1\nprog: error: two\n");
}

Test(log, journal) {
  struct stat st;
  char stream[64];
  cr_assert_eq(fstat(STDERR_FILENO, &st), 0);
  snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)st.st_dev,
           (unsigned long long)st.st_ino);
  setenv("JOURNAL_STREAM", stream, 1);
  log_setup("prog", LOG_FORMAT_TEXT, LOG_LEVEL_DEBUG);
  log_warning("odd");
  log_debug("more");
  cr_assert_str_eq(written(), "<4>odd\n<7>more\n");
}

Test(log, journal_of_another_process) {
  setenv("JOURNAL_STREAM", "1:1", 1);
  log_setup("prog", LOG_FORMAT_TEXT, LOG_LEVEL_INFO);
  log_info("plain");
  cr_assert_str_eq(written(), "prog: plain\n");
}

/* Nothing that is logged can end the line, move the cursor or break the JSON. */
static const char hostile[] =
    "a\nb\r\x1b[31m\"\\\x7f \xc3\xa9 \xff \xed\xa0\x80 \xf4\x90\x80\x80 \xc3";

Test(log, hostile_text) {
  log_setup("prog", LOG_FORMAT_TEXT, LOG_LEVEL_INFO);
  log_info("%s", hostile);
  cr_assert_str_eq(written(), "prog: a\\x0ab\\x0d\\x1b[31m\"\\\\x7f \xc3\xa9 \\xff \\xed\\xa0\\x80 "
                              "\\xf4\\x90\\x80\\x80 \\xc3\n");
}

Test(log, hostile_json) {
  log_setup("prog", LOG_FORMAT_JSON, LOG_LEVEL_INFO);
  log_error("%s", hostile);
  cr_assert_eq(count_lines(), 1);
  json_t *line = json_loads(written(), 0, NULL);
  cr_assert_not_null(line, "%s", text);
  cr_assert_str_eq(json_string_value(json_object_get(line, "level")), "error");
  cr_assert_str_eq(json_string_value(json_object_get(line, "program")), "prog");
  const char *message = json_string_value(json_object_get(line, "message"));
  cr_assert_eq(strncmp(message, "a\nb\r\x1b[31m\"\\\x7f \xc3\xa9 ", 15), 0);
  json_decref(line);
}

Test(log, long_text_stays_one_line) {
  char message[8192];
  memset(message, 'x', sizeof message - 1);
  message[sizeof message - 1] = '\0';
  log_setup("prog", LOG_FORMAT_TEXT, LOG_LEVEL_INFO);
  log_info("%s", message);
  cr_assert_eq(count_lines(), 1);
  cr_assert_gt(strlen(text), 1000);
}

Test(log, errno_is_kept) {
  log_setup("prog", LOG_FORMAT_JSON, LOG_LEVEL_INFO);
  errno = ENOENT;
  log_info("x");
  cr_assert_eq(errno, ENOENT);
}

Test(log, limited) {
  log_setup("prog", LOG_FORMAT_TEXT, LOG_LEVEL_INFO);
  struct log_limit limit = {.second = 0};
  for (int i = 0; i < 1000; i++)
    log_limited(&limit, LOG_LEVEL_INFO, "event");
  cr_assert_lt(count_lines(), 500);
  /* The next window says how much is missing. */
  limit = (struct log_limit){.second = -1, .written = 10, .left_out = 7};
  cr_assert_eq(ftruncate(fileno(file), 0), 0);
  lseek(fileno(file), 0, SEEK_SET);
  log_limited(&limit, LOG_LEVEL_INFO, "event");
  cr_assert_str_eq(written(), "prog: 7 lines like the next one were left out\nprog: event\n");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What is known over a restart. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "healthcheck/state_file.h"

#define ID_A "0123456789abcdef0123456789abcdef"
#define ID_B "fedcba98765432100123456789abcdef"
#define ROW(target, id, type, port, state)                                                         \
  "[\"" target "\",\"" id "\",\"" type "\"," port ",\"" state "\",1700000000,0,\"status 200\"]"
#define FILE_OF(rows) "{\"format\":1,\"checks\":[" rows "]}"

static char why[STATE_FILE_WHY], damaged[STATE_FILE_WHY];
static char folder[] = "/tmp/sluice-state-XXXXXX";
static char path[64];

static void setup(void) {
  cr_assert_not_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/state.json", folder);
}

static void teardown(void) {
  cr_assert(fs_remove_tree(folder, why), "%s", why);
}

TestSuite(state_file, .init = setup, .fini = teardown);

static struct check settings;
static struct list_check check = {.check = &settings, .references = 1};

/* A probe of an IPv4 address. */
static const struct list_probe *probe(const char *target, const char *id, enum check_type type,
                                      uint16_t port) {
  static struct list_probe out;
  settings.type = type;
  settings.port = port;
  snprintf(check.id, sizeof check.id, "%s", id);
  out = (struct list_probe){.check = &check, .target = {.family = 4}};
  snprintf(out.text, sizeof out.text, "%s", target);
  return &out;
}

static struct state_file *parse(const char *text) {
  return state_file_parse(text, strlen(text), why);
}

static void write_file(const char *text) {
  cr_assert(fs_write_atomic(path, text, strlen(text), 0600, why), "%s", why);
}

Test(state_file, what_was_written_is_read_again) {
  struct buf out;
  struct state_saved saved = {.type = CHECK_HTTP,
                              .state = MACHINE_DOWN,
                              .port = 80,
                              .held = 1234,
                              .since = 1700000000,
                              .why = "a \"quoted\" \\ text\nof two lines"};
  memcpy(saved.id, ID_A, sizeof saved.id);
  buf_init(&out);
  state_file_begin(&out);
  state_file_add(&out, "192.0.2.1", &saved);
  saved.state = MACHINE_UP;
  saved.why = NULL;
  state_file_add(&out, "www.example.com", &saved);
  state_file_end(&out);
  struct state_file *file = state_file_parse((const char *)out.data, out.len, why);
  cr_assert_not_null(file, "%s", why);
  cr_assert_eq(state_file_count(file), 2u);
  const struct state_saved *got = state_file_take(file, probe("192.0.2.1", ID_A, CHECK_HTTP, 80));
  cr_assert_not_null(got);
  cr_assert_eq(got->state, MACHINE_DOWN);
  cr_assert_eq(got->held, 1234u);
  cr_assert_eq(got->since, 1700000000);
  cr_assert_str_eq(got->why, "a \"quoted\" \\ text of two lines");
  state_file_free(file);
  buf_close(&out);
}

Test(state_file, an_empty_document) {
  struct buf out;
  buf_init(&out);
  state_file_begin(&out);
  state_file_end(&out);
  struct state_file *file = state_file_parse((const char *)out.data, out.len, why);
  cr_assert_not_null(file, "%s", why);
  cr_assert_eq(state_file_count(file), 0u);
  state_file_free(file);
  buf_close(&out);
}

Test(state_file, changed_settings_keep_the_state_of_their_target) {
  struct state_file *file = parse(FILE_OF(
      ROW("192.0.2.1", ID_A, "tcp", "22", "up") "," ROW("192.0.2.1", ID_B, "http", "80", "down")));
  cr_assert_not_null(file, "%s", why);
  static const char other[] = "00000000000000000000000000000000";
  const struct list_probe *changed = probe("192.0.2.1", other, CHECK_HTTP, 80);
  cr_assert_null(state_file_take(file, changed));
  cr_assert_eq(state_file_similar(file, changed)->state, MACHINE_DOWN, "same type and port");
  cr_assert_not_null(state_file_similar(file, probe("192.0.2.1", other, CHECK_ICMP, 0)));
  cr_assert_null(state_file_similar(file, probe("192.0.2.2", other, CHECK_HTTP, 80)));
  state_file_free(file);
}

Test(state_file, what_goes_on_is_not_given_to_others) {
  struct state_file *file = parse(FILE_OF(ROW("192.0.2.1", ID_A, "tcp", "22", "up")));
  cr_assert_not_null(state_file_take(file, probe("192.0.2.1", ID_A, CHECK_TCP, 22)));
  cr_assert_null(state_file_similar(file, probe("192.0.2.1", ID_B, CHECK_HTTP, 80)));
  state_file_free(file);
}

Test(state_file, a_missing_file_is_an_empty_one) {
  struct state_file *file = state_file_read(path, damaged, why);
  cr_assert_not_null(file, "%s", why);
  cr_assert_str_empty(damaged);
  cr_assert_eq(state_file_count(file), 0u);
  state_file_free(file);
}

Test(state_file, b06_a_damaged_file_is_set_aside_and_named) {
  static const char *const texts[] = {
      "",
      "garbage",
      "{\"format\":1,\"checks\":[",
      "{\"format\":2,\"checks\":[]}",
      "{\"format\":1,\"checks\":{}}",
      FILE_OF("[1,2,3]"),
      FILE_OF(ROW("192.0.2.1", "short", "tcp", "22", "up")),
      FILE_OF(ROW("192.0.2.1", ID_A, "gopher", "22", "up")),
      FILE_OF(ROW("192.0.2.1", ID_A, "tcp", "65536", "up")),
      FILE_OF(ROW("192.0.2.1", ID_A, "tcp", "-1", "up")),
      FILE_OF(ROW("192.0.2.1", ID_A, "tcp", "22", "unknown")),
      FILE_OF(ROW("", ID_A, "tcp", "22", "up")),
      "\xff\xfe\x00\x01",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    char aside[80];
    struct stat st;
    write_file(texts[i]);
    struct state_file *file = state_file_read(path, damaged, why);
    cr_assert_not_null(file, "%s", why);
    cr_assert_eq(state_file_count(file), 0u);
    state_file_free(file);
    snprintf(aside, sizeof aside, "%s.damaged", path);
    cr_assert(strstr(damaged, aside) != NULL, "%s", damaged);
    cr_assert_eq(stat(aside, &st), 0);
    cr_assert_neq(stat(path, &st), 0);
  }
}

Test(state_file, cut_off_anywhere_it_is_damaged) {
  static const char text[] = FILE_OF(ROW("192.0.2.1", ID_A, "tcp", "22", "up"));
  for (size_t len = 0; len + 1 < sizeof text; len++)
    cr_assert_null(state_file_parse(text, len, why));
}

Test(state_file, what_is_no_file_is_left_alone) {
  cr_assert_eq(mkdir(path, 0700), 0);
  cr_assert_null(state_file_read(path, damaged, why));
  cr_assert(strstr(why, path) != NULL);
}

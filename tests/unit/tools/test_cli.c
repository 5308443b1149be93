/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <string.h>

#include "tools/cli.h"

static const char *file;
static bool fast;

static const struct cli_option options[] = {
    {"file", "FILE", "a file", &file, NULL},
    {"fast", NULL, "quickly,\nnot slowly", NULL, &fast},
};
static const struct cli_spec spec = {
    .usage = "sluice test ARG [--file FILE]",
    .about = "Tests.",
    .examples = "sluice test x",
    .options = options,
    .option_count = CLI_COUNT(options),
    .min_args = 1,
    .max_args = 2,
};

/* Parses words that are separated by one space. */
static enum cli_next parse(const char *line, char *argv[16], size_t *count) {
  static char copy[256];
  strcpy(copy, line);
  int argc = 0;
  file = NULL;
  fast = false;
  for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
    argv[argc++] = word;
  argv[argc] = NULL;
  return cli_parse(&spec, argc, argv, count);
}

TestSuite(cli, .init = cr_redirect_stdout);

Test(cli, options_in_any_order) {
  char *argv[16];
  size_t count;
  cr_assert_eq(parse("test --file a b --fast c", argv, &count), CLI_GO_ON);
  cr_assert_eq(count, 2);
  cr_assert_str_eq(argv[1], "b");
  cr_assert_str_eq(argv[2], "c");
  cr_assert_str_eq(file, "a");
  cr_assert(fast);
}

Test(cli, value_after_an_equals_sign) {
  char *argv[16];
  size_t count;
  cr_assert_eq(parse("test --file=a=b c", argv, &count), CLI_GO_ON);
  cr_assert_str_eq(file, "a=b");
}

Test(cli, c_is_short_for_settings) {
  const char *settings = NULL;
  const struct cli_option more[] = {{"settings", "FILE", "settings", &settings, NULL}};
  const struct cli_spec with = {
      .usage = "x", .about = "x", .examples = "x", .options = more, .option_count = 1};
  char words[3][8] = {"test", "-c", "file"};
  char *argv[] = {words[0], words[1], words[2], NULL};
  size_t count;
  cr_assert_eq(cli_parse(&with, 3, argv, &count), CLI_GO_ON);
  cr_assert_str_eq(settings, "file");
  char *alone[] = {words[0], words[1], NULL};
  cr_assert_eq(cli_parse(&spec, 2, alone, &count), CLI_EXIT_USAGE);
}

Test(cli, two_dashes_end_the_options) {
  char *argv[16];
  size_t count;
  cr_assert_eq(parse("test -- --fast", argv, &count), CLI_GO_ON);
  cr_assert_eq(count, 1);
  cr_assert_str_eq(argv[1], "--fast");
  cr_assert_not(fast);
}

Test(cli, a_single_dash_is_an_argument) {
  char *argv[16];
  size_t count;
  cr_assert_eq(parse("test -", argv, &count), CLI_GO_ON);
  cr_assert_str_eq(argv[1], "-");
}

Test(cli, help) {
  char *argv[16];
  size_t count;
  cr_assert_eq(parse("test --help", argv, &count), CLI_EXIT_DONE);
  fflush(stdout);
  cr_assert_stdout_eq_str("Usage:\n"
                          "  sluice test ARG [--file FILE]\n"
                          "\nTests.\n"
                          "\nOptions:\n"
                          "  --file FILE               a file\n"
                          "  --fast                    quickly,\n"
                          "                            not slowly\n"
                          "  --help                    this text\n"
                          "\nExamples:\n"
                          "  sluice test x\n");
}

static void expect_error(const char *line, const char *message) {
  char *argv[16];
  size_t count;
  cr_redirect_stderr();
  cr_assert_eq(parse(line, argv, &count), CLI_EXIT_USAGE);
  fflush(stderr);
  cr_assert_stderr_eq_str(message);
}

Test(cli, unknown_option) {
  expect_error("test x --fiel a", "sluice: unknown option --fiel; did you mean --file?\n");
}
Test(cli, unknown_option_without_a_near_one) {
  expect_error("test x --zzzzzz", "sluice: unknown option --zzzzzz; --help lists the options\n");
}
Test(cli, unknown_short_option) {
  expect_error("test -x", "sluice: unknown option -x; --help lists the options\n");
}
Test(cli, missing_value) {
  expect_error("test x --file", "sluice: --file needs a value; write --file FILE\n");
}
Test(cli, empty_value) {
  expect_error("test x --file=", "sluice: --file needs a value; write --file FILE\n");
}
Test(cli, flag_with_a_value) {
  expect_error("test x --fast=1", "sluice: --fast takes no value; leave out =1\n");
}
Test(cli, option_given_twice) {
  expect_error("test x --file a --file b", "sluice: --file is given twice; give it once\n");
}
Test(cli, missing_argument) {
  expect_error("test --fast",
               "sluice: an argument is missing; usage: sluice test ARG [--file FILE]\n");
}
Test(cli, too_many_arguments) {
  expect_error("test a b c",
               "sluice: unexpected argument c; usage: sluice test ARG [--file FILE]\n");
}

Test(cli, errors_are_one_line_without_control_characters, .init = cr_redirect_stderr) {
  cli_error("bad \x1b[31m%s\x7f", "a\nb");
  fflush(stderr);
  cr_assert_stderr_eq_str("sluice: bad ?[31ma b?\n");
}

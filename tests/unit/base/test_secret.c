/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets from files, variables and commands; refused ones say why, and never what they hold. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/secret.h"

static char why[SECRET_WHY];

/* A file of the test's own with so much of `fill` (or the text) and the mode; unlinked by the
 * caller. */
static void make_file(char path[64], const char *text, mode_t mode) {
  strcpy(path, "/tmp/sluice-secret-XXXXXX");
  int fd = mkstemp(path);
  cr_assert_geq(fd, 0);
  cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
  cr_assert_eq(fchmod(fd, mode), 0);
  close(fd);
}

static bool read_one(json_t *secrets, struct secret *out) {
  why[0] = '\0';
  bool ok = secret_read(secrets, "s", out, why);
  json_decref(secrets);
  return ok;
}

static bool read_file(const char *text, mode_t mode, struct secret *out) {
  char path[64];
  make_file(path, text, mode);
  bool ok = read_one(json_pack("{s:{s:s}}", "s", "file", path), out);
  unlink(path);
  return ok;
}

static bool read_shell(const char *script, struct secret *out) {
  return read_one(json_pack("{s:{s:[s,s,s]}}", "s", "command", "/bin/sh", "-c", script), out);
}

static void expect(bool ok, struct secret *secret, const char *text) {
  cr_assert(ok, "%s", why);
  cr_expect_str_eq(secret->text, text);
  cr_expect_eq(secret->length, strlen(text));
  secret_wipe(secret);
  cr_expect(secret->text == NULL && secret->length == 0);
}

static void refuse(bool ok, const struct secret *secret, const char *reason) {
  cr_expect(!ok);
  cr_expect(secret->text == NULL);
  cr_expect(strstr(why, reason) != NULL, "%s", why);
  cr_expect(strstr(why, "hunter2") == NULL, "the secret is in the message: %s", why);
  cr_expect(strchr(why, '\n') == NULL);
}

Test(secret, file) {
  struct secret s;
  expect(read_file("hunter2\n", 0600, &s), &s, "hunter2");
  expect(read_file("hunter2\r\n\n", 0400, &s), &s, "hunter2");
  expect(read_file("https://hooks.example/T0/B0/hunter2", 0640, &s), &s,
         "https://hooks.example/T0/B0/hunter2");
  refuse(read_file("hunter2", 0644, &s), &s, "open to others (mode 0644)");
  refuse(read_file("hunter2", 0660, &s), &s, "mode 0660");
  refuse(read_file("", 0600, &s), &s, "empty");
  refuse(read_file("\n", 0600, &s), &s, "empty");
  refuse(read_file("hunter2\nmore", 0600, &s), &s, "one line");
  refuse(read_file("hunter2\x7f", 0600, &s), &s, "one line");
  refuse(read_one(json_pack("{s:{s:s}}", "s", "file", "/nowhere/at/all"), &s), &s, "No such file");
  refuse(read_one(json_pack("{s:{s:s}}", "s", "file", "/tmp"), &s), &s, "not a regular file");
}

Test(secret, length) {
  struct secret s;
  char text[SECRET_MAX + 2];
  memset(text, 'x', sizeof text);
  text[SECRET_MAX + 1] = '\0';
  refuse(read_file(text, 0600, &s), &s, "longer than");
  text[SECRET_MAX] = '\0';
  expect(read_file(text, 0600, &s), &s, text);
}

Test(secret, environment) {
  struct secret s;
  setenv("SLUICE_TEST_SECRET", "hunter2", 1);
  expect(read_one(json_pack("{s:{s:s}}", "s", "env", "SLUICE_TEST_SECRET"), &s), &s, "hunter2");
  unsetenv("SLUICE_TEST_SECRET");
  refuse(read_one(json_pack("{s:{s:s}}", "s", "env", "SLUICE_TEST_SECRET"), &s), &s, "not set");
}

Test(secret, command) {
  struct secret s;
  expect(read_shell("echo hunter2", &s), &s, "hunter2");
  expect(read_shell("printf hunter2; echo hunter2 >&2", &s), &s, "hunter2");
  refuse(read_shell("echo hunter2; exit 3", &s), &s, "exit status 3");
  refuse(read_shell("echo hunter2; kill -9 $$", &s), &s, "signal 9");
  refuse(read_shell("exit 0", &s), &s, "empty");
  refuse(read_shell("head -c 100000 /dev/zero | tr '\\0' x", &s), &s, "longer than");
  refuse(read_one(json_pack("{s:{s:[s]}}", "s", "command", "/nowhere/at/all"), &s), &s,
         "cannot run /nowhere/at/all");
  /* What it leaves behind does not hold the reader up. */
  expect(read_shell("sleep 1000 >/dev/null & echo hunter2", &s), &s, "hunter2");
}

Test(secret, a_command_gets_no_descriptor_of_ours) {
  struct secret s;
  cr_assert_eq(dup2(STDERR_FILENO, 9), 9); /* without FD_CLOEXEC */
  expect(read_shell("test -e /proc/$$/fd/9 && echo open || echo closed", &s), &s, "closed");
  close(9);
}

static void ignore(int number) {
  (void)number;
}

/* Signals of the program end each wait early. */
Test(secret, a_command_while_signals_come) {
  struct secret s;
  const struct sigaction action = {.sa_handler = ignore};
  const struct itimerval often = {.it_interval.tv_usec = 1000, .it_value.tv_usec = 1000};
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &often, NULL);
  expect(read_shell("sleep 0.1; echo hunter2; sleep 0.1", &s), &s, "hunter2");
  setitimer(ITIMER_REAL, &(const struct itimerval){0}, NULL);
}

Test(secret, settings) {
  struct secret s;
  static const char *const bad[] = {
      "[]",
      "{\"s\": \"hunter2\"}",
      "{\"s\": {}}",
      "{\"s\": {\"value\": \"hunter2\"}}",
      "{\"s\": {\"file\": \"relative\"}}",
      "{\"s\": {\"file\": \"/a\", \"env\": \"A\"}}",
      "{\"s\": {\"env\": \"\"}}",
      "{\"s\": {\"env\": 1}}",
      "{\"s\": {\"command\": []}}",
      "{\"s\": {\"command\": [\"sh\"]}}",
      "{\"s\": {\"command\": [\"/bin/sh\", 1]}}",
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    json_t *json = json_loads(bad[i], 0, NULL);
    cr_assert(json != NULL);
    cr_expect(!secret_check(json, why), "%s", bad[i]);
    cr_expect(strstr(why, "hunter2") == NULL, "%s", why);
    refuse(read_one(json, &s), &s, "secret s");
  }
  cr_expect(secret_check(NULL, why));
  json_t *good =
      json_loads("{\"a\":{\"env\":\"A\"},\"b\":{\"command\":[\"/bin/a\",\"\"]}}", 0, NULL);
  cr_expect(secret_check(good, why));
  refuse(read_one(good, &s), &s, "not in the machine's settings");
}

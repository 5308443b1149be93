/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/settings.h"

static struct settings settings;
static char why[SETTINGS_WHY];

static enum settings_result read_flags(const char *line) {
  static char words[1024];
  char *argv[64] = {"sluiced"};
  int argc = 1;
  snprintf(words, sizeof words, "--data /d --listen 127.0.0.1@5300 %s", line);
  for (char *save = NULL, *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save))
    argv[argc++] = w;
  return settings_read(&settings, argc, argv, why);
}

static enum settings_result read_file(const char *text, const char *flags) {
  char path[] = "/tmp/sluice-settings-XXXXXX";
  char line[512];
  int fd = mkstemp(path);
  cr_assert_geq(fd, 0);
  cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
  close(fd);
  snprintf(line, sizeof line, "-c %s %s", path, flags);
  enum settings_result result = read_flags(line);
  unlink(path);
  return result;
}

static void done(void) {
  settings_close(&settings);
}

TestSuite(settings_tls, .fini = done);

Test(settings_tls, flags) {
  cr_assert_eq(read_flags("--tls-listen 127.0.0.1 --tls-listen ::1@8853 --tls-cert /c --tls-key /k "
                          "--tcp-idle 30"),
               SETTINGS_OK, "%s", why);
  cr_assert_eq(settings.tls.listen_count, 2);
  cr_assert_str_eq(settings.tls.listen[0].text, "127.0.0.1@853");
  cr_assert_str_eq(settings.tls.listen[1].text, "::1@8853");
  cr_assert_str_eq(settings.tls.cert, "/c");
  cr_assert_str_eq(settings.tls.key, "/k");
  cr_assert_eq(settings.tcp_idle, 30);
}

Test(settings_tls, none) {
  cr_assert_eq(read_flags(""), SETTINGS_OK, "%s", why);
  cr_assert_eq(settings.tls.listen_count, 0);
}

Test(settings_tls, flags_replace_the_list_of_the_file) {
  const char *file = "tls-listen: [127.0.0.1, 127.0.0.2]\ntls-cert: /c\ntls-key: /k\n";
  cr_assert_eq(read_file(file, ""), SETTINGS_OK, "%s", why);
  cr_assert_eq(settings.tls.listen_count, 2);
  settings_close(&settings);
  cr_assert_eq(read_file(file, "--tls-listen ::1 --tls-cert /d"), SETTINGS_OK, "%s", why);
  cr_assert_eq(settings.tls.listen_count, 1);
  cr_assert_str_eq(settings.tls.cert, "/d");
}

static const struct {
  const char *flags;
  const char *said;
} wrong[] = {
    {"--tls-listen ::1", "tls-cert is missing"},
    {"--tls-listen ::1 --tls-cert /c", "tls-key is missing"},
    {"--tls-cert /c --tls-key /k", "--tls-cert: tls-listen is missing"},
    {"--tls-listen ::1@0 --tls-cert /c --tls-key /k", "tls-listen: `::1@0`"},
    {"--tls-listen ::1 --tls-listen 0:0::1@853 --tls-cert /c --tls-key /k", "twice"},
    {"--tls-listen 127.0.0.1@5300 --tls-cert /c --tls-key /k",
     "--tls-listen: 127.0.0.1@5300 is in both listen and tls-listen"},
    {"--tls-listen= --tls-cert /c --tls-key /k", "tls-listen"},
    {"--tls-listen ::1 --tls-cert= --tls-key /k", "tls-cert"},
    {"--tcp-idle 0", "tcp-idle"},
    {"--tcp-idle 3601", "tcp-idle"},
};

Test(settings_tls, wrong_usage) {
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    cr_expect_eq(read_flags(wrong[i].flags), SETTINGS_USAGE, "%s", wrong[i].flags);
    cr_expect_neq(strstr(why, wrong[i].said), NULL, "%s: %s", wrong[i].flags, why);
    cr_expect_null(strchr(why, '\n'));
    settings_close(&settings);
  }
}

Test(settings_tls, bad_files) {
  cr_expect_eq(read_file("tls-listen: ::1\n", ""), SETTINGS_BAD);
  cr_expect_neq(strstr(why, ":1:13: `tls-listen`: tls-cert is missing"), NULL, "%s", why);
  settings_close(&settings);
  cr_expect_eq(read_file("tls-listen: {a: b}\n", ""), SETTINGS_BAD);
  cr_expect_neq(strstr(why, ":1:13: `tls-listen`: must be an address or a list"), NULL, "%s", why);
  settings_close(&settings);
  cr_expect_eq(read_file("tls-cert: /c\ntls-key: /k\n"
                         "tls-listen: [127.0.0.2, 127.0.0.1@5300, 127.0.0.3]\n",
                         ""),
               SETTINGS_BAD);
  cr_expect_neq(strstr(why, ":3:25: `tls-listen`: 127.0.0.1@5300 is in both"), NULL, "%s", why);
}

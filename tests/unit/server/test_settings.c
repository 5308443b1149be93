/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/address.h"
#include "server/settings.h"

static struct settings settings;
static char why[SETTINGS_WHY];

/* Reads "sluiced WORDS..."; words are separated by single spaces. */
static enum settings_result read_flags(const char *line) {
  static char words[1024];
  char *argv[64] = {"sluiced"};
  int argc = 1;
  snprintf(words, sizeof words, "%s", line);
  for (char *save = NULL, *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save))
    argv[argc++] = w;
  why[0] = '\0';
  return settings_read(&settings, argc, argv, why);
}

/* The same with `-c FILE` in front, FILE holding `text`. */
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

TestSuite(settings, .fini = done);

Test(settings, times) {
  static const struct {
    const char *text;
    unsigned seconds;
  } times[] = {{"0", 0}, {"90", 90}, {"90s", 90}, {"10m", 600}, {"2h", 7200}, {"7d", 604800}};
  for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
    char line[128];
    snprintf(line, sizeof line, "--data /d --listen 127.0.0.1 --health-stale %s", times[i].text);
    cr_assert_eq(read_flags(line), SETTINGS_OK, "%s", why);
    cr_expect_eq(settings.health_stale, times[i].seconds, "%s", times[i].text);
    settings_close(&settings);
  }
  cr_assert_eq(read_file("data: /d\nlisten: 127.0.0.1\nhealth-stale: 5x\n", ""), SETTINGS_BAD);
  cr_expect(strstr(why, "health-stale") && strstr(why, "10m"), "%s", why);
}

Test(settings, flags) {
  cr_assert_eq(read_flags("--data /d --listen 127.0.0.1@5300 --listen ::1 --geo /g --asn /a "
                          "--control /c --health /h --threads 3 --log json --user dns --state /s "
                          "--group ops --nsid one"),
               SETTINGS_OK, "%s", why);
  cr_assert_str_eq(settings.data, "/d");
  cr_assert_eq(settings.listen_count, 2);
  cr_assert_str_eq(settings.listen[0].text, "127.0.0.1@5300");
  cr_assert_str_eq(settings.listen[1].text, "::1@53");
  cr_assert_str_eq(settings.geo, "/g");
  cr_assert_str_eq(settings.asn, "/a");
  cr_assert_str_eq(settings.control, "/c");
  cr_assert_str_eq(settings.health, "/h");
  cr_assert_str_eq(settings.state, "/s");
  cr_assert_str_eq(settings.user, "dns");
  cr_assert_str_eq(settings.group, "ops");
  cr_assert_str_eq(settings.nsid, "one");
  cr_assert_eq(settings.threads, 3);
  cr_assert_eq(settings.log, LOG_FORMAT_JSON);
}

/* Wrong usage, and a word that the message must have. */
static const struct {
  const char *flags;
  const char *said;
} wrong[] = {
    {"", "--data"},
    {"--data /d", "--listen"},
    {"--listen 127.0.0.1", "--data"},
    {"--data", "--data"},
    {"--data /d --listen 127.0.0.1 --colour", "--colour"},
    {"--data /d --listen 127.0.0.1 extra", "extra"},
    {"--data /d --listen 127.0.0.1@0", "127.0.0.1@0"},
    {"--data /d --listen 127.0.0.1@65536", "65536"},
    {"--data /d --listen 127.0.0.1@053", "053"},
    {"--data /d --listen 127.0.0.1@5x", "5x"},
    {"--data /d --listen 127.0.0.1@", "port"},
    {"--data /d --listen 127.1", "127.1"},
    {"--data /d --listen localhost", "localhost"},
    {"--data /d --listen fe80::1%no-such-if0@53", "interface"},
    {"--data /d --listen ::1@53 --listen 0:0::1@53", "twice"},
    {"--data /d --listen ::1 --threads 0", "threads"},
    {"--data /d --listen ::1 --threads 2000", "2000"},
    {"--data /d --listen ::1 --threads -1", "-1"},
    {"--data /d --listen ::1 --threads 99999999999999999999", "threads"},
    {"--data /d --listen ::1 --udp-max 511", "udp-max"},
    {"--data /d --listen ::1 --log xml", "xml"},
    {"--data= --listen ::1", "data"},
};

Test(settings, wrong_usage) {
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    cr_expect_eq(read_flags(wrong[i].flags), SETTINGS_USAGE, "%s", wrong[i].flags);
    cr_expect_neq(strstr(why, wrong[i].said), NULL, "%s: %s", wrong[i].flags, why);
    cr_expect_eq(strchr(why, '\n'), NULL);
    settings_close(&settings);
  }
}

Test(settings, help_and_version, .init = cr_redirect_stdout) {
  cr_assert_eq(read_flags("--help"), SETTINGS_DONE);
  settings_close(&settings);
  cr_assert_eq(read_flags("--version"), SETTINGS_DONE);
}

Test(settings, file) {
  cr_assert_eq(read_file("data: /d\nlisten: [127.0.0.1@5300, '::1@5301']\nthreads: 2\n"
                         "checks:\n  disk: [/bin/true]\n",
                         ""),
               SETTINGS_OK, "%s", why);
  cr_assert_eq(settings.listen_count, 2);
  cr_assert_str_eq(settings.listen[1].text, "::1@5301");
  cr_assert_eq(settings.threads, 2);
}

Test(settings, flags_win_over_the_file) {
  cr_assert_eq(read_file("data: /d\nlisten: [127.0.0.1@5300, 127.0.0.2@5300]\nthreads: 2\n",
                         "--threads 4 --listen ::1@7 --data /other"),
               SETTINGS_OK, "%s", why);
  cr_assert_eq(settings.listen_count, 1);
  cr_assert_str_eq(settings.listen[0].text, "::1@7");
  cr_assert_eq(settings.threads, 4);
  cr_assert_str_eq(settings.data, "/other");
}

#define LONG                                                                                       \
  "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123" \
  "456789012345678901234567890123456789"

static const struct {
  const char *text;
  const char *said;
} bad[] = {
    {"data: /d\nlissten: ::1\n", ":2:1: `lissten`: unknown key (did you mean `listen`?)"},
    {"data: /d\nlisten: 127.0.0.1@x\n", ":2:9: `listen`"},
    {"data: /d\nlisten: {a: b}\n", ":2:9: `listen`"},
    {"data: [/d]\nlisten: 127.0.0.1\n", ":1:7: `data`: must be a single value"},
    {"data: /d\nlisten: ::1\nthreads: 010\n", ":3:10: `threads`: `010`"},
    {"data: /d\ndata: /e\nlisten: 127.0.0.1\n", ":2:1"},
    {"- data\n", ":1:1: must be a map"},
    {"data: /d\n", ":1:1: `listen` is missing; add it, or give --listen ADDRESS@PORT"},
    {"listen: ::1\n", ":1:1: `data` is missing; add it, or give --data DIR"},
    {"listen: [\n", ":2:1: "},
    {"data: /d\nlisten: ::1\nnsid: " LONG "\n", ":3:7: `nsid`: at most 128 octets"},
    {"data: /d\nlisten: ::1\nhealth:  /" LONG "\n", ":3:10: `health`: the path of a socket"},
    {"data: /d\nlisten: ::1\ncookies: maybe\n", ":3:10: `cookies`: `maybe` is neither `on`"},
    {"data: /d\nlisten: ::1\ncookie-secrets: /x\ncookies: off\n",
     ":3:17: `cookie-secrets`: it has no use"},
    {"data: /d\nlisten: ::1\nchaos-id: " LONG LONG "\n", ":3:11: `chaos-id`: at most 255 octets"},
    {"data: /d\nlisten: ::1\nchaos-version: " LONG LONG "\n",
     ":3:16: `chaos-version`: at most 255"},
};

Test(settings, bad_files) {
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    cr_expect_eq(read_file(bad[i].text, ""), SETTINGS_BAD, "%s", bad[i].text);
    cr_expect_neq(strstr(why, bad[i].said), NULL, "%s: %s", bad[i].text, why);
    settings_close(&settings);
  }
  cr_expect_eq(read_flags("-c /nonexistent/sluice.yaml"), SETTINGS_BAD);
  cr_expect_neq(strstr(why, "/nonexistent/sluice.yaml:1:1: cannot read"), NULL, "%s", why);
}

/* A flag that wins over the file is what is wrong, not the file. */
Test(settings, flags_have_no_place_in_the_file) {
  cr_assert_eq(read_file("data: /d\nlisten: ::1\ncookies: on\n", "--cookies maybe"), SETTINGS_BAD);
  cr_expect_eq(strncmp(why, "--cookies: `maybe` is neither", 29), 0, "%s", why);
}

Test(settings, wildcards) {
  struct address address;
  const char *reason;
  cr_assert(address_parse("0.0.0.0@53", &address, &reason));
  cr_assert(address_is_wildcard(&address));
  cr_assert(address_parse("::@53", &address, &reason));
  cr_assert(address_is_wildcard(&address));
  cr_assert(address_parse("::1", &address, &reason));
  cr_assert_not(address_is_wildcard(&address));
}

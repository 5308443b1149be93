/* SPDX-License-Identifier: Apache-2.0 */
/* Who may have put a program there that is run as a check. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "healthcheck/probes/exec_program.h"

static char base[] = "/tmp/sluice-exec-XXXXXX";
static char why[EXEC_PROGRAM_WHY];

static char *in_base(const char *name) {
  static char path[4][256];
  static unsigned turn;
  char *out = path[turn++ % 4];
  snprintf(out, sizeof path[0], "%s/%s", base, name);
  return out;
}

static void set_up(void) {
  cr_assert_not_null(mkdtemp(base));
  cr_assert_eq(mkdir(in_base("d"), 0755), 0);
  FILE *file = fopen(in_base("d/p"), "w");
  cr_assert_not_null(file);
  fclose(file);
  cr_assert_eq(chmod(in_base("d/p"), 0755), 0);
}

static void tear_down(void) {
  unlink(in_base("link"));
  unlink(in_base("d/p"));
  rmdir(in_base("d"));
  rmdir(base);
}

static bool good(const char *path, uid_t own) {
  return exec_program_check(path, own, why);
}

/* Whoever runs the tests: files of a user who is neither root nor the checker's. */
static uid_t give_away(const char *path) {
  if (geteuid() != 0)
    return geteuid() + 1;
  cr_assert_eq(lchown(path, 1, 1), 0);
  return 2;
}

TestSuite(exec_program, .init = set_up, .fini = tear_down);

Test(exec_program, own_files_are_good) {
  cr_assert(good(in_base("d/p"), geteuid()), "%s", why);
  cr_assert(good("/usr/bin/env", 12345), "root's are anybody's: %s", why);
}

Test(exec_program, files_of_others) {
  uid_t own = give_away(in_base("d/p"));
  cr_assert_not(good(in_base("d/p"), own));
  cr_assert_not_null(strstr(why, "belongs neither to root nor to the checker's user"));
}

Test(exec_program, folders_of_others) {
  uid_t own = give_away(in_base("d"));
  cr_assert_not(good(in_base("d/p"), own));
  cr_assert_not_null(strstr(why, "/d belongs neither"), "%s", why);
}

Test(exec_program, links_of_others) {
  cr_assert_eq(symlink("/usr/bin/env", in_base("link")), 0);
  cr_assert(good(in_base("link"), geteuid()), "%s", why);
  uid_t own = give_away(in_base("link"));
  cr_assert_not(good(in_base("link"), own));
}

Test(exec_program, folders_further_up) {
  cr_assert_eq(chmod(base, 0777), 0);
  cr_assert_not(good(in_base("d/p"), geteuid()));
  cr_assert_eq(chmod(base, 01777), 0);
  cr_assert(good(in_base("d/p"), geteuid()), "as /tmp is: %s", why);
}

Test(exec_program, loops_and_long_paths) {
  char path[5000];
  cr_assert_eq(symlink("link", in_base("link")), 0);
  cr_assert_not(good(in_base("link"), geteuid()));
  cr_assert_not_null(strstr(why, "too many links"));
  memset(path, 'a', sizeof path);
  path[0] = '/';
  path[sizeof path - 1] = '\0';
  cr_assert_not(good(path, geteuid()));
  path[300] = '\0';
  cr_assert_not(good(path, geteuid()));
  memset(path, '/', sizeof path);
  path[4000] = '\0';
  cr_assert_not(good(path, geteuid()));
  for (size_t i = 0; i + 2 < 4000; i += 3)
    memcpy(path + i, "/..", 3);
  memcpy(path + 3000, "/usr/bin/env", 13);
  cr_assert(good(path, geteuid()), "%s", why);
}

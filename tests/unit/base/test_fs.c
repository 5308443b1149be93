/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"

static char folder[] = "/tmp/sluice-fs-XXXXXX";
static char path_buf[4][256];
static char why[FS_WHY];

static void setup(void) {
  cr_assert(mkdtemp(folder));
}

static void teardown(void) {
  cr_assert(fs_remove_tree(folder, why), "%s", why);
}

/* Path of a name in the test's folder; `n` is the buffer to use. */
static const char *at(int n, const char *name) {
  snprintf(path_buf[n], sizeof path_buf[n], "%s/%s", folder, name);
  return path_buf[n];
}

static void put(const char *path, const char *text) {
  cr_assert(fs_write_atomic(path, text, strlen(text), 0644, why), "%s", why);
}

static void expect_text(const char *path, const char *text) {
  uint8_t *data;
  size_t len;
  cr_assert(fs_read(path, 1000, &data, &len, why), "%s", why);
  cr_assert_eq(len, strlen(text));
  cr_assert_str_eq((char *)data, text);
  free(data);
}

TestSuite(fs, .init = setup, .fini = teardown);

Test(fs, join) {
  char *joined = fs_join("a/b", "c");
  cr_assert_str_eq(joined, "a/b/c");
  free(joined);
}

Test(fs, write_then_read) {
  put(at(0, "file"), "one");
  expect_text(at(0, "file"), "one");
  put(at(0, "file"), "");
  expect_text(at(0, "file"), "");
}

Test(fs, write_sets_the_mode_whatever_the_umask) {
  mode_t before = umask(077);
  put(at(0, "file"), "x");
  umask(before);
  struct stat st;
  cr_assert_eq(stat(at(0, "file"), &st), 0);
  cr_assert_eq(st.st_mode & 0777, 0644);
}

Test(fs, write_leaves_no_temporary_file) {
  put(at(0, "file"), "x");
  cr_assert_eq(unlink(at(0, "file")), 0);
  cr_assert_eq(rmdir(folder), 0);
  cr_assert_eq(mkdir(folder, 0700), 0);
}

Test(fs, failed_write_keeps_the_old_file) {
  put(at(0, "dir"), "x");
  cr_assert(fs_make_dirs(at(1, "full"), why));
  put(at(1, "full/file"), "x");
  cr_assert_not(fs_write_atomic(at(1, "full"), "y", 1, 0644, why));
  cr_assert(strstr(why, "cannot write"));
  expect_text(at(2, "full/file"), "x");
  cr_assert_not(fs_write_atomic(at(1, "none/file"), "y", 1, 0644, why));
  cr_assert(strstr(why, "No such file"));
}

Test(fs, read_refuses_what_is_no_regular_file) {
  uint8_t *data;
  size_t len;
  cr_assert_not(fs_read(folder, 1000, &data, &len, why));
  cr_assert(strstr(why, "not a regular file"));
  cr_assert_eq(mkfifo(at(0, "fifo"), 0600), 0);
  cr_assert_not(fs_read(at(0, "fifo"), 1000, &data, &len, why)); /* and does not wait */
  cr_assert(strstr(why, "not a regular file"));
  cr_assert_not(fs_read(at(0, "none"), 1000, &data, &len, why));
  cr_assert(strstr(why, "No such file"));
}

Test(fs, read_obeys_the_limit) {
  uint8_t *data;
  size_t len;
  put(at(0, "file"), "12345");
  cr_assert(fs_read(at(0, "file"), 5, &data, &len, why));
  free(data);
  cr_assert_not(fs_read(at(0, "file"), 4, &data, &len, why));
  cr_assert(strstr(why, "larger than 4 bytes"));
}

Test(fs, read_follows_files_without_a_size) {
  uint8_t *data;
  size_t len;
  cr_assert(fs_read("/proc/self/status", 1 << 20, &data, &len, why), "%s", why);
  cr_assert_gt(len, 0);
  free(data);
  cr_assert_not(fs_read("/proc/self/status", 10, &data, &len, why));
}

Test(fs, make_dirs) {
  cr_assert(fs_make_dirs(at(0, "a/b//c/"), why), "%s", why);
  cr_assert(fs_make_dirs(at(0, "a/b/c"), why), "%s", why);
  put(at(0, "a/b/c/file"), "x");
  cr_assert_not(fs_make_dirs(at(0, "a/b/c/file"), why));
  cr_assert_not(fs_make_dirs(at(0, "a/b/c/file/d"), why));
  cr_assert(fs_make_dirs("/", why), "%s", why);
}

Test(fs, remove_tree_does_not_follow_links) {
  cr_assert(fs_make_dirs(at(0, "keep"), why));
  put(at(0, "keep/file"), "x");
  cr_assert(fs_make_dirs(at(1, "tree/a/b"), why));
  put(at(2, "tree/a/file"), "x");
  cr_assert_eq(symlink(at(0, "keep"), at(1, "tree/a/link")), 0);
  cr_assert_eq(symlink(at(0, "keep"), at(1, "link")), 0);
  cr_assert(fs_remove_tree(at(1, "link"), why), "%s", why);
  cr_assert(fs_remove_tree(at(1, "tree"), why), "%s", why);
  cr_assert(fs_remove_tree(at(1, "tree"), why), "%s", why); /* not there is fine */
  struct stat st;
  cr_assert_neq(lstat(at(1, "tree"), &st), 0);
  expect_text(at(0, "keep/file"), "x");
}

Test(fs, switch_link) {
  char target[64] = {0};
  cr_assert(fs_switch_link(at(0, "link"), "one", why), "%s", why);
  cr_assert(fs_switch_link(at(0, "link"), "two", why), "%s", why);
  cr_assert_eq(readlink(at(0, "link"), target, sizeof target - 1), 3);
  cr_assert_str_eq(target, "two");
  cr_assert(fs_make_dirs(at(1, "dir/x"), why));
  cr_assert_not(fs_switch_link(at(1, "dir"), "two", why));
}

Test(fs, switch_link_passes_by_leftovers) {
  char name[128];
  snprintf(name, sizeof name, ".link.tmp-%ld-0", (long)getpid());
  cr_assert_eq(symlink("old", at(0, name)), 0);
  cr_assert(fs_switch_link(at(1, "link"), "new", why), "%s", why);
  char target[64] = {0};
  cr_assert_eq(readlink(at(1, "link"), target, sizeof target - 1), 3);
  cr_assert_str_eq(target, "new");
}

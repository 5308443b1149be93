/* SPDX-License-Identifier: Apache-2.0 */
/* Which versions of a zone are found in a data folder, and what that makes of a request. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "records_fixture.h"
#include "server/transfer_open.h"

#define HEAD(serial)                                                                               \
  "$TTL 300\n@ SOA ns.example.com. h.example.com. " serial " 7200 900 86400 60\n@ NS ns\n"         \
  "ns A 192.0.2.1\nns TXT \"some text that is longer than what changes\"\n"

static char *data; /* the folder of the test that runs */

static void write_build(const char *id, const char *text) {
  struct records_fixture *f = records_fixture_new("example.com", text);
  char path[256], why[FS_WHY] = "";
  snprintf(path, sizeof path, "%s/builds/%s/zones", data, id);
  cr_assert(fs_make_dirs(path, why), "%s", why);
  strcat(path, "/example.com.records");
  cr_assert(fs_write_atomic(path, f->bytes.data, f->bytes.len, 0644, why), "%s", why);
  records_fixture_free(f);
}

static void setup(void) {
  static char folder[] = "/tmp/test-transfer-open-XXXXXX";
  data = mkdtemp(folder);
  cr_assert(data != NULL);
  write_build("aaaaaaaaaaaaaaaa", HEAD("5") "a A 192.0.2.5\n");
  write_build("bbbbbbbbbbbbbbbb", HEAD("6") "a A 192.0.2.6\n");
  write_build("cccccccccccccccc", HEAD("6") "a A 192.0.2.6\n"); /* unchanged */
  write_build("dddddddddddddddd", HEAD("8") "a A 192.0.2.8\n");
}

static void teardown(void) {
  char why[FS_WHY];
  fs_remove_tree(data, why);
}

TestSuite(transfer_open, .init = setup, .fini = teardown);

static bool open_from(struct transfer_data *d, uint32_t serial, bool incremental, uint32_t have,
                      char *why) {
  char path[256];
  snprintf(path, sizeof path, "%s/builds/dddddddddddddddd/zones/example.com.records", data);
  struct transfer_wish wish = {
      .path = path, .serial = serial, .incremental = incremental, .have = have};
  return transfer_data_open(d, &wish, why);
}

static enum transfer_kind kind_for(uint32_t have) {
  struct transfer_data d;
  char why[TRANSFER_WHY] = "";
  cr_assert(open_from(&d, 8, true, have, why), "%s", why);
  enum transfer_kind kind = d.kind;
  cr_expect_eq(d.now.header->serial, 8);
  if (kind == TRANSFER_DIFF) {
    cr_expect_eq(d.old.header->serial, have);
    cr_expect_eq(d.diff.deleted.count, 1);
    cr_expect_eq(d.diff.added.count, 1);
  }
  transfer_data_close(&d);
  return kind;
}

Test(transfer_open, kinds) {
  struct transfer_data d;
  char why[TRANSFER_WHY] = "";
  cr_assert(open_from(&d, 8, false, 0, why), "%s", why);
  cr_expect_eq(d.kind, TRANSFER_ALL);
  transfer_data_close(&d);
  cr_expect_eq(kind_for(5), TRANSFER_DIFF);
  cr_expect_eq(kind_for(6), TRANSFER_DIFF);
  cr_expect_eq(kind_for(8), TRANSFER_SOA);
  cr_expect_eq(kind_for(9), TRANSFER_SOA); /* newer than ours */
  cr_expect_eq(kind_for(7), TRANSFER_ALL); /* unknown */
  cr_expect_eq(kind_for(0), TRANSFER_ALL);
  cr_expect_eq(kind_for(4000000000u), TRANSFER_ALL); /* older: RFC 1982 wraps */
}

/* One serial on two contents: no difference from it can be trusted. */
Test(transfer_open, ambiguous_serial) {
  write_build("eeeeeeeeeeeeeeee", HEAD("6") "a A 192.0.2.99\n");
  cr_expect_eq(kind_for(6), TRANSFER_ALL);
  cr_expect_eq(kind_for(5), TRANSFER_DIFF);
}

/* An old file that is damaged behind its header. */
Test(transfer_open, damaged_history) {
  char path[256];
  snprintf(path, sizeof path, "%s/builds/aaaaaaaaaaaaaaaa/zones/example.com.records", data);
  FILE *file = fopen(path, "r+");
  cr_assert(file != NULL);
  fseek(file, -1, SEEK_END);
  fputc(0xff, file);
  fclose(file);
  cr_expect_eq(kind_for(5), TRANSFER_ALL);
  cr_expect_eq(truncate(path, 20), 0);
  cr_expect_eq(kind_for(5), TRANSFER_ALL);
  cr_expect_eq(kind_for(6), TRANSFER_DIFF);
}

/* A difference that is larger than the zone is not worth it. */
Test(transfer_open, large_difference) {
  write_build(
      "eeeeeeeeeeeeeeee",
      HEAD("4") "b TXT \"0123456789012345678901234567890123456789012345678901234567890\"\n"
                "c TXT \"0123456789012345678901234567890123456789012345678901234567890\"\n"
                "d TXT \"0123456789012345678901234567890123456789012345678901234567890\"\n"
                "e TXT \"0123456789012345678901234567890123456789012345678901234567890\"\n"
                "f TXT \"0123456789012345678901234567890123456789012345678901234567890\"\n"
                "g TXT \"0123456789012345678901234567890123456789012345678901234567890\"\n"
                "h TXT \"0123456789012345678901234567890123456789012345678901234567890\"\n"
                "i TXT \"0123456789012345678901234567890123456789012345678901234567890\"\n");
  cr_expect_eq(kind_for(4), TRANSFER_ALL);
}

Test(transfer_open, served_file_is_wrong) {
  struct transfer_data d;
  char why[TRANSFER_WHY] = "";
  cr_expect(!open_from(&d, 7, false, 0, why));
  cr_expect(strstr(why, "serial 8, not 7") != NULL, "%s", why);
  struct transfer_wish wish = {.path = "/nonexistent/builds/x/zones/y", .serial = 1};
  cr_expect(!transfer_data_open(&d, &wish, why));
  cr_expect(strstr(why, "No such file") != NULL, "%s", why);
}

static void path_of(const char *id, char path[256]) {
  snprintf(path, 256, "%s/builds/%s/zones/example.com.records", data, id);
}

/* Every transfer reads all of a file; what is done to it meanwhile hurts nobody. */
Test(transfer_open, survives_truncation) {
  struct transfer_data d, again;
  struct records_rr rr;
  char why[TRANSFER_WHY] = "", path[256];
  cr_assert(open_from(&d, 8, true, 6, why), "%s", why);
  cr_expect_eq(d.kind, TRANSFER_DIFF);
  path_of("dddddddddddddddd", path);
  cr_assert_eq(truncate(path, 0), 0);
  path_of("bbbbbbbbbbbbbbbb", path);
  cr_assert_eq(truncate(path, 0), 0);
  uint64_t count = 0;
  for (size_t at = records_first(); at < d.now.size; count++)
    at = records_read(&d.now, at, &rr);
  cr_expect_eq(count, d.now.header->record_count);
  for (size_t i = 0; i < d.diff.deleted.count; i++)
    records_read(&d.old, d.diff.deleted.offsets[i], &rr);
  cr_expect(!open_from(&again, 8, false, 0, why));
  transfer_data_close(&d);
}

Test(transfer_open, reads_a_file_once) {
  struct transfer_data a, b, c;
  char why[TRANSFER_WHY] = "";
  cr_assert(open_from(&a, 8, false, 0, why), "%s", why);
  cr_assert(open_from(&b, 8, false, 0, why), "%s", why);
  cr_expect_eq(a.now.base, b.now.base);
  transfer_data_close(&a);
  cr_assert(open_from(&c, 8, false, 0, why), "%s", why);
  cr_expect_eq(c.now.base, b.now.base);
  transfer_data_close(&b);
  cr_expect_eq(c.now.header->serial, 8); /* the last user frees it */
  transfer_data_close(&c);
  write_build("dddddddddddddddd", HEAD("9") "a A 192.0.2.9\n");
  cr_assert(open_from(&a, 9, false, 0, why), "%s", why); /* another file of the same name */
  transfer_data_close(&a);
}

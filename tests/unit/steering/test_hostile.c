/* SPDX-License-Identifier: Apache-2.0 */
/* Location files that are damaged, made with bad intent, or change after they were read. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rng.h"
#include "helper.h"

struct bytes {
  uint8_t data[16384];
  size_t len;
};

static void read_whole(const char *path, struct bytes *b) {
  FILE *f = fopen(path, "rb");
  cr_assert(f, "%s", path);
  b->len = fread(b->data, 1, sizeof b->data, f);
  fclose(f);
  cr_assert(b->len > 0 && b->len < sizeof b->data);
}

static bool load(const struct bytes *b, bool as_asn, char *why) {
  struct geo_db *db;
  bool ok = as_asn ? geo_db_load_memory(NULL, 0, b->data, b->len, &db, why)
                   : geo_db_load_memory(b->data, b->len, NULL, 0, &db, why);
  if (!ok) {
    cr_assert_null(db);
    cr_assert(why[0] && !strchr(why, '\n'));
    return false;
  }
  struct steer_domain *d = helper_domain_text(
      "{'endpoints': {'a': ['192.0.2.1']}, 'regions': {'global': {'a': 1}, 'ca': {'a': 1}}}");
  struct geo_table *t = geo_table_build(db, d);
  struct geo_address address;
  helper_address(&address, "198.51.100.1");
  cr_assert_lt(geo_table_lookup(t, &address).region, 2);
  geo_table_free(t);
  steer_domain_free(d);
  geo_db_free(db);
  return true;
}

Test(hostile, cut_off_anywhere) {
  struct bytes whole, cut;
  char why[512];
  read_whole(helper_path("geo/test-city.mmdb"), &whole);
  cr_assert(load(&whole, false, why));
  cut = whole;
  for (cut.len = 0; cut.len < whole.len; cut.len++)
    cr_expect_not(load(&cut, false, why) && cut.len < whole.len - 60, "%zu bytes", cut.len);
}

Test(hostile, each_byte_damaged) {
  static const char *const paths[] = {"geo/test-city.mmdb", "geo/test-flat.mmdb"};
  char why[512];
  for (size_t f = 0; f < 2; f++) {
    struct bytes whole, bad;
    read_whole(helper_path(paths[f]), &whole);
    for (size_t i = 0; i < whole.len; i++) {
      bad = whole;
      bad.data[i] ^= 0xff;
      (void)load(&bad, false, why);
    }
  }
}

Test(hostile, random_damage) {
  struct bytes whole, bad;
  struct rng rng;
  char why[512];
  rng_seed(&rng, 9);
  read_whole(helper_path("geo/test-city.mmdb"), &whole);
  for (int i = 0; i < 2000; i++) {
    bad = whole;
    for (int k = 0; k < 4; k++)
      bad.data[rng_below(&rng, (uint32_t)bad.len)] = (uint8_t)rng_next(&rng);
    (void)load(&bad, i % 8 == 0, why);
  }
}

static void made(const char *name, struct bytes *b) {
  char path[1024];
  cr_assert(getenv("SLUICE_TESTS_MADE"));
  snprintf(path, sizeof path, "%s/%s", getenv("SLUICE_TESTS_MADE"), name);
  read_whole(path, b);
}

Test(hostile, tree_with_a_loop) {
  struct bytes b;
  char why[512];
  made("city6-24.mmdb", &b);
  memcpy(b.data + 9, "\0\0\1", 3); /* node 1, right: back to node 1 */
  cr_expect_not(load(&b, false, why));
  cr_expect(strstr(why, "loop"), "%s", why);
  made("city4-32.mmdb", &b);
  memcpy(b.data + 8, "\0\0\0\1\0\0\0\1", 8); /* both sides: 2^31 ways */
  cr_expect_not(load(&b, false, why));
  cr_expect(strstr(why, "loop"), "%s", why);
}

/* Arrays of two pointers to the array before: 2^40 items for a reader that follows all of them. */
Test(hostile, metadata_that_unfolds_without_end) {
  static const char marker[] = "\xab\xcd\xefMaxMind.com";
  struct bytes b = {.len = 64};
  char why[512];
  memcpy(b.data + b.len, marker, sizeof marker - 1);
  b.len += sizeof marker - 1;
  uint8_t *start = b.data + b.len, *p = start;
  *p++ = 0xe1; /* a map of one pair */
  *p++ = 0x49; /* a string of nine */
  memcpy(p, "languages", 9);
  p += 9;
  uint8_t *pointer = p; /* to the last of the arrays below */
  p += 2;
  size_t before = 0;
  for (int i = 0; i < 40; i++) {
    size_t at = (size_t)(p - start);
    *p++ = 0x02;
    *p++ = 0x04; /* an array of two: strings, or pointers to the array before */
    for (int k = 0; k < 2; k++) {
      *p++ = i == 0 ? 0x41 : (uint8_t)(0x20 | before >> 8);
      *p++ = i == 0 ? 'x' : (uint8_t)before;
    }
    before = at;
  }
  pointer[0] = (uint8_t)(0x20 | before >> 8);
  pointer[1] = (uint8_t)before;
  b.len += (size_t)(p - start);
  cr_expect_not(load(&b, false, why));
  cr_expect(strstr(why, "metadata"), "%s", why);
}

Test(hostile, wrong_kind_of_database) {
  struct bytes b;
  char why[512];
  made("asn6.mmdb", &b);
  cr_expect_not(load(&b, false, why));
  cr_expect(strstr(why, "GeoIP2") && strstr(why, "flat"), "%s", why);
  cr_expect(load(&b, true, why), "%s", why);
  made("city6-24.mmdb", &b);
  cr_expect_not(load(&b, true, why));
  cr_expect(strstr(why, "AS numbers"), "%s", why);
  b = (struct bytes){.data = "<html>not found</html>", .len = 22};
  cr_expect_not(load(&b, false, why));
  cr_expect(strstr(why, "not a MaxMind DB"), "%s", why);
}

static void expect_refused(const char *path, const char *reason) {
  struct geo_db *db;
  char why[512] = "";
  cr_expect_not(geo_db_load(path, NULL, &db, why));
  cr_expect_null(db);
  cr_expect(strstr(why, reason) && strstr(why, path), "%s", why);
}

Test(hostile, paths_that_are_no_files) {
  char fifo[64];
  expect_refused("/no/such/file.mmdb", "No such file");
  expect_refused("/tmp", "not a regular file");
  expect_refused("/dev/zero", "not a regular file");
  snprintf(fifo, sizeof fifo, "/tmp/sluice-test-fifo-%d", (int)getpid());
  cr_assert_eq(mkfifo(fifo, 0600), 0);
  expect_refused(fifo, "not a regular file");
  unlink(fifo);
}

Test(hostile, file_damaged_after_it_was_read) {
  struct bytes b;
  char path[] = "/tmp/sluice-test-geo-XXXXXX", why[512] = "";
  struct geo_db *db;
  read_whole(helper_path("geo/test-city.mmdb"), &b);
  int fd = mkstemp(path);
  cr_assert(fd >= 0 && write(fd, b.data, b.len) == (ssize_t)b.len);
  bool ok = geo_db_load(path, NULL, &db, why);
  cr_assert(ok, "%s", why);
  cr_assert_eq(ftruncate(fd, 0), 0);
  struct geo_address address;
  struct geo_location at;
  helper_address(&address, "198.51.100.1");
  geo_db_locate(db, &address, &at);
  cr_expect_str_eq(at.subdivisions[0], "ca-qc");
  expect_refused(path, "not a MaxMind DB");
  geo_db_free(db);
  close(fd);
  unlink(path);
}

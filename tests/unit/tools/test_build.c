/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/name.h"
#include "zones/build.h"
#include "zones/builddir.h"
#include "zones/compile.h"
#include "zones/image.h"

enum { TYPE_A = 1, TYPE_NS = 2, TYPE_SOA = 6, MAX_ZONES = 4, MAX_RRS = 3 };

/* A model made by hand: zones with a SOA, a NS and, optionally, an address at "www". */
struct fixture {
  struct model model;
  struct model_zone zones[MAX_ZONES];
  struct model_rr rrs[MAX_ZONES][MAX_RRS];
  uint8_t names[MAX_ZONES][2][NAME_BUF];
  uint8_t rdata[MAX_ZONES][MAX_RRS][600];
};

static char folder[] = "/tmp/sluice-build-XXXXXX";
static char data[256];
static char why[512];
static struct fixture fixture;
static struct build_result result;

static void setup(void) {
  cr_assert(mkdtemp(folder));
  snprintf(data, sizeof data, "%s/data", folder);
  fixture.model.zones = fixture.zones;
}

static void teardown(void) {
  cr_assert(fs_remove_tree(folder, why), "%s", why);
}

TestSuite(build, .init = setup, .fini = teardown);

static uint16_t put_name(uint8_t *out, const char *text) {
  uint8_t wire[NAME_BUF];
  const char *error;
  size_t n = name_from_text(wire, text, strlen(text), NULL, &error);
  cr_assert(n, "%s", error);
  memcpy(out, wire, n);
  return (uint16_t)n;
}

static void put_rr(struct model_zone *zone, size_t z, uint8_t *owner, uint16_t type, uint16_t len) {
  size_t i = zone->rr_count++;
  fixture.rrs[z][i] = (struct model_rr){
      .owner = owner, .rdata = fixture.rdata[z][i], .rdata_len = len, .type = type, .ttl = 300};
}

/* Adds a zone; the last octet of its address (0: none) is also its input. */
static struct model_zone *add_zone(const char *apex, uint8_t address, uint32_t serial) {
  size_t z = fixture.model.zone_count++;
  struct model_zone *zone = &fixture.zones[z];
  uint8_t *owner = fixture.names[z][0];
  uint8_t *www = fixture.names[z][1];
  put_name(owner, apex);
  char text[300];
  snprintf(text, sizeof text, "www.%s", apex);
  put_name(www, text);
  *zone = (struct model_zone){.apex = owner,
                              .path = (char *)"test",
                              .serial_mode = serial ? SERIAL_CARRIED : SERIAL_MANAGED,
                              .rrs = fixture.rrs[z],
                              .input_hash = {address, (uint8_t)(serial & 0xff)}};
  put_rr(zone, z, owner, TYPE_NS, put_name(fixture.rdata[z][0], "ns.example.net."));
  uint8_t *soa = fixture.rdata[z][1];
  size_t n = put_name(soa, "ns.example.net.");
  n += put_name(soa + n, "hostmaster.example.net.");
  const uint8_t fixed[20] = {(uint8_t)(serial >> 24),
                             (uint8_t)(serial >> 16),
                             (uint8_t)(serial >> 8),
                             (uint8_t)serial,
                             [7] = 60,
                             [11] = 60,
                             [15] = 60,
                             [19] = 60};
  memcpy(soa + n, fixed, sizeof fixed);
  put_rr(zone, z, owner, TYPE_SOA, (uint16_t)(n + sizeof fixed));
  if (address) {
    memcpy(fixture.rdata[z][2], (uint8_t[]){192, 0, 2, address}, 4);
    put_rr(zone, z, www, TYPE_A, 4);
  }
  return zone;
}

static void clear_zones(void) {
  fixture.model.zone_count = 0;
}

static bool try_build(void) {
  struct build_options options = {.data_dir = data};
  bool ok = build_run(&fixture.model, &options, &result, why);
  json_decref(result.serials);
  json_decref(result.retired);
  return ok;
}

static void build(void) {
  cr_assert(try_build(), "%s", why);
}

static char *path_of(const char *name) {
  static char paths[4][600];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", data, name);
  return path;
}

static json_t *manifest(void) {
  json_t *document = json_load_file(path_of("current/manifest.json"), 0, NULL);
  cr_assert(document);
  return document;
}

static long long serial_of(size_t zone) {
  json_t *document = manifest();
  const json_t *entry = json_array_get(json_object_get(document, "zones"), zone);
  long long serial = json_integer_value(json_object_get(entry, "serial"));
  json_decref(document);
  return serial;
}

static ino_t inode_of(const char *name) {
  struct stat st;
  cr_assert_eq(stat(path_of(name), &st), 0, "%s", name);
  return st.st_ino;
}

static void current_id(char out[64]) {
  ssize_t n = readlink(path_of("current"), out, 63);
  cr_assert_gt(n, 0);
  out[n] = 0;
}

static size_t count_entries(const char *name) {
  DIR *dir = opendir(path_of(name));
  cr_assert(dir);
  size_t n = 0;
  while (readdir(dir))
    n++;
  closedir(dir);
  return n - 2;
}

static void overwrite(const char *name, const char *text) {
  FILE *file = fopen(path_of(name), "w");
  cr_assert(file);
  fputs(text, file);
  fclose(file);
}

Test(build, first_build) {
  add_zone("example.com.", 1, 0);
  add_zone("example.org.", 2, 0);
  build();
  cr_assert_eq(result.zones, 2);
  cr_assert_eq(result.rebuilt, 2);
  cr_assert_not(result.unchanged);
  cr_assert_eq(serial_of(0), 1);
  struct image image;
  cr_assert(image_open(&image, path_of("current/zones/example.com.image"), why), "%s", why);
  cr_assert_eq(image.header->serial, 1);
  image_close(&image);
  inode_of("current/zones/example.org.zone");
  inode_of("current/checks.json");
  inode_of("current/domains.json");
  cr_assert_eq(count_entries("builds"), 1);
}

Test(build, same_input_changes_nothing) {
  add_zone("example.com.", 1, 0);
  build();
  char first[64];
  char second[64];
  current_id(first);
  ino_t inode = inode_of("current/manifest.json");
  build();
  current_id(second);
  cr_assert(result.unchanged);
  cr_assert_eq(result.rebuilt, 0);
  cr_assert_str_eq(first, second);
  cr_assert_eq(inode, inode_of("current/manifest.json"));
}

Test(build, same_input_same_bytes_elsewhere) {
  add_zone("example.com.", 1, 0);
  build();
  char first[64];
  char second[64];
  current_id(first);
  snprintf(data, sizeof data, "%s/other", folder);
  build();
  current_id(second);
  cr_assert_str_eq(first,
                   second); /* it is the hash of the manifest, which holds all other hashes */
}

Test(build, only_changed_zones_are_made_anew) {
  add_zone("example.com.", 1, 0);
  add_zone("example.org.", 2, 0);
  build();
  ino_t com = inode_of("current/zones/example.com.image");
  ino_t org = inode_of("current/zones/example.org.image");
  clear_zones();
  add_zone("example.com.", 1, 0);
  add_zone("example.org.", 3, 0);
  build();
  cr_assert_eq(result.rebuilt, 1);
  cr_assert_eq(inode_of("current/zones/example.com.image"), com);
  cr_assert_neq(inode_of("current/zones/example.org.image"), org);
  cr_assert_eq(serial_of(0), 1);
  cr_assert_eq(serial_of(1), 2);
}

Test(build, carried_serials_are_kept) {
  add_zone("example.com.", 1, 2026010100);
  build();
  cr_assert_eq(serial_of(0), 2026010100);
  clear_zones();
  add_zone("example.com.", 2, 5);
  build();
  cr_assert_eq(serial_of(0), 5);
}

Test(build, a_managed_serial_goes_on_from_a_carried_one) {
  add_zone("example.com.", 1, 4294967295);
  build();
  clear_zones();
  add_zone("example.com.", 2, 0);
  build();
  cr_assert_eq(serial_of(0), 1); /* greater than 2^32-1 by RFC 1982; 0 is left out */
}

Test(build, a_zone_that_comes_back_goes_on) {
  add_zone("example.com.", 1, 0);
  add_zone("example.org.", 1, 0);
  build();
  clear_zones();
  add_zone("example.com.", 1, 0);
  build();
  cr_assert_eq(count_entries("current/zones"), 3); /* image, master file, records */
  build();
  cr_assert(result.unchanged);
  add_zone("example.org.", 2, 0);
  build();
  cr_assert_eq(serial_of(1), 2);
}

Test(build, old_builds_are_removed) {
  for (uint8_t i = 1; i <= BUILDDIR_KEEP + 2; i++) {
    clear_zones();
    add_zone("example.com.", i, 0);
    build();
  }
  cr_assert_eq(count_entries("builds"), BUILDDIR_KEEP);
  cr_assert_eq(serial_of(0), BUILDDIR_KEEP + 2);
}

Test(build, leftovers_of_a_killed_build_are_removed) {
  add_zone("example.com.", 1, 0);
  cr_assert(fs_make_dirs(path_of("builds/.next/zones"), why));
  overwrite("builds/.next/zones/example.com.image", "half");
  cr_assert_eq(symlink("builds/x", path_of(".current.tmp-1-0")), 0);
  build();
  cr_assert_eq(count_entries("builds"), 1);
  cr_assert_eq(count_entries("."), 3); /* builds, current, lock */
}

Test(build, a_damaged_product_is_repaired) {
  add_zone("example.com.", 1, 0);
  build();
  char first[64];
  char second[64];
  current_id(first);
  overwrite("current/zones/example.com.image", "damaged");
  overwrite("current/checks.json", "damaged");
  build();
  current_id(second);
  cr_assert_not(result.unchanged);
  cr_assert_eq(result.rebuilt, 1);
  cr_assert_str_eq(first, second);
  struct image image;
  cr_assert(image_open(&image, path_of("current/zones/example.com.image"), why), "%s", why);
  image_close(&image);
  cr_assert_eq(count_entries("builds"), 1);
}

static void expect_refused(const char *reason) {
  char before[64];
  char after[64];
  current_id(before);
  cr_assert_not(try_build());
  cr_assert(strstr(why, reason), "%s", why);
  current_id(after);
  cr_assert_str_eq(before, after);
}

Test(build, a_damaged_manifest_stops_the_build) {
  static const char *const texts[] = {
      "",
      "{\"format\":1,\"zones\":",
      "[]",
      "{\"format\":2,\"zones\":[]}",
      "{\"format\":1,\"zones\":[{\"name\":\"example.com.\",\"serial\":-1}]}",
      "{\"format\":1,\"zones\":[1]}",
      "{\"format\":1,\"zones\":[],\"retired\":[]}",
      "{\"format\":1,\"zones\":[],\"retired\":{\"a.\":{}}}",
  };
  add_zone("example.com.", 1, 0);
  build();
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    overwrite("current/manifest.json", texts[i]);
    expect_refused("manifest.json is damaged");
  }
  cr_assert_eq(unlink(path_of("current/manifest.json")), 0);
  expect_refused("manifest.json: No such file");
}

Test(build, a_foreign_current_stops_the_build) {
  add_zone("example.com.", 1, 0);
  cr_assert(fs_make_dirs(data, why));
  cr_assert_eq(symlink("../elsewhere", path_of("current")), 0);
  expect_refused("not a link to a build");
}

Test(build, a_zone_that_cannot_be_compiled_changes_nothing) {
  add_zone("example.com.", 1, 0);
  build();
  clear_zones();
  struct model_zone *zone = add_zone("example.com.", 2, 0);
  zone->rr_count = 1; /* no SOA */
  struct buf image;
  buf_init(&image);
  bool refused = !compile_image(zone, 1, &image, why);
  buf_close(&image);
  cr_assert(refused);
  expect_refused("zone example.com.: ");
  cr_assert_eq(serial_of(0), 1);
  cr_assert_eq(count_entries("builds"), 1);
}

static void expect_file(const char *apex, const char *file) {
  uint8_t wire[NAME_BUF];
  char out[BUILDDIR_FILE + 32];
  put_name(wire, apex);
  cr_assert(builddir_zone_file(wire, "image", out));
  cr_assert_str_eq(out, file);
}

Test(builddir, file_names) {
  expect_file(".", "zones/.image");
  expect_file("tm.example.com.", "zones/tm.example.com.image");
  expect_file("a/b.example.", "zones/a%2fb.example.image");
  expect_file("\\.\\..", "zones/%2e%2e.image");
  expect_file("a\\.b.", "zones/a%2eb.image");
  expect_file("\\000\\010\\255%.", "zones/%00%0a%ff%25.image");
  expect_file("*._x-y.", "zones/%2a._x-y.image");
}

Test(builddir, long_names_become_hashes) {
  char apex[256] = "";
  for (int i = 0; i < 120; i++)
    strcat(apex, "/.");
  uint8_t wire[NAME_BUF];
  char first[BUILDDIR_FILE + 32];
  char second[BUILDDIR_FILE + 32];
  put_name(wire, apex);
  cr_assert(builddir_zone_file(wire, "image", first));
  cr_assert_eq(strncmp(first, "zones/%%", 8), 0);
  wire[1] = 'a';
  cr_assert(builddir_zone_file(wire, "image", second));
  cr_assert_str_neq(first, second);
}

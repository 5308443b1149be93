/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of a secondary zone, and how the loader serves it beside a build. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fs.h"
#include "data_fixture.h"
#include "server/load.h"
#include "server/secondary_store.h"
#include "transfer_helper.h"

static char *data;
static char why[512], warning[512];
static struct secondary_files files;
static uint8_t apex[NAME_BUF];

static void init(void) {
  data = data_fixture_new();
  wire_name(apex, "example.");
  cr_assert(secondary_store_open(data, why), "%s", why);
  cr_assert(secondary_files_init(&files, data, apex));
}

static void fini(void) {
  secondary_files_close(&files);
  data_fixture_free(data);
}

TestSuite(secondary_store, .init = init, .fini = fini);

/* Saves the zone with this serial. */
static struct secondary_info save(const char *records) {
  static const struct transfer_in_limits no_limits = {.records = 0};
  static struct message m;
  static struct transfer_in t;
  struct secondary_model model;
  struct secondary_info info = {.refreshed = 1700000000};
  start_transfer(&t, "example.", TYPE_AXFR, 0, no_limits);
  begin(&m, "example.", TYPE_AXFR);
  add_rrs(&m, records);
  cr_assert_eq(transfer_in_message(&t, m.octets, m.len, why), TRANSFER_DONE, "%s", why);
  cr_assert_eq(secondary_model_make(&model, &t, NULL, why), SECONDARY_MODEL_OK, "%s", why);
  cr_assert(secondary_files_save(&files, &model, &info, why), "%s", why);
  secondary_model_close(&model);
  transfer_in_close(&t);
  return info;
}

#define BODY "example. 60 IN NS ns.example.\nns.example. 60 IN A 192.0.2.1\n"

static void write_file(const char *path, const char *text) {
  cr_assert(fs_write_atomic(path, text, strlen(text), 0644, why), "%s", why);
}

Test(secondary_store, what_is_saved_is_found) {
  struct secondary_info info;
  cr_assert(!secondary_files_look(&files, &info, why));
  cr_assert_str_eq(why, ""); /* nothing there is no problem */
  save(SOA(7) BODY SOA(7));
  cr_assert(secondary_files_look(&files, &info, why), "%s", why);
  cr_assert_eq(info.soa.serial, 7u);
  cr_assert_eq(info.soa.refresh, 7200u);
  cr_assert_eq(info.soa.expire, 86400u);
  cr_assert_eq(info.refreshed, 1700000000);
  cr_assert_eq(info.names, 2);
}

Test(secondary_store, a_confirmation_changes_the_time_alone) {
  struct secondary_info info = save(SOA(7) BODY SOA(7));
  struct secondary_info again;
  info.refreshed += 1000;
  cr_assert(secondary_files_confirm(&files, &info, why), "%s", why);
  cr_assert(secondary_files_look(&files, &again, why), "%s", why);
  cr_assert_eq(again.refreshed, 1700001000);
}

/* A crash between the image and the JSON file: the records tell the rest. */
Test(secondary_store, an_older_or_damaged_json_file) {
  static const char *const texts[] = {
      "",
      "{",
      "[]",
      "{\"format\":2}",
      "{\"format\":1,\"serial\":-1,\"refresh\":1,\"retry\":1,\"expire\":1,\"minimum\":1,"
      "\"refreshed\":1,\"names\":1}",
      "{\"format\":1,\"serial\":6,\"refresh\":1,\"retry\":1,\"expire\":1,\"minimum\":1,"
      "\"refreshed\":1,\"names\":1}"};
  save(SOA(7) BODY SOA(7));
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    struct secondary_info info;
    write_file(files.info, texts[i]);
    cr_assert(secondary_files_look(&files, &info, why), "%s: %s", texts[i], why);
    cr_assert_eq(info.soa.serial, 7u);
    cr_assert_eq(info.soa.expire, 86400u);
    cr_assert_gt(info.refreshed, 1700000000); /* when the image was written */
  }
}

Test(secondary_store, nothing_tells_when_it_expires) {
  struct secondary_info info;
  save(SOA(7) BODY SOA(7));
  write_file(files.info, "{}");
  write_file(files.records, "no records");
  cr_assert(!secondary_files_look(&files, &info, why));
  cr_assert_not_null(strstr(why, "nothing tells when"));
}

Test(secondary_store, set_aside) {
  struct secondary_info info;
  char name[4096];
  write_file(files.image, "not an image at all, but long enough to hold a header, or not?");
  cr_assert(!secondary_files_look(&files, &info, why));
  cr_assert_not_null(strstr(why, "is not an image"));
  secondary_files_set_aside(&files);
  cr_assert_neq(access(files.image, F_OK), 0);
  snprintf(name, sizeof name, "%s.damaged", files.image);
  cr_assert_eq(access(name, F_OK), 0);
}

/* ---- loading ----------------------------------------------------------------------------------
 */

static void build(const char *id, const char *zone, const char *text) {
  const struct zone_fixture_zone zones[] = {{.apex = zone, .text = text}};
  data_fixture_build(data, id, zones, 1);
}

static const char other[] = "other. 60 IN SOA ns.other. h.other. 1 2 3 4 5\n"
                            "other. 60 IN NS ns.other.\n";

static struct served *load(const struct served *previous, const char *image, bool expired,
                           bool keep_build) {
  const struct load_secondary secondary = {
      .name = "example.", .apex = apex, .image = image, .names = 2, .expired = expired};
  const struct load_request request = {.data_dir = data,
                                       .previous = previous,
                                       .secondary = &secondary,
                                       .secondary_count = 1,
                                       .keep_build = keep_build};
  struct served *served = load_run(&request, warning, why);
  cr_assert_not_null(served, "%s", why);
  return served;
}

Test(secondary_store, the_loader_serves_it_beside_the_build) {
  build("one", "other.", other);
  save(SOA(7) BODY SOA(7));
  struct served *served = load(NULL, files.image, false, false);
  cr_assert_eq(served->view.zone_count, 2u);
  cr_assert_eq(served->problem_count, 0u);
  cr_assert_eq(served->view.zones[1].state, VIEW_ZONE_SERVED);
  cr_assert_eq(served->zones[1].serial, 7u);
  cr_assert(served->zones[1].secondary);
  /* A load that keeps the build shares all that is the same, and ignores a newer build. */
  build("two", "third.", "third. 60 IN SOA ns.third. h.third. 1 2 3 4 5\nthird. 60 IN NS a.\n");
  struct served *again = load(served, files.image, false, true);
  cr_assert_str_eq(again->build_id, "one");
  cr_assert_eq(again->changed, 0u);
  cr_assert_eq(again->view.zones[0].image, served->view.zones[0].image);
  cr_assert_eq(again->view.zones[1].image, served->view.zones[1].image);
  load_free(served);
  struct served *whole = load(again, files.image, false, false);
  cr_assert_str_eq(whole->build_id, "two");
  cr_assert_eq(whole->view.zones[1].image, again->view.zones[1].image);
  load_free(again);
  load_free(whole);
}

Test(secondary_store, zones_that_cannot_be_served) {
  build("one", "other.", other);
  for (int expired = 0; expired < 2; expired++) {
    struct served *served = load(NULL, NULL, expired != 0, false);
    cr_assert_eq(served->view.zone_count, 2u);
    cr_assert_eq(served->view.zones[1].state, expired ? VIEW_ZONE_EXPIRED : VIEW_ZONE_NOT_READY);
    cr_assert_eq(served->problem_count, 0u);
    load_free(served);
  }
}

Test(secondary_store, damage_is_a_problem_of_one_zone) {
  build("one", "other.", other);
  save(SOA(7) BODY SOA(7));
  uint8_t *image = NULL;
  size_t len = 0;
  cr_assert(fs_read(files.image, 1 << 20, &image, &len, why));
  image[len / 2] ^= 0xff;
  cr_assert(fs_write_atomic(files.image, image, len, 0644, why));
  free(image);
  struct served *served = load(NULL, files.image, false, false);
  cr_assert_eq(served->view.zone_count, 2u);
  cr_assert_eq(served->view.zones[0].state, VIEW_ZONE_SERVED);
  cr_assert_eq(served->view.zones[1].state, VIEW_ZONE_NOT_READY);
  cr_assert_eq(served->problem_count, 1u);
  cr_assert_str_eq(served->problems[0].zone, "example.");
  cr_assert(served->problems[0].damaged);
  load_free(served);
}

Test(secondary_store, an_image_of_another_zone_is_not_served) {
  build("one", "other.", other);
  save(SOA(7) BODY SOA(7));
  wire_name(apex, "elsewhere.");
  struct served *served = load(NULL, files.image, false, false);
  cr_assert_eq(served->problem_count, 1u);
  cr_assert_eq(served->view.zones[1].state, VIEW_ZONE_NOT_READY);
  load_free(served);
}

Test(secondary_store, a_zone_of_the_build_wins) {
  build("one", "example.", SOA(3) BODY);
  save(SOA(7) BODY SOA(7));
  struct served *served = load(NULL, files.image, false, false);
  cr_assert_eq(served->view.zone_count, 1u);
  cr_assert_eq(served->zones[0].serial, 3u);
  cr_assert_eq(served->problem_count, 1u);
  cr_assert(!served->problems[0].damaged);
  load_free(served);
}

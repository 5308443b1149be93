/* SPDX-License-Identifier: Apache-2.0 */
/* From a transfer to a zone that can be compiled, and back through the records file to an IXFR. */
#include "server/secondary_model.h"
#include "transfer_helper.h"
#include "zones/compile.h"
#include "zones/image.h"

static const struct transfer_in_limits no_limits = {.records = 0};

/* A transfer of one message that is complete. */
static void receive(struct transfer_in *t, uint16_t qtype, uint32_t have, const char *records) {
  static struct message m;
  char why[TRANSFER_IN_WHY] = "";
  start_transfer(t, "example.", qtype, have, no_limits);
  begin(&m, "example.", qtype);
  add_rrs(&m, records);
  cr_assert_eq(transfer_in_message(t, m.octets, m.len, why), TRANSFER_DONE, "%s", why);
}

/* The records file of a zone; the bytes stay in `out`. */
static void keep(const char *records, struct buf *out, struct records *file) {
  struct transfer_in t;
  struct secondary_model model;
  char why[SECONDARY_MODEL_WHY] = "";
  receive(&t, TYPE_AXFR, 0, records);
  cr_assert_eq(secondary_model_make(&model, &t, NULL, why), SECONDARY_MODEL_OK, "%s", why);
  buf_init(out);
  cr_assert(records_compile(&model.zone, 0, out, why), "%s", why);
  cr_assert(records_open_memory(file, out->data, out->len, why), "%s", why);
  secondary_model_close(&model);
  transfer_in_close(&t);
}

static char *model_text(const struct secondary_model *model) {
  static char text[4096];
  size_t at = 0;
  text[0] = '\0';
  for (size_t i = 0; i < model->zone.rr_count; i++) {
    char name[NAME_MAX_TEXT];
    const struct model_rr *rr = &model->zone.rrs[i];
    at +=
        (size_t)snprintf(text + at, sizeof text - at, "%s %u %u %u|", name_to_text(name, rr->owner),
                         rr->type, rr->ttl, rr->rdata[rr->rdata_len - 1]);
  }
  return text;
}

static void expect_axfr(const char *records, enum secondary_model_result want, const char *text) {
  struct transfer_in t;
  struct secondary_model model;
  char why[SECONDARY_MODEL_WHY] = "";
  receive(&t, TYPE_AXFR, 0, records);
  cr_assert_eq(secondary_model_make(&model, &t, NULL, why), want, "%s", why);
  if (want == SECONDARY_MODEL_OK)
    cr_assert_str_eq(model_text(&model), text);
  else
    cr_assert_not_null(strstr(why, text), "`%s` is not in: %s", text, why);
  secondary_model_close(&model);
  transfer_in_close(&t);
}

#define NS "example. 60 IN NS ns.example.\n"

Test(secondary_model, canonical_order_without_repetitions) {
  expect_axfr(SOA(7) "z.example. 60 IN A 192.0.2.9\nA.example. 60 IN A 192.0.2.2\n" NS
                     "a.example. 60 IN A 192.0.2.1\na.EXAMPLE. 60 IN A 192.0.2.2\n"
                     "b.a.example. 60 IN A 192.0.2.3\nexample. 60 IN NS NS.example.\n" SOA(7),
              SECONDARY_MODEL_OK,
              "example. 2 60 0|example. 6 3600 60|a.example. 1 60 1|a.example. 1 60 2|"
              "b.a.example. 1 60 3|z.example. 1 60 9|");
}

/* RFC 2181 section 5.2. */
Test(secondary_model, one_ttl_for_a_set) {
  expect_axfr(SOA(7) NS "a.example. 90 IN A 192.0.2.1\na.example. 30 IN A 192.0.2.2\n" SOA(7),
              SECONDARY_MODEL_OK,
              "example. 2 60 0|example. 6 3600 60|a.example. 1 30 1|a.example. 1 30 2|");
}

Test(secondary_model, zones_that_cannot_be_served) {
  expect_axfr(SOA(7) "a.example. 1 IN A 192.0.2.1\n" SOA(7), SECONDARY_MODEL_BAD, "no NS records");
  expect_axfr(SOA(7) NS "a.example. 1 IN CNAME b.example.\na.example. 1 IN A 192.0.2.1\n" SOA(7),
              SECONDARY_MODEL_BAD, "a CNAME stands beside other data: a.example.");
  expect_axfr(SOA(7) NS
              "a.example. 1 IN CNAME b.example.\na.example. 1 IN CNAME c.example.\n" SOA(7),
              SECONDARY_MODEL_BAD, "several CNAME");
}

Test(secondary_model, it_compiles_to_an_image) {
  struct transfer_in t;
  struct secondary_model model;
  struct buf out;
  struct image image;
  char why[SECONDARY_MODEL_WHY] = "";
  receive(&t, TYPE_AXFR, 0,
          SOA(7) NS
          "ns.example. 60 IN A 192.0.2.1\n*.w.example. 60 IN TXT \"x\"\n"
          "cut.example. 60 IN NS ns.cut.example.\nns.cut.example. 60 IN A 192.0.2.3\n"
          "d.example. 60 IN DNAME example.org.\nx.d.example. 1 IN A 192.0.2.4\n"
          "c.example. 60 IN CNAME ns.example.\nu.example. 1 IN TYPE65400 \\# 2 0102\n" SOA(7));
  cr_assert_eq(secondary_model_make(&model, &t, NULL, why), SECONDARY_MODEL_OK, "%s", why);
  buf_init(&out);
  cr_assert(compile_image(&model.zone, 0, &out, why), "%s", why);
  cr_assert(image_open_memory(&image, out.data, out.len, why), "%s", why);
  cr_assert_eq(image.header->serial, 7u);
  image_close(&image);
  buf_close(&out);
  secondary_model_close(&model);
  transfer_in_close(&t);
}

/* ---- changes ----------------------------------------------------------------------------------
 */

#define OLD                                                                                        \
  SOA(5)                                                                                           \
  NS "a.example. 60 IN A 192.0.2.1\na.example. 60 IN A 192.0.2.2\n"                                \
     "m.example. 60 IN MX 1 Mail.example.\n" SOA(5)

static void expect_ixfr(const char *records, enum secondary_model_result want, const char *text) {
  struct buf bytes;
  struct records old;
  struct transfer_in t;
  struct secondary_model model;
  char why[SECONDARY_MODEL_WHY] = "";
  keep(OLD, &bytes, &old);
  receive(&t, TYPE_IXFR, 5, records);
  cr_assert(t.incremental);
  cr_assert_eq(secondary_model_make(&model, &t, &old, why), want, "%s", why);
  if (want == SECONDARY_MODEL_OK)
    cr_assert_str_eq(model_text(&model), text);
  else
    cr_assert_not_null(strstr(why, text), "`%s` is not in: %s", text, why);
  secondary_model_close(&model);
  transfer_in_close(&t);
  records_close(&old);
  buf_close(&bytes);
}

Test(secondary_model, changes_are_applied) {
  expect_ixfr(SOA(7) SOA(5) "a.example. 60 IN A 192.0.2.1\nm.example. 60 IN MX 1 "
                            "mail.EXAMPLE.\n" SOA(6) "b.example. 60 IN A 192.0.2.3\n" SOA(
                                6) "b.example. 60 IN A 192.0.2.3\n" SOA(7) "c.example. 60 IN A "
                                                                           "192.0.2.4\na.example. "
                                                                           "60 IN A "
                                                                           "192.0.2.1\n" SOA(7),
              SECONDARY_MODEL_OK,
              "example. 2 60 0|example. 6 3600 60|a.example. 1 60 1|a.example. 1 60 2|"
              "c.example. 1 60 4|");
}

Test(secondary_model, a_change_of_ttl) {
  expect_ixfr(SOA(6) SOA(5) "a.example. 60 IN A 192.0.2.1\na.example. 60 IN A 192.0.2.2\n" SOA(
                  6) "a.example. 5 IN A 192.0.2.1\na.example. 5 IN A 192.0.2.2\n" SOA(6),
              SECONDARY_MODEL_OK,
              "example. 2 60 0|example. 6 3600 60|a.example. 1 5 1|a.example. 1 5 2|"
              "m.example. 15 60 0|");
}

Test(secondary_model, changes_that_do_not_fit) {
  expect_ixfr(SOA(6) SOA(5) "x.example. 60 IN A 192.0.2.1\n" SOA(6) SOA(6),
              SECONDARY_MODEL_MISMATCH, "do not fit our records of a name: x.example.");
  expect_ixfr(SOA(6) "example. 3600 IN SOA other. host.example. 5 7200 900 86400 60\n" SOA(6)
                  SOA(6),
              SECONDARY_MODEL_MISMATCH, "example.");
}

/* As NSD sends it, when another record of the set has changed. */
Test(secondary_model, a_record_that_is_added_once_more) {
  expect_ixfr(SOA(6) SOA(5)
                  SOA(6) "a.example. 60 IN A 192.0.2.1\na.example. 60 IN A 192.0.2.3\n" SOA(6),
              SECONDARY_MODEL_OK,
              "example. 2 60 0|example. 6 3600 60|a.example. 1 60 1|a.example. 1 60 2|"
              "a.example. 1 60 3|m.example. 15 60 0|");
}

Test(secondary_model, changes_that_ruin_the_zone) {
  expect_ixfr(SOA(6) SOA(5) NS SOA(6) SOA(6), SECONDARY_MODEL_BAD, "no NS records");
}

Test(secondary_model, changes_without_a_zone) {
  struct transfer_in t;
  struct secondary_model model;
  char why[SECONDARY_MODEL_WHY] = "";
  receive(&t, TYPE_IXFR, 5, SOA(6) SOA(5) SOA(6) SOA(6));
  cr_assert_eq(secondary_model_make(&model, &t, NULL, why), SECONDARY_MODEL_MISMATCH);
  secondary_model_close(&model);
  transfer_in_close(&t);
}

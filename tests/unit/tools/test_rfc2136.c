/* SPDX-License-Identifier: Apache-2.0 */
/* UPDATE messages: what they expect, in which order they change, and how they are split. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "server/transfer_rr.h"
#include "tools/providers/rfc2136_private.h"
#include "zones/record.h"

enum { TEXT = 8192, CHANGES = 400 };

static struct provider_objects objects;
static struct provider_change changes[CHANGES];
static size_t count;

static void start(void) {
  provider_objects_init(&objects);
  count = 0;
}

static void end(void) {
  provider_objects_close(&objects);
}

static size_t object(const char *name, const char *type, uint32_t ttl, const char *values) {
  char copy[400];
  json_t *list = json_array();
  snprintf(copy, sizeof copy, "%s", values);
  char *save;
  for (char *v = strtok_r(copy, "|", &save); v; v = strtok_r(NULL, "|", &save))
    json_array_append_new(list, json_string(v));
  cr_assert(provider_add_rrset(&objects, name, type, ttl, list));
  return objects.count;
}

/* Old and new values; NULL: none.  Objects move while they are added, so they are found later. */
static void change(const char *name, const char *type, const char *old, const char *new) {
  size_t o = old ? object(name, type, 60, old) : 0;
  size_t n = new ? object(name, type, 300, new) : 0;
  changes[count++] = (struct provider_change){!old   ? PROVIDER_CREATE
                                              : !new ? PROVIDER_DELETE
                                                     : PROVIDER_UPDATE,
                                              (const struct provider_object *)(uintptr_t)o,
                                              (const struct provider_object *)(uintptr_t)n};
}

static bool make(size_t max, struct rfc2136_messages *out, struct provider_error *error) {
  for (size_t i = 0; i < count; i++) {
    uintptr_t o = (uintptr_t)changes[i].old;
    uintptr_t n = (uintptr_t)changes[i].new;
    changes[i].old = o ? &objects.items[o - 1] : NULL;
    changes[i].new = n ? &objects.items[n - 1] : NULL;
  }
  return rfc2136_messages_make("dns-x", "e.test.", changes, count, max, out, error);
}

/* One line for each record: "SECTION NAME TTL CLASS TYPE DATA". */
static void describe(const struct rfc2136_message *m, char *text) {
  static const char *const sections[] = {"", "expect", "update"};
  static struct transfer_rr rr;
  size_t at = RFC2136_HEADER + name_wire_len(m->octets + RFC2136_HEADER, m->len) + 4;
  size_t used = 0;
  text[0] = '\0';
  cr_assert_eq(m->octets[2], 0x28);
  for (int s = 1; s <= 2; s++) {
    unsigned n = (unsigned)m->octets[4 + 2 * s] << 8 | m->octets[5 + 2 * s];
    for (unsigned i = 0; i < n; i++) {
      char name[NAME_MAX_TEXT], type[16];
      /* transfer_rr_read() takes no class without data. */
      size_t owner = name_wire_len(m->octets + at, m->len - at);
      const uint8_t *head = m->octets + at + owner;
      unsigned rclass = (unsigned)head[2] << 8 | head[3];
      unsigned len = (unsigned)head[8] << 8 | head[9];
      rr.type = (uint16_t)((unsigned)head[0] << 8 | head[1]);
      rr.ttl = (uint32_t)head[6] << 8 | head[7];
      char *data = len > 0 ? provider_rdata_wire(rr.type, head + 10, len) : NULL;
      used += (size_t)snprintf(text + used, TEXT - used, "%s %s %u %s %s%s%s\n", sections[s],
                               name_to_text(name, m->octets + at), rr.ttl,
                               rclass == 1     ? "IN"
                               : rclass == 254 ? "NONE"
                                               : "ANY",
                               rr.type == 255 ? "ANY" : record_type_text(rr.type, type),
                               data ? " " : "", data ? data : "");
      free(data);
      at += owner + 10 + len;
    }
  }
  cr_assert_eq(at, m->len, "nothing behind the records");
}

static void expect_one(const char *expected) {
  struct rfc2136_messages messages;
  struct provider_error error = {0};
  char text[TEXT];
  cr_assert(make(60000, &messages, &error), "%s", error.text);
  cr_assert_eq(messages.count, 1);
  cr_assert_eq(messages.items[0].changes, count);
  describe(&messages.items[0], text);
  cr_assert_str_eq(text, expected);
  rfc2136_messages_close(&messages);
}

TestSuite(rfc2136, .init = start, .fini = end);

Test(rfc2136, what_is_new_expects_a_free_place) {
  change("www.e.test.", "A", NULL, "192.0.2.1|192.0.2.2");
  expect_one("expect www.e.test. 0 NONE A\n"
             "expect www.e.test. 0 NONE CNAME\n"
             "update www.e.test. 300 IN A 192.0.2.1\n"
             "update www.e.test. 300 IN A 192.0.2.2\n");
}

Test(rfc2136, a_cname_expects_that_there_is_nothing) {
  change("www.e.test.", "CNAME", NULL, "x.example.");
  expect_one("expect www.e.test. 0 NONE ANY\n"
             "update www.e.test. 300 IN CNAME x.example.\n");
}

Test(rfc2136, what_changes_is_expected_as_it_was) {
  change("www.e.test.", "A", "192.0.2.1|192.0.2.2", "192.0.2.2|192.0.2.3");
  expect_one("expect www.e.test. 0 IN A 192.0.2.1\n"
             "expect www.e.test. 0 IN A 192.0.2.2\n"
             "update www.e.test. 0 ANY A\n"
             "update www.e.test. 300 IN A 192.0.2.2\n"
             "update www.e.test. 300 IN A 192.0.2.3\n");
}

/* A CNAME that is added beside other data would be left out (RFC 2136 section 3.4.2.2). */
Test(rfc2136, deletes_stand_before_what_takes_their_place) {
  change("_sluice.www.e.test.", "TXT", "\"a\"", "\"b\"");
  change("www.e.test.", "CNAME", NULL, "x.example.");
  change("www.e.test.", "A", "192.0.2.1", NULL);
  expect_one("expect _sluice.www.e.test. 0 IN TXT \"a\"\n"
             "expect www.e.test. 0 NONE CNAME\n"
             "expect www.e.test. 0 IN A 192.0.2.1\n"
             "update _sluice.www.e.test. 0 ANY TXT\n"
             "update www.e.test. 0 ANY A\n"
             "update _sluice.www.e.test. 300 IN TXT \"b\"\n"
             "update www.e.test. 300 IN CNAME x.example.\n");
}

/* A server ignores the delete of all NS of the apex (section 3.4.2.3). */
Test(rfc2136, name_servers_are_added_before_others_go) {
  change("e.test.", "NS", "old.example.|both.example.", "both.example.|new.example.");
  expect_one("expect e.test. 0 IN NS both.example.\n"
             "expect e.test. 0 IN NS old.example.\n"
             "update e.test. 300 IN NS both.example.\n"
             "update e.test. 300 IN NS new.example.\n"
             "update e.test. 0 NONE NS both.example.\n" /* for the TTL */
             "update e.test. 300 IN NS both.example.\n"
             "update e.test. 0 NONE NS old.example.\n");
}

Test(rfc2136, name_servers_never_all_go) {
  struct rfc2136_messages messages;
  struct provider_error error;
  change("e.test.", "NS", "old.example.", NULL);
  cr_assert_not(make(60000, &messages, &error));
  cr_assert_eq(error.failure, PROVIDER_REFUSED);
  rfc2136_messages_close(&messages);
}

Test(rfc2136, raw_data_is_sent_as_it_was_read) {
  change("e.test.", "MX", "5 mixed.example.", NULL);
  objects.items[0].raw = json_pack("{s:[s]}", "rdata", "0005054d697845640745786d61706c6500");
  struct rfc2136_messages messages;
  struct provider_error error;
  cr_assert(make(60000, &messages, &error));
  const struct rfc2136_message *m = &messages.items[0];
  static const char data[] = "\0\5\5MixEd\7Exmaple";
  bool found = false;
  for (size_t i = 0; i + sizeof data <= m->len; i++)
    found = found || memcmp(m->octets + i, data, sizeof data) == 0;
  cr_assert(found);
  rfc2136_messages_close(&messages);
}

/* All of a name in one message; additions, then name servers, then what only goes. */
Test(rfc2136, large_changes_are_split_between_names) {
  char name[64];
  struct rfc2136_messages messages;
  struct provider_error error = {0};
  char text[TEXT];
  size_t total = 0;
  change("gone.e.test.", "A", "192.0.2.1", NULL);
  change("e.test.", "NS", "old.example.", "ns.e.test.");
  for (int i = 0; i < 100; i++) {
    snprintf(name, sizeof name, "_sluice.n%d.e.test.", i);
    change(name, "TXT", NULL, "\"mark\"");
    change(name + 8, "A", NULL, "192.0.2.1");
  }
  cr_assert(make(2000, &messages, &error), "%s", error.text);
  cr_assert_gt(messages.count, 5);
  for (size_t i = 0; i < messages.count; i++) {
    describe(&messages.items[i], text);
    cr_assert_leq(messages.items[i].len, 2000);
    total += messages.items[i].changes;
    for (int k = 0; k < 100; k++) {
      char mark[80], record[80];
      snprintf(mark, sizeof mark, "update _sluice.n%d.e.test. ", k);
      snprintf(record, sizeof record, "update n%d.e.test. ", k);
      cr_assert_eq(strstr(text, mark) != NULL, strstr(text, record) != NULL);
    }
  }
  cr_assert_eq(total, count);
  const char *servers = strstr(text, "update e.test. 300 IN NS ns.e.test.");
  const char *gone = strstr(text, "update gone.e.test. 0 ANY A");
  cr_assert(servers && gone && servers < gone, "%s", text);
  rfc2136_messages_close(&messages);
}

static int message_with(const struct rfc2136_messages *messages, const char *line) {
  char text[TEXT];
  for (size_t i = 0; i < messages->count; i++) {
    describe(&messages->items[i], text);
    if (strstr(text, line))
      return (int)i;
  }
  return -1;
}

/* A record that is to go never stands there without its mark: not even between two messages. */
Test(rfc2136, a_marker_goes_with_its_record_or_after_it) {
  char name[64], line[100];
  struct rfc2136_messages messages;
  struct provider_error error = {0};
  for (int i = 0; i < 60; i++) {
    snprintf(name, sizeof name, "n%d.e.test.", i);
    change(name, "A", "192.0.2.1", NULL);
  }
  for (int i = 59; i >= 0; i--) { /* narrowed or removed, in another order than the records */
    snprintf(name, sizeof name, "_sluice.n%d.e.test.", i);
    change(name, "TXT", "\"types=A,TXT\"", i % 2 ? "\"types=TXT\"" : NULL);
  }
  cr_assert(make(1000, &messages, &error), "%s", error.text);
  cr_assert_gt(messages.count, 5);
  for (int i = 0; i < 60; i++) {
    snprintf(line, sizeof line, "update n%d.e.test. 0 ANY A\n", i);
    int record = message_with(&messages, line);
    snprintf(line, sizeof line, "update _sluice.n%d.e.test. 0 ANY TXT\n", i);
    cr_assert_geq(record, 0);
    cr_assert_eq(message_with(&messages, line), record, "%s", line);
  }
  rfc2136_messages_close(&messages);
}

Test(rfc2136, a_marker_alone_keeps_its_side_of_the_records) {
  struct rfc2136_messages messages;
  struct provider_error error = {0};
  change("_sluice.first.e.test.", "TXT", "\"a\"", "\"b\"");
  change("new.e.test.", "A", NULL, "192.0.2.1");
  change("old.e.test.", "A", "192.0.2.1", NULL);
  change("_sluice.last.e.test.", "TXT", "\"a\"", NULL);
  cr_assert(make(400, &messages, &error), "%s", error.text);
  int at[] = {message_with(&messages, "update _sluice.first.e.test. 0 ANY TXT"),
              message_with(&messages, "update new.e.test. 300 IN A"),
              message_with(&messages, "update old.e.test. 0 ANY A"),
              message_with(&messages, "update _sluice.last.e.test. 0 ANY TXT")};
  cr_assert_eq(at[0], 0);
  cr_assert(at[1] > at[0] && at[2] >= at[1] && at[3] > at[2], "%d %d %d", at[1], at[2], at[3]);
  rfc2136_messages_close(&messages);
}

Test(rfc2136, one_name_that_is_too_large_is_an_error_before_all) {
  struct rfc2136_messages messages;
  struct provider_error error;
  change("a.e.test.", "A", NULL, "192.0.2.1");
  change("b.e.test.", "A", NULL, "192.0.2.1|192.0.2.2|192.0.2.3|192.0.2.4|192.0.2.5|192.0.2.6");
  cr_assert_not(make(400, &messages, &error));
  cr_assert_eq(error.failure, PROVIDER_REFUSED);
  cr_assert(strstr(error.text, "b.e.test."), "%s", error.text);
  rfc2136_messages_close(&messages);
}

Test(rfc2136, keys_are_three_words) {
  static const char *const wrong[] = {"", "a", "a:b", "a:b:", ":b:c", "a::c", "::"};
  const char *algorithm, *name, *secret;
  char why[RFC2136_WHY];
  char text[64] = "hmac-sha256:my-key:c2VjcmV0OjE=";
  cr_assert(rfc2136_key(text, &algorithm, &name, &secret, why));
  cr_assert_str_eq(algorithm, "hmac-sha256");
  cr_assert_str_eq(name, "my-key");
  cr_assert_str_eq(secret, "c2VjcmV0OjE=");
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    snprintf(text, sizeof text, "%s", wrong[i]);
    cr_assert_not(rfc2136_key(text, &algorithm, &name, &secret, why), "%s", wrong[i]);
  }
}

Test(rfc2136, errors_of_signatures_say_what_to_do) {
  static const struct {
    uint16_t code;
    const char *words;
  } cases[] = {
      {16, "secret"}, {17, "does not know the key"}, {18, "clocks differ"}, {22, "error 22"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct tsig_session session = {.error = cases[i].code, .peer_time = 5};
    struct provider_error error;
    cr_assert_not(rfc2136_signature("dns-x", &session, TSIG_PEER_ERROR, 9, &error));
    cr_assert_eq(error.failure, PROVIDER_DENIED);
    cr_assert(strstr(error.text, cases[i].words) && strstr(error.text, "dns-x"), "%s", error.text);
  }
}

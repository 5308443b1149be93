/* SPDX-License-Identifier: Apache-2.0 */
/* What sync changes, what it keeps, and for what it needs a consent. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/sync/plan.h"

enum { TEXT = 8192 };

static const struct provider_capabilities marks = {.steers = true, .marks = true, .apex_ns = true};
static const struct provider_capabilities plain = {.apex_ns = true};

/*
 * Objects in words: "OWNER NAME TYPE VALUE[|VALUE]" or "OWNER NAME TYPE! ..." for a steered one,
 * "OWNER NAME TYPE? ..." for an opaque one, "OWNER NAME TYPE^ ..." for a verdict of our checker;
 * OWNER "-" is nobody.
 */
static void add(struct provider_objects *objects, const char *words) {
  char owner[64], name[64], type[64], value[200];
  cr_assert_eq(sscanf(words, "%63s %63s %63s %199[^\n]", owner, name, type, value), 4, "%s", words);
  bool steered = type[strlen(type) - 1] == '!';
  bool opaque = type[strlen(type) - 1] == '?';
  bool health = type[strlen(type) - 1] == '^';
  if (steered || opaque || health)
    type[strlen(type) - 1] = '\0';
  json_t *values = json_array();
  for (char *v = strtok(value, "|"); v; v = strtok(NULL, "|"))
    json_array_append_new(values, json_string(v));
  struct provider_object *object = provider_add_rrset(objects, name, type, 300, values);
  cr_assert(object, "%s", words);
  object->owner = strcmp(owner, "-") ? strdup(owner) : NULL;
  object->domain = steered ? strdup(object->name) : NULL;
  object->opaque = opaque;
  object->health = object->part = health;
}

/* Separated by new lines. */
static void add_all(struct provider_objects *objects, const char *text) {
  char copy[TEXT];
  char *save;
  snprintf(copy, sizeof copy, "%s", text);
  for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
    char one[400];
    snprintf(one, sizeof one, "%s", line);
    /* strtok() of add() must not disturb ours. */
    add(objects, one);
  }
}

struct world {
  struct provider_objects actual, desired;
  struct sync_plan_input input;
  struct sync_plan plan;
  char text[TEXT];
};

static void make(struct world *w, const struct provider_capabilities *can, const char *actual,
                 const char *desired) {
  provider_objects_init(&w->actual);
  provider_objects_init(&w->desired);
  add_all(&w->actual, actual);
  add_all(&w->desired, desired);
  w->input.zone = "z.";
  w->input.mark = "sluice";
  w->input.can = can;
  w->input.actual = &w->actual;
  w->input.desired = &w->desired;
  cr_assert(sync_plan_make(&w->input, &w->plan));
  *w->text = '\0';
  for (size_t i = 0; i < w->plan.count; i++) {
    const struct sync_item *item = &w->plan.items[i];
    char *values = item->marker && item->new
                       ? json_dumps(json_array_get(json_object_get(item->new->body, "values"), 0),
                                    JSON_ENCODE_ANY)
                       : strdup("");
    sprintf(w->text + strlen(w->text), "%c%s%s%s%s\n", "+~-"[item->op],
            item -> new ? item->new->key : item->old->key, item->held ? " held " : "",
            item->held ? sync_hold_text(item->held) : "", values);
    free(values);
  }
}

static void end(struct world *w) {
  sync_plan_close(&w->plan);
  provider_objects_close(&w->actual);
  provider_objects_close(&w->desired);
}

#define EXPECT(w, can, actual, desired, result)                                                    \
  do {                                                                                             \
    make(w, can, actual, desired);                                                                 \
    cr_expect_str_eq((w)->text, result, "%s:%d: %s", __FILE__, __LINE__, (w)->text);               \
    end(w);                                                                                        \
  } while (0)

Test(sync_plan, creates_updates_deletes) {
  struct world w = {0};
  EXPECT(&w, &marks, "", "- a.z. A 192.0.2.1", "+a.z./A\n");
  EXPECT(&w, &marks, "sluice a.z. A 192.0.2.1", "- a.z. A 192.0.2.2", "~a.z./A\n");
  EXPECT(&w, &marks, "sluice a.z. A 192.0.2.1", "", "-a.z./A\n");
  EXPECT(&w, &marks, "", "", "");
}

Test(sync_plan, order_and_spelling_are_no_difference) {
  struct world w = {0};
  EXPECT(&w, &marks, "sluice A.z AAAA 2001:DB8:0::1|2001:db8::2\nsluice m.z. MX 10 Mail.Z.",
         "- a.Z. AAAA 2001:db8::2|2001:db8::1\n- m.z. MX 10 mail.z.", "");
  make(&w, &marks, "sluice a.z. A 192.0.2.1", "- a.z. A 192.0.2.1");
  cr_expect_eq(w.plan.equal, 1);
  end(&w);
}

Test(sync_plan, foreign_records_are_kept_and_told) {
  struct world w = {0};
  make(&w, &marks, "- x.z. A 192.0.2.1\nother y.z. TXT \"x\"\nsluice a.z. A 192.0.2.1", "");
  cr_expect_str_eq(w.text, "-a.z./A\n");
  cr_assert_eq(w.plan.kept_count, 2);
  cr_expect_str_eq(w.plan.kept[0]->key, "x.z./A");
  end(&w);
}

Test(sync_plan, taking_over_needs_consent) {
  struct world w = {0};
  EXPECT(&w, &marks, "other a.z. A 192.0.2.1", "- a.z. A 192.0.2.2",
         "~a.z./A held the record is not ours; --take-over allows it\n");
  EXPECT(&w, &marks, "- a.z. A 192.0.2.1", "- a.z. A 192.0.2.1", "");
  w.input.consents = SYNC_TAKE_OVER;
  EXPECT(&w, &marks, "other a.z. A 192.0.2.1", "- a.z. A 192.0.2.2", "~a.z./A\n");
  EXPECT(&w, &marks, "- a.z. A 192.0.2.1", "- a.z. A 192.0.2.1", "~a.z./A\n");
}

Test(sync_plan, what_is_in_the_way_goes_only_with_consent) {
  struct world w = {0};
  EXPECT(&w, &marks, "- a.z. A 192.0.2.1", "- a.z. CNAME b.example.",
         "+a.z./CNAME held the record is not ours; --take-over allows it\n");
  EXPECT(&w, &marks, "- a.z. CNAME x.example.", "- a.z. A 192.0.2.1",
         "+a.z./A held the record is not ours; --take-over allows it\n");
  /* B82: ours may change its type. */
  EXPECT(&w, &marks, "sluice a.z. A 192.0.2.1", "- a.z. CNAME b.example.",
         "+a.z./CNAME\n-a.z./A\n");
  w.input.consents = SYNC_TAKE_OVER;
  EXPECT(&w, &marks, "- a.z. A 192.0.2.1", "- a.z. CNAME b.example.", "+a.z./CNAME\n-a.z./A\n");
}

Test(sync_plan, soa_and_dnssec_are_the_providers) {
  struct world w = {0};
  EXPECT(&w, &marks, "sluice z. SOA a. b. 1 2 3 4 5\nsluice z. NSEC3PARAM 1 0 0 -",
         "- z. SOA c. d. 1 2 3 4 5", "");
  make(&w, &marks, "- z. SOA a. b. 1 2 3 4 5", "");
  cr_expect_eq(w.plan.kept_count, 0);
  end(&w);
}

Test(sync_plan, apex_ns_needs_consent) {
  struct world w = {0};
  EXPECT(&w, &marks, "- z. NS ns1.example.", "- z. NS ns1.example.|ns2.example.",
         "~z./NS held NS of the apex or of a delegation; --allow-ns-change allows it\n");
  EXPECT(&w, &marks, "- z. NS NS1.example.", "- z. NS ns1.example.", "");
  EXPECT(&w, &marks, "sluice z. NS ns1.example.", "", "");
  EXPECT(&w, &marks, "sluice sub.z. NS ns1.example.", "- sub.z. NS ns2.example.",
         "~sub.z./NS held NS of the apex or of a delegation; --allow-ns-change allows it\n");
  EXPECT(&w, &marks, "", "- sub.z. NS ns2.example.", "+sub.z./NS\n");
  w.input.consents = SYNC_NS_CHANGE;
  EXPECT(&w, &marks, "- z. NS ns1.example.", "- z. NS ns2.example.", "~z./NS\n");
  EXPECT(&w, &marks, "sluice sub.z. NS ns1.example.", "- sub.z. NS ns2.example.", "~sub.z./NS\n");
  static const struct provider_capabilities no_ns = {.marks = true};
  EXPECT(&w, &no_ns, "- z. NS ns1.example.", "- z. NS ns2.example.", "");
}

Test(sync_plan, opaque_is_drift_and_no_error) {
  struct world w = {0};
  EXPECT(&w, &marks, "sluice a.z. A? 192.0.2.1", "- a.z. A 192.0.2.1", "~a.z./A\n");
  EXPECT(&w, &marks, "- a.z. A? 192.0.2.1", "", "");
}

Test(sync_plan, the_last_steered_name_needs_consent) {
  struct world w = {0};
  EXPECT(&w, &marks, "sluice a.z. A! 192.0.2.1\nsluice s.z. A 192.0.2.1", "",
         "-a.z./A held the zone's last steered name; --allow-last allows it\n-s.z./A\n");
  EXPECT(&w, &marks, "sluice a.z. A! 192.0.2.1\nsluice b.z. A! 192.0.2.1", "- b.z. A! 192.0.2.1",
         "-a.z./A\n");
  w.input.consents = SYNC_LAST;
  EXPECT(&w, &marks, "sluice a.z. A! 192.0.2.1", "", "-a.z./A\n");
}

/* `count` names of ours, the first `changed` with another address. */
static char *many(unsigned count, unsigned changed, const char *owner) {
  static char out[2][TEXT];
  static int turn;
  char *text = out[turn++ % 2];
  *text = '\0';
  for (unsigned i = 0; i < count; i++)
    sprintf(text + strlen(text), "%s n%03u.z. A 192.0.2.%d\n", owner, i, i < changed ? 9 : 1);
  return text;
}

static size_t held_of(unsigned count, unsigned changed, unsigned consents) {
  struct world w = {.input = {.consents = consents}};
  make(&w, &marks, many(count, 0, "sluice"), many(count, changed, "-"));
  size_t held = w.plan.held;
  cr_expect_eq(w.plan.updates, changed);
  cr_expect_eq(w.plan.records, count);
  end(&w);
  return held;
}

Test(sync_plan, large_changes_need_consent) {
  cr_expect_eq(held_of(9, 9, 0), 0);
  cr_expect_eq(held_of(10, 3, 0), 0);
  cr_expect_eq(held_of(10, 4, 0), 4);
  cr_expect_eq(held_of(10, 10, SYNC_LARGE), 0);
}

/* An outage of much of a zone is not to be held back; records that change with it are. */
Test(sync_plan, verdicts_are_never_too_many) {
  char actual[TEXT] = "";
  char desired[TEXT] = "";
  for (int i = 0; i < 12; i++) {
    sprintf(actual + strlen(actual), "sluice a%d.z. A! 192.0.2.1\nsluice f%d.z. TXT^ \"up\"\n", i,
            i);
    sprintf(desired + strlen(desired), "- a%d.z. A! 192.0.2.%d\n- f%d.z. TXT^ \"down\"\n", i,
            i < 5 ? 2 : 1, i);
  }
  struct world w = {0};
  make(&w, &marks, actual, desired);
  cr_expect_eq(w.plan.updates, 17);
  cr_expect_eq(w.plan.held, 5, "%s", w.text);
  end(&w);
}

Test(sync_plan, a_lost_layer_holds_the_domain_back) {
  static const struct sync_refusal refusals[] = {{"a.z.", "geo"}};
  struct world w = {.input = {.refusals = refusals, .refusal_count = 1}};
  make(&w, &marks, "sluice a.z. AAAA! 2001:db8::1", "- a.z. A! 192.0.2.1\n- b.z. A! 192.0.2.1");
  cr_expect_eq(w.plan.held, 2, "%s", w.text);
  cr_expect_eq(w.plan.creates, 2);
  end(&w);
}

Test(sync_plan, a_domain_changes_as_a_whole) {
  struct world w = {0};
  make(&w, &marks, "other a.z. A! 192.0.2.1", "- a.z. A! 192.0.2.2\n- a.z. AAAA! 2001:db8::1");
  cr_expect_eq(w.plan.held, 2, "%s", w.text);
  end(&w);
}

/* What cannot come before the domain has left waits with it. */
Test(sync_plan, a_record_in_the_place_of_a_domain_is_held_with_it) {
  struct world w = {0};
  EXPECT(&w, &marks, "sluice a.z. CNAME! x.example.", "- a.z. A 192.0.2.1\n- b.z. A 192.0.2.1",
         "+a.z./A held the zone's last steered name; --allow-last allows it\n+b.z./A\n"
         "-a.z./CNAME held the zone's last steered name; --allow-last allows it\n");
}

/* Of what a marker says to be steered only addresses and aliases are the domain's. */
Test(sync_plan, what_stands_beside_a_steered_name_is_static) {
  static const char marker[] = "- _sluice.a.z. TXT \"sluice owner=sluice types=A,MX steered\"\n"
                               "- a.z. A 192.0.2.1\n- a.z. MX 10 m.z.";
  static const struct sync_refusal refusals[] = {{"a.z.", "geo"}};
  struct world w = {.input = {.refusals = refusals, .refusal_count = 1}};
  make(&w, &plain, marker, "- a.z. A! 192.0.2.2\n- a.z. MX 20 m.z.");
  cr_expect_eq(w.plan.held, 1, "%s", w.text);
  cr_expect_eq(w.plan.updates, 2);
  end(&w);
  w = (struct world){0};
  make(&w, &plain, marker, "- a.z. MX 10 m.z.");
  cr_expect(strstr(w.text, "-a.z./A held the zone's last steered name"), "%s", w.text);
  end(&w);
}

Test(sync_plan, markers_where_objects_have_no_marks) {
  struct world w = {0};
  EXPECT(&w, &plain, "", "- a.z. A! 192.0.2.1\n- a.z. TXT \"x\"\n- *.w.z. A 192.0.2.1",
         "+*.w.z./A\n"
         "+_sluice._wildcard.w.z./TXT\"\\\"sluice owner=sluice types=A\\\"\"\n"
         "+_sluice.a.z./TXT\"\\\"sluice owner=sluice types=A,TXT steered\\\"\"\n"
         "+a.z./A\n+a.z./TXT\n");
  EXPECT(&w, &plain,
         "- a.z. A 192.0.2.1\n- _sluice.a.z. TXT \"sluice owner=sluice types=A steered\"",
         "- a.z. A! 192.0.2.1", "");
  EXPECT(&w, &plain,
         "- a.z. A 192.0.2.1\n- a.z. TXT \"theirs\"\n"
         "- _sluice.a.z. TXT \"sluice owner=sluice types=A\"",
         "", "-_sluice.a.z./TXT\n-a.z./A\n");
  /* Orphans go. */
  EXPECT(&w, &plain, "- _sluice.a.z. TXT \"sluice owner=sluice types=A\"", "",
         "-_sluice.a.z./TXT\n");
  EXPECT(&w, &plain, "- _sluice.a.z. TXT \"sluice owner=other types=A\"", "", "");
}

Test(sync_plan, markers_name_their_owner) {
  static const char actual[] =
      "- a.z. A 192.0.2.1\n- _sluice.a.z. TXT \"sluice owner=other types=A,MX\"";
  struct world w = {0};
  make(&w, &plain, actual, "- a.z. A 192.0.2.2");
  cr_assert_eq(w.plan.count, 1, "%s", w.text);
  cr_expect_str_eq(w.plan.items[0].old->owner, "other");
  cr_expect_eq(w.plan.items[0].held, SYNC_TAKE_OVER);
  end(&w);
  w.input.consents = SYNC_TAKE_OVER;
  make(&w, &plain, actual, "- a.z. A 192.0.2.2");
  cr_assert_eq(w.plan.count, 2, "%s", w.text);
  char *marker = json_dumps(w.plan.items[0].new->body, JSON_COMPACT);
  cr_expect_str_eq(marker, "{\"ttl\":300,\"values\":[\"\\\"sluice owner=other types=MX\\\"\","
                           "\"\\\"sluice owner=sluice types=A\\\"\"]}");
  free(marker);
  end(&w);
}

/* Marks come before what they mark and go after it: an end at any moment leaves nothing without. */
Test(sync_plan, order_of_changes) {
  struct world w = {0};
  make(&w, &plain, "- b.z. A 192.0.2.1\n- _sluice.b.z. TXT \"sluice owner=sluice types=A\"\n",
       "- a.z. A 192.0.2.1");
  size_t count;
  bool failed;
  char order[TEXT] = "";
  struct provider_change *changes = sync_plan_changes(&w.plan, &count, &failed);
  for (size_t i = 0; i < count; i++)
    sprintf(order + strlen(order), "%s ",
            changes[i].new ? changes[i].new->key : changes[i].old->key);
  cr_expect_str_eq(order, "_sluice.a.z./TXT a.z./A b.z./A _sluice.b.z./TXT ");
  free(changes);
  end(&w);
}

Test(sync_plan, names_restrict_it) {
  static const char *const names[] = {"a.z."};
  struct world w = {.input = {.names = names, .name_count = 1}};
  EXPECT(&w, &marks, "sluice b.z. A 192.0.2.1", "- a.z. A 192.0.2.1\n- c.z. A 192.0.2.1",
         "+a.z./A\n");
  EXPECT(&w, &plain, "- _sluice.b.z. TXT \"sluice owner=sluice types=A\"", "- a.z. A 192.0.2.1",
         "+_sluice.a.z./TXT\"\\\"sluice owner=sluice types=A\\\"\"\n+a.z./A\n");
}

Test(sync_plan, what_a_deploy_brings_is_only_told) {
  static const struct provider_capabilities own = {
      .marks = true, .apex_ns = true, .deployed = true};
  struct world w = {.input = {.consents = ~0U}};
  EXPECT(&w, &own, "", "- a.z. A 192.0.2.1", "+a.z./A held comes by a deploy\n");
}

Test(sync_plan, digest_covers_values_and_holds) {
  struct world a = {0}, b = {0}, c = {.input = {.consents = SYNC_TAKE_OVER}};
  char hash[3][SYNC_DIGEST];
  struct world *all[] = {&a, &b, &c};
  const char *desired[] = {"- a.z. A 192.0.2.2", "- a.z. A 192.0.2.3", "- a.z. A 192.0.2.2"};
  for (int i = 0; i < 3; i++) {
    make(all[i], &marks, "- a.z. A 192.0.2.1", desired[i]);
    json_t *document = sync_plan_json(&all[i]->plan);
    cr_assert(sync_digest(document, hash[i]));
    json_decref(document);
    end(all[i]);
  }
  cr_expect_str_neq(hash[0], hash[1]);
  cr_expect_str_neq(hash[0], hash[2]);
  cr_expect_eq(strlen(hash[0]), 64);
}

Test(sync_plan, ten_thousand_records) {
  struct provider_objects sides[2];
  struct sync_plan plan;
  for (int s = 0; s < 2; s++) {
    provider_objects_init(&sides[s]);
    for (int i = 0; i < 10000; i++) {
      char name[32];
      snprintf(name, sizeof name, "n%d.z.", s ? i : i + 5000);
      cr_assert(provider_add_rrset(&sides[s], name, "A", 60, json_pack("[s]", "192.0.2.1")));
    }
  }
  struct sync_plan_input input = {.zone = "z.",
                                  .mark = "sluice",
                                  .can = &plain,
                                  .actual = &sides[0],
                                  .desired = &sides[1],
                                  .consents = SYNC_TAKE_OVER | SYNC_LARGE};
  cr_assert(sync_plan_make(&input, &plan));
  cr_expect_eq(plan.creates, 5000);
  cr_expect_eq(plan.updates, 5000);
  cr_expect_eq(plan.kept_count, 5000);
  sync_plan_close(&plan);
  for (int s = 0; s < 2; s++)
    provider_objects_close(&sides[s]);
}

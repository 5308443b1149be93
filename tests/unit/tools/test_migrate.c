/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a migration: what comes next, what is not accepted, and the state on disk. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/sync/migrate.h"
#include "tools/sync/migrate_state.h"
#include "tools/sync/nameset.h"

enum { TTL = 100, NEGATIVE = 7, SETTLE = 10, TEXT = 4096 };

static struct migrate_state s;
static json_t *apex, *parent; /* as they really are */
static int64_t now;

static void put(json_t **set, const char *names) {
  json_decref(*set);
  *set = nameset_parse(names);
  cr_assert(*set, "%s", names);
}

static void begin(void) {
  cr_assert(migrate_open(&s));
  s.zone = strdup("tm.example.");
  s.from = strdup("a");
  s.to = strdup("b");
  s.settle = SETTLE;
  s.started = now = 1000000;
  put(&s.old, "a1.,a2.");
  put(&s.new, "b1.,b2.");
  put(&s.others, "c.");
  put(&s.apex, "a1.,a2.,c.");
  put(&s.parent, "a1.,a2.,c.");
  put(&apex, "a1.,a2.,c.");
  put(&parent, "a1.,a2.,c.");
}

static void end(void) {
  migrate_close(&s);
  json_decref(apex);
  json_decref(parent);
  apex = parent = NULL;
}

static struct migrate_view view_now(void) {
  return (struct migrate_view){.now = now,
                               .negative_ttl = NEGATIVE,
                               .apex = {.all = apex, .any = apex, .ttl = TTL},
                               .parent = {.all = parent, .any = parent, .ttl = 2 * TTL}};
}

static bool note(char *why) {
  struct migrate_view view = view_now();
  bool changed;
  return migrate_note(&s, &view, &changed, why);
}

static void move(json_t **set, const char *name) {
  const struct migrate_seen seen = {.all = *set, .any = *set};
  json_t *other = migrate_wanted(&s, &seen, name);
  json_decref(*set);
  *set = other;
}

/* Does one step; its text is added to `log`.  Before each of them the state goes through JSON. */
static bool step(char *log) {
  struct migrate_view view = view_now();
  struct migrate_action action;
  char why[MIGRATE_WHY] = "";
  char line[128] = "";
  bool changed;
  json_t *document = migrate_encode(&s);
  migrate_close(&s);
  cr_assert(migrate_open(&s) && migrate_decode(&s, document, why), "%s", why);
  json_decref(document);
  if (s.phase > MIGRATE_CHECK)
    cr_assert(migrate_note(&s, &view, &changed, why), "%s", why);
  migrate_next(&s, &view, now, &action);
  switch (action.act) {
  case MIGRATE_DO_APEX:
  case MIGRATE_DO_PARENT:
    snprintf(line, sizeof line, "%s%c%s ", action.act == MIGRATE_DO_APEX ? "apex" : "parent",
             migrate_hurries(&s) ? '='
             : migrate_adds(&s)  ? '+'
                                 : '-',
             action.name);
    move(action.act == MIGRATE_DO_APEX ? &apex : &parent, action.name);
    break;
  case MIGRATE_DO_WAIT:
    cr_assert_gt(action.until, now);
    snprintf(line, sizeof line, "wait%lld ", (long long)(action.until - now) / 1000);
    now = action.until;
    break;
  case MIGRATE_DO_NOTHING:
    return false;
  default:
    if (action.act != MIGRATE_DO_NEXT)
      snprintf(line, sizeof line, "%s ", migrate_phase_name(s.phase));
    migrate_advance(&s);
  }
  strncat(log, line, TEXT - strlen(log) - 1);
  return true;
}

static const char *run_all(void) {
  static char log[TEXT];
  log[0] = '\0';
  for (int i = 0; i < 200 && step(log); i++)
    continue;
  cr_assert_eq(s.phase, MIGRATE_DONE, "%s", log);
  return log;
}

static void run_until(enum migrate_phase phase) {
  char log[TEXT] = "";
  for (int i = 0; i < 200 && s.phase != phase; i++)
    cr_assert(step(log));
}

static void is_set(const json_t *set, const char *names) {
  json_t *wanted = nameset_parse(names);
  char text[200];
  cr_assert(nameset_equal(set, wanted), "%s, not %s", nameset_text(set, text, sizeof text), names);
  json_decref(wanted);
}

Test(migrate, all_steps_in_their_order) {
  begin();
  cr_assert_str_eq(
      run_all(), "check fill verify apex+b1. wait10 apex+b2. parent+b1. wait10 parent+b2. wait200 "
                 "parent-a1. wait10 parent-a2. apex-a1. wait10 apex-a2. wait200 ");
  is_set(apex, "b1.,b2.,c.");
  is_set(parent, "b1.,b2.,c.");
  end();
}

Test(migrate, the_pause_is_never_longer_than_the_ttl) {
  begin();
  s.settle = MIGRATE_SETTLE;
  cr_assert(strstr(run_all(), "apex+b1. wait100 apex+b2. parent+b1. wait200 parent+b2. wait200 "));
  end();
}

Test(migrate, the_largest_ttl_ever_seen_counts) {
  begin();
  s.apex_ttl = 5000;
  cr_assert(strstr(run_all(), "wait5000 parent-a1."));
  end();
  begin();
  s.negative_ttl = 3600;
  cr_assert(strstr(run_all(), "wait3600 parent-a1."));
  end();
}

Test(migrate, back_from_each_phase_leaves_all_as_it_was) {
  for (int phase = MIGRATE_CHECK; phase < MIGRATE_PHASES; phase++) {
    begin();
    run_until((enum migrate_phase)phase);
    migrate_turn(&s, true);
    run_all();
    is_set(apex, "a1.,a2.,c.");
    is_set(parent, "a1.,a2.,c.");
    cr_assert(s.back);
    /* And forward again. */
    migrate_turn(&s, false);
    run_all();
    is_set(apex, "b1.,b2.,c.");
    is_set(parent, "b1.,b2.,c.");
    end();
  }
}

Test(migrate, the_way_back_adds_before_it_removes) {
  begin();
  run_until(MIGRATE_APEX_OUT);
  migrate_turn(&s, true);
  cr_assert_str_eq(run_all(), "fill verify parent+a1. wait10 parent+a2. wait200 parent-b1. wait10 "
                              "parent-b2. apex-b1. wait10 apex-b2. wait200 ");
  end();
}

/* After each cut-off the same is done again, until it is seen everywhere. */
Test(migrate, a_change_that_is_seen_in_part_is_repeated) {
  char why[MIGRATE_WHY];
  struct migrate_action action;
  bool changed;
  begin();
  run_until(MIGRATE_APEX_IN);
  json_t *more = nameset_parse("a1.,a2.,b1.,c.");
  struct migrate_view view = view_now();
  view.apex.any = more;
  cr_assert(migrate_note(&s, &view, &changed, why), "%s", why);
  is_set(s.apex, "a1.,a2.,c.");
  migrate_next(&s, &view, now, &action);
  cr_assert_eq(action.act, MIGRATE_DO_APEX);
  cr_assert_str_eq(action.name, "b1.");
  view.apex.all = more;
  cr_assert(migrate_note(&s, &view, &changed, why) && changed);
  is_set(s.apex, "a1.,a2.,b1.,c.");
  cr_assert_eq(s.apex_since, now);
  json_decref(more);
  end();
}

/* A change that was cut off is not at all name servers: the way back does not wait for that. */
static void turns_amid(enum migrate_phase phase, const char *name, const char *there) {
  char why[MIGRATE_WHY] = "";
  bool changed = false;
  begin();
  run_until(phase);
  bool at_apex = phase == MIGRATE_APEX_IN || phase == MIGRATE_APEX_OUT;
  struct migrate_view view = view_now();
  struct migrate_seen *seen = at_apex ? &view.apex : &view.parent;
  json_t *one = nameset_parse(name);
  bool in = migrate_adds(&s);
  json_t *changing = in ? nameset_union(seen->any, one) : nameset_minus(seen->all, one);
  *(in ? &seen->any : &seen->all) = changing;
  migrate_turn(&s, true);
  cr_assert(migrate_note(&s, &view, &changed, why) && changed, "%s", why);
  is_set(at_apex ? s.apex : s.parent, there);
  cr_assert_eq(s.changed, now);
  cr_assert(migrate_note(&s, &view, &changed, why) && !changed, "%s", why);
  json_decref(one);
  json_decref(changing);
  run_all();
  is_set(apex, "a1.,a2.,c.");
  is_set(parent, "a1.,a2.,c.");
  end();
}

Test(migrate, turned_amid_a_change) {
  turns_amid(MIGRATE_APEX_IN, "b1.", "a1.,a2.,b1.,c.");
  turns_amid(MIGRATE_PARENT_IN, "b1.", "a1.,a2.,b1.,c.");
  turns_amid(MIGRATE_PARENT_OUT, "a1.", "a2.,b1.,b2.,c.");
  turns_amid(MIGRATE_APEX_OUT, "a1.", "a2.,b1.,b2.,c.");
}

Test(migrate, turned_amid_a_change_of_others) {
  char why[MIGRATE_WHY] = "";
  bool changed;
  begin();
  run_until(MIGRATE_APEX_IN);
  json_t *more = nameset_parse("a1.,a2.,c.,x.");
  struct migrate_view view = view_now();
  view.apex.any = more;
  migrate_turn(&s, true);
  cr_assert(!migrate_note(&s, &view, &changed, why));
  cr_assert(strstr(why, "not yet the same everywhere"), "%s", why);
  json_decref(more);
  end();
}

Test(migrate, all_at_once_is_fine_too) {
  begin();
  run_until(MIGRATE_PARENT_IN);
  put(&parent, "a1.,a2.,b1.,b2.,c.");
  cr_assert(strstr(run_all(), "wait200 parent-a1."));
  end();
}

/* What a provider that is down fails anyhow is not waited for; the end is, for both TTLs. */
Test(migrate, all_at_once_where_the_old_one_is_down) {
  begin();
  cr_assert(migrate_set_down(&s, "a"));
  cr_assert_str_eq(run_all(), "check fill verify apex=b1. parent=b1. wait300 ");
  is_set(apex, "b1.,b2.,c.");
  is_set(parent, "b1.,b2.,c.");
  end();
}

Test(migrate, down_from_each_phase) {
  for (int phase = MIGRATE_CHECK; phase < MIGRATE_DONE; phase++) {
    begin();
    run_until((enum migrate_phase)phase);
    cr_assert(migrate_set_down(&s, "a"));
    json_t *filled = migrate_wanted_apex(&s);
    is_set(filled, "b1.,b2.,c.");
    json_decref(filled);
    cr_assert_eq(s.phase, phase == MIGRATE_VERIFY ? MIGRATE_FILL : (enum migrate_phase)phase);
    const char *log = run_all();
    cr_assert_null(strchr(log, '+'), "%s", log);
    cr_assert(strcmp(log + strlen(log) - 8, "wait300 ") == 0 || phase == MIGRATE_WAIT_OUT, "%s",
              log);
    is_set(apex, "b1.,b2.,c.");
    is_set(parent, "b1.,b2.,c.");
    /* Back is the long way: what it has is of old. */
    migrate_turn(&s, true);
    cr_assert(!migrate_is_down(&s, "a"));
    cr_assert_str_eq(run_all(), "fill verify apex+a1. wait10 apex+a2. parent+a1. wait10 parent+a2. "
                                "wait200 parent-b1. wait10 parent-b2. apex-b1. wait10 apex-b2. "
                                "wait200 ");
    end();
  }
}

/* Half of it was done at once already: what is there of the old one is of old, too. */
Test(migrate, back_to_one_that_was_down_begins_with_filling) {
  begin();
  cr_assert(migrate_set_down(&s, "a"));
  run_until(MIGRATE_PARENT_IN);
  migrate_turn(&s, true);
  cr_assert_eq(s.phase, MIGRATE_FILL);
  run_all();
  is_set(apex, "a1.,a2.,c.");
  is_set(parent, "a1.,a2.,c.");
  end();
}

/* And on the way back the other may be down. */
Test(migrate, back_without_the_new_one) {
  begin();
  run_until(MIGRATE_WAIT_IN);
  migrate_turn(&s, true);
  cr_assert(!migrate_set_down(&s, "a"));
  cr_assert(migrate_set_down(&s, "b"));
  cr_assert_str_eq(run_all(), "apex=b1. parent=b1. wait300 ");
  is_set(apex, "a1.,a2.,c.");
  is_set(parent, "a1.,a2.,c.");
  end();
}

/* Until it was written it told older NS records: the wait begins again. */
Test(migrate, one_that_is_there_again) {
  static const enum migrate_phase phases[] = {MIGRATE_WAIT_IN, MIGRATE_WAIT_OUT};
  for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
    char log[TEXT] = "";
    begin();
    run_until(MIGRATE_APEX_IN);
    cr_assert(migrate_set_down(&s, "c"));
    run_until(phases[i]);
    now += 150000;
    migrate_rejoin(&s, "c", now);
    cr_assert(!migrate_is_down(&s, "c"));
    cr_assert(step(log));
    cr_assert_str_eq(log, "wait200 ");
    end();
  }
  begin();
  cr_assert(migrate_set_down(&s, "a"));
  run_until(MIGRATE_VERIFY);
  migrate_rejoin(&s, "a", now);
  cr_assert(strstr(run_all(), "fill verify apex+b1. wait10 apex+b2. parent+b1. "));
  is_set(apex, "b1.,b2.,c.");
  end();
}

/* Nobody is there who could tell of the apex: it counts as it was. */
Test(migrate, an_apex_that_nobody_tells) {
  char why[MIGRATE_WHY] = "";
  bool changed;
  begin();
  run_until(MIGRATE_FILL);
  struct migrate_view view = view_now();
  view.apex = (struct migrate_seen){0};
  cr_assert(!migrate_note(&s, &view, &changed, why));
  cr_assert(migrate_set_down(&s, "a"));
  cr_assert(migrate_note(&s, &view, &changed, why), "%s", why);
  is_set(s.apex, "a1.,a2.,c.");
  /* And the zone that was filled names its own. */
  put(&apex, "b1.,b2.,c.");
  s.phase = MIGRATE_VERIFY;
  cr_assert(note(why), "%s", why);
  is_set(s.apex, "b1.,b2.,c.");
  end();
}

static void stops(enum migrate_phase phase, const char *apex_now, const char *parent_now,
                  const char *text) {
  char why[MIGRATE_WHY] = "";
  begin();
  run_until(phase);
  char *before = json_dumps(s.apex, 0);
  if (apex_now)
    put(&apex, apex_now);
  if (parent_now)
    put(&parent, parent_now);
  cr_assert(!note(why));
  cr_assert(strstr(why, text), "%s", why);
  char *after = json_dumps(s.apex, 0);
  cr_assert_str_eq(before, after);
  free(before);
  free(after);
  end();
}

Test(migrate, what_others_change_stops_it) {
  stops(MIGRATE_VERIFY, "a1.,a2.,b1.,c.", NULL, "b1. has come into the NS records of the apex");
  stops(MIGRATE_WAIT_IN, NULL, "a1.,a2.,b1.,b2.,c.,x.", "x. has come into the NS records");
  stops(MIGRATE_WAIT_IN, NULL, "a1.,a2.,b2.,c.", "b1. has gone from the NS records of the deleg");
  stops(MIGRATE_WAIT_IN, "a1.,a2.,b1.,b2.", NULL, "c. has gone from the NS records of the apex");
  stops(MIGRATE_APEX_OUT, NULL, "a1.,b1.,b2.,c.", "a1. has come into");
}

Test(migrate, as_is_goes_on_from_what_is_there) {
  char why[MIGRATE_WHY];
  begin();
  run_until(MIGRATE_PARENT_OUT);
  put(&parent, "a1.,b2.,c.,x.");
  put(&apex, "a1.,a2.,b1.,b2.,c.,x.");
  cr_assert(!note(why));
  migrate_turn(&s, false);
  run_all();
  is_set(apex, "b1.,b2.,c.,x.");
  is_set(parent, "b1.,b2.,c.,x.");
  end();
}

Test(migrate, no_ns_records_stop_it) {
  char why[MIGRATE_WHY];
  begin();
  run_until(MIGRATE_PARENT_IN);
  json_array_clear(parent);
  cr_assert(!note(why));
  cr_assert(strstr(why, "of its parent zone"), "%s", why);
  end();
}

/* Complaint C14: a name is the same however it is written. */
Test(nameset, C14_names_once_whatever_their_form) {
  json_t *set = nameset_parse("NS1.example.net.,ns1.Example.NET,ns0.example.net");
  json_t *list = json_pack("[sss]", "ns0.example.net.", "ns1.example.net", "ns1.example.net.");
  json_t *other = nameset_read(list);
  cr_assert(set && other && json_equal(set, other));
  cr_assert_eq(json_array_size(set), 2);
  json_decref(set);
  json_decref(list);
  json_decref(other);
}

Test(nameset, what_is_no_name_is_no_set) {
  cr_assert_null(nameset_parse("a..b"));
  cr_assert_null(nameset_parse(""));
  json_t *list = json_pack("[si]", "a.", 1);
  cr_assert_null(nameset_read(list));
  json_decref(list);
  cr_assert_null(nameset_read(NULL));
}

Test(migrate, damaged_states_are_refused) {
  static const struct {
    const char *key;
    const char *value; /* JSON; NULL: missing */
  } cases[] = {
      {"v", "2"},
      {"zone", "\"a..b\""},
      {"zone", NULL},
      {"from", "\"\""},
      {"from", "\"b\""},
      {"to", "\"x/../y\""},
      {"phase", "\"fly\""},
      {"old", "[]"},
      {"old", "[\"b1.\"]"},
      {"new", "[1]"},
      {"others", "{}"},
      {"apex", "[]"},
      {"parent", "[]"},
      {"changed", "-1"},
      {"changed", "1e3"},
      {"apex_ttl", "2147483648"},
      {"settle", "\"1\""},
      {"back", "0"},
      {"parents", "[\"\"]"},
      {"parents", NULL},
      {"down", "{}"},
      {"down", "[1]"},
      {"down", "[\"b\"]"},
      {"down", "[\"c\",\"c\"]"},
      {"down", "[\"a/b\"]"},
  };
  begin();
  s.phase = MIGRATE_APEX_IN;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct migrate_state copy;
    char why[MIGRATE_WHY] = "";
    json_t *document = migrate_encode(&s);
    if (cases[i].value)
      json_object_set_new(document, cases[i].key,
                          json_loads(cases[i].value, JSON_DECODE_ANY, NULL));
    else
      json_object_del(document, cases[i].key);
    cr_assert(migrate_open(&copy));
    cr_assert(!migrate_decode(&copy, document, why), "%s: %s", cases[i].key, cases[i].value);
    cr_assert(why[0] == '`', "%s", why);
    migrate_close(&copy);
    json_decref(document);
  }
  end();
}

Test(migrate, files) {
  char folder[] = "/tmp/migrate-XXXXXX";
  char why[MIGRATE_WHY] = "";
  struct migrate_state copy;
  bool found = true;
  cr_assert(mkdtemp(folder));
  begin();
  char *path = migrate_path(folder, s.zone);
  char *odd = migrate_path(folder, "0/25.2.0.192.in-addr.arpa.");
  cr_assert(strstr(path, "/tm.example.json"), "%s", path);
  cr_assert(strstr(odd, "/0=2F25.2"), "%s", odd);
  cr_assert(migrate_open(&copy));
  cr_assert(migrate_load(&copy, path, &found, why) && !found);
  cr_assert(migrate_save(&s, path, why), "%s", why);
  cr_assert(migrate_load(&copy, path, &found, why) && found, "%s", why);
  cr_assert_str_eq(copy.zone, s.zone);
  int lock = migrate_lock(path, why);
  cr_assert_geq(lock, 0, "%s", why);
  cr_assert_lt(migrate_lock(path, why), 0);
  cr_assert(strstr(why, "another `sluice sync migrate`"), "%s", why);
  close(lock);
  char command[100];
  snprintf(command, sizeof command, "rm -r %s", folder);
  cr_assert_eq(system(command), 0);
  migrate_close(&copy);
  free(path);
  free(odd);
  end();
}

/* C39 of providers.md: where NS records of the apex cannot be changed, a zone cannot be beside
 * another one. */
Test(migrate, C39_needs_the_apex) {
  static const struct provider_kind kinds[] = {
      {.type = "fixed", .can = {.steers = true}},
      {.type = "free", .can = {.steers = true, .apex_ns = true}},
  };
  static char name[] = "dns-x";
  static struct migrate_job job;
  struct sync_provider provider = {.name = name, .kind = &kinds[0]};
  struct sync_target target = {.provider = &provider};
  cr_assert(!migrate_check_provider(&job, &target));
  cr_assert(strstr(job.why, "dns-x: providers of type fixed do not let the NS records"), "%s",
            job.why);
  cr_assert(strstr(job.why, "beside another one"), "%s", job.why);
  provider.kind = &kinds[1];
  cr_assert(migrate_check_provider(&job, &target));
  provider.kind = NULL;
  snprintf(provider.error.text, sizeof provider.error.text, "no such type");
  cr_assert(!migrate_check_provider(&job, &target));
}

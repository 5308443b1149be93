/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "state_fixture.h"
#include "tools/endpoints/effect.h"
#include "tools/times.h"

static struct effect_entry *entry(struct effect *effect, size_t region, size_t i) {
  return &effect->regions[region].entries[i];
}

Test(state, entries) {
  struct state *state = state_fixture(NULL, NULL);
  cr_assert_eq(state->revision, 7);
  cr_assert_eq(state_entry(state->steer, 0, 1, 2), 2);
  cr_assert_eq(state_entry(state->steer, 0, 2, 1), 3);
  cr_assert_eq(state_entry(state->steer, 1, 1, 0), 4);
  cr_assert_eq(state_entry(state->steer, 0, 2, 0), -1);
  cr_assert_eq(state_entry(state->steer, 0, 3, 0), -1);
  cr_assert_eq(state_entry(state->steer, 2, 1, 0), -1);
  cr_assert(state->feed_connected && state->feed_configured && !state->feed_stale);
  state_free(state);
}

Test(state, overrides) {
  struct state *state = state_fixture(
      "[{'kind':'weight','endpoint':'a','region':'GLOBAL','level':1,'value':0,'who':'ann'},"
      "{'kind':'weight','endpoint':'gone','region':'eu','level':1,'value':5},"
      "{'kind':'weight','endpoint':'a','region':'nowhere','level':1,'value':5},"
      "{'kind':'weight','endpoint':'a','region':'eu','level':9,'value':5},"
      "{'kind':'status','endpoint':'b','value':2,'reason':'disk'},"
      "{'kind':'health','endpoint':'four','family':4,'value':2}]",
      "[{'endpoint':'four','family':4,'state':'up','checked':true,'since':5,'why':'status 200'},"
      "{'endpoint':'gone','family':4,'state':'up'}]");
  cr_assert_eq(state->override_count, 6);
  cr_assert_eq(state->weights[0], 0, "0 is a weight");
  cr_assert_eq(state->weights[4], -1);
  cr_assert_str_eq(state->weight_of[0]->who, "ann");
  cr_assert_eq(state->status[1].manual, MANUAL_DISABLED);
  cr_assert_str_eq(state->status_of[1]->reason, "disk");
  cr_assert_eq(state->health[2][0].measured, HEALTH_UP);
  cr_assert_eq(state->health[2][0].health, HEALTH_DOWN);
  cr_assert_eq(state->status[2].health4, HEALTH_DOWN);
  cr_assert_not_null(state->health[2][0].forced);
  state_free(state);
}

Test(state, stale_health_does_not_count) {
  char why[STATE_WHY];
  struct state *first = state_fixture("[{'kind':'health','endpoint':'b','family':6,'value':2}]",
                                      "[{'endpoint':'a','family':4,'state':'down'}]");
  json_t *reply = json_deep_copy(first->reply);
  cr_assert_eq(first->status[0].health4, HEALTH_DOWN);
  state_free(first);
  json_object_set_new(json_object_get(reply, "health"), "stale", json_true());
  struct state *state = state_read(reply, why);
  cr_assert_eq(state->status[0].health4, HEALTH_UNKNOWN);
  cr_assert_eq(state->health[0][0].measured, HEALTH_DOWN);
  cr_assert_eq(state->status[1].health6, HEALTH_DOWN, "what is forced still holds");
  state_free(state);
}

static void refused(const char *part, json_t *json) {
  struct state *good = state_fixture(NULL, NULL);
  char why[STATE_WHY] = "";
  json_t *reply = json_deep_copy(good->reply);
  state_free(good);
  if (json)
    json_object_set_new(json_object_get(reply, "domain"), part, json);
  else
    json_object_del(json_object_get(reply, "domain"), part);
  cr_assert_null(state_read(reply, why), "%s", part);
  cr_assert_neq(*why, 0);
}

Test(state, hostile_replies) {
  char why[STATE_WHY];
  cr_assert_null(state_read(NULL, why));
  cr_assert_null(state_read(json_object(), why));
  refused("name", NULL);
  refused("steer", NULL);
  refused("steer", json_object());
  refused("overrides", state_fixture_json("[{}]"));
  refused("overrides", state_fixture_json("[{'kind':'weight','endpoint':'a','value':65536}]"));
  refused("overrides", state_fixture_json("[{'kind':'weight','endpoint':'a','value':-1}]"));
  refused("overrides", state_fixture_json("[{'kind':'status','endpoint':'a','value':3}]"));
  refused("overrides", state_fixture_json("[{'kind':'else','endpoint':'a','value':1}]"));
  refused("overrides",
          state_fixture_json("[{'kind':'weight','endpoint':'a','value':1,'level':70000}]"));
  refused("health", state_fixture_json("[{'endpoint':'a','family':5,'state':'up'}]"));
  refused("health", state_fixture_json("[{'endpoint':'a','family':4,'state':'ill'}]"));
}

Test(effect, shares_now_and_configured) {
  struct state *state =
      state_fixture("[{'kind':'weight','endpoint':'b','region':'eu','level':1,'value':0},"
                    "{'kind':'status','endpoint':'a','value':2}]",
                    NULL);
  struct effect effect;
  cr_assert(effect_compute(&effect, state->steer, &state->facts, NULL));
  cr_assert_eq(effect.count, 2);
  cr_assert_eq(effect.regions[0].level[STEER_A], 2);
  cr_assert_eq(entry(&effect, 0, 3)->share[STEER_A], 1);
  cr_assert_eq(entry(&effect, 0, 0)->configured_share[STEER_A], 1);
  cr_assert_not(entry(&effect, 0, 0)->eligible[STEER_A]);
  /* eu: a is disabled; b has weight 0 but the level is the last one, so that it answers AAAA */
  cr_assert_eq(entry(&effect, 1, 2)->share[STEER_A], 1);
  cr_assert_eq(entry(&effect, 1, 1)->share[STEER_AAAA], 1);
  cr_assert_eq(entry(&effect, 1, 1)->share[STEER_A], 0);
  cr_assert_eq(entry(&effect, 1, 2)->configured_share[STEER_A], 0.5);
  cr_assert(effect_types_differ(state->steer, entry(&effect, 1, 1)));
  cr_assert_not(effect.regions[1].fallback[STEER_A]);
  cr_assert_eq(effect.regions[1].level[STEER_CNAME], 0);
  effect_close(&effect);
  bool picked[2] = {false, true};
  cr_assert(effect_compute(&effect, state->steer, &state->facts, picked));
  cr_assert_eq(effect.count, 1);
  cr_assert_eq(effect.regions[0].region, 1);
  struct buf text;
  buf_init(&text);
  effect_describe(state->steer, &effect.regions[0], STEER_AAAA, &text);
  cr_assert_str_eq(buf_text(&text), "level 1: b 100%");
  buf_close(&text);
  effect_close(&effect);
  state_free(state);
}

Test(effect, empty_and_single) {
  struct state *state = state_fixture(NULL, NULL);
  int32_t weights[7] = {0, -1, 5, -1, -1, -1, -1};
  cr_assert_not(effect_level_is_empty(state->steer, 0, 1, STEER_A, NULL));
  cr_assert_not(effect_level_is_empty(state->steer, 0, 1, STEER_A, weights));
  cr_assert(effect_level_is_empty(state->steer, 0, 1, STEER_AAAA, weights));
  cr_assert_eq(effect_level_single(state->steer, 0, 1, STEER_A), -1);
  cr_assert_eq(effect_level_single(state->steer, 0, 2, STEER_A), -1, "it is alone anyway");
  state_free(state);
}

Test(effect, share_texts) {
  char text[EFFECT_SHARE];
  const struct {
    double share;
    const char *text;
  } cases[] = {{0, "0%"},          {1, "100%"},          {0.5, "50%"},      {1.0 / 3, "33.3%"},
               {1e-6, "<0.1%"},    {1 - 1e-6, ">99.9%"}, {0.95, "95%"},     {0.001, "0.1%"},
               {0.9996, ">99.9%"}, {0.0 / 1, "0%"},      {0.12345, "12.3%"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    cr_assert_str_eq(effect_share_text(cases[i].share, text), cases[i].text, "%f", cases[i].share);
}

Test(times, spans) {
  int64_t seconds = 0;
  const struct {
    const char *text;
    int64_t seconds;
  } good[] = {{"1s", 1},      {"90s", 90},     {"30m", 1800},       {"2h", 7200},
              {"7d", 604800}, {"1h30m", 5400}, {"1d2h3m4s", 93784}, {"3660d", 316224000}};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    cr_assert(times_read_span(good[i].text, &seconds), "%s", good[i].text);
    cr_assert_eq(seconds, good[i].seconds, "%s", good[i].text);
  }
  const char *const bad[] = {"",      "0s",   "1",    "s",  "-1h",   "+1h",          "1.5h", "1 h",
                             "1h 2m", "1m1h", "1h1h", "1w", "4000d", "99999999999s", "1H"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    cr_assert_not(times_read_span(bad[i], &seconds), "%s", bad[i]);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "state_fixture.h"
#include "tools/endpoints/draining.h"
#include "tools/endpoints/output.h"
#include "tools/endpoints/setting.h"
#include "tools/endpoints/show.h"

static char why[SETTING_WHY];

static bool compute(struct setting *setting, const struct state *state, const bool *picked,
                    uint32_t level, const char *word) {
  struct weights weights;
  char *words[1] = {(char *)(uintptr_t)word};
  char problem[WEIGHTS_WHY];
  *setting = (struct setting){0};
  cr_assert(weights_read(&weights, words, 1, problem), "%s", problem);
  bool ok = setting_compute(setting, state, picked, level, &weights, why);
  weights_close(&weights);
  return ok;
}

Test(setting, only_what_is_picked_changes) {
  struct state *state = state_fixture(NULL, NULL);
  struct setting setting;
  const bool picked[2] = {false, true};
  cr_assert(compute(&setting, state, picked, 1, "without[a]"));
  const int32_t expected[7] = {-1, -1, -1, -1, 0, -1, -1};
  cr_assert_arr_eq(setting.weights, expected, sizeof expected);
  cr_assert(setting.touched[4] && !setting.touched[5] && !setting.touched[0]);
  setting_close(&setting);
  state_free(state);
}

Test(setting, what_is_missing_is_named) {
  struct state *state = state_fixture(NULL, NULL);
  struct setting setting;
  const bool all[2] = {true, true};
  cr_assert_not(compute(&setting, state, all, 2, "b=1"));
  cr_assert_str_eq(why, "there is no level 2 in: eu");
  setting_close(&setting);
  const bool global[2] = {true, false};
  cr_assert_not(compute(&setting, state, global, 2, "a=1"));
  cr_assert(strstr(why, "a is not in level 2 of: global"), "%s", why);
  setting_close(&setting);
  cr_assert_not(compute(&setting, state, all, 1, "shift[b:a,10]"));
  cr_assert(strstr(why, "global level 1: shift[b:a,10]: b has 0 of 100"), "%s", why);
  setting_close(&setting);
  state_free(state);
}

/* "refusal|warnings" of a request on the global region. */
static const char *judged(const char *overrides, const char *word) {
  static char out[2000];
  struct state *state = state_fixture(overrides, NULL);
  struct setting setting;
  struct buf refusal, warnings;
  const bool picked[2] = {true, false};
  buf_init(&refusal);
  buf_init(&warnings);
  cr_assert(compute(&setting, state, picked, 1, word), "%s", why);
  cr_assert(setting_judge(&setting, state, picked, 1, &refusal, &warnings));
  snprintf(out, sizeof out, "%s|%s", buf_text(&refusal), buf_text(&warnings));
  buf_close(&refusal);
  buf_close(&warnings);
  setting_close(&setting);
  state_free(state);
  return out;
}

Test(setting, refusals) {
  cr_assert_str_eq(judged(NULL, "a=5"), "|");
  cr_assert_str_eq(judged(NULL, "a=0"),
                   "level 1 of global would have no weight above 0 (served then: A by level 2: b "
                   "100%; AAAA by level 2: b 100%)|");
  cr_assert_str_eq(judged(NULL, "only[four]"),
                   "level 1 of global would have no weight above 0 for AAAA (served then: level 2: "
                   "b 100%)|");
  /* what is so already is no reason to refuse what mends it in part */
  cr_assert_str_eq(
      judged("[{'kind':'weight','endpoint':'a','region':'global','level':1,'value':0}]", "four=5"),
      "|level 1 of global has no weight above 0 for AAAA\n");
  cr_assert_str_eq(
      judged("[{'kind':'weight','endpoint':'a','region':'global','level':1,'value':0}]", "b=0"),
      "|level 1 of global has no weight above 0\n");
}

/* ---- draining ------------------------------------------------------------------------------- */

static struct plan plan_of(const struct state *state) {
  return (struct plan){
      .state = state, .changes = json_array(), .what = json_pack("{s:[]}", "changes")};
}

static void plan_close(struct plan *plan) {
  json_decref(plan->changes);
  json_decref(plan->what);
}

static bool drain(struct plan *plan, const char *pattern) {
  bool picked[3];
  draining_match(plan->state->steer, pattern, picked);
  return draining_plan(plan, picked, "drain:x", why);
}

Test(draining, skips_what_nothing_else_can_take) {
  struct state *state = state_fixture(NULL, NULL);
  struct plan plan = plan_of(state);
  cr_assert_not(drain(&plan, "b")); /* level 2 of global has nothing else */
  cr_assert(strstr(why, "in global nothing else has a weight for A from level 2 on"), "%s", why);
  plan_close(&plan);
  plan = plan_of(state);
  cr_assert_not(drain(&plan, "[ab]"));
  plan_close(&plan);
  plan = plan_of(state);
  cr_assert(drain(&plan, "a"));
  cr_assert_eq(json_array_size(plan.changes), 2);
  const json_t *change = json_array_get(plan.changes, 0);
  cr_assert_str_eq(json_string_value(json_object_get(change, "cause")), "drain:x");
  cr_assert_str_eq(json_string_value(json_object_get(change, "before")), "");
  plan_close(&plan);
  plan = plan_of(state);
  cr_assert(drain(&plan, "none*"));
  cr_assert_eq(json_array_size(plan.changes), 0);
  plan_close(&plan);
  state_free(state);
}

Test(draining, is_undone) {
  struct state *state = state_fixture(
      "[{'kind':'weight','endpoint':'a','region':'global','level':1,'value':0,'cause':'drain:x',"
      "'before':''},"
      "{'kind':'weight','endpoint':'a','region':'eu','level':1,'value':0,'cause':'drain:x',"
      "'before':'{\\u0022value\\u0022:9,\\u0022expires_at\\u0022:2000,\\u0022reason\\u0022:"
      "\\u0022r\\u0022}'},"
      "{'kind':'weight','endpoint':'b','region':'eu','level':1,'value':0,'cause':'drain:y',"
      "'before':''},"
      "{'kind':'weight','endpoint':'four','region':'eu','level':1,'value':0,'cause':'drain:x',"
      "'before':'[nonsense'}]",
      NULL);
  struct plan plan = plan_of(state);
  draining_undo(&plan, "drain:x", 1000);
  cr_assert_eq(json_array_size(plan.changes), 3);
  const json_t *again = json_array_get(plan.changes, 1);
  cr_assert_eq(json_integer_value(json_object_get(again, "value")), 9);
  cr_assert_eq(json_integer_value(json_object_get(again, "expires_at")), 2000);
  cr_assert_str_eq(json_string_value(json_object_get(again, "reason")), "r");
  for (size_t i = 0; i < 3; i += 2)
    cr_assert_str_eq(json_string_value(json_object_get(json_array_get(plan.changes, i), "op")),
                     "drop");
  plan_close(&plan);
  plan = plan_of(state);
  draining_undo(&plan, "drain:x", 2000); /* its time is over by now */
  cr_assert_str_eq(json_string_value(json_object_get(json_array_get(plan.changes, 1), "op")),
                   "drop");
  plan_close(&plan);
  state_free(state);
}

Test(draining, tells_what_was_set_since) {
  struct state *state = state_fixture(
      "[{'kind':'weight','endpoint':'a','region':'eu','level':1,'value':77,'who':'ann'}]", NULL);
  json_t *history = state_fixture_json(
      "[{'command':'undrain','revision':99,'what':{'pattern':'a'}},"
      "{'command':'set','revision':6,'what':{'changes':[]}},"
      "{'command':'drain','revision':5,'what':{'pattern':'a','changes':["
      "{'region':'global','level':1,'endpoint':'a'},{'region':'eu','level':1,'endpoint':'a'},"
      "{'region':'gone','level':1,'endpoint':'a'},{'region':1}, 5]}}]");
  json_t *kept = draining_kept(state, history, "a", "drain:a");
  cr_assert_eq(json_array_size(kept), 1);
  cr_assert_eq(json_integer_value(json_object_get(json_array_get(kept, 0), "weight")), 77);
  json_decref(kept);
  kept = draining_kept(state, history, "b", "drain:b");
  cr_assert_eq(json_array_size(kept), 0);
  json_decref(kept);
  json_decref(history);
  state_free(state);
}

/* ---- output --------------------------------------------------------------------------------- */

static char *shown(struct state *state, bool colour, int64_t now) {
  struct effect effect;
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  cr_assert(effect_compute(&effect, state->steer, &state->facts, NULL));
  struct show show = {.state = state, .effect = &effect, .now = now, .colour = colour};
  show_text(out, &show);
  json_t *json = show_json(&show);
  cr_assert(json);
  json_decref(json);
  fclose(out);
  effect_close(&effect);
  return text;
}

Test(show, text) {
  struct state *state = state_fixture(
      "[{'kind':'weight','endpoint':'a','region':'eu','level':1,'value':0,'who':'ann','set_at':100,"
      "'expires_at':7300,'reason':'canary','origin':'chat'},"
      "{'kind':'weight','endpoint':'b','region':'eu','level':1,'value':9,'who':'ann','set_at':100,"
      "'expires_at':7300,'reason':'canary','origin':'chat'},"
      "{'kind':'weight','endpoint':'old','region':'eu','level':3,'value':9,'who':'bob'}]",
      "[{'endpoint':'a','family':4,'state':'down','checked':true,'since':40,'why':'status 503'},"
      "{'endpoint':'a','family':6,'state':'up','checked':true,'since':10},"
      "{'endpoint':'b','family':4,'state':'up','checked':true,'since':40},"
      "{'endpoint':'b','family':6,'state':'up','checked':true,'since':40},"
      "{'endpoint':'four','family':4,'state':'unknown','checked':true}]");
  char *text = shown(state, false, 3700);
  const char *const lines[] = {
      "cdn.example.\n  A, AAAA; TTL 30 s\n",
      "  1  a                              100     0% A           100%  A down, AAAA up\n"
      "                                          100% AAAA\n",
      "     four                             0     0% A                 not probed yet\n",
      "  a is down for IPv4 since 1970-01-01 00:00:40 UTC: status 503\n",
      "  eu level 1 a: weight 0 (configured 1)\n  eu level 1 b: weight 9 (configured 1)\n"
      "    by ann (chat), since 1970-01-01 00:01:40 UTC (1 h 0 min ago), until\n"
      "    1970-01-01 02:01:40 UTC: canary\n",
      "  eu level 3 old: weight 9 (not in the configuration)\n    by bob\n",
  };
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    cr_assert(strstr(text, lines[i]), "%s\n---\n%s", lines[i], text);
  cr_assert(strstr(text, "A down, AAAA up"), "%s", text);
  cr_assert(strstr(text, "up, 1 h 1 min"), "%s", text);
  cr_assert_null(strchr(text, '\033'));
  free(text);
  text = shown(state, true, 3700);
  cr_assert(strstr(text, "\033[31mA down"), "%s", text);
  free(text);
  state->feed_connected = false;
  text = shown(state, false, 3700);
  cr_assert(strstr(text, "HEALTH IS OLD"), "%s", text);
  cr_assert(strstr(text, "2 s ago"), "%s", text);
  free(text);
  state->feed_stale = true;
  text = shown(state, false, 3700);
  cr_assert(strstr(text, "HEALTH IS STALE"), "%s", text);
  free(text);
  state_free(state);
}

Test(output, blocks_are_within_the_limits) {
  size_t size = 400000;
  char *text = malloc(size + 1);
  for (size_t i = 0; i < size; i++)
    text[i] = i % 97 == 96 ? '\n' : "<a&`\xc3"[i % 5];
  text[size] = 0;
  json_t *blocks = output_blocks(text);
  size_t i;
  const json_t *block;
  cr_assert_leq(json_array_size(blocks), 50);
  json_array_foreach(blocks, i, block) {
    const char *said = json_string_value(json_object_get(json_object_get(block, "text"), "text"));
    if (!said)
      continue;
    cr_assert_leq(strlen(said), 3000);
    cr_assert_eq(strncmp(said, "```\n", 4), 0);
    cr_assert_str_eq(said + strlen(said) - 3, "```");
    cr_assert_null(strchr(said, '<'));
  }
  json_decref(blocks);
  free(text);
  blocks = output_blocks("one\ntwo");
  cr_assert_eq(json_array_size(blocks), 1);
  json_decref(blocks);
  blocks = output_blocks("");
  cr_assert_eq(json_array_size(blocks), 0);
  json_decref(blocks);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands of `endpoints` read.  The first octet chooses: a selector, the weights of a
 * request (words in lines) or what a server tells of a domain.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/endpoints/draining.h"
#include "tools/endpoints/effect.h"
#include "tools/endpoints/output.h"
#include "tools/endpoints/selector.h"
#include "tools/endpoints/setting.h"
#include "tools/endpoints/show.h"
#include "tools/endpoints/weights.h"

enum { WORDS = 64, REGIONS = 4, ENTRIES = 6 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
  if (!condition)
    abort();
}

static void fuzz_selector(const char *text) {
  static const char *const regions[REGIONS] = {"global", "eu", "us-ny", "192.0.2.0/24"};
  struct selector selector;
  bool picked[REGIONS], any = false;
  char why[SELECTOR_WHY] = "";
  require(selector_read(&selector, text));
  if (selector_match(&selector, regions, REGIONS, picked, why)) {
    for (size_t i = 0; i < REGIONS; i++)
      any = any || picked[i];
    require(any); /* never a silent nothing */
  } else {
    require(strstr(why, "the regions are: global") != NULL);
  }
  selector_close(&selector);
  selector_pattern_wrong(text);
}

static void fuzz_weights(char *text) {
  static const char *const names[ENTRIES] = {"a", "b", "c", "d", "e", "f"};
  uint16_t values[ENTRIES] = {1, 0, 65535, 7, 100, 3}, before[ENTRIES];
  bool touched[ENTRIES] = {false};
  char *words[WORDS], *rest = NULL;
  char why[WEIGHTS_WHY] = "";
  size_t count = 0;
  struct weights weights;
  struct weights_level level = {names, values, touched, ENTRIES};
  for (char *w = strtok_r(text, "\n", &rest); w && count < WORDS; w = strtok_r(NULL, "\n", &rest))
    words[count++] = w;
  memcpy(before, values, sizeof before);
  if (weights_read(&weights, words, count, why) && weights_apply(&weights, &level, why)) {
    for (size_t i = 0; i < ENTRIES; i++)
      require(touched[i] || values[i] == before[i]);
  } else {
    require(*why != 0 && memcmp(before, values, sizeof before) == 0);
  }
  weights_define(&weights, NULL, why);
  weights_close(&weights);
}

static void fuzz_state(const char *text) {
  char why[STATE_WHY] = "";
  json_t *reply = json_loads(text, 0, NULL);
  struct state *state = reply ? state_read(reply, why) : NULL;
  struct effect effect;
  char *shown = NULL;
  size_t size;
  if (!state) {
    require(!reply || *why);
    return;
  }
  FILE *out = open_memstream(&shown, &size);
  require(out && effect_compute(&effect, state->steer, &state->facts, NULL));
  struct show show = {.state = state, .effect = &effect, .now = 1700000000};
  show_text(out, &show);
  json_decref(show_json(&show));
  fclose(out);
  for (const char *p = shown; *p; p++)
    require((unsigned char)*p >= 0x20 || *p == '\n'); /* nothing drives the terminal */
  json_decref(output_blocks(shown));
  free(shown);
  struct plan plan = {
      .state = state, .changes = json_array(), .what = json_pack("{s:[]}", "changes")};
  draining_undo(&plan, "drain:x", 1700000000);
  json_decref(draining_kept(state, json_object_get(state->reply, "history"), "x", "drain:x"));
  json_decref(plan.changes);
  json_decref(plan.what);
  effect_close(&effect);
  state_free(state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  char *text = malloc(size);
  require(text != NULL);
  memcpy(text, data + 1, size - 1);
  text[size - 1] = 0;
  if (data[0] == 's')
    fuzz_selector(text);
  else if (data[0] == 'w')
    fuzz_weights(text);
  else
    fuzz_state(text);
  free(text);
  return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "state_fixture.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const char steer[] =
    "{'owner':'cdn.example.','ttl':30,'answers':1,'draw_per':'query','types':['A','AAAA'],"
    "'endpoints':[{'name':'a','enabled':true,'addresses':['192.0.2.1','2001:db8::1']},"
    "{'name':'b','enabled':true,'addresses':['192.0.2.2','2001:db8::2']},"
    "{'name':'four','enabled':true,'addresses':['192.0.2.4']}],"
    "'regions':[{'name':'global','atoms':['global'],'levels':[[['a',100],['b',0],['four',0]],"
    "[['b',1]]]},"
    "{'name':'eu','atoms':['continent:eu'],'levels':[[['a',1],['b',1],['four',2]]]}]}";

json_t *state_fixture_json(const char *text) {
  char *copy = strdup(text);
  cr_assert(copy);
  for (char *p = copy; *p; p++)
    if (*p == '\'')
      *p = '"';
  json_error_t error;
  json_t *json = json_loads(copy, JSON_DECODE_ANY, &error);
  cr_assert(json, "%s: %s", copy, error.text);
  free(copy);
  return json;
}

struct state *state_fixture(const char *overrides, const char *health) {
  char why[STATE_WHY] = "";
  json_t *reply = json_pack("{s:{s:s, s:s, s:i, s:o, s:o, s:o}, s:s, s:{s:b, s:i, s:s}}", "domain",
                            "name", "cdn.example.", "zone", "example.", "revision", 7, "steer",
                            state_fixture_json(steer), "overrides",
                            state_fixture_json(overrides ? overrides : "[]"), "health",
                            state_fixture_json(health ? health : "[]"), "data", "/data", "health",
                            "connected", 1, "age", 2, "socket", "/run/health.sock");
  cr_assert(reply);
  struct state *state = state_read(reply, why);
  cr_assert(state, "%s", why);
  return state;
}

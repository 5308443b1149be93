/* SPDX-License-Identifier: Apache-2.0 */
/* The document of explain_json() for people, 80 columns wide where names allow it. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "steering/explain.h"

/* The document may come from a socket: whatever is missing or of another type prints as "?" or 0.
 */
static const char *text_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "?";
}

static int number_of(const json_t *object, const char *key) {
  return (int)json_integer_value(json_object_get(object, key));
}

static bool flag_of(const json_t *object, const char *key) {
  return json_is_true(json_object_get(object, key));
}

static const json_t *layer_of(const json_t *document, int number) {
  size_t i;
  json_t *layer;
  json_array_foreach(json_object_get(document, "layers"), i, layer) {
    if (number_of(layer, "layer") == number)
      return layer;
  }
  return NULL;
}

static void add_location(struct buf *b, const json_t *location) {
  const char *continent = json_string_value(json_object_get(location, "continent"));
  const char *country = json_string_value(json_object_get(location, "country"));
  const json_t *asn = json_object_get(location, "asn");
  size_t i;
  json_t *code;
  if (!continent && !country && !json_is_integer(asn)) {
    buf_add_str(b, "an unknown place");
    return;
  }
  buf_printf(b, "continent %s, country %s", continent ? continent : "unknown",
             country ? country : "unknown");
  json_array_foreach(json_object_get(location, "subdivisions"), i, code) {
    const char *text = json_string_value(code);
    buf_printf(b, ", %s", text ? text : "?");
  }
  if (json_is_integer(asn))
    buf_printf(b, ", AS%lld", (long long)json_integer_value(asn));
}

static void add_fence(struct buf *b, const json_t *document) {
  const json_t *layer = layer_of(document, 1);
  size_t i;
  json_t *match;
  buf_add_str(b, "1 fence     the client is in ");
  add_location(b, json_object_get(document, "location"));
  buf_add_str(b, "\n");
  json_array_foreach(json_object_get(layer, "matches"), i, match) {
    const char *atom = text_of(match, "atom");
    bool wins = strcmp(atom, text_of(layer, "atom")) == 0;
    buf_printf(b, "            %s %s -> %s\n", wins ? "*" : " ", atom, text_of(match, "region"));
  }
  buf_printf(b, "            region %s, ECS scope %d\n", text_of(document, "region"),
             number_of(document, "scope"));
}

static const char *entry_state(const json_t *entry) {
  if (flag_of(entry, "disabled"))
    return "disabled";
  if (strcmp(text_of(entry, "health"), "down") == 0)
    return "unhealthy";
  if (flag_of(entry, "drained"))
    return "weight 0: counts as down";
  return strcmp(text_of(entry, "health"), "up") == 0 ? "healthy" : "up, health not known";
}

static void add_status(struct buf *b, const json_t *document) {
  size_t i;
  json_t *entry;
  const json_t *layer = layer_of(document, 2);
  const char *title = "2 status";
  json_array_foreach(json_object_get(layer, "entries"), i, entry) {
    buf_printf(b, "%-11s %s level %-2d %-20s %5d  %s\n", title,
               flag_of(entry, "goes_on") ? "*" : " ", number_of(entry, "level"),
               text_of(entry, "endpoint"), number_of(entry, "weight"), entry_state(entry));
    title = "";
  }
  if (flag_of(layer, "fallback"))
    buf_add_str(b, "            none is up: fallback, as if all were healthy\n");
}

static void add_answer(struct buf *b, const char *title, const json_t *answer) {
  size_t i;
  json_t *rdata;
  double chance = json_number_value(json_object_get(answer, "probability"));
  buf_printf(b, "%-11s   %-20s %8.4f%% ", title, text_of(answer, "endpoint"), chance * 100);
  json_array_foreach(json_object_get(answer, "rdata"), i, rdata) {
    const char *text = json_string_value(rdata);
    if (i > 0) /* further addresses stand below the first */
      buf_printf(b, "\n%*s", 46, "");
    buf_printf(b, " %s", text ? text : "?");
  }
  buf_add_str(b, "\n");
}

static void add_weight(struct buf *b, const json_t *document) {
  size_t i;
  json_t *answer;
  const char *title = "4 weight";
  json_array_foreach(json_object_get(document, "answers"), i, answer) {
    add_answer(b, title, answer);
    title = "";
  }
  int draws = number_of(layer_of(document, 4), "draws");
  if (draws > 1)
    buf_printf(b, "            up to %d of these in each answer\n", draws);
}

char *explain_text(const json_t *document) {
  struct buf b;
  buf_init(&b);
  buf_printf(&b, "%s %s for %s\n\n", text_of(document, "domain"), text_of(document, "type"),
             text_of(document, "client"));
  add_fence(&b, document);
  if (flag_of(document, "nodata")) {
    buf_printf(&b, "\nno data: the domain does not offer %s\n", text_of(document, "type"));
  } else {
    add_status(&b, document);
    buf_printf(&b, "3 priority  level %d\n", number_of(document, "level"));
    add_weight(&b, document);
    if (json_array_size(json_object_get(document, "answers")) > 1)
      buf_add_str(
          &b, "\nShares are of cache fills, not of users: a resolver keeps one draw for all.\n");
  }
  char *text = b.failed ? NULL : strdup(buf_text(&b));
  buf_close(&b);
  return text;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What NS1's API tells: a letter, then JSON.  A record (the letter is for its type): what is
 * understood must be the same after it was written and read again; a document of it, or the reason
 * why there is none.  A page of data sources (s) or feeds (f): what is ours of it, and records with
 * the ids that are in it.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/providers/ns1_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
  if (!condition)
    abort();
}

static const char *type_of(uint8_t letter) {
  switch (letter) {
  case '6':
    return "AAAA";
  case 'c':
    return "CNAME";
  case 'm':
    return "MX";
  case 'q':
    return "CAA";
  case 't':
    return "TXT";
  default:
    return "A";
  }
}

static void again(const char *type, const json_t *body) {
  if (json_object_get(body, "more")) /* is taken away when it is written */
    return;
  json_t *wire = ns1_wire("e.test.", "cdn.e.test.", type, body);
  require(wire);
  json_t *same = ns1_canonical(type, wire);
  require(same && json_equal(same, body));
  json_decref(same);
  json_decref(wire);
}

static void tell(const char *type, json_t *body) {
  char key[] = "cdn.e.test./A", name[] = "cdn.e.test.", text[16];
  struct provider_error error = {0};
  strcpy(text, type);
  char feed_key[] = "FEED/0123456789abcdef01234567", feed_type[] = NS1_FEED;
  json_t *up = json_pack("{s:b}", "up", 0);
  const struct provider_object object = {.key = key, .name = name, .type = text, .body = body};
  const struct provider_object feed = {
      .key = feed_key, .name = name, .type = feed_type, .body = up};
  const struct provider_object *list[] = {&feed, &object};
  json_t *document = ns1_decompile("p", "sluice", list, 2, &error);
  require(document || error.text[0]);
  json_decref(document);
  json_decref(up);
  free(ns1_owner(body));
}

/* A record that goes by the feed: its id becomes a key, and the key that id. */
static void use_feed(const struct ns1 *n, const char *id) {
  const char *missing;
  json_t *record = json_pack("{s:[{s:{s:{s:s}}}]}", "answers", "meta", "up", "feed", id);
  json_t *named = ns1_feeds_name(n, record);
  require(record && named);
  json_t *back = ns1_feeds_resolve(n, named, &missing);
  require(back && json_equal(back, record));
  json_decref(back);
  json_decref(named);
  json_decref(record);
}

static void take_page(json_t *page, bool sources) {
  struct provider_error error = {0};
  struct provider_objects out;
  char name[] = "p", marker[] = "sluice";
  struct ns1 n = {.name = name, .marker = marker};
  struct ns1_feeds feeds = {&n, "e.test.", "0123", &out};
  provider_objects_init(&out);
  require(ns1_feeds_begin(&n, "e.test."));
  bool ok = sources ? ns1_feeds_sources(&n, page, &error) : ns1_feeds_page(&feeds, page, &error);
  require(ok || error.text[0]);
  for (size_t i = 0; i < out.count && ok; i++) {
    const char *id = json_string_value(json_object_get(out.items[i].raw, "id"));
    require(out.items[i].part && json_object_get(out.items[i].body, "up"));
    if (json_object_get(n.by_id, id))
      use_feed(&n, id);
  }
  require(ns1_feeds_link(&out));
  provider_objects_close(&out);
  ns1_feeds_forget(&n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2)
    return 0;
  const char *type = type_of(data[0]);
  json_t *record = json_loadb((const char *)data + 1, size - 1, 0, NULL);
  if (!record)
    return 0;
  if (data[0] == 's' || data[0] == 'f') {
    take_page(record, data[0] == 's');
    json_decref(record);
    return 0;
  }
  json_t *list = ns1_canonical_short(type, record);
  json_t *body = ns1_canonical(type, record);
  if (list)
    again(type, list);
  if (body) {
    again(type, body);
    tell(type, body);
  }
  char *text = ns1_sorted_text(record);
  require(text);
  free(text);
  json_decref(list);
  json_decref(body);
  json_decref(record);
  return 0;
}

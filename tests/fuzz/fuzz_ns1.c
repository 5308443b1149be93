/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record as NS1's API tells it: a letter for its type, then JSON.  What is understood must be the
 * same after it was written and read again; a document of it, or the reason why there is none.
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
  const struct provider_object object = {.key = key, .name = name, .type = text, .body = body};
  const struct provider_object *list = &object;
  json_t *document = ns1_decompile("p", "sluice", &list, 1, &error);
  require(document || error.text[0]);
  json_decref(document);
  free(ns1_owner(body));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2)
    return 0;
  const char *type = type_of(data[0]);
  json_t *record = json_loadb((const char *)data + 1, size - 1, 0, NULL);
  if (!record)
    return 0;
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

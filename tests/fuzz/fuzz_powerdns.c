/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a PowerDNS server says: a zone document ("z..."), the content of a LUA record ("l..."), or
 * the model inside of one whose digest is right ("m...").  What is read must be whole, and a change
 * of it must be a body that can be sent.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/providers/powerdns_private.h"
#include "tools/providers/powerdns_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
  if (!condition)
    abort();
}

static bool give_secret(void *arg, const char *name, char *out, size_t size, char *why) {
  (void)arg;
  (void)name;
  (void)why;
  require(size > 1);
  memcpy(out, "k", 2);
  return true;
}

static void *provider(void) {
  static void *self;
  struct provider_error error;
  struct provider_context context = {.name = "p", .secret = give_secret, .marker = "sluice"};
  if (self)
    return self;
  json_t *settings = json_pack("{s:s, s:s}", "url", "http://127.0.0.1:1", "secret", "k");
  context.settings = settings;
  self = provider_powerdns.open(&context, &error);
  require(self);
  json_decref(settings);
  return self;
}

static void use(const struct provider_objects *objects, const json_t *rrsets) {
  for (size_t i = 0; i < objects->count; i++) {
    const struct provider_object *object = &objects->items[i];
    struct provider_error error = {0};
    struct provider_change change = {PROVIDER_DELETE, object, NULL};
    bool lua;
    require(object->key && object->name && object->type && json_is_object(object->body));
    json_t *body = powerdns_patch("p", "sluice", rrsets, &change, 1, &lua, &error);
    require(body);
    json_decref(body);
    if (!object->domain)
      continue;
    json_t *document = provider_powerdns.decompile(provider(), &object, 1, &error);
    require(document || error.text[0]);
    json_decref(document);
  }
}

static void read_document(const json_t *document) {
  struct provider_objects objects;
  struct provider_error error = {0};
  json_t *rrsets = NULL;
  bool secondary;
  provider_objects_init(&objects);
  if (powerdns_read_document("p", "e.test.", document, &objects, &rrsets, &secondary, &error))
    use(&objects, rrsets);
  else
    require(error.text[0] && !rrsets);
  json_decref(rrsets);
  provider_objects_close(&objects);
}

static void read_content(const char *content) {
  json_t *text = json_string(content);
  if (!text)
    return;
  json_t *document = json_pack("{s:s, s:s, s:[{s:s, s:s, s:i, s:[{s:o, s:b}]}]}", "name", "e.test.",
                               "kind", "Native", "rrsets", "name", "cdn.e.test.", "type", "LUA",
                               "ttl", 30, "records", "content", text, "disabled", 0);
  require(document);
  read_document(document);
  json_decref(document);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  if (data[0] == 'z') {
    json_t *document = json_loadb((const char *)data + 1, size - 1, 0, NULL);
    read_document(document);
    json_decref(document);
    return 0;
  }
  char *text = malloc(size);
  require(text);
  memcpy(text, data + 1, size - 1);
  text[size - 1] = '\0';
  if (data[0] == 'm') {
    char *content = powerdns_wrap("A", text, "return {'192.0.2.1'}");
    if (content)
      read_content(content);
    free(content);
  } else {
    read_content(text);
  }
  free(text);
  return 0;
}

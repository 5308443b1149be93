/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A zone as a name server transfers it, up to the updates that remove or replace what it has.
 * Input: the octets of a key in presentation form up to the first NUL, then messages of an AXFR,
 * each with its length before it.
 *
 * Each message stays within its limit, and what was read can be expected and removed exactly.
 */
#include <stdlib.h>
#include <string.h>

#include "server/wire.h"
#include "tools/providers/rfc2136_private.h"

enum { ID = 4711, RECORDS_MAX = 2000, OCTETS_MAX = 1 << 20, KEY = 200, MESSAGE = 4000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t apex[NAME_BUF] = "\7example";
static const struct transfer_in_limits limits = {.records = RECORDS_MAX, .octets = OCTETS_MAX};

static void require(bool condition) {
  if (!condition)
    abort();
}

static size_t take_key(const uint8_t *data, size_t size) {
  const char *algorithm, *name, *secret;
  char why[RFC2136_WHY];
  char text[KEY + 1] = "";
  size_t len = strnlen((const char *)data, size < KEY ? size : KEY);
  memcpy(text, data, len);
  if (rfc2136_key(text, &algorithm, &name, &secret, why))
    require(strlen(algorithm) + strlen(name) + strlen(secret) + 2 == len);
  return len < size ? len + 1 : len;
}

static enum transfer_result feed(struct transfer_in *t, const uint8_t *data, size_t size) {
  enum transfer_result result = TRANSFER_MORE;
  char why[TRANSFER_IN_WHY];
  while (result == TRANSFER_MORE && size >= 2) {
    size_t said = (size_t)data[0] << 8 | data[1];
    size_t len = said < size - 2 ? said : size - 2;
    uint8_t *copy = malloc(len + 1);
    require(copy != NULL);
    memcpy(copy, data + 2, len);
    if (len >= 2)
      wire_put16(copy, ID); /* nobody guesses it */
    result = transfer_in_message(t, copy, len, why);
    free(copy);
    data += 2 + len;
    size -= 2 + len;
  }
  return result;
}

/* Every third RRset goes, the others get the data of the one before of their type, or stay. */
static size_t choose(const struct provider_objects *objects, struct provider_change *changes) {
  size_t count = 0;
  for (size_t i = 0; i < objects->count; i++) {
    const struct provider_object *o = &objects->items[i];
    if (i % 3 != 0 && !o->opaque)
      changes[count++] = (struct provider_change){PROVIDER_UPDATE, o, o};
    else if (strcmp(o->type, "NS") != 0)
      changes[count++] = (struct provider_change){PROVIDER_DELETE, o, NULL};
  }
  return count;
}

static void update(const struct provider_objects *objects) {
  struct provider_change *changes = calloc(objects->count + 1, sizeof *changes);
  struct rfc2136_messages messages;
  struct provider_error error = {0};
  size_t done = 0;
  require(changes != NULL);
  size_t count = choose(objects, changes);
  bool ok = rfc2136_messages_make("dns-x", "example.", changes, count, MESSAGE, &messages, &error);
  for (size_t i = 0; i < messages.count; i++) {
    require(!messages.items[i].octets || messages.items[i].len <= MESSAGE);
    done += messages.items[i].changes;
  }
  require(ok ? done == count : error.text[0] != '\0');
  rfc2136_messages_close(&messages);
  free(changes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct transfer_in transfer;
  struct provider_objects objects;
  size_t key = take_key(data, size);
  provider_objects_init(&objects);
  transfer_in_init(&transfer, apex, TYPE_AXFR, ID, 0, &limits);
  if (feed(&transfer, data + key, size - key) == TRANSFER_DONE) {
    require(rfc2136_objects(&transfer, &objects));
    update(&objects);
  }
  provider_objects_close(&objects);
  transfer_in_close(&transfer);
  return 0;
}

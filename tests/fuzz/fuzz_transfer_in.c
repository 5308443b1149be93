/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers in: from the messages of a stream to a zone that is served.  Input: messages, each with
 * its length before it as over TCP.  The first ones answer an AXFR; those behind it an IXFR from
 * the serial that it had.
 *
 * What is accepted must compile, and its products must pass the checks of those who open them.
 */
#include <stdlib.h>
#include <string.h>

#include "server/secondary_model.h"
#include "server/wire.h"
#include "zones/compile.h"
#include "zones/image.h"

enum { ID = 4711, RECORDS_MAX = 10000, OCTETS_MAX = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t apex[NAME_BUF] = "\7example";
static const struct transfer_in_limits limits = {.records = RECORDS_MAX, .octets = OCTETS_MAX};

static void require(bool condition) {
  if (!condition)
    abort();
}

/* Feeds messages until the transfer ends; each stands in storage of its exact size. */
static enum transfer_result feed(struct transfer_in *t, const uint8_t **data, size_t *size) {
  enum transfer_result result = TRANSFER_MORE;
  char why[TRANSFER_IN_WHY];
  while (result == TRANSFER_MORE && *size >= 2) {
    size_t said = (size_t)(*data)[0] << 8 | (*data)[1];
    size_t len = said < *size - 2 ? said : *size - 2;
    uint8_t *copy = malloc(len + 1);
    require(copy != NULL);
    memcpy(copy, *data + 2, len);
    if (len >= 2)
      wire_put16(copy, ID); /* nobody guesses it */
    why[0] = '\0';
    result = transfer_in_message(t, copy, len, why);
    require((result != TRANSFER_FAILED && result != TRANSFER_FALL_BACK) || why[0] != '\0');
    free(copy);
    *data += 2 + len;
    *size -= 2 + len;
  }
  return result;
}

/* Compiles a zone; true with the records open if it can be served. */
static bool compile(const struct secondary_model *model, struct buf *bytes, struct records *file) {
  struct buf out;
  struct image image;
  char why[SECONDARY_MODEL_WHY];
  buf_init(&out);
  if (compile_image(&model->zone, 0, &out, why)) {
    require(image_open_memory(&image, out.data, out.len, why));
    image_close(&image);
  }
  buf_close(&out);
  if (!records_compile(&model->zone, 0, bytes, why))
    return false;
  require(records_open_memory(file, bytes->data, bytes->len, why));
  return true;
}

/* The second half: changes to the zone that the first half brought. */
static void apply(const struct records *old, const uint8_t *data, size_t size) {
  static struct transfer_in t;
  struct secondary_model model;
  struct records file;
  struct buf bytes;
  char why[SECONDARY_MODEL_WHY];
  transfer_in_init(&t, apex, TYPE_IXFR, ID, old->header->serial, &limits);
  if (feed(&t, &data, &size) == TRANSFER_DONE) {
    buf_init(&bytes);
    if (secondary_model_make(&model, &t, old, why) == SECONDARY_MODEL_OK &&
        compile(&model, &bytes, &file)) {
      require(file.header->serial == t.soa.serial);
      records_close(&file);
    }
    secondary_model_close(&model);
    buf_close(&bytes);
  }
  transfer_in_close(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct transfer_in t;
  struct secondary_model model;
  struct records file;
  struct buf bytes;
  char why[SECONDARY_MODEL_WHY];
  transfer_in_init(&t, apex, TYPE_AXFR, ID, 0, &limits);
  buf_init(&bytes);
  if (feed(&t, &data, &size) == TRANSFER_DONE) {
    require(!t.incremental && t.count > 0);
    if (secondary_model_make(&model, &t, NULL, why) == SECONDARY_MODEL_OK &&
        compile(&model, &bytes, &file)) {
      apply(&file, data, size);
      records_close(&file);
    }
    secondary_model_close(&model);
  }
  buf_close(&bytes);
  transfer_in_close(&t);
  return 0;
}

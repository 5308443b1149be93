/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The `commit` request of the control socket.  Input: the line as it comes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "server/commit_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
  if (!condition)
    abort();
}

/* Canonical: reading it again gives the same. */
static void require_name(const char *text) {
  uint8_t name[NAME_BUF], lower[NAME_BUF];
  char again[NAME_MAX_TEXT];
  const char *why;
  require(name_from_text(name, text, strlen(text), NULL, &why) != 0);
  name_copy_lower(lower, name);
  require(strcmp(name_to_text(again, lower), text) == 0);
}

static void look(const struct commit_request *request) {
  const struct store_batch *batch = &request->batch;
  require(batch->change_count <= COMMIT_CHANGES && batch->expect_count <= COMMIT_EXPECTS &&
          batch->audit_count <= COMMIT_AUDITS);
  for (size_t i = 0; i < batch->expect_count; i++)
    require_name(batch->expect[i].domain);
  for (size_t i = 0; i < batch->change_count; i++) {
    const struct store_override *o = &batch->changes[i].override;
    require_name(o->key.domain);
    require(o->key.endpoint != NULL && o->key.region != NULL);
    require(o->value >= 0 && o->value <= UINT16_MAX && o->expires_at >= 0);
    require((o->key.kind == STORE_WEIGHT) == (o->key.level > 0));
    require((o->key.kind == STORE_HEALTH) == (o->key.family == 4 || o->key.family == 6));
    require(batch->changes[i].drop || o->key.kind == STORE_WEIGHT || o->value > 0);
  }
  for (size_t i = 0; i < batch->audit_count; i++) {
    require_name(batch->audits[i].domain);
    require(batch->audits[i].command != NULL && batch->audits[i].what[0] == '{');
    require(strlen(batch->audits[i].what) <= COMMIT_WHAT);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char why[STORE_WHY] = "";
  struct commit_request request;
  json_t *json = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
  if (commit_request_read(&request, json, why))
    look(&request);
  else
    require(why[0] != '\0' && strlen(why) < STORE_WHY);
  commit_request_close(&request);
  json_decref(json);
  return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of one deploy (docs/deploy.md): the file deploy.json of a commit in
 * refs/sluice/deploys.
 *
 * {"format": 1, "deploy": N, "commit": hex, "at": Unix seconds, "who": text, "origin": text|null,
 *  "kind": "push"|"rollback", "of": N|null (whose content a rollback has), "build": id,
 *  "zones": {NAME: {"serial": N, "input": hash}}, "retired": the same of zones that are gone}
 */
#ifndef SLUICE_ZONES_DEPLOY_RECORD_H
#define SLUICE_ZONES_DEPLOY_RECORD_H

#include <jansson.h>
#include <stdint.h>

#include "base/buf.h"

enum {
  DEPLOY_RECORD_WHY = 256,
  DEPLOY_RECORD_LIMIT = 64 << 20, /* octets */
  DEPLOY_RECORD_TEXT = 201,       /* who, origin; with the NUL */
};

enum deploy_kind { DEPLOY_PUSH, DEPLOY_ROLLBACK };

struct deploy_record {
  int64_t number; /* from 1 on */
  char commit[41];
  int64_t at;
  char who[DEPLOY_RECORD_TEXT];
  char origin[DEPLOY_RECORD_TEXT]; /* "" if unknown */
  enum deploy_kind kind;
  int64_t of; /* of a rollback */
  char build[17];
  json_t *zones;
  json_t *retired;
};

/* Trusts nothing in the text.  False with one line in `why` (DEPLOY_RECORD_WHY octets).  After
 * success deploy_record_close() frees the contents. */
bool deploy_record_read(struct deploy_record *record, const void *text, size_t len, char *why);
void deploy_record_close(struct deploy_record *record);

/* Appends the text; false without memory. */
bool deploy_record_write(const struct deploy_record *record, struct buf *out);

/* Copies a text from outside into `who` or `origin`: cut at a character, control characters and
 * what git cannot have in a name as `?`. */
void deploy_record_text(char out[DEPLOY_RECORD_TEXT], const char *text);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The `commit` request of the control socket (server/control.h) as read from JSON.  Pure: it looks
 * at the form only; whether a target exists is for server/overrides.h.
 */
#ifndef SLUICE_SERVER_COMMIT_REQUEST_H
#define SLUICE_SERVER_COMMIT_REQUEST_H

#include <jansson.h>

#include "base/store.h"
#include "zones/arena.h"

enum {
  COMMIT_CHANGES = 20000, /* most of each in one request */
  COMMIT_EXPECTS = 10000,
  COMMIT_AUDITS = 10000,
  COMMIT_NAME = 256,   /* octets of a user, request, command, endpoint, region, cause */
  COMMIT_TEXT = 1024,  /* of a reason, origin */
  COMMIT_WHAT = 65536, /* of `what`, `before` or a result, as compact JSON */
};

struct commit_request {
  struct arena memory; /* of texts that are not the JSON's */
  const char *as;      /* or NULL */
  const char *origin;  /* or NULL */
  struct store_batch batch;
  struct store_expect *expect; /* the arrays of `batch`, to be completed: who, set_at, region */
  struct store_change *changes;
  struct store_audit *audits;
};

/*
 * Reads a request, whose JSON must outlive it.  Domains come out absolute, in lower case, with the
 * final dot.  False with one line in `why` (STORE_WHY octets); commit_request_close() in both
 * cases.
 */
bool commit_request_read(struct commit_request *request, const json_t *json, char *why);
void commit_request_close(struct commit_request *request);

/* False with a reason if `text` is longer than `most` octets, empty, or holds control characters;
 * NULL is fine. */
bool commit_request_text(const char *text, size_t most, const char *what, char *why);

#endif

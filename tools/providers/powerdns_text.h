/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of our LUA records at PowerDNS: `QTYPE "part" "part" ...`.
 *
 * PowerDNS joins the parts with spaces and knows no escapes inside of them, and a zone transfer
 * cuts at 255 octets.  So code here has no quotation mark, no backslash and no long word, and is
 * cut at spaces only: the same after any trip.
 *
 * In front of the code stands a comment, ";--[[ sluice 1 DIGEST MODEL ]] ": what the record was
 * made from (base64 of JSON, or "-"), and a digest over type, model and code by which an edit by
 * hand is seen.  It guards against accidents, not against forgery.
 *
 * Not for use outside of tools/providers/powerdns*.c.
 */
#ifndef SLUICE_TOOLS_PROVIDERS_POWERDNS_TEXT_H
#define SLUICE_TOOLS_PROVIDERS_POWERDNS_TEXT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"

enum {
  POWERDNS_CONTENT_MAX = 63000, /* the narrowest of its databases takes 64 000 */
  POWERDNS_TYPE = 16,
};

enum powerdns_maker {
  POWERDNS_FOREIGN, /* not from here */
  POWERDNS_EDITED,  /* from here, but not as it was written */
  POWERDNS_OURS,
};

/* Appends a Lua expression whose value is `text`, whatever that holds: nothing in it can end the
 * string, the comment or the record. */
void powerdns_quote(struct buf *out, const char *text);

/* The content of a record; `code` keeps the rules above, `model` may be NULL.  malloc'd; NULL
 * without memory or if it would be too large. */
char *powerdns_wrap(const char *qtype, const char *model, const char *code);

/* The type of a LUA record's content; false if it has none. */
bool powerdns_type(const char *content, char type[POWERDNS_TYPE]);

/* Whose work a content is.  For POWERDNS_OURS *model is a new reference to what it was made from,
 * or NULL if it does not say.  `content` is hostile. */
enum powerdns_maker powerdns_unwrap(const char *content, json_t **model);

/* SHA-256 of a text, as the first 32 hexadecimal digits. */
bool powerdns_digest(const char *text, size_t len, char out[33]);

#endif

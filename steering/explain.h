/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One decision, layer by layer, for people and for `sluice explain --json` (spec/cli.md).
 */
#ifndef SLUICE_STEERING_EXPLAIN_H
#define SLUICE_STEERING_EXPLAIN_H

#include <jansson.h>

#include "steering/layers.h"

struct explain_input {
  const struct steer_domain *domain;
  const char *domain_text;       /* as printed: absolute, with the final dot */
  const struct geo_db *db;       /* or NULL */
  const struct geo_table *table; /* of the domain and that database, or NULL: one is built, which
                                  * takes up to a second with a large file */
  struct geo_address client;
  const char *client_text;
  enum steer_type type; /* STEER_A or STEER_AAAA as asked; a host-name domain answers with CNAME */
  struct steer_facts facts;
};

/* The whole document of spec/cli.md as a new JSON object (the caller's reference), NULL without
 * memory. */
json_t *explain_json(const struct explain_input *input);

/* The same document as text for people (malloc'd; 80 columns): works from explain_json()'s result,
 * so that an answer of a server's control socket prints the same. */
char *explain_text(const json_t *document);

#endif

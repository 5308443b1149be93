/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of domain names, such as the name servers of a zone: sorted JSON arrays of absolute names in
 * lower case with the final dot, each once, so that equal sets are equal documents however they
 * were written.  What only looks at a set allocates nothing: a lack of memory never makes a set
 * look empty.
 */
#ifndef SLUICE_TOOLS_SYNC_NAMESET_H
#define SLUICE_TOOLS_SYNC_NAMESET_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { NAMESET_MAX = 64 };

/* Adds a name; false if it is none, if there are too many, or without memory. */
bool nameset_add(json_t *set, const char *name);

/* A set of the texts of an array, each a name; NULL: it is none, or no memory. */
json_t *nameset_read(const json_t *list);

/* "A,B" as a set; NULL as above. */
json_t *nameset_parse(const char *list);

/* New sets; NULL without memory. */
json_t *nameset_union(const json_t *a, const json_t *b);
json_t *nameset_minus(const json_t *a, const json_t *b);
json_t *nameset_common(const json_t *a, const json_t *b);

bool nameset_has(const json_t *set, const char *name);
bool nameset_equal(const json_t *a, const json_t *b);

/* The first name of `a` that is not in `b` (that is in `b`), or NULL. */
const char *nameset_first_missing(const json_t *a, const json_t *b);
const char *nameset_first_common(const json_t *a, const json_t *b);

/* "a., b., c."; `out` of `size` octets, cut if need be. */
const char *nameset_text(const json_t *set, char *out, size_t size);

#endif

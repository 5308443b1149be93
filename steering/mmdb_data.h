/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading values of the MaxMind DB data format (version 2.0 of its specification) from memory that
 * cannot be trusted.  Every read is checked against the bounds and costs one step of a budget that
 * the reader is given once, so that a hostile file can neither crash nor hang nor use much memory.
 *
 * Not for use outside of steering/.  The tree of a file is read with libmaxminddb.
 */
#ifndef SLUICE_STEERING_MMDB_DATA_H
#define SLUICE_STEERING_MMDB_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum mmdb_type {
  MMDB_POINTER = 1,
  MMDB_STRING = 2,
  MMDB_DOUBLE = 3,
  MMDB_BYTES = 4,
  MMDB_UINT16 = 5,
  MMDB_UINT32 = 6,
  MMDB_MAP = 7,
  MMDB_INT32 = 8,
  MMDB_UINT64 = 9,
  MMDB_UINT128 = 10,
  MMDB_ARRAY = 11,
  MMDB_BOOLEAN = 14,
  MMDB_FLOAT = 15,
};

struct mmdb_data {
  const uint8_t *bytes; /* the data section: pointers count from here */
  size_t size;
  uint64_t budget; /* steps left, for all reads together */
};

struct mmdb_value {
  enum mmdb_type type;
  uint32_t count;  /* pairs of a map, items of an array, bytes of a string */
  size_t content;  /* offset of the first pair, item or byte */
  uint64_t number; /* of the unsigned types */
};

/* Reads the value at *offset, following a pointer, and moves *offset past the value's head (for a
 * map or array: to what follows it only with mmdb_skip()).  False on damage or without budget. */
bool mmdb_read(struct mmdb_data *data, size_t *offset, struct mmdb_value *value);

/* Moves *offset past the whole value at it; does not follow pointers. */
bool mmdb_skip(struct mmdb_data *data, size_t *offset);

/* Walks the whole value at *offset with all pointers followed: true if that ends within the budget.
 */
bool mmdb_check(struct mmdb_data *data, size_t *offset);

/* True if the string `value` is `text`. */
static inline bool mmdb_is(const struct mmdb_data *data, const struct mmdb_value *value,
                           const char *text) {
  return value->type == MMDB_STRING && value->count == strlen(text) &&
         memcmp(data->bytes + value->content, text, value->count) == 0;
}

#endif

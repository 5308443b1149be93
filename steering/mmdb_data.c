/* SPDX-License-Identifier: Apache-2.0 */
#include "steering/mmdb_data.h"

enum { DEPTH_MAX = 24 };

static bool take(struct mmdb_data *d, size_t *offset, size_t n, uint64_t *number) {
  if (*offset > d->size || d->size - *offset < n)
    return false;
  uint64_t value = 0;
  for (size_t i = 0; i < n; i++)
    value = value << 8 | d->bytes[*offset + i];
  *number = value;
  *offset += n;
  return true;
}

/* The target of a pointer whose control byte was `control`. */
static bool read_pointer(struct mmdb_data *d, size_t *offset, uint64_t control, uint64_t *target) {
  static const uint32_t base[3] = {0, 2048, 526336};
  unsigned size = (unsigned)(control >> 3 & 3);
  uint64_t low;
  if (!take(d, offset, size + 1, &low))
    return false;
  *target = size == 3 ? low : base[size] + ((control & 7) << (8 * (size + 1)) | low);
  return *target < d->size;
}

static bool read_size(struct mmdb_data *d, size_t *offset, uint64_t control, uint32_t *size) {
  static const uint32_t base[3] = {29, 285, 65821};
  uint64_t more = 0;
  unsigned code = (unsigned)(control & 31);
  if (code < 29) {
    *size = code;
    return true;
  }
  if (!take(d, offset, code - 28, &more))
    return false;
  *size = base[code - 29] + (uint32_t)more;
  return true;
}

/* Checks the payload of a scalar, reads a number, and moves past it. */
static bool read_payload(struct mmdb_data *d, size_t *offset, struct mmdb_value *v) {
  size_t max;
  switch (v->type) {
  case MMDB_MAP:
  case MMDB_ARRAY:
  case MMDB_BOOLEAN: /* its size is its value */
    return true;
  case MMDB_UINT16:
    max = 2;
    break;
  case MMDB_UINT32:
    max = 4;
    break;
  case MMDB_UINT64:
    max = 8;
    break;
  case MMDB_STRING:
  case MMDB_BYTES:
    max = SIZE_MAX;
    break;
  default:
    max = 16;
    break;
  }
  if (v->count > max || d->size - v->content < v->count)
    return false;
  if (max <= 8)
    return take(d, offset, v->count, &v->number);
  *offset += v->count;
  return true;
}

/* Reads one value at *offset; a pointer is returned as such, its target in `number`. */
static bool read_one(struct mmdb_data *d, size_t *offset, struct mmdb_value *v) {
  uint64_t control, extended;
  if (d->budget == 0)
    return false;
  d->budget--;
  *v = (struct mmdb_value){0};
  if (!take(d, offset, 1, &control))
    return false;
  unsigned type = (unsigned)(control >> 5);
  if (type == MMDB_POINTER) {
    v->type = MMDB_POINTER;
    return read_pointer(d, offset, control, &v->number);
  }
  if (type == 0) {
    if (!take(d, offset, 1, &extended) || extended == 0)
      return false;
    type = (unsigned)extended + 7;
  }
  /* Containers of the cache and end markers (12, 13) do not occur in a file. */
  if (type > MMDB_FLOAT || type == 12 || type == 13 || !read_size(d, offset, control, &v->count))
    return false;
  v->type = (enum mmdb_type)type;
  v->content = *offset;
  return read_payload(d, offset, v);
}

bool mmdb_read(struct mmdb_data *data, size_t *offset, struct mmdb_value *value) {
  if (!read_one(data, offset, value))
    return false;
  if (value->type != MMDB_POINTER)
    return true;
  size_t target = (size_t)value->number;
  return read_one(data, &target, value) && value->type != MMDB_POINTER;
}

static bool walk(struct mmdb_data *d, size_t *offset, bool follow, unsigned depth) {
  struct mmdb_value v;
  if (depth > DEPTH_MAX || !read_one(d, offset, &v))
    return false;
  if (v.type == MMDB_POINTER) {
    size_t target = (size_t)v.number;
    return !follow || walk(d, &target, follow, depth + 1);
  }
  uint64_t inside = v.type == MMDB_MAP ? (uint64_t)v.count * 2 : v.type == MMDB_ARRAY ? v.count : 0;
  for (uint64_t i = 0; i < inside; i++)
    if (!walk(d, offset, follow, depth + 1))
      return false;
  return true;
}

bool mmdb_skip(struct mmdb_data *data, size_t *offset) {
  return walk(data, offset, false, 0);
}

bool mmdb_check(struct mmdb_data *data, size_t *offset) {
  return walk(data, offset, true, 0);
}

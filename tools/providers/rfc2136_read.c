/* SPDX-License-Identifier: Apache-2.0 */
/* Objects out of a zone transfer (RFC 5936), whose records stand in any order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/providers/rfc2136_private.h"
#include "zones/record.h"

static int by_set(const void *a, const void *b) {
  const struct model_rr *x = *(const struct model_rr *const *)a;
  const struct model_rr *y = *(const struct model_rr *const *)b;
  int c = name_compare(x->owner, y->owner);
  return c != 0 ? c : (x->type > y->type) - (x->type < y->type);
}

static json_t *hex(const uint8_t *octets, size_t len) {
  static const char digits[] = "0123456789abcdef";
  char *text = malloc(2 * len + 1);
  if (!text)
    return NULL;
  for (size_t i = 0; i < len; i++) {
    text[2 * i] = digits[octets[i] >> 4];
    text[2 * i + 1] = digits[octets[i] & 15];
  }
  json_t *out = json_stringn(text, 2 * len);
  free(text);
  return out;
}

/* An RRset that our record code does not take: kept as it is, never a reason to fail. */
static struct provider_object *add_opaque(struct provider_objects *out, const char *name,
                                          const char *type, json_t *raw) {
  struct provider_object *object = provider_objects_add(out);
  if (!object)
    return NULL;
  object->opaque = true;
  object->name = strdup(name);
  object->type = strdup(type);
  object->body = json_deep_copy(raw);
  if (asprintf(&object->key, "%s/%s", name, type) < 0)
    object->key = NULL;
  return object->name && object->type && object->body && object->key ? object : NULL;
}

static bool add_set(struct provider_objects *out, const struct model_rr *const *rrs, size_t count) {
  char name[NAME_MAX_TEXT];
  char type[16];
  json_t *values = json_array();
  json_t *raw = json_array();
  bool ok = values && raw;
  name_to_text(name, rrs[0]->owner);
  record_type_text(rrs[0]->type, type);
  for (size_t i = 0; ok && i < count; i++) {
    char *text = provider_rdata_wire(rrs[i]->type, rrs[i]->rdata, rrs[i]->rdata_len);
    ok = text && json_array_append_new(values, json_string(text)) == 0 &&
         json_array_append_new(raw, hex(rrs[i]->rdata, rrs[i]->rdata_len)) == 0;
    free(text);
  }
  json_t *as_read = ok ? json_pack("{s:O}", "rdata", raw) : NULL;
  json_decref(raw);
  if (!as_read) {
    json_decref(values);
    return false;
  }
  size_t before = out->count;
  struct provider_object *object = provider_add_rrset(out, name, type, rrs[0]->ttl, values);
  if (!object && out->count == before)
    object = add_opaque(out, name, type, as_read);
  if (object)
    object->raw = as_read;
  else
    json_decref(as_read);
  return object;
}

bool rfc2136_objects(const struct transfer_in *transfer, struct provider_objects *out) {
  const struct model_rr **list = malloc((transfer->count + 1) * sizeof *list);
  size_t count = 0;
  bool ok = list;
  for (size_t i = 0; ok && i < transfer->count; i++)
    list[count++] = &transfer->changes[i].rr;
  if (ok)
    qsort(list, count, sizeof *list, by_set);
  for (size_t i = 0, end; ok && i < count; i = end) {
    for (end = i + 1; end < count && by_set(&list[i], &list[end]) == 0;)
      end++;
    ok = add_set(out, list + i, end - i);
  }
  free(list);
  return ok;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A steered domain as JSON.  What is taken must satisfy the steering's own checks, and come out the
 * same when it is written and read again.
 */
#include <stdlib.h>

#include "zones/domain_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
  if (!condition)
    abort();
}

static void write_and_read(const struct steer_domain *domain) {
  char why[DOMAIN_JSON_WHY];
  json_t *json = domain_json_encode(domain);
  require(json != NULL);
  struct steer_domain *again = domain_json_decode(json, why);
  require(again != NULL);
  json_t *json2 = domain_json_encode(again);
  require(json_equal(json, json2));
  json_decref(json);
  json_decref(json2);
  steer_domain_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  json_t *json = json_loadb((const char *)data, size, JSON_ALLOW_NUL, NULL);
  char why[DOMAIN_JSON_WHY] = "";
  struct steer_domain *domain = domain_json_decode(json, why);
  json_decref(json);
  if (domain == NULL) {
    require(why[0] != '\0');
    return 0;
  }
  const char *problem;
  require(steer_domain_validate(domain, &problem));
  write_and_read(domain);
  steer_domain_free(domain);
  return 0;
}

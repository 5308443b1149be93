/* SPDX-License-Identifier: Apache-2.0 */
/* The deploy records of a repository that is followed: whatever is read can be written, and is the
 * same when it is read again. */
#include <stdlib.h>
#include <string.h>

#include "zones/deploy_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
  if (!condition)
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char why[DEPLOY_RECORD_WHY] = "";
  struct deploy_record record;
  struct deploy_record again;
  struct buf out;
  if (!deploy_record_read(&record, data, size, why)) {
    require(why[0] != 0);
    return 0;
  }
  buf_init(&out);
  require(deploy_record_write(&record, &out));
  require(deploy_record_read(&again, out.data, out.len, why));
  require(record.number == again.number && record.at == again.at && record.of == again.of &&
          record.kind == again.kind && !strcmp(record.who, again.who) &&
          !strcmp(record.origin, again.origin) && !strcmp(record.commit, again.commit) &&
          !strcmp(record.build, again.build) && json_equal(record.zones, again.zones) &&
          json_equal(record.retired, again.retired));
  buf_close(&out);
  deploy_record_close(&record);
  deploy_record_close(&again);
  return 0;
}

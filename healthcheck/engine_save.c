/* SPDX-License-Identifier: Apache-2.0 */
/* The state file: written soon after a change, but not all the time. */
#include <stdio.h>

#include "base/fs.h"
#include "base/log.h"
#include "healthcheck/engine_private.h"

enum { SAVE_MS = 1000, SAVE_AGAIN_MS = 10000, MODE = 0600 };

static void encode(const struct engine *engine, struct buf *out) {
  state_file_begin(out);
  for (uint32_t i = 0; i < engine->list->probe_count; i++) {
    const struct slot *slot = engine->slots[i];
    struct state_saved saved;
    if (slot->machine.state == MACHINE_UNKNOWN)
      continue;
    slot_saved(slot, &saved);
    state_file_add(out, slot->text, &saved);
  }
  state_file_end(out);
}

static void write_work(uv_work_t *work) {
  struct engine *engine = work->data;
  engine->save_failed = !fs_write_atomic(engine->settings->state, engine->saving.data,
                                         engine->saving.len, MODE, engine->save_why);
}

static void write_done(uv_work_t *work, int status) {
  static struct log_limit limit;
  struct engine *engine = work->data;
  (void)status;
  engine->save_busy = false;
  buf_close(&engine->saving);
  engine->save_not_before = engine_now(engine) + SAVE_MS;
  if (!engine->save_failed)
    return;
  engine->dirty = true;
  engine->save_not_before += SAVE_AGAIN_MS;
  log_limited(&limit, LOG_LEVEL_ERROR, "the state of checks cannot be saved: %s", engine->save_why);
}

void engine_save_tick(struct engine *engine, uint64_t now) {
  if (!engine->dirty || engine->save_busy || engine->list == NULL || now < engine->save_not_before)
    return;
  buf_init(&engine->saving);
  encode(engine, &engine->saving);
  engine->save.data = engine;
  if (!engine->saving.failed &&
      uv_queue_work(engine->loop, &engine->save, write_work, write_done) == 0) {
    engine->save_busy = true;
    engine->dirty = false;
    return;
  }
  buf_close(&engine->saving);
  engine->save_not_before = now + SAVE_AGAIN_MS;
}

bool engine_save_now(struct engine *engine, char *why) {
  if (engine->list == NULL)
    return true;
  struct buf out;
  buf_init(&out);
  encode(engine, &out);
  bool ok = !out.failed && fs_write_atomic(engine->settings->state, out.data, out.len, MODE, why);
  if (out.failed)
    snprintf(why, STATE_FILE_WHY, "out of memory");
  buf_close(&out);
  return ok;
}

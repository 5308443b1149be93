/* SPDX-License-Identifier: Apache-2.0 */
#include "server/transfer_job.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "server/wire.h"

enum stage {
  STAGE_OPENING, /* in a thread of the pool */
  STAGE_STREAM,
  STAGE_ERROR, /* one message remains: SERVFAIL */
  STAGE_DONE,
  STAGE_BROKEN,
};

struct transfer_job {
  uv_work_t work;
  enum stage stage;
  bool dropped; /* while opening: freed once that has ended */
  bool opened;
  struct slow_transfer transfer;
  struct transfer_data data;
  struct transfer_stream stream;
  struct transfer_counters *counters;
  void (*ready)(void *arg);
  void *arg;
  char why[TRANSFER_WHY];
};

static void count(_Atomic uint64_t *counter, uint64_t by) {
  atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by,
                        memory_order_relaxed);
}

static void free_job(struct transfer_job *job) {
  if (job->opened)
    transfer_data_close(&job->data);
  slow_transfer_close(&job->transfer);
  free(job);
}

static void open_work(uv_work_t *work) {
  struct transfer_job *job = work->data;
  job->opened = transfer_data_open(&job->data, &job->transfer.wish, job->why);
}

static void start_stream(struct transfer_job *job) {
  struct transfer_counters *counters = job->counters;
  job->stage = STAGE_STREAM;
  job->stream.kind = job->data.kind;
  job->stream.now = &job->data.now;
  job->stream.old = &job->data.old;
  job->stream.diff = &job->data.diff;
  job->stream.head = job->transfer.head;
  transfer_stream_start(&job->stream);
  count(job->data.kind == TRANSFER_ALL    ? &counters->whole
        : job->data.kind == TRANSFER_DIFF ? &counters->differences
                                          : &counters->current,
        1);
}

static void open_done(uv_work_t *work, int status) {
  static struct log_limit limit;
  struct transfer_job *job = work->data;
  (void)status;
  if (job->dropped) {
    free_job(job);
    return;
  }
  if (job->opened) {
    start_stream(job);
  } else {
    log_limited(&limit, LOG_LEVEL_ERROR, "a zone cannot be transferred: %s", job->why);
    count(&job->counters->failed, 1);
    job->stage = STAGE_ERROR;
  }
  job->ready(job->arg);
}

struct transfer_job *transfer_job_start(uv_loop_t *loop, struct slow_transfer *transfer,
                                        bool refuse, struct transfer_counters *counters,
                                        void (*ready)(void *arg), void *arg) {
  struct transfer_job *job = calloc(1, sizeof *job);
  if (job == NULL) {
    slow_transfer_close(transfer);
    return NULL;
  }
  job->work.data = job;
  job->transfer = *transfer;
  *transfer = (struct slow_transfer){.wanted = false};
  job->counters = counters;
  job->ready = ready;
  job->arg = arg;
  if (!refuse && uv_queue_work(loop, &job->work, open_work, open_done) == 0)
    return job;
  count(&counters->failed, 1);
  job->stage = STAGE_ERROR;
  return job;
}

bool transfer_job_is_ready(const struct transfer_job *job) {
  return job->stage != STAGE_OPENING;
}

bool transfer_job_is_broken(const struct transfer_job *job) {
  return job->stage == STAGE_BROKEN;
}

static size_t next_message(struct transfer_job *job, uint8_t *out, uint64_t now) {
  struct tsig_session *session = &job->transfer.session;
  if (job->stage == STAGE_ERROR)
    return slow_transfer_fail(&job->transfer, RCODE_SERVFAIL, out, now);
  size_t length = transfer_stream_next(&job->stream, out, tsig_room(session));
  return tsig_sign_response(session, out, length, TRANSFER_JOB_FRAME - 2, now);
}

size_t transfer_job_next(struct transfer_job *job, uint8_t *out, uint64_t now) {
  if (job->stage != STAGE_STREAM && job->stage != STAGE_ERROR)
    return 0;
  size_t length = next_message(job, out + 2, now);
  if (length == 0) {
    count(&job->counters->failed, 1);
    job->stage = STAGE_BROKEN;
    return 0;
  }
  if (job->stage == STAGE_ERROR || transfer_stream_is_done(&job->stream))
    job->stage = STAGE_DONE;
  wire_put16(out, (uint16_t)length);
  count(&job->counters->octets, length);
  return 2 + length;
}

void transfer_job_drop(struct transfer_job *job) {
  if (job == NULL)
    return;
  if (job->stage == STAGE_OPENING)
    job->dropped = true;
  else
    free_job(job);
}

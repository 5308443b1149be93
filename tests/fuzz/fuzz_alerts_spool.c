/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal of alerts.  The input is read as it is, and again with a right checksum before each
 * of its lines, so that records are reached.  What was taken must be whole: it is told, written
 * anew, and read again without damage.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/buf.h"
#include "healthcheck/alerts/alerts_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct alerts alerts;
static struct buf dump;

static void require(bool condition) {
  if (!condition)
    abort();
}

static void add_line(struct buf *out, const char *text, size_t length) {
  buf_printf(out, "%016" PRIx64 " ", (uint64_t)XXH3_64bits(text, length));
  buf_add(out, text, length);
  buf_add_u8(out, '\n');
}

static bool on_tell(void *arg, const char *route, const char *key, json_t *event) {
  (void)arg;
  require(event != NULL && route[0] != '\0' && strlen(key) < INCIDENT_KEY);
  json_decref(event);
  return true;
}

static void on_record(void *arg, json_t *record) {
  (void)arg;
  require(record != NULL);
  json_decref(record);
}

static void on_dump(void *arg, json_t *record) {
  (void)arg;
  char *text = json_dumps(record, JSON_COMPACT);
  require(text != NULL);
  add_line(&dump, text, strlen(text));
  free(text);
  json_decref(record);
}

static void on_forget(void *arg, struct incident *incident) {
  (void)arg;
  (void)incident;
}

static bool take(void *arg, const json_t *record) {
  (void)arg;
  return alerts_restore_message(&alerts, record) || book_restore(alerts.book, record);
}

static void open_parts(void) {
  static const struct book_options options = {1000, 10000, "host"};
  static const struct book_sink sink = {NULL, on_tell, on_record, on_forget};
  alerts = (struct alerts){.next_id = 1};
  alerts.book = book_open(&options, &sink);
  alerts.queue = queue_open(1);
  require(alerts.book != NULL && alerts.queue != NULL);
}

static void close_parts(void) {
  book_close(alerts.book);
  queue_close(alerts.queue);
}

static void write_anew(void) {
  buf_clear(&dump);
  book_dump(alerts.book, on_dump, NULL);
  for (struct queue_message *m = NULL; (m = queue_each(alerts.queue, m)) != NULL;)
    on_dump(NULL, alerts_message_record(m));
}

static void try_journal(const char *data, size_t size) {
  struct moment now = {1, 1790000000000};
  open_parts();
  spool_parse(data, size, take, NULL);
  book_restored(alerts.book);
  write_anew();
  size_t at = 0;
  for (struct incident *i; (i = book_next(alerts.book, &at)) != NULL;)
    if (at % 2 == 0)
      book_end(alerts.book, i, "over", NULL, &now);
  for (int i = 0; i < 5; i++, now.mono += 20000, now.unix_ms += 20000)
    book_tick(alerts.book, &now);
  json_decref(book_open_json(alerts.book));
  close_parts();

  open_parts();
  require(spool_parse((const char *)dump.data, dump.len, take, NULL) == 0);
  book_restored(alerts.book);
  close_parts();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct buf lines;
  buf_init(&lines);
  if (size > 0)
    try_journal((const char *)data, size);
  for (size_t at = 0; at < size;) {
    const uint8_t *end = memchr(data + at, '\n', size - at);
    size_t length = end != NULL ? (size_t)(end - data) - at : size - at;
    add_line(&lines, (const char *)data + at, length);
    at += length + 1;
  }
  if (lines.len > 0)
    try_journal((const char *)lines.data, lines.len);
  buf_close(&lines);
  return 0;
}

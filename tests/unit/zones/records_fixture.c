/* SPDX-License-Identifier: Apache-2.0 */
#include "records_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/name.h"
#include "zones/record.h"

static void die(const char *what) {
  fprintf(stderr, "records fixture: %s\n", what);
  abort();
}

static void read_model(struct records_fixture *f, const char *origin, const char *text) {
  char path[] = "/tmp/records-fixture-XXXXXX";
  int fd = mkstemp(path);
  size_t len = strlen(text);
  if (fd < 0 || write(fd, text, len) != (ssize_t)len)
    die("cannot write a temporary file");
  close(fd);
  struct diag_list problems;
  diag_init(&problems);
  f->model = model_new();
  bool ok = f->model != NULL && model_add_zone_file(f->model, path, origin, &problems);
  unlink(path);
  if (!ok || problems.errors > 0) {
    diag_print(&problems, stderr);
    die("bad zone");
  }
  diag_close(&problems);
}

struct records_fixture *records_fixture_new(const char *origin, const char *text) {
  struct records_fixture *f = calloc(1, sizeof *f);
  char why[512] = "";
  read_model(f, origin, text);
  buf_init(&f->bytes);
  if (!records_compile(&f->model->zones[0], 0, &f->bytes, why) ||
      !records_open_memory(&f->records, f->bytes.data, f->bytes.len, why))
    die(why);
  return f;
}

void records_fixture_free(struct records_fixture *f) {
  records_close(&f->records);
  buf_close(&f->bytes);
  model_free(f->model);
  free(f);
}

const char *records_fixture_text(const struct records_rr *rr) {
  static char text[2048];
  char name[NAME_MAX_TEXT];
  char type[16];
  int n = snprintf(text, sizeof text, "%s %u %s ", name_to_text(name, rr->start), rr->ttl,
                   record_type_text(rr->type, type));
  for (unsigned i = 0; i < rr->rdata_len && n < (int)sizeof text - 3; i++)
    n += snprintf(text + n, sizeof text - (size_t)n, "%02x", rr->rdata[i]);
  return text;
}

void records_fixture_seal(uint8_t *file, size_t size) {
  struct records_header h;
  memcpy(&h, file, sizeof h);
  size_t covered = offsetof(struct records_header, record_count);
  h.checksum = XXH3_64bits(file + covered, size - covered);
  memcpy(file, &h, sizeof h);
}

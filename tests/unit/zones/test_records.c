/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/name.h"
#include "records_fixture.h"
#include "zones/record.h"

static const char zone[] = "$TTL 300\n"
                           "@ SOA ns.example.com. host.example.com. 7 7200 900 86400 60\n"
                           "@ NS ns\n"
                           "@ NS Ns2.Example.NET.\n"
                           "@ MX 10 mail\n"
                           "ns A 192.0.2.1\n"
                           "*.w TXT \"a\"\n"
                           "b.w A 192.0.2.2\n"
                           "sub NS ns.sub\n"
                           "ns.sub A 192.0.2.3\n"
                           "a A 192.0.2.10\n"
                           "a A 192.0.2.9\n"
                           "a TYPE65400 \\# 2 abcd\n";

static const char *const expected[] = {
    "example.com. 300 SOA",
    "example.com. 300 NS 026e73",
    "example.com. 300 NS 034e7332",
    "example.com. 300 MX",
    "a.example.com. 300 A c0000209",
    "a.example.com. 300 A c000020a",
    "a.example.com. 300 TYPE65400 abcd",
    "ns.example.com. 300 A",
    "sub.example.com. 300 NS",
    "ns.sub.example.com. 300 A",
    "*.w.example.com. 300 TXT 0161",
    "b.w.example.com. 300 A",
};

Test(records, order) {
  struct records_fixture *f = records_fixture_new("example.com", zone);
  const struct records *r = &f->records;
  struct records_rr before = {.size = 0};
  size_t n = 0;
  for (size_t at = records_first(); at < r->size; n++) {
    struct records_rr rr;
    at = records_read(r, at, &rr);
    cr_assert(n < sizeof expected / sizeof *expected);
    const char *want = expected[n];
    const char *text = records_fixture_text(&rr);
    cr_expect(strncmp(text, want, strlen(want)) == 0, "%zu: %s, not %s", n, text, want);
    if (n > 1)
      cr_expect(records_compare(&before, &rr) < 0, "%zu: %s", n, text);
    before = rr;
  }
  cr_expect_eq(n, sizeof expected / sizeof *expected);
  cr_expect_eq(r->header->serial, 7);
  cr_expect_eq(r->header->record_count, n);
  records_fixture_free(f);
}

/* Names inside of data keep their case. */
Test(records, case_of_data) {
  struct records_fixture *f = records_fixture_new("example.com", zone);
  struct records_rr rr;
  size_t at = records_read(&f->records, records_first(), &rr);
  bool found = false;
  for (int i = 0; i < 2; i++) {
    at = records_read(&f->records, at, &rr);
    cr_assert_eq(rr.type, RECORD_NS);
    found |= memcmp(rr.rdata, "\3Ns2\7Example\3NET", 17) == 0;
  }
  cr_expect(found);
  records_fixture_free(f);
}

Test(records, managed_serial) {
  struct records_fixture *f = records_fixture_new("example.com", zone);
  f->model->zones[0].serial_mode = SERIAL_MANAGED;
  struct buf out;
  struct records r;
  char why[512] = "";
  buf_init(&out);
  cr_assert(records_compile(&f->model->zones[0], 4000000000u, &out, why), "%s", why);
  cr_assert(records_open_memory(&r, out.data, out.len, why), "%s", why);
  cr_expect_eq(r.header->serial, 4000000000u);
  records_close(&r);
  buf_close(&out);
  records_fixture_free(f);
}

/* A record that fills 64 KiB fits no message together with a question. */
Test(records, too_large) {
  struct records_fixture *f = records_fixture_new("example.com", zone);
  struct model_zone *m = &f->model->zones[0];
  uint8_t *large = calloc(1, 65535);
  struct buf out;
  char why[512] = "";
  size_t last = m->rr_count - 1;
  struct model_rr saved = m->rrs[last];
  m->rrs[last].type = RECORD_TXT;
  m->rrs[last].rdata = large;
  m->rrs[last].rdata_len = 65535;
  buf_init(&out);
  cr_expect(!records_compile(m, 0, &out, why));
  cr_expect(strstr(why, "TXT record of b.w.example.com. has 65535 octets") != NULL, "%s", why);
  m->rrs[last] = saved;
  buf_close(&out);
  free(large);
  records_fixture_free(f);
}

/* ---- damaged files ----------------------------------------------------------------------------
 */

static bool opens(const uint8_t *data, size_t size) {
  struct records r;
  char why[512] = "";
  bool ok = records_open_memory(&r, data, size, why);
  if (!ok)
    cr_expect(why[0] != '\0');
  records_close(&r);
  return ok;
}

Test(records, every_cut_is_found) {
  struct records_fixture *f = records_fixture_new("example.com", zone);
  for (size_t size = 0; size < f->bytes.len; size++) {
    uint8_t *copy = malloc(size + 1); /* so that a sanitizer sees any read behind it */
    memcpy(copy, f->bytes.data, size);
    cr_assert(!opens(copy, size));
    if (size >= sizeof(struct records_header)) {
      struct records_header h;
      memcpy(&h, copy, sizeof h);
      h.file_size = size;
      memcpy(copy, &h, sizeof h);
      records_fixture_seal(copy, size);
      cr_assert(!opens(copy, size), "a cut at %zu with a right checksum", size);
    }
    free(copy);
  }
  records_fixture_free(f);
}

Test(records, every_flip_is_found) {
  struct records_fixture *f = records_fixture_new("example.com", zone);
  for (size_t i = 0; i < f->bytes.len; i++) {
    f->bytes.data[i] ^= 0x41;
    cr_expect(!opens(f->bytes.data, f->bytes.len), "octet %zu", i);
    f->bytes.data[i] ^= 0x41;
  }
  cr_expect(opens(f->bytes.data, f->bytes.len));
  records_fixture_free(f);
}

/* Two records that changed places, with a right checksum. */
Test(records, disorder_is_found) {
  struct records_fixture *f = records_fixture_new("example.com", zone);
  struct records_rr first, second;
  size_t at = records_read(&f->records, records_first(), &first);
  at = records_read(&f->records, at, &first);
  at = records_read(&f->records, at, &first);
  at = records_read(&f->records, at, &first);
  size_t next = records_read(&f->records, at, &first);
  records_read(&f->records, next, &second);
  cr_assert_eq(first.size, second.size);
  uint8_t swap[64];
  memcpy(swap, first.start, first.size);
  memmove(f->bytes.data + at, second.start, second.size);
  memcpy(f->bytes.data + next, swap, first.size);
  records_fixture_seal(f->bytes.data, f->bytes.len);
  cr_expect(!opens(f->bytes.data, f->bytes.len));
  memcpy(f->bytes.data + at, swap, first.size); /* and the same one twice */
  records_fixture_seal(f->bytes.data, f->bytes.len);
  cr_expect(!opens(f->bytes.data, f->bytes.len));
  records_fixture_free(f);
}

Test(records, files) {
  struct records_fixture *f = records_fixture_new("example.com", zone);
  char path[] = "/tmp/test-records-XXXXXX";
  int fd = mkstemp(path);
  cr_assert_eq((int)write(fd, f->bytes.data, f->bytes.len), (int)f->bytes.len);
  struct records r;
  struct records_header h;
  char why[512] = "";
  cr_expect(records_peek(fd, &h));
  cr_expect_eq(h.serial, 7);
  cr_expect(records_open(&r, path, why), "%s", why);
  records_close(&r);
  cr_expect_eq(ftruncate(fd, 100), 0);
  cr_expect(!records_peek(fd, &h));
  cr_expect(!records_open(&r, path, why));
  cr_expect(strstr(why, path) != NULL, "%s", why);
  unlink(path);
  cr_expect(!records_open(&r, path, why));
  cr_expect(strstr(why, "No such file") != NULL, "%s", why);
  cr_expect(!records_open(&r, "/tmp", why));
  close(fd);
  records_fixture_free(f);
}

/* ---- steered names ----------------------------------------------------------------------------
 */

/* Default answers stand where their names belong. */
Test(records, steered) {
  struct records_fixture *f = records_fixture_new("example.com", zone);
  struct model_zone *m = &f->model->zones[0];
  uint8_t addresses[2][4] = {{192, 0, 2, 21}, {192, 0, 2, 20}};
  struct steer_endpoint endpoint = {.name = (char *)"e", .enabled = true};
  endpoint.addr4 = addresses;
  endpoint.addr4_count = 2;
  struct steer_entry entry = {.endpoint = 0, .weight = 1};
  struct steer_level level = {.entries = &entry, .entry_count = 1};
  struct steer_atom global = {.kind = ATOM_GLOBAL};
  struct steer_region region = {.name = (char *)"global",
                                .atoms = &global,
                                .atom_count = 1,
                                .levels = &level,
                                .level_count = 1};
  uint8_t owner[NAME_BUF] = "\1m\7example\3com";
  struct steer_domain steer = {.owner = owner,
                               .ttl = 30,
                               .endpoints = &endpoint,
                               .endpoint_count = 1,
                               .regions = &region,
                               .region_count = 1};
  steer.offers[STEER_A] = true;
  struct model_domain domain = {.steer = &steer};
  m->domains = &domain;
  m->domain_count = 1;
  struct buf out;
  struct records r;
  char why[512] = "";
  buf_init(&out);
  cr_assert(records_compile(m, 0, &out, why), "%s", why);
  cr_assert(records_open_memory(&r, out.data, out.len, why), "%s", why);
  cr_expect_eq(r.header->record_count, f->records.header->record_count + 2);
  int seen = 0;
  for (size_t at = records_first(); at < r.size;) {
    struct records_rr rr;
    at = records_read(&r, at, &rr);
    const char *text = records_fixture_text(&rr);
    seen += strcmp(text, seen == 0 ? "m.example.com. 30 A c0000214"
                                   : "m.example.com. 30 A c0000215") == 0;
  }
  cr_expect_eq(seen, 2);
  m->domains = NULL;
  m->domain_count = 0;
  records_close(&r);
  buf_close(&out);
  records_fixture_free(f);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "memory_source.h"
#include "zones/record.h"
#include "zones/zonefile.h"

static const uint8_t apex[NAME_BUF] = "\x01z";

#define FILE_OF(path, text)                                                                        \
  { path, text, sizeof(text) - 1 }

struct fixture {
  struct arena arena;
  struct diag_list problems;
  struct rr_list list;
};

/* The records as "owner ttl type length" lines in canonical order. */
static char *load(struct fixture *f, const struct memory_file *files, size_t count) {
  struct memory_source source;
  memory_source_init(&source, files, count);
  arena_init(&f->arena);
  diag_init(&f->problems);
  f->list = (struct rr_list){.memory = &f->arena};
  struct zonefile zone = {&source.base, NULL, apex, &f->list, &f->problems, false};
  zonefile_read(&zone, files[0].path);
  cr_assert(rr_list_sort(&f->list, apex, true, &f->problems));
  size_t size = f->list.count * (NAME_MAX_TEXT + 64) + 1;
  char *text = calloc(1, size);
  size_t at = 0;
  for (size_t i = 0; i < f->list.count; i++) {
    char name[NAME_MAX_TEXT];
    char type[16];
    const struct model_rr *rr = &f->list.rrs[i];
    at += (size_t)snprintf(text + at, size - at, "%s %u %s %u\n", name_to_text(name, rr->owner),
                           rr->ttl, record_type_text(rr->type, type), rr->rdata_len);
  }
  return text;
}

static void done(struct fixture *f, char *text) {
  free(text);
  free(f->list.rrs);
  arena_close(&f->arena);
  diag_close(&f->problems);
}

static void expect(const char *data, const char *expected) {
  struct fixture f;
  struct memory_file file = {"f", data, strlen(data)};
  char *text = load(&f, &file, 1);
  cr_expect_eq(f.problems.errors, 0, "%s: %s", data,
               f.problems.count > 0 ? f.problems.items[0].message : "");
  cr_expect_str_eq(text, expected, "%s", data);
  done(&f, text);
}

Test(zonefile, owner_ttl_class) {
  expect("a 1 IN A 192.0.2.1\n IN 2 AAAA ::1\n\tTXT x\nb A 192.0.2.1",
         "a.z. 1 A 4\na.z. 2 TXT 2\na.z. 2 AAAA 16\nb.z. 2 A 4\n");
  expect(
      "$TTL 1h30m\na A 192.0.2.1\n$TTL 5\nb CLASS1 A 192.0.2.1\nc 7 A 192.0.2.1\nd A 192.0.2.1\n",
      "a.z. 5400 A 4\nb.z. 5 A 4\nc.z. 7 A 4\nd.z. 5 A 4\n");
  expect("@ SOA . . 1 2 3 4 60\na A 192.0.2.1\n", "z. 60 SOA 22\na.z. 60 A 4\n");
}

Test(zonefile, comments_parentheses_and_line_ends) {
  expect("; x\r\n\r\n  ; y\r\na 1 A 192.0.2.1 ; z\r\n", "a.z. 1 A 4\n");
  expect("a 1 TXT ( \"x\" ; (\n  y )\n@ 1 A 192.0.2.1", "z. 1 A 4\na.z. 1 TXT 4\n");
}

Test(zonefile, origins) {
  expect("$ORIGIN sub\na 1 A 192.0.2.1\n$ORIGIN z.\n@ 1 A 192.0.2.1\nb.z. A 192.0.2.1\n$ORIGIN "
         ".\nc.z A 192.0.2.1\n",
         "z. 1 A 4\nb.z. 1 A 4\nc.z. 1 A 4\na.sub.z. 1 A 4\n");
}

Test(zonefile, escapes) {
  expect("a\\.b 1 A 192.0.2.1\n\\099d A 192.0.2.1\n\\000 A 192.0.2.1\n* A 192.0.2.1\nq\\\"q A "
         "192.0.2.1\n",
         "\\000.z. 1 A 4\n*.z. 1 A 4\na\\.b.z. 1 A 4\ncd.z. 1 A 4\nq\\\"q.z. 1 A 4\n");
}

Test(zonefile, repeated_records_are_dropped) {
  expect("a 1 NS x\nA 1 NS X\na 1 NS y\n", "a.z. 1 NS 5\na.z. 1 NS 5\n");
}

Test(zonefile, first_ttl_of_an_rrset_counts) {
  struct fixture f;
  struct memory_file file = {"f", "a 5 A 192.0.2.9\na 7 A 192.0.2.1\n", 32};
  char *text = load(&f, &file, 1);
  cr_expect_str_eq(text, "a.z. 5 A 4\na.z. 5 A 4\n");
  cr_assert_eq(f.problems.count, 1);
  cr_expect_eq(f.problems.items[0].level, DIAG_WARNING);
  cr_expect_eq(f.problems.items[0].line, 2);
  done(&f, text);
}

Test(zonefile, include) {
  struct fixture f;
  static const struct memory_file files[] = {
      FILE_OF("d/f", "$TTL 1\n$INCLUDE g sub.z.\nx A 192.0.2.1\n$INCLUDE ../e/h\n"),
      FILE_OF("d/g", "$TTL 2\n@ A 192.0.2.1\n$ORIGIN x.z.\ny A 192.0.2.1\n"),
      FILE_OF("e/h", "h A 192.0.2.1\n"),
  };
  char *text = load(&f, files, 3);
  cr_expect_eq(f.problems.errors, 0);
  cr_expect_str_eq(text, "h.z. 1 A 4\nsub.z. 2 A 4\nx.z. 1 A 4\ny.x.z. 2 A 4\n");
  done(&f, text);
}

Test(zonefile, paths) {
  char out[32];
  cr_expect(zonefile_resolve("a/b", "c", out, sizeof out) && strcmp(out, "a/c") == 0);
  cr_expect(zonefile_resolve("a/b", "./c//d", out, sizeof out) && strcmp(out, "a/c/d") == 0);
  cr_expect(zonefile_resolve("a/b", "../c", out, sizeof out) && strcmp(out, "c") == 0);
  cr_expect(zonefile_resolve("a/b/c", "../x", out, sizeof out) && strcmp(out, "a/x") == 0);
  cr_expect_not(zonefile_resolve("a/b", "../../c", out, sizeof out));
  cr_expect_not(zonefile_resolve("a", "../c", out, sizeof out));
  cr_expect_not(zonefile_resolve("a", "/c", out, sizeof out));
  cr_expect_not(zonefile_resolve("a", "", out, sizeof out));
  cr_expect_not(zonefile_resolve("a/b", "..", out, sizeof out));
  cr_expect_not(zonefile_resolve("a", "0123456789012345678901234567890123456789", out, sizeof out));
}

Test(zonefile, order_is_canonical) {
  /* RFC 4034 section 6.1 */
  expect(
      "zABC.a 1 A 192.0.2.1\nz 1 A 192.0.2.1\na 1 A 192.0.2.1\nZ.a 1 A 192.0.2.1\n"
      "\\001.z 1 A 192.0.2.1\n*.z 1 A 192.0.2.1\n\\200.z 1 A 192.0.2.1\nyljkjljk.a 1 A 192.0.2.1\n",
      "a.z. 1 A 4\nyljkjljk.a.z. 1 A 4\nz.a.z. 1 A 4\nzabc.a.z. 1 A 4\nz.z. 1 A 4\n"
      "\\001.z.z. 1 A 4\n*.z.z. 1 A 4\n\\200.z.z. 1 A 4\n");
}

Test(zonefile, errors_are_limited) {
  struct fixture f;
  char *data = malloc(4 * 10000 + 1);
  for (size_t i = 0; i < 10000; i++)
    memcpy(data + 4 * i, "a X\n", 5);
  struct memory_file file = {"f", data, 4 * 10000};
  char *text = load(&f, &file, 1);
  cr_expect_eq(f.problems.errors, ZONEFILE_MAX_ERRORS + 1);
  done(&f, text);
  free(data);
}

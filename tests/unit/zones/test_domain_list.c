/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/name.h"
#include "memory_source.h"
#include "zones/build_lists.h"
#include "zones/domain_list.h"

enum { MANY = 3000 };

static char path[] = "/tmp/sluice-domain-list-XXXXXX";

static void put(const void *text, size_t len) {
  static bool made;
  char why[FS_WHY];
  if (!made) {
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    close(fd);
    made = true;
  }
  cr_assert(fs_write_atomic(path, text, len, 0600, why), "%s", why);
}

static void remove_file(void) {
  unlink(path);
}

static struct domain_list *open_list(void) {
  char why[DOMAIN_LIST_WHY] = "";
  struct domain_list *list = domain_list_open(path, why);
  cr_assert(list, "%s", why);
  return list;
}

static enum domain_list_result find(struct domain_list *list, const char *name, json_t **entry,
                                    char *why) {
  uint8_t wire[NAME_BUF];
  const char *problem;
  cr_assert(name_from_text(wire, name, strlen(name), NULL, &problem), "%s", problem);
  return domain_list_find(list, wire, entry, why);
}

/* ---- as the build writes it --------------------------------------------------------------------
 */

static const char domain_yaml[] = "endpoints: {one: 192.0.2.1}\nregions: {global: {one: 1}}\n"
                                  "health: {type: tcp, port: 80}\nowner: edge\n";

static const char zone_yaml[] = "soa: {mname: ns1.example.net., rname: hostmaster.example.net.}\n"
                                "ns: [ns1.example.net.]\n";

static struct model *load(const char *const *paths, size_t count) {
  struct memory_file files[8] = {
      {"z.example/zone.yaml", (const uint8_t *)zone_yaml, sizeof zone_yaml - 1}};
  for (size_t i = 0; i < count; i++)
    files[i + 1] =
        (struct memory_file){paths[i], (const uint8_t *)domain_yaml, sizeof domain_yaml - 1};
  struct memory_source source;
  struct diag_list problems;
  diag_init(&problems);
  memory_source_init(&source, files, count + 1);
  struct model *model = config_load(&source.base, &problems);
  for (size_t i = 0; i < problems.count; i++)
    fprintf(stderr, "%s\n", problems.items[i].message);
  cr_assert_eq(problems.errors, 0);
  diag_close(&problems);
  return model;
}

Test(domain_list, of_a_build, .fini = remove_file) {
  static const char *const paths[] = {"z.example/@/domain.yaml", "z.example/a/domain.yaml",
                                      "z.example/a-b/domain.yaml", "z.example/a.b/domain.yaml",
                                      "z.example/_wildcard.w/domain.yaml"};
  struct model *model = load(paths, 5);
  struct buf out, again, checks;
  buf_init(&out);
  buf_init(&again);
  buf_init(&checks);
  cr_assert(build_domains_json(model, NULL, &out) && build_domains_json(model, NULL, &again));
  cr_expect(out.len == again.len && memcmp(out.data, again.data, out.len) == 0);
  put(out.data, out.len);
  struct domain_list *list = open_list();
  char why[DOMAIN_LIST_WHY] = "";
  static const char *const names[] = {"z.example.", "A.z.example.", "a-b.z.example.",
                                      "a.b.z.example.", "*.w.z.example."};
  for (size_t i = 0; i < 5; i++) {
    json_t *entry;
    cr_assert_eq(find(list, names[i], &entry, why), DOMAIN_LIST_FOUND, "%s: %s", names[i], why);
    cr_expect_str_eq(json_string_value(json_object_get(entry, "owner")), "edge");
    cr_expect(json_is_object(json_object_get(entry, "steer")));
    json_decref(entry);
  }
  cr_assert(build_checks_json(model, NULL, &checks));
  json_t *root = json_loadb((const char *)checks.data, checks.len, 0, NULL);
  cr_expect_eq(json_array_size(json_object_get(root, "domains")), 5);
  cr_expect(json_is_object(
      json_object_get(json_array_get(json_object_get(root, "domains"), 0), "steer")));
  json_decref(root);
  domain_list_close(list);
  buf_close(&out);
  buf_close(&again);
  buf_close(&checks);
  model_free(model);
}

Test(domain_list, of_no_domains, .fini = remove_file) {
  struct model *model = model_new();
  struct buf out;
  buf_init(&out);
  cr_assert(build_domains_json(model, NULL, &out));
  put(out.data, out.len);
  struct domain_list *list = open_list();
  char why[DOMAIN_LIST_WHY] = "";
  json_t *entry;
  cr_expect_eq(domain_list_next(list, &entry, why), DOMAIN_LIST_NONE);
  cr_expect_eq(find(list, "a.example.", &entry, why), DOMAIN_LIST_NONE);
  buf_clear(&out);
  cr_assert(build_checks_json(model, NULL, &out));
  json_t *root = json_loadb((const char *)out.data, out.len, 0, NULL);
  cr_expect(json_is_array(json_object_get(root, "domains")));
  json_decref(root);
  domain_list_close(list);
  buf_close(&out);
  model_free(model);
}

/* ---- large -------------------------------------------------------------------------------------
 */

/* Names with every other number; each seventh line is long. */
static void put_many(void) {
  struct buf out;
  buf_init(&out);
  buf_printf(&out, "{\"domains\": %d, \"format\": 2}\n", MANY);
  for (int i = 0; i < MANY; i++) {
    buf_printf(&out, "{\"domain\": \"n%06d.\\\\\\\"x.example.\", \"n\": %d, \"fill\": \"", i * 2,
               i);
    for (int k = 0; k < (i % 7 == 0 ? 3000 : i % 50); k++)
      buf_add_u8(&out, 'x');
    buf_add_str(&out, "\"}\n");
  }
  cr_assert(!out.failed);
  put(out.data, out.len);
  buf_close(&out);
}

Test(domain_list, finds_each_of_many, .fini = remove_file) {
  put_many();
  struct domain_list *list = open_list();
  char why[DOMAIN_LIST_WHY] = "";
  for (int i = -1; i <= MANY * 2; i++) {
    char name[64];
    json_t *entry;
    if (i < 0)
      snprintf(name, sizeof name, "a.example.");
    else
      snprintf(name, sizeof name, "n%06d.\\\"x.example.", i);
    bool there = i >= 0 && i % 2 == 0 && i < MANY * 2;
    cr_assert_eq(find(list, name, &entry, why), there ? DOMAIN_LIST_FOUND : DOMAIN_LIST_NONE,
                 "%s: %s", name, why);
    if (there)
      cr_assert_eq(json_integer_value(json_object_get(entry, "n")), i / 2);
    json_decref(entry);
  }
  for (int round = 0; round < 2; round++) {
    json_t *entry;
    for (int i = 0; i < MANY; i++) {
      cr_assert_eq(domain_list_next(list, &entry, why), DOMAIN_LIST_FOUND, "%s", why);
      cr_assert_eq(json_integer_value(json_object_get(entry, "n")), i);
      json_decref(entry);
    }
    cr_assert_eq(domain_list_next(list, &entry, why), DOMAIN_LIST_NONE);
    domain_list_rewind(list);
  }
  domain_list_close(list);
}

/* ---- hostile -----------------------------------------------------------------------------------
 */

#define LINE(name) "{\"domain\": \"" name "\"}\n"
#define HEADER(n) "{\"format\": 2, \"domains\": " #n "}\n"

Test(domain_list, refuses_wrong_files, .fini = remove_file) {
  static const char *const texts[] = {
      "",
      "\n",
      "{}\n",
      "[2]\n",
      "{\"format\": 1, \"domains\": 1}\n" LINE("a."),
      "{\"format\": 2}\n",
      "{\"format\": 2, \"domains\": 0}",
      HEADER(1) "{\"domain\": \"a.\"}",
      HEADER(2) LINE("a.") "{\"domain",
  };
  char why[DOMAIN_LIST_WHY];
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    put(texts[i], strlen(texts[i]));
    why[0] = '\0';
    cr_expect(!domain_list_open(path, why), "%s", texts[i]);
    cr_expect(strstr(why, path), "%s", why);
  }
  cr_expect(!domain_list_open("/nonexistent/domains.json", why));
  cr_expect(!domain_list_open("/tmp", why));
}

Test(domain_list, wrong_lines_are_told, .fini = remove_file) {
  static const char *const texts[] = {
      HEADER(2) LINE("b.") LINE("a."),
      HEADER(2) LINE("a.") LINE("a."),
      HEADER(2) LINE("a."),
      HEADER(1) "\n",
      HEADER(1) "{\"domain\":\"a.\"}\n",
      HEADER(1) "{\"domain\": \"a.}\n",
      HEADER(1) "{\"domain\": \"\\u0061.\"}\n",
      HEADER(1) "{\"domain\": \"a.\", }\n",
      HEADER(1) "{\"domain\": \"a.\", \"domain\": 7}\n",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    put(texts[i], strlen(texts[i]));
    struct domain_list *list = open_list();
    enum domain_list_result result;
    char why[DOMAIN_LIST_WHY] = "";
    json_t *entry;
    while ((result = domain_list_next(list, &entry, why)) == DOMAIN_LIST_FOUND)
      json_decref(entry);
    cr_expect_eq(result, DOMAIN_LIST_BAD, "%s", texts[i]);
    cr_expect(strstr(why, path), "%s", why);
    result = find(list, "a.", &entry, why); /* any answer but a crash */
    if (result == DOMAIN_LIST_FOUND)
      json_decref(entry);
    domain_list_close(list);
  }
}

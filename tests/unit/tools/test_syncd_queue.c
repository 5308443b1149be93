/* SPDX-License-Identifier: Apache-2.0 */
/* Queues of sluice-syncd: what is believed of their files, and where the others go. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/syncd/queue.h"

static void make_folder(char *folder) {
  strcpy(folder, "/tmp/test_syncd_queue.XXXXXX");
  cr_assert(mkdtemp(folder));
}

static void write_file(const char *folder, const char *text) {
  char path[256];
  snprintf(path, sizeof path, "%s/dns-a.json", folder);
  FILE *file = fopen(path, "w");
  cr_assert(file);
  fputs(text, file);
  fclose(file);
}

static bool exists(const char *folder, const char *name) {
  char path[256];
  struct stat st;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return stat(path, &st) == 0;
}

static void remove_folder(const char *folder) {
  static const char *const names[] = {"dns-a.json", "dns-a.json.damaged", "dns-a.json.damaged.2"};
  char path[256];
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    unlink(path);
  }
  rmdir(folder);
}

Test(syncd_queue, what_is_saved_is_read_again) {
  char folder[64];
  char why[QUEUE_WHY] = "";
  bool damaged;
  struct queue queue;
  make_folder(folder);
  cr_assert(queue_open(&queue, folder, "dns-a", &damaged, why), "%s", why);
  cr_expect_not(damaged);
  cr_expect(queue_save(&queue, why)); /* nothing to write */
  cr_expect_not(exists(folder, "dns-a.json"));
  json_t *job = queue_add(&queue, "cdn.e.test.", 1796000000);
  cr_assert(job);
  json_object_set_new(job, "want", json_string("ab"));
  json_object_set_new(job, "again", json_integer(7));
  json_object_set_new(queue.level, "www.e.test.", json_string("cd"));
  cr_expect_eq(queue_add(&queue, "cdn.e.test.", 1), job);
  cr_expect(queue_save(&queue, why), "%s", why);
  cr_expect_not(queue.dirty);
  queue_close(&queue);
  cr_assert(queue_open(&queue, folder, "dns-a", &damaged, why), "%s", why);
  cr_expect_not(damaged);
  job = json_object_get(queue.jobs, "cdn.e.test.");
  cr_expect_str_eq(json_string_value(json_object_get(job, "want")), "ab");
  cr_expect_eq(json_integer_value(json_object_get(job, "since")), 1796000000);
  cr_expect_null(json_object_get(job, "again")); /* its round ended with the process */
  cr_expect_str_eq(json_string_value(json_object_get(queue.level, "www.e.test.")), "cd");
  queue_close(&queue);
  remove_folder(folder);
}

#define JOB(members) "{\"format\": 1, \"level\": {}, \"jobs\": {\"a.\": {" members "}}}"

static const char *const hostile[] = {
    "",
    "x",
    "[]",
    "null",
    "{\"format\": 1, \"jobs\": {}}",
    "{\"format\": 1, \"jobs\": [], \"level\": {}}",
    "{\"format\": 1.0, \"jobs\": {}, \"level\": {}}",
    "{\"format\": 1, \"jobs\": {}, \"jobs\": {}, \"level\": {}}",
    "{\"format\": 1, \"jobs\": {\"a.\": null}, \"level\": {}}",
    "{\"format\": 1, \"jobs\": {}, \"level\": {\"a.\": 1}}",
    JOB(""),
    JOB("\"since\": 1, \"attempts\": 0"),
    JOB("\"since\": -1, \"attempts\": 0, \"next\": 0"),
    JOB("\"since\": 1, \"attempts\": 9223372036854775807, \"next\": 0"),
    JOB("\"since\": 1, \"attempts\": 0, \"next\": 9223372036854775807"),
    JOB("\"since\": 9223372036854775807, \"attempts\": 0, \"next\": 0"),
    JOB("\"since\": 1, \"attempts\": 0, \"next\": 0, \"want\": 1"),
    JOB("\"since\": 1, \"attempts\": 0, \"next\": 0, \"error\": {}"),
    JOB("\"since\": 1, \"attempts\": 0, \"next\": 0, \"alone\": false"),
};

Test(syncd_queue, what_is_damaged_is_set_aside_and_never_lost) {
  for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
    char folder[64];
    char why[QUEUE_WHY] = "";
    bool damaged;
    struct queue queue;
    make_folder(folder);
    for (int round = 0; round < 2; round++) {
      write_file(folder, hostile[i]);
      cr_assert(queue_open(&queue, folder, "dns-a", &damaged, why), "%s", why);
      cr_expect(damaged, "%s", hostile[i]);
      cr_expect(strstr(why, round ? "damaged.2 now" : "damaged now"), "%s", why);
      cr_expect_eq(json_object_size(queue.jobs) + json_object_size(queue.level), 0);
      queue_close(&queue);
    }
    cr_expect(exists(folder, "dns-a.json.damaged") && exists(folder, "dns-a.json.damaged.2"));
    cr_expect_not(exists(folder, "dns-a.json"));
    remove_folder(folder);
  }
}

Test(syncd_queue, long_texts_are_refused) {
  char text[10000];
  char why[QUEUE_WHY] = "";
  struct queue queue = {.jobs = json_object(), .level = json_object()};
  snprintf(text, sizeof text, "{\"format\": 1, \"jobs\": {}, \"level\": {\"a.\": \"%05000d\"}}", 0);
  cr_expect_not(queue_parse(&queue, (const uint8_t *)text, strlen(text), why));
  cr_expect_str_eq(why, "what is in `level` must be texts");
  snprintf(text, sizeof text, "{\"format\": 1, \"jobs\": {}, \"level\": {\"%03000d\": \"x\"}}", 0);
  cr_expect_not(queue_parse(&queue, (const uint8_t *)text, strlen(text), why));
  queue_close(&queue);
}

Test(syncd_queue, names_of_providers_are_no_paths) {
  static const char *const names[] = {"", ".", "..", "../x", "a/b", ".x"};
  char why[QUEUE_WHY] = "";
  bool damaged;
  struct queue queue;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    cr_expect_not(queue_open(&queue, "/tmp", names[i], &damaged, why));
    cr_expect(strstr(why, "cannot be the name"), "%s", why);
    queue_close(&queue);
  }
}

Test(syncd_queue, waits_grow_up_to_five_minutes) {
  cr_expect_eq(queue_backoff(1000, 0, 0), 1000);
  cr_expect_eq(queue_backoff(1000, 1, 0), 1000);
  cr_expect_eq(queue_backoff(1000, 4, 0), 8000);
  cr_expect_eq(queue_backoff(1000, 1000000, 0), QUEUE_BACKOFF_MAX);
  cr_expect_eq(queue_backoff(1000, 1, 1), 750);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs probes and prints what they found, one JSON object a line, in the order in which they end:
 *   {"target": TEXT, "round": N, "ok": BOOL, "own_fault": BOOL, "reason": TEXT,
 *    "phases": {"resolve": MICROSECONDS or null, ...}}
 *
 *   probe_once [--resolver ADDR[@PORT]] [--program NAME=JSON_ARGV]... [--run-as USER]
 *              [--rounds N] [--cancel MS] [--quit MS] [--usage] SETTINGS TARGET...
 *
 * SETTINGS are the merged settings of a check (zones/config_health.h).  The targets of a round are
 * probed at once.  --cancel cancels what still runs after so long and goes on; --quit closes the
 * whole set then; --usage adds a last line {"cpu_us": N, "grown_kb": N} of what all the probes
 * took: CPU, and memory at its peak over that before the first.  Exit status: 0; 2 wrong usage; 3
 * descriptors or handles were left behind.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "healthcheck/probe.h"

enum { PROGRAMS = 16, ARGUMENTS = 32 };

struct run {
  struct once *once;
  struct probe *probe;
  struct probe_target target;
  const char *text;
};

struct once {
  uv_loop_t loop;
  uv_timer_t timer;
  struct probe_set *set;
  struct check *check;
  struct run *runs;
  size_t count, left;
  unsigned round, rounds;
  uint64_t cancel, quit;
  bool usage;
};

static const char *argv_of[PROGRAMS][ARGUMENTS + 1];
static struct probe_program programs[PROGRAMS];
static size_t program_count;
static json_t *program_json[PROGRAMS];

static int usage(const char *what) {
  fprintf(stderr, "probe_once: %s\n", what);
  return 2;
}

/* Descriptors that are open now. */
static unsigned count_descriptors(void) {
  unsigned count = 0;
  DIR *folder = opendir("/proc/self/fd");
  while (folder != NULL && readdir(folder) != NULL)
    count++;
  closedir(folder);
  return count;
}

/* A field of /proc/self/status, in KB. */
static long memory_kb(const char *field) {
  char line[256];
  long kb = 0;
  FILE *file = fopen("/proc/self/status", "re");
  while (file != NULL && fgets(line, sizeof line, file) != NULL)
    if (strncmp(line, field, strlen(field)) == 0)
      kb = strtol(line + strlen(field), NULL, 10);
  if (file != NULL)
    fclose(file);
  return kb;
}

static long cpu_us(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000L + usage.ru_utime.tv_usec +
         usage.ru_stime.tv_usec;
}

/* NAME=["/path", "argument", ...] */
static bool add_program(char *text) {
  char *equals = strchr(text, '=');
  if (equals == NULL || program_count == PROGRAMS)
    return false;
  *equals = '\0';
  json_t *list = json_loads(equals + 1, 0, NULL);
  size_t count = json_array_size(list);
  program_json[program_count] = list;
  if (count == 0 || count > ARGUMENTS)
    return false;
  for (size_t i = 0; i < count; i++)
    argv_of[program_count][i] = json_string_value(json_array_get(list, i));
  programs[program_count] = (struct probe_program){.name = text, .argv = argv_of[program_count]};
  program_count++;
  return true;
}

static void print_result(const struct run *run, const struct probe_result *result) {
  static const char *const names[PROBE_PHASES] = {"resolve", "connect", "tls",
                                                  "send",    "first",   "all"};
  json_t *phases = json_object();
  for (int i = 0; i < PROBE_PHASES; i++)
    json_object_set_new(phases, names[i],
                        result->phase_us[i] < 0 ? json_null() : json_integer(result->phase_us[i]));
  json_t *line = json_pack("{s:s, s:i, s:b, s:b, s:s, s:o}", "target", run->text, "round",
                           (int)run->once->round, "ok", (int)result->ok, "own_fault",
                           (int)result->own_fault, "reason", result->reason, "phases", phases);
  json_dumpf(line, stdout, 0);
  json_decref(line);
  putchar('\n');
  fflush(stdout);
}

static void start_round(struct once *once);

/* From the loop, so that no result comes while a round is being started. */
static void next_round(uv_timer_t *timer) {
  start_round(timer->data);
}

static void round_ended(struct once *once) {
  uv_timer_stop(&once->timer);
  if (++once->round < once->rounds) {
    uv_timer_start(&once->timer, next_round, 0, 0);
    return;
  }
  probe_set_close(once->set);
  uv_close((uv_handle_t *)&once->timer, NULL);
}

static void on_done(void *arg, const struct probe_result *result) {
  struct run *run = arg;
  run->probe = NULL;
  print_result(run, result);
  if (--run->once->left == 0)
    round_ended(run->once);
}

static void on_cancel(uv_timer_t *timer) {
  struct once *once = timer->data;
  for (size_t i = 0; i < once->count; i++)
    probe_cancel(once->runs[i].probe);
  round_ended(once);
}

static void on_quit(uv_timer_t *timer) {
  struct once *once = timer->data;
  once->round = once->rounds;
  round_ended(once);
}

static void start_round(struct once *once) {
  once->left = once->count;
  for (size_t i = 0; i < once->count; i++) {
    struct run *run = &once->runs[i];
    run->probe = probe_start(once->set, once->check, &run->target, on_done, run);
    if (run->probe == NULL)
      abort();
  }
  if (once->cancel > 0)
    uv_timer_start(&once->timer, on_cancel, once->cancel, 0);
  if (once->quit > 0)
    uv_timer_start(&once->timer, on_quit, once->quit, 0);
}

static void read_targets(struct once *once, char **texts, size_t count) {
  once->runs = calloc(count, sizeof *once->runs);
  if (once->runs == NULL)
    abort();
  once->count = count;
  for (size_t i = 0; i < count; i++) {
    struct run *run = &once->runs[i];
    run->once = once;
    run->text = texts[i];
    if (inet_pton(AF_INET, texts[i], run->target.address) == 1)
      run->target.family = 4;
    else if (inet_pton(AF_INET6, texts[i], run->target.address) == 1)
      run->target.family = 6;
    else
      run->target.host = texts[i];
  }
}

static int run_all(struct once *once, const struct probe_options *options) {
  char why[PROBE_WHY] = "";
  if (uv_loop_init(&once->loop) != 0)
    abort();
  unsigned before = count_descriptors(); /* with those of the loop itself */
  uv_timer_init(&once->loop, &once->timer);
  once->timer.data = once;
  once->set = probe_set_open(&once->loop, options, why);
  if (once->set == NULL) {
    uv_close((uv_handle_t *)&once->timer, NULL);
    uv_run(&once->loop, UV_RUN_DEFAULT);
    uv_loop_close(&once->loop);
    return usage(why);
  }
  long cpu = cpu_us(), memory = memory_kb("VmRSS:");
  start_round(once);
  uv_run(&once->loop, UV_RUN_DEFAULT);
  if (once->usage)
    printf("{\"cpu_us\": %ld, \"grown_kb\": %ld}\n", cpu_us() - cpu, memory_kb("VmHWM:") - memory);
  unsigned after = count_descriptors();
  int status = uv_loop_close(&once->loop) == 0 ? 0 : 3;
  if (after != before || status != 0) {
    fprintf(stderr, "probe_once: %u descriptors before, %u after%s\n", before, after,
            status != 0 ? ", and handles are open" : "");
    return 3;
  }
  if (waitpid(-1, NULL, WNOHANG | __WALL) != -1) {
    fprintf(stderr, "probe_once: there are child processes\n");
    return 3;
  }
  return 0;
}

static bool read_options(int argc, char **argv, struct once *once, struct probe_options *options) {
  static const struct option known[] = {
      {"resolver", required_argument, NULL, 'r'}, {"program", required_argument, NULL, 'p'},
      {"run-as", required_argument, NULL, 'u'},   {"rounds", required_argument, NULL, 'n'},
      {"cancel", required_argument, NULL, 'c'},   {"quit", required_argument, NULL, 'q'},
      {"usage", no_argument, NULL, 'm'},          {0},
  };
  for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
    if (option == 'r')
      options->resolver = optarg;
    else if (option == 'u')
      options->run_as = optarg;
    else if (option == 'n')
      once->rounds = (unsigned)strtoul(optarg, NULL, 10);
    else if (option == 'c')
      once->cancel = strtoul(optarg, NULL, 10);
    else if (option == 'm')
      once->usage = true;
    else if (option == 'q')
      once->quit = strtoul(optarg, NULL, 10);
    else if (option != 'p' || !add_program(optarg))
      return false;
  }
  options->programs = programs;
  options->program_count = program_count;
  return argc - optind >= 2;
}

int main(int argc, char **argv) {
  struct once once = {.rounds = 1};
  struct probe_options options = {0};
  char why[CHECK_WHY];
  if (!read_options(argc, argv, &once, &options))
    return usage("wrong usage; see the head of probe_once.c");
  json_t *settings = json_loads(argv[optind], 0, NULL);
  once.check = check_read(settings, why);
  json_decref(settings);
  if (once.check == NULL)
    return usage(why);
  read_targets(&once, argv + optind + 1, (size_t)(argc - optind - 1));
  int status = run_all(&once, &options);
  check_free(once.check);
  free(once.runs);
  for (size_t i = 0; i < PROGRAMS; i++)
    json_decref(program_json[i]);
  return status;
}

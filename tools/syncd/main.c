/* SPDX-License-Identifier: Apache-2.0 */
/* sluice-syncd: reads its settings, starts the engine and waits for signals. */
#include <getopt.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/service.h"
#include "tools/syncd/control.h"
#include "tools/syncd/engine.h"

enum { EXIT_USAGE = 2 };

static const char help[] =
    "Usage: sluice-syncd -c FILE\n"
    "\n"
    "Keeps other DNS providers level with this server: retries, ends of timed\n"
    "overrides, health.  It alone reads the providers' credentials.\n"
    "\n"
    "  -c, --config FILE     the machine's settings (section `syncd:`)\n"
    "      --help, --version\n"
    "\n"
    "Signals: SIGTERM saves the queues and ends.\n"
    "\n"
    "Examples:\n"
    "  sluice-syncd -c /etc/sluice/sluice.yaml\n";

struct program {
  struct service service;
  struct engine *engine;
  struct control_commands *control;
};

static bool open_parts(struct program *program, const struct syncd_settings *settings, char *why) {
  program->engine = engine_open(&program->service.loop, settings, why);
  if (program->engine == NULL)
    return false;
  program->control = syncd_control_open(&program->service, settings->control, settings->group,
                                        program->engine, why);
  return program->control != NULL;
}

static int run(const struct syncd_settings *settings) {
  static struct program program;
  char why[ENGINE_WHY];
  if (!service_open(&program.service, NULL, NULL)) {
    log_error("out of memory");
    return EXIT_FAILURE;
  }
  bool ok = open_parts(&program, settings, why);
  if (ok) {
    log_info("ready");
    service_run(&program.service, "keeping providers level");
    engine_save(program.engine);
    /* A request to a provider may take long; its job is in the queue and will be done again. */
    if (engine_is_busy(program.engine)) {
      unlink(settings->control);
      _exit(EXIT_SUCCESS);
    }
  } else {
    log_error("%s", why);
  }
  control_commands_close(program.control);
  engine_close(program.engine);
  service_close(&program.service);
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* The file of -c; NULL with the exit status. */
static const char *read_arguments(int argc, char **argv, int *status) {
  static const struct option options[] = {{"help", no_argument, NULL, 'h'},
                                          {"version", no_argument, NULL, 'v'},
                                          {"config", required_argument, NULL, 'c'},
                                          {NULL, 0, NULL, 0}};
  const char *file = NULL;
  int c;
  opterr = 0;
  *status = EXIT_USAGE;
  while ((c = getopt_long(argc, argv, ":c:", options, NULL)) != -1) {
    if (c == 'h' || c == 'v') {
      fputs(c == 'h' ? help : "sluice-syncd " SLUICE_VERSION "\n", stdout);
      *status = EXIT_SUCCESS;
      return NULL;
    }
    if (c != 'c') {
      log_error("%s %.100s (see sluice-syncd --help)",
                c == ':' ? "a value is missing after" : "unknown option", argv[optind - 1]);
      return NULL;
    }
    file = optarg;
  }
  if (optind == argc && file != NULL)
    return file;
  log_error(file == NULL ? "-c FILE is missing (see sluice-syncd --help)"
                         : "unexpected arguments (see sluice-syncd --help)");
  return NULL;
}

int main(int argc, char **argv) {
  struct syncd_settings settings;
  char why[SYNCD_SETTINGS_WHY];
  int status;
  signal(SIGPIPE, SIG_IGN);
  umask(0077);                           /* the queues are nobody else's business */
  setenv("UV_THREADPOOL_SIZE", "64", 0); /* one for each provider */
  json_object_seed(0);
  log_setup("sluice-syncd", LOG_FORMAT_TEXT, LOG_LEVEL_INFO);
  const char *file = read_arguments(argc, argv, &status);
  if (file == NULL)
    return status;
  bool ok = syncd_settings_read(&settings, file, why);
  log_setup("sluice-syncd", settings.log, LOG_LEVEL_INFO);
  if (!ok)
    log_error("%s", why);
  status = ok ? run(&settings) : EXIT_FAILURE;
  syncd_settings_close(&settings);
  return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings of sluice-healthd: flags, and the machine's settings file that `-c` names.  A flag
 * wins over the file.  In the file, what is the checker's stands in the section `healthd:` under
 * the name of its long flag; `data:`, `health:` (the feed's socket), `group:` and `log:` of the
 * server hold for the checker too, unless its section says otherwise.  `checks:` are the programs
 * of exec checks, `secrets:` those of alerts.
 */
#ifndef SLUICE_HEALTHCHECK_SETTINGS_H
#define SLUICE_HEALTHCHECK_SETTINGS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/log.h"
#include "healthcheck/probe.h"

enum {
  HEALTH_SETTINGS_WHY = 512,
  HEALTH_PROGRAMS = 256, /* at most */
  HEALTH_RATE = 5000,    /* probes in a second */
  HEALTH_CONCURRENCY = 4096,
};

struct health_settings {
  char *data;    /* folder of builds */
  char *feed;    /* socket that servers subscribe to */
  char *state;   /* file */
  char *control; /* socket, or NULL: none */
  char *spool;   /* folder, or NULL: incidents are not kept */
  char *resolver;
  char *run_as;
  char *group; /* whose members may use the control socket, or NULL */
  unsigned rate, concurrency;
  unsigned alert_window, alert_quiet; /* ms; 0: the defaults of alerts.h */
  enum log_format log;
  struct probe_program programs[HEALTH_PROGRAMS];
  size_t program_count;
  json_t *secrets;       /* section `secrets:` with all scalars as texts, or NULL */
  json_t *webhook_allow; /* list of texts, or NULL */
};

enum health_settings_result {
  HEALTH_SETTINGS_OK,
  HEALTH_SETTINGS_DONE,  /* --help or --version was printed */
  HEALTH_SETTINGS_USAGE, /* wrong usage: exit 2 */
  HEALTH_SETTINGS_BAD,   /* a bad file: exit 1 */
};

/* Reads arguments and file.  `why` (HEALTH_SETTINGS_WHY octets) gets one line when they are wrong.
 * health_settings_close() frees the contents in every case. */
enum health_settings_result health_settings_read(struct health_settings *settings, int argc,
                                                 char **argv, char *why);
void health_settings_close(struct health_settings *settings);

/* Reads what a settings file says; false with one line in `why`. */
bool health_settings_file(struct health_settings *settings, const char *path, const char *text,
                          size_t len, char *why);

#endif

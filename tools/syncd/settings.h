/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings of sluice-syncd: the machine's settings file that `-c` names.  Its own are in the
 * section `syncd:`; `control:` (the server's socket), `data:`, `group:` and `log:` of the server
 * hold for it too.
 */
#ifndef SLUICE_TOOLS_SYNCD_SETTINGS_H
#define SLUICE_TOOLS_SYNCD_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/log.h"

#define SYNCD_CONTROL "/run/sluice/syncd.sock"
#define SYNCD_STATE "/var/lib/sluice/syncd"

enum { SYNCD_SETTINGS_WHY = 512, SYNCD_CHECK_S = 600 };

struct syncd_settings {
  char *file;     /* the settings file itself: secrets and repository are read from it */
  char *server;   /* the server's control socket */
  char *data;     /* folder of the builds, or NULL */
  char *control;  /* our own socket */
  char *state;    /* folder of the queues */
  char *config;   /* directory of the configuration; NULL: the commit of the current build */
  char *locks;    /* folder of the locks of providers; NULL: SYNC_LOCK_FOLDER */
  unsigned check; /* seconds between two whole readings of a provider; 0: none */
  bool repair;    /* whether what these find is brought level, or only told */
  char *group;    /* whose members may use the socket, or NULL */
  enum log_format log;
};

/* Reads the file; false with one line in `why` (SYNCD_SETTINGS_WHY octets).
 * syncd_settings_close() frees in both cases. */
bool syncd_settings_read(struct syncd_settings *settings, const char *path, char *why);
void syncd_settings_close(struct syncd_settings *settings);

#endif

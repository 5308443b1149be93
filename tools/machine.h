/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the operator's tool needs of the machine's settings (/etc/sluice/sluice.yaml): where the
 * server listens for commands, where its state and its builds are.  Only these keys are looked at;
 * the programs themselves and `sluice check --system` judge the rest.
 */
#ifndef SLUICE_TOOLS_MACHINE_H
#define SLUICE_TOOLS_MACHINE_H

#include <stdbool.h>

#define MACHINE_SETTINGS "/etc/sluice/sluice.yaml"

/* The option table's line for --settings. */
#define MACHINE_HELP "the machine's settings (also -c FILE; default\n" MACHINE_SETTINGS ")"

/* `deploy:` */
struct machine_deploy {
  char *repository; /* to which configurations are pushed */
  char *branch;
  char *data;   /* folder of the builds, where it is not `data:` */
  char *follow; /* URL of another machine's repository */
};

struct machine {
  char *control;      /* the socket; each of these NULL where the settings do not say */
  char *state;        /* folder of store.db */
  char *data;         /* folder of the builds */
  char *geo, *asn;    /* location and AS number files */
  char *healthd;      /* the checker's control socket: `control:` of its section */
  bool has_syncd;     /* there is a section `syncd:` */
  char *syncd;        /* the control socket of sluice-syncd, of its section */
  char *syncd_locks;  /* folder of the locks of providers */
  char *syncd_config; /* its configuration directory, where that is not from a repository */
  struct machine_deploy deploy;
};

/*
 * Reads the settings at `path`, or the default ones for NULL (a default file that does not exist
 * gives an empty result).  False after an error was printed.  machine_close() frees after success.
 */
bool machine_read(struct machine *machine, const char *path);
void machine_close(struct machine *machine);

#endif

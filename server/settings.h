/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine's settings for sluiced: flags, and the file that `-c` names.  A flag wins over the
 * file.  The file is YAML; a key of sluiced has the name of its long flag, and a map that sluiced
 * does not know is the section of another program.
 */
#ifndef SLUICE_SERVER_SETTINGS_H
#define SLUICE_SERVER_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/log.h"
#include "server/address.h"
#include "server/settings_place.h"
#include "server/settings_protect.h"
#include "server/settings_secondary.h"
#include "server/settings_tls.h"
#include "server/settings_tls_peers.h"
#include "server/settings_transfer.h"

enum {
  SETTINGS_WHY = 512,
  SETTINGS_MAX_LISTEN = 64,
  SETTINGS_MAX_THREADS = 1024,
  SETTINGS_MAX_AS = 64,
  SETTINGS_KEYS = 32, /* at least so many as there are */
};

struct settings {
  const char *file;                        /* that was read, or NULL; must live as long */
  struct settings_place at[SETTINGS_KEYS]; /* of the values, for settings_blame() */
  char *data;
  struct address listen[SETTINGS_MAX_LISTEN];
  struct settings_place listen_at[SETTINGS_MAX_LISTEN]; /* where they are written */
  size_t listen_count;
  char *geo;                 /* location file, or NULL */
  char *asn;                 /* AS number file, or NULL */
  char *control;             /* control socket, or NULL: none */
  char *health;              /* the checker's socket, or NULL: none */
  unsigned health_stale;     /* seconds without news of health after which all count as healthy; 0:
                                never */
  char *state;               /* folder for what must survive a restart, or NULL: nothing is kept */
  char *user;                /* to become after binding, or NULL */
  char *group;               /* whose members may use the control socket, or NULL */
  char *as[SETTINGS_MAX_AS]; /* users who may act in the name of others */
  size_t as_count;
  char *nsid;               /* RFC 5001 name of this server, or NULL */
  unsigned threads;         /* UDP workers for each address; 0: one for each CPU */
  unsigned udp_max;         /* largest UDP response; 0: the default */
  unsigned tcp_connections; /* 0: the default */
  unsigned tcp_idle;        /* seconds without a query; 0: the default */
  struct settings_tls tls;
  struct settings_protect protect;
  enum log_format log;
  struct settings_transfer transfer;   /* sections `keys:` and `transfer:` of the file */
  struct settings_tls_peers tls_peers; /* section `tls:` */
  struct settings_secondary secondary; /* section `secondary:` */
};

enum settings_result {
  SETTINGS_OK,
  SETTINGS_DONE,  /* --help or --version was printed */
  SETTINGS_USAGE, /* wrong usage: exit 2 */
  SETTINGS_BAD,   /* a bad file: exit 1 */
};

/* Reads arguments and file.  On SETTINGS_USAGE and SETTINGS_BAD, `why` (SETTINGS_WHY octets) holds
 * one line.  settings_close() frees the contents in every case. */
enum settings_result settings_read(struct settings *settings, int argc, char **argv, char *why);
void settings_close(struct settings *settings);

/* Reads a file alone, whatever may be missing in it; false with one line in `why`.  `settings` is
 * all zero before; `path` must live as long; settings_close() frees the contents in every case. */
bool settings_read_file(struct settings *settings, const char *path, char *why);

/* Puts before the reason in `why` (SETTINGS_WHY octets) what it is about, the value of `key`:
 * "path:line:column: `key`: reason", or "--key: reason" if a flag has set it.  Returns false. */
bool settings_blame(const struct settings *settings, const char *key, char *why);
bool settings_blame_at(const struct settings *settings, struct settings_place at, const char *key,
                       char *why);

/* The same if the reason names one of the addresses to listen on; else it stays as it is. */
bool settings_blame_address(const struct settings *settings, char *why);

#endif

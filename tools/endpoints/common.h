/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands of `endpoints` share: options, a domain on its way from the command line to the
 * output, and the files that have the commands.
 */
#ifndef SLUICE_TOOLS_ENDPOINTS_COMMON_H
#define SLUICE_TOOLS_ENDPOINTS_COMMON_H

#include "tools/cli.h"
#include "tools/client.h"
#include "tools/endpoints/backend.h"
#include "tools/endpoints/effect.h"
#include "tools/endpoints/output.h"
#include "tools/endpoints/selector.h"
#include "tools/machine.h"

struct common {
  struct backend_options to;
  const char *format;
  const char *reason;
  const char *lasts; /* --for */
  bool json;
  enum output_format output; /* of `format` and `json` */
  int64_t expires_at;        /* of `lasts`; 0 without */
};

#define COMMON_OUTPUT(c)                                                                           \
  {"json", NULL, "print JSON", NULL, &(c).json}, {                                                 \
    "format", "FORMAT", "text, json, or slack: the blocks of a chat message", &(c).format, NULL    \
  }
#define COMMON_PLACE(c)                                                                            \
  {"socket", "PATH", CLIENT_SOCKET_HELP, &(c).to.socket, NULL}, {                                  \
    "settings", "FILE", MACHINE_HELP, &(c).to.settings, NULL                                       \
  }
#define COMMON_WHY(c)                                                                              \
  {"reason", "TEXT", "why, for those who ask later", &(c).reason, NULL}, {                         \
    "as", "NAME", "in whose name; only for users that the\nserver's settings list (`as:`)",        \
        &(c).to.as, NULL                                                                           \
  }
#define COMMON_FOR(c)                                                                              \
  { "for", "TIME", "ends by itself after this time: 90s, 30m, 2h,\n7d", &(c).lasts, NULL }

/* Reads the arguments as cli_parse() does and checks the common options.  False when the command
 * is over, with its exit status. */
bool common_parse(const struct cli_spec *spec, int argc, char **argv, size_t *count,
                  struct common *common, int *status);

/* A domain with the picked regions. */
struct target {
  struct selector selector;
  char name[NAME_MAX_TEXT];
  struct state *state;
  bool *picked; /* region_count */
  struct effect effect;
  json_t *entry; /* of the build's list, or NULL */
};

/* Finds out which domain is meant (no state yet).  An exit status; target_close() frees in any
 * case. */
int target_open(struct backend *backend, const char *text, struct target *target);
void target_close(struct target *target);

/* Picks the regions in `state`, which the target takes over. */
int target_pick(struct target *target, struct state *state);

/* Computes the effect of the facts in target->state. */
int target_compute(struct target *target);

/* All of these: state from the backend, regions, effect, and the build's entry. */
int target_load(struct backend *backend, struct target *target);

/* Prints it as `get` does; with JSON the document is returned (a new reference), else NULL. */
json_t *target_show(struct backend *backend, struct output *output, const struct target *target);

/* Names of the domain's endpoints; a new array, or NULL without memory. */
const char **target_endpoints(const struct steer_domain *domain);

/* Prints that there is no such endpoint, with the nearest; returns CLI_FAILED. */
int target_no_endpoint(const struct state *state, const char *endpoint);

/* The commands. */
int endpoints_get(int argc, char **argv);
int endpoints_set(int argc, char **argv);
int endpoints_profiles(int argc, char **argv);
int endpoints_reset(int argc, char **argv);
int endpoints_enable(int argc, char **argv);
int endpoints_disable(int argc, char **argv);
int endpoints_drain(int argc, char **argv);
int endpoints_undrain(int argc, char **argv);
int endpoints_history(int argc, char **argv);
int endpoints_exposure(int argc, char **argv);
int endpoints_force_health(int argc, char **argv); /* `sluice health override` */

#endif

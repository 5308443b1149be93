/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a configuration for a command: all problems are printed, one a line, as they are in
 * zones/model.h.
 */
#ifndef SLUICE_TOOLS_CONFIG_H
#define SLUICE_TOOLS_CONFIG_H

#include <stdbool.h>

#include "zones/arena.h"
#include "zones/model.h"
#include "zones/source_git.h"
#include "zones/yaml_tree.h"

/* What kind of input a command was given; `dir` unless one of the others is set. */
struct config_input {
  const char *dir;       /* a configuration directory */
  const char *system;    /* the machine's settings, to look exec checks up; or NULL */
  const char *zone_file; /* a master file, with `origin` */
  const char *origin;
  const char *zone_list; /* a file of lines "origin file"; "-" is standard input */
  const char *git;       /* a git repository, with `commit` (any revision) */
  const char *commit;
  bool secrets;          /* look the secrets of alert routes and providers up there as well */
  bool no_program_check; /* exec checks do not matter: no warning that they are not looked up */
  bool compile;          /* report zones that cannot be compiled, too */
  json_t *problems;      /* an array that gets the problems, instead of stderr; or NULL */
  struct source_git_commit *found; /* gets the commit that was read; or NULL */
};

/* Returns the model, or NULL after its errors were printed.  model_free() frees it. */
struct model *config_read(const struct config_input *input);

/* What a machine's settings define by name: exec checks, the keys of `checks:`, and secrets. */
struct config_programs {
  struct arena memory;
  const struct yaml_node *defined; /* NULL: none */
  const struct yaml_node *secrets; /* NULL: none */
  bool syncs;                      /* it keeps providers level, so it has their secrets */
};

/* Reads the settings.  False after the problem was reported; config_programs_close() frees in both
 * cases. */
bool config_programs_open(struct config_programs *programs, const char *system,
                          struct diag_list *problems);
void config_programs_close(struct config_programs *programs);

/* For struct config_source; `arg` is the struct config_programs. */
bool config_programs_have(const void *arg, const char *name);
bool config_secrets_have(const void *arg, const char *name);

/* Adds the zones of a list; problems of the list itself are reported at its lines.  Files are
 * relative to the folder of the list (of standard input: to the working directory). */
void config_add_zone_list(struct model *model, const char *path, struct diag_list *problems);

#endif

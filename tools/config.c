/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/config.h"

#include <stdio.h>

#include "base/fs.h"
#include "tools/cli.h"
#include "zones/build.h"

static bool open_source(const struct config_input *input, struct config_source **source) {
  char why[FS_WHY] = "";
  struct source_git_commit commit;
  bool ok = input->git ? config_source_open_git(input->git, input->commit, source, &commit, why)
                       : config_source_open_dir(input->dir, source, why);
  if (!ok)
    cli_error("%s", why);
  else if (input->git && input->found)
    *input->found = commit;
  return ok;
}

static struct model *read_tree(const struct config_input *input, struct diag_list *problems) {
  struct config_source *source = NULL;
  if (!open_source(input, &source))
    return NULL;
  source->programs_known = input->system || input->no_program_check;
  struct config_programs programs;
  if (input->system && config_programs_open(&programs, input->system, problems)) {
    source->has_program = config_programs_have;
    source->has_secret = input->secrets ? config_secrets_have : NULL;
    source->provider_secrets = programs.syncs;
    source->programs = &programs;
    source->programs_path = input->system;
  }
  struct model *model = config_load(source, problems);
  if (!model)
    cli_error("out of memory");
  source->close(source);
  if (input->system)
    config_programs_close(&programs);
  return model;
}

static struct model *read_zones(const struct config_input *input, struct diag_list *problems) {
  struct model *model = model_new();
  if (!model) {
    cli_error("out of memory");
    return NULL;
  }
  if (input->zone_file)
    model_add_zone_file(model, input->zone_file, input->origin, problems);
  else
    config_add_zone_list(model, input->zone_list, problems);
  return model;
}

/* The text of a file that is not UTF-8 does not get into JSON: `?` instead. */
static json_t *text_json(const char *text) {
  json_t *json = json_string(text);
  return json ? json : json_string("?");
}

static void print_problems(const struct config_input *input, const struct diag_list *problems) {
  if (!input->problems) {
    diag_print(problems, stderr);
    return;
  }
  for (size_t i = 0; i < problems->count; i++) {
    const struct diag *d = &problems->items[i];
    json_array_append_new(input->problems,
                          json_pack("{s:o, s:I, s:I, s:s, s:o}", "path", text_json(d->path), "line",
                                    (json_int_t)(d->line ? d->line : 1), "column",
                                    (json_int_t)(d->column ? d->column : 1), "level",
                                    d->level == DIAG_WARNING ? "warning" : "error", "message",
                                    text_json(d->message)));
  }
}

struct model *config_read(const struct config_input *input) {
  struct diag_list problems;
  diag_init(&problems);
  bool plain = input->zone_file || input->zone_list;
  struct model *model = plain ? read_zones(input, &problems) : read_tree(input, &problems);
  if (model && input->compile && problems.errors == 0)
    build_check(model, &problems);
  diag_sort(&problems);
  print_problems(input, &problems);
  if (model && problems.failed)
    cli_error("out of memory");
  if (problems.errors || problems.failed) {
    model_free(model);
    model = NULL;
  }
  diag_close(&problems);
  return model;
}

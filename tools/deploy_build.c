/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/fs.h"
#include "tools/cli.h"
#include "tools/config.h"
#include "tools/deploy.h"
#include "zones/builddir.h"
#include "zones/inputs.h"

enum { TRIES = 3, SHOWN = 200, PREPARED_LIMIT = 256 << 20 };

static const char prepared_file[] = "prepared.json";

/* ---- reading ----------------------------------------------------------------------------------
 */

/* All that a reading of the commit needs and gives. */
struct reading {
  const struct deploy_place *place;
  struct config_source *source;
  struct inputs *inputs;
  struct config_programs programs;
  struct diag_list problems;
  struct model *model;
  char base[17]; /* the build that kept zones are in */
};

static void print_problems(struct diag_list *problems) {
  diag_sort(problems);
  size_t all = problems->count;
  if (problems->count > SHOWN)
    problems->count = SHOWN;
  diag_print(problems, stderr);
  problems->count = all;
  if (all > SHOWN)
    fprintf(stderr, "and %zu more problems\n", all - SHOWN);
}

/* What zones depend on beside the commit: the machine's settings. */
static bool machine_hash(const struct deploy_place *place, char out[BUILDDIR_SHA + 1], char *why) {
  uint8_t *text = NULL;
  size_t len = 0;
  out[0] = 0;
  if (!place->system)
    return true;
  if (!fs_read(place->system, YAML_MAX_BYTES, &text, &len, why))
    return false;
  bool ok = builddir_sha(text, len, out);
  if (!ok)
    snprintf(why, DEPLOY_WHY, "out of memory");
  free(text);
  return ok;
}

static bool open_reading(struct reading *r, git_repository *repo, git_commit *commit, bool keep,
                         char *why) {
  char machine[BUILDDIR_SHA + 1];
  if (!config_source_open_commit(repo, commit, &r->source, why) ||
      !machine_hash(r->place, machine, why))
    return false;
  r->inputs = inputs_new(r->source, machine);
  if (!r->inputs) {
    snprintf(why, DEPLOY_WHY, "out of memory");
    return false;
  }
  if (keep) {
    inputs_keep(r->inputs, r->place->data, r->base);
    r->source->is_kept = inputs_is_kept;
    r->source->kept = r->inputs;
  }
  r->source->programs_known = r->place->system;
  if (r->place->system && config_programs_open(&r->programs, r->place->system, &r->problems)) {
    r->source->has_program = config_programs_have;
    r->source->programs = &r->programs;
    r->source->programs_path = r->place->system;
  }
  return true;
}

static bool judge_model(const struct reading *r, const char *commit, char *why) {
  if (!r->model || r->problems.failed) {
    snprintf(why, DEPLOY_WHY, "out of memory");
    return false;
  }
  if (r->problems.errors > 0) {
    snprintf(why, DEPLOY_WHY, "the configuration has %zu error%s", r->problems.errors,
             r->problems.errors == 1 ? "" : "s");
    return false;
  }
  if (r->model->zone_count > 0)
    return true;
  snprintf(why, DEPLOY_WHY,
           "there is no zone in the commit %.12s, so all names would be refused; a zone is a "
           "directory with a zone.yaml",
           commit);
  return false;
}

static void close_reading(struct reading *r) {
  model_free(r->model);
  inputs_free(r->inputs);
  if (r->place->system)
    config_programs_close(&r->programs);
  if (r->source)
    r->source->close(r->source);
  diag_close(&r->problems);
}

/* ---- building ---------------------------------------------------------------------------------
 */

static bool build(const struct reading *r, git_commit *commit, const struct deploy_record *last,
                  bool final, struct deploy_build *out, char *why) {
  struct buf inputs;
  buf_init(&inputs);
  struct build_options options = {
      .data_dir = r->place->data,
      .commit = out->commit,
      .commit_time = git_commit_time(commit),
      .base = r->base,
      .serials = last ? last->zones : NULL,
      .retired = last ? last->retired : NULL,
      .serials_are_final = final,
      .inputs = &inputs,
      .prepare = true,
  };
  bool ok = inputs_dump(r->inputs, r->model, &inputs);
  if (!ok)
    snprintf(why, DEPLOY_WHY, "out of memory");
  /* The server, which is another user, must be able to read what is made here. */
  mode_t mask = umask(022);
  ok = ok && build_run(r->model, &options, &out->result, why);
  umask(mask);
  buf_close(&inputs);
  return ok;
}

static bool make_once(const struct deploy_place *place, git_repository *repo, git_commit *commit,
                      const struct deploy_record *last, bool final, bool keep,
                      struct deploy_build *out, char *why) {
  struct reading r = {.place = place};
  diag_init(&r.problems);
  bool ok = open_reading(&r, repo, commit, keep, why);
  if (ok) {
    r.model = config_load(r.source, &r.problems);
    print_problems(&r.problems);
    ok = judge_model(&r, out->commit, why) && build(&r, commit, last, final, out, why);
  }
  close_reading(&r);
  return ok;
}

bool deploy_build_make(const struct deploy_place *place, git_repository *repo, const char *commit,
                       const struct deploy_record *last, bool final, struct deploy_build *out,
                       char *why) {
  git_commit *found = NULL;
  *out = (struct deploy_build){0};
  if (!git_repo_commit(repo, commit, &found, why))
    return false;
  git_oid_tostr(out->commit, sizeof out->commit, git_commit_id(found));
  bool ok = false;
  for (int i = 0; !ok && i < TRIES; i++) {
    deploy_build_free(out);
    /* The last attempt takes nothing over without having read it. */
    ok = make_once(place, repo, found, last, final, i + 1 < TRIES, out, why);
    if (!ok && !out->result.stale)
      break;
  }
  git_commit_free(found);
  if (!ok)
    deploy_build_free(out);
  return ok;
}

void deploy_build_free(struct deploy_build *build) {
  json_decref(build->result.serials);
  json_decref(build->result.retired);
  build->result.serials = NULL;
  build->result.retired = NULL;
}

/* ---- between the two halves of a push ---------------------------------------------------------
 */

static json_t *last_id(const struct deploy *deploy) {
  char id[GIT_REPO_ID];
  git_oid_tostr(id, sizeof id, &deploy->last_id);
  return json_string(deploy->has_last ? id : "");
}

bool deploy_build_save(const struct deploy *deploy, const struct deploy_build *build, char *why) {
  char base[17];
  build_current(deploy->place->data, base);
  json_t *root = json_pack("{s:s, s:o, s:s, s:s, s:O, s:O}", "commit", build->commit, "last",
                           last_id(deploy), "base", base, "build", build->result.id, "zones",
                           build->result.serials, "retired", build->result.retired);
  char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
  char *path = deploy_file(deploy->place, prepared_file);
  bool ok = text && path;
  if (!ok)
    snprintf(why, DEPLOY_WHY, "out of memory");
  ok = ok && fs_write_atomic(path, text, strlen(text), 0644, why);
  free(path);
  free(text);
  json_decref(root);
  return ok;
}

static bool is_text(const json_t *root, const char *key, const char *wanted) {
  const char *text = json_string_value(json_object_get(root, key));
  return text && !strcmp(text, wanted);
}

bool deploy_build_load(const struct deploy *deploy, const char *commit,
                       struct deploy_build *build) {
  char why[FS_WHY];
  char base[17];
  uint8_t *text = NULL;
  size_t len = 0;
  *build = (struct deploy_build){0};
  char *path = deploy_file(deploy->place, prepared_file);
  json_t *root = NULL;
  if (path && fs_read(path, PREPARED_LIMIT, &text, &len, why))
    root = json_loadb((const char *)text, len, 0, NULL);
  json_t *last = last_id(deploy);
  build_current(deploy->place->data, base);
  const char *id = json_string_value(json_object_get(root, "build"));
  bool ok = id && strlen(id) == 16 && is_text(root, "commit", commit) &&
            is_text(root, "base", base) && is_text(root, "last", json_string_value(last));
  if (ok) {
    snprintf(build->commit, sizeof build->commit, "%s", commit);
    memcpy(build->result.id, id, sizeof build->result.id);
    build->result.serials = json_incref(json_object_get(root, "zones"));
    build->result.retired = json_incref(json_object_get(root, "retired"));
    ok = build->result.serials && build->result.retired;
    if (!ok)
      deploy_build_free(build);
  }
  json_decref(last);
  json_decref(root);
  free(text);
  free(path);
  return ok;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice sync import`. */
#include "tools/sync/import.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "tools/cli.h"
#include "tools/client.h"
#include "tools/machine.h"
#include "zones/host_name.h"
#include "zones/record.h"

enum { ERROR_TEXT = 1024 };

struct flags {
  const char *config, *git, *commit, *settings, *socket, *out;
  bool dry_run, json;
};

/* ---- texts ---------------------------------------------------------------------------------- */

static void close_files(struct import *import) {
  for (size_t i = 0; i < import->file_count; i++) {
    free(import->files[i].path);
    buf_close(&import->files[i].text);
  }
  free(import->files);
  import->files = NULL;
  import->file_count = 0;
}

struct buf *import_add_file(struct import *import, const char *directory, const char *sub,
                            const char *name) {
  size_t n = import->file_count;
  if ((n & (n - 1)) == 0) { /* grows at 0, 1, 2, 4, 8, ... */
    struct import_file *files = realloc(import->files, (n ? 2 * n : 1) * sizeof *files);
    if (!files)
      return NULL;
    import->files = files;
  }
  struct import_file *file = &import->files[n];
  if (asprintf(&file->path, "%s%s%s%s%s", directory ? directory : "", directory ? "/" : "",
               sub ? sub : "", sub ? "/" : "", name) < 0)
    return NULL;
  buf_init(&file->text);
  import->file_count++;
  return &file->text;
}

bool import_texts(struct import *import) {
  close_files(import);
  return import_defaults_text(import) && import_zone_text(import) && import_domain_texts(import);
}

/* ---- defaults.yaml -------------------------------------------------------------------------- */

/* A configuration of which only defaults.yaml is looked at: its zones need not be there yet, nor be
 * right. */
struct defaults_source {
  struct config_source base;
  struct config_source *all;
  bool found;
};

struct looking {
  struct defaults_source *source;
  bool (*visit)(void *arg, const char *path, char kind);
  void *arg;
};

static bool visit_defaults(void *arg, const char *path, char kind) {
  struct looking *l = arg;
  if (strcmp(path, "defaults.yaml") != 0)
    return true;
  l->source->found = true;
  return l->visit(l->arg, path, kind);
}

static bool list_defaults(struct config_source *source,
                          bool (*visit)(void *arg, const char *path, char kind), void *arg,
                          char *why) {
  struct defaults_source *s = (struct defaults_source *)source;
  struct looking looking = {s, visit, arg};
  return s->all->list(s->all, visit_defaults, &looking, why);
}

static bool read_defaults(struct config_source *source, const char *path, size_t limit,
                          uint8_t **data, size_t *len, char *why) {
  struct defaults_source *s = (struct defaults_source *)source;
  return s->all->read(s->all, path, limit, data, len, why);
}

static void print_first(const struct diag_list *problems) {
  for (size_t i = 0; i < problems->count; i++) {
    const struct diag *d = &problems->items[i];
    if (d->level != DIAG_ERROR)
      continue;
    cli_error("%.300s:%u:%u: %.500s", d->path, d->line ? d->line : 1, d->column ? d->column : 1,
              d->message);
    return;
  }
  cli_error("out of memory");
}

/* The settings of defaults.yaml; *found if there is one.  NULL after an error was printed.  Closes
 * the source. */
static json_t *settings_of(struct config_source *all, bool *found) {
  struct defaults_source source = {.base = {.list = list_defaults,
                                            .read = read_defaults,
                                            .prefix = all->prefix,
                                            .programs_known = true},
                                   .all = all};
  struct diag_list problems;
  diag_init(&problems);
  struct model *model = config_load(&source.base, &problems);
  bool ok = model && problems.errors == 0 && !problems.failed;
  json_t *settings = ok ? json_incref(model->settings) : NULL;
  if (!ok)
    print_first(&problems);
  model_free(model);
  diag_close(&problems);
  all->close(all);
  *found = source.found;
  return settings;
}

static struct config_source *open_directory(const char *path) {
  char why[FS_WHY] = "";
  struct config_source *source = NULL;
  if (config_source_open_dir(path, &source, why))
    return source;
  cli_error("%s", why);
  return NULL;
}

static struct config_source *open_commit(const char *git, const char *commit) {
  char why[FS_WHY] = "";
  struct config_source *source = NULL;
  struct source_git_commit found;
  if (config_source_open_git(git, commit, &source, &found, why))
    return source;
  cli_error("%s", why);
  return NULL;
}

static struct config_source *open_current(const char *settings) {
  struct machine machine;
  char commit[128];
  if (!machine_read(&machine, settings))
    return NULL;
  struct config_source *source = NULL;
  if (sync_find_current(&machine, commit, sizeof commit))
    source = open_commit(machine.deploy.repository, commit);
  machine_close(&machine);
  return source;
}

/* ---- the provider --------------------------------------------------------------------------- */

static bool unknown_provider(const char *name, const json_t *providers) {
  const char *candidates[64] = {"sluice"};
  size_t count = 1;
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)(uintptr_t)providers, key, value) {
    if (count < 64)
      candidates[count++] = key;
  }
  cli_error("the provider %.100s is not defined under `providers:` of defaults.yaml%s", name,
            cli_did_you_mean(name, candidates, count));
  return false;
}

static bool set_provider(struct import *import, const char *name, json_t *settings) {
  struct sync_provider *p = &import->provider;
  const char *mark = json_string_value(json_object_get(settings, "marker"));
  const char *type = json_string_value(json_object_get(settings, "type"));
  p->name = strdup(name);
  p->settings = settings;
  p->mark = strdup(mark ? mark : "sluice");
  p->kind = type ? provider_find(type) : NULL;
  if (!settings || !p->name || !p->mark)
    cli_error("out of memory");
  else if (!p->kind)
    cli_error("%s: providers of type %.64s cannot be imported from yet (those that can: %s)", name,
              type ? type : "?", provider_types());
  return settings && p->name && p->mark && p->kind;
}

static bool find_provider(struct import *import, const char *name, const struct flags *f) {
  bool found;
  if (strcmp(name, "sluice") == 0)
    return set_provider(import, name,
                        json_pack("{s:s, s:s}", "type", "sluice", "socket", import->run.socket));
  struct config_source *source = f->config ? open_directory(f->config)
                                 : f->git  ? open_commit(f->git, f->commit)
                                           : open_current(f->settings);
  json_t *settings = source ? settings_of(source, &found) : NULL;
  if (!settings)
    return false;
  const json_t *providers = json_object_get(settings, "providers");
  json_t *defined = json_object_get(providers, name);
  bool ok = defined ? set_provider(import, name, json_deep_copy(defined))
                    : unknown_provider(name, providers);
  json_decref(settings);
  return ok;
}

/* ---- where it goes -------------------------------------------------------------------------- */

static bool set_zone(struct import *import, const char *text) {
  char why[HOST_NAME_WHY];
  uint8_t name[NAME_BUF];
  size_t len = strlen(text);
  if (len > 1 && text[len - 1] == '.')
    len--;
  if (!host_name_read_zone(name, text, len, why)) {
    cli_error("%.255s is not the name of a zone: %s", text, why);
    return false;
  }
  name_copy_lower(import->apex, name);
  name_to_text(import->zone, import->apex);
  snprintf(import->directory, sizeof import->directory, "%.*s", (int)strlen(import->zone) - 1,
           import->zone);
  if (import->directory[0] != '\0')
    return true;
  cli_error("the root zone cannot be imported");
  return false;
}

/* What is at `out` already: the zone must not be. */
static bool look_at_out(struct import *import) {
  struct stat st;
  bool found = false;
  if (!import->out || (stat(import->out, &st) != 0 && errno == ENOENT))
    return true;
  char *path = fs_join(import->out, import->directory);
  bool free_place = path && lstat(path, &st) != 0 && errno == ENOENT;
  if (!free_place)
    cli_error("%s is there already, and nothing is overwritten; name another place with --out DIR",
              path ? path : import->out);
  free(path);
  struct config_source *source = free_place ? open_directory(import->out) : NULL;
  json_t *settings = source ? settings_of(source, &found) : NULL;
  if (!settings)
    return false;
  if (found)
    import->target = settings;
  else
    json_decref(settings);
  return true;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static void add_notes(struct import *import) {
  const char *type = import->provider.kind->type;
  const json_t *known = json_object_get(import->target, "providers");
  for (size_t i = 0; i < import->set_count; i++)
    if (import->sets[i].type == RECORD_SOA && import->sets[i].ttl != import->ttl)
      import_note(import, "the SOA has TTL %u there; here it has the zone's, %u",
                  import->sets[i].ttl, import->ttl);
  if (import->target && strcmp(import->provider.name, "sluice") != 0 &&
      !json_object_get(known, import->provider.name))
    import_note(import,
                "defaults.yaml does not define the provider %.100s, so zone.yaml does not name it",
                import->provider.name);
  if (import->domain_count == 0)
    return;
  import_note(import, "weights and disabled endpoints are as in force there; `alerts`, `profiles` "
                      "and `owner` are not kept by providers, `health` where they check "
                      "themselves");
  if (strcmp(type, "route53") == 0)
    import_note(import, "Route 53 does not tell: endpoints that are disabled or drained, weights "
                        "before they were scaled to 255, networks, AS numbers and subdivisions "
                        "outside of the US");
  if (strcmp(type, "ns1") == 0)
    import_note(import, "NS1 does not tell: subdivisions outside of the US and Canada");
}

static bool read_provider(struct import *import, struct provider_error *error) {
  const struct provider_kind *kind = import->provider.kind;
  void *self = sync_provider_open(&import->run, &import->provider, false, error);
  bool ok = self && kind->read(self, import->zone, &import->objects, error);
  if (!ok)
    cli_error("%s", error->text);
  ok = ok && import_model(import, self);
  if (self)
    kind->close(self);
  return ok;
}

static int do_import(struct import *import, const char *provider, const char *zone,
                     const struct flags *f, struct provider_error *error) {
  const char *socket = client_socket(f->socket, f->settings);
  import->unmodelled = json_array();
  import->approximate = json_array();
  import->notes = json_array();
  import->regions = json_object();
  import->run.socket = socket ? strdup(socket) : NULL;
  provider_objects_init(&import->objects);
  if (!import->unmodelled || !import->approximate || !import->notes || !import->regions ||
      !import->run.socket) {
    if (socket)
      cli_error("out of memory");
    return CLI_FAILED;
  }
  if (!set_zone(import, zone) || !sync_secrets_read(f->settings, &import->run.secrets) ||
      !find_provider(import, provider, f) || !look_at_out(import) ||
      !read_provider(import, error) || !import_check(import))
    return CLI_FAILED;
  add_notes(import);
  if (f->dry_run)
    import->out = NULL;
  if (import->out && !import_write(import))
    return CLI_FAILED;
  return json_array_size(import->unmodelled) > 0 ? CLI_PARTIAL : CLI_DONE;
}

void import_close(struct import *import) {
  close_files(import);
  for (size_t i = 0; i < import->set_count; i++) {
    for (size_t k = 0; k < import->sets[i].count; k++)
      free(import->sets[i].values[k].rdata);
    free(import->sets[i].values);
  }
  for (size_t i = 0; i < import->domain_count; i++) {
    free(import->domains[i].directory);
    steer_domain_free(import->domains[i].steer);
    json_decref(import->domains[i].document);
  }
  free(import->sets);
  free(import->domains);
  provider_objects_close(&import->objects);
  free(import->provider.name);
  free(import->provider.mark);
  json_decref(import->provider.settings);
  free(import->run.socket);
  json_decref(import->run.secrets);
  json_decref(import->target);
  json_decref(import->regions);
  json_decref(import->unmodelled);
  json_decref(import->approximate);
  json_decref(import->notes);
}

/* ---- the command ---------------------------------------------------------------------------- */

static int show(struct import *import, const struct flags *f, int status, const char *error,
                enum provider_failure failure) {
  if (f->json) {
    const char *name = sync_failure_name(failure == PROVIDER_OK ? PROVIDER_LOCAL : failure);
    json_t *document = import_json(import, status == CLI_FAILED ? error : NULL, name);
    if (!document)
      cli_error("out of memory");
    if (!document || !cli_print_json(document))
      status = CLI_FAILED;
    json_decref(document);
  } else if (status != CLI_FAILED) {
    if (!import->out)
      import_print(import);
    import_show(import, !import->out);
  }
  if (!cli_flush() && status == CLI_DONE)
    status = CLI_PARTIAL;
  if (status == CLI_FAILED && error[0] != '\0')
    cli_error("%s", error);
  return status;
}

static int run(const struct flags *f, const char *provider, const char *zone) {
  char text[ERROR_TEXT] = "";
  struct provider_error error = {.failure = PROVIDER_OK};
  struct import *import = calloc(1, sizeof *import);
  if (!import) {
    cli_error("out of memory");
    return CLI_FAILED;
  }
  import->out = !f->out ? (f->config ? f->config : ".") : strcmp(f->out, "-") == 0 ? NULL : f->out;
  cli_capture(text, sizeof text);
  int status = do_import(import, provider, zone, f, &error);
  cli_capture(NULL, 0);
  status = show(import, f, status, text, error.failure);
  import_close(import);
  free(import);
  return status;
}

int sync_import_command(int argc, char **argv) {
  struct flags f = {0};
  const struct cli_option options[] = {
      {"out", "DIR",
       "the configuration directory that gets the zone\n(default: that of --config, "
       "else the working\ndirectory); - prints the files",
       &f.out, NULL},
      {"dry-run", NULL, "print the files, write nothing", NULL, &f.dry_run},
      {"config", "DIR",
       "a directory whose defaults.yaml defines the\nprovider (default: the commit "
       "of the current\nbuild)",
       &f.config, NULL},
      {"git", "REPO", "the same in this git repository", &f.git, NULL},
      {"commit", "REV", "which commit of it", &f.commit, NULL},
      {"settings", "FILE", MACHINE_HELP, &f.settings, NULL},
      {"socket", "PATH", CLIENT_SOCKET_HELP, &f.socket, NULL},
      {"json", NULL, "print JSON", NULL, &f.json},
  };
  const struct cli_spec spec = {
      .usage = "sluice sync import PROVIDER ZONE [--out DIR | --dry-run] [--config DIR]",
      .about = "Reads what a provider (or `sluice`, this server) holds of a zone and writes it as\n"
               "configuration: ZONE/zone.yaml, ZONE/NAME/domain.yaml for each steered name, and\n"
               "defaults.yaml if there is none.  What cannot be expressed is named, and never\n"
               "simplified in silence.  A zone that is there already is not touched.  The result\n"
               "passes `sluice check`, or nothing is written.  Sends no request that writes.\n"
               "Exit status: 3 if something is not in the result, or only in part.",
      .examples = "sluice sync import dns-a tm.example.com --config .\n"
                  "sluice sync import dns-a tm.example.com --out /tmp/look\n"
                  "sluice sync import sluice tm.example.com --out -",
      .options = options,
      .option_count = CLI_COUNT(options),
      .min_args = 2,
      .max_args = 2,
  };
  size_t args;
  enum cli_next next = cli_parse(&spec, argc, argv, &args);
  if (next != CLI_GO_ON)
    return next == CLI_EXIT_DONE ? CLI_DONE : CLI_USAGE;
  if (!f.git != !f.commit)
    return cli_usage("--git and --commit go together; give both");
  if (f.git && f.config)
    return cli_usage("--config and --git exclude each other; give one");
  if (f.out && f.out[0] == '\0')
    return cli_usage("--out needs a directory, or - to print");
  return run(&f, argv[1], argv[2]);
}

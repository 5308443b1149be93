/* SPDX-License-Identifier: Apache-2.0 */
/* What a run of sync is about: configuration, zones, providers, targets. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "tools/cli.h"
#include "tools/client.h"
#include "tools/config.h"
#include "tools/machine.h"
#include "tools/names.h"
#include "tools/sync/run.h"

enum { MANIFEST_MAX = 64 << 20 };

/* ---- configuration -------------------------------------------------------------------------- */

bool sync_find_current(const struct machine *machine, char *commit, size_t size) {
  const char *data = machine->deploy.data ? machine->deploy.data : machine->data;
  char why[FS_WHY] = "the machine's settings do not say `data:`";
  uint8_t *text = NULL;
  size_t len = 0;
  char *path = data ? fs_join(data, "current/manifest.json") : NULL;
  json_t *manifest = NULL;
  if (path && fs_read(path, MANIFEST_MAX, &text, &len, why))
    manifest = json_loadb((const char *)text, len, 0, NULL);
  const char *id = json_string_value(json_object_get(manifest, "commit"));
  if (id && machine->deploy.repository) {
    snprintf(commit, size, "%s", id);
  } else if (manifest) {
    cli_error("the current build is not from a repository of the machine's settings; name the "
              "configuration by --config DIR, or by --git REPO --commit REV");
  } else {
    cli_error("which configuration? (%s); name it by --config DIR, or by --git REPO --commit REV",
              why);
  }
  bool ok = id && machine->deploy.repository;
  json_decref(manifest);
  free(text);
  free(path);
  return ok;
}

static int load_model(struct sync_run *run) {
  struct machine machine = {0};
  char commit[128];
  struct config_input input = {
      .dir = run->options.config,
      .git = run->options.git,
      .commit = run->options.commit,
      .no_program_check = true,
      .found = &run->commit,
  };
  if (!input.dir && !input.git) {
    if (!machine_read(&machine, run->options.settings))
      return CLI_FAILED;
    if (!sync_find_current(&machine, commit, sizeof commit)) {
      machine_close(&machine);
      return CLI_FAILED;
    }
    input.git = machine.deploy.repository;
    input.commit = commit;
    snprintf(run->build, sizeof run->build, "%s", commit);
  }
  run->model = config_read(&input);
  machine_close(&machine);
  return run->model ? CLI_DONE : CLI_FAILED;
}

/* ---- zones ---------------------------------------------------------------------------------- */

static bool ask_name(struct sync_zone *zone, const char *name) {
  const char **names = realloc(zone->names, (zone->name_count + 1) * sizeof *names);
  if (!names)
    return false;
  zone->names = names;
  names[zone->name_count] = strdup(name);
  return names[zone->name_count++];
}

static const struct model_zone *zone_of(const struct model *model, const uint8_t *name) {
  const struct model_zone *best = NULL;
  for (size_t i = 0; i < model->zone_count; i++)
    if (name_is_below_or_equal(name, model->zones[i].apex) &&
        (!best || name_labels(model->zones[i].apex) > name_labels(best->apex)))
      best = &model->zones[i];
  return best;
}

static struct sync_zone *add_zone(struct sync_run *run, const struct model_zone *zone) {
  for (size_t i = 0; i < run->zone_count; i++)
    if (run->zones[i].zone == zone)
      return &run->zones[i];
  struct sync_zone *mine = &run->zones[run->zone_count++];
  mine->zone = zone;
  name_to_text(mine->name, zone->apex);
  return mine;
}

/* Nothing in the zone under the name: the steered names that are near. */
static int unknown_name(const struct model_zone *zone, const char *text) {
  const char *candidates[1024];
  static char names[1024][256];
  size_t count = 0;
  for (size_t i = 0; i < zone->domain_count && count < 1024; i++) {
    char full[NAME_MAX_TEXT];
    snprintf(names[count], sizeof names[0], "%.255s",
             name_to_text(full, zone->domains[i].steer->owner));
    candidates[count] = names[count];
    count++;
  }
  cli_error("the configuration has nothing of the name %s%s", text,
            cli_did_you_mean(text, candidates, count));
  return CLI_FAILED;
}

static bool has_name(const struct model_zone *zone, const uint8_t *name) {
  for (size_t i = 0; i < zone->domain_count; i++)
    if (name_equal(zone->domains[i].steer->owner, name))
      return true;
  for (size_t i = 0; i < zone->rr_count; i++)
    if (name_equal(zone->rrs[i].owner, name))
      return true;
  return false;
}

static int choose_zones(struct sync_run *run) {
  struct name_zones zones;
  const struct model *model = run->model;
  run->zones = calloc(model->zone_count + 1, sizeof *run->zones);
  if (!run->zones || !names_from_model(&zones, model)) {
    cli_error("out of memory");
    return CLI_FAILED;
  }
  int status = CLI_DONE;
  for (size_t i = 0; run->options.arg_count == 0 && i < model->zone_count; i++)
    if (json_array_size(model->zones[i].providers) > 0)
      add_zone(run, &model->zones[i]);
  for (size_t i = 0; status == CLI_DONE && i < run->options.arg_count; i++) {
    const char *text = run->options.args[i];
    uint8_t name[NAME_BUF];
    char shown[NAME_MAX_TEXT];
    if (!names_resolve(&zones, text, name)) {
      status = CLI_FAILED;
      break;
    }
    const struct model_zone *zone = zone_of(model, name);
    if (!zone || (!name_equal(zone->apex, name) && !has_name(zone, name))) {
      status = zone ? unknown_name(zone, name_to_text(shown, name)) : CLI_FAILED;
      if (!zone)
        cli_error("no zone of the configuration has the name %s", text);
      break;
    }
    if (json_array_size(zone->providers) == 0 && !run->options.beside) {
      cli_error("%s has no `providers:` in its zone.yaml: nothing to bring level",
                name_to_text(shown, zone->apex));
      status = CLI_FAILED;
      break;
    }
    struct sync_zone *mine = add_zone(run, zone);
    if (!name_equal(zone->apex, name) && !ask_name(mine, name_to_text(shown, name)))
      status = CLI_FAILED;
  }
  names_close(&zones);
  if (status == CLI_DONE && run->zone_count == 0) {
    cli_error("no zone of the configuration has `providers:`; nothing to bring level");
    status = CLI_FAILED;
  }
  return status;
}

static bool open_domains(struct sync_zone *zone) {
  zone->domains = calloc(zone->zone->domain_count + 1, sizeof *zone->domains);
  for (size_t i = 0; zone->domains && i < zone->zone->domain_count; i++) {
    zone->domains[i].domain = &zone->zone->domains[i];
    name_to_text(zone->domains[i].name, zone->zone->domains[i].steer->owner);
  }
  return zone->domains;
}

static int compare_texts(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool open_others(struct sync_zone *zone) {
  size_t count = zone->zone->domain_count;
  zone->others = calloc(count + 1, sizeof *zone->others);
  for (size_t i = 0; zone->others && i < count; i++)
    zone->others[i] = zone->domains[i].name;
  if (zone->others)
    qsort(zone->others, count, sizeof *zone->others, compare_texts);
  return zone->others;
}

/* ---- providers ------------------------------------------------------------------------------ */

/* True if `list` is NULL or has the name among its parts "A,B". */
static bool is_asked(const char *list, const char *name) {
  size_t len = strlen(name);
  for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
    if (strncmp(at, name, len) == 0 && (at[len] == ',' || at[len] == '\0'))
      return true;
  return !list;
}

static struct sync_provider *add_provider(struct sync_run *run, const char *name) {
  for (size_t i = 0; i < run->provider_count; i++)
    if (strcmp(run->providers[i].name, name) == 0)
      return &run->providers[i];
  struct sync_provider *p = &run->providers[run->provider_count];
  const json_t *defined = json_object_get(json_object_get(run->model->settings, "providers"), name);
  bool own = strcmp(name, "sluice") == 0;
  p->name = strdup(name);
  p->settings = own ? json_pack("{s:s, s:s}", "type", "sluice", "socket", run->socket)
                    : json_deep_copy(defined);
  const char *type = json_string_value(json_object_get(p->settings, "type"));
  const char *mark = json_string_value(json_object_get(p->settings, "marker"));
  p->mark = strdup(mark && !own ? mark : "sluice");
  if (!p->name || !p->settings || !p->mark || !type)
    return NULL;
  run->provider_count++;
  p->kind = provider_find(type);
  if (!p->kind)
    provider_fail(&p->error, PROVIDER_LOCAL,
                  "%s: providers of type %.64s cannot be brought level yet (those that can: %s)",
                  name, type, provider_types());
  return p;
}

static bool check_asked(const struct sync_run *run) {
  char name[256];
  for (const char *at = run->options.provider; at;) {
    size_t len = strcspn(at, ",");
    snprintf(name, sizeof name, "%.*s", (int)(len < 255 ? len : 255), at);
    bool found = false;
    for (size_t i = 0; i < run->provider_count; i++)
      found = found || strcmp(run->providers[i].name, name) == 0;
    if (!found) {
      const char *candidates[64];
      size_t count = 0;
      const char *key;
      json_t *value;
      json_object_foreach(json_object_get(run->model->settings, "providers"), key,
                          value) if (count < 64) candidates[count++] = key;
      cli_error("no zone that was asked for is at a provider %s%s", name,
                cli_did_you_mean(name, candidates, count));
      return false;
    }
    at = at[len] == ',' ? at + len + 1 : NULL;
  }
  return true;
}

static bool add_target(struct sync_run *run, struct sync_zone *zone, const char *name) {
  if (run->options.without && is_asked(run->options.without, name))
    return true;
  for (size_t i = 0; i < run->target_count; i++)
    if (run->targets[i].zone == zone && strcmp(run->targets[i].provider->name, name) == 0)
      return true;
  struct sync_provider *provider = add_provider(run, name);
  if (!provider)
    return false;
  run->targets[run->target_count++] = (struct sync_target){.provider = provider, .zone = zone};
  return true;
}

/* Targets at the providers of `beside`. */
static bool add_beside(struct sync_run *run) {
  char name[256];
  const json_t *defined = json_object_get(run->model->settings, "providers");
  for (const char *at = run->options.beside; at;
       at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
    snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
    bool known = strcmp(name, "sluice") == 0 || json_object_get(defined, name);
    for (size_t z = 0; known && z < run->zone_count; z++)
      if (!add_target(run, &run->zones[z], name))
        return false;
  }
  return true;
}

static size_t count_parts(const char *list) {
  size_t count = list ? 1 : 0;
  for (; list && *list; list++)
    count += *list == ',';
  return count;
}

static int choose_targets(struct sync_run *run) {
  size_t most = run->zone_count * count_parts(run->options.beside);
  for (size_t z = 0; z < run->zone_count; z++)
    most += json_array_size(run->zones[z].zone->providers);
  run->providers = calloc(most + 1, sizeof *run->providers);
  run->targets = calloc(most + 1, sizeof *run->targets);
  bool ok = run->providers && run->targets;
  for (size_t z = 0; ok && z < run->zone_count; z++) {
    size_t i;
    const json_t *item;
    json_array_foreach(run->zones[z].zone->providers, i, item) {
      const char *name = json_string_value(item);
      if (!ok || !name || !is_asked(run->options.provider, name))
        continue;
      ok = add_target(run, &run->zones[z], name);
    }
  }
  ok = ok && add_beside(run);
  if (!ok)
    cli_error("out of memory");
  return ok && check_asked(run) ? CLI_DONE : CLI_FAILED;
}

/* ---- the whole ------------------------------------------------------------------------------ */

int sync_run_open(struct sync_run *run, const struct sync_options *options) {
  *run = (struct sync_run){.options = *options};
  int status = load_model(run);
  if (status == CLI_DONE && !sync_secrets_read(options->settings, &run->secrets))
    status = CLI_FAILED;
  const char *socket =
      status == CLI_DONE ? client_socket(options->socket, options->settings) : NULL;
  run->socket = socket ? strdup(socket) : NULL;
  if (status == CLI_DONE && !run->socket)
    status = CLI_FAILED;
  if (status == CLI_DONE)
    status = choose_zones(run);
  for (size_t z = 0; status == CLI_DONE && z < run->zone_count; z++)
    if (!open_domains(&run->zones[z]) || (options->rest && !open_others(&run->zones[z])))
      status = CLI_FAILED;
  if (status == CLI_DONE)
    status = choose_targets(run);
  if (status == CLI_DONE)
    sync_run_read_facts(run);
  return status;
}

static void close_target(struct sync_target *target) {
  for (size_t i = 0; i < target->zone->zone->domain_count; i++) {
    json_decref(target->before ? target->before[i] : NULL);
    json_decref(target->after ? target->after[i] : NULL);
  }
  free(target->before);
  free(target->after);
  free(target->fidelity);
  for (size_t i = 0; i < target->refusal_count; i++)
    free((char *)(uintptr_t)target->refusals[i].why);
  free(target->refusals);
  sync_plan_close(&target->plan);
  provider_objects_close(&target->actual);
  provider_objects_close(&target->desired);
}

void sync_run_close(struct sync_run *run) {
  sync_run_unlock(run);
  for (size_t i = 0; i < run->target_count; i++)
    close_target(&run->targets[i]);
  for (size_t i = 0; i < run->provider_count; i++) {
    free(run->providers[i].name);
    free(run->providers[i].mark);
    json_decref(run->providers[i].settings);
  }
  for (size_t z = 0; z < run->zone_count; z++) {
    for (size_t i = 0; run->zones[z].domains && i < run->zones[z].zone->domain_count; i++)
      sync_facts_close(&run->zones[z].domains[i]);
    for (size_t i = 0; i < run->zones[z].name_count; i++)
      free((char *)(uintptr_t)run->zones[z].names[i]);
    free(run->zones[z].names);
    free(run->zones[z].others);
    free(run->zones[z].domains);
  }
  free(run->targets);
  free(run->providers);
  free(run->zones);
  free(run->socket);
  json_decref(run->secrets);
  model_free(run->model);
  *run = (struct sync_run){0};
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/system_check.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/secret.h"
#include "healthcheck/settings.h"
#include "server/settings_files.h"
#include "tools/cli.h"
#include "tools/config.h"
#include "tools/machine.h"
#include "tools/syncd/settings.h"
#include "zones/domain_list.h"

/* Sections: maps that belong to one of the programs.  Each program leaves those of the others
 * alone, so that only here a slip in such a name shows. */
static const char *const sections[] = {"checks",    "deploy",  "healthd", "keys", "rate-limit",
                                       "secondary", "secrets", "syncd",   "tls",  "transfer"};

static bool check_sections(const char *path, const struct yaml_node *root) {
  bool ok = true;
  for (size_t i = 0; root->kind == YAML_MAP && i < root->count; i++) {
    const struct yaml_node *key = root->pairs[i].key;
    bool known = root->pairs[i].value->kind != YAML_MAP;
    for (size_t s = 0; !known && s < CLI_COUNT(sections); s++)
      known = !strcmp(key->text, sections[s]);
    if (known)
      continue;
    cli_error("%s:%u:%u: unknown section `%.100s`%s", path, key->line, key->column, key->text,
              cli_did_you_mean(key->text, sections, CLI_COUNT(sections)));
    ok = false;
  }
  return ok;
}

static void tell(void *arg, const char *line) {
  (void)arg;
  cli_error("%s", line);
}

/* A machine without a server (a git host, say) has settings all the same. */
static bool check_server_file(const char *path) {
  struct settings settings = {.data = NULL};
  char why[SETTINGS_WHY] = "out of memory";
  bool ok = settings_transfer_init(&settings.transfer) && settings_read_file(&settings, path, why);
  if (!ok)
    cli_error("%s", why);
  ok = ok && settings_files_check(&settings, false, tell, NULL);
  settings_close(&settings);
  return ok;
}

/* As a server would at its start, so that nothing may be missing. */
static bool check_server(const char *path) {
  char program[] = "sluiced", option[] = "-c";
  char *file = strdup(path);
  char *argv[] = {program, option, file, NULL};
  struct settings settings;
  char why[SETTINGS_WHY] = "out of memory";
  enum settings_result result = SETTINGS_BAD;
  bool ok = false;
  optind = 0;
  if (file) {
    result = settings_read(&settings, 3, argv, why);
    ok = result == SETTINGS_OK && settings_files_check(&settings, true, tell, NULL);
    settings_close(&settings);
    free(file);
  }
  if (result != SETTINGS_OK)
    cli_error("%s", why);
  return ok;
}

/* ---- secrets -------------------------------------------------------------------------------- */

/* The machine's secrets, with where they are written. */
struct secrets {
  const char *path;
  const struct yaml_node *name;    /* the key `secrets`; NULL: there is none */
  const struct yaml_node *section; /* its value, likewise */
  const json_t *places;
};

/* Each is well formed, whoever needs it. */
static bool check_places(const struct secrets *secrets) {
  bool ok = true;
  for (size_t i = 0; secrets->section && i < secrets->section->count; i++) {
    const struct yaml_pair *pair = &secrets->section->pairs[i];
    const char *name = pair->key->text;
    char why[SECRET_WHY] = "out of memory";
    json_t *one = json_pack("{s:O}", name, json_object_get(secrets->places, name));
    if (!one || !secret_check(one, why)) {
      cli_error("%s:%u:%u: %s", secrets->path, pair->value->line, pair->value->column, why);
      ok = false;
    }
    json_decref(one);
  }
  return ok;
}

/* The alert routes of the current build; NULL where there is none (yet). */
static json_t *current_routes(const char *data) {
  char *path = data ? fs_join(data, "current/checks.json") : NULL;
  json_t *checks = path ? json_load_file(path, 0, NULL) : NULL;
  json_t *routes = json_incref(json_object_get(checks, "routes"));
  json_decref(checks);
  free(path);
  return routes;
}

/* Its providers; likewise. */
static json_t *current_providers(const char *data) {
  char why[DOMAIN_LIST_WHY];
  char *path = data ? fs_join(data, "current/domains.json") : NULL;
  struct domain_list *list = path ? domain_list_open(path, why) : NULL;
  json_t *providers =
      list ? json_incref(json_object_get(domain_list_header(list), "providers")) : NULL;
  domain_list_close(list);
  free(path);
  return providers;
}

/* Reads it as the program would that uses it; `what` and `who` name it. */
static bool can_be_had(const struct secrets *secrets, const char *what, const char *who,
                       const char *name) {
  struct secret secret;
  char why[SECRET_WHY];
  const struct yaml_node *place = secrets->section ? yaml_get(secrets->section, name) : NULL;
  if (!place) {
    cli_error(
        "%s:%u:%u: the %s `%s` of the current build names the secret `%s`, which is not here; "
        "add it under `secrets`",
        secrets->path, secrets->name ? secrets->name->line : 1,
        secrets->name ? secrets->name->column : 1, what, who, name);
    return false;
  }
  bool ok = secret_read(secrets->places, name, &secret, why);
  secret_wipe(&secret);
  if (ok)
    return true;
  const char *variable =
      json_string_value(json_object_get(json_object_get(secrets->places, name), "env"));
  bool elsewhere = variable && !getenv(variable);
  cli_error("%s:%u:%u: %s%s", secrets->path, place->line, place->column,
            elsewhere ? "warning: " : "", why);
  return elsewhere;
}

/* Those that the entries of `users` (NULL: none) name, but for what was `seen`. */
static bool check_users(const struct secrets *secrets, const char *what, json_t *users,
                        json_t *seen) {
  const char *who;
  json_t *settings;
  bool ok = true;
  json_object_foreach(users, who, settings) {
    const char *name = json_string_value(json_object_get(settings, "secret"));
    if (!name || json_object_get(seen, name))
      continue;
    json_object_set_new(seen, name, json_true());
    ok = can_be_had(secrets, what, who, name) && ok;
  }
  json_decref(users);
  return ok;
}

/* The credentials of providers are on the machine only that keeps these level. */
static bool check_secrets(const struct secrets *secrets, const char *data, bool syncs) {
  if (!check_places(secrets))
    return false;
  json_t *seen = json_object();
  bool ok = check_users(secrets, "alert route", current_routes(data), seen);
  if (syncs)
    ok = check_users(secrets, "provider", current_providers(data), seen) && ok;
  json_decref(seen);
  return ok;
}

/* ---- the readers of the programs ------------------------------------------------------------ */

static bool check_checker(const char *path, const struct yaml_node *root, const char *text,
                          size_t len) {
  struct health_settings settings = {.data = NULL};
  char why[HEALTH_SETTINGS_WHY];
  bool ok = health_settings_file(&settings, path, text, len, why);
  const struct secrets secrets = {path, yaml_get_key(root, "secrets"), yaml_get(root, "secrets"),
                                  settings.secrets};
  if (!ok)
    cli_error("%s", why);
  ok = ok && check_secrets(&secrets, settings.data, yaml_get(root, "syncd") != NULL);
  health_settings_close(&settings);
  return ok;
}

static bool check_syncd(const char *path) {
  struct syncd_settings settings;
  char why[SYNCD_SETTINGS_WHY];
  bool ok = syncd_settings_read(&settings, path, why);
  if (!ok)
    cli_error("%s", why);
  syncd_settings_close(&settings);
  return ok;
}

static bool check_tools(const char *path) {
  struct machine machine;
  if (!machine_read(&machine, path))
    return false;
  machine_close(&machine);
  return true;
}

/* The server's reader reports what is no YAML at all; the others would only repeat it. */
static bool check_text(const char *path, const char *text, size_t len) {
  struct arena memory;
  struct diag_list problems;
  arena_init(&memory);
  diag_init(&problems);
  const struct yaml_node *root =
      yaml_tree_read(path, (const uint8_t *)text, len, &memory, &problems);
  bool readable = root && root->kind == YAML_MAP && problems.errors == 0;
  bool ok = readable && check_sections(path, root);
  bool serves = !readable || yaml_get(root, "listen") != NULL;
  ok = (serves ? check_server(path) : check_server_file(path)) && ok;
  if (readable) {
    ok = check_checker(path, root, text, len) && ok;
    ok = (!yaml_get(root, "syncd") || check_syncd(path)) && ok;
    ok = check_tools(path) && ok;
  }
  diag_close(&problems);
  arena_close(&memory);
  return ok && readable;
}

bool system_check(const char *path) {
  uint8_t *text = NULL;
  size_t len = 0;
  char why[512];
  if (!fs_read(path, YAML_MAX_BYTES, &text, &len, why)) {
    cli_error("%s:1:1: %s", path, why);
    return false;
  }
  bool ok = check_text(path, (const char *)text, len);
  free(text);
  return ok;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/settings.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/fs.h"
#include "zones/yaml_json.h"
#include "zones/yaml_tree.h"

enum {
  FILE_MAX = 1 << 20,
  RATE_MAX = 1000000,
  CONCURRENCY_MAX = 1000000,
  ARGUMENTS_MAX = 256,
  TIME_MAX = 86400000
};

/* ---- keys, the same in file and flags ---------------------------------------------------------
 */

enum key_kind { KEY_TEXT, KEY_NUMBER, KEY_TIME, KEY_LOG };

struct key {
  const char *name;
  enum key_kind kind;
  size_t offset; /* in struct health_settings */
  unsigned most;
  const char *server; /* the server's key that stands in for it, or NULL */
};

#define TEXT(name, field, server)                                                                  \
  { name, KEY_TEXT, offsetof(struct health_settings, field), 0, server }
static const struct key keys[] = {
    TEXT("data", data, "data"),
    TEXT("feed", feed, "health"),
    TEXT("state", state, NULL),
    TEXT("control", control, NULL),
    TEXT("spool", spool, NULL),
    TEXT("resolver", resolver, NULL),
    TEXT("run-as", run_as, NULL),
    TEXT("group", group, "group"),
    {"rate", KEY_NUMBER, offsetof(struct health_settings, rate), RATE_MAX, NULL},
    {"concurrency", KEY_NUMBER, offsetof(struct health_settings, concurrency), CONCURRENCY_MAX,
     NULL},
    {"alert-window", KEY_TIME, offsetof(struct health_settings, alert_window), TIME_MAX, NULL},
    {"alert-quiet", KEY_TIME, offsetof(struct health_settings, alert_quiet), TIME_MAX, NULL},
    {"log", KEY_LOG, 0, 0, "log"},
};
enum { KEYS = sizeof keys / sizeof *keys };

static bool fail(char *why, const char *reason) {
  snprintf(why, HEALTH_SETTINGS_WHY, "%s", reason);
  return false;
}

static bool set_text(char **place, const char *text, char *why) {
  if (*text == '\0')
    return fail(why, "must not be empty");
  char *copy = strdup(text);
  if (copy == NULL)
    return fail(why, "out of memory");
  free(*place);
  *place = copy;
  return true;
}

static bool set_number(unsigned *place, const struct key *key, const char *text, char *why) {
  size_t digits = strspn(text, "0123456789");
  unsigned long value = digits > 0 && digits < 10 ? strtoul(text, NULL, 10) : 0;
  if (text[digits] != '\0' || (text[0] == '0' && digits > 1) || value < 1 || value > key->most) {
    snprintf(why, HEALTH_SETTINGS_WHY, "`%.100s` is not a number from 1 to %u", text, key->most);
    return false;
  }
  *place = (unsigned)value;
  return true;
}

/* "500ms", "3s", "10m", "1h"; a number alone is seconds. */
static bool set_time(unsigned *place, const struct key *key, const char *text, char *why) {
  static const struct {
    const char *unit;
    unsigned long ms;
  } units[] = {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
  size_t digits = strspn(text, "0123456789");
  unsigned long value = digits > 0 && digits < 9 ? strtoul(text, NULL, 10) : 0;
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    if (value == 0 || strcmp(text + digits, units[i].unit) != 0 || value > key->most / units[i].ms)
      continue;
    *place = (unsigned)(value * units[i].ms);
    return true;
  }
  snprintf(why, HEALTH_SETTINGS_WHY, "`%.100s` is not a time such as 500ms, 3s, 10m, up to 24h",
           text);
  return false;
}

static bool set_key(struct health_settings *settings, const struct key *key, const char *text,
                    char *why) {
  void *place = (char *)settings + key->offset;
  switch (key->kind) {
  case KEY_TEXT:
    return set_text(place, text, why);
  case KEY_NUMBER:
    return set_number(place, key, text, why);
  case KEY_TIME:
    return set_time(place, key, text, why);
  case KEY_LOG:
    break;
  }
  bool json = strcmp(text, "json") == 0;
  if (!json && strcmp(text, "text") != 0) {
    snprintf(why, HEALTH_SETTINGS_WHY, "`%.100s` is neither `text` nor `json`", text);
    return false;
  }
  settings->log = json ? LOG_FORMAT_JSON : LOG_FORMAT_TEXT;
  return true;
}

/* ---- the file ---------------------------------------------------------------------------------
 */

struct reading {
  struct health_settings *settings;
  const char *path;
  char *why;
};

static bool fail_at(const struct reading *r, const struct yaml_node *node, const char *key,
                    const char *reason) {
  snprintf(r->why, HEALTH_SETTINGS_WHY, "%.200s:%u:%u: `%.40s`: %.200s", r->path, node->line,
           node->column, key, reason);
  return false;
}

static bool take_key(const struct reading *r, const struct key *key, const struct yaml_node *value,
                     const char *name) {
  char reason[HEALTH_SETTINGS_WHY];
  if (value->kind != YAML_SCALAR)
    return fail_at(r, value, name, "must be a single value");
  return set_key(r->settings, key, value->text, reason) || fail_at(r, value, name, reason);
}

static bool take_webhook_allow(const struct reading *r, const struct yaml_node *value) {
  bool ok = value->kind == YAML_LIST || value->kind == YAML_SCALAR;
  for (size_t i = 0; ok && value->kind == YAML_LIST && i < value->count; i++)
    ok = value->items[i]->kind == YAML_SCALAR;
  if (!ok)
    return fail_at(r, value, "webhook-allow", "must be a list of networks");
  json_decref(r->settings->webhook_allow);
  r->settings->webhook_allow =
      value->kind == YAML_LIST ? yaml_to_json(value) : json_pack("[o]", yaml_to_json(value));
  return r->settings->webhook_allow != NULL || fail_at(r, value, "webhook-allow", "out of memory");
}

static bool take_section(const struct reading *r, const struct yaml_node *section) {
  if (section->kind != YAML_MAP)
    return fail_at(r, section, "healthd", "must be a map of settings");
  for (size_t i = 0; i < section->count; i++) {
    const struct yaml_node *name = section->pairs[i].key;
    const char *names[KEYS + 1];
    const struct key *key = NULL;
    for (size_t k = 0; k < KEYS; k++) {
      names[k] = keys[k].name;
      if (strcmp(name->text, names[k]) == 0)
        key = &keys[k];
    }
    names[KEYS] = "webhook-allow";
    if (key != NULL) {
      if (!take_key(r, key, section->pairs[i].value, name->text))
        return false;
    } else if (strcmp(name->text, names[KEYS]) == 0) {
      if (!take_webhook_allow(r, section->pairs[i].value))
        return false;
    } else {
      char reason[HEALTH_SETTINGS_WHY] = "unknown key";
      const char *near = diag_nearest(name->text, names, KEYS + 1);
      if (near != NULL)
        snprintf(reason, sizeof reason, "unknown key (did you mean `%s`?)", near);
      return fail_at(r, name, name->text, reason);
    }
  }
  return true;
}

static void free_program(const struct probe_program *program) {
  for (const char *const *argument = program->argv; argument != NULL && *argument != NULL;
       argument++)
    free((char *)*argument);
  free((void *)program->argv);
  free((char *)program->name);
}

static bool take_program(const struct reading *r, const struct yaml_pair *pair) {
  struct health_settings *settings = r->settings;
  const char *name = pair->key->text;
  const struct yaml_node *command = pair->value;
  if (command->kind == YAML_MAP) {
    if (command->count != 1 || strcmp(command->pairs[0].key->text, "command") != 0)
      return fail_at(r, command, name, "must be {command: [PROGRAM, ARGUMENT...]}");
    command = command->pairs[0].value;
  }
  bool ok = command->kind == YAML_LIST && command->count > 0 && command->count <= ARGUMENTS_MAX;
  for (size_t i = 0; ok && i < command->count; i++)
    ok = command->items[i]->kind == YAML_SCALAR;
  if (!ok || command->items[0]->text[0] != '/')
    return fail_at(r, command, name,
                   "must be a list: the absolute path of a program, then its arguments");
  if (settings->program_count == HEALTH_PROGRAMS)
    return fail_at(r, command, name, "there are too many programs");
  const char **argv = calloc(command->count + 1, sizeof *argv);
  struct probe_program program = {.name = strdup(name), .argv = argv};
  ok = argv != NULL && program.name != NULL;
  for (size_t i = 0; ok && i < command->count; i++)
    ok = (argv[i] = strdup(command->items[i]->text)) != NULL;
  if (!ok) {
    free_program(&program);
    return fail_at(r, command, name, "out of memory");
  }
  settings->programs[settings->program_count++] = program;
  return true;
}

static bool take_programs(const struct reading *r, const struct yaml_node *section) {
  if (section->kind != YAML_MAP)
    return fail_at(r, section, "checks", "must be a map of programs");
  for (size_t i = 0; i < section->count; i++)
    if (!take_program(r, &section->pairs[i]))
      return false;
  return true;
}

static bool take_tree(const struct reading *r, const struct yaml_node *root) {
  if (root->kind != YAML_MAP) {
    snprintf(r->why, HEALTH_SETTINGS_WHY, "%.200s: must be a map of settings", r->path);
    return false;
  }
  for (size_t k = 0; k < KEYS; k++) {
    const struct yaml_node *value = keys[k].server ? yaml_get(root, keys[k].server) : NULL;
    if (value != NULL && !take_key(r, &keys[k], value, keys[k].server))
      return false;
  }
  const struct yaml_node *secrets = yaml_get(root, "secrets");
  const struct yaml_node *programs = yaml_get(root, "checks");
  const struct yaml_node *section = yaml_get(root, "healthd");
  if (secrets != NULL && secrets->kind != YAML_MAP)
    return fail_at(r, secrets, "secrets", "must be a map of secrets");
  if (secrets != NULL && (r->settings->secrets = yaml_to_json(secrets)) == NULL)
    return fail_at(r, secrets, "secrets", "out of memory");
  if (programs != NULL && !take_programs(r, programs))
    return false;
  return section == NULL || take_section(r, section);
}

bool health_settings_file(struct health_settings *settings, const char *path, const char *text,
                          size_t len, char *why) {
  const struct reading reading = {.settings = settings, .path = path, .why = why};
  struct arena arena;
  struct diag_list problems;
  arena_init(&arena);
  diag_init(&problems);
  const struct yaml_node *root =
      yaml_tree_read(path, (const uint8_t *)text, len, &arena, &problems);
  bool ok = root != NULL && problems.errors == 0 && !problems.failed;
  if (ok) {
    ok = take_tree(&reading, root);
  } else if (problems.count > 0) {
    const struct diag *first = &problems.items[0];
    snprintf(why, HEALTH_SETTINGS_WHY, "%.200s:%u:%u: %.200s", first->path, first->line,
             first->column, first->message);
  } else {
    fail(why, "out of memory");
  }
  diag_close(&problems);
  arena_close(&arena);
  return ok;
}

static bool read_file(struct health_settings *settings, const char *path, char *why) {
  uint8_t *text = NULL;
  size_t len = 0;
  if (!fs_read(path, FILE_MAX, &text, &len, why))
    return false;
  bool ok = health_settings_file(settings, path, (const char *)text, len, why);
  free(text);
  return ok;
}

/* ---- flags ------------------------------------------------------------------------------------
 */

static const char help[] =
    "Usage: sluice-healthd --data DIR --feed SOCKET --state FILE [OPTION...]\n"
    "       sluice-healthd -c FILE [OPTION...]\n"
    "\n"
    "Checks the endpoints that the current build in DIR lists, and tells servers\n"
    "what is up.\n"
    "\n"
    "  -c, --config FILE     the machine's settings (section `healthd:`); flags win\n"
    "      --data DIR        folder of builds\n"
    "      --feed SOCKET     Unix socket that servers listen to (`health` of sluiced)\n"
    "      --state FILE      what was known last, over restarts\n"
    "      --control SOCKET  Unix socket for `sluice health`\n"
    "      --spool DIR       keep incidents and unsent alerts here, over restarts\n"
    "      --alert-window TIME  gather changes so long before they are told (3s)\n"
    "      --alert-quiet TIME   a flapping incident is over after so long (10m)\n"
    "      --rate N          at most so many probes start in a second (default 5000)\n"
    "      --concurrency N   at most so many probes run at a time (default 4096)\n"
    "      --resolver ADDRESS[@PORT]  DNS server for endpoints that are host names\n"
    "                        (default: the system's)\n"
    "      --run-as USER     run programs of exec checks as this user\n"
    "      --group NAME      its members may use the control socket\n"
    "      --log text|json   form of the log on stderr\n"
    "      --help, --version\n"
    "\n"
    "Signals: SIGHUP loads the list of checks again (so does a new build by itself);\n"
    "SIGTERM saves what is known and ends.\n"
    "\n"
    "Examples:\n"
    "  sluice-healthd --data /var/lib/sluice --feed /run/sluice/health.sock \\\n"
    "      --state /var/lib/sluice/health.json\n"
    "  sluice-healthd -c /etc/sluice/sluice.yaml\n";

enum { OPTION_HELP = 1000, OPTION_VERSION, OPTION_KEY /* and up: keys[] */ };

struct flags {
  struct health_settings *settings;
  const char *file; /* -c */
  bool done;
};

/* Goes through the arguments; `apply` false only looks for -c, --help and --version. */
static bool walk_flags(struct flags *flags, int argc, char **argv, bool apply, char *why) {
  struct option options[KEYS + 4] = {{"help", no_argument, NULL, OPTION_HELP},
                                     {"version", no_argument, NULL, OPTION_VERSION},
                                     {"config", required_argument, NULL, 'c'}};
  for (int i = 0; i < KEYS; i++)
    options[3 + i] = (struct option){keys[i].name, required_argument, NULL, OPTION_KEY + i};
  optind = 0; /* glibc: start anew */
  opterr = 0;
  int c;
  while ((c = getopt_long(argc, argv, ":c:", options, NULL)) != -1) {
    char reason[HEALTH_SETTINGS_WHY];
    if (c == '?' || c == ':') {
      snprintf(why, HEALTH_SETTINGS_WHY, "%s %.100s (see sluice-healthd --help)",
               c == ':' ? "a value is missing after" : "unknown option", argv[optind - 1]);
      return false;
    }
    if (c == OPTION_HELP || c == OPTION_VERSION) {
      if (!flags->done)
        fputs(c == OPTION_HELP ? help : "sluice-healthd " SLUICE_VERSION "\n", stdout);
      flags->done = true;
    } else if (c == 'c') {
      flags->file = optarg;
    } else if (apply && !set_key(flags->settings, &keys[c - OPTION_KEY], optarg, reason)) {
      snprintf(why, HEALTH_SETTINGS_WHY, "--%s: %.300s", keys[c - OPTION_KEY].name, reason);
      return false;
    }
  }
  if (optind == argc)
    return true;
  snprintf(why, HEALTH_SETTINGS_WHY, "unexpected argument `%.100s` (see sluice-healthd --help)",
           argv[optind]);
  return false;
}

static const char *missing(const struct health_settings *settings) {
  if (settings->data == NULL)
    return "--data DIR";
  if (settings->feed == NULL)
    return "--feed SOCKET";
  return settings->state == NULL ? "--state FILE" : NULL;
}

enum health_settings_result health_settings_read(struct health_settings *settings, int argc,
                                                 char **argv, char *why) {
  *settings = (struct health_settings){.rate = HEALTH_RATE, .concurrency = HEALTH_CONCURRENCY};
  struct flags flags = {.settings = settings};
  if (!walk_flags(&flags, argc, argv, false, why))
    return HEALTH_SETTINGS_USAGE;
  if (flags.done)
    return HEALTH_SETTINGS_DONE;
  if (flags.file != NULL && !read_file(settings, flags.file, why))
    return HEALTH_SETTINGS_BAD;
  if (!walk_flags(&flags, argc, argv, true, why))
    return HEALTH_SETTINGS_USAGE;
  const char *what = missing(settings);
  if (what == NULL)
    return HEALTH_SETTINGS_OK;
  snprintf(why, HEALTH_SETTINGS_WHY,
           "%s is missing; give it, or the key in section `healthd:` of -c FILE "
           "(see sluice-healthd --help)",
           what);
  return flags.file != NULL ? HEALTH_SETTINGS_BAD : HEALTH_SETTINGS_USAGE;
}

void health_settings_close(struct health_settings *settings) {
  for (size_t i = 0; i < KEYS; i++)
    if (keys[i].kind == KEY_TEXT)
      free(*(char **)(void *)((char *)settings + keys[i].offset));
  for (size_t i = 0; i < settings->program_count; i++)
    free_program(&settings->programs[i]);
  json_decref(settings->secrets);
  json_decref(settings->webhook_allow);
  *settings = (struct health_settings){.rate = 0};
}

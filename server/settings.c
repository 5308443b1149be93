/* SPDX-License-Identifier: Apache-2.0 */
#include "server/settings.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/diag.h"
#include "base/fs.h"
#include "server/settings_fail.h"
#include "zones/yaml_tree.h"

enum { SETTINGS_FILE_MAX = 1 << 20, NSID_MAX = 128, UDP_LEAST = 512, UDP_MOST = 4096 };

enum { HEALTH_PATH_MAX = sizeof((struct sockaddr_un *)0)->sun_path };

/* ---- keys, the same in file and flags ---------------------------------------------------------
 */

enum key_kind { KEY_TEXT, KEY_NUMBER, KEY_SECONDS, KEY_LISTEN, KEY_TLS_LISTEN, KEY_LOG, KEY_AS };

struct key {
  const char *name;
  enum key_kind kind;
  size_t offset; /* in struct settings */
  unsigned least, most;
};

#define TEXT(name)                                                                                 \
  { #name, KEY_TEXT, offsetof(struct settings, name), 0, 0 }
#define NUMBER(name, field, least, most)                                                           \
  { name, KEY_NUMBER, offsetof(struct settings, field), least, most }
static const struct key keys[] = {
    TEXT(data),
    {"listen", KEY_LISTEN, 0, 0, 0},
    TEXT(geo),
    TEXT(asn),
    TEXT(control),
    TEXT(health),
    {"health-stale", KEY_SECONDS, offsetof(struct settings, health_stale), 0, 0},
    TEXT(state),
    TEXT(user),
    TEXT(group),
    {"as", KEY_AS, 0, 0, 0},
    TEXT(nsid),
    NUMBER("threads", threads, 1, SETTINGS_MAX_THREADS),
    NUMBER("udp-max", udp_max, UDP_LEAST, UDP_MOST),
    NUMBER("tcp-connections", tcp_connections, 1, 1000000),
    NUMBER("tcp-idle", tcp_idle, 1, 3600),
    {"tls-listen", KEY_TLS_LISTEN, 0, 0, 0},
    {"tls-cert", KEY_TEXT, offsetof(struct settings, tls.cert), 0, 0},
    {"tls-key", KEY_TEXT, offsetof(struct settings, tls.key), 0, 0},
    {"cookies", KEY_TEXT, offsetof(struct settings, protect.cookies), 0, 0},
    {"cookie-secrets", KEY_TEXT, offsetof(struct settings, protect.cookie_secrets), 0, 0},
    {"chaos-version", KEY_TEXT, offsetof(struct settings, protect.chaos_version), 0, 0},
    {"chaos-id", KEY_TEXT, offsetof(struct settings, protect.chaos_id), 0, 0},
    {"log", KEY_LOG, 0, 0, 0},
};
enum { KEYS = sizeof keys / sizeof keys[0] };
_Static_assert((int)KEYS <= (int)SETTINGS_KEYS, "each key has a place");
_Static_assert((int)SETTINGS_FAIL_WHY == (int)SETTINGS_WHY, "one size for all reasons");

static bool set_text(char **place, const char *text, char *why) {
  if (*text == '\0') {
    snprintf(why, SETTINGS_WHY, "must not be empty");
    return false;
  }
  char *copy = strdup(text);
  if (copy == NULL) {
    snprintf(why, SETTINGS_WHY, "out of memory");
    return false;
  }
  free(*place);
  *place = copy;
  return true;
}

static bool set_number(unsigned *place, const struct key *key, const char *text, char *why) {
  size_t digits = strspn(text, "0123456789");
  unsigned long value = digits > 0 && digits < 10 ? strtoul(text, NULL, 10) : 0;
  if (digits == 0 || text[digits] != '\0' || (text[0] == '0' && digits > 1) || value < key->least ||
      value > key->most) {
    snprintf(why, SETTINGS_WHY, "`%.100s` is not a number from %u to %u", text, key->least,
             key->most);
    return false;
  }
  *place = (unsigned)value;
  return true;
}

/* 600, 600s, 10m, 1h or 7d. */
static bool set_seconds(unsigned *place, const char *text, char *why) {
  static const struct {
    const char *unit;
    unsigned seconds;
  } units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
  size_t digits = strspn(text, "0123456789");
  unsigned long value = digits > 0 && digits < 7 ? strtoul(text, NULL, 10) : 0;
  for (size_t i = 0; digits > 0 && digits < 7 && i < sizeof units / sizeof *units; i++) {
    if (strcmp(text + digits, units[i].unit) != 0 || value * units[i].seconds > UINT_MAX)
      continue;
    *place = (unsigned)(value * units[i].seconds);
    return true;
  }
  snprintf(why, SETTINGS_WHY, "`%.100s` is not a time such as 30s, 10m or 1h (0: never)", text);
  return false;
}

static bool add_listen(struct settings *settings, const char *text, char *why) {
  const char *reason;
  struct address address;
  if (!address_parse(text, &address, &reason)) {
    snprintf(why, SETTINGS_WHY, "`%.100s`: %s", text, reason);
    return false;
  }
  for (size_t i = 0; i < settings->listen_count; i++) {
    if (strcmp(settings->listen[i].text, address.text) == 0) {
      snprintf(why, SETTINGS_WHY, "%s is given twice", address.text);
      return false;
    }
  }
  if (settings->listen_count == SETTINGS_MAX_LISTEN) {
    snprintf(why, SETTINGS_WHY, "at most %d addresses are possible", SETTINGS_MAX_LISTEN);
    return false;
  }
  settings->listen[settings->listen_count++] = address;
  return true;
}

static bool set_log(struct settings *settings, const char *text, char *why) {
  bool json = strcmp(text, "json") == 0;
  if (!json && strcmp(text, "text") != 0) {
    snprintf(why, SETTINGS_WHY, "`%.100s` is neither `text` nor `json`", text);
    return false;
  }
  settings->log = json ? LOG_FORMAT_JSON : LOG_FORMAT_TEXT;
  return true;
}

static bool add_as(struct settings *settings, const char *text, char *why) {
  if (settings->as_count == SETTINGS_MAX_AS) {
    snprintf(why, SETTINGS_WHY, "at most %d users are possible", SETTINGS_MAX_AS);
    return false;
  }
  settings->as[settings->as_count] = NULL;
  if (!set_text(&settings->as[settings->as_count], text, why))
    return false;
  settings->as_count++;
  return true;
}

static bool set_key(struct settings *settings, const struct key *key, const char *text, char *why) {
  void *place = (char *)settings + key->offset;
  switch (key->kind) {
  case KEY_TEXT:
    return set_text(place, text, why);
  case KEY_NUMBER:
    return set_number(place, key, text, why);
  case KEY_SECONDS:
    return set_seconds(place, text, why);
  case KEY_LISTEN:
    return add_listen(settings, text, why);
  case KEY_TLS_LISTEN:
    return settings_tls_add(&settings->tls, text, why);
  case KEY_AS:
    return add_as(settings, text, why);
  case KEY_LOG:
    return set_log(settings, text, why);
  }
  return false;
}

static bool is_list(const struct key *key) {
  return key->kind == KEY_LISTEN || key->kind == KEY_TLS_LISTEN || key->kind == KEY_AS;
}

static const struct key *find_key(const char *name) {
  for (size_t i = 0; i < KEYS; i++)
    if (strcmp(keys[i].name, name) == 0)
      return &keys[i];
  return NULL;
}

/* ---- the file ---------------------------------------------------------------------------------
 */

/* Once a value was taken: where it stands, {0, 0} for a flag. */
static void note_place(struct settings *settings, const struct key *key, struct settings_place at) {
  settings->at[key - keys] = at;
  if (key->kind == KEY_LISTEN)
    settings->listen_at[settings->listen_count - 1] = at;
  if (key->kind == KEY_TLS_LISTEN)
    settings->tls.at[settings->tls.listen_count - 1] = at;
}

static bool take_value(struct settings *settings, const struct key *key, const char *path,
                       const struct yaml_node *value, char *why) {
  char reason[SETTINGS_WHY];
  if (value->kind == YAML_SCALAR) {
    if (!set_key(settings, key, value->text, reason))
      return settings_fail(path, value, key->name, reason, why);
    note_place(settings, key, settings_place_of(value));
    return true;
  }
  if (value->kind != YAML_LIST || !is_list(key))
    return settings_fail(path, value, key->name,
                         key->kind == KEY_AS ? "must be a user or a list of users"
                         : is_list(key)      ? "must be an address or a list of addresses"
                                             : "must be a single value",
                         why);
  for (size_t i = 0; i < value->count; i++) {
    const struct yaml_node *item = value->items[i];
    if (item->kind != YAML_SCALAR)
      return settings_fail(
          path, item, key->name,
          key->kind == KEY_AS ? "must be a list of users" : "must be a list of addresses", why);
    if (!set_key(settings, key, item->text, reason))
      return settings_fail(path, item, key->name, reason, why);
    note_place(settings, key, settings_place_of(item));
  }
  settings->at[key - keys] = settings_place_of(value);
  return true;
}

static bool unknown_key(const char *path, const struct yaml_node *node, char *why) {
  const char *names[KEYS];
  for (size_t i = 0; i < KEYS; i++)
    names[i] = keys[i].name;
  const char *near = diag_nearest(node->text, names, KEYS);
  char reason[SETTINGS_WHY] = "unknown key";
  if (near != NULL)
    snprintf(reason, sizeof reason, "unknown key (did you mean `%s`?)", near);
  return settings_fail(path, node, node->text, reason, why);
}

/* True if the pair is a section that belongs to a part of the server; *ok tells if it was taken. */
static bool take_section(struct settings *settings, const char *path, const struct yaml_pair *pair,
                         bool *ok, char *why) {
  if (settings_transfer_knows(pair->key->text)) {
    *ok = settings_transfer_take(&settings->transfer, path, pair, why);
    return true;
  }
  if (strcmp(pair->key->text, "rate-limit") == 0) {
    *ok = settings_protect_read(&settings->protect, path, pair->value, why);
    return true;
  }
  bool tls = strcmp(pair->key->text, "tls") == 0; /* was read before */
  if (!tls && strcmp(pair->key->text, "secondary") != 0)
    return false;
  *ok = tls ||
        settings_secondary_read(&settings->secondary, &settings->tls_peers, path, pair->value, why);
  return true;
}

static bool take_tree(struct settings *settings, const char *path, const struct yaml_node *root,
                      char *why) {
  if (root->kind != YAML_MAP) {
    snprintf(why, SETTINGS_WHY, "%.180s:%u:%u: must be a map of settings such as `data: DIR`", path,
             root->line, root->column);
    return false;
  }
  /* Before the sections that name what is in it. */
  const struct yaml_node *tls = yaml_get(root, "tls");
  if (tls != NULL && !settings_tls_peers_read(&settings->tls_peers, path, tls, why))
    return false;
  for (size_t i = 0; i < root->count; i++) {
    const struct yaml_node *name = root->pairs[i].key;
    const struct yaml_node *value = root->pairs[i].value;
    const struct key *key = find_key(name->text);
    bool taken;
    if (take_section(settings, path, &root->pairs[i], &taken, why)) {
      if (!taken)
        return false;
      continue;
    }
    if (key == NULL && value->kind == YAML_SCALAR)
      return unknown_key(path, name, why);
    if (key != NULL && !take_value(settings, key, path, value, why))
      return false;
  }
  return true;
}

bool settings_read_file(struct settings *settings, const char *path, char *why) {
  uint8_t *text = NULL;
  size_t length = 0;
  char reason[FS_WHY];
  settings->file = path;
  if (!fs_read(path, SETTINGS_FILE_MAX, &text, &length, reason)) {
    snprintf(why, SETTINGS_WHY, "%.180s:1:1: %.260s", path, reason);
    return false;
  }
  struct arena arena;
  struct diag_list problems;
  arena_init(&arena);
  diag_init(&problems);
  const struct yaml_node *root = yaml_tree_read(path, text, length, &arena, &problems);
  bool ok = root != NULL && problems.errors == 0 && !problems.failed;
  if (ok) {
    ok = take_tree(settings, path, root, why);
  } else if (problems.count > 0) {
    const struct diag *first = &problems.items[0];
    snprintf(why, SETTINGS_WHY, "%.180s:%u:%u: %.260s", first->path,
             first->line > 0 ? first->line : 1, first->column > 0 ? first->column : 1,
             first->message);
  } else {
    snprintf(why, SETTINGS_WHY, "out of memory");
  }
  diag_close(&problems);
  arena_close(&arena);
  free(text);
  return ok;
}

/* ---- flags ------------------------------------------------------------------------------------
 */

static const char help[] =
    "Usage: sluiced --data DIR --listen ADDRESS@PORT [--listen ...] [OPTION...]\n"
    "       sluiced -c FILE [OPTION...]\n"
    "\n"
    "Answers DNS queries from the current build in DIR, which `sluice build` makes.\n"
    "\n"
    "  -c, --config FILE     read settings from this file; flags win over it\n"
    "      --data DIR        folder of builds\n"
    "      --listen ADDRESS[@PORT]  serve UDP and TCP here (port 53 unless given)\n"
    "      --geo FILE        location data (MMDB)\n"
    "      --asn FILE        AS numbers (MMDB)\n"
    "      --control SOCKET  Unix socket for `sluice status`, `reload`, `explain`...\n"
    "      --health SOCKET   Unix socket of the health checker\n"
    "      --health-stale TIME  after so long without news of health all count as healthy\n"
    "                        (10m, say; default: never, the last known status stays)\n"
    "      --state DIR       keep what was set at run time here, over restarts\n"
    "      --user NAME       become this user once all addresses are bound\n"
    "      --group NAME      its members may use the control socket\n"
    "      --as USER         this user (a chat bot's) may change things in the name of others\n"
    "      --threads N       UDP workers for each address (default: one for each CPU)\n"
    "      --udp-max N       largest UDP response in octets (default 1232)\n"
    "      --tcp-connections N  most TCP connections at a time, and as many over TLS\n"
    "                        (default 4096)\n"
    "      --tcp-idle SECONDS  close a connection without a query for so long (default 10)\n"
    "      --tls-listen ADDRESS[@PORT]  serve DNS over TLS here (port 853 unless given)\n"
    "      --tls-cert FILE   its certificate chain (PEM)\n"
    "      --tls-key FILE    the key of the certificate (PEM)\n"
    "      --nsid TEXT       name of this server for the NSID option\n"
    "      --cookies on|off  DNS cookies (default on)\n"
    "      --cookie-secrets FILE  secrets of cookies that servers share\n"
    "      --chaos-version TEXT  answer to version.bind CH TXT (refused without)\n"
    "      --chaos-id TEXT   answer to id.server CH TXT (refused without)\n"
    "      --log text|json   form of the log on stderr\n"
    "      --help, --version\n"
    "\n"
    "Signals: SIGHUP loads the build, location and TLS files again; SIGTERM answers what\n"
    "has arrived, then ends.\n"
    "\n"
    "Examples:\n"
    "  sluiced --data /var/lib/sluice --listen 127.0.0.1@5300\n"
    "  sluiced -c /etc/sluice/sluice.yaml\n";

enum { OPTION_HELP = 1000, OPTION_VERSION, OPTION_KEY /* and up: keys[] */ };

/* Calls for each flag; true to go on. */
struct flags {
  struct settings *settings;
  const char *file; /* -c */
  bool listen_seen;
  bool tls_listen_seen;
  bool as_seen;
  bool done;
};

static void make_options(struct option *options) {
  size_t n = 0;
  options[n++] = (struct option){"help", no_argument, NULL, OPTION_HELP};
  options[n++] = (struct option){"version", no_argument, NULL, OPTION_VERSION};
  options[n++] = (struct option){"config", required_argument, NULL, 'c'};
  for (size_t i = 0; i < KEYS; i++)
    options[n++] = (struct option){keys[i].name, required_argument, NULL, OPTION_KEY + (int)i};
  options[n] = (struct option){NULL, 0, NULL, 0};
}

static void forget_as(struct settings *settings) {
  while (settings->as_count > 0)
    free(settings->as[--settings->as_count]);
}

/* Flags replace the file's list. */
static void replace_list(struct flags *flags, const struct key *key) {
  if (key->kind == KEY_LISTEN && !flags->listen_seen)
    flags->settings->listen_count = 0;
  if (key->kind == KEY_TLS_LISTEN && !flags->tls_listen_seen)
    flags->settings->tls.listen_count = 0;
  if (key->kind == KEY_AS && !flags->as_seen)
    forget_as(flags->settings);
  flags->as_seen = flags->as_seen || key->kind == KEY_AS;
  flags->listen_seen = flags->listen_seen || key->kind == KEY_LISTEN;
  flags->tls_listen_seen = flags->tls_listen_seen || key->kind == KEY_TLS_LISTEN;
}

/* Goes through the arguments; `apply` false only looks for -c, --help and --version. */
static bool walk_flags(struct flags *flags, int argc, char **argv, bool apply, char *why) {
  struct option options[KEYS + 4];
  make_options(options);
  optind = 0; /* glibc: start anew */
  opterr = 0;
  int c;
  while ((c = getopt_long(argc, argv, ":c:", options, NULL)) != -1) {
    if (c == '?' || c == ':') {
      snprintf(why, SETTINGS_WHY, "%s %.100s (see sluiced --help)",
               c == ':' ? "a value is missing after" : "unknown option", argv[optind - 1]);
      return false;
    }
    if (c == OPTION_HELP || c == OPTION_VERSION) {
      if (!flags->done)
        fputs(c == OPTION_HELP ? help : "sluiced " SLUICE_VERSION "\n", stdout);
      flags->done = true;
    } else if (c == 'c') {
      flags->file = optarg;
    } else if (apply) {
      const struct key *key = &keys[c - OPTION_KEY];
      char reason[SETTINGS_WHY];
      replace_list(flags, key);
      if (!set_key(flags->settings, key, optarg, reason)) {
        snprintf(why, SETTINGS_WHY, "--%s: %.300s", key->name, reason);
        return false;
      }
      note_place(flags->settings, key, (struct settings_place){0, 0});
    }
  }
  if (optind == argc)
    return true;
  snprintf(why, SETTINGS_WHY, "unexpected argument `%.100s` (see sluiced --help)", argv[optind]);
  return false;
}

/* ---- what must hold once all is read ----------------------------------------------------------
 */

bool settings_blame_at(const struct settings *settings, struct settings_place at, const char *key,
                       char *why) {
  char reason[SETTINGS_WHY];
  snprintf(reason, sizeof reason, "%s", why);
  if (at.line > 0)
    return settings_fail_at(settings->file, at, key, reason, why);
  snprintf(why, SETTINGS_WHY, "--%s: %.400s", key, reason);
  return false;
}

bool settings_blame(const struct settings *settings, const char *key, char *why) {
  return settings_blame_at(settings, settings->at[find_key(key) - keys], key, why);
}

/* True if `text` holds the address as a word. */
static bool names_address(const char *text, const struct address *address) {
  const char *at = strstr(text, address->text);
  char after = at != NULL ? at[strlen(address->text)] : '\0';
  return at != NULL && at > text && at[-1] == ' ' && (after == ':' || after == ' ');
}

bool settings_blame_address(const struct settings *settings, char *why) {
  const struct settings_tls *tls = &settings->tls;
  for (size_t i = 0; i < settings->listen_count; i++)
    if (names_address(why, &settings->listen[i]))
      return settings_blame_at(settings, settings->listen_at[i], "listen", why);
  for (size_t i = 0; i < tls->listen_count; i++)
    if (names_address(why, &tls->listen[i]))
      return settings_blame_at(settings, tls->at[i], "tls-listen", why);
  return false;
}

static bool check_lengths(const struct settings *settings, char *why) {
  if (settings->nsid != NULL && strlen(settings->nsid) > NSID_MAX) {
    snprintf(why, SETTINGS_WHY, "at most %d octets are possible", NSID_MAX);
    return settings_blame(settings, "nsid", why);
  }
  if (settings->health != NULL && strlen(settings->health) >= HEALTH_PATH_MAX) {
    snprintf(why, SETTINGS_WHY, "the path of a socket has at most %d octets", HEALTH_PATH_MAX - 1);
    return settings_blame(settings, "health", why);
  }
  return true;
}

static bool check_tls(const struct settings *settings, char *why) {
  const struct settings_tls *tls = &settings->tls;
  const char *key;
  size_t item;
  if (settings_tls_check(tls, settings->listen, settings->listen_count, &key, &item, why))
    return true;
  if (item == tls->listen_count)
    return settings_blame(settings, key, why);
  return settings_blame_at(settings, tls->at[item], key, why);
}

static bool check_missing(const struct settings *settings, char *why) {
  const char *key = settings->data == NULL ? "data" : "listen";
  const char *flag = settings->data == NULL ? "--data DIR" : "--listen ADDRESS@PORT";
  if (settings->data != NULL && settings->listen_count > 0)
    return true;
  if (settings->file != NULL)
    snprintf(why, SETTINGS_WHY, "%.180s:1:1: `%s` is missing; add it, or give %s", settings->file,
             key, flag);
  else
    snprintf(why, SETTINGS_WHY, "%s is missing (see sluiced --help)", flag);
  return false;
}

enum settings_result settings_read(struct settings *settings, int argc, char **argv, char *why) {
  *settings = (struct settings){.log = LOG_FORMAT_TEXT};
  struct flags flags = {.settings = settings};
  if (!settings_transfer_init(&settings->transfer)) {
    snprintf(why, SETTINGS_WHY, "out of memory");
    return SETTINGS_BAD;
  }
  if (!walk_flags(&flags, argc, argv, false, why))
    return SETTINGS_USAGE;
  if (flags.done)
    return SETTINGS_DONE;
  if (flags.file != NULL && !settings_read_file(settings, flags.file, why))
    return SETTINGS_BAD;
  if (!walk_flags(&flags, argc, argv, true, why))
    return SETTINGS_USAGE;
  const char *key;
  bool ok = check_lengths(settings, why);
  if (ok && !settings_protect_check(&settings->protect, &key, why))
    ok = settings_blame(settings, key, why);
  if (ok && check_tls(settings, why) && check_missing(settings, why))
    return SETTINGS_OK;
  return flags.file != NULL ? SETTINGS_BAD : SETTINGS_USAGE;
}

void settings_close(struct settings *settings) {
  for (size_t i = 0; i < KEYS; i++)
    if (keys[i].kind == KEY_TEXT)
      free(*(char **)(void *)((char *)settings + keys[i].offset));
  forget_as(settings);
  settings_transfer_close(&settings->transfer);
  settings_secondary_close(&settings->secondary);
  settings_tls_peers_close(&settings->tls_peers);
  settings_protect_close(&settings->protect);
  *settings = (struct settings){.listen_count = 0};
}

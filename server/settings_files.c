/* SPDX-License-Identifier: Apache-2.0 */
#include "server/settings_files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/privileges.h"
#include "server/tls_server.h"
#include "steering/geo_db.h"

struct check {
  const struct settings *settings;
  settings_tell_fn *tell;
  void *arg;
  bool ok;
  char why[SETTINGS_WHY];
};

_Static_assert((int)TLS_WHY == (int)SETTINGS_WHY &&
                   (int)SETTINGS_PROTECT_WHY == (int)SETTINGS_WHY &&
                   (int)PRIVILEGES_WHY == (int)SETTINGS_WHY,
               "one buffer for all reasons");

/* Tells what is in `why`. */
static void tell(struct check *c) {
  c->tell(c->arg, c->why);
  c->ok = false;
}

/* The same, about the value of a key. */
static void blame(struct check *c, const char *key) {
  settings_blame(c->settings, key, c->why);
  tell(c);
}

/* True if there is a user to become. */
static bool check_users(struct check *c, struct privileges *user) {
  const struct settings *s = c->settings;
  gid_t gid;
  if (s->control != NULL && s->group != NULL && !privileges_find_group(s->group, &gid, c->why))
    blame(c, "group");
  if (s->user == NULL || privileges_find(s->user, user, c->why))
    return s->user != NULL;
  blame(c, "user");
  return false;
}

static void check_pair(struct check *c) {
  const struct settings_tls *tls = &c->settings->tls;
  enum tls_blame file;
  if (tls->cert == NULL || tls->key == NULL)
    return;
  struct tls_server *server = tls_server_open(tls->cert, tls->key, &file, c->why);
  if (server == NULL)
    blame(c, file == TLS_BLAME_KEY ? "tls-key" : "tls-cert");
  tls_server_close(server);
}

static void check_peers(struct check *c) {
  const struct settings_tls_peers *peers = &c->settings->tls_peers;
  enum tls_blame file;
  for (size_t i = 0; i < peers->count; i++) {
    struct tls_client *client = tls_client_open(&peers->items[i].peer, &file, c->why);
    if (client == NULL) {
      settings_tls_peers_blame(peers, &peers->items[i], file, c->why);
      tell(c);
    }
    tls_client_close(client);
  }
}

static void check_transfer(struct check *c) {
  if (!settings_transfer_has_key(&c->settings->transfer, c->why))
    tell(c);
}

static void check_secondary(struct check *c, bool serves) {
  const struct settings_secondary *secondary = &c->settings->secondary;
  const struct tsig_key *key;
  if (serves && !settings_secondary_has_state(secondary, c->settings->state, c->why))
    tell(c);
  for (size_t i = 0; i < secondary->count; i++)
    if (!settings_secondary_key(secondary, &secondary->zones[i], c->settings->transfer.keys, &key,
                                c->why))
      tell(c);
}

static void check_locations(struct check *c) {
  const struct settings *s = c->settings;
  struct geo_db *db = NULL;
  if (s->geo != NULL && !geo_db_load(s->geo, NULL, &db, c->why))
    blame(c, "geo");
  geo_db_free(db);
  db = NULL;
  if (s->asn != NULL && !geo_db_load(NULL, s->asn, &db, c->why))
    blame(c, "asn");
  geo_db_free(db);
}

static void check_cookies(struct check *c) {
  const char *path = c->settings->protect.cookie_secrets;
  struct cookie_secrets secrets;
  if (path == NULL)
    return;
  if (!settings_protect_secrets(path, &secrets, c->why))
    blame(c, "cookie-secrets");
  cookie_secrets_wipe(&secrets);
}

static void check_files(struct check *c) {
  check_peers(c);
  check_pair(c);
  check_cookies(c);
  check_locations(c);
}

/* The server reads its files as the user that it has become; so do we, in a child. */
static void check_files_as(struct check *c, const struct privileges *user) {
  int status = 1;
  pid_t pid = fork();
  if (pid == 0) {
    c->ok = true;
    if (privileges_drop(c->settings->user, user, c->why))
      check_files(c);
    else
      blame(c, "user");
    _exit(c->ok ? 0 : 1);
  }
  while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
    continue;
  if (pid < 0) {
    snprintf(c->why, sizeof c->why, "the files cannot be checked: %s", strerror(errno));
    tell(c);
  }
  c->ok = c->ok && status == 0;
}

bool settings_files_check(const struct settings *settings, bool serves, settings_tell_fn *tell_fn,
                          void *arg) {
  struct check c = {.settings = settings, .tell = tell_fn, .arg = arg, .ok = true};
  struct privileges user;
  bool changes = serves && check_users(&c, &user) && geteuid() == 0;
  check_transfer(&c);
  check_secondary(&c, serves);
  if (changes)
    check_files_as(&c, &user);
  else
    check_files(&c);
  return c.ok;
}

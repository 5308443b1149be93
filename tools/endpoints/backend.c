/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/endpoints/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/fs.h"
#include "tools/cli.h"
#include "tools/client.h"
#include "tools/endpoints/backend_private.h"
#include "tools/endpoints/level.h"
#include "tools/names.h"
#include "zones/domain_list.h"

enum {
  WAIT = 10,        /* seconds for an answer */
  REQUEST_ID = 33,  /* text of 16 random octets */
  SENDS = 2,        /* of one commit, if the connection is lost */
  NEAREST = 100000, /* names among which the nearest is looked for */
};

struct backend {
  const char *settings;
  const char *as;
  char *socket;
  bool named; /* by the caller, not by the settings */
  struct machine machine;
  bool has_machine;
  struct offline *offline;
  json_int_t audit;   /* row of the last commit, or 0 */
  json_t *behind;     /* what is not level, or NULL */
  bool look_failed;   /* sluice-syncd did not tell; it is not asked again */
  uint64_t waited_ms; /* for other providers */
};

struct backend *backend_open(const struct backend_options *options) {
  struct backend *backend = calloc(1, sizeof *backend);
  if (!backend) {
    cli_error("out of memory");
    return NULL;
  }
  backend->settings = options->settings;
  backend->as = options->as;
  const char *variable = getenv("SLUICE_SOCKET");
  backend->named = options->socket || (variable && *variable);
  const char *path = client_socket(options->socket, options->settings);
  backend->socket = path ? strdup(path) : NULL;
  if (backend->socket)
    return backend;
  if (path)
    cli_error("out of memory");
  backend_close(backend);
  return NULL;
}

void backend_close(struct backend *backend) {
  if (!backend)
    return;
  offline_close(backend->offline);
  json_decref(backend->behind);
  if (backend->has_machine)
    machine_close(&backend->machine);
  free(backend->socket);
  free(backend);
}

bool backend_is_offline(const struct backend *backend) {
  return backend->offline;
}

/* ---- requests ------------------------------------------------------------------------------- */

/* True if the settings tell of the server that is missing: who names another socket does not mean
 * the store of this machine. */
static bool is_its_store(const struct backend *backend) {
  const struct machine *machine = &backend->machine;
  return machine->state && machine->data &&
         (!backend->named || backend->settings ||
          (machine->control && strcmp(machine->control, backend->socket) == 0));
}

/* Goes over to the store; false after an error was printed.  `absent` tells that no server runs. */
static bool go_offline(struct backend *backend, const char *absent) {
  char why[OFFLINE_WHY];
  if (!backend->has_machine)
    backend->has_machine = machine_read(&backend->machine, backend->settings);
  if (!backend->has_machine)
    return false;
  if (!is_its_store(backend)) {
    cli_error("%s", absent);
    return false;
  }
  if (backend->as) {
    cli_error("--as needs a running server, which knows who may use it; %s", absent);
    return false;
  }
  backend->offline = offline_open(&backend->machine, client_user(), why);
  if (!backend->offline)
    cli_error("no server listens at %s, and %s", backend->socket, why);
  return backend->offline;
}

/* One request.  BACKEND_DONE: there is a reply, which may say no. */
static enum backend_commit send_request(struct backend *backend, const json_t *request,
                                        json_t **reply, char *why) {
  *reply = NULL;
  if (!request) {
    snprintf(why, CLIENT_WHY, "out of memory");
    return BACKEND_REFUSED;
  }
  enum client_result result =
      backend->offline ? CLIENT_ABSENT : client_try(backend->socket, request, WAIT, reply, why);
  if (result == CLIENT_ABSENT) {
    if (!backend->offline && !go_offline(backend, why)) {
      *why = 0; /* printed */
      return BACKEND_REFUSED;
    }
    *reply = offline_call(backend->offline, request);
    snprintf(why, CLIENT_WHY, "out of memory");
    return *reply ? BACKEND_DONE : BACKEND_REFUSED;
  }
  return result == CLIENT_ANSWERED  ? BACKEND_DONE
         : result == CLIENT_UNKNOWN ? BACKEND_UNKNOWN
                                    : BACKEND_REFUSED;
}

/* A request that changes nothing; takes its reference over. */
static int ask(struct backend *backend, json_t *request, json_t **reply) {
  char why[CLIENT_WHY] = "";
  enum backend_commit result = send_request(backend, request, reply, why);
  json_decref(request);
  if (result == BACKEND_DONE)
    return CLI_DONE;
  if (*why)
    cli_error("%s", why);
  return CLI_FAILED;
}

/* The exit status of a reply; on failure it is printed and freed. */
static int judge(json_t **reply) {
  int status = client_judge(*reply);
  if (status == CLI_DONE)
    return CLI_DONE;
  json_decref(*reply);
  *reply = NULL;
  return status;
}

int backend_call(struct backend *backend, json_t *request, json_t **reply) {
  int status = ask(backend, request, reply);
  return status == CLI_DONE ? judge(reply) : status;
}

/* ---- names ---------------------------------------------------------------------------------- */

int backend_resolve(struct backend *backend, const char *text, char *out) {
  if (!names_need_zones(text))
    return names_resolve_with(NULL, text, out);
  json_t *reply;
  int status = backend_call(backend, json_pack("{s:s}", "command", "status"), &reply);
  if (status != CLI_DONE)
    return status;
  status = names_resolve_with(json_object_get(reply, "build"), text, out);
  json_decref(reply);
  return status;
}

/* ---- domains --------------------------------------------------------------------------------- */

int backend_domains(struct backend *backend, const char *zone, json_t **list) {
  json_t *reply;
  int status =
      backend_call(backend, json_pack("{s:s, s:s?}", "command", "domains", "zone", zone), &reply);
  if (status != CLI_DONE)
    return status;
  *list = json_incref(json_object_get(reply, "domains"));
  json_decref(reply);
  if (json_is_array(*list))
    return CLI_DONE;
  json_decref(*list);
  *list = NULL;
  cli_error("the server's list of domains is not one");
  return CLI_FAILED;
}

/* Tells that a name is not steered, with the nearest that is. */
static void unknown_domain(struct backend *backend, const char *name, const char *error) {
  json_t *reply = NULL;
  char why[CLIENT_WHY];
  json_t *request = json_pack("{s:s, s:n}", "command", "domains", "zone");
  enum backend_commit result = send_request(backend, request, &reply, why);
  json_decref(request);
  const json_t *list = result == BACKEND_DONE ? json_object_get(reply, "domains") : NULL;
  size_t count = json_array_size(list);
  const char **names = calloc(count + 1, sizeof *names);
  size_t known = 0;
  for (size_t i = 0; names && i < count && i < NEAREST; i++) {
    const char *text = json_string_value(json_object_get(json_array_get(list, i), "name"));
    if (text)
      names[known++] = text;
  }
  const char *near =
      names && !strstr(error, "did you mean") ? cli_did_you_mean(name, names, known) : "";
  if (!*near && !strstr(error, "did you mean") && known > 0 && known <= 5) {
    char all[512] = "";
    for (size_t i = 0; i < known; i++)
      snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? ", " : "", names[i]);
    cli_error("%s; there are: %s", error, all);
  } else {
    cli_error("%s%s", error, near);
  }
  free(names);
  json_decref(reply);
}

int backend_domain(struct backend *backend, const char *name, struct state **state) {
  json_t *reply;
  char why[STATE_WHY];
  *state = NULL;
  int status = ask(backend, json_pack("{s:s, s:s}", "command", "domain", "domain", name), &reply);
  if (status != CLI_DONE)
    return status;
  const char *error = json_string_value(json_object_get(reply, "error"));
  if (error && strstr(error, "not a steered name")) {
    unknown_domain(backend, name, error);
    json_decref(reply);
    return CLI_FAILED;
  }
  status = judge(&reply);
  if (status != CLI_DONE)
    return status;
  *state = state_read(reply, why);
  if (*state && backend->offline && !(*state)->data)
    (*state)->data = backend->machine.data;
  if (*state)
    return CLI_DONE;
  cli_error("%s", why);
  return CLI_FAILED;
}

/* ---- the build's list ------------------------------------------------------------------------ */

/* NULL with a reason. */
static struct domain_list *open_list(const char *data, char *why) {
  static const char *const places[] = {"%s/current/domains.json", "%s/domains.json"};
  char path[4096];
  struct domain_list *list = NULL;
  snprintf(why, DOMAIN_LIST_WHY, "the server does not tell where its build is");
  for (size_t i = 0; data && !list && i < 2; i++) {
    snprintf(path, sizeof path, places[i], data);
    if (i == 1 || access(path, F_OK) == 0)
      list = domain_list_open(path, why);
  }
  return list;
}

json_t *backend_entry(struct backend *backend, const struct state *state) {
  char why[DOMAIN_LIST_WHY];
  json_t *entry = NULL;
  const char *data = backend->offline ? offline_data(backend->offline) : state->data;
  struct domain_list *list = open_list(data, why);
  if (list && domain_list_find(list, state->steer->owner, &entry, why) != DOMAIN_LIST_FOUND)
    entry = NULL;
  domain_list_close(list);
  return entry;
}

json_t *backend_entries(struct backend *backend, const char *data) {
  char why[DOMAIN_LIST_WHY] = "out of memory";
  json_t *all = json_array();
  json_t *entry;
  enum domain_list_result result = DOMAIN_LIST_BAD;
  struct domain_list *list =
      all ? open_list(backend->offline ? offline_data(backend->offline) : data, why) : NULL;
  while (list && (result = domain_list_next(list, &entry, why)) == DOMAIN_LIST_FOUND)
    json_array_append_new(all, entry);
  domain_list_close(list);
  if (result == DOMAIN_LIST_NONE)
    return all;
  json_decref(all);
  cli_error("%s", why);
  return NULL;
}

/* ---- commits --------------------------------------------------------------------------------- */

static void random_id(char out[REQUEST_ID]) {
  uint8_t octets[REQUEST_ID / 2] = {0};
  if (getrandom(octets, sizeof octets, 0) != (ssize_t)sizeof octets)
    memcpy(octets, &(pid_t){getpid()}, sizeof(pid_t));
  for (size_t i = 0; i < sizeof octets; i++)
    snprintf(out + 2 * i, 3, "%02x", octets[i]);
}

/* From where the command comes: what the caller says, or the address of the SSH client. */
static const char *origin(char out[128]) {
  const char *said = getenv("SLUICE_ORIGIN");
  const char *ssh = getenv("SSH_CONNECTION");
  if (said && *said)
    snprintf(out, 128, "%s", said);
  else if (ssh && *ssh)
    snprintf(out, 128, "ssh %.*s", (int)strcspn(ssh, " "), ssh);
  else
    return NULL;
  return out;
}

/* In whose name: as asked for; root is who called sudo. */
static const char *in_the_name_of(const struct backend *backend) {
  const char *sudo = getuid() == 0 ? getenv("SUDO_USER") : NULL;
  return backend->as ? backend->as : sudo && *sudo ? sudo : NULL;
}

static json_t *commit_request(const struct backend *backend, const struct state *state,
                              const json_t *changes, const json_t *audit) {
  char id[REQUEST_ID];
  char from[128];
  random_id(id);
  return json_pack("{s:s, s:s, s:s?, s:s?, s:[[s,I]], s:O, s:[O]}", "command", "commit", "request",
                   id, "as", in_the_name_of(backend), "origin", origin(from), "expect", state->name,
                   (json_int_t)state->revision, "changes", changes, "audits", audit);
}

enum backend_commit backend_commit(struct backend *backend, const struct state *state,
                                   const json_t *changes, const json_t *audit, int *status) {
  char why[CLIENT_WHY] = "out of memory";
  json_t *reply = NULL;
  json_t *request = commit_request(backend, state, changes, audit);
  enum backend_commit result = BACKEND_REFUSED;
  *status = CLI_FAILED;
  for (int i = 0; i < SENDS; i++) {
    bool again = result == BACKEND_UNKNOWN;
    result = send_request(backend, request, &reply, why);
    if (again && result == BACKEND_REFUSED)
      result = BACKEND_UNKNOWN; /* the first one may have been done */
    if (result != BACKEND_UNKNOWN || strstr(why, "does not answer"))
      break;
  }
  json_decref(request);
  if (result == BACKEND_UNKNOWN)
    cli_error(
        "%s%sit is not known whether %s was changed; `endpoints get %s` tells once the server "
        "answers, and the command may be repeated",
        why, *why ? "; " : "", state->name, state->name);
  else if (result == BACKEND_REFUSED && *why)
    cli_error("%s", why);
  if (result == BACKEND_DONE && json_is_true(json_object_get(reply, "conflict")))
    result = BACKEND_CONFLICT;
  else if (result == BACKEND_DONE && (*status = judge(&reply)) != CLI_DONE)
    result = BACKEND_REFUSED;
  backend->audit = json_integer_value(json_array_get(json_object_get(reply, "audits"), 0));
  json_decref(reply);
  return result;
}

/* ---- other providers ------------------------------------------------------------------------- */

static uint64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Settings that cannot be read leave the default places: what was asked for is done already. */
static struct level_place level_place(struct backend *backend) {
  char ignored[256] = "";
  if (!backend->has_machine) {
    cli_capture(ignored, sizeof ignored);
    backend->has_machine = machine_read(&backend->machine, backend->settings);
    cli_capture(NULL, 0);
  }
  return (struct level_place){.machine = backend->has_machine ? &backend->machine : NULL,
                              .settings = backend->settings,
                              .socket = backend->socket};
}

/* Notes what is behind, and tells the trail. */
static void take_levels(struct backend *backend, const char *domain, const json_t *list) {
  json_t *result = json_pack("{s:s}", "sluice", "done");
  size_t i;
  json_t *item;
  json_array_foreach(list, i, item) {
    const char *name = json_string_value(json_object_get(item, "name"));
    const char *error = json_string_value(json_object_get(item, "error"));
    if (json_is_true(json_object_get(item, "level"))) {
      json_object_set_new(result, name, json_string("done"));
      continue;
    }
    json_object_set_new(result, name,
                        json_sprintf("behind: %s", error ? error : "for an unknown reason"));
    json_object_set_new(item, "domain", json_string(domain));
    json_object_del(item, "holds");
    if (!backend->behind)
      backend->behind = json_array();
    json_array_append(backend->behind, item);
  }
  json_t *reply = NULL;
  if (backend->audit > 0 && !backend->offline &&
      backend_call(backend,
                   json_pack("{s:s, s:I, s:O}", "command", "result", "audit", backend->audit,
                             "result", result),
                   &reply) != CLI_DONE)
    reply = NULL;
  json_decref(reply);
  json_decref(result);
}

void backend_level(struct backend *backend, const struct state *state) {
  const struct level_place place = level_place(backend);
  uint64_t start = now_ms();
  json_t *list = level_bring(
      &place, state, backend->waited_ms < LEVEL_WAIT_MS ? LEVEL_WAIT_MS - backend->waited_ms : 0);
  backend->waited_ms += now_ms() - start;
  if (json_array_size(list) > 0)
    take_levels(backend, state->name, list);
  json_decref(list);
}

const json_t *backend_behind(const struct backend *backend) {
  return backend->behind;
}

json_t *backend_look(struct backend *backend, const struct state *state) {
  const struct level_place place = level_place(backend);
  if (backend->look_failed)
    return json_array();
  json_t *list = level_look(&place, state);
  backend->look_failed = list && level_is_unknown(list);
  return list;
}

/* ---- the trail ------------------------------------------------------------------------------- */

int backend_history(struct backend *backend, const char *name, size_t limit, json_t **list) {
  json_t *reply;
  int status = backend_call(backend,
                            json_pack("{s:s, s:s?, s:I}", "command", "history", "domain", name,
                                      "limit", (json_int_t)limit),
                            &reply);
  if (status != CLI_DONE)
    return status;
  *list = json_incref(json_object_get(reply, "history"));
  json_decref(reply);
  if (json_is_array(*list))
    return CLI_DONE;
  json_decref(*list);
  *list = NULL;
  cli_error("the server's audit trail is not a list");
  return CLI_FAILED;
}

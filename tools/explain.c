/* SPDX-License-Identifier: Apache-2.0 */
#include "steering/explain.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli.h"
#include "tools/client.h"
#include "tools/commands.h"
#include "tools/config.h"
#include "tools/names.h"

struct arguments {
  const char *domain;
  const char *client;
  const char *type_text;
  const char *config;
  const char *geo;
  const char *asn;
  const char *down;
  const char *disabled;
  const char *socket;
  const char *settings;
  bool json;
  enum steer_type type;
  struct geo_address address;
};

static const char not_steered[] = "%s is not a steered name%s";

/* ---- output --------------------------------------------------------------------------------- */

static int print(const json_t *document, bool as_json) {
  if (!document) {
    cli_error("out of memory");
    return CLI_FAILED;
  }
  if (as_json)
    return cli_print_json(document) ? CLI_DONE : CLI_FAILED;
  char *text = explain_text(document);
  if (!text) {
    cli_error("out of memory");
    return CLI_FAILED;
  }
  cli_print_text(stdout, text);
  free(text);
  return cli_flush() ? CLI_DONE : CLI_FAILED;
}

/* ---- without a server ----------------------------------------------------------------------- */

typedef void mark_fn(struct steer_status *status);

static void mark_down(struct steer_status *status) {
  status->health4 = HEALTH_DOWN;
  status->health6 = HEALTH_DOWN;
}

static void mark_disabled(struct steer_status *status) {
  status->manual = MANUAL_DISABLED;
}

static bool unknown_endpoint(const struct steer_domain *domain, const char *word) {
  const char **names = calloc(domain->endpoint_count, sizeof *names);
  char known[300] = "; there are:";
  size_t used = strlen(known);
  for (uint32_t i = 0; names && i < domain->endpoint_count; i++) {
    names[i] = domain->endpoints[i].name;
    bool room = used + strlen(names[i]) + 2 < sizeof known - 4;
    if (used < sizeof known)
      used += (size_t)snprintf(known + used, sizeof known - used, " %s", room ? names[i] : "...");
    if (!room)
      used = sizeof known;
  }
  const char *near = cli_did_you_mean(word, names, names ? domain->endpoint_count : 0);
  cli_error("the domain has no endpoint %s%s", word, *near ? near : known);
  free(names);
  return false;
}

/* Marks each endpoint of a list with commas. */
static bool mark_list(const struct steer_domain *domain, const char *list, mark_fn *mark,
                      struct steer_status *status) {
  char *copy = list ? strdup(list) : NULL;
  bool ok = copy || !list;
  char *state = NULL;
  for (char *word = copy ? strtok_r(copy, ",", &state) : NULL; ok && word;
       word = strtok_r(NULL, ",", &state)) {
    long index = steer_endpoint_find(domain, word);
    if (index < 0)
      ok = unknown_endpoint(domain, word);
    else
      mark(&status[index]);
  }
  free(copy);
  return ok;
}

static int explain_domain(const struct arguments *args, const struct steer_domain *domain,
                          const char *text) {
  struct steer_status *status = calloc(domain->endpoint_count, sizeof *status);
  struct geo_db *db = NULL;
  char why[512] = "out of memory";
  int result = CLI_FAILED;
  if (!status || !geo_db_load(args->geo, args->asn, &db, why)) {
    cli_error("%s", why);
  } else if (mark_list(domain, args->down, mark_down, status) &&
             mark_list(domain, args->disabled, mark_disabled, status)) {
    struct explain_input input = {
        .domain = domain,
        .domain_text = text,
        .db = db,
        .client = args->address,
        .client_text = args->client,
        .type = args->type,
        .facts = {.status = status},
    };
    json_t *document = explain_json(&input);
    result = print(document, args->json);
    json_decref(document);
  }
  geo_db_free(db);
  free(status);
  return result;
}

static int explain_in_model(const struct arguments *args, const struct model *model) {
  struct name_zones zones;
  uint8_t name[NAME_BUF];
  char text[NAME_MAX_TEXT];
  if (!names_from_model(&zones, model)) {
    cli_error("out of memory");
    return CLI_FAILED;
  }
  bool ok = names_resolve(&zones, args->domain, name);
  names_close(&zones);
  if (!ok)
    return CLI_USAGE;
  name_to_text(text, name);
  const struct model_domain *domain = names_find_domain(model, name);
  if (domain)
    return explain_domain(args, domain->steer, text);
  cli_error(not_steered, text, "; `sluice check` counts those of a configuration");
  return CLI_FAILED;
}

static int explain_offline(const struct arguments *args) {
  struct config_input input = {.dir = args->config, .no_program_check = true};
  struct model *model = config_read(&input);
  if (!model)
    return CLI_FAILED;
  int result = explain_in_model(args, model);
  model_free(model);
  return result;
}

/* ---- with a server -------------------------------------------------------------------------- */

static int explain_online(const struct arguments *args) {
  char domain[NAME_MAX_TEXT];
  const char *socket = client_socket(args->socket, args->settings);
  if (!socket)
    return CLI_FAILED;
  int status = names_resolve_at_server(socket, args->domain, domain);
  if (status != CLI_DONE)
    return status;
  json_t *reply;
  status = client_call(socket,
                       json_pack("{s:s, s:s, s:s, s:s}", "command", "explain", "domain", domain,
                                 "client", args->client, "type",
                                 args->type == STEER_AAAA ? "AAAA" : "A"),
                       &reply);
  if (status != CLI_DONE)
    return status;
  status = print(json_object_get(reply, "explain"), args->json);
  json_decref(reply);
  return status;
}

/* ---- arguments ------------------------------------------------------------------------------ */

static bool read_client(struct arguments *args) {
  uint8_t octets[16];
  if (inet_pton(AF_INET, args->client, octets) == 1)
    geo_address_set4(&args->address, octets);
  else if (inet_pton(AF_INET6, args->client, octets) == 1)
    geo_address_set6(&args->address, octets);
  else
    return false;
  return true;
}

static int check_arguments(struct arguments *args) {
  if (!args->client)
    return cli_usage("--client is missing; name the client's address with --client IP");
  if (!read_client(args))
    return cli_usage("%s is not an IP address; write --client 192.0.2.1 or --client 2001:db8::1",
                     args->client);
  if (args->type_text && strcasecmp(args->type_text, "A") && strcasecmp(args->type_text, "AAAA"))
    return cli_usage("the type %s is not steered; write --type A or --type AAAA", args->type_text);
  args->type = args->type_text && !strcasecmp(args->type_text, "AAAA") ? STEER_AAAA : STEER_A;
  if (args->config && (args->socket || args->settings))
    return cli_usage("--config works without a server; leave out --socket and -c");
  if (!args->config && (args->geo || args->asn || args->down || args->disabled))
    return cli_usage("--geo, --asn, --down and --disabled work without a server; add --config DIR");
  return CLI_DONE;
}

int command_explain(int argc, char **argv) {
  struct arguments args = {0};
  const struct cli_option options[] = {
      {"client", "IP", "address of the client, as from ECS", &args.client, NULL},
      {"type", "TYPE", "A (default) or AAAA", &args.type_text, NULL},
      {"json", NULL, "print JSON", NULL, &args.json},
      {"socket", "PATH", CLIENT_SOCKET_HELP, &args.socket, NULL},
      {"settings", "FILE", MACHINE_HELP, &args.settings, NULL},
      {"config", "DIR", "work on a configuration, without a server", &args.config, NULL},
      {"geo", "FILE", "location database (with --config)", &args.geo, NULL},
      {"asn", "FILE", "AS number database (with --config)", &args.asn, NULL},
      {"down", "EP[,EP...]", "endpoints taken as unhealthy (with --config)", &args.down, NULL},
      {"disabled", "EP[,EP...]", "endpoints taken as disabled (with --config)", &args.disabled,
       NULL},
  };
  const struct cli_spec spec = {
      .usage = "sluice explain DOMAIN --client IP [--type A|AAAA] [--json] [--socket PATH]\n"
               "sluice explain DOMAIN --client IP --config DIR [--geo FILE] [--asn FILE]\n"
               "               [--down EP,...] [--disabled EP,...] [--type A|AAAA] [--json]",
      .about = "Shows how the four layers answer a client: region, status, level, and the chance\n"
               "of every endpoint.  Asks the running server, or works on a directory.\n"
               "A chance is a share of cache fills, not of users: a resolver keeps one draw for\n"
               "the TTL and gives it to all its users.\n"
               "Exit status: 1 also if the name is not steered.",
      .examples = "sluice explain cdn --client 192.0.2.1\n"
                  "sluice explain cdn.tm.example.com. --client 2001:db8::1 --type AAAA --json\n"
                  "sluice explain cdn --client 192.0.2.1 --config . --geo city.mmdb --down east-1",
      .options = options,
      .option_count = CLI_COUNT(options),
      .min_args = 1,
      .max_args = 1,
  };
  size_t count;
  enum cli_next next = cli_parse(&spec, argc, argv, &count);
  if (next != CLI_GO_ON)
    return next == CLI_EXIT_DONE ? CLI_DONE : CLI_USAGE;
  args.domain = argv[1];
  int wrong = check_arguments(&args);
  if (wrong)
    return wrong;
  return args.config ? explain_offline(&args) : explain_online(&args);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The parent zone: whose it is, and the delegation in it. */
#include <stdbool.h> /* before ldns, which else has a bool of its own */

#include <ldns/ldns.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli.h"
#include "tools/sync/lock.h"
#include "tools/sync/migrate.h"
#include "tools/sync/nameset.h"
#include "tools/sync/verify_private.h"
#include "zones/record.h"

enum { TIMEOUT_S = 2, TRIES = 2 };

/* ---- whose it is ---------------------------------------------------------------------------- */

static bool has_record(const struct model_zone *zone, const uint8_t *owner, uint16_t type) {
  for (size_t i = 0; i < zone->rr_count; i++)
    if (zone->rrs[i].type == type && name_equal(zone->rrs[i].owner, owner))
      return true;
  return false;
}

/* The zone of the configuration in which the child's delegation stands, or NULL. */
static const struct model_zone *find_ours(const struct sync_run *run) {
  const uint8_t *child = run->zones[0].zone->apex;
  const struct model_zone *best = NULL;
  for (size_t i = 0; i < run->model->zone_count; i++) {
    const struct model_zone *zone = &run->model->zones[i];
    if (!name_equal(zone->apex, child) && name_is_below_or_equal(child, zone->apex) &&
        (!best || name_labels(zone->apex) > name_labels(best->apex)))
      best = zone;
  }
  return best && has_record(best, child, RECORD_NS) ? best : NULL;
}

/* A run on the parent zone; not planned yet. */
static bool open_parent(struct migrate_job *job, struct sync_run *run, const char **wanted,
                        size_t count) {
  char *args[] = {job->parent_zone};
  char captured[MIGRATE_JOB_WHY] = "";
  struct sync_options options = job->options;
  char *without;
  *run = (struct sync_run){0};
  if (!migrate_without(job, &without))
    return false;
  options.without = without;
  options.args = args;
  options.arg_count = 1;
  options.apex_ns = wanted;
  options.apex_ns_count = count;
  options.cut = job->zone;
  options.lock_wait_ms = SYNC_LOCK_WAIT_MS;
  options.consents =
      SYNC_TAKE_OVER | SYNC_NS_CHANGE | SYNC_LARGE; /* of nothing but this one delegation */
  cli_capture(captured, sizeof captured);
  bool ok = sync_run_open(run, &options) == CLI_DONE;
  cli_capture(NULL, 0);
  if (!ok)
    return migrate_fail(job, "%s", captured);
  return run->target_count > 0
             ? true
             : migrate_fail(job,
                            "the parent zone %.255s is at %.255s alone, so the delegation of "
                            "%.255s cannot be changed; move the parent zone first",
                            job->parent_zone, without ? without : "no provider", job->zone);
}

static void close_parent(struct sync_run *run) {
  const char *without = run->options.without;
  sync_run_close(run);
  free((void *)(uintptr_t)without);
}

static bool find_ours_servers(struct migrate_job *job) {
  struct sync_run run;
  bool ok = open_parent(job, &run, NULL, 0);
  for (size_t i = 0; ok && i < run.target_count; i++)
    ok =
        migrate_host_find(job, &run, run.targets[i].provider, NULL, job->parent_zone, &job->parent);
  close_parent(&run);
  return ok;
}

/* ---- by the resolver of the system ---------------------------------------------------------- */

static bool add_answer(struct migrate_job *job, const ldns_rr_list *list) {
  for (size_t i = 0; i < ldns_rr_list_rr_count(list); i++) {
    char *text = ldns_rdf2str(ldns_rr_rdf(ldns_rr_list_rr(list, i), 0));
    bool ok = text && migrate_host_add(job, &job->parent, text);
    free(text);
    if (!ok)
      return false;
  }
  return true;
}

/* The NS RRset of a name, or NULL if it is not the apex of a zone.  False if nobody tells: a
 * failure must not lead to the zone above the parent. */
static bool ask_zone(struct migrate_job *job, ldns_resolver *resolver, const ldns_rdf *name,
                     ldns_rr_list **list) {
  ldns_pkt *packet =
      ldns_resolver_query(resolver, name, LDNS_RR_TYPE_NS, LDNS_RR_CLASS_IN, LDNS_RD);
  bool heard = packet;
  unsigned rcode = packet ? (unsigned)ldns_pkt_get_rcode(packet) : LDNS_RCODE_SERVFAIL;
  bool ok = packet && !ldns_pkt_tc(packet) &&
            (rcode == LDNS_RCODE_NOERROR || rcode == LDNS_RCODE_NXDOMAIN);
  *list = ok ? ldns_pkt_rr_list_by_name_and_type(packet, name, LDNS_RR_TYPE_NS, LDNS_SECTION_ANSWER)
             : NULL;
  ldns_pkt_free(packet);
  if (ok)
    return true;
  char *text = ldns_rdf2str(name);
  job->passing = true;
  migrate_fail(job,
               "the resolver of the system does not tell the parent zone of %.255s (%s for %.255s "
               "NS); name its name servers by --parent ADDRESS,...",
               job->zone, heard ? verify_rcode(rcode) : "no answer", text ? text : "?");
  free(text);
  return false;
}

static bool find_by_resolver(struct migrate_job *job) {
  ldns_resolver *resolver = NULL;
  ldns_rr_list *list = NULL;
  ldns_rdf *name = ldns_dname_new_frm_str(job->zone);
  if (!name || ldns_resolver_new_frm_file(&resolver, NULL) != LDNS_STATUS_OK) {
    ldns_rdf_deep_free(name);
    return migrate_fail(job,
                        "there is no resolver to find the parent zone of %.255s; name its name "
                        "servers by --parent ADDRESS,...",
                        job->zone);
  }
  ldns_resolver_set_timeout(resolver, (struct timeval){.tv_sec = TIMEOUT_S});
  ldns_resolver_set_retry(resolver, TRIES);
  ldns_resolver_set_defnames(resolver, false);
  ldns_resolver_set_dnsrch(resolver, false);
  bool told = true;
  while (told && !list && name && ldns_dname_label_count(name) > 0) {
    ldns_rdf *up = ldns_dname_left_chop(name);
    ldns_rdf_deep_free(name);
    name = up;
    told = !name || ask_zone(job, resolver, name, &list);
  }
  bool ok = list;
  if (ok) {
    char *text = ldns_rdf2str(name);
    snprintf(job->parent_zone, sizeof job->parent_zone, "%.1000s", text ? text : "");
    free(text);
    ok = add_answer(job, list);
  } else if (told) {
    migrate_fail(job,
                 "the resolver of the system does not tell the parent zone of %.255s; name its "
                 "name servers by --parent ADDRESS,...",
                 job->zone);
  }
  ldns_rr_list_deep_free(list);
  ldns_rdf_deep_free(name);
  ldns_resolver_deep_free(resolver);
  return ok;
}

bool migrate_find_parent(struct migrate_job *job, struct sync_run *run) {
  const struct model_zone *ours = find_ours(run);
  bool settable = ours && json_array_size(ours->providers) > 0;
  migrate_host_close(&job->parent);
  job->parent_kind = settable ? MIGRATE_OURS : MIGRATE_REGISTRY;
  job->parent.name = strdup("the parent zone");
  job->parent_zone[0] = '\0';
  if (!job->parent.name)
    return migrate_fail(job, "out of memory");
  if (ours)
    name_to_text(job->parent_zone, ours->apex);
  for (size_t i = 0; i < json_array_size(job->state.parents); i++)
    if (!migrate_host_add(job, &job->parent,
                          json_string_value(json_array_get(job->state.parents, i))))
      return false;
  if (job->parent.count > 0)
    return true;
  if (settable ? !find_ours_servers(job) : !find_by_resolver(job))
    return false;
  return job->parent.count > 0 ? true
                               : migrate_fail(job, "no name server of the parent zone is "
                                                   "known; name them by --parent ADDRESS");
}

/* ---- the delegation ------------------------------------------------------------------------- */

static bool is_below(const char *name, const char *zone) {
  size_t n = strlen(name);
  size_t z = strlen(zone);
  return n >= z && strcmp(name + n - z, zone) == 0 &&
         (n == z || zone[0] == '.' || name[n - z - 1] == '.');
}

bool migrate_check_glue(struct migrate_job *job, const struct sync_run *run, const json_t *names) {
  const struct model_zone *ours = find_ours(run);
  for (size_t i = 0; i < json_array_size(names); i++) {
    const char *name = json_string_value(json_array_get(names, i));
    uint8_t wire[NAME_BUF];
    char parent[NAME_MAX_TEXT];
    const char *why;
    if (!is_below(name, job->zone) || name_from_text(wire, name, strlen(name), NULL, &why) == 0)
      continue;
    const struct model_zone *zone = run->zones[0].zone;
    if (!has_record(zone, wire, RECORD_A) && !has_record(zone, wire, RECORD_AAAA))
      return migrate_fail(job,
                          "%.255s is a name server in the zone itself, but the zone has no "
                          "address for it",
                          name);
    if (ours && !has_record(ours, wire, RECORD_A) && !has_record(ours, wire, RECORD_AAAA))
      return migrate_fail(job,
                          "%.255s is a name server in the zone itself: its addresses are needed "
                          "in the parent zone %.255s too (glue); add them there",
                          name, name_to_text(parent, ours->apex));
  }
  return true;
}

/* The addresses of name servers in the zone itself. */
static void tell_glue(struct migrate_job *job, const struct model_zone *zone,
                      const json_t *wanted) {
  for (size_t i = 0; i < zone->rr_count; i++) {
    const struct model_rr *rr = &zone->rrs[i];
    char owner[NAME_MAX_TEXT];
    char type[16];
    if ((rr->type != RECORD_A && rr->type != RECORD_AAAA) ||
        !nameset_has(wanted, name_to_text(owner, rr->owner)))
      continue;
    char *address = provider_rdata_wire(rr->type, rr->rdata, rr->rdata_len);
    migrate_todo(job, "  %s %s %s", owner, record_type_text(rr->type, type),
                 address ? address : "?");
    free(address);
  }
}

static void tell_registry(struct migrate_job *job, const struct sync_run *run,
                          const json_t *wanted) {
  migrate_todo(job, "the delegation of %s has to become, at %s%s:", job->zone,
               job->parent_zone[0] ? "whoever runs " : "the registry of its parent zone",
               job->parent_zone);
  for (size_t i = 0; i < json_array_size(wanted); i++)
    migrate_todo(job, "  %s NS %s", job->zone, json_string_value(json_array_get(wanted, i)));
  tell_glue(job, run->zones[0].zone, wanted);
}

static void tell_deploy(struct migrate_job *job, const json_t *wanted) {
  char set[1024];
  size_t zone = strlen(job->zone);
  size_t parent = strlen(job->parent_zone);
  int label = zone > parent ? (int)(zone - parent - 1) : (int)zone;
  migrate_todo(
      job, "%s has to be deployed with this in `records:` of its zone.yaml:\n  %.*s: {NS: [%s]}",
      job->parent_zone, label, job->zone, nameset_text(wanted, set, sizeof set));
}

/* Limits the run to the delegation and its addresses. */
static bool limit(struct migrate_job *job, struct sync_run *run, const json_t *wanted) {
  struct sync_zone *zone = &run->zones[0];
  zone->names = calloc(json_array_size(wanted) + 1, sizeof *zone->names);
  bool ok = zone->names && (zone->names[zone->name_count] = strdup(job->zone)) != NULL;
  zone->name_count += ok ? 1 : 0;
  for (size_t i = 0; ok && i < json_array_size(wanted); i++) {
    const char *name = json_string_value(json_array_get(wanted, i));
    if (!is_below(name, job->zone) || strcmp(name, job->zone) == 0)
      continue;
    ok = (zone->names[zone->name_count] = strdup(name)) != NULL;
    zone->name_count += ok ? 1 : 0;
  }
  return ok ? true : migrate_fail(job, "out of memory");
}

static bool judge_target(struct migrate_job *job, const struct sync_target *t,
                         const json_t *wanted) {
  if (t->state == SYNC_FAILED)
    return migrate_fail_provider(job, t->provider->name, &t->error);
  for (size_t i = 0; i < t->plan.count; i++)
    if (t->plan.items[i].held & ~(unsigned)SYNC_DEPLOYED)
      return migrate_fail(job, "%s: the delegation of %.255s in %.255s is held back: %s",
                          t->provider->name, job->zone, job->parent_zone,
                          sync_hold_text(t->plan.items[i].held));
  if (t->provider->kind->can.deployed && t->plan.count > 0)
    tell_deploy(job, wanted);
  return true;
}

static bool set_ours(struct migrate_job *job, const char **texts, const json_t *wanted) {
  struct sync_run run;
  bool ok = open_parent(job, &run, texts, json_array_size(wanted)) && limit(job, &run, wanted);
  if (ok && !sync_run_lock(&run))
    ok = migrate_fail(job, "%s: the configuration is another one meanwhile; run it again",
                      job->parent_zone);
  if (ok)
    sync_run_plan(&run);
  for (size_t i = 0; ok && i < run.target_count; i++)
    ok = judge_target(job, &run.targets[i], wanted);
  ok = ok && migrate_apply(job, &run);
  close_parent(&run);
  return ok;
}

bool migrate_set_parent(struct migrate_job *job, const struct sync_run *run, const json_t *wanted) {
  size_t n = json_array_size(wanted);
  if (n == 0)
    return migrate_fail(job, "an empty delegation is none");
  if (job->parent_kind == MIGRATE_REGISTRY) {
    tell_registry(job, run, wanted);
    return true;
  }
  const char **texts = calloc(n + 1, sizeof *texts);
  for (size_t i = 0; texts && i < n; i++)
    texts[i] = json_string_value(json_array_get(wanted, i));
  bool ok = texts ? set_ours(job, texts, wanted) : migrate_fail(job, "out of memory");
  free(texts);
  return ok;
}

bool migrate_read_parent(struct migrate_job *job, struct migrate_seen *seen) {
  struct sync_run run;
  bool ok = open_parent(job, &run, NULL, 0);
  if (ok)
    sync_run_plan(&run);
  for (size_t i = 0; ok && i < run.target_count; i++) {
    const struct sync_target *t = &run.targets[i];
    if (t->state == SYNC_FAILED) {
      ok = migrate_fail_provider(job, t->provider->name, &t->error);
      break;
    }
    json_t *set = migrate_ns_of(&t->actual, job->zone);
    uint32_t ttl = 0;
    for (size_t k = 0; k < t->actual.count; k++)
      if (strcmp(t->actual.items[k].type, "NS") == 0 &&
          strcmp(t->actual.items[k].name, job->zone) == 0)
        ttl = (uint32_t)json_integer_value(json_object_get(t->actual.items[k].body, "ttl"));
    ok = (set && migrate_seen_add(seen, set, ttl)) ? true : migrate_fail(job, "out of memory");
    json_decref(set);
  }
  close_parent(&run);
  return ok;
}

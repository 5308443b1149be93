/* SPDX-License-Identifier: Apache-2.0 */
/* What the name servers of the providers and of the parent zone answer. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/sync/migrate.h"
#include "tools/sync/nameset.h"
#include "tools/sync/verify_private.h"
#include "zones/record.h"

enum { TYPE_DS = 43, NXDOMAIN = 3, WINDOW = 32, TTL_MAX = INT32_MAX };

/* ---- where they are ------------------------------------------------------------------------- */

/* False if this machine has no way to the address at all, such as one of IPv6 without IPv6. */
static bool has_way(const struct ask_server *server) {
  socklen_t size = server->address.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                         : sizeof(struct sockaddr_in);
  int fd = socket(server->address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  bool ok = fd >= 0 && connect(fd, (const struct sockaddr *)&server->address, size) == 0;
  if (fd >= 0)
    close(fd);
  return ok;
}

/* Of several addresses of a host, those without a way to them do not count. */
static void keep_reachable(struct ask_server *servers, size_t *count) {
  size_t kept = 0;
  for (size_t i = 0; *count > 1 && i < *count; i++)
    if (has_way(&servers[i]))
      servers[kept++] = servers[i];
  *count = kept > 0 ? kept : *count;
}

bool migrate_host_add(struct migrate_job *job, struct migrate_host *host, const char *text) {
  char why[ASK_TEXT];
  struct ask_server *found = NULL;
  size_t count = 0;
  job->passing = true; /* the resolver may know it later */
  if (!ask_resolve(text, &found, &count, why))
    return migrate_fail(job,
                        "%.200s: the name server %.200s cannot be found (%.200s); `servers: "
                        "[ADDRESS]` of the provider in defaults.yaml tells where it is",
                        host->name, text, why);
  keep_reachable(found, &count);
  struct ask_server *all = realloc(host->servers, (host->count + count + 1) * sizeof *all);
  if (all) {
    memcpy(all + host->count, found, count * sizeof *all);
    host->servers = all;
    host->count += count;
  }
  free(found);
  if (!host->texts)
    host->texts = json_array();
  if (json_array_append_new(host->texts, json_string(text)) != 0)
    return migrate_fail(job, "out of memory");
  return all ? true : migrate_fail(job, "out of memory");
}

static bool add_servers(struct migrate_job *job, struct migrate_host *host, const json_t *texts) {
  size_t i;
  const json_t *item;
  json_array_foreach(texts, i, item) {
    if (!json_is_string(item) || !migrate_host_add(job, host, json_string_value(item)))
      return job->why[0] ? false : migrate_fail(job, "%s: no list of name servers", host->name);
  }
  return true;
}

/* Those that its kind tells. */
static bool add_kinds_servers(struct migrate_job *job, struct sync_run *run,
                              const struct sync_provider *provider, struct migrate_host *host,
                              const char *zone) {
  struct provider_error error;
  void *self = sync_provider_open(run, provider, false, &error);
  json_t *list =
      self && provider->kind->servers ? provider->kind->servers(self, zone, &error) : NULL;
  if (self)
    provider->kind->close(self);
  bool ok =
      list ? add_servers(job, host, list) : migrate_fail_provider(job, provider->name, &error);
  json_decref(list);
  return ok;
}

/* The settings know best; then its name servers by name; then what it says itself. */
bool migrate_host_find(struct migrate_job *job, struct sync_run *run,
                       const struct sync_provider *provider, const json_t *names, const char *zone,
                       struct migrate_host *host) {
  const json_t *servers = json_object_get(provider->settings, "servers");
  const json_t *ns = json_object_get(provider->settings, "ns");
  bool own = provider->kind && provider->kind->can.deployed;
  if (json_array_size(servers) > 0)
    return add_servers(job, host, servers);
  if (json_array_size(ns) > 0)
    return add_servers(job, host, ns);
  if (json_array_size(names) > 0 && !own)
    return add_servers(job, host, names);
  return provider->kind ? add_kinds_servers(job, run, provider, host, zone)
                        : migrate_fail_provider(job, provider->name, &provider->error);
}

static const json_t *names_of(const struct migrate_state *s, const char *provider) {
  if (strcmp(provider, s->from) == 0)
    return s->old;
  return strcmp(provider, s->to) == 0 ? s->new : NULL;
}

static void forget(struct migrate_job *job) {
  for (size_t i = 0; i < job->host_count; i++)
    migrate_host_close(&job->hosts[i]);
  free(job->hosts);
  job->hosts = NULL;
  job->host_count = 0;
}

/* What failed was a name server of the host; returns false. */
static bool is_silent(struct migrate_job *job, const struct migrate_host *host) {
  snprintf(job->silent, sizeof job->silent, "%s", host->name);
  job->silent_api = false;
  return false;
}

static bool find_all(struct migrate_job *job, struct sync_run *run) {
  job->hosts = calloc(run->target_count + 1, sizeof *job->hosts);
  if (!job->hosts)
    return migrate_fail(job, "out of memory");
  for (size_t i = 0; i < run->target_count; i++) {
    const struct sync_provider *provider = run->targets[i].provider;
    struct migrate_host *host = &job->hosts[job->host_count++];
    host->name = strdup(provider->name);
    if (!host->name)
      return migrate_fail(job, "out of memory");
    if (job->dry && run->targets[i].error.failure == PROVIDER_GONE)
      continue; /* there is nobody to ask yet */
    if (!migrate_host_find(job, run, provider, names_of(&job->state, provider->name), job->zone,
                           host))
      return job->silent[0] || !job->passing ? false : is_silent(job, host);
  }
  return migrate_find_parent(job, run);
}

/* Some of them alone would look like all of them to a later step. */
bool migrate_find(struct migrate_job *job, struct sync_run *run) {
  forget(job);
  job->why[0] = '\0';
  bool ok = find_all(job, run);
  if (!ok)
    forget(job);
  return ok;
}

struct migrate_host *migrate_host(struct migrate_job *job, const char *provider) {
  for (size_t i = 0; i < job->host_count; i++)
    if (strcmp(job->hosts[i].name, provider) == 0)
      return &job->hosts[i];
  return NULL;
}

/* ---- NS RRsets ------------------------------------------------------------------------------ */

static void merge(json_t **place, json_t *with) {
  json_decref(*place);
  *place = with;
}

bool migrate_seen_add(struct migrate_seen *seen, const json_t *set, uint32_t ttl) {
  json_t *all = seen->all ? nameset_common(seen->all, set) : json_deep_copy(set);
  json_t *any = seen->any ? nameset_union(seen->any, set) : json_deep_copy(set);
  merge(&seen->all, all);
  merge(&seen->any, any);
  seen->ttl = ttl > seen->ttl ? ttl : seen->ttl;
  return all && any;
}

/* The NS RRset of the zone in an answer; NULL without memory, or for what are no names. */
static json_t *ns_in(const struct ask_answer *answer, const char *zone, uint32_t *ttl) {
  size_t i;
  const json_t *item;
  json_t *set = json_array();
  *ttl = 0;
  json_array_foreach(answer->records, i, item) {
    const char *name = json_string_value(json_object_get(item, "name"));
    const char *type = json_string_value(json_object_get(item, "type"));
    json_int_t seconds = json_integer_value(json_object_get(item, "ttl"));
    if (!set || !name || !type || strcasecmp(name, zone) != 0 || strcmp(type, "NS") != 0)
      continue;
    if (!nameset_add(set, json_string_value(json_object_get(item, "value")))) {
      json_decref(set);
      return NULL;
    }
    if (seconds > 0 && seconds <= TTL_MAX && (uint32_t)seconds > *ttl)
      *ttl = (uint32_t)seconds;
  }
  return set;
}

static bool ask(struct migrate_job *job, const struct migrate_host *host, size_t i, uint16_t type,
                struct ask_answer *answer) {
  const struct ask_question question = {.name = job->zone, .type = type, .family = AF_UNSPEC};
  *answer = (struct ask_answer){0};
  if (!ask_one(&host->servers[i], &question, 0, answer))
    return migrate_fail(job, "out of memory");
  if (answer->answered)
    return true;
  job->passing = true;
  return migrate_fail(job, "%.200s: the name server %s does not answer (%.200s)", host->name,
                      host->servers[i].text, answer->why);
}

static bool look_apex(struct migrate_job *job, const struct migrate_host *host, size_t i,
                      struct migrate_view *view) {
  struct ask_answer answer;
  uint32_t ttl = 0;
  bool ok = ask(job, host, i, RECORD_NS, &answer);
  json_t *set = ok ? ns_in(&answer, job->zone, &ttl) : NULL;
  if (ok && (!answer.authoritative || answer.rcode != 0 || json_array_size(set) == 0)) {
    job->passing = true;
    ok = migrate_fail(job,
                      "%.200s: the name server %s is not one of %.255s (it gives no "
                      "authoritative answer with NS records)",
                      host->name, host->servers[i].text, job->zone);
  } else if (ok && (!set || !migrate_seen_add(&view->apex, set, ttl))) {
    ok = migrate_fail(job, "out of memory");
  }
  json_decref(set);
  ask_answer_close(&answer);
  return ok;
}

/* The SOA record of the zone in an answer, or NULL. */
static const json_t *soa_in(const struct ask_answer *answer, const char *zone) {
  size_t i;
  const json_t *item;
  json_array_foreach(answer->records, i, item) {
    const char *name = json_string_value(json_object_get(item, "name"));
    const char *type = json_string_value(json_object_get(item, "type"));
    if (name && type && strcasecmp(name, zone) == 0 && strcmp(type, "SOA") == 0)
      return item;
  }
  return NULL;
}

/* RFC 2308 section 5: the smaller of the SOA's TTL and its last field. */
static uint32_t negative_ttl(const json_t *record) {
  const char *value = json_string_value(json_object_get(record, "value"));
  json_int_t ttl = json_integer_value(json_object_get(record, "ttl"));
  const char *last = value ? strrchr(value, ' ') : NULL;
  long long minimum = last ? atoll(last + 1) : 0;
  long long least = ttl < minimum ? ttl : minimum;
  return least > 0 && least <= TTL_MAX ? (uint32_t)least : 0;
}

static bool look_soa(struct migrate_job *job, const struct migrate_host *host, size_t i,
                     struct migrate_view *view) {
  struct ask_answer answer;
  bool ok = ask(job, host, i, RECORD_SOA, &answer);
  const json_t *record = ok ? soa_in(&answer, job->zone) : NULL;
  if (ok && (!answer.authoritative || answer.rcode != 0 || !record)) {
    job->passing = true;
    ok = migrate_fail(job, "%.200s: the name server %s gives no SOA record of %.255s", host->name,
                      host->servers[i].text, job->zone);
  }
  uint32_t ttl = ok ? negative_ttl(record) : 0;
  view->negative_ttl = ttl > view->negative_ttl ? ttl : view->negative_ttl;
  ask_answer_close(&answer);
  return ok;
}

/* What a name server says that does not know the parent zone, or not now, tells nothing of the
 * child: neither that it has no delegation nor that it has no DS record. */
static bool no_parent(struct migrate_job *job, size_t i, const struct ask_answer *answer) {
  job->passing = true;
  return migrate_fail(job, "the parent zone: the name server %s tells nothing of %.255s (%s)",
                      job->parent.servers[i].text, job->zone,
                      answer->rcode != 0 ? verify_rcode(answer->rcode)
                      : answer->referral ? "it refers to others"
                                         : "its answer is not authoritative");
}

/* An authoritative "there is none", or other records. */
static bool is_final(const struct ask_answer *answer) {
  return answer->authoritative && (answer->rcode == 0 || answer->rcode == NXDOMAIN);
}

/* The delegation as one of them has it.  *told false: it has the zone itself and answers from
 * there, so that its delegation is not to be seen. */
static bool look_delegation(struct migrate_job *job, size_t i, struct migrate_seen *seen,
                            bool *told) {
  struct ask_answer answer;
  uint32_t ttl = 0;
  bool ok = ask(job, &job->parent, i, RECORD_NS, &answer);
  *told = ok && !(is_final(&answer) && json_array_size(answer.records) > 0);
  json_t *set = *told ? ns_in(&answer, job->zone, &ttl) : NULL;
  bool delegates = ok && answer.referral && json_array_size(set) > 0;
  if (*told && !set)
    ok = migrate_fail(job, "out of memory");
  else if (*told && !delegates && !is_final(&answer))
    ok = no_parent(job, i, &answer);
  else if (*told && !migrate_seen_add(seen, set, ttl))
    ok = migrate_fail(job, "out of memory");
  json_decref(set);
  ask_answer_close(&answer);
  return ok;
}

bool migrate_look_parent(struct migrate_job *job, struct migrate_seen *seen) {
  bool told = false;
  for (size_t i = 0; i < job->parent.count; i++) {
    bool one;
    if (!look_delegation(job, i, seen, &one))
      return false;
    told = told || one;
  }
  if (told)
    return true;
  if (job->parent_kind == MIGRATE_OURS)
    return migrate_read_parent(job, seen);
  return migrate_fail(job,
                      "the name servers of the parent zone that were asked have %.255s themselves, "
                      "so its delegation cannot be seen; name others by --parent",
                      job->zone);
}

bool migrate_look_signed(struct migrate_job *job, bool *is_signed) {
  *is_signed = false;
  for (size_t i = 0; i < job->parent.count; i++) {
    struct ask_answer answer;
    bool ok = ask(job, &job->parent, i, TYPE_DS, &answer);
    if (ok && !is_final(&answer))
      ok = no_parent(job, i, &answer);
    size_t k;
    const json_t *item;
    json_array_foreach(answer.records, k, item) {
      const char *type = json_string_value(json_object_get(item, "type"));
      *is_signed = *is_signed || (type && strcmp(type, "DS") == 0);
    }
    ask_answer_close(&answer);
    if (!ok)
      return false;
  }
  return true;
}

bool migrate_look(struct migrate_job *job, const char *skip, struct migrate_view *view) {
  *view = (struct migrate_view){0};
  job->why[0] = '\0';
  job->passing = false;
  job->silent[0] = '\0';
  for (size_t h = 0; h < job->host_count; h++) {
    const struct migrate_host *host = &job->hosts[h];
    if (skip && strcmp(host->name, skip) == 0)
      continue;
    if (host->count == 0)
      return migrate_fail(job, "%.200s: no name server is known; write `servers: [ADDRESS]` there",
                          host->name);
    for (size_t i = 0; i < host->count; i++)
      if (!look_apex(job, host, i, view) || !look_soa(job, host, i, view))
        return job->passing ? is_silent(job, host) : false;
  }
  return migrate_look_parent(job, &view->parent);
}

void migrate_view_close(struct migrate_view *view) {
  json_decref(view->apex.all);
  json_decref(view->apex.any);
  json_decref(view->parent.all);
  json_decref(view->parent.any);
  *view = (struct migrate_view){0};
}

/* Nobody was asked, or both say the same. */
static bool same(const struct migrate_seen *a, const struct migrate_seen *b) {
  return (!a->any && !b->any) || (nameset_equal(a->all, b->all) && nameset_equal(a->any, b->any));
}

bool migrate_look_twice(struct migrate_job *job, const char *skip, struct migrate_view *view) {
  struct migrate_view again = {0};
  bool ok = migrate_look(job, skip, view) && migrate_look(job, skip, &again);
  if (ok && (!same(&view->apex, &again.apex) || !same(&view->parent, &again.parent))) {
    job->passing = true;
    ok = migrate_fail(job,
                      "the NS records of %.255s are not the same from one moment to the next: "
                      "some name server answers an older state; try again later",
                      job->zone);
  }
  migrate_view_close(&again);
  return ok;
}

/* ---- answers beside each other -------------------------------------------------------------- */

struct gathered {
  json_t **answers; /* one for each question; NULL: none came */
  bool failed;
};

/* What an answer says: the code and the values, in a form that is equal if they are. */
static void gather(void *arg, size_t index, const struct ask_answer *answer) {
  struct gathered *g = arg;
  json_t *values = json_object();
  size_t i;
  const json_t *item;
  json_array_foreach(answer->records, i, item) {
    const char *value = json_string_value(json_object_get(item, "value"));
    const char *type = json_string_value(json_object_get(item, "type"));
    char key[1200];
    snprintf(key, sizeof key, "%.20s %.1100s", type ? type : "", value ? value : "");
    json_object_set(values, key, json_object_get(item, "ttl"));
  }
  json_t *all = answer->answered ? json_pack("{s:i, s:o}", "rcode", (int)answer->rcode, "values",
                                             values ? values : json_null())
                                 : NULL;
  if (!answer->answered)
    json_decref(values);
  else if (!all)
    g->failed = true;
  json_decref(g->answers[index]);
  g->answers[index] = all;
}

/* The plain records of the zone, but those that are each provider's own affair. */
static struct ask_question *plain_questions(const struct sync_target *t, size_t *count) {
  struct ask_question *out = calloc(t->desired.count + 1, sizeof *out);
  *count = 0;
  for (size_t i = 0; out && i < t->desired.count; i++) {
    const struct provider_object *o = &t->desired.items[i];
    uint16_t type = record_type(o->type, strlen(o->type));
    /* At a zone cut and below the answer is a referral, in whatever form. */
    if (o->domain || o->part || type == 0 || type == RECORD_NS || type == RECORD_SOA ||
        strncmp(o->name, "*.", 2) == 0)
      continue;
    out[(*count)++] = (struct ask_question){.name = o->name, .type = type, .family = AF_UNSPEC};
  }
  return out;
}

static bool gather_all(struct migrate_job *job, const struct migrate_host *host, size_t server,
                       const struct ask_question *questions, size_t count, struct gathered *g) {
  char why[ASK_TEXT] = "";
  g->answers = calloc(count + 1, sizeof *g->answers);
  g->failed = !g->answers;
  job->passing = true;
  if (g->answers && !ask_many(&host->servers[server], questions, count, WINDOW, 0, gather, g, why))
    return migrate_fail(job, "%.200s: the name server %s: %.200s", host->name,
                        host->servers[server].text, why) ||
           is_silent(job, host);
  return g->failed ? migrate_fail(job, "out of memory") : true;
}

static void gathered_close(struct gathered *g, size_t count) {
  for (size_t i = 0; g->answers && i < count; i++)
    json_decref(g->answers[i]);
  free(g->answers);
}

static bool compare_server(struct migrate_job *job, const struct migrate_host *a,
                           const struct gathered *first, const struct migrate_host *b,
                           size_t server, const struct ask_question *questions, size_t count) {
  struct gathered other = {0};
  bool ok = gather_all(job, b, server, questions, count, &other);
  for (size_t i = 0; ok && i < count; i++) {
    char type[16];
    if (!other.answers[i] || !first->answers[i])
      ok =
          migrate_fail(job, "%.200s: no answer for %.255s %s", other.answers[i] ? a->name : b->name,
                       questions[i].name, record_type_text(questions[i].type, type));
    else if (!json_equal(other.answers[i], first->answers[i]))
      ok =
          migrate_fail(job,
                       "%.255s %s is answered otherwise by %.200s at %s than by %.200s at %s; look "
                       "at `sluice sync drift`",
                       questions[i].name, record_type_text(questions[i].type, type), b->name,
                       b->servers[server].text, a->name, a->servers[0].text);
  }
  gathered_close(&other, count);
  return ok;
}

bool migrate_compare(struct migrate_job *job, const struct sync_target *target,
                     const struct migrate_host *a, const struct migrate_host *b) {
  struct gathered first = {0};
  size_t count = 0;
  struct ask_question *questions = plain_questions(target, &count);
  bool ok = questions ? true : migrate_fail(job, "out of memory");
  ok = ok && gather_all(job, a, 0, questions, count, &first);
  for (size_t i = 0; ok && i < b->count; i++)
    ok = compare_server(job, a, &first, b, i, questions, count);
  gathered_close(&first, count);
  free(questions);
  return ok;
}

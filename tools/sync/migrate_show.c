/* SPDX-License-Identifier: Apache-2.0 */
/* A migration for people and for programs. */
#include <stdio.h>
#include <string.h>

#include "tools/cli.h"
#include "tools/sync/migrate.h"
#include "tools/sync/nameset.h"
#include "tools/times.h"
#include "tools/wrap.h"

enum { TEXT = 2048, SET = 1024, INDENT = 13 };

static const char *span(int64_t ms, char out[TIMES_TEXT]) {
  return times_span((double)((ms + 999) / 1000), out);
}

/* ---- steps in words ------------------------------------------------------------------------- */

/* Where the provider that is left is down. */
static void describe_hurried(const struct migrate_state *s, enum migrate_phase phase, char *out) {
  char in[SET];
  char gone[SET];
  char time[TIMES_TEXT];
  nameset_text(migrate_in(s), in, sizeof in);
  nameset_text(migrate_out(s), gone, sizeof gone);
  switch (phase) {
  case MIGRATE_VERIFY:
    snprintf(out, TEXT, "%s answers as the configuration", migrate_in_provider(s));
    break;
  case MIGRATE_APEX_IN:
    snprintf(out, TEXT, "%.900s into the NS records of the apex, and %.900s out of them, at once",
             in, gone);
    break;
  case MIGRATE_PARENT_IN:
    snprintf(out, TEXT, "the same in the delegation in the parent zone");
    break;
  case MIGRATE_WAIT_IN:
    snprintf(out, TEXT, "no wait: %s does not answer", migrate_out_provider(s));
    break;
  case MIGRATE_PARENT_OUT:
  case MIGRATE_APEX_OUT:
    snprintf(out, TEXT, "%.900s out of %s, if they are still there", gone,
             phase == MIGRATE_PARENT_OUT ? "the delegation" : "the NS records of the apex");
    break;
  case MIGRATE_WAIT_OUT:
    snprintf(out, TEXT, "%s, while resolvers may still try %s", span(migrate_longest(s), time),
             migrate_out_provider(s));
    break;
  default:
    break;
  }
}

static void describe(const struct migrate_state *s, enum migrate_phase phase, char *out) {
  char set[SET];
  char time[TIMES_TEXT];
  const char *in = migrate_in_provider(s);
  const char *gone = migrate_out_provider(s);
  int64_t pause = phase == MIGRATE_PARENT_IN || phase == MIGRATE_PARENT_OUT
                      ? migrate_pause(s, s->parent_ttl)
                      : migrate_pause(s, s->apex_ttl);
  bool comes = phase == MIGRATE_APEX_IN || phase == MIGRATE_PARENT_IN;
  nameset_text(comes ? migrate_in(s) : migrate_out(s), set, sizeof set);
  out[0] = '\0';
  if (migrate_hurries(s))
    describe_hurried(s, phase, out);
  if (out[0])
    return;
  switch (phase) {
  case MIGRATE_CHECK:
    snprintf(out, TEXT, "can it move, and which name servers are whose");
    break;
  case MIGRATE_FILL:
    snprintf(out, TEXT, "the whole zone to %s", in);
    break;
  case MIGRATE_VERIFY:
    snprintf(out, TEXT, "%s answers as %s and as the configuration", in, gone);
    break;
  case MIGRATE_APEX_IN:
  case MIGRATE_PARENT_IN:
  case MIGRATE_PARENT_OUT:
  case MIGRATE_APEX_OUT:
    snprintf(out, TEXT, "%s %s, one by one%s%s", set,
             phase == MIGRATE_APEX_IN      ? "into the NS records of the apex, at all providers"
             : phase == MIGRATE_PARENT_IN  ? "into the delegation in the parent zone"
             : phase == MIGRATE_PARENT_OUT ? "out of the delegation"
                                           : "out of the NS records of the apex",
             pause > 0 ? ", every " : "", pause > 0 ? span(pause, time) : "");
    break;
  case MIGRATE_WAIT_IN:
    snprintf(out, TEXT, "%s, while resolvers may know the NS records without %s",
             span(migrate_longest(s), time), in);
    break;
  case MIGRATE_WAIT_OUT:
    snprintf(out, TEXT, "%s, while resolvers may know NS records with %s",
             span(migrate_longest(s), time), gone);
    break;
  case MIGRATE_DONE:
    snprintf(out, TEXT, "only %s is asked", in);
    break;
  }
}

static void show_phases(const struct migrate_state *s) {
  char text[TEXT];
  char label[32];
  for (int i = 0; i < MIGRATE_PHASES; i++) {
    enum migrate_phase phase = (enum migrate_phase)i;
    bool over = phase < s->phase || s->phase == MIGRATE_DONE;
    describe(s, phase, text);
    snprintf(label, sizeof label, "%c %-10s",
             over                ? '+'
             : phase == s->phase ? '>'
                                 : ' ',
             migrate_phase_name(phase));
    wrap_print(label, INDENT, "%s", text);
  }
}

static void show_down(const struct migrate_state *s) {
  for (size_t i = 0; i < json_array_size(s->down); i++)
    wrap_print("  down", INDENT, "%s: neither asked nor written",
               json_string_value(json_array_get(s->down, i)));
}

void migrate_show_down(const struct migrate_state *s) {
  for (size_t i = 0; i < json_array_size(s->down) && s->phase != MIGRATE_DONE; i++) {
    const char *name = json_string_value(json_array_get(s->down, i));
    wrap_print("", 0,
               "NOTE: %s is neither asked nor written. If it answers again, its NS records are "
               "older ones: `sluice sync migrate %s --up %s` writes them at once, then goes on "
               "with it%s.",
               name, s->zone, name,
               strcmp(name, migrate_out_provider(s)) == 0 ? "; what was done stays" : "");
  }
}

void migrate_show_failure(const struct migrate_job *job) {
  const struct migrate_state *s = &job->state;
  const char *name = job->silent;
  bool gets = strcmp(name, migrate_in_provider(s)) == 0;
  cli_error("%s", job->why);
  if (!*name || migrate_is_down(s, name) || (gets && s->phase <= MIGRATE_FILL))
    return;
  cli_error("that is %s of %s; if it is down, %s--down %s %s",
            job->silent_api ? "the API" : "a name server", name,
            !gets     ? ""
            : s->back ? "--forward "
                      : "--back ",
            name,
            gets ? "goes back without it" : "goes on without it: it is neither asked nor written");
}

void migrate_show_plan(const struct migrate_job *job) {
  const struct migrate_state *s = &job->state;
  char set[SET];
  wrap_print("", 0, "%s from %s to %s", job->zone, s->from, s->to);
  wrap_print("  now", INDENT, "apex: %s (ttl %u)", nameset_text(s->apex, set, sizeof set),
             s->apex_ttl);
  wrap_print("", INDENT, "delegation in %s: %s (ttl %u)",
             job->parent_zone[0] ? job->parent_zone : "the parent zone",
             nameset_text(s->parent, set, sizeof set), s->parent_ttl);
  wrap_print("  then", INDENT, "%s", nameset_text(s->new, set, sizeof set));
  if (json_array_size(s->new) == 0)
    wrap_print("", INDENT, "(%s tells its name servers once the zone is made)", s->to);
  if (json_array_size(s->others) > 0)
    wrap_print("  beside", INDENT, "%s, which stay", nameset_text(s->others, set, sizeof set));
  show_down(s);
  show_phases(s);
  if (migrate_hurries(s))
    wrap_print("", 0,
               "What %s has beside the configuration is not known, and will not be answered.",
               s->from);
  if (job->parent_kind == MIGRATE_REGISTRY)
    wrap_print("", 0,
               "The delegation is not ours to change: each of its steps says what to set, "
               "and goes on when it is seen.");
  if (!job->listed)
    wrap_print("", 0,
               "NOTE: zone.yaml does not list %s in `providers:`. Add it, commit and deploy: "
               "sluice-syncd then brings weights and health to it as well. Until then this "
               "command does, as long as it runs.",
               s->to);
}

void migrate_show_action(const struct migrate_job *job, const struct migrate_action *action) {
  const struct migrate_state *s = &job->state;
  char text[TEXT];
  char time[TIMES_TEXT];
  char gone[SET];
  bool in = migrate_adds(s);
  bool all = migrate_hurries(s);
  switch (action->act) {
  case MIGRATE_DO_APEX:
  case MIGRATE_DO_PARENT:
    if (all) {
      nameset_text(migrate_in(s), text, SET);
      nameset_text(migrate_out(s), gone, sizeof gone);
      wrap_print(migrate_phase_name(s->phase), INDENT,
                 "%s into the NS records of the %s, %s out of them", text,
                 action->act == MIGRATE_DO_APEX ? "apex" : "delegation", gone);
      break;
    }
    wrap_print(migrate_phase_name(s->phase), INDENT, "%s %s the NS records of the %s", action->name,
               in ? "into" : "out of", action->act == MIGRATE_DO_APEX ? "apex" : "delegation");
    break;
  case MIGRATE_DO_WAIT:
    wrap_print(migrate_phase_name(s->phase), INDENT, "waits until %s",
               times_utc((action->until + 999) / 1000, time));
    break;
  default:
    describe(s, s->phase, text);
    wrap_print(migrate_phase_name(s->phase), INDENT, "%s", text);
    break;
  }
}

/* ---- status --------------------------------------------------------------------------------- */

static void show_next(const struct migrate_state *s, int64_t now) {
  struct migrate_action action;
  char time[TIMES_TEXT];
  char left[TIMES_TEXT];
  migrate_next(s, NULL, now, &action);
  if (action.act == MIGRATE_DO_WAIT)
    wrap_print("next", INDENT, "at %s, in %s", times_utc((action.until + 999) / 1000, time),
               span(action.until - now, left));
  else if (action.act != MIGRATE_DO_NOTHING)
    wrap_print("next", INDENT, "now: `sluice sync migrate %s` goes on, --back goes back to %s",
               s->zone, migrate_out_provider(s));
}

void migrate_show_status(const struct migrate_state *s, int64_t now) {
  char set[SET];
  char time[TIMES_TEXT];
  wrap_print("", 0, "%s from %s to %s, since %s%s", s->zone, s->from, s->to,
             times_utc(s->started / 1000, time), s->back ? "; on the way back" : "");
  wrap_print("  apex", INDENT, "%s (ttl %u)", nameset_text(s->apex, set, sizeof set), s->apex_ttl);
  wrap_print("  delegation", INDENT, "%s (ttl %u)", nameset_text(s->parent, set, sizeof set),
             s->parent_ttl);
  show_down(s);
  show_phases(s);
  show_next(s, now);
  migrate_show_down(s);
}

json_t *migrate_status_json(const struct migrate_state *s, int64_t now) {
  struct migrate_action action;
  migrate_next(s, NULL, now, &action);
  json_t *state = migrate_encode(s);
  return state ? json_pack("{s:i, s:s, s:o, s:b, s:I}", "v", 1, "kind", "migrate", "state", state,
                           "done", (int)(s->phase == MIGRATE_DONE), "next",
                           (json_int_t)(action.act == MIGRATE_DO_WAIT ? action.until : now))
               : NULL;
}

void migrate_show_end(const struct migrate_job *job) {
  const struct migrate_state *s = &job->state;
  char set[SET];
  json_t *names = nameset_union(s->others, migrate_in(s));
  const char *gone = migrate_out_provider(s);
  wrap_print("done", INDENT, "%s is answered by %s alone; nobody asks %s any more.", s->zone,
             migrate_in_provider(s), gone);
  wrap_print("", INDENT, "To be written into its zone.yaml, and deployed:");
  wrap_print("", INDENT, "  ns: [%s]", nameset_text(names, set, sizeof set));
  wrap_print("", INDENT, "  providers: with %s, without %s", migrate_in_provider(s), gone);
  if (job->parent_kind == MIGRATE_OURS)
    wrap_print("", INDENT, "and into `records:` of that of %s the same NS records.",
               job->parent_zone);
  for (size_t i = 0; i < json_array_size(s->down); i++)
    wrap_print("", INDENT,
               "%s was down, and has the zone as it was then, with its NS records; when it is "
               "there again, --up %s brings it level%s.",
               json_string_value(json_array_get(s->down, i)),
               json_string_value(json_array_get(s->down, i)),
               migrate_hurries(s) ? ", --back goes back there" : "");
  if (!s->back && !s->deleted && !migrate_hurries(s))
    wrap_print("", INDENT, "The zone is still at %s, for --back; --delete-old deletes it there.",
               gone);
  json_decref(names);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/endpoints/show.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "steering/layers.h"
#include "tools/cli.h"
#include "tools/times.h"
#include "tools/wrap.h"

/* Columns of the table; what is too wide for its column goes on in the next line. */
enum { NAME_AT = 5, NAME_WIDTH = 28, CELL = 64, ITEM = 2, BELOW = 4 };

static const char red[] = "\033[31m", yellow[] = "\033[33m", bold[] = "\033[1m",
                  plain[] = "\033[0m";

static const char *mark(const struct show *show, const char *code) {
  return show->colour ? code : "";
}

/* Prints a name so that it cannot drive the terminal; returns its length. */
static int put_name(FILE *out, const char *name) {
  cli_print_text(out, name);
  return (int)strlen(name);
}

/* ---- overrides ------------------------------------------------------------------------------ */

const char *show_override_text(const struct store_override *o, char *out) {
  const char *family = o->key.family == 4 ? " for IPv4" : o->key.family == 6 ? " for IPv6" : "";
  if (o->key.kind == STORE_WEIGHT)
    snprintf(out, SHOW_OVERRIDE, "weight %d", o->value);
  else if (o->key.kind == STORE_STATUS)
    snprintf(out, SHOW_OVERRIDE, "%s", o->value == STATE_STATUS_ENABLED ? "enabled" : "disabled");
  else
    snprintf(out, SHOW_OVERRIDE, "health forced %s%s", o->value == 1 ? "up" : "down", family);
  return out;
}

void show_author(struct buf *out, const struct store_override *o, int64_t now) {
  char when[TIMES_TEXT];
  char ago[TIMES_TEXT];
  buf_printf(out, "by %s%s%s%s", o->who ? o->who : "somebody", o->origin ? " (" : "",
             o->origin ? o->origin : "", o->origin ? ")" : "");
  if (o->set_at > 0)
    buf_printf(out, ", since %s (%s ago)", times_utc(o->set_at, when),
               times_span((double)(now - o->set_at), ago));
  if (o->expires_at > 0)
    buf_printf(out, ", until %s", times_utc(o->expires_at, when));
  if (o->cause)
    buf_printf(out, ", %s", o->cause);
  if (o->reason && *o->reason)
    buf_printf(out, ": %s", o->reason);
}

static bool is_picked(const struct show *show, const char *region) {
  for (size_t i = 0; i < show->effect->count; i++) {
    uint32_t r = show->effect->regions[i].region;
    if (strcasecmp(show->state->steer->regions[r].name, region) == 0)
      return true;
  }
  return false;
}

/* Weights of the regions that are shown; status and health always. */
static bool is_shown(const struct show *show, const struct store_override *o) {
  return o->key.kind != STORE_WEIGHT || is_picked(show, o->key.region);
}

/* "global level 1 a: weight 5 (configured 1)" */
static void print_override(FILE *out, const struct show *show, const struct store_override *o) {
  const struct steer_domain *steer = show->state->steer;
  char what[SHOW_OVERRIDE];
  show_override_text(o, what);
  long region = steer_region_find(steer, o->key.region);
  long endpoint = steer_endpoint_find(steer, o->key.endpoint);
  long entry = region < 0 || endpoint < 0
                   ? -1
                   : state_entry(steer, (uint32_t)region, o->key.level, (uint32_t)endpoint);
  if (o->key.kind != STORE_WEIGHT) {
    wrap_to(out, "", ITEM, "%s: %s", o->key.endpoint, what);
  } else if (entry < 0) {
    wrap_to(out, "", ITEM, "%s level %u %s: %s (not in the configuration)", o->key.region,
            o->key.level, o->key.endpoint, what);
  } else {
    size_t at = (size_t)entry - state_level_base(steer, (uint32_t)region, o->key.level);
    wrap_to(out, "", ITEM, "%s level %u %s: %s (configured %u)", o->key.region, o->key.level,
            o->key.endpoint, what,
            steer->regions[region].levels[o->key.level - 1].entries[at].weight);
  }
}

/* The author stands once below all that were set together. */
static void print_overrides(FILE *out, const struct show *show) {
  struct buf before, author;
  buf_init(&before);
  buf_init(&author);
  bool first = true;
  for (size_t i = 0; i < show->state->override_count; i++) {
    const struct store_override *o = &show->state->overrides[i];
    if (!is_shown(show, o))
      continue;
    buf_clear(&author);
    show_author(&author, o, show->now);
    if (first)
      fputs("\noverrides\n", out);
    else if (strcmp(buf_text(&before), buf_text(&author)) != 0)
      wrap_to(out, "", BELOW, "%s", buf_text(&before));
    first = false;
    print_override(out, show, o);
    buf_clear(&before);
    buf_add_str(&before, buf_text(&author));
  }
  if (!first)
    wrap_to(out, "", BELOW, "%s", buf_text(&before));
  buf_close(&before);
  buf_close(&author);
}

/* ---- status of an endpoint ------------------------------------------------------------------- */

static const char *health_word(const struct state_health *health) {
  switch (health->health) {
  case HEALTH_UP:
    return "up";
  case HEALTH_DOWN:
    return "down";
  default:
    return health->checked ? "not probed yet" : "unchecked";
  }
}

static bool has_family(const struct steer_endpoint *endpoint, int family) {
  return endpoint->host || (family == 0 ? endpoint->addr4_count : endpoint->addr6_count) > 0;
}

/* Which families of the endpoint to tell: one where both say the same. */
static void families(const struct state *state, uint16_t endpoint, bool tell[2], bool *differ) {
  const struct steer_endpoint *at = &state->steer->endpoints[endpoint];
  const struct state_health *health = state->health[endpoint];
  tell[0] = has_family(at, 0);
  tell[1] = has_family(at, 1);
  *differ = tell[0] && tell[1] && strcmp(health_word(&health[0]), health_word(&health[1])) != 0;
  if (tell[0] && tell[1] && !*differ)
    tell[1] = false;
}

static void status_text(const struct show *show, uint16_t endpoint, char out[CELL],
                        const char **colour) {
  const struct state *state = show->state;
  const struct state_health *health = state->health[endpoint];
  bool tell[2], differ;
  char since[TIMES_TEXT];
  families(state, endpoint, tell, &differ);
  *colour = "";
  if (status_is_disabled(&state->steer->endpoints[endpoint], &state->status[endpoint])) {
    snprintf(out, CELL, "disabled");
    *colour = yellow;
    return;
  }
  if ((tell[0] && health[0].health == HEALTH_DOWN) || (tell[1] && health[1].health == HEALTH_DOWN))
    *colour = red;
  if (differ && (health[0].health == HEALTH_UNKNOWN || health[1].health == HEALTH_UNKNOWN)) {
    int known = health[0].health != HEALTH_UNKNOWN ? 0 : 1;
    snprintf(out, CELL, "IPv%c %s", known ? '6' : '4', health_word(&health[known]));
    return;
  }
  if (differ) {
    snprintf(out, CELL, "A %s, AAAA %s", health_word(&health[0]), health_word(&health[1]));
    return;
  }
  const struct state_health *one = &health[tell[0] ? 0 : 1];
  bool dated = one->health != HEALTH_UNKNOWN && one->since > 0;
  snprintf(out, CELL, "%s%s%s", health_word(one), dated ? ", " : "",
           dated ? times_span((double)(show->now - one->since), since) : "");
}

static void print_why(FILE *out, const struct show *show, uint16_t endpoint) {
  const struct state *state = show->state;
  const struct steer_endpoint *at = &state->steer->endpoints[endpoint];
  bool tell[2], differ;
  char when[TIMES_TEXT];
  families(state, endpoint, tell, &differ);
  for (int f = 0; f < 2; f++) {
    const struct state_health *health = &state->health[endpoint][f];
    if (!tell[f] || health->health != HEALTH_DOWN)
      continue;
    wrap_to(out, "", ITEM, "%s is down%s%s%s%s%s", at->name,
            !differ ? ""
            : f     ? " for IPv6"
                    : " for IPv4",
            health->since > 0 ? " since " : "",
            health->since > 0 ? times_utc(health->since, when) : "",
            health->forced                ? ": forced by hand"
            : health->why && *health->why ? ": "
                                          : "",
            !health->forced && health->why ? health->why : "");
  }
  if (!at->enabled && !state->status_of[endpoint])
    wrap_to(out, "", ITEM, "%s is disabled by `enabled: false` of the configuration", at->name);
}

/* Why endpoints of the shown regions are not up. */
static void print_reasons(FILE *out, const struct show *show) {
  uint32_t count = show->state->steer->endpoint_count;
  bool *seen = calloc(count, sizeof *seen);
  bool first = true;
  for (size_t r = 0; seen && r < show->effect->count; r++)
    for (size_t i = 0; i < show->effect->regions[r].count; i++)
      seen[show->effect->regions[r].entries[i].endpoint] = true;
  for (uint16_t e = 0; seen && e < count; e++) {
    const struct state_health *health = show->state->health[e];
    bool down = health[0].health == HEALTH_DOWN || health[1].health == HEALTH_DOWN;
    bool off = !show->state->steer->endpoints[e].enabled && !show->state->status_of[e];
    if (!seen[e] || !(down || off))
      continue;
    if (first)
      fputs("\nstatus\n", out);
    first = false;
    print_why(out, show, e);
  }
  free(seen);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* One line: a level (0: none), a name (NULL: none), and cells. */
static void print_line(FILE *out, const struct show *show, unsigned level, const char *name,
                       const char *cells[3], const char *status, const char *colour) {
  char number[16] = "";
  if (level > 0)
    snprintf(number, sizeof number, "%u", level);
  int used = fprintf(out, "%3s  ", number);
  used += put_name(out, name ? name : "");
  if (used > NAME_AT + NAME_WIDTH) {
    fputc('\n', out);
    used = 0;
  }
  char line[4 * CELL];
  int len = snprintf(line, sizeof line, "%*s%6s %11s %11s", NAME_AT + NAME_WIDTH - used, "",
                     cells[0], cells[1], cells[2]);
  while (!*status && len > 0 && line[len - 1] == ' ')
    len--;
  fprintf(out, "%.*s", len, line);
  if (*status)
    fprintf(out, "  %s%s%s", mark(show, colour), status, *colour && show->colour ? plain : "");
  fputc('\n', out);
}

/* "95% AAAA" */
static void share_cell(char out[CELL], double share, const char *type) {
  char text[EFFECT_SHARE];
  snprintf(out, CELL, type ? "%s %-4s" : "%s%s", effect_share_text(share, text), type ? type : "");
}

static void configured_cell(char out[CELL], const struct effect_entry *entry, int type) {
  char text[EFFECT_SHARE];
  double difference = entry->share[type] - entry->configured_share[type];
  *out = 0;
  if (difference > 1e-9 || difference < -1e-9)
    snprintf(out, CELL, "%s", effect_share_text(entry->configured_share[type], text));
}

static void print_entry(FILE *out, const struct show *show, const struct effect_entry *entry,
                        bool first_of_level) {
  const struct steer_domain *steer = show->state->steer;
  char weight[CELL], share[CELL], configured[CELL], status[CELL];
  const char *cells[3] = {weight, share, configured};
  const char *colour;
  bool differ = effect_types_differ(steer, entry);
  bool first = true;
  snprintf(weight, sizeof weight, "%u", entry->weight);
  status_text(show, entry->endpoint, status, &colour);
  for (int t = 0; t < STEER_TYPES; t++) {
    if (!entry->has[t] || (!differ && !first))
      continue;
    share_cell(share, entry->share[t], differ ? effect_type_name((enum steer_type)t) : NULL);
    configured_cell(configured, entry, t);
    if (!first)
      *weight = 0;
    print_line(out, show, first && first_of_level ? entry->level : 0,
               first ? steer->endpoints[entry->endpoint].name : NULL, cells, first ? status : "",
               colour);
    first = false;
  }
  *share = *configured = 0;
  if (first) /* of no offered type, as with `types: [A]` */
    print_line(out, show, first_of_level ? entry->level : 0, steer->endpoints[entry->endpoint].name,
               cells, status, colour);
}

static void print_fallback(FILE *out, const struct show *show, const struct effect_region *region) {
  const struct steer_domain *steer = show->state->steer;
  unsigned offered = 0, fallback = 0;
  const char *name = "";
  for (int t = 0; t < STEER_TYPES; t++) {
    offered += steer->offers[t];
    fallback += region->fallback[t];
    if (region->fallback[t])
      name = effect_type_name((enum steer_type)t);
  }
  if (fallback == 0)
    return;
  wrap_to(out, "", NAME_AT,
          "FALLBACK%s%s: nothing is up; answers are as if all checks said healthy",
          fallback < offered ? " for " : "", fallback < offered ? name : "");
}

static void print_region(FILE *out, const struct show *show, const struct effect_region *region) {
  const struct steer_region *at = &show->state->steer->regions[region->region];
  static const char *heads[3] = {"weight", "share now", "configured"};
  fprintf(out, "\n%s", mark(show, bold));
  int used = put_name(out, at->name);
  fputs(mark(show, plain), out);
  if (used > NAME_AT + NAME_WIDTH) {
    fputc('\n', out);
    used = 0;
  }
  fprintf(out, "%*s%6s %11s %11s  status\n", NAME_AT + NAME_WIDTH - used, "", heads[0], heads[1],
          heads[2]);
  print_fallback(out, show, region);
  unsigned level = 0;
  for (size_t i = 0; i < region->count; i++) {
    print_entry(out, show, &region->entries[i], region->entries[i].level != level);
    level = region->entries[i].level;
  }
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* A domain's name; one that is longer than a line is broken between labels. */
static void print_name(FILE *out, const char *name) {
  size_t used = 0;
  while (*name) {
    size_t label = strcspn(name, ".");
    label += name[label] == '.';
    if (used > 0 && used + label > WRAP_COLUMNS) {
      fprintf(out, "\n%*s", ITEM, "");
      used = ITEM;
    }
    used += label;
    for (; label > 0; label--, name++)
      fputc((unsigned char)*name < 0x20 || *name == 0x7f ? '?' : *name, out);
  }
}

static void print_head(FILE *out, const struct show *show) {
  const struct steer_domain *steer = show->state->steer;
  struct buf types;
  char ttl[TIMES_TEXT];
  buf_init(&types);
  for (int t = 0; t < STEER_TYPES; t++)
    if (steer->offers[t])
      buf_printf(&types, "%s%s", types.len ? ", " : "", effect_type_name((enum steer_type)t));
  fputs(mark(show, bold), out);
  print_name(out, show->state->name);
  fprintf(out, "%s\n", mark(show, plain));
  wrap_to(out, "", ITEM, "%s; TTL %s%s%s%s", buf_text(&types), times_span(steer->ttl, ttl),
          steer->answers > 1 ? "; several endpoints in an answer" : "",
          show->owner ? "; owner " : "", show->owner ? show->owner : "");
  buf_close(&types);
}

static void print_feed(FILE *out, const struct show *show) {
  const struct state *state = show->state;
  char age[TIMES_TEXT];
  if (show->offline) {
    wrap_to(out, "", ITEM,
            "NO SERVER runs here: these are the shares that it will start with, by the build and "
            "the saved overrides; health is not known");
    return;
  }
  if (!state->feed_configured || (state->feed_connected && !state->feed_stale))
    return;
  if (state->feed_age < 0) {
    wrap_to(
        out, "", ITEM,
        "%sHEALTH IS OLD%s: no checker was heard since the start; the last known status is used",
        mark(show, yellow), mark(show, plain));
    return;
  }
  wrap_to(out, "", ITEM, "%sHEALTH IS %s%s: the checker is lost, last heard %s ago; %s",
          mark(show, yellow), state->feed_stale ? "STALE" : "OLD", mark(show, plain),
          times_span(state->feed_age, age),
          state->feed_stale ? "all count as healthy now" : "the last known status is used");
}

static void print_note(FILE *out, const struct show *show) {
  char ttl[TIMES_TEXT];
  fputc('\n', out);
  wrap_to(out, "", 0,
          "Shares are of cache fills, not of users; caches may keep an older answer for the TTL "
          "(%s).",
          times_span(show->state->steer->ttl, ttl));
}

void show_text(FILE *out, const struct show *show) {
  print_head(out, show);
  print_feed(out, show);
  for (size_t i = 0; i < show->effect->count; i++)
    print_region(out, show, &show->effect->regions[i]);
  print_reasons(out, show);
  print_overrides(out, show);
  print_note(out, show);
}

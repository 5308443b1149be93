/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The health feed as the server reads it, line by line.  Whatever comes, what is told of it stays
 * inside of the view.
 */
#include <stdlib.h>
#include <string.h>

#include "base/lines.h"
#include "base/name.h"
#include "server/health_lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { DOMAINS = 2, MANY = 40 };

static struct steer_endpoint endpoints[DOMAINS][MANY];
static char names[MANY][4];
static struct steer_domain steers[DOMAINS];
static struct view_domain domains[DOMAINS];
static struct served_domain states[DOMAINS];
static struct served served = {.domains = domains, .states = states, .domain_count = DOMAINS};

static void require(bool condition) {
  if (!condition)
    abort();
}

/* The two functions of the server that the map asks. */
long load_find_domain(const struct served *in, const uint8_t *owner) {
  require(in == &served && name_wire_len(owner, NAME_MAX_WIRE) > 0);
  for (long i = 0; i < DOMAINS; i++)
    if (name_equal(owner, steers[i].owner))
      return i;
  return -1;
}

struct fact_health facts_health(const struct served *in, uint32_t domain, uint16_t endpoint,
                                int family) {
  require(in == &served && domain < DOMAINS && endpoint < steers[domain].endpoint_count);
  return (struct fact_health){.measured = (uint8_t)(family == 4 ? HEALTH_DOWN : HEALTH_UP)};
}

static void make_view(void) {
  static uint8_t a[NAME_BUF] = "\1a\7example", b[NAME_BUF] = "\1b\7example";
  if (steers[0].owner != NULL)
    return;
  for (unsigned i = 0; i < MANY; i++) {
    names[i][0] = 'e';
    names[i][1] = (char)('0' + i / 10);
    names[i][2] = (char)('0' + i % 10);
  }
  for (unsigned d = 0; d < DOMAINS; d++) {
    for (unsigned i = 0; i < MANY; i++)
      endpoints[d][i] = (struct steer_endpoint){.name = names[i]};
    steers[d] = (struct steer_domain){
        .owner = d == 0 ? a : b, .endpoint_count = d == 0 ? 2 : MANY, .endpoints = endpoints[d]};
    domains[d].steer = &steers[d];
  }
  states[0].facts = calloc(2, sizeof(struct fact *)); /* something is known of the first */
}

static void check(const struct health_changes *changes) {
  for (size_t i = 0; i < changes->count; i++) {
    const struct fact_change *c = &changes->items[i];
    require(c->domain < DOMAINS && c->endpoint < steers[c->domain].endpoint_count);
    require(c->field == FACT_HEALTH4 || c->field == FACT_HEALTH6);
    require(c->value >= HEALTH_UNKNOWN && c->value <= HEALTH_DOWN);
  }
}

/* False if the connection would end. */
static bool take(struct health_lines *lines, const char *line, size_t len) {
  struct health_changes changes = {.items = NULL};
  struct health_line_change change;
  char why[HEALTH_LINES_WHY] = "";
  enum health_line result = health_lines_read(lines, line, len, &change, why);
  require((result == HEALTH_LINE_BAD) == (why[0] != '\0'));
  struct health_map *map = health_lines_map(lines);
  if (result == HEALTH_LINE_SNAPSHOT)
    require(health_map_resolve(map, &served) && health_map_apply_all(map, &served, &changes));
  if (result == HEALTH_LINE_CHANGE)
    require(health_map_apply(map, change.subject, change.families, &changes));
  check(&changes);
  health_changes_close(&changes);
  for (uint32_t d = 0; map != NULL && d < DOMAINS; d++)
    for (uint16_t e = 0; e < MANY; e++)
      health_map_verdicts(map, d, e);
  return result != HEALTH_LINE_BAD;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct health_lines *lines = health_lines_new();
  struct lines input;
  make_view();
  require(lines != NULL);
  lines_init(&input, 2000);
  size_t room;
  char *to = lines_room(&input, size + 1, &room);
  require(to != NULL);
  if (size > 0)
    memcpy(to, data, size);
  lines_added(&input, size);
  char *line;
  size_t len;
  while (lines_next(&input, &line, &len) == LINES_LINE)
    if (!take(lines, line, len))
      health_lines_restart(lines); /* the next connection */
  lines_close(&input);
  health_lines_free(lines);
  return 0;
}

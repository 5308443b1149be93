/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/zone_check.h"

#include "base/name.h"
#include "base/search.h"
#include "zones/record.h"

static bool is_apex(const struct model_zone *zone, const uint8_t *name) {
  return name_equal(zone->apex, name);
}

static int compare_to_owner(const void *owner, const void *rr) {
  return name_compare(owner, ((const struct model_rr *)rr)->owner);
}

/* Index of the first record whose owner is not before `owner`. */
static size_t lower_bound(const struct model_zone *zone, const uint8_t *owner) {
  return search_first(owner, zone->rrs, zone->rr_count, sizeof *zone->rrs, compare_to_owner);
}

const struct model_rr *zone_check_find(const struct model_zone *zone, const uint8_t *owner,
                                       uint16_t type) {
  for (size_t i = lower_bound(zone, owner); i < zone->rr_count; i++) {
    if (!name_equal(zone->rrs[i].owner, owner))
      return NULL;
    if (type == 0 || zone->rrs[i].type == type)
      return &zone->rrs[i];
  }
  return NULL;
}

bool zone_check_exists(const struct model_zone *zone, const uint8_t *name) {
  size_t i = lower_bound(zone, name); /* names below it follow it in canonical order */
  return i < zone->rr_count && name_is_below_or_equal(zone->rrs[i].owner, name);
}

const struct model_rr *zone_check_occluder(const struct model_zone *zone, const uint8_t *name) {
  for (const uint8_t *p = name; !is_apex(zone, p); p += *p + 1) {
    const struct model_rr *cut = zone_check_find(zone, p, RECORD_NS);
    const struct model_rr *dname = p == name ? NULL : zone_check_find(zone, p, RECORD_DNAME);
    if (cut != NULL || dname != NULL)
      return cut != NULL ? cut : dname;
    if (*p == 0)
      return NULL;
  }
  return name_equal(zone->apex, name) ? NULL : zone_check_find(zone, zone->apex, RECORD_DNAME);
}

/* ---- one name ---------------------------------------------------------------------------------
 */

/* Records of one owner: zone->rrs[start] up to [end]. */
struct owner_run {
  size_t start;
  size_t end;
  const struct model_rr *cname;
  const struct model_rr *dname;
  const struct model_rr *ns;
  const struct model_rr *other; /* neither CNAME nor what may stand beside one */
};

/* What may stand beside a CNAME: RFC 2181 section 10.1, RFC 4034 section 3 and 4. */
static bool may_join_cname(uint16_t type) {
  return type == RECORD_RRSIG || type == RECORD_NSEC || type == RECORD_KEY;
}

static struct owner_run next_run(const struct model_zone *zone, size_t start) {
  struct owner_run run = {.start = start};
  const uint8_t *owner = zone->rrs[start].owner;
  size_t i = start;
  for (; i < zone->rr_count; i++) {
    const struct model_rr *rr = &zone->rrs[i];
    if (rr->owner != owner && !name_equal(rr->owner, owner))
      break;
    if (rr->type == RECORD_CNAME)
      run.cname = run.cname != NULL ? run.cname : rr;
    else if (!may_join_cname(rr->type) && run.other == NULL)
      run.other = rr;
    if (rr->type == RECORD_DNAME && run.dname == NULL)
      run.dname = rr;
    if (rr->type == RECORD_NS && run.ns == NULL)
      run.ns = rr;
  }
  run.end = i;
  return run;
}

static bool is_later(const struct model_rr *a, const struct model_rr *b) {
  int d = strcmp(a->pos.path, b->pos.path);
  if (d != 0)
    return d > 0;
  return a->pos.line > b->pos.line || (a->pos.line == b->pos.line && a->pos.column > b->pos.column);
}

static void check_single(const struct zone_check *check, const struct owner_run *run, uint16_t type,
                         const char *type_text) {
  const struct model_rr *first = NULL;
  char name[NAME_MAX_TEXT];
  for (size_t i = run->start; i < run->end; i++) {
    const struct model_rr *rr = &check->zone->rrs[i];
    if (rr->type != type)
      continue;
    if (first == NULL) {
      first = rr;
      continue;
    }
    const struct model_rr *later = is_later(rr, first) ? rr : first;
    diag_error(check->problems, later->pos,
               "`%s` has several %s records; a name may have one, remove the others",
               name_to_text(name, rr->owner), type_text);
    return;
  }
}

static void check_aliases(const struct zone_check *check, const struct owner_run *run) {
  char name[NAME_MAX_TEXT];
  char type[16];
  char where[DIAG_WHERE];
  if (run->cname != NULL) {
    check_single(check, run, RECORD_CNAME, "CNAME");
    if (run->other != NULL) /* RFC 1034 section 3.6.2 */
      diag_error(check->problems, run->cname->pos,
                 "CNAME of `%s` stands beside other data (%s, %s); a CNAME must be the only "
                 "record of its name",
                 name_to_text(name, run->cname->owner), record_type_text(run->other->type, type),
                 diag_where(run->other->pos, run->cname->pos.path, where));
  }
  if (run->dname == NULL)
    return;
  check_single(check, run, RECORD_DNAME, "DNAME");
  if (is_apex(check->zone, run->dname->owner))
    return;
  for (size_t i = run->start; i < run->end; i++) {
    const struct model_rr *rr = &check->zone->rrs[i];
    if (rr->type == RECORD_DNAME || may_join_cname(rr->type) || rr->type == RECORD_CNAME)
      continue;
    if (check->yaml_path == NULL && rr->type != RECORD_NS)
      continue; /* RFC 6672 section 2.4 allows it, and plain zones are taken as they are */
    if (check->yaml_path == NULL)
      diag_warning(check->problems, run->dname->pos,
                   "DNAME of `%s` stands beside NS; a name should have one of them (RFC 6672)",
                   name_to_text(name, rr->owner));
    else
      diag_error(check->problems, run->dname->pos,
                 "DNAME of `%s` stands beside other data (%s, %s); a DNAME must be the only "
                 "record of its name",
                 name_to_text(name, rr->owner), record_type_text(rr->type, type),
                 diag_where(rr->pos, run->dname->pos.path, where));
    return;
  }
}

/* ---- below cuts and DNAMEs --------------------------------------------------------------------
 */

struct occluders {
  const struct model_rr *cut; /* the highest one on the way down */
  const struct model_rr *dname;
};

static void check_occluded(const struct zone_check *check, const struct owner_run *run,
                           const struct occluders *above) {
  char name[NAME_MAX_TEXT];
  char top[NAME_MAX_TEXT];
  char type[16];
  char where[DIAG_WHERE];
  const struct model_rr *first = &check->zone->rrs[run->start];
  if (above->dname != NULL) { /* RFC 6672 section 2.4 */
    diag_error(check->problems, first->pos,
               "`%s` is below the DNAME of `%s` (%s), which hides it; remove one of them",
               name_to_text(name, first->owner), name_to_text(top, above->dname->owner),
               diag_where(above->dname->pos, first->pos.path, where));
    return;
  }
  for (size_t i = run->start; i < run->end; i++) {
    const struct model_rr *rr = &check->zone->rrs[i];
    bool at_cut = above->cut->owner == rr->owner || name_equal(above->cut->owner, rr->owner);
    bool fine =
        rr->type == RECORD_A || rr->type == RECORD_AAAA ||
        (at_cut && (rr->type == RECORD_NS || rr->type == RECORD_DS || may_join_cname(rr->type)));
    if (fine || (at_cut && (rr->type == RECORD_CNAME || rr->type == RECORD_DNAME)))
      continue; /* an alias beside NS has its own message */
    bool strict = check->yaml_path != NULL && strcmp(rr->pos.path, check->yaml_path) == 0;
    name_to_text(name, rr->owner);
    name_to_text(top, above->cut->owner);
    record_type_text(rr->type, type);
    if (strict)
      diag_error(check->problems, rr->pos,
                 "%s of `%s` is %s the zone cut at `%s` (NS in %s); only the delegated zone "
                 "can hold it, here only A and AAAA as glue",
                 type, name, at_cut ? "at" : "below", top,
                 diag_where(above->cut->pos, rr->pos.path, where));
    else
      diag_warning(check->problems, rr->pos,
                   "%s of `%s` is %s the zone cut at `%s`, which hides it", type, name,
                   at_cut ? "at" : "below", top);
  }
}

void zone_check_child(const struct zone_check *check, const struct model_zone *child) {
  const struct model_zone *zone = check->zone;
  char name[NAME_MAX_TEXT];
  char top[NAME_MAX_TEXT];
  char type[16];
  for (size_t i = lower_bound(zone, child->apex); i < zone->rr_count; i++) {
    const struct model_rr *rr = &zone->rrs[i];
    if (!name_is_below_or_equal(rr->owner, child->apex))
      return;
    bool at_cut = name_equal(rr->owner, child->apex);
    if (rr->type == RECORD_A || rr->type == RECORD_AAAA ||
        (at_cut && (rr->type == RECORD_NS || rr->type == RECORD_DS || may_join_cname(rr->type))))
      continue;
    /* Below a delegation written here it has been reported already. */
    if (zone_check_find(zone, child->apex, RECORD_NS) != NULL)
      return;
    bool strict = check->yaml_path != NULL && strcmp(rr->pos.path, check->yaml_path) == 0;
    void (*report)(struct diag_list *, struct diag_pos, const char *, ...) =
        strict ? diag_error : diag_warning;
    report(check->problems, rr->pos,
           "%s of `%s` belongs to the zone `%s` (%s), which answers for it; move it there",
           record_type_text(rr->type, type), name_to_text(name, rr->owner),
           name_to_text(top, child->apex), child->path);
  }
}

static void update_occluders(const struct zone_check *check, const struct owner_run *run,
                             struct occluders *above) {
  const uint8_t *owner = check->zone->rrs[run->start].owner;
  if (above->cut != NULL && !name_is_below_or_equal(owner, above->cut->owner))
    above->cut = NULL;
  if (above->dname != NULL && !name_is_below_or_equal(owner, above->dname->owner))
    above->dname = NULL;
}

/* ---- the zone ---------------------------------------------------------------------------------
 */

static void check_apex(const struct zone_check *check) {
  const struct model_zone *zone = check->zone;
  char name[NAME_MAX_TEXT];
  struct diag_pos pos = {zone->path, 0, 0};
  name_to_text(name, zone->apex);
  if (!check->soa_reported && zone_check_find(zone, zone->apex, RECORD_SOA) == NULL)
    diag_error(check->problems, pos,
               check->yaml_path != NULL
                   ? "the zone `%s` has no SOA; add `soa:` here or a SOA record to its `zonefile`"
                   : "the zone `%s` has no SOA record at its apex; add one",
               name);
  if (!check->ns_reported && zone_check_find(zone, zone->apex, RECORD_NS) == NULL)
    diag_error(check->problems, pos,
               check->yaml_path != NULL
                   ? "the zone `%s` has no NS; add `ns:` with its name servers"
                   : "the zone `%s` has no NS records at its apex; add its name servers",
               name);
}

static void check_soa(const struct zone_check *check, const struct owner_run *run) {
  char name[NAME_MAX_TEXT];
  for (size_t i = run->start; i < run->end; i++) {
    const struct model_rr *rr = &check->zone->rrs[i];
    if (rr->type != RECORD_SOA)
      continue;
    if (!is_apex(check->zone, rr->owner)) {
      diag_error(check->problems, rr->pos,
                 "SOA of `%s` is not at the apex of the zone; a zone has one SOA, at its apex",
                 name_to_text(name, rr->owner));
      return;
    }
  }
  check_single(check, run, RECORD_SOA, "SOA");
}

void zone_check_run(const struct zone_check *check) {
  const struct model_zone *zone = check->zone;
  struct occluders above = {NULL, NULL};
  check_apex(check);
  for (size_t i = 0; i < zone->rr_count;) {
    struct owner_run run = next_run(zone, i);
    const uint8_t *owner = zone->rrs[i].owner;
    update_occluders(check, &run, &above);
    if (above.cut == NULL && run.ns != NULL && !is_apex(zone, owner))
      above.cut = run.ns;
    check_aliases(check, &run);
    check_soa(check, &run);
    if (above.cut != NULL || above.dname != NULL)
      check_occluded(check, &run, &above);
    if (above.dname == NULL && run.dname != NULL)
      above.dname = run.dname;
    i = run.end;
  }
}

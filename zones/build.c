/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/name.h"
#include "zones/build_lists.h"
#include "zones/build_products.h"
#include "zones/image.h"
#include "zones/records.h"

enum {
  MANIFEST_FORMAT = 1,
  MANIFEST_LIMIT = 256 << 20, /* bytes */
  WHY = 512,
};

/* Products of another builder are made anew even when their inputs are the same. */
static const char builder[] = "sluice " SLUICE_VERSION " image 1 records 1";
_Static_assert(IMAGE_VERSION == 1 && RECORDS_VERSION == 1,
               "the builder's name holds the versions of the formats");

/* What one run works on. */
struct run {
  const struct model *model;
  const struct build_options *options;
  struct builddir dir;
  json_t *zones;    /* entries of the new manifest, in order */
  json_t *previous; /* zone name -> entry of the live build's manifest */
  json_t *retired;  /* zone name -> {"serial","input"} of zones that are gone */
  struct buf old_manifest;
  bool same_builder; /* the live build was made by this builder */
  size_t rebuilt;
  char *why;
};

static bool out_of_memory(struct run *run) {
  snprintf(run->why, WHY, "out of memory");
  return false;
}

/* ---- the live build's manifest -------------------------------------------------------------- */

static bool is_hex(const json_t *value, size_t digits) {
  const char *text = json_string_value(value);
  return text && strlen(text) == digits && strspn(text, "0123456789abcdef") == digits;
}

static bool is_serial(const json_t *value) {
  return json_is_integer(value) && json_integer_value(value) >= 0 &&
         json_integer_value(value) <= UINT32_MAX;
}

static bool zone_entry_is_valid(const json_t *entry) {
  return json_is_string(json_object_get(entry, "name")) &&
         is_serial(json_object_get(entry, "serial")) &&
         is_hex(json_object_get(entry, "input"), BUILDDIR_SHA) &&
         is_hex(json_object_get(entry, "image_sha256"), BUILDDIR_SHA) &&
         is_hex(json_object_get(entry, "zonefile_sha256"), BUILDDIR_SHA) &&
         (!json_object_get(entry, "records_sha256") || /* of an earlier version */
          is_hex(json_object_get(entry, "records_sha256"), BUILDDIR_SHA));
}

static bool take_retired(struct run *run, json_t *retired) {
  const char *name;
  json_t *entry;
  if (retired && !json_is_object(retired))
    return false;
  json_object_foreach(retired, name, entry) {
    if (!is_serial(json_object_get(entry, "serial")) ||
        !is_hex(json_object_get(entry, "input"), BUILDDIR_SHA))
      return false;
    if (json_object_set(run->retired, name, entry) != 0)
      return false;
  }
  return true;
}

static bool take_manifest(struct run *run, const json_t *manifest) {
  const json_t *zones = json_object_get(manifest, "zones");
  if (json_integer_value(json_object_get(manifest, "format")) != MANIFEST_FORMAT ||
      !json_is_array(zones))
    return false;
  size_t i;
  json_t *entry;
  json_array_foreach(zones, i, entry) {
    const char *name = json_string_value(json_object_get(entry, "name"));
    if (!zone_entry_is_valid(entry) || json_object_set(run->previous, name, entry) != 0)
      return false;
  }
  const char *made_by = json_string_value(json_object_get(manifest, "builder"));
  run->same_builder = made_by && !strcmp(made_by, builder);
  return take_retired(run, json_object_get(manifest, "retired"));
}

/*
 * Serials must not go backwards, so a build that cannot read what it replaces does not guess: it
 * stops and leaves the decision to people.
 */
static bool read_previous(struct run *run) {
  run->previous = json_object();
  run->retired = json_object();
  if (!run->previous || !run->retired)
    return out_of_memory(run);
  if (!run->dir.current[0])
    return true;
  char *path = fs_join(run->dir.data, "current/manifest.json");
  uint8_t *text = NULL;
  size_t len = 0;
  if (!path)
    return out_of_memory(run);
  char reason[FS_WHY];
  bool ok = fs_read(path, MANIFEST_LIMIT, &text, &len, reason);
  json_t *manifest = NULL;
  if (ok) {
    manifest = json_loadb((const char *)text, len, JSON_REJECT_DUPLICATES, NULL);
    buf_add(&run->old_manifest, text, len);
    ok = manifest && take_manifest(run, manifest);
    snprintf(reason, sizeof reason, "%.300s is damaged", path);
  }
  if (!ok)
    snprintf(run->why, WHY, "%.300s; remove %.120s to build anew (serials then start again at 1)",
             reason, run->dir.data);
  json_decref(manifest);
  free(text);
  free(path);
  return ok;
}

/* ---- serials -------------------------------------------------------------------------------- */

/* The serial in the SOA of a zone that carries its own (RFC 1035 section 3.3.13). */
static uint32_t carried_serial(const struct model_zone *zone) {
  for (size_t i = 0; i < zone->rr_count; i++) {
    const struct model_rr *rr = &zone->rrs[i];
    if (rr->type != 6)
      continue;
    size_t at = name_wire_len(rr->rdata, rr->rdata_len);
    at += name_wire_len(rr->rdata + at, rr->rdata_len - at);
    if (at + 4 > rr->rdata_len)
      return 0;
    const uint8_t *p = rr->rdata + at;
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
  }
  return 0;
}

static bool same_input(const json_t *entry, const char *input) {
  const char *before = json_string_value(json_object_get(entry, "input"));
  return before && !strcmp(before, input);
}

/* One more, as RFC 1982 counts; 0 is left out, since some secondaries take it for "none yet". */
static uint32_t next_serial(const json_t *entry) {
  uint32_t serial = (uint32_t)json_integer_value(json_object_get(entry, "serial"));
  return serial == UINT32_MAX ? 1 : serial + 1;
}

static uint32_t serial_of(const struct run *run, const struct model_zone *zone, const char *name,
                          const char *input) {
  if (zone->serial_mode == SERIAL_CARRIED)
    return carried_serial(zone);
  const json_t *before = json_object_get(run->previous, name);
  if (!before)
    before = json_object_get(run->retired, name);
  if (!before)
    return 1;
  if (same_input(before, input))
    return (uint32_t)json_integer_value(json_object_get(before, "serial"));
  return next_serial(before);
}

/* Remembers the serials of zones that this build no longer has, should they come back. */
static bool retire(struct run *run) {
  const char *name;
  json_t *entry;
  json_object_foreach(run->previous, name, entry) {
    json_t *note = json_pack("{s:O, s:O}", "serial", json_object_get(entry, "serial"), "input",
                             json_object_get(entry, "input"));
    if (json_object_set_new(run->retired, name, note) != 0)
      return out_of_memory(run);
  }
  size_t i;
  json_array_foreach(run->zones, i, entry)
      json_object_del(run->retired, json_string_value(json_object_get(entry, "name")));
  return true;
}

/* ---- zones ---------------------------------------------------------------------------------- */

/* Owner names that hold records, the steered ones included; the records are sorted by owner. */
static size_t count_names(const struct model_zone *zone) {
  size_t names = 0;
  for (size_t i = 0; i < zone->rr_count; i++)
    names += i == 0 || !name_equal(zone->rrs[i].owner, zone->rrs[i - 1].owner);
  for (size_t d = 0; d < zone->domain_count; d++) {
    const uint8_t *owner = zone->domains[d].steer->owner;
    size_t low = 0;
    size_t high = zone->rr_count;
    while (low < high) {
      size_t middle = low + (high - low) / 2;
      if (name_compare(zone->rrs[middle].owner, owner) < 0)
        low = middle + 1;
      else
        high = middle;
    }
    names += low == zone->rr_count || !name_equal(zone->rrs[low].owner, owner);
  }
  return names;
}

/* The products of a zone, next to each other in the list of all. */
enum { IMAGE, TEXT, RECORDS, PRODUCTS };

static bool plan_product(struct build_product *product, const struct model_zone *zone,
                         uint32_t serial, build_compile_fn *compile, const char *suffix,
                         const json_t *sha) {
  *product = (struct build_product){.zone = zone, .compile = compile, .serial = serial};
  if (sha)
    memcpy(product->sha, json_string_value(sha), sizeof product->sha);
  return builddir_zone_file(zone->apex, suffix, product->file);
}

static bool plan_zone(struct run *run, const struct model_zone *zone,
                      struct build_product *products) {
  char name[NAME_MAX_TEXT];
  char input[BUILDDIR_SHA + 1];
  name_to_text(name, zone->apex);
  builddir_hex(zone->input_hash, sizeof zone->input_hash, input);
  uint32_t serial = serial_of(run, zone, name, input);
  const json_t *before = json_object_get(run->previous, name);
  bool same = run->same_builder && before && same_input(before, input) &&
              json_integer_value(json_object_get(before, "serial")) == serial;
  return plan_product(&products[IMAGE], zone, serial, compile_image, "image",
                      same ? json_object_get(before, "image_sha256") : NULL) &&
         plan_product(&products[TEXT], zone, serial, compile_master_file, "zone",
                      same ? json_object_get(before, "zonefile_sha256") : NULL) &&
         plan_product(&products[RECORDS], zone, serial, records_compile, "records",
                      same ? json_object_get(before, "records_sha256") : NULL);
}

static json_t *zone_entry(const struct build_product *products) {
  const struct build_product *image = &products[IMAGE];
  const struct build_product *text = &products[TEXT];
  const struct build_product *records = &products[RECORDS];
  const struct model_zone *zone = image->zone;
  char name[NAME_MAX_TEXT];
  char input[BUILDDIR_SHA + 1];
  name_to_text(name, zone->apex);
  builddir_hex(zone->input_hash, sizeof zone->input_hash, input);
  return json_pack("{s:s, s:I, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:O*, s:I, s:I}", "name", name,
                   "serial", (json_int_t)image->serial, "input", input, "image", image->file,
                   "image_sha256", image->sha, "zonefile", text->file, "zonefile_sha256", text->sha,
                   "records", records->file, "records_sha256", records->sha, "transfer",
                   zone->transfer, "names", (json_int_t)count_names(zone), "domains",
                   (json_int_t)zone->domain_count);
}

static bool build_zones(struct run *run) {
  size_t count = run->model->zone_count;
  struct build_product *products = calloc(count + 1, PRODUCTS * sizeof *products);
  bool ok = products || out_of_memory(run);
  for (size_t i = 0; ok && i < count; i++)
    ok = plan_zone(run, &run->model->zones[i], &products[i * PRODUCTS]) || out_of_memory(run);
  if (ok)
    ok = build_make_products(&run->dir, products, count * PRODUCTS, run->why);
  for (size_t i = 0; ok && i < count; i++) {
    const struct build_product *own = &products[i * PRODUCTS];
    run->rebuilt += own[IMAGE].made || own[TEXT].made || own[RECORDS].made;
    ok = json_array_append_new(run->zones, zone_entry(own)) == 0 || out_of_memory(run);
  }
  free(products);
  return ok;
}

/* ---- the whole ------------------------------------------------------------------------------ */

typedef bool list_fn(const struct model *model, struct buf *out);

static bool put_list(struct run *run, const char *file, list_fn *list, char sha[BUILDDIR_SHA + 1]) {
  struct buf out;
  buf_init(&out);
  bool ok = (list(run->model, &out) && builddir_sha(out.data, out.len, sha)) || out_of_memory(run);
  if (ok)
    ok = builddir_put(&run->dir, file, out.data, out.len, run->why);
  buf_close(&out);
  return ok;
}

/* The manifest names the hash of every other file, so its own hash stands for the whole build. */
static bool make_manifest(struct run *run, struct buf *out) {
  char checks[BUILDDIR_SHA + 1];
  char domains[BUILDDIR_SHA + 1];
  if (!put_list(run, "checks.json", build_checks_json, checks) ||
      !put_list(run, "domains.json", build_domains_json, domains) || !retire(run))
    return false;
  const struct build_options *options = run->options;
  json_t *manifest = json_pack("{s:i, s:s, s:s?, s:I, s:s?, s:s, s:s, s:O, s:O}", "format",
                               MANIFEST_FORMAT, "builder", builder, "commit", options->commit,
                               "commit_time", (json_int_t)options->commit_time, "default_zone",
                               run->model->default_zone, "checks_sha256", checks, "domains_sha256",
                               domains, "zones", run->zones, "retired", run->retired);
  return build_dump(manifest, out) || out_of_memory(run);
}

static bool finish(struct run *run, struct build_result *result) {
  struct buf manifest;
  char sha[BUILDDIR_SHA + 1];
  buf_init(&manifest);
  bool ok = make_manifest(run, &manifest);
  if (ok && !builddir_sha(manifest.data, manifest.len, sha))
    ok = out_of_memory(run);
  if (ok) {
    sha[BUILDDIR_ID] = 0;
    result->unchanged = !strcmp(sha, run->dir.current) && run->dir.written == 0 &&
                        manifest.len == run->old_manifest.len &&
                        !memcmp(manifest.data, run->old_manifest.data, manifest.len);
  }
  if (ok && !result->unchanged)
    ok = builddir_write(&run->dir, "manifest.json", manifest.data, manifest.len, run->why) &&
         builddir_switch(&run->dir, sha, run->why);
  buf_close(&manifest);
  return ok;
}

bool build_run(const struct model *model, const struct build_options *options,
               struct build_result *result, char *why) {
  struct run run = {.model = model, .options = options, .why = why};
  *result = (struct build_result){0};
  if (!builddir_open(&run.dir, options->data_dir, why))
    return false;
  buf_init(&run.old_manifest);
  run.zones = json_array();
  bool ok = run.zones ? read_previous(&run) : out_of_memory(&run);
  if (ok)
    ok = build_zones(&run);
  if (ok)
    ok = finish(&run, result);
  result->zones = model->zone_count;
  result->rebuilt = run.rebuilt;
  json_decref(run.zones);
  json_decref(run.previous);
  json_decref(run.retired);
  buf_close(&run.old_manifest);
  builddir_close(&run.dir);
  return ok;
}

void build_check(const struct model *model, struct diag_list *problems) {
  for (size_t i = 0; i < model->zone_count; i++) {
    const struct model_zone *zone = &model->zones[i];
    char why[WHY] = "";
    struct buf out;
    buf_init(&out);
    bool ok = compile_image(zone, 1, &out, why);
    buf_clear(&out);
    if (!ok || !records_compile(zone, 1, &out, why))
      diag_error(problems, (struct diag_pos){.path = zone->path}, "%s", why);
    buf_close(&out);
  }
}

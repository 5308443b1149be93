/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/name.h"
#include "zones/build_lists.h"
#include "zones/build_products.h"
#include "zones/image.h"
#include "zones/records.h"
#include "zones/serial.h"
#include "zones/zone_check.h"

enum {
  MANIFEST_FORMAT = 1,
  MANIFEST_LIMIT = 256 << 20, /* bytes */
  LIST_LIMIT = 2000 << 20,
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
  json_t *old_root;  /* the same as a document, or NULL */
  bool same_builder; /* the live build was made by this builder */
  bool stale;        /* kept zones are not in the live build */
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

static bool zone_entry_is_valid(const json_t *entry) {
  return json_is_string(json_object_get(entry, "name")) &&
         serial_is_valid(json_object_get(entry, "serial")) &&
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
    if (!serial_is_valid(json_object_get(entry, "serial")) ||
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
  run->old_root = manifest;
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

/* False if the serials are given and this zone has none. */
static bool serial_of(const struct run *run, const struct model_zone *zone, const char *name,
                      const char *input, uint32_t *serial) {
  const struct build_options *options = run->options;
  const json_t *given = json_object_get(options->serials, name);
  if (zone->serial_mode == SERIAL_CARRIED) {
    *serial = carried_serial(zone);
    return true;
  }
  if (options->serials_are_final) {
    *serial = (uint32_t)json_integer_value(json_object_get(given, "serial"));
    return serial_is_valid(json_object_get(given, "serial"));
  }
  const json_t *before[] = {
      json_object_get(run->previous, name),
      json_object_get(run->retired, name),
      given,
      json_object_get(options->retired, name),
  };
  *serial = serial_choose(before, sizeof before / sizeof *before, input);
  return true;
}

/* Notes of zones as the manifest and the deploy record have them. */
static json_t *note_of(const json_t *entry) {
  return json_pack("{s:O, s:O}", "serial", json_object_get(entry, "serial"), "input",
                   json_object_get(entry, "input"));
}

/* The note with the greater serial stays. */
static bool add_note(json_t *notes, const char *name, const json_t *entry) {
  const json_t *old = json_object_get(notes, name);
  if (old && !serial_is_greater((uint32_t)json_integer_value(json_object_get(entry, "serial")),
                                (uint32_t)json_integer_value(json_object_get(old, "serial"))))
    return true;
  return json_object_set_new(notes, name, note_of(entry)) == 0;
}

static bool add_notes(json_t *notes, const json_t *entries) {
  const char *name;
  json_t *entry;
  json_object_foreach((json_t *)entries, name,
                      entry) if (!add_note(notes, name, entry)) return false;
  return true;
}

/* Remembers the serials of zones that this build no longer has, should they come back. */
static bool retire(struct run *run) {
  const struct build_options *options = run->options;
  if (options->serials_are_final) {
    json_object_clear(run->retired);
    return add_notes(run->retired, options->retired) || out_of_memory(run);
  }
  if (!add_notes(run->retired, run->previous) || !add_notes(run->retired, options->retired) ||
      !add_notes(run->retired, options->serials))
    return out_of_memory(run);
  size_t i;
  json_t *entry;
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
  for (size_t d = 0; d < zone->domain_count; d++)
    names += zone_check_find(zone, zone->domains[d].steer->owner, 0) == NULL;
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

/* The hash of a zone's inputs; of a kept zone as the live build has it. */
static const char *input_of(const struct run *run, const struct model_zone *zone, const char *name,
                            char out[BUILDDIR_SHA + 1]) {
  const char *before =
      json_string_value(json_object_get(json_object_get(run->previous, name), "input"));
  if (!zone->kept)
    builddir_hex(zone->input_hash, sizeof zone->input_hash, out);
  else
    snprintf(out, BUILDDIR_SHA + 1, "%s", before ? before : "");
  return out;
}

static bool plan_zone(struct run *run, const struct model_zone *zone,
                      struct build_product *products) {
  char name[NAME_MAX_TEXT];
  char input[BUILDDIR_SHA + 1];
  uint32_t serial;
  name_to_text(name, zone->apex);
  input_of(run, zone, name, input);
  if (!serial_of(run, zone, name, input, &serial)) {
    snprintf(run->why, WHY, "the deploy has no serial for the zone %.300s", name);
    return false;
  }
  const json_t *before = json_object_get(run->previous, name);
  bool same = run->same_builder && before && same_input(before, input) &&
              json_integer_value(json_object_get(before, "serial")) == serial;
  if (zone->kept && !same) {
    run->stale = true;
    snprintf(run->why, WHY, "the live build does not have the zone %.300s as it is", name);
    return false;
  }
  return (plan_product(&products[IMAGE], zone, serial, compile_image, "image",
                       same ? json_object_get(before, "image_sha256") : NULL) &&
          plan_product(&products[TEXT], zone, serial, compile_master_file, "zone",
                       same ? json_object_get(before, "zonefile_sha256") : NULL) &&
          plan_product(&products[RECORDS], zone, serial, records_compile, "records",
                       same ? json_object_get(before, "records_sha256") : NULL)) ||
         out_of_memory(run);
}

static json_t *zone_entry(const struct run *run, const struct build_product *products) {
  const struct build_product *image = &products[IMAGE];
  const struct build_product *text = &products[TEXT];
  const struct build_product *records = &products[RECORDS];
  const struct model_zone *zone = image->zone;
  char name[NAME_MAX_TEXT];
  char input[BUILDDIR_SHA + 1];
  name_to_text(name, zone->apex);
  if (zone->kept)
    return json_incref(json_object_get(run->previous, name));
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
    ok = plan_zone(run, &run->model->zones[i], &products[i * PRODUCTS]);
  if (ok)
    ok = build_make_products(&run->dir, products, count * PRODUCTS, run->why);
  for (size_t i = 0; !ok && products && i < count * PRODUCTS; i++)
    run->stale = run->stale || products[i].lost;
  for (size_t i = 0; ok && i < count; i++) {
    const struct build_product *own = &products[i * PRODUCTS];
    run->rebuilt += own[IMAGE].made || own[TEXT].made || own[RECORDS].made;
    ok = json_array_append_new(run->zones, zone_entry(run, own)) == 0 || out_of_memory(run);
  }
  free(products);
  return ok;
}

/* ---- the whole ------------------------------------------------------------------------------ */

typedef bool list_fn(const struct model *model, const struct buf *before, struct buf *out);

static bool keeps_zones(const struct model *model) {
  for (size_t i = 0; i < model->zone_count; i++)
    if (model->zones[i].kept)
      return true;
  return false;
}

/* The hash that the live build's manifest gives for one of its lists, "" without. */
static void old_sha(const struct run *run, const char *key, char out[BUILDDIR_SHA + 1]) {
  const char *sha = json_string_value(json_object_get(run->old_root, key));
  snprintf(out, BUILDDIR_SHA + 1, "%s", sha ? sha : "");
}

/* A list of the live build, where kept zones are; it must be what its manifest says. */
static bool read_list(struct run *run, const char *file, const char *wanted, struct buf *before) {
  char path[64];
  char reason[FS_WHY];
  char sha[BUILDDIR_SHA + 1];
  uint8_t *text = NULL;
  size_t len = 0;
  snprintf(path, sizeof path, "current/%s", file);
  char *full = fs_join(run->dir.data, path);
  bool ok = full && fs_read(full, LIST_LIMIT, &text, &len, reason) &&
            builddir_sha(text, len, sha) && !strcmp(sha, wanted);
  free(full);
  if (!ok) {
    free(text);
    run->stale = true;
    snprintf(run->why, WHY, "%s of the live build cannot be used", file);
    return false;
  }
  before->data = text;
  before->len = before->cap = len;
  return true;
}

/* Takes the file over where it is the same (lists can be large), else writes it. */
static bool keep_or_write(struct run *run, const char *file, const struct buf *out, const char *sha,
                          const char *before_sha) {
  if (!strcmp(sha, before_sha) && builddir_has(&run->dir, file, sha) &&
      builddir_link(&run->dir, file))
    return true;
  return builddir_write(&run->dir, file, out->data, out->len, run->why);
}

static bool put_list(struct run *run, const char *file, const char *sha_key, list_fn *list,
                     char sha[BUILDDIR_SHA + 1]) {
  struct buf out;
  struct buf before;
  char before_sha[BUILDDIR_SHA + 1];
  bool keeps = keeps_zones(run->model);
  buf_init(&out);
  buf_init(&before);
  old_sha(run, sha_key, before_sha);
  bool ok = !keeps || read_list(run, file, before_sha, &before);
  if (ok && keeps) /* most likely it is of nearly the same length: no growing step by step */
    buf_reserve(&out, before.len + before.len / 64 + 65536);
  ok = ok &&
       ((list(run->model, keeps ? &before : NULL, &out) && builddir_sha(out.data, out.len, sha)) ||
        out_of_memory(run));
  ok = ok && keep_or_write(run, file, &out, sha, before_sha);
  buf_close(&before);
  buf_close(&out);
  return ok;
}

/* The manifest names the hash of every other file, so its own hash stands for the whole build. */
static bool make_manifest(struct run *run, struct buf *out) {
  char checks[BUILDDIR_SHA + 1];
  char domains[BUILDDIR_SHA + 1];
  if (!put_list(run, "checks.json", "checks_sha256", build_checks_json, checks) ||
      !put_list(run, "domains.json", "domains_sha256", build_domains_json, domains) || !retire(run))
    return false;
  const struct build_options *options = run->options;
  json_t *manifest = json_pack("{s:i, s:s, s:s?, s:I, s:s?, s:s, s:s, s:O, s:O}", "format",
                               MANIFEST_FORMAT, "builder", builder, "commit", options->commit,
                               "commit_time", (json_int_t)options->commit_time, "default_zone",
                               run->model->default_zone, "checks_sha256", checks, "domains_sha256",
                               domains, "zones", run->zones, "retired", run->retired);
  return build_dump(manifest, out) || out_of_memory(run);
}

/* The serials of this build, for who keeps them elsewhere too. */
static bool report_serials(struct run *run, struct build_result *result) {
  size_t i;
  json_t *entry;
  result->serials = json_object();
  result->retired = json_object();
  bool ok = result->serials && result->retired && add_notes(result->retired, run->retired);
  json_array_foreach(run->zones, i, entry) ok =
      ok && add_note(result->serials, json_string_value(json_object_get(entry, "name")), entry);
  return ok || out_of_memory(run);
}

static bool write_and_switch(struct run *run, const struct buf *manifest, const char *id) {
  const struct build_options *options = run->options;
  const struct buf *inputs = options->inputs;
  if (inputs && !builddir_write(&run->dir, "inputs.json", inputs->data, inputs->len, run->why))
    return false;
  if (!builddir_write(&run->dir, "manifest.json", manifest->data, manifest->len, run->why))
    return false;
  return options->prepare ? builddir_prepare(&run->dir, run->why)
                          : builddir_switch(&run->dir, id, run->why);
}

static bool finish(struct run *run, struct build_result *result) {
  struct buf manifest;
  char sha[BUILDDIR_SHA + 1];
  buf_init(&manifest);
  bool ok = make_manifest(run, &manifest) && report_serials(run, result);
  if (ok && !builddir_sha(manifest.data, manifest.len, sha))
    ok = out_of_memory(run);
  if (ok) {
    sha[BUILDDIR_ID] = 0;
    memcpy(result->id, sha, sizeof result->id);
    result->unchanged = !strcmp(sha, run->dir.current) && run->dir.written == 0 &&
                        manifest.len == run->old_manifest.len &&
                        !memcmp(manifest.data, run->old_manifest.data, manifest.len);
  }
  if (ok && !result->unchanged)
    ok = write_and_switch(run, &manifest, sha);
  buf_close(&manifest);
  return ok;
}

/* Zones that were kept out of another build than the live one may have changed since. */
static bool check_base(struct run *run) {
  const char *base = run->options->base;
  if (!keeps_zones(run->model) || (base && !strcmp(base, run->dir.current)))
    return true;
  run->stale = true;
  snprintf(run->why, WHY, "another build has become the live one");
  return false;
}

bool build_run(const struct model *model, const struct build_options *options,
               struct build_result *result, char *why) {
  struct run run = {.model = model, .options = options, .why = why};
  *result = (struct build_result){0};
  if (!builddir_open(&run.dir, options->data_dir, why))
    return false;
  buf_init(&run.old_manifest);
  run.zones = json_array();
  bool ok = check_base(&run);
  if (ok)
    ok = run.zones ? read_previous(&run) : out_of_memory(&run);
  if (ok)
    ok = build_zones(&run);
  if (ok)
    ok = finish(&run, result);
  result->zones = model->zone_count;
  result->rebuilt = run.rebuilt;
  result->stale = !ok && run.stale;
  json_decref(run.zones);
  json_decref(run.previous);
  json_decref(run.retired);
  json_decref(run.old_root);
  buf_close(&run.old_manifest);
  builddir_close(&run.dir);
  return ok;
}

bool build_publish(const char *data_dir, const char *id, char *why) {
  struct builddir dir;
  if (!builddir_open(&dir, data_dir, why))
    return false;
  bool ok = builddir_publish(&dir, id, why);
  builddir_close(&dir);
  return ok;
}

const char *build_builder(void) {
  return builder;
}

void build_current(const char *data_dir, char id[BUILDDIR_ID + 1]) {
  char target[64] = "";
  char *link = fs_join(data_dir, "current");
  ssize_t n = link ? readlink(link, target, sizeof target - 1) : -1;
  free(link);
  target[n < 0 ? 0 : n] = 0;
  bool ok = !strncmp(target, "builds/", 7) && strlen(target + 7) == BUILDDIR_ID;
  snprintf(id, BUILDDIR_ID + 1, "%.16s", ok ? target + 7 : "");
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

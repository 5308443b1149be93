/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zone.yaml and its master file.  A value goes into one of them only in a form that its reader
 * takes for the very same octets.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/sync/import.h"
#include "tools/sync/import_yaml.h"
#include "zones/host_name.h"
#include "zones/record.h"
#include "zones/yaml_tree.h"

enum { YAML_ENOUGH = 3 << 20, SOA_NUMBERS = 20 };

struct writing {
  struct import *import;
  struct record_rdata *rdata; /* what was read back */
};

/* ---- what reads back ------------------------------------------------------------------------ */

static bool is_text(uint16_t type) {
  return type == RECORD_TXT || type == RECORD_SPF;
}

static bool is_same(const struct writing *w, const struct import_value *value) {
  return w->rdata->len == value->len && memcmp(w->rdata->data, value->rdata, value->len) == 0;
}

/* Reads data in presentation form: in YAML (`origin` NULL), or in a master file. */
static bool reads_back(struct writing *w, uint16_t type, const struct import_value *value,
                       const char *text, const uint8_t *origin) {
  struct master_text master;
  struct master_entry entry;
  struct master_word where;
  char why[RECORD_WHY];
  const char *reason;
  size_t bad;
  master_text_init(&master, text, strlen(text));
  master.single = origin == NULL;
  bool ok = master_text_next(&master, &entry, &where, &reason) == MASTER_ENTRY &&
            record_read(type, entry.words, entry.count, origin, w->rdata, &bad, why) &&
            is_same(w, value) && master_text_next(&master, &entry, &where, &reason) == MASTER_END;
  master_text_close(&master);
  return ok;
}

/* The strings of a TXT as one text, with a NUL behind it; malloc'd.  NULL: it is cut elsewhere than
 * the reader of the configuration would cut it, or it cannot stand in YAML. */
static char *joined_text(struct writing *w, const struct import_value *value, size_t *len) {
  char why[RECORD_WHY];
  char *out = malloc(value->len + 1);
  *len = 0;
  for (size_t at = 0; out && at < value->len; at += value->rdata[at] + 1u) {
    size_t n = value->rdata[at];
    if (at + 1 + n > value->len)
      break;
    memcpy(out + *len, value->rdata + at + 1, n);
    *len += n;
  }
  if (out)
    out[*len] = '\0';
  if (out && record_from_text(out, *len, w->rdata, why) && is_same(w, value) &&
      yaml_out_can(out, *len))
    return out;
  free(out);
  return NULL;
}

/* The value as it stands in YAML; malloc'd, NULL: it cannot. */
static char *yaml_value(struct writing *w, uint16_t type, const struct import_value *value,
                        size_t *len) {
  if (is_text(type))
    return joined_text(w, value, len);
  char *text = provider_rdata_wire(type, value->rdata, value->len);
  if (text && yaml_out_can(text, strlen(text)) && reads_back(w, type, value, text, NULL)) {
    *len = strlen(text);
    return text;
  }
  free(text);
  return NULL;
}

/* RFC 3597 section 5. */
static char *generic_value(const struct import_value *value) {
  char *out = malloc(24 + 2 * value->len);
  size_t at = out ? (size_t)sprintf(out, "\\# %zu ", value->len) : 0;
  for (size_t i = 0; out && i < value->len; i++)
    at += (size_t)sprintf(out + at, "%02x", value->rdata[i]);
  return out;
}

/* The value as it stands in the master file; malloc'd, NULL: it cannot. */
static char *master_value(struct writing *w, uint16_t type, const struct import_value *value) {
  char *text = provider_rdata_wire(type, value->rdata, value->len);
  if (text && reads_back(w, type, value, text, w->import->apex))
    return text;
  free(text);
  text = generic_value(value);
  if (text && reads_back(w, type, value, text, w->import->apex))
    return text;
  free(text);
  return NULL;
}

/* The owner as a key of `records:`: relative, and whatever is neither letter, digit, `-`, `_`, `*`
 * nor `/` escaped.  False: it does not read back. */
static bool owner_key(const struct import *import, const uint8_t *name, char out[NAME_MAX_TEXT]) {
  uint8_t back[NAME_BUF];
  char why[HOST_NAME_WHY];
  size_t at = 0;
  unsigned labels = name_labels(name) - name_labels(import->apex);
  const uint8_t *label = name;
  snprintf(out, NAME_MAX_TEXT, "@");
  for (unsigned i = 0; i < labels; i++, label += *label + 1u) {
    if (i > 0)
      out[at++] = '.';
    for (unsigned k = 1; k <= *label; k++) {
      unsigned char c = label[k];
      bool plain =
          (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c != '\0' && strchr("-_*/", c));
      at += plain ? (size_t)snprintf(out + at, NAME_MAX_TEXT - at, "%c", c)
                  : (size_t)snprintf(out + at, NAME_MAX_TEXT - at, "\\%03u", c);
    }
  }
  return host_name_read_owner(back, out, strlen(out), import->apex, why) && name_equal(back, name);
}

/* A name in `ns:` and `soa:`, absolute. */
static bool host_text(const uint8_t *wire, size_t len, char out[NAME_MAX_TEXT]) {
  uint8_t name[NAME_BUF] = {0};
  uint8_t back[NAME_BUF];
  char why[HOST_NAME_WHY];
  size_t n = name_wire_len(wire, len);
  if (n == 0)
    return false;
  memcpy(name, wire, n);
  name_to_text(out, name);
  return host_name_read(back, out, strlen(out), why) && name_equal(back, name);
}

/* ---- soa and ns ----------------------------------------------------------------------------- */

struct soa {
  char mname[NAME_MAX_TEXT], rname[NAME_MAX_TEXT];
  uint32_t numbers[4]; /* refresh, retry, expire, minimum */
};

static bool read_soa(const struct import_value *value, struct soa *soa) {
  size_t first = name_wire_len(value->rdata, value->len);
  size_t second = first ? name_wire_len(value->rdata + first, value->len - first) : 0;
  if (second == 0 || value->len - first - second != SOA_NUMBERS ||
      !host_text(value->rdata, first, soa->mname) ||
      !host_text(value->rdata + first, second, soa->rname))
    return false;
  const uint8_t *at = value->rdata + first + second + 4; /* past the serial */
  for (int i = 0; i < 4; i++, at += 4) {
    soa->numbers[i] = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
    if (soa->numbers[i] > INT32_MAX)
      return false;
  }
  return true;
}

static void write_soa(struct yaml_out *yaml, const struct soa *soa) {
  static const char *const keys[] = {"refresh", "retry", "expire", "minimum"};
  yaml_out_text(yaml, "soa");
  yaml_out_map(yaml, true);
  yaml_out_text(yaml, "mname");
  yaml_out_text(yaml, soa->mname);
  yaml_out_text(yaml, "rname");
  yaml_out_text(yaml, soa->rname);
  for (int i = 0; i < 4; i++) {
    yaml_out_text(yaml, keys[i]);
    yaml_out_number(yaml, soa->numbers[i]);
  }
  yaml_out_end_map(yaml);
}

/* True if the set can stand under `ns:`. */
static bool is_ns_list(const struct import *import, const struct import_set *set) {
  char text[NAME_MAX_TEXT];
  if (set->type != RECORD_NS || set->ttl != import->ttl || !name_equal(set->name, import->apex))
    return false;
  for (size_t i = 0; i < set->count; i++)
    if (!host_text(set->values[i].rdata, set->values[i].len, text))
      return false;
  return true;
}

static void write_ns(struct yaml_out *yaml, const struct import_set *set) {
  char text[NAME_MAX_TEXT];
  yaml_out_text(yaml, "ns");
  yaml_out_list(yaml, true);
  for (size_t i = 0; i < set->count; i++)
    if (host_text(set->values[i].rdata, set->values[i].len, text))
      yaml_out_text(yaml, text);
  yaml_out_end_list(yaml);
}

/* ---- records -------------------------------------------------------------------------------- */

/* True if the set can stand under `records:` (or `soa:`, `ns:`). */
static bool fits_yaml(struct writing *w, const struct import_set *set) {
  char key[NAME_MAX_TEXT];
  struct soa soa;
  if (set->type == RECORD_SOA)
    return set->count == 1 && read_soa(&set->values[0], &soa);
  if (!owner_key(w->import, set->name, key))
    return false;
  for (size_t i = 0; i < set->count; i++) {
    size_t len;
    char *text = yaml_value(w, set->type, &set->values[i], &len);
    if (!text)
      return false;
    free(text);
  }
  return true;
}

static void write_values(struct writing *w, struct yaml_out *yaml, const struct import_set *set) {
  yaml_out_list(yaml, true);
  for (size_t i = 0; i < set->count; i++) {
    size_t len;
    char *text = yaml_value(w, set->type, &set->values[i], &len);
    if (text)
      yaml_out_octets(yaml, text, len);
    else
      w->import->failed = true;
    free(text);
  }
  yaml_out_end_list(yaml);
}

static void write_set(struct writing *w, struct yaml_out *yaml, const struct import_set *set) {
  char type[16];
  yaml_out_text(yaml, record_type_text(set->type, type));
  if (set->ttl == w->import->ttl) {
    write_values(w, yaml, set);
    return;
  }
  yaml_out_map(yaml, true);
  yaml_out_text(yaml, "ttl");
  yaml_out_number(yaml, set->ttl);
  yaml_out_text(yaml, "values");
  write_values(w, yaml, set);
  yaml_out_end_map(yaml);
}

static bool is_record(const struct import *import, const struct import_set *set) {
  return set->place == IMPORT_YAML && set->type != RECORD_SOA && !is_ns_list(import, set);
}

static void write_records(struct writing *w, struct yaml_out *yaml) {
  const struct import *import = w->import;
  const struct import_set *last = NULL;
  for (size_t i = 0; i < import->set_count; i++) {
    const struct import_set *set = &import->sets[i];
    char key[NAME_MAX_TEXT];
    if (!is_record(import, set))
      continue;
    if (!last) {
      yaml_out_text(yaml, "records");
      yaml_out_map(yaml, false);
    }
    if (!last || !name_equal(last->name, set->name)) {
      if (last)
        yaml_out_end_map(yaml);
      owner_key(import, set->name, key);
      yaml_out_text(yaml, key);
      yaml_out_map(yaml, false);
    }
    write_set(w, yaml, set);
    last = set;
  }
  if (last) {
    yaml_out_end_map(yaml);
    yaml_out_end_map(yaml);
  }
}

/* ---- zone.yaml ------------------------------------------------------------------------------ */

/* A name that no domain's directory has. */
static void zonefile_name(const struct import *import, char out[40]) {
  bool taken = true;
  for (unsigned n = 0; taken; n++) {
    snprintf(out, 40, n == 0 ? "static.zone" : "static%u.zone", n);
    taken = false;
    for (size_t i = 0; i < import->domain_count; i++)
      taken = taken || strcmp(import->domains[i].directory, out) == 0;
  }
}

/* True if zone.yaml can name the provider: it is our own server, or defaults.yaml defines it. */
static bool is_defined(const struct import *import) {
  const char *name = import->provider.name;
  return strcmp(name, "sluice") == 0 || !import->target ||
         json_object_get(json_object_get(import->target, "providers"), name);
}

static bool write_zone(struct writing *w, struct buf *out, const char *zonefile) {
  const struct import *import = w->import;
  buf_printf(out, "# Imported from %s (%s) by `sluice sync import`.\n", import->provider.name,
             import->provider.kind->type);
  struct yaml_out *yaml = yaml_out_open(out);
  if (!yaml)
    return false;
  yaml_out_map(yaml, false);
  yaml_out_text(yaml, "ttl");
  yaml_out_number(yaml, import->ttl);
  for (size_t i = 0; i < import->set_count; i++) {
    const struct import_set *set = &import->sets[i];
    struct soa soa;
    if (set->place == IMPORT_YAML && set->type == RECORD_SOA && read_soa(&set->values[0], &soa))
      write_soa(yaml, &soa);
  }
  for (size_t i = 0; i < import->set_count; i++)
    if (import->sets[i].place == IMPORT_YAML && is_ns_list(import, &import->sets[i]))
      write_ns(yaml, &import->sets[i]);
  if (is_defined(import)) {
    yaml_out_text(yaml, "providers");
    yaml_out_list(yaml, true);
    yaml_out_text(yaml, import->provider.name);
    yaml_out_end_list(yaml);
  }
  if (zonefile) {
    yaml_out_text(yaml, "zonefile");
    yaml_out_text(yaml, zonefile);
  }
  write_records(w, yaml);
  yaml_out_end_map(yaml);
  return yaml_out_close(yaml);
}

static unsigned line_of(const struct yaml_node *root, const char *key) {
  const struct yaml_node *node = yaml_get_key(root, key);
  return node ? node->line : 0;
}

/* Where each set begins, as the reader sees it: in the order in which they were written. */
static bool find_lines(struct import *import, const struct buf *text) {
  struct arena arena;
  struct diag_list problems;
  arena_init(&arena);
  diag_init(&problems);
  const struct yaml_node *root =
      yaml_tree_read("zone.yaml", text->data, text->len, &arena, &problems);
  const struct yaml_node *records = root ? yaml_get(root, "records") : NULL;
  size_t name = 0;
  size_t type = 0;
  bool ok = root && problems.errors == 0;
  for (size_t i = 0; ok && i < import->set_count; i++) {
    struct import_set *set = &import->sets[i];
    if (set->place != IMPORT_YAML)
      continue;
    if (!is_record(import, set)) {
      set->line = line_of(root, set->type == RECORD_SOA ? "soa" : "ns");
      continue;
    }
    if (records && name < records->count && type == records->pairs[name].value->count) {
      name++;
      type = 0;
    }
    ok = records && name < records->count && type < records->pairs[name].value->count;
    if (ok)
      set->line = records->pairs[name].value->pairs[type++].key->line;
  }
  diag_close(&problems);
  arena_close(&arena);
  return ok;
}

/* ---- the master file ------------------------------------------------------------------------ */

static bool fits_master(struct writing *w, const struct import_set *set) {
  for (size_t i = 0; i < set->count; i++) {
    char *text = master_value(w, set->type, &set->values[i]);
    if (!text)
      return false;
    free(text);
  }
  return true;
}

static bool write_master(struct writing *w, struct buf *out) {
  struct import *import = w->import;
  unsigned line = 2;
  buf_add_str(out, "; Static records of this zone that zone.yaml does not hold.\n");
  for (size_t i = 0; i < import->set_count; i++) {
    struct import_set *set = &import->sets[i];
    char name[NAME_MAX_TEXT];
    char type[16];
    if (set->place != IMPORT_ZONEFILE)
      continue;
    set->line = line;
    for (size_t k = 0; k < set->count; k++, line++) {
      char *text = master_value(w, set->type, &set->values[k]);
      if (!text)
        return false;
      buf_printf(out, "%s %u IN %s %s\n", name_to_text(name, set->name), set->ttl,
                 record_type_text(set->type, type), text);
      free(text);
    }
  }
  return !out->failed;
}

/* ---- both ----------------------------------------------------------------------------------- */

/* Moves what does not fit; true if there is anything for the master file. */
static bool place_sets(struct writing *w) {
  struct import *import = w->import;
  bool any = false;
  for (size_t i = 0; i < import->set_count; i++) {
    struct import_set *set = &import->sets[i];
    char name[NAME_MAX_TEXT];
    char type[16];
    set->line = 0;
    if (set->place == IMPORT_YAML && !fits_yaml(w, set))
      set->place = IMPORT_ZONEFILE;
    if (set->place == IMPORT_ZONEFILE && !fits_master(w, set)) {
      set->place = IMPORT_NOWHERE;
      import_miss(import, name_to_text(name, set->name), record_type_text(set->type, type), false,
                  "its data can be written neither in YAML nor in a master file");
    }
    set->written = set->place;
    any = any || set->place == IMPORT_ZONEFILE;
  }
  return any;
}

/* A file of YAML may not be large: all records go to the master file then. */
static void move_records(struct import *import) {
  for (size_t i = 0; i < import->set_count; i++)
    if (is_record(import, &import->sets[i]))
      import->sets[i].place = IMPORT_ZONEFILE;
}

static bool write_both(struct writing *w) {
  struct import *import = w->import;
  char zonefile[40];
  bool any = place_sets(w);
  if (any)
    zonefile_name(import, zonefile);
  struct buf *text = import_add_file(import, import->directory, NULL, "zone.yaml");
  if (!text || !write_zone(w, text, any ? zonefile : NULL))
    return false;
  if (text->len > YAML_ENOUGH) {
    move_records(import);
    any = place_sets(w);
    zonefile_name(import, zonefile);
    buf_clear(text);
    if (!write_zone(w, text, any ? zonefile : NULL))
      return false;
  }
  if (!find_lines(import, text))
    return false;
  struct buf *master = any ? import_add_file(import, import->directory, NULL, zonefile) : NULL;
  return !any || (master && write_master(w, master));
}

bool import_zone_text(struct import *import) {
  struct writing w = {.import = import, .rdata = malloc(sizeof *w.rdata)};
  bool ok = w.rdata && write_both(&w);
  free(w.rdata);
  return ok;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "server/secondary_store.h"

#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "zones/builddir.h"
#include "zones/compile.h"
#include "zones/image.h"

enum { INFO_LIMIT = 1 << 16, INFO_FORMAT = 1, FILE_MODE = 0644 };

bool secondary_store_open(const char *state, char *why) {
  char *folder = fs_join(state, "secondary");
  bool ok = folder != NULL;
  if (ok)
    ok = fs_make_dirs(folder, why);
  else
    snprintf(why, SECONDARY_STORE_WHY, "out of memory");
  free(folder);
  return ok;
}

static char *file_path(const char *state, const uint8_t *apex, const char *suffix) {
  char name[BUILDDIR_FILE + 32];
  char *path = NULL;
  if (!builddir_zone_file(apex, suffix, name))
    return NULL;
  const char *base = strchr(name, '/'); /* "zones/<apex>SUFFIX" */
  if (base == NULL || asprintf(&path, "%s/secondary%s", state, base) < 0)
    return NULL;
  return path;
}

bool secondary_files_init(struct secondary_files *files, const char *state, const uint8_t *apex) {
  files->image = file_path(state, apex, "image");
  files->records = file_path(state, apex, "records");
  files->info = file_path(state, apex, "json");
  return files->image != NULL && files->records != NULL && files->info != NULL;
}

void secondary_files_close(struct secondary_files *files) {
  free(files->image);
  free(files->records);
  free(files->info);
  *files = (struct secondary_files){NULL, NULL, NULL};
}

/* ---- reading ----------------------------------------------------------------------------------
 */

static bool get_u32(const json_t *object, const char *key, uint32_t *out) {
  const json_t *value = json_object_get(object, key);
  json_int_t number = json_integer_value(value);
  if (!json_is_integer(value) || number < 0 || number > UINT32_MAX)
    return false;
  *out = (uint32_t)number;
  return true;
}

static bool get_count(const json_t *object, const char *key, int64_t *out) {
  const json_t *value = json_object_get(object, key);
  *out = json_integer_value(value);
  return json_is_integer(value) && *out >= 0;
}

static bool parse_info(const uint8_t *text, size_t len, struct secondary_info *info) {
  json_t *root = json_loadb((const char *)text, len, JSON_REJECT_DUPLICATES, NULL);
  uint32_t format = 0;
  bool ok =
      get_u32(root, "format", &format) && format == INFO_FORMAT &&
      get_u32(root, "serial", &info->soa.serial) && get_u32(root, "refresh", &info->soa.refresh) &&
      get_u32(root, "retry", &info->soa.retry) && get_u32(root, "expire", &info->soa.expire) &&
      get_u32(root, "minimum", &info->soa.minimum) &&
      get_count(root, "refreshed", &info->refreshed) && get_count(root, "names", &info->names);
  json_decref(root);
  return ok;
}

static bool read_info(const struct secondary_files *files, struct secondary_info *info) {
  uint8_t *text = NULL;
  size_t len = 0;
  char why[FS_WHY];
  if (!fs_read(files->info, INFO_LIMIT, &text, &len, why))
    return false;
  bool ok = parse_info(text, len, info);
  free(text);
  return ok;
}

/* The SOA of the records file, when a crash came before the JSON file was written. */
static bool info_of_records(const struct secondary_files *files, int64_t modified,
                            struct secondary_info *info) {
  struct records records;
  struct records_rr soa;
  char why[SECONDARY_STORE_WHY];
  if (!records_open(&records, files->records, why))
    return false;
  records_read(&records, records_first(), &soa);
  *info = (struct secondary_info){.soa = transfer_soa_read(soa.rdata, soa.rdata_len),
                                  .refreshed = modified};
  records_close(&records);
  return true;
}

bool secondary_files_look(const struct secondary_files *files, struct secondary_info *info,
                          char *why) {
  struct image_header header;
  struct stat st;
  why[0] = '\0';
  int fd = open(files->image, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return false;
  bool whole = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
               pread(fd, &header, sizeof header, 0) == (ssize_t)sizeof header &&
               memcmp(header.magic, IMAGE_MAGIC, sizeof header.magic) == 0;
  close(fd);
  if (!whole) {
    snprintf(why, SECONDARY_STORE_WHY, "%.400s is not an image", files->image);
    return false;
  }
  if (read_info(files, info) && info->soa.serial == header.serial)
    return true;
  if (info_of_records(files, st.st_mtim.tv_sec, info) && info->soa.serial == header.serial)
    return true;
  snprintf(why, SECONDARY_STORE_WHY, "nothing tells when %.400s expires", files->image);
  return false;
}

/* ---- writing ----------------------------------------------------------------------------------
 */

bool secondary_files_confirm(const struct secondary_files *files, const struct secondary_info *info,
                             char *why) {
  char text[512];
  int len = snprintf(text, sizeof text,
                     "{\"format\":%d,\"serial\":%" PRIu32 ",\"refresh\":%" PRIu32
                     ",\"retry\":%" PRIu32 ",\"expire\":%" PRIu32 ",\"minimum\":%" PRIu32
                     ",\"refreshed\":%" PRId64 ",\"names\":%" PRId64 "}\n",
                     INFO_FORMAT, info->soa.serial, info->soa.refresh, info->soa.retry,
                     info->soa.expire, info->soa.minimum, info->refreshed, info->names);
  return fs_write_atomic(files->info, text, (size_t)len, FILE_MODE, why);
}

typedef bool compile_fn(const struct model_zone *zone, uint32_t serial, struct buf *out, char *why);

static bool write_product(const char *path, const struct secondary_model *model,
                          compile_fn *compile, char *why) {
  struct buf out;
  buf_init(&out);
  bool ok = compile(&model->zone, 0, &out, why);
  if (ok && out.failed) {
    snprintf(why, SECONDARY_STORE_WHY, "out of memory");
    ok = false;
  }
  if (ok)
    ok = fs_write_atomic(path, out.data, out.len, FILE_MODE, why);
  buf_close(&out);
  return ok;
}

static struct transfer_soa soa_of(const struct model_zone *zone) {
  for (size_t i = 0; i < zone->rr_count; i++)
    if (zone->rrs[i].type == 6)
      return transfer_soa_read(zone->rrs[i].rdata, zone->rrs[i].rdata_len);
  return (struct transfer_soa){0};
}

bool secondary_files_save(const struct secondary_files *files, const struct secondary_model *model,
                          struct secondary_info *info, char *why) {
  info->soa = soa_of(&model->zone);
  info->names = (int64_t)model->names;
  return write_product(files->records, model, records_compile, why) &&
         write_product(files->image, model, compile_image, why) &&
         secondary_files_confirm(files, info, why);
}

void secondary_files_set_aside(const struct secondary_files *files) {
  char *name = NULL;
  if (asprintf(&name, "%s.damaged", files->image) < 0)
    return;
  if (rename(files->image, name) != 0)
    unlink(files->image);
  free(name);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "server/transfer_open.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/transfer_share.h"

enum { MAX_BUILDS = 1000 /* looked at; a data folder has fewer than ten */ };

bool transfer_is_current(uint32_t have, uint32_t serial) {
  return (int32_t)(have - serial) >= 0;
}

/* DATA/builds and <id>/zones/<file>, the two parts of a path.  False if it has another form. */
static bool split_path(char *path, const char **folder, const char **id, const char **file) {
  char *cut[3];
  for (unsigned i = 0; i < 3; i++) {
    cut[i] = strrchr(path, '/');
    if (cut[i] == NULL || cut[i] == path)
      return false;
    *cut[i] = '\0';
  }
  *folder = path;
  *id = cut[2] + 1;
  *file = cut[0] + 1;
  return strcmp(cut[1] + 1, "zones") == 0;
}

/* The search for an earlier version of a zone. */
struct search {
  const struct transfer_wish *wish;
  const struct records_header *now;
  char *folder;                 /* DATA/builds */
  char *found;                  /* path of a file with the wanted serial */
  struct records_header header; /* of that file */
  bool ambiguous;               /* two files with that serial differ */
};

static void look_at(struct search *search, int builds, const char *id, const char *file) {
  char *relative = NULL;
  struct records_header header;
  if (asprintf(&relative, "%s/zones/%s", id, file) < 0)
    return;
  int fd = openat(builds, relative, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd >= 0 && records_peek(fd, &header) && header.serial == search->wish->have &&
      memcmp(header.apex, search->now->apex, sizeof header.apex) == 0) {
    if (search->found == NULL) {
      search->header = header;
      if (asprintf(&search->found, "%s/%s", search->folder, relative) < 0)
        search->found = NULL;
    } else if (header.checksum != search->header.checksum) {
      search->ambiguous = true; /* a serial that was carried by two contents says nothing */
    }
  }
  if (fd >= 0)
    close(fd);
  free(relative);
}

static void search_builds(struct search *search, const char *id, const char *file) {
  int builds = open(search->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *list = builds >= 0 ? fdopendir(builds) : NULL;
  if (list == NULL) {
    if (builds >= 0)
      close(builds);
    return;
  }
  const struct dirent *entry;
  for (unsigned n = 0; n < MAX_BUILDS && (entry = readdir(list)) != NULL; n++)
    if (entry->d_name[0] != '.' && strcmp(entry->d_name, id) != 0)
      look_at(search, builds, entry->d_name, file);
  closedir(list);
}

/* Opens the version that the client has. */
static bool open_old(struct transfer_data *data, const struct transfer_wish *wish) {
  char why[TRANSFER_WHY];
  const char *folder, *id, *file;
  char *path = strdup(wish->path);
  struct search search = {.wish = wish, .now = data->now.header};
  bool ok = false;
  if (path != NULL && split_path(path, &folder, &id, &file)) {
    search.folder = path;
    search_builds(&search, id, file);
    ok = search.found != NULL && !search.ambiguous &&
         transfer_share_open(&data->old, search.found, why) &&
         data->old.header->serial == wish->have;
  }
  free(search.found);
  free(path);
  return ok;
}

static void choose_kind(struct transfer_data *data, const struct transfer_wish *wish) {
  data->kind = TRANSFER_ALL;
  if (!wish->incremental)
    return;
  if (transfer_is_current(wish->have, wish->serial)) {
    data->kind = TRANSFER_SOA;
    return;
  }
  if (open_old(data, wish) &&
      transfer_diff_make(&data->diff, &data->old, &data->now, data->now.size) == TRANSFER_DIFF_OK) {
    data->kind = TRANSFER_DIFF;
    return;
  }
  transfer_share_close(&data->old);
}

bool transfer_data_open(struct transfer_data *data, const struct transfer_wish *wish, char *why) {
  *data = (struct transfer_data){.kind = TRANSFER_ALL};
  if (!transfer_share_open(&data->now, wish->path, why))
    return false;
  if (data->now.header->serial != wish->serial) {
    snprintf(why, TRANSFER_WHY, "%.300s: serial %u, not %u as served", wish->path,
             data->now.header->serial, wish->serial);
    transfer_data_close(data);
    return false;
  }
  choose_kind(data, wish);
  return true;
}

void transfer_data_close(struct transfer_data *data) {
  transfer_diff_close(&data->diff);
  transfer_share_close(&data->old);
  transfer_share_close(&data->now);
}

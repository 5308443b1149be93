/* SPDX-License-Identifier: Apache-2.0 */
#include "server/load_secondary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/shared.h"
#include "zones/compile.h"

enum { TYPE_SOA = 6 };

static bool out_of_memory(char *why) {
  snprintf(why, LOAD_WHY, "out of memory");
  return false;
}

/* Index + 1 of the zone of a view with this apex, 0 if there is none. */
static uint32_t find_zone(const struct view *view, const uint8_t *apex) {
  uint64_t hash = name_hash(apex);
  for (uint32_t i = (uint32_t)hash & view->slot_mask; view->slots[i] != 0;
       i = (i + 1) & view->slot_mask) {
    uint32_t zone = view->slots[i] - 1;
    if (view->zone_hashes[zone] == hash && name_equal(view->zones[zone].image->header->apex, apex))
      return zone + 1;
  }
  return 0;
}

static bool add_problem(struct served *served, const char *zone, bool damaged, const char *text,
                        char *why) {
  struct load_problem *problems =
      realloc(served->problems, (served->problem_count + 1) * sizeof *problems);
  if (problems == NULL)
    return out_of_memory(why);
  served->problems = problems;
  struct load_problem *problem = &problems[served->problem_count++];
  *problem = (struct load_problem){strdup(zone), strdup(text), damaged};
  return (problem->zone != NULL && problem->why != NULL) || out_of_memory(why);
}

/* An image with nothing but an apex: it stands for a zone that is ours but cannot be served. */
static struct load_image *make_placeholder(const uint8_t *apex, char *why) {
  uint8_t owner[NAME_BUF];
  uint8_t rdata[2 + 20] = {0};
  name_copy_lower(owner, apex);
  struct model_rr soa = {
      .owner = owner, .rdata = rdata, .rdata_len = sizeof rdata, .type = TYPE_SOA};
  const struct model_zone zone = {
      .apex = owner, .serial_mode = SERIAL_CARRIED, .rrs = &soa, .rr_count = 1};
  struct buf out;
  buf_init(&out);
  struct load_image *image = calloc(1, sizeof *image);
  if (image != NULL && compile_image(&zone, 0, &out, why) &&
      image_open_memory(&image->image, out.data, out.len, why)) {
    image->memory = out.data;
    atomic_init(&image->references, 1);
    return image;
  }
  buf_close(&out);
  free(image);
  out_of_memory(why);
  return NULL;
}

/* The image at the path, taken over from the previous view if it is the same file; NULL with a
 * reason if it cannot be used. */
static struct load_image *open_image(const struct load_request *request,
                                     const struct load_secondary *from, bool *same, char *why) {
  const struct served *previous = request->previous;
  struct shared_file file;
  uint32_t index = previous != NULL ? find_zone(&previous->view, from->apex) : 0;
  *same = index != 0 && shared_file_look(from->image, &file) &&
          shared_file_equal(&previous->zones[index - 1].image->file, &file);
  if (*same) {
    shared_image_take(previous->zones[index - 1].image);
    return previous->zones[index - 1].image;
  }
  struct load_image *image = shared_image_open(from->image, why);
  if (image == NULL ||
      (name_equal(image->image.header->apex, from->apex) && image->image.header->domain_count == 0))
    return image;
  snprintf(why, LOAD_WHY, "%.400s is the image of another zone", from->image);
  shared_image_drop(image);
  return NULL;
}

static bool take_one(struct served *served, const struct load_request *request,
                     const struct load_secondary *from, char *why) {
  if (find_zone(&served->view, from->apex) != 0)
    return add_problem(served, from->name, false,
                       "the build has a zone of this name too, which is served instead", why);
  bool same = false;
  struct load_image *image = NULL;
  enum view_zone_state state = from->expired ? VIEW_ZONE_EXPIRED : VIEW_ZONE_NOT_READY;
  if (from->image != NULL) {
    image = open_image(request, from, &same, why);
    state = image != NULL ? VIEW_ZONE_SERVED : VIEW_ZONE_NOT_READY;
    if (image == NULL && !add_problem(served, from->name, true, why, why))
      return false;
  }
  if (image == NULL)
    image = make_placeholder(from->apex, why);
  if (image == NULL)
    return false;
  uint32_t at = served->view.zone_count++;
  served->zones[at] = (struct served_zone){.name = strdup(from->name),
                                           .serial = image->image.header->serial,
                                           .names = state == VIEW_ZONE_SERVED ? from->names : 0,
                                           .secondary = true,
                                           .image = image};
  served->view.zones[at] = (struct view_zone){.image = &image->image, .state = state};
  served->changed += !same && state == VIEW_ZONE_SERVED;
  return served->zones[at].name != NULL || out_of_memory(why);
}

bool load_secondary_take(struct served *served, const struct load_request *request, char *why) {
  if (request->secondary_count == 0)
    return true;
  for (size_t i = 0; i < request->secondary_count; i++)
    if (!take_one(served, request, &request->secondary[i], why))
      return false;
  view_unindex(&served->view);
  return view_index(&served->view) || out_of_memory(why);
}

void load_secondary_free(struct served *served) {
  for (size_t i = 0; i < served->problem_count; i++) {
    free(served->problems[i].zone);
    free(served->problems[i].why);
  }
  free(served->problems);
}

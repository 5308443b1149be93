/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a build's domains.json (zones/build_lists.h): one domain found by its name in a file of
 * 100 000 without reading all of it, or all of them one after the other.
 *
 * Each line has one domain, and begins with {"domain": "NAME"; the lines are sorted by what stands
 * between these quotes, octet by octet, so a search halves the file until it has the line.  Nothing
 * in the file is trusted: what is out of order, cut short or too long is an error.
 *
 * A list belongs to one thread.
 */
#ifndef SLUICE_ZONES_DOMAIN_LIST_H
#define SLUICE_ZONES_DOMAIN_LIST_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct domain_list;

enum {
  DOMAIN_LIST_WHY = 512,
  DOMAIN_LIST_FORMAT = 2,      /* "format" of the header */
  DOMAIN_LIST_LINE = 64 << 20, /* octets of a line at most */
  DOMAIN_LIST_KEY = 2048,      /* enough for any name (NAME_MAX_TEXT) with each octet escaped */
};

enum domain_list_result { DOMAIN_LIST_FOUND, DOMAIN_LIST_NONE, DOMAIN_LIST_BAD };

/* NULL with one line in `why` (DOMAIN_LIST_WHY octets). */
struct domain_list *domain_list_open(const char *path, char *why);
void domain_list_close(struct domain_list *list);

/* The first line: {"format", "default_zone", "providers", "domains": how many}; borrowed. */
const json_t *domain_list_header(const struct domain_list *list);

/*
 * The entry of a steered name (wire format, any case), with a reference for the caller; or
 * DOMAIN_LIST_NONE if there is none, or DOMAIN_LIST_BAD with `why`.
 */
enum domain_list_result domain_list_find(struct domain_list *list, const uint8_t *owner,
                                         json_t **entry, char *why);

/* The next entry, from the first one on; DOMAIN_LIST_NONE after the last.  domain_list_rewind()
 * begins again; domain_list_find() does not disturb it. */
enum domain_list_result domain_list_next(struct domain_list *list, json_t **entry, char *why);
void domain_list_rewind(struct domain_list *list);

/* What stands between the quotes of a domain's line: the name (wire format) in lower case, in
 * presentation form, escaped as JSON.  `out` holds DOMAIN_LIST_KEY octets; returns it. */
char *domain_list_key(char *out, const uint8_t *owner);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading fields of configuration files: a node of the tree in, a value or a message out.
 *
 * Every function reports what is wrong and what would be right at the node's place, and returns
 * false then.  `what` names the field in messages, without quotes ("weight of `a`" or "`ttl`").
 */
#ifndef SLUICE_ZONES_CONFIG_READ_H
#define SLUICE_ZONES_CONFIG_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/name.h"
#include "zones/yaml_tree.h"

enum { CONFIG_SHOW = 80, CONFIG_MAX_TTL = 2147483647 };

struct config_file {
  const char *path;
  struct diag_list *problems;
};

struct diag_pos config_pos(const struct config_file *file, const struct yaml_node *node);

/* The value as shown in messages: cut between characters when long.  `out` holds CONFIG_SHOW bytes.
 */
const char *config_show(const struct yaml_node *node, char *out);

void config_error(const struct config_file *file, const struct yaml_node *node, const char *format,
                  ...) __attribute__((format(printf, 3, 4)));
void config_warning(const struct config_file *file, const struct yaml_node *node,
                    const char *format, ...) __attribute__((format(printf, 3, 4)));

/* True if the node is a map; reports each key that is not among `keys` with the nearest one. */
bool config_is_map(const struct config_file *file, const struct yaml_node *node, const char *what);
bool config_keys(const struct config_file *file, const struct yaml_node *node, const char *what,
                 const char *const *keys, size_t count);

/* True for a text of at least one character. */
bool config_text(const struct config_file *file, const struct yaml_node *node, const char *what);

/* The same for a text that is shown to people: one line without control characters. */
bool config_line(const struct config_file *file, const struct yaml_node *node, const char *what);

/* Decimal digits only, without sign, spaces or leading zeros. */
bool config_number(const struct config_file *file, const struct yaml_node *node, const char *what,
                   uint32_t min, uint32_t max, uint32_t *out);

/* Digits and one of s, m, h, d, w; digits alone are seconds. */
bool config_seconds(const struct config_file *file, const struct yaml_node *node, const char *what,
                    uint32_t *out);
/* The same in milliseconds (`ms` is allowed as well), from 1 ms to `max` seconds. */
bool config_milliseconds(const struct config_file *file, const struct yaml_node *node,
                         const char *what, uint32_t max_seconds, uint64_t *out);

/* `true` or `false`. */
bool config_bool(const struct config_file *file, const struct yaml_node *node, const char *what,
                 bool *out);

/* Index of one of the words, or -1 with a message that lists them. */
int config_choice(const struct config_file *file, const struct yaml_node *node, const char *what,
                  const char *const *words, size_t count);

/* A name of an endpoint, profile, region, route...: 1 to 63 of A-Z a-z 0-9 . _ - */
bool config_name(const struct config_file *file, const struct yaml_node *node, const char *what);

/* A host name by the dot rule, to wire format in `out` (NAME_BUF octets). */
bool config_host(const struct config_file *file, const struct yaml_node *node, const char *what,
                 uint8_t *out);

/* " (did you mean `x`?)" in `out` (CONFIG_SHOW bytes), or "". */
const char *config_hint(const struct config_file *file, const char *word, const char *const *words,
                        size_t count, char *out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML as a tree of texts, each with its place in the file.
 *
 * Nothing is guessed: a scalar stays the text that was written (`no`, `012`, `1:30`), and a field's
 * own type reads it later.  The reader is made for hostile files: size, depth and the number of
 * nodes after aliases are limited, nothing recurses without bound, and the file must be one UTF-8
 * document without duplicate keys, tags or NUL bytes.
 */
#ifndef SLUICE_ZONES_YAML_TREE_H
#define SLUICE_ZONES_YAML_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "zones/arena.h"

enum {
  YAML_MAX_BYTES = 4 << 20,
  YAML_MAX_DEPTH = 32,
  YAML_MAX_NODES = 1 << 20, /* as written */
  YAML_MAX_ANCHORS = 1000,
  YAML_MAX_EXPANDED = 1 << 20, /* with every alias counted as what it stands for */
};

enum yaml_kind { YAML_SCALAR, YAML_LIST, YAML_MAP };

struct yaml_node;

struct yaml_pair {
  struct yaml_node *key; /* always a scalar */
  struct yaml_node *value;
};

struct yaml_node {
  enum yaml_kind kind;
  bool quoted;     /* scalar in quotes or a block scalar */
  bool flow;       /* list or map in brackets or braces */
  unsigned line;   /* from 1 */
  unsigned column; /* from 1, in characters */
  char *text;      /* scalar; NUL-terminated, holds no other NUL */
  size_t len;
  struct yaml_node **items; /* list */
  struct yaml_pair *pairs;  /* map */
  size_t count;             /* of items or pairs */
};

/*
 * Reads one document.  Problems go to `problems` under `path`; the tree is in `arena`.  NULL if the
 * file cannot be used as a tree at all (then at least one error was reported).  An empty file gives
 * an empty map.  Duplicate keys are errors, and the first one is kept.
 */
struct yaml_node *yaml_tree_read(const char *path, const uint8_t *data, size_t len,
                                 struct arena *arena, struct diag_list *problems);

/* The value of `key` in a map, or NULL. */
struct yaml_node *yaml_get(const struct yaml_node *map, const char *key);
struct yaml_node *yaml_get_key(const struct yaml_node *map, const char *key);

/* True if the bytes are UTF-8 (RFC 3629); else *line and *column tell where they stop to be. */
bool yaml_utf8_check(const uint8_t *data, size_t len, unsigned *line, unsigned *column);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/yaml_tree.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

/* A collection that is not yet complete. */
struct open_node {
  struct yaml_node *node;
  struct yaml_node *key; /* of a map, waiting for its value */
  bool anchored;
  size_t cap;
  size_t weight; /* nodes inside, aliases expanded */
  struct yaml_node **items;
  struct yaml_pair *pairs;
};

struct anchor {
  char *name;
  struct yaml_node *node;
  size_t weight; /* 0: not complete yet */
  unsigned height;
};

struct reader {
  const char *path;
  struct arena *arena;
  struct diag_list *problems;
  struct open_node open[YAML_MAX_DEPTH];
  unsigned heights[YAML_MAX_DEPTH + 1]; /* depth of what stands inside, aliases expanded */
  unsigned depth;
  struct anchor *anchors;
  size_t anchor_count;
  size_t anchor_cap;
  size_t nodes;
  struct yaml_node *root;
  size_t documents;
};

static struct diag_pos pos_of(const struct reader *r, yaml_mark_t mark) {
  return (struct diag_pos){r->path, (unsigned)mark.line + 1, (unsigned)mark.column + 1};
}

static bool fail(struct reader *r, yaml_mark_t mark, const char *what) {
  diag_error(r->problems, pos_of(r, mark), "%s", what);
  return false;
}

static bool no_memory(struct reader *r) {
  diag_error(r->problems, (struct diag_pos){r->path, 0, 0}, "out of memory");
  return false;
}

/* ---- UTF-8 ------------------------------------------------------------------------------------
 */

/* Length of the UTF-8 sequence at `p` (RFC 3629 section 4), or 0 if it is not one. */
static size_t utf8_sequence(const uint8_t *p, size_t len) {
  uint8_t c = p[0];
  if (c < 0x80)
    return 1;
  size_t n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
  if (c < 0xc2 || c > 0xf4 || len < n)
    return 0;
  for (size_t i = 1; i < n; i++)
    if ((p[i] & 0xc0) != 0x80)
      return 0;
  if ((c == 0xe0 && p[1] < 0xa0) || (c == 0xed && p[1] > 0x9f)) /* overlong, surrogate */
    return 0;
  if ((c == 0xf0 && p[1] < 0x90) || (c == 0xf4 && p[1] > 0x8f)) /* overlong, above U+10FFFF */
    return 0;
  return n;
}

bool yaml_utf8_check(const uint8_t *data, size_t len, unsigned *line, unsigned *column) {
  *line = *column = 1;
  for (size_t i = 0; i < len;) {
    size_t n = utf8_sequence(data + i, len - i);
    if (n == 0)
      return false;
    if (data[i] == '\n') {
      ++*line;
      *column = 1;
    } else {
      ++*column;
    }
    i += n;
  }
  return true;
}

/* U+0085, U+2028 or U+2029: editors show no line end, so that every later place would be off. */
static bool is_line_separator(const uint8_t *p, size_t len) {
  return (len >= 2 && p[0] == 0xc2 && p[1] == 0x85) ||
         (len >= 3 && p[0] == 0xe2 && p[1] == 0x80 && (p[2] == 0xa8 || p[2] == 0xa9));
}

/* libyaml refuses control characters without a line; this tells where the first one stands. */
static bool check_characters(struct reader *r, const uint8_t *data, size_t len) {
  unsigned line = 1;
  unsigned column = 1;
  struct diag_pos pos = {r->path, 0, 0};
  if (!yaml_utf8_check(data, len, &pos.line, &pos.column)) {
    diag_error(r->problems, pos, "the file is not UTF-8; save it as UTF-8");
    return false;
  }
  for (size_t i = 0; i < len; i++) {
    uint8_t c = data[i];
    if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f) {
      diag_error(r->problems, (struct diag_pos){r->path, line, column},
                 "a control character (byte 0x%02x) is not allowed; remove it", c);
      return false;
    }
    if (is_line_separator(data + i, len - i)) {
      diag_error(r->problems, (struct diag_pos){r->path, line, column},
                 "YAML takes this invisible character for the end of a line; remove it");
      return false;
    }
    if (c == '\n') {
      line++;
      column = 1;
    } else if ((c & 0xc0) != 0x80) {
      column++;
    }
  }
  return true;
}

/* ---- anchors ----------------------------------------------------------------------------------
 */

static bool anchor_start(struct reader *r, const yaml_event_t *event, const yaml_char_t *name,
                         struct yaml_node *node) {
  if (name == NULL)
    return true;
  if (r->anchor_count == YAML_MAX_ANCHORS)
    return fail(r, event->start_mark, "too many anchors: a file may have at most 1000");
  if (r->anchor_count == r->anchor_cap) {
    size_t cap = r->anchor_cap == 0 ? 16 : r->anchor_cap * 2;
    struct anchor *anchors = realloc(r->anchors, cap * sizeof *anchors);
    if (anchors == NULL)
      return no_memory(r);
    r->anchors = anchors;
    r->anchor_cap = cap;
  }
  char *copy = arena_copy(r->arena, name, strlen((const char *)name), 1);
  if (copy == NULL)
    return no_memory(r);
  r->anchors[r->anchor_count++] = (struct anchor){copy, node, 0, 0};
  return true;
}

static void anchor_complete(struct reader *r, const struct yaml_node *node, size_t weight,
                            unsigned height) {
  for (size_t i = r->anchor_count; i-- > 0;) {
    if (r->anchors[i].node != node)
      continue;
    r->anchors[i].weight = weight;
    r->anchors[i].height = height;
    return;
  }
}

static struct anchor *anchor_find(struct reader *r, const char *name) {
  for (size_t i = r->anchor_count;
       i-- > 0;) /* a later anchor of the same name hides earlier ones */
    if (strcmp(r->anchors[i].name, name) == 0)
      return &r->anchors[i];
  return NULL;
}

/* ---- building ---------------------------------------------------------------------------------
 */

static bool grow(struct reader *r, struct open_node *o) {
  if (o->node->count < o->cap)
    return true;
  size_t cap = o->cap == 0 ? 8 : o->cap * 2;
  size_t size = o->node->kind == YAML_LIST ? sizeof(struct yaml_node *) : sizeof(struct yaml_pair);
  void *old = o->node->kind == YAML_LIST ? (void *)o->items : (void *)o->pairs;
  void *grown = realloc(old, cap * size);
  if (grown == NULL)
    return no_memory(r);
  if (o->node->kind == YAML_LIST)
    o->items = grown;
  else
    o->pairs = grown;
  o->cap = cap;
  return true;
}

/* Puts a complete or just opened node where it belongs. */
static bool attach(struct reader *r, struct yaml_node *node, yaml_mark_t mark) {
  if (r->depth == 0) {
    r->root = node;
    return true;
  }
  struct open_node *o = &r->open[r->depth - 1];
  if (o->node->kind == YAML_LIST) {
    if (!grow(r, o))
      return false;
    o->items[o->node->count++] = node;
    return true;
  }
  if (o->key == NULL) {
    if (node->kind != YAML_SCALAR)
      return fail(r, mark, "a key must be plain text, not a list or a map");
    o->key = node;
    return true;
  }
  if (!grow(r, o))
    return false;
  o->pairs[o->node->count++] = (struct yaml_pair){o->key, node};
  o->key = NULL;
  return true;
}

static bool count_weight(struct reader *r, size_t weight, unsigned height, yaml_mark_t mark) {
  if (r->depth > 0) {
    r->open[r->depth - 1].weight += weight;
    if (r->heights[r->depth - 1] < height)
      r->heights[r->depth - 1] = height;
  }
  size_t total = 0;
  for (unsigned i = 0; i < r->depth; i++)
    total += r->open[i].weight;
  if (total > YAML_MAX_EXPANDED)
    return fail(r, mark,
                "too much data: the aliases in this file stand for more than 1048576 values");
  if (r->depth + height > YAML_MAX_DEPTH)
    return fail(r, mark, "too deep: at most 32 lists and maps may stand inside each other");
  return true;
}

static struct yaml_node *new_node(struct reader *r, enum yaml_kind kind,
                                  const yaml_event_t *event) {
  if (++r->nodes > YAML_MAX_NODES) {
    fail(r, event->start_mark, "too much data: a file may hold at most 1048576 values");
    return NULL;
  }
  struct yaml_node *node = arena_alloc(r->arena, sizeof *node, 8);
  if (node == NULL) {
    no_memory(r);
    return NULL;
  }
  memset(node, 0, sizeof *node);
  node->kind = kind;
  node->line = (unsigned)event->start_mark.line + 1;
  node->column = (unsigned)event->start_mark.column + 1;
  return node;
}

static bool on_scalar(struct reader *r, const yaml_event_t *event) {
  if (event->data.scalar.tag != NULL)
    return fail(r, event->start_mark,
                "tags such as `!!str` are not used here; write the value alone");
  if (memchr(event->data.scalar.value, 0, event->data.scalar.length) != NULL)
    return fail(r, event->start_mark, "a text must not hold a NUL character");
  struct yaml_node *node = new_node(r, YAML_SCALAR, event);
  if (node == NULL)
    return false;
  node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
  node->len = event->data.scalar.length;
  node->text = arena_copy(r->arena, event->data.scalar.value, node->len, 1);
  if (node->text == NULL)
    return no_memory(r);
  if (!anchor_start(r, event, event->data.scalar.anchor, node))
    return false;
  if (event->data.scalar.anchor != NULL)
    anchor_complete(r, node, 1, 0);
  return count_weight(r, 1, 0, event->start_mark) && attach(r, node, event->start_mark);
}

static bool on_alias(struct reader *r, const yaml_event_t *event) {
  const char *name = (const char *)event->data.alias.anchor;
  struct anchor *anchor = anchor_find(r, name);
  if (anchor == NULL) {
    diag_error(r->problems, pos_of(r, event->start_mark),
               "the alias `*%s` has no anchor `&%s` before it", name, name);
    return false;
  }
  if (anchor->weight == 0)
    return fail(r, event->start_mark, "an alias must not stand inside the value that it repeats");
  return count_weight(r, anchor->weight, anchor->height, event->start_mark) &&
         attach(r, anchor->node, event->start_mark);
}

static bool on_open(struct reader *r, enum yaml_kind kind, const yaml_event_t *event,
                    const yaml_char_t *anchor, const yaml_char_t *tag, bool flow) {
  if (tag != NULL)
    return fail(r, event->start_mark,
                "tags such as `!!map` are not used here; write the value alone");
  struct yaml_node *node = new_node(r, kind, event);
  if (node == NULL)
    return false;
  node->flow = flow;
  if (!count_weight(r, 1, 1, event->start_mark) || !attach(r, node, event->start_mark) ||
      !anchor_start(r, event, anchor, node))
    return false;
  r->open[r->depth] = (struct open_node){.node = node, .anchored = anchor != NULL};
  r->heights[r->depth] = 0;
  r->depth++;
  return true;
}

static int compare_keys(const void *va, const void *vb) {
  const struct yaml_pair *a = *(const struct yaml_pair *const *)va;
  const struct yaml_pair *b = *(const struct yaml_pair *const *)vb;
  int d = strcmp(a->key->text, b->key->text);
  if (d != 0)
    return d;
  return a < b ? -1 : a > b;
}

static bool check_duplicates(struct reader *r, struct yaml_node *map) {
  if (map->count < 2)
    return true;
  struct yaml_pair **sorted = malloc(map->count * sizeof *sorted);
  if (sorted == NULL)
    return no_memory(r);
  for (size_t i = 0; i < map->count; i++)
    sorted[i] = &map->pairs[i];
  qsort(sorted, map->count, sizeof *sorted, compare_keys);
  const struct yaml_node *first = sorted[0]->key;
  size_t duplicates = 0;
  for (size_t i = 1; i < map->count; i++) {
    struct yaml_node *key = sorted[i]->key;
    if (strcmp(first->text, key->text) != 0) {
      first = key;
      continue;
    }
    diag_error(r->problems, (struct diag_pos){r->path, key->line, key->column},
               "duplicate key `%s` (first in line %u); write it once", key->text, first->line);
    sorted[i]->value = NULL;
    duplicates++;
  }
  free(sorted);
  if (duplicates == 0)
    return true;
  size_t kept = 0;
  for (size_t i = 0; i < map->count; i++)
    if (map->pairs[i].value != NULL)
      map->pairs[kept++] = map->pairs[i];
  map->count = kept;
  return true;
}

static bool on_close(struct reader *r) {
  struct open_node *o = &r->open[--r->depth];
  unsigned height = r->heights[r->depth] + 1;
  size_t weight = o->weight + 1;
  struct yaml_node *node = o->node;
  bool ok = true;
  if (node->kind == YAML_LIST && node->count > 0) {
    node->items = arena_alloc(r->arena, node->count * sizeof *node->items, 8);
    if (node->items != NULL)
      memcpy(node->items, o->items, node->count * sizeof *node->items);
    ok = node->items != NULL;
  }
  if (node->kind == YAML_MAP && node->count > 0) {
    node->pairs = arena_alloc(r->arena, node->count * sizeof *node->pairs, 8);
    if (node->pairs != NULL)
      memcpy(node->pairs, o->pairs, node->count * sizeof *node->pairs);
    ok = node->pairs != NULL;
  }
  bool anchored = o->anchored;
  free(o->items);
  free(o->pairs);
  memset(o, 0, sizeof *o);
  if (!ok)
    return no_memory(r);
  if (anchored)
    anchor_complete(r, node, weight, height);
  if (r->depth > 0) {
    /* The collection itself was counted when it opened; what is inside of it moves to its parent.
     */
    r->open[r->depth - 1].weight += weight - 1;
    if (r->heights[r->depth - 1] < height)
      r->heights[r->depth - 1] = height;
  }
  return node->kind != YAML_MAP || check_duplicates(r, node);
}

static bool on_event(struct reader *r, const yaml_event_t *event) {
  switch (event->type) {
  case YAML_DOCUMENT_START_EVENT:
    if (++r->documents > 1)
      return fail(r, event->start_mark,
                  "several documents in one file; remove this `---` and what follows");
    return true;
  case YAML_ALIAS_EVENT:
    return on_alias(r, event);
  case YAML_SCALAR_EVENT:
    return on_scalar(r, event);
  case YAML_SEQUENCE_START_EVENT:
    return on_open(r, YAML_LIST, event, event->data.sequence_start.anchor,
                   event->data.sequence_start.tag,
                   event->data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE);
  case YAML_MAPPING_START_EVENT:
    return on_open(r, YAML_MAP, event, event->data.mapping_start.anchor,
                   event->data.mapping_start.tag,
                   event->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE);
  case YAML_SEQUENCE_END_EVENT:
  case YAML_MAPPING_END_EVENT:
    return on_close(r);
  default:
    return true;
  }
}

/* True if the line of the mark has an unquoted IPv6 address in brackets or braces. */
static bool line_has_flow_ipv6(const uint8_t *data, size_t len, size_t line) {
  size_t at = 0;
  for (size_t n = 0; n < line && at < len; at++)
    if (data[at] == '\n')
      n++;
  bool flow = false;
  for (; at + 1 < len && data[at] != '\n'; at++) {
    if (data[at] == '[' || data[at] == '{')
      flow = true;
    if (flow && data[at] == ':' && data[at + 1] == ':')
      return true;
  }
  return false;
}

/* The byte under the mark, 0 past the end.  Its index counts characters, so it is counted anew. */
static uint8_t byte_at(const uint8_t *data, size_t len, yaml_mark_t mark) {
  size_t at = 0;
  for (size_t n = 0; n < mark.line && at < len; at++)
    n += data[at] == '\n';
  for (size_t n = 0; n < mark.column && at < len; n++)
    do
      at++;
    while (at < len && (data[at] & 0xc0) == 0x80);
  return at < len ? data[at] : 0;
}

static bool parser_failed(struct reader *r, const yaml_parser_t *parser, const uint8_t *data,
                          size_t len) {
  if (parser->error == YAML_MEMORY_ERROR)
    return no_memory(r);
  if (parser->problem != NULL && strstr(parser->problem, "<document start>") != NULL)
    return fail(r, parser->problem_mark,
                "several documents in one file; remove the `...` above and what follows");
  if (byte_at(data, len, parser->problem_mark) == '\t')
    return fail(r, parser->problem_mark,
                "YAML is indented with spaces; replace this tab by spaces");
  bool ipv6 = line_has_flow_ipv6(data, len, parser->problem_mark.line) ||
              line_has_flow_ipv6(data, len, parser->context_mark.line);
  diag_error(r->problems, pos_of(r, parser->problem_mark), "this is not valid YAML: %s%s%s%s",
             parser->problem != NULL ? parser->problem : "it cannot be read",
             parser->context != NULL ? ", " : "", parser->context != NULL ? parser->context : "",
             ipv6 ? "; an IPv6 address inside [ ] or { } must stand in quotes, as \"::1\"" : "");
  return false;
}

static bool run(struct reader *r, yaml_parser_t *parser, const uint8_t *data, size_t len) {
  for (;;) {
    yaml_event_t event;
    if (!yaml_parser_parse(parser, &event))
      return parser_failed(r, parser, data, len);
    bool end = event.type == YAML_STREAM_END_EVENT;
    bool ok = on_event(r, &event);
    yaml_event_delete(&event);
    if (!ok || end)
      return ok;
  }
}

static struct yaml_node *empty_map(struct reader *r) {
  struct yaml_node *node = arena_alloc(r->arena, sizeof *node, 8);
  if (node == NULL) {
    no_memory(r);
    return NULL;
  }
  *node = (struct yaml_node){.kind = YAML_MAP, .line = 1, .column = 1};
  return node;
}

struct yaml_node *yaml_tree_read(const char *path, const uint8_t *data, size_t len,
                                 struct arena *arena, struct diag_list *problems) {
  struct diag_pos start = {path, 0, 0};
  if (len > YAML_MAX_BYTES) {
    diag_error(problems, start, "the file is too large: at most 4 MiB");
    return NULL;
  }
  struct reader *r = calloc(1, sizeof *r);
  if (r == NULL) {
    diag_error(problems, start, "out of memory");
    return NULL;
  }
  *r = (struct reader){.path = path, .arena = arena, .problems = problems};
  struct yaml_node *result = NULL;
  yaml_parser_t parser;
  if (!check_characters(r, data, len))
    goto out;
  if (!yaml_parser_initialize(&parser)) {
    no_memory(r);
    goto out;
  }
  if (len >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0) { /* a byte order mark is no character */
    data += 3;
    len -= 3;
  }
  yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string(&parser, data, len);
  if (run(r, &parser, data, len)) {
    bool empty = r->root == NULL || (r->root->kind == YAML_SCALAR && r->root->len == 0);
    result = empty ? empty_map(r) : r->root;
  }
  yaml_parser_delete(&parser);
out:
  for (unsigned i = 0; i < r->depth; i++) {
    free(r->open[i].items);
    free(r->open[i].pairs);
  }
  free(r->anchors);
  free(r);
  return result;
}

struct yaml_node *yaml_get_key(const struct yaml_node *map, const char *key) {
  for (size_t i = 0; map != NULL && map->kind == YAML_MAP && i < map->count; i++)
    if (strcmp(map->pairs[i].key->text, key) == 0)
      return map->pairs[i].key;
  return NULL;
}

struct yaml_node *yaml_get(const struct yaml_node *map, const char *key) {
  for (size_t i = 0; map != NULL && map->kind == YAML_MAP && i < map->count; i++)
    if (strcmp(map->pairs[i].key->text, key) == 0)
      return map->pairs[i].value;
  return NULL;
}

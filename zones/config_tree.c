/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/config_tree.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILES = 1000000 };

static const char *const known_names[] = {"defaults.yaml", "zone.yaml", "domain.yaml"};

struct listing {
  struct config *config;
  struct config_tree *tree;
  size_t files;
};

__attribute__((format(printf, 3, 4))) static void problem(struct listing *l, const char *path,
                                                          const char *format, ...) {
  const char *shown = config_shown(l->config, path);
  char message[512];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  if (shown != NULL)
    diag_error(l->config->problems, (struct diag_pos){shown, 0, 0}, "%s", message);
}

/* ---- building ---------------------------------------------------------------------------------
 */

static struct config_dir *get_dir(struct config_tree *tree, const char *name, size_t len) {
  /* The list comes in order, so the directory is the last one or new. */
  for (size_t i = tree->dir_count; i-- > 0;)
    if (strncmp(tree->dirs[i].name, name, len) == 0 && tree->dirs[i].name[len] == '\0')
      return &tree->dirs[i];
  if (tree->dir_count == tree->dir_cap) {
    size_t cap = tree->dir_cap == 0 ? 16 : tree->dir_cap * 2;
    struct config_dir *dirs = realloc(tree->dirs, cap * sizeof *dirs);
    if (dirs == NULL)
      return NULL;
    tree->dirs = dirs;
    tree->dir_cap = cap;
  }
  struct config_dir *dir = &tree->dirs[tree->dir_count];
  *dir = (struct config_dir){.name = strndup(name, len)};
  if (dir->name == NULL)
    return NULL;
  tree->dir_count++;
  return dir;
}

static bool add_domain(struct config_dir *dir, const char *path, const char *name, size_t len) {
  if (dir->domain_count == dir->domain_cap) {
    size_t cap = dir->domain_cap == 0 ? 16 : dir->domain_cap * 2;
    struct config_leaf *domains = realloc(dir->domains, cap * sizeof *domains);
    if (domains == NULL)
      return false;
    dir->domains = domains;
    dir->domain_cap = cap;
  }
  struct config_leaf leaf = {strdup(path), strndup(name, len)};
  if (leaf.path == NULL || leaf.name == NULL) {
    free(leaf.path);
    free(leaf.name);
    return false;
  }
  dir->domains[dir->domain_count++] = leaf;
  return true;
}

/* ---- judging names ----------------------------------------------------------------------------
 */

/* The known name that a wrong one was meant to be, or NULL: another case, .yml, one slip. */
static const char *near_name(const char *base) {
  char copy[32];
  size_t n = strlen(base);
  if (n >= sizeof copy)
    return NULL;
  memcpy(copy, base, n + 1);
  if (n > 4 && strcasecmp(copy + n - 4, ".yml") == 0)
    memcpy(copy + n - 4, ".yaml", 6);
  for (size_t i = 0; i < 3; i++)
    if (strcmp(base, known_names[i]) != 0 && diag_distance(copy, known_names[i]) <= 1)
      return known_names[i];
  return NULL;
}

static bool is_hidden(const char *path) {
  return path[0] == '.' || strstr(path, "/.") != NULL;
}

static bool is_known_name(const char *base) {
  for (size_t i = 0; i < sizeof known_names / sizeof *known_names; i++)
    if (strcmp(base, known_names[i]) == 0)
      return true;
  return false;
}

static unsigned count_slashes(const char *path) {
  unsigned n = 0;
  for (; *path != '\0'; path++)
    n += *path == '/';
  return n;
}

static bool visit_file(struct listing *l, const char *path) {
  const char *slash = strrchr(path, '/');
  const char *base = slash != NULL ? slash + 1 : path;
  unsigned depth = count_slashes(path);
  const char *meant = near_name(base);
  /* Other programs have files such as default.yaml too; deep down they are theirs. */
  if (meant != NULL && (depth <= 2 || meant != known_names[0])) {
    problem(l, path,
            "the name of this file is close to `%s`, but only that exact name is read; "
            "rename it",
            meant);
    return true;
  }
  if (strcmp(base, known_names[0]) == 0) {
    if (depth == 0)
      l->tree->defaults = true;
    else
      problem(l, path, "%s belongs at the root of the repository, not in a directory; move it",
              base);
    return true;
  }
  bool is_zone = strcmp(base, known_names[1]) == 0;
  bool is_domain = strcmp(base, known_names[2]) == 0;
  if (!is_zone && !is_domain)
    return true;
  if (depth != (is_zone ? 1 : 2)) {
    problem(l, path,
            is_zone ? "%s must stand in the directory of its zone, as example.com/zone.yaml%s"
                    : "%s must stand in a directory of its own below its zone, as "
                      "example.com/cdn/domain.yaml%s",
            base, depth == 0 ? "; if it does, give the root of the configuration instead" : "");
    return true;
  }
  const char *first = strchr(path, '/');
  struct config_dir *dir = get_dir(l->tree, path, (size_t)(first - path));
  if (dir == NULL)
    return config_no_memory(l->config);
  if (is_domain)
    return add_domain(dir, path, first + 1, (size_t)(slash - first - 1)) ||
           config_no_memory(l->config);
  dir->zone_file = strdup(path);
  return dir->zone_file != NULL || config_no_memory(l->config);
}

/* A pipe, a socket or a device: a domain behind one must not be left out in silence. */
static void visit_special(struct listing *l, const char *path) {
  const char *slash = strrchr(path, '/');
  const char *base = slash != NULL ? slash + 1 : path;
  if (is_known_name(base) || near_name(base) != NULL)
    problem(l, path, "only regular files are read, this is a special file; put a file here");
}

static bool visit_kept(struct listing *l, const char *path) {
  struct config_dir *dir = get_dir(l->tree, path, strlen(path));
  if (dir == NULL)
    return config_no_memory(l->config);
  dir->kept = true;
  return true;
}

static bool visit(void *arg, const char *path, char kind) {
  struct listing *l = arg;
  if (++l->files > MAX_FILES) {
    problem(l, "", "more than %d files; this is no configuration", MAX_FILES);
    return false;
  }
  if (is_hidden(path))
    return true;
  if (kind == 'l')
    problem(l, path,
            "symbolic links are not followed, as they may leave the repository; put the file "
            "itself here");
  else if (kind == 's')
    problem(l, path,
            "a submodule leaves the repository and is not read; put the files themselves "
            "here");
  else if (kind == 'f')
    return visit_file(l, path);
  else if (kind == 'k')
    return visit_kept(l, path);
  else
    visit_special(l, path);
  return true;
}

static void check_lone_domains(struct listing *l) {
  for (size_t i = 0; i < l->tree->dir_count; i++) {
    const struct config_dir *dir = &l->tree->dirs[i];
    for (size_t d = 0; dir->zone_file == NULL && d < dir->domain_count; d++)
      problem(l, dir->domains[d].path,
              "the domain has no zone: `%.200s/zone.yaml` is missing; add it", dir->name);
  }
}

bool config_tree_read(struct config *config, struct config_tree *tree) {
  struct listing l = {config, tree, 0};
  char why[512] = "";
  memset(tree, 0, sizeof *tree);
  if (!config->source->list(config->source, visit, &l, why)) {
    if (why[0] != '\0' || config->problems->errors == 0)
      problem(&l, "", "%s", why[0] != '\0' ? why : "the files cannot be listed");
    return false;
  }
  check_lone_domains(&l);
  return true;
}

void config_tree_close(struct config_tree *tree) {
  for (size_t i = 0; i < tree->dir_count; i++) {
    struct config_dir *dir = &tree->dirs[i];
    for (size_t d = 0; d < dir->domain_count; d++) {
      free(dir->domains[d].path);
      free(dir->domains[d].name);
    }
    free(dir->domains);
    free(dir->zone_file);
    free(dir->name);
  }
  free(tree->dirs);
}

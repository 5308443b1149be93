/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/source_git.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zones/arena.h"

enum { WHY = 512, MAX_DEPTH = 64, MAX_PATH = 4096 };

/* A regular file of the tree. */
struct file {
  const char *path;
  git_oid id;
};

struct source_git {
  struct config_source base;
  git_repository *repo;
  bool owned; /* the repository is closed with the source */
  git_odb *odb;
  git_tree *root;
  struct arena paths;
  struct file *files; /* what list() met; sorted by path once it is complete */
  size_t count;
  size_t cap;
  bool listed;
};

/* ---- listing ----------------------------------------------------------------------------------
 */

struct walk {
  struct source_git *source;
  bool (*visit)(void *arg, const char *path, char kind);
  void *arg;
  char *why;
  char path[MAX_PATH];
};

/* An entry that no file system could hold, or that would lead out of its directory. */
static bool is_file_name(const char *name) {
  return name[0] != '\0' && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
         strchr(name, '/') == NULL;
}

static int compare_entries(const void *a, const void *b) {
  return strcmp(git_tree_entry_name(*(const git_tree_entry *const *)a),
                git_tree_entry_name(*(const git_tree_entry *const *)b));
}

/* The entries in the order of their names (git's own takes directories as if they ended in "/");
 * malloc'd.  NULL, with the reason, if one has no file name or two have the same. */
static const git_tree_entry **sorted_entries(const struct walk *w, const git_tree *tree,
                                             size_t count) {
  const git_tree_entry **entries = calloc(count + 1, sizeof *entries);
  if (entries == NULL) {
    snprintf(w->why, WHY, "out of memory");
    return NULL;
  }
  bool ok = true;
  for (size_t i = 0; ok && i < count; i++) {
    entries[i] = git_tree_entry_byindex(tree, i);
    ok = is_file_name(git_tree_entry_name(entries[i]));
    if (!ok)
      snprintf(w->why, WHY, "%.200s: the commit has an entry `%.100s` here, which is no file name",
               w->path[0] ? w->path : ".", git_tree_entry_name(entries[i]));
  }
  if (ok && count > 1)
    qsort(entries, count, sizeof *entries, compare_entries);
  for (size_t i = 1; ok && i < count; i++) {
    ok = strcmp(git_tree_entry_name(entries[i - 1]), git_tree_entry_name(entries[i])) != 0;
    if (!ok)
      snprintf(w->why, WHY, "%.200s: the commit has two entries `%.100s` here",
               w->path[0] ? w->path : ".", git_tree_entry_name(entries[i]));
  }
  if (ok)
    return entries;
  free(entries);
  return NULL;
}

static bool remember(struct source_git *s, const char *path, const git_oid *id, char *why) {
  if (s->count == s->cap) {
    size_t cap = s->cap == 0 ? 256 : s->cap * 2;
    struct file *files = realloc(s->files, cap * sizeof *files);
    if (files == NULL) {
      snprintf(why, WHY, "out of memory");
      return false;
    }
    s->files = files;
    s->cap = cap;
  }
  size_t n = strlen(path) + 1;
  char *copy = arena_alloc(&s->paths, n, 1);
  if (copy == NULL) {
    snprintf(why, WHY, "out of memory");
    return false;
  }
  memcpy(copy, path, n);
  s->files[s->count++] = (struct file){.path = copy, .id = *id};
  return true;
}

static bool walk_tree(struct walk *w, const git_tree *tree, size_t len, unsigned depth);

static bool walk_below(struct walk *w, const git_tree_entry *entry, size_t len, unsigned depth) {
  struct source_git *s = w->source;
  if (strcmp(git_tree_entry_name(entry), ".git") == 0)
    return true;
  if (depth == 0 && s->base.is_kept != NULL && s->base.is_kept(s->base.kept, w->path))
    return w->visit(w->arg, w->path, 'k');
  if (depth + 1 >= MAX_DEPTH) {
    snprintf(w->why, WHY, "%.300s: directories are nested too deep", w->path);
    return false;
  }
  git_tree *below = NULL;
  char what[200];
  snprintf(what, sizeof what, "read %.150s", w->path);
  if (git_tree_lookup(&below, s->repo, git_tree_entry_id(entry)) != 0)
    return git_repo_fail(w->why, what);
  bool ok = walk_tree(w, below, len, depth + 1);
  git_tree_free(below);
  return ok;
}

static bool walk_entry(struct walk *w, const git_tree_entry *entry, size_t len, unsigned depth) {
  const char *name = git_tree_entry_name(entry);
  size_t n = strlen(name);
  if (len + n + 2 > sizeof w->path) {
    snprintf(w->why, WHY, "a path is longer than 4095 bytes");
    return false;
  }
  if (len > 0)
    w->path[len++] = '/';
  memcpy(w->path + len, name, n + 1);
  len += n;
  switch (git_tree_entry_filemode(entry)) {
  case GIT_FILEMODE_TREE:
    return walk_below(w, entry, len, depth);
  case GIT_FILEMODE_BLOB:
  case GIT_FILEMODE_BLOB_EXECUTABLE:
    return remember(w->source, w->path, git_tree_entry_id(entry), w->why) &&
           w->visit(w->arg, w->path, 'f');
  case GIT_FILEMODE_LINK:
    return w->visit(w->arg, w->path, 'l');
  case GIT_FILEMODE_COMMIT:
    return w->visit(w->arg, w->path, 's');
  default:
    return w->visit(w->arg, w->path, 'o');
  }
}

/* Recurses at most MAX_DEPTH deep. */
static bool walk_tree(struct walk *w, const git_tree *tree, size_t len, unsigned depth) {
  size_t count = git_tree_entrycount(tree);
  const git_tree_entry **entries = sorted_entries(w, tree, count);
  bool ok = entries != NULL;
  for (size_t i = 0; ok && i < count; i++) {
    ok = walk_entry(w, entries[i], len, depth);
    w->path[len] = '\0';
  }
  free(entries);
  return ok;
}

static int compare_files(const void *a, const void *b) {
  return strcmp(((const struct file *)a)->path, ((const struct file *)b)->path);
}

static bool list(struct config_source *source, bool (*visit)(void *, const char *, char), void *arg,
                 char *why) {
  struct source_git *s = (struct source_git *)source;
  struct walk *w = calloc(1, sizeof *w);
  if (w == NULL) {
    snprintf(why, WHY, "out of memory");
    return false;
  }
  why[0] = '\0';
  *w = (struct walk){.source = s, .visit = visit, .arg = arg, .why = why};
  s->count = 0;
  s->listed = false;
  bool ok = walk_tree(w, s->root, 0, 0);
  if (ok && s->count > 1)
    qsort(s->files, s->count, sizeof *s->files, compare_files);
  s->listed = ok;
  free(w);
  return ok;
}

/* ---- reading ----------------------------------------------------------------------------------
 */

/* A file of a directory that was not listed. */
static bool find_by_path(struct source_git *s, const char *path, git_oid *id, char *why) {
  git_tree_entry *entry = NULL;
  if (git_tree_entry_bypath(&entry, s->root, path) != 0) {
    snprintf(why, WHY, "cannot read %.300s: there is no such file in the commit", path);
    return false;
  }
  git_filemode_t mode = git_tree_entry_filemode(entry);
  bool ok = mode == GIT_FILEMODE_BLOB || mode == GIT_FILEMODE_BLOB_EXECUTABLE;
  if (ok)
    *id = *git_tree_entry_id(entry);
  else
    snprintf(why, WHY, "cannot read %.300s: %s", path,
             mode == GIT_FILEMODE_LINK ? "symbolic links are not followed"
                                       : "it is not a regular file");
  git_tree_entry_free(entry);
  return ok;
}

static bool find_file(struct source_git *s, const char *path, git_oid *id, char *why) {
  struct file wanted = {.path = path};
  const struct file *found = NULL;
  if (s->listed && s->count > 0)
    found = bsearch(&wanted, s->files, s->count, sizeof *s->files, compare_files);
  if (found == NULL)
    return find_by_path(s, path, id, why);
  *id = found->id;
  return true;
}

/* Notes what a zone takes from another directory than its own. */
static void note_outside(struct source_git *s, const char *path) {
  const char *own = s->base.reading;
  size_t n = own != NULL ? strlen(own) : 0;
  if (own != NULL && (strncmp(path, own, n) != 0 || path[n] != '/'))
    s->base.read_outside = true;
}

static bool read_path(struct config_source *source, const char *path, size_t limit, uint8_t **data,
                      size_t *len, char *why) {
  struct source_git *s = (struct source_git *)source;
  git_oid id;
  size_t size;
  git_object_t type;
  git_odb_object *object = NULL;
  char what[200];
  snprintf(what, sizeof what, "read %.150s", path);
  note_outside(s, path);
  if (!find_file(s, path, &id, why))
    return false;
  if (git_odb_read_header(&size, &type, s->odb, &id) != 0)
    return git_repo_fail(why, what);
  if (type == GIT_OBJECT_BLOB && size > limit) {
    snprintf(why, WHY, "the file is too large: %zu bytes, at most %zu are allowed", size, limit);
    return false;
  }
  if (type != GIT_OBJECT_BLOB || git_odb_read(&object, s->odb, &id) != 0)
    return git_repo_fail(why, what);
  size = git_odb_object_size(object);
  uint8_t *copy = size <= limit ? malloc(size + 1) : NULL;
  if (copy != NULL) {
    memcpy(copy, git_odb_object_data(object), size);
    copy[size] = '\0';
    *data = copy;
    *len = size;
  } else {
    snprintf(why, WHY, "cannot read %.300s: out of memory", path);
  }
  git_odb_object_free(object);
  return copy != NULL;
}

/* ---- opening ----------------------------------------------------------------------------------
 */

static void close_source(struct config_source *source) {
  struct source_git *s = (struct source_git *)source;
  git_tree_free(s->root);
  git_odb_free(s->odb);
  if (s->owned)
    git_repo_close(s->repo);
  arena_close(&s->paths);
  free(s->files);
  free(s);
}

bool config_source_open_commit(git_repository *repo, git_commit *commit,
                               struct config_source **source, char *why) {
  struct source_git *s = calloc(1, sizeof *s);
  if (s == NULL) {
    snprintf(why, WHY, "out of memory");
    return false;
  }
  s->repo = repo;
  arena_init(&s->paths);
  s->base =
      (struct config_source){.list = list, .read = read_path, .close = close_source, .prefix = ""};
  if (git_commit_tree(&s->root, commit) != 0 || git_repository_odb(&s->odb, repo) != 0) {
    git_repo_fail(why, "read the tree of the commit");
    close_source(&s->base);
    return false;
  }
  *source = &s->base;
  return true;
}

bool config_source_open_git(const char *repository, const char *revision,
                            struct config_source **source, struct source_git_commit *commit,
                            char *why) {
  git_repository *repo = NULL;
  git_commit *found = NULL;
  if (!git_repo_open(repository, &repo, why))
    return false;
  bool ok = git_repo_commit(repo, revision, &found, why) &&
            config_source_open_commit(repo, found, source, why);
  if (ok) {
    git_oid_tostr(commit->id, sizeof commit->id, git_commit_id(found));
    commit->time = git_commit_time(found);
    ((struct source_git *)*source)->owned = true;
  }
  git_commit_free(found);
  if (!ok)
    git_repo_close(repo);
  return ok;
}

bool source_git_roots(struct config_source *source,
                      bool (*visit)(void *arg, const char *name, const char *id, bool directory),
                      void *arg) {
  struct source_git *s = (struct source_git *)source;
  char id[GIT_REPO_ID];
  size_t count = git_tree_entrycount(s->root);
  for (size_t i = 0; i < count; i++) {
    const git_tree_entry *entry = git_tree_entry_byindex(s->root, i);
    git_oid_tostr(id, sizeof id, git_tree_entry_id(entry));
    if (!visit(arg, git_tree_entry_name(entry), id,
               git_tree_entry_filemode(entry) == GIT_FILEMODE_TREE))
      return false;
  }
  return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sync/saved.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fs.h"
#include "tools/cli.h"
#include "tools/client.h"
#include "tools/wrap.h"

enum { FORMAT = 1, SAVED_MAX = 256 << 20, MODE = 0600, NAMES_MAX = 100000, SHOWN = 20 };

static const char kind[] = "sluice sync plan";

static const struct {
  unsigned bit;
  const char *name;
} consents[] = {{SYNC_TAKE_OVER, "take-over"},
                {SYNC_NS_CHANGE, "allow-ns-change"},
                {SYNC_LAST, "allow-last"},
                {SYNC_LARGE, "allow-large"}};

/* ---- writing --------------------------------------------------------------------------------- */

static json_t *targets_json(const struct sync_run *run) {
  json_t *list = json_array();
  for (size_t i = 0; list && i < run->target_count; i++) {
    const struct sync_target *t = &run->targets[i];
    json_t *items = t->state == SYNC_FAILED ? NULL : sync_plan_json(&t->plan);
    if (t->state == SYNC_FAILED)
      continue;
    if (!items ||
        json_array_append_new(list, json_pack("{s:s, s:s, s:o}", "provider", t->provider->name,
                                              "zone", t->zone->name, "items", items)) != 0) {
      json_decref(list);
      return NULL;
    }
  }
  return list;
}

static json_t *document(const struct sync_run *run) {
  char digest[SYNC_DIGEST];
  json_t *names = json_array();
  json_t *given = json_array();
  for (size_t i = 0; i < run->options.arg_count; i++)
    json_array_append_new(names, json_string(run->options.args[i]));
  for (size_t i = 0; i < CLI_COUNT(consents); i++)
    if (run->options.consents & consents[i].bit)
      json_array_append_new(given, json_string(consents[i].name));
  json_t *targets = targets_json(run);
  if (!targets || !sync_run_digest(run, digest)) {
    json_decref(names);
    json_decref(given);
    json_decref(targets);
    return NULL;
  }
  return json_pack("{s:i, s:s, s:I, s:s, s:s?, s:o, s:s?, s:o, s:s, s:o}", "format", FORMAT, "kind",
                   kind, "made", (json_int_t)time(NULL), "actor", client_user(), "git",
                   *run->commit.id ? run->commit.id : NULL, "names", names, "providers",
                   run->options.provider, "consents", given, "digest", digest, "targets", targets);
}

bool sync_saved_write(const struct sync_run *run, const char *path) {
  char why[FS_WHY] = "out of memory";
  json_t *root = document(run);
  char *text = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
  bool ok = text && fs_write_atomic(path, text, strlen(text), MODE, why);
  if (!ok)
    cli_error("the plan was not saved: %s", why);
  free(text);
  json_decref(root);
  return ok;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool is_digest(const char *text) {
  return text && strlen(text) == SYNC_DIGEST - 1 &&
         strspn(text, "0123456789abcdef") == SYNC_DIGEST - 1;
}

/* Texts of at most 1000 octets. */
static bool is_list(const json_t *list) {
  size_t i;
  const json_t *item;
  if (!json_is_array(list) || json_array_size(list) > NAMES_MAX)
    return false;
  json_array_foreach(list, i, item) {
    if (!json_is_string(item) || json_string_length(item) > 1000)
      return false;
  }
  return true;
}

static bool is_consent_list(const json_t *list) {
  size_t i;
  const json_t *item;
  if (!is_list(list))
    return false;
  json_array_foreach(list, i, item) {
    bool known = false;
    for (size_t k = 0; k < CLI_COUNT(consents); k++)
      known = known || strcmp(json_string_value(item), consents[k].name) == 0;
    if (!known)
      return false;
  }
  return true;
}

static bool is_target(const json_t *target) {
  size_t i;
  const json_t *item;
  const json_t *items = json_object_get(target, "items");
  if (!json_is_string(json_object_get(target, "provider")) ||
      !json_is_string(json_object_get(target, "zone")) || !json_is_array(items))
    return false;
  json_array_foreach(items, i, item) {
    if (!json_is_string(json_object_get(item, "key")) ||
        !json_is_string(json_object_get(item, "op")))
      return false;
  }
  return true;
}

static bool are_targets(const json_t *list) {
  size_t i;
  const json_t *item;
  if (!json_is_array(list))
    return false;
  json_array_foreach(list, i, item) {
    if (!is_target(item))
      return false;
  }
  return true;
}

static const char *what_is_wrong(const json_t *root) {
  const json_t *providers = json_object_get(root, "providers");
  const char *its_kind = json_string_value(json_object_get(root, "kind"));
  if (!its_kind || strcmp(its_kind, kind) != 0)
    return "it is no plan of `sluice sync plan --out`";
  if (json_integer_value(json_object_get(root, "format")) != FORMAT)
    return "its format is that of another version; make it again with `sluice sync plan --out`";
  if (!is_digest(json_string_value(json_object_get(root, "digest"))))
    return "its `digest` is not one";
  if (!is_list(json_object_get(root, "names")))
    return "its `names` must be a list of zones and domains";
  if (!json_is_null(providers) && !json_is_string(providers))
    return "its `providers` must be names with commas between them";
  if (!is_consent_list(json_object_get(root, "consents")))
    return "its `consents` must be names of options";
  if (!are_targets(json_object_get(root, "targets")))
    return "its `targets` must be lists of changes";
  return NULL;
}

json_t *sync_saved_parse(const uint8_t *text, size_t len, char *why) {
  json_error_t error;
  json_t *root = json_loadb((const char *)text, len, JSON_REJECT_DUPLICATES, &error);
  if (!root) {
    snprintf(why, SYNC_SAVED_WHY, "line %d: %.200s", error.line, error.text);
    return NULL;
  }
  const char *wrong = what_is_wrong(root);
  if (!wrong)
    return root;
  snprintf(why, SYNC_SAVED_WHY, "%s", wrong);
  json_decref(root);
  return NULL;
}

json_t *sync_saved_read(const char *path, char *why) {
  char reason[SYNC_SAVED_WHY];
  uint8_t *text;
  size_t len;
  if (!fs_read(path, SAVED_MAX, &text, &len, why))
    return NULL;
  json_t *root = sync_saved_parse(text, len, reason);
  free(text);
  if (!root)
    snprintf(why, SYNC_SAVED_WHY, "%.200s cannot be used: %.250s", path, reason);
  return root;
}

bool sync_saved_options(const json_t *saved, struct sync_options *options) {
  const json_t *names = json_object_get(saved, "names");
  size_t i;
  const json_t *item;
  options->args = calloc(json_array_size(names) + 1, sizeof *options->args);
  if (!options->args)
    return false;
  options->arg_count = json_array_size(names);
  json_array_foreach(names, i, item) {
    options->args[i] = (char *)(uintptr_t)json_string_value(item);
  }
  options->provider = json_string_value(json_object_get(saved, "providers"));
  options->consents = 0;
  json_array_foreach(json_object_get(saved, "consents"), i, item) {
    for (size_t k = 0; k < CLI_COUNT(consents); k++)
      if (strcmp(json_string_value(item), consents[k].name) == 0)
        options->consents |= consents[k].bit;
  }
  return true;
}

const char *sync_saved_digest(const json_t *saved) {
  return json_string_value(json_object_get(saved, "digest"));
}

/* ---- comparing ------------------------------------------------------------------------------- */

static const char *text_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

static const json_t *find_target(const json_t *targets, const json_t *wanted) {
  size_t i;
  const json_t *target;
  json_array_foreach(targets, i, target) {
    if (strcmp(text_of(target, "provider"), text_of(wanted, "provider")) == 0 &&
        strcmp(text_of(target, "zone"), text_of(wanted, "zone")) == 0)
      return target;
  }
  return NULL;
}

static bool add(json_t *out, const json_t *target, const char *key, const json_t *then,
                const json_t *now) {
  return json_array_append_new(
             out, json_pack("{s:s, s:s, s:s, s:O?, s:O?}", "provider", text_of(target, "provider"),
                            "zone", text_of(target, "zone"), "key", key, "then",
                            (json_t *)(uintptr_t)then, "now", (json_t *)(uintptr_t)now)) == 0;
}

/* {KEY: item}, borrowed. */
static json_t *by_key(const json_t *target) {
  json_t *out = json_object();
  size_t i;
  json_t *item;
  json_array_foreach(json_object_get(target, "items"), i, item) {
    json_object_set(out, text_of(item, "key"), item);
  }
  return out;
}

/* What differs between the two lists of one zone at one provider. */
static bool compare_items(json_t *out, const json_t *target, const json_t *then,
                          const json_t *now) {
  const char *key;
  json_t *item;
  json_t *a = by_key(then);
  json_t *b = by_key(now);
  bool ok = a && b;
  json_object_foreach(a, key, item) {
    json_t *other = json_object_get(b, key);
    if (ok && (!other || !json_equal(item, other)))
      ok = add(out, target, key, item, other);
  }
  json_object_foreach(b, key, item) {
    if (ok && !json_object_get(a, key))
      ok = add(out, target, key, NULL, item);
  }
  json_decref(a);
  json_decref(b);
  return ok;
}

json_t *sync_saved_compare(const json_t *saved, const struct sync_run *run) {
  const json_t *then = json_object_get(saved, "targets");
  json_t *now = targets_json(run);
  json_t *out = json_array();
  bool ok = now && out;
  size_t i;
  const json_t *target;
  json_array_foreach(then, i, target) {
    const json_t *other = find_target(now, target);
    if (ok)
      ok = other ? compare_items(out, target, target, other) : add(out, target, "", target, NULL);
  }
  json_array_foreach(now, i, target) {
    if (ok && !find_target(then, target))
      ok = add(out, target, "", NULL, target);
  }
  json_decref(now);
  if (ok)
    return out;
  json_decref(out);
  return NULL;
}

static const char *what_differs(const json_t *difference) {
  const json_t *then = json_object_get(difference, "then");
  const json_t *now = json_object_get(difference, "now");
  if (*text_of(difference, "key") == '\0')
    return json_is_null(then) ? "is read now, and was not when the plan was made"
                              : "cannot be read now, or is not asked for any more";
  if (json_is_null(now))
    return "nothing is to be done any more";
  if (json_is_null(then))
    return "is to be changed now, and was not in the plan";
  if (!json_equal(json_object_get(then, "old"), json_object_get(now, "old")))
    return "is not as it was at the provider";
  if (!json_equal(json_object_get(then, "new"), json_object_get(now, "new")))
    return "is to become something else than planned";
  return "is held back at one of the two times only";
}

void sync_saved_show(const json_t *differences) {
  size_t i;
  const json_t *difference;
  json_array_foreach(differences, i, difference) {
    if (i == SHOWN) {
      printf("  and %zu more\n", json_array_size(differences) - SHOWN);
      return;
    }
    wrap_print("  ", 4, "%s: %s %s: %s", text_of(difference, "provider"),
               text_of(difference, "zone"), text_of(difference, "key"), what_differs(difference));
  }
}

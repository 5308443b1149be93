/* SPDX-License-Identifier: Apache-2.0 */
#include "server/author.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>

static bool may_say_as(const struct settings *settings, uid_t uid, const char *login) {
  if (uid == 0)
    return true;
  for (size_t i = 0; i < settings->as_count; i++)
    if (strcmp(settings->as[i], login) == 0)
      return true;
  return false;
}

bool author_find(const struct settings *settings, uid_t uid, const char *as, const char *origin,
                 struct author *author, char *why) {
  char login[AUTHOR_NAME];
  const struct passwd *user = getpwuid(uid);
  if (user != NULL)
    snprintf(login, sizeof login, "%.256s", user->pw_name);
  else
    snprintf(login, sizeof login, "uid %lu", (unsigned long)uid);
  bool same = as == NULL || strcmp(as, login) == 0;
  if (!same && !may_say_as(settings, uid, login)) {
    snprintf(why, AUTHOR_WHY,
             "user %.100s may not act as %.100s; list %.100s under `as:` in the settings of the "
             "server to allow it",
             login, as, login);
    return false;
  }
  snprintf(author->who, sizeof author->who, "%s", same ? login : as);
  snprintf(author->origin, sizeof author->origin, "%s%s%s%s", origin != NULL ? origin : "",
           origin != NULL && !same ? ", " : "", same ? "" : "via ", same ? "" : login);
  return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "server/privileges.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

bool privileges_find(const char *user, struct privileges *found, char *why) {
  errno = 0;
  const struct passwd *entry = getpwnam(user);
  if (entry == NULL) {
    snprintf(why, PRIVILEGES_WHY, "user `%.100s`: %s", user,
             errno != 0 ? strerror(errno) : "there is no such user; create it, or name another");
    return false;
  }
  *found = (struct privileges){.uid = entry->pw_uid, .gid = entry->pw_gid};
  return true;
}

bool privileges_find_group(const char *group, gid_t *gid, char *why) {
  errno = 0;
  const struct group *entry = getgrnam(group);
  if (entry == NULL) {
    snprintf(why, PRIVILEGES_WHY, "group `%.100s`: %s", group,
             errno != 0 ? strerror(errno) : "there is no such group; create it, or name another");
    return false;
  }
  *gid = entry->gr_gid;
  return true;
}

bool privileges_drop(const char *name, const struct privileges *to, char *why) {
  if (geteuid() != 0) {
    if (geteuid() == to->uid)
      return true;
    snprintf(why, PRIVILEGES_WHY, "cannot become user `%.100s` without being root", name);
    return false;
  }
  /* The group first: a user who is not root any more cannot change it. */
  if (initgroups(name, to->gid) != 0 || setgid(to->gid) != 0 || setuid(to->uid) != 0) {
    snprintf(why, PRIVILEGES_WHY, "cannot become user `%.100s`: %s", name, strerror(errno));
    return false;
  }
  if (to->uid != 0 && setuid(0) == 0) {
    snprintf(why, PRIVILEGES_WHY, "root's rights could not be given up");
    return false;
  }
  return true;
}

void privileges_no_new(void) {
  /* Cannot fail on any kernel that this program runs on. */
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

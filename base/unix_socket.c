/* SPDX-License-Identifier: Apache-2.0 */
#include "base/unix_socket.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { WHY = UNIX_SOCKET_WHY };

static bool someone_listens(const struct sockaddr_un *address) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return true;
  int result = connect(fd, (const struct sockaddr *)address, sizeof *address);
  bool listens = result == 0 || errno == EAGAIN;
  close(fd);
  return listens;
}

/* Removes the socket that a program left behind when it was killed; never anything else. */
static bool remove_stale(const struct sockaddr_un *address, char *why) {
  struct stat st;
  if (lstat(address->sun_path, &st) != 0)
    return true;
  if (!S_ISSOCK(st.st_mode)) {
    snprintf(why, WHY, "%s is in the way: not a socket", address->sun_path);
    return false;
  }
  if (someone_listens(address)) {
    snprintf(why, WHY, "another program listens at %s", address->sun_path);
    return false;
  }
  unlink(address->sun_path);
  return true;
}

int unix_socket_bind(const char *path, unsigned mode, char *why) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) {
    snprintf(why, WHY, "the path of the socket is longer than %zu octets: %.300s",
             sizeof address.sun_path - 1, path);
    return -1;
  }
  strcpy(address.sun_path, path);
  if (!remove_stale(&address, why))
    return -1;
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  mode_t before = umask(0777 & ~(mode_t)mode);
  bool ok = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
  umask(before);
  if (ok)
    return fd;
  snprintf(why, WHY, "cannot listen at %s: %s", path, strerror(errno));
  if (fd >= 0)
    close(fd);
  return -1;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/supervisor.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static void tell(const char *state) {
  const char *path = getenv("NOTIFY_SOCKET");
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (path == NULL || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof address.sun_path)
    return;
  strcpy(address.sun_path, path);
  socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
  if (path[0] == '@')
    address.sun_path[0] = '\0'; /* the abstract namespace */
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return;
  /* Who supervises may be gone: that must not end the service. */
  (void)!sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address, length);
  close(fd);
}

void supervisor_ready(const char *status) {
  char state[160];
  snprintf(state, sizeof state, "READY=1\nSTATUS=%s", status);
  tell(state);
}

void supervisor_reloading(void) {
  struct timespec now;
  char state[96];
  clock_gettime(CLOCK_MONOTONIC, &now);
  snprintf(state, sizeof state, "RELOADING=1\nMONOTONIC_USEC=%lld",
           (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
  tell(state);
}

void supervisor_stopping(void) {
  tell("STOPPING=1");
}

uint64_t supervisor_watchdog_ms(void) {
  const char *limit = getenv("WATCHDOG_USEC");
  const char *pid = getenv("WATCHDOG_PID");
  if (limit == NULL || (pid != NULL && strtol(pid, NULL, 10) != (long)getpid()))
    return 0;
  unsigned long long usec = strtoull(limit, NULL, 10);
  if (usec == 0)
    return 0;
  return usec < 2000 ? 1 : usec / 2000;
}

void supervisor_alive(void) {
  tell("WATCHDOG=1");
}

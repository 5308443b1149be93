/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/follow_fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { OUTPUT = 8192 };

/* ---- the program ------------------------------------------------------------------------------
 */

/* What git must not do here: ask somebody, or run what the URL names. */
static void set_environment(void) {
  setenv("GIT_TERMINAL_PROMPT", "0", 1);
  setenv("GIT_ALLOW_PROTOCOL", "file:ssh:git:https:http", 1);
  setenv("LC_ALL", "C.UTF-8", 1);
  if (!getenv("GIT_SSH_COMMAND") && !getenv("GIT_SSH"))
    setenv("GIT_SSH_COMMAND", "ssh -oBatchMode=yes -oConnectTimeout=15", 1);
}

static bool spawn(const char *mirror, const char *url, int output, pid_t *pid) {
  const char *const argv[] = {"git",
                              "--git-dir",
                              mirror,
                              "-c",
                              "gc.autoDetach=false",
                              "fetch",
                              "--quiet",
                              "--no-tags",
                              "--no-write-fetch-head",
                              "--no-recurse-submodules",
                              "--",
                              url,
                              "+refs/sluice/deploys:" FOLLOW_FETCHED,
                              NULL};
  posix_spawn_file_actions_t files;
  posix_spawnattr_t how;
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&how);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output, 1);
  posix_spawn_file_actions_adddup2(&files, output, 2);
  posix_spawnattr_setsigmask(&how, &none);
  posix_spawnattr_setsigdefault(&how, &all);
  posix_spawnattr_setpgroup(&how, 0); /* so that ssh ends with git */
  posix_spawnattr_setflags(&how,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  int rc = posix_spawnp(pid, "git", &files, &how, (char *const *)(uintptr_t)argv, environ);
  posix_spawnattr_destroy(&how);
  posix_spawn_file_actions_destroy(&files);
  errno = rc;
  return rc == 0;
}

/* ---- its end ----------------------------------------------------------------------------------
 */

static long now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* True if a signal waits that ends this program; it is left for who reads them. */
static bool must_end(bool stoppable) {
  sigset_t pending;
  return stoppable && sigpending(&pending) == 0 &&
         (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

enum listened { ENDED, LATE, STOPPED };

/* Reads what git says until it ends. */
static enum listened listen_to(int fd, bool stoppable, unsigned seconds, char *output) {
  long end = now_ms() + (long)seconds * 1000;
  size_t used = 0;
  char chunk[1024];
  for (;;) {
    long left = end - now_ms();
    if (left <= 0)
      return LATE;
    /* Signals are blocked, so they end no poll. */
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN}};
    int n = poll(fds, 1, left > 200 ? 200 : (int)left);
    if (must_end(stoppable))
      return STOPPED;
    if (n <= 0)
      continue;
    ssize_t got = read(fd, chunk, sizeof chunk);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return ENDED;
    size_t room = OUTPUT - 1 - used;
    size_t take = (size_t)got < room ? (size_t)got : room;
    memcpy(output + used, chunk, take);
    used += take;
    output[used] = 0;
  }
}

/* Of what git said the line that tells most: the first "fatal:" or "error:", else the last. */
static void pick_line(const char *output, char *line, size_t size) {
  const char *best = NULL;
  const char *last = "";
  for (const char *p = output; *p;) {
    size_t n = strcspn(p, "\n");
    if (n > 0)
      last = p;
    if (!best && (!strncmp(p, "fatal: ", 7) || !strncmp(p, "error: ", 7)))
      best = p + 7;
    p += n + (p[n] == '\n');
  }
  if (!best)
    best = last;
  snprintf(line, size, "%.*s", (int)strcspn(best, "\n"), best);
}

enum follow_fetch follow_fetch(const char *mirror, const char *url, unsigned seconds,
                               bool stoppable, char *why) {
  char output[OUTPUT] = "";
  char line[512];
  int ends[2];
  pid_t pid = 0;
  int status = 0;
  if (pipe2(ends, O_CLOEXEC) != 0) {
    snprintf(why, FOLLOW_WHY, "cannot run git: %s", strerror(errno));
    return FOLLOW_FETCH_FAILED;
  }
  set_environment();
  bool started = spawn(mirror, url, ends[1], &pid);
  close(ends[1]);
  if (!started) {
    snprintf(why, FOLLOW_WHY, "cannot run git: %s; is it installed?", strerror(errno));
    close(ends[0]);
    return FOLLOW_FETCH_FAILED;
  }
  enum listened heard = listen_to(ends[0], stoppable, seconds, output);
  if (heard != ENDED)
    kill(-pid, SIGKILL);
  close(ends[0]);
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
    continue;
  if (heard == STOPPED)
    return FOLLOW_FETCH_STOPPED;
  if (heard == ENDED && WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return FOLLOW_FETCH_DONE;
  pick_line(output, line, sizeof line);
  if (heard == LATE)
    snprintf(why, FOLLOW_WHY, "cannot fetch from %.300s: no end after %u seconds", url, seconds);
  else if (strstr(output, "couldn't find remote ref refs/sluice/deploys"))
    snprintf(why, FOLLOW_WHY, "nothing was deployed in %.300s yet (it has no refs/sluice/deploys)",
             url);
  else
    snprintf(why, FOLLOW_WHY, "cannot fetch from %.300s: %.400s", url, *line ? line : "git failed");
  return FOLLOW_FETCH_FAILED;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/probes/exec_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
  STACK = 128 << 10,
  GUARD = 64 << 10, /* below the stack; a multiple of the page size everywhere */
  FIRST_FREE = 3,   /* descriptors from here on are not the program's */
  EXIT_FAILED = 127,
};

/* What a program may use. */
enum {
  LIMIT_FILES = 1024,
  LIMIT_PROCESSES = 2048, /* of its user, all in all */
  LIMIT_FILE_SIZE = 64 << 20,
  LIMIT_DATA = 1 << 30,
};

/* The child's code is not instrumented: its stack ends without a return. */
#define CHILD __attribute__((no_sanitize_address, no_sanitize_thread))

struct exec_spawner {
  int null;       /* /dev/null, above 2 */
  uint8_t *stack; /* GUARD + STACK octets */
};

/* What parent and child share while the parent waits. */
struct child {
  const struct exec_request *request;
  int null;
  pid_t parent;
  volatile int error;
  const char *volatile what;
};

/* ---- in the child -------------------------------------------------------------------------------
 */

CHILD static void default_signals(void) {
  const struct sigaction action = {.sa_handler = SIG_DFL};
  for (int number = 1; number <= SIGRTMAX; number++)
    sigaction(number, &action, NULL); /* those that cannot be changed are as they must be */
}

CHILD static bool set_descriptors(int null) {
  for (int fd = 0; fd < FIRST_FREE; fd++)
    if (dup2(null, fd) < 0)
      return false;
  return syscall(SYS_close_range, FIRST_FREE, ~0U, 0) == 0;
}

/* Lowers a limit; one that is lower stays. */
CHILD static void limit(int resource, rlim_t most) {
  struct rlimit now;
  if (getrlimit((__rlimit_resource_t)resource, &now) != 0)
    return;
  if (now.rlim_max > most)
    now.rlim_max = most;
  if (now.rlim_cur > now.rlim_max)
    now.rlim_cur = now.rlim_max;
  setrlimit((__rlimit_resource_t)resource, &now);
}

CHILD static void set_limits(unsigned cpu_seconds) {
  limit(RLIMIT_CPU, cpu_seconds);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_NOFILE, LIMIT_FILES);
  limit(RLIMIT_NPROC, LIMIT_PROCESSES);
  limit(RLIMIT_FSIZE, LIMIT_FILE_SIZE);
  limit(RLIMIT_DATA, LIMIT_DATA);
}

CHILD static bool change_user(const struct exec_user *user) {
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  if (user == NULL)
    return true;
  return syscall(SYS_setgroups, user->group_count, user->groups) == 0 &&
         syscall(SYS_setresgid, user->gid, user->gid, user->gid) == 0 &&
         syscall(SYS_setresuid, user->uid, user->uid, user->uid) == 0;
}

CHILD static int fail(struct child *child, const char *what) {
  child->error = errno;
  child->what = what;
  _exit(EXIT_FAILED);
}

CHILD static int run_child(void *arg) {
  struct child *child = arg;
  const struct exec_request *request = child->request;
  sigset_t none;
  default_signals();
  if (setsid() < 0 || !set_descriptors(child->null) || chdir("/") < 0)
    return fail(child, "start a process");
  umask(S_IWGRP | S_IWOTH);
  set_limits(request->cpu_seconds);
  if (!change_user(request->user))
    return fail(child, "change the user");
  /* A change of the user would have taken this back. */
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (getppid() != child->parent)
    _exit(EXIT_FAILED);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  execve(request->path, request->argv, request->environment);
  return fail(child, "run the program");
}

/* ---- in the checker -----------------------------------------------------------------------------
 */

struct exec_spawner *exec_spawner_open(void) {
  struct exec_spawner *spawner = calloc(1, sizeof *spawner);
  if (spawner == NULL)
    return NULL;
  spawner->null = -1;
  spawner->stack = mmap(NULL, GUARD + STACK, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (spawner->stack == MAP_FAILED) {
    free(spawner);
    return NULL;
  }
  int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (fd >= 0)
    spawner->null = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE);
  int error = errno;
  if (fd >= 0)
    close(fd);
  if (spawner->null >= 0 && mprotect(spawner->stack, GUARD, PROT_NONE) == 0)
    return spawner;
  exec_spawner_close(spawner);
  errno = error;
  return NULL;
}

void exec_spawner_close(struct exec_spawner *spawner) {
  if (spawner == NULL)
    return;
  if (spawner->null >= 0)
    close(spawner->null);
  munmap(spawner->stack, GUARD + STACK);
  free(spawner);
}

/* Memory that a process of another user has shared can no longer be dumped or traced; it is the
 * checker's alone again. */
static void restore_dumpable(int before) {
  if (before == 1)
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

pid_t exec_spawn(struct exec_spawner *spawner, const struct exec_request *request, int *pidfd,
                 const char **what) {
  struct child child = {.request = request, .null = spawner->null, .parent = getpid()};
  sigset_t all, before;
  int dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
  /* No handler of the checker's may run in the child. */
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_t pid = clone(run_child, spawner->stack + GUARD + STACK,
                    CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, &child, pidfd);
  int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  restore_dumpable(dumpable);
  *what = "start a process";
  errno = error;
  if (pid < 0 || child.error == 0)
    return pid;
  close(*pidfd);
  while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
    ;
  *what = child.what;
  errno = child.error;
  return -1;
}

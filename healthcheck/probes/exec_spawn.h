/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts a program with nothing of the checker's: session and process group of its own, /dev/null
 * as 0, 1 and 2 and no other descriptor, signals as by default, given environment, limits on what
 * it may use, SIGKILL when the checker dies.
 *
 * The child shares the checker's memory until it runs the program, as with vfork(): that costs the
 * same whatever the checker's size, and no page of it is copied.  So the child touches nothing but
 * its own stack and makes system calls only, and those that glibc would carry out in all threads
 * (setuid and the like) by their numbers.
 */
#ifndef SLUICE_HEALTHCHECK_PROBES_EXEC_SPAWN_H
#define SLUICE_HEALTHCHECK_PROBES_EXEC_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

struct exec_spawner; /* what starts have in common: a stack, /dev/null; of one thread */

enum { EXEC_GROUPS = 64 };

/* The user that a program runs as. */
struct exec_user {
  uid_t uid;
  gid_t gid;
  gid_t groups[EXEC_GROUPS];
  unsigned group_count;
};

struct exec_request {
  const char *path; /* absolute */
  char *const *argv;
  char *const *environment;
  const struct exec_user *user; /* NULL: stays as it is */
  unsigned cpu_seconds;         /* limit of processor time */
};

/* NULL with errno. */
struct exec_spawner *exec_spawner_open(void);
void exec_spawner_close(struct exec_spawner *spawner);

/* The process, to be reaped by the caller, and in *pidfd a descriptor that becomes readable when it
 * has ended.  -1 with errno, and in *what (static text) what could not be done: "start a process",
 * "change the user", "run the program". */
pid_t exec_spawn(struct exec_spawner *spawner, const struct exec_request *request, int *pidfd,
                 const char **what);

#endif

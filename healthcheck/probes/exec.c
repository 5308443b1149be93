/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec: a program of the machine's own settings.  Its exit status is the result.
 *
 * It gets its arguments as the settings have them and learns the endpoint from the environment, so
 * that nothing of the configuration is ever an argument, let alone a command line.  What it writes
 * goes to /dev/null.  When it has ended, or at the deadline, its process group is killed, and the
 * process is reaped whatever becomes of the probe.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "healthcheck/probe_kind.h"
#include "healthcheck/probes/exec_program.h"
#include "healthcheck/probes/exec_spawn.h"

enum {
  USER_BUFFER = 16 << 10,
  HOST_MAX = 253,
  VARIABLES = 8,
  VARIABLE = 300, /* octets of one, its name included */
  MS = 1000,
  RUNNING_MAX = 200, /* programs at once; more would starve this machine, and with it all checks */
};

/* Programs that are not reaped yet; the loop's thread alone. */
static unsigned running;

struct exec {
  struct exec_spawner *spawner;
  bool change; /* programs run as `user` */
  struct exec_user user;
  char refused[PROBE_REASON]; /* why no program runs; "": they do */
};

struct run {
  uv_poll_t poll;      /* of pidfd; lives until the process is reaped */
  struct probe *probe; /* NULL once it was stopped */
  pid_t pid;
  int pidfd;
};

/* ---- the end ------------------------------------------------------------------------------------
 */

static void free_run(uv_handle_t *handle) {
  free(handle->data);
}

/* Also if somebody else has reaped it. */
static bool has_ended(const struct run *run) {
  siginfo_t info = {0};
  if (waitid(P_PID, (id_t)run->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0)
    return errno == ECHILD;
  return info.si_pid != 0;
}

static void report(struct probe *probe, bool reaped, int status) {
  probe->result.own_fault = !reaped;
  if (!reaped)
    probe_end(probe, false, "the exit status was lost");
  else if (WIFSIGNALED(status))
    probe_end(probe, false, "killed by signal %d", WTERMSIG(status));
  else
    probe_end(probe, WEXITSTATUS(status) == 0, "exit status %d", WEXITSTATUS(status));
}

static void on_ended(uv_poll_t *poll, int status, int events) {
  struct run *run = poll->data;
  struct probe *probe = run->probe;
  (void)events;
  if (!has_ended(run)) {
    if (status < 0) /* after an error libuv has stopped watching */
      uv_poll_start(poll, UV_READABLE, on_ended);
    return;
  }
  /* What it has left running goes, too; as long as it is not reaped, its number is its own. */
  kill(-run->pid, SIGKILL);
  pid_t reaped;
  while ((reaped = waitpid(run->pid, &status, 0)) < 0 && errno == EINTR)
    ;
  running--;
  uv_close((uv_handle_t *)poll, free_run);
  close(run->pidfd);
  if (probe != NULL)
    report(probe, reaped == run->pid, status);
}

/* on_ended() reaps it. */
static void stop_exec(void *state, const char **phase) {
  struct run *run = state;
  run->probe = NULL;
  kill(-run->pid, SIGKILL);
  *phase = "running the program";
}

/* ---- the environment ----------------------------------------------------------------------------
 */

struct environment {
  char text[VARIABLES][VARIABLE];
  char *list[VARIABLES + 1];
  size_t count;
};

__attribute__((format(printf, 2, 3))) static void set(struct environment *environment,
                                                      const char *format, ...) {
  va_list args;
  char *text = environment->text[environment->count];
  va_start(args, format);
  vsnprintf(text, VARIABLE, format, args);
  va_end(args);
  environment->list[environment->count++] = text;
}

/* Letters, digits, `-`, `_` and `.`; what a program might take for an option or a path is none. */
static bool is_host_name(const char *host) {
  size_t len = strlen(host);
  if (len == 0 || len > HOST_MAX || host[0] == '-' || host[0] == '.')
    return false;
  for (size_t i = 0; i < len; i++) {
    char c = host[i];
    bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                c == '-' || c == '_' || c == '.';
    if (!good)
      return false;
  }
  return true;
}

/* False if the host name is none. */
static bool make_environment(const struct probe *probe, struct environment *environment) {
  const struct sockaddr_storage *address = &probe->address;
  bool v6 = address->ss_family == AF_INET6;
  const void *bytes = v6 ? (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr
                         : (const void *)&((const struct sockaddr_in *)address)->sin_addr;
  char text[INET6_ADDRSTRLEN];
  const char *host = probe->target->family == 0 ? probe->target->host : NULL;
  if (host != NULL && !is_host_name(host))
    return false;
  inet_ntop(address->ss_family, bytes, text, sizeof text);
  set(environment, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
  set(environment, "LC_ALL=C");
  set(environment, "SLUICE_ADDRESS=%s", text);
  set(environment, "SLUICE_FAMILY=%d", v6 ? 6 : 4);
  set(environment, "SLUICE_TIMEOUT_MS=%llu", (unsigned long long)probe_left(probe));
  if (probe->check->port != 0)
    set(environment, "SLUICE_PORT=%u", probe->check->port);
  if (host != NULL)
    set(environment, "SLUICE_HOST=%s", host);
  return true;
}

/* ---- starting -----------------------------------------------------------------------------------
 */

static const struct probe_program *find_program(const struct probe_options *options,
                                                const char *name) {
  for (size_t i = 0; i < options->program_count; i++)
    if (strcmp(options->programs[i].name, name) == 0)
      return &options->programs[i];
  return NULL;
}

/* The program, or NULL with the reason in `result`: all of them are this machine's own fault. */
static const struct probe_program *choose(const struct probe *probe, const struct exec *exec,
                                          struct probe_result *result) {
  const char *name = probe->check->program;
  const struct probe_program *program = find_program(probe_options(probe->set), name);
  char why[EXEC_PROGRAM_WHY];
  result->own_fault = true;
  if (program == NULL)
    snprintf(result->reason, sizeof result->reason,
             "no program `%.60s` in `checks:` of this machine's settings", name);
  else if (exec->refused[0] != '\0')
    memcpy(result->reason, exec->refused, sizeof exec->refused);
  else if (running >= RUNNING_MAX)
    snprintf(result->reason, sizeof result->reason, "%d programs run already", RUNNING_MAX);
  else if (!exec_program_check(program->argv[0], geteuid(), why))
    snprintf(result->reason, sizeof result->reason, "%s", why);
  else
    return program;
  return NULL;
}

static bool start_process(struct run *run, const struct exec *exec,
                          const struct probe_program *program, struct probe_result *result) {
  struct environment environment = {.count = 0};
  const char *what;
  if (!make_environment(run->probe, &environment)) {
    snprintf(result->reason, sizeof result->reason, "the host name is none");
    return false;
  }
  const struct exec_request request = {
      .path = program->argv[0],
      .argv = (char *const *)program->argv, /* not written to */
      .environment = environment.list,
      .user = exec->change ? &exec->user : NULL,
      .cpu_seconds = run->probe->check->timeout / MS + 2,
  };
  run->pid = exec_spawn(exec->spawner, &request, &run->pidfd, &what);
  if (run->pid > 0)
    return true;
  result->own_fault = true;
  snprintf(result->reason, sizeof result->reason, "cannot %s: %s", what, strerror(errno));
  return false;
}

/* Watches a process that runs; without the means it is ended. */
static bool watch(struct run *run, uv_loop_t *loop) {
  if (uv_poll_init(loop, &run->poll, run->pidfd) == 0) {
    run->poll.data = run;
    uv_poll_start(&run->poll, UV_READABLE, on_ended);
    running++;
    return true;
  }
  kill(-run->pid, SIGKILL);
  while (waitpid(run->pid, NULL, 0) < 0 && errno == EINTR)
    ;
  close(run->pidfd);
  return false;
}

static bool start_exec(struct probe *probe, void *shared, void **state,
                       struct probe_result *result) {
  const struct exec *exec = shared;
  const struct probe_program *program = choose(probe, exec, result);
  if (program == NULL)
    return false;
  result->own_fault = false;
  struct run *run = calloc(1, sizeof *run);
  if (run == NULL)
    goto no_memory;
  run->probe = probe;
  if (!start_process(run, exec, program, result)) {
    free(run);
    return false;
  }
  if (!watch(run, probe_loop(probe->set)))
    goto no_memory;
  *state = run;
  return true;
no_memory:
  free(run);
  result->own_fault = true;
  snprintf(result->reason, sizeof result->reason, "this machine has no memory left");
  return false;
}

/* ---- the kind -----------------------------------------------------------------------------------
 */

/* The user to run as; false with the reason in `exec->refused`. */
static bool find_user(struct exec *exec, const char *name) {
  static char buffer[USER_BUFFER];
  struct passwd entry, *found = NULL;
  int count = EXEC_GROUPS;
  int error = getpwnam_r(name, &entry, buffer, sizeof buffer, &found);
  if (found == NULL) {
    snprintf(exec->refused, sizeof exec->refused, "user '%.60s' of healthd: run-as: %s", name,
             error != 0 ? strerror(error) : "there is no such user");
    return false;
  }
  exec->user.uid = entry.pw_uid;
  exec->user.gid = entry.pw_gid;
  if (getgrouplist(name, entry.pw_gid, exec->user.groups, &count) < 0) {
    snprintf(exec->refused, sizeof exec->refused,
             "user '%.60s' of healthd: run-as is in more than %d groups", name, EXEC_GROUPS);
    return false;
  }
  exec->user.group_count = (unsigned)count;
  exec->change = entry.pw_uid != geteuid();
  return true;
}

static void look_at_programs(const struct probe_options *options) {
  char why[EXEC_PROGRAM_WHY];
  for (size_t i = 0; i < options->program_count; i++)
    if (!exec_program_check(options->programs[i].argv[0], geteuid(), why))
      log_warning("check %s cannot run: %s", options->programs[i].name, why);
}

/* Whoever started the checker may have left it ignoring ended children: then the kernel would reap
 * them, and their status be lost. */
static void keep_exit_statuses(void) {
  struct sigaction action;
  if (sigaction(SIGCHLD, NULL, &action) == 0 &&
      (action.sa_handler == SIG_IGN || (action.sa_flags & SA_NOCLDWAIT) != 0))
    signal(SIGCHLD, SIG_DFL);
}

static bool open_exec(struct probe_set *set, void **shared, char *why) {
  const struct probe_options *options = probe_options(set);
  struct exec *exec = calloc(1, sizeof *exec);
  if (exec == NULL) {
    snprintf(why, PROBE_WHY, "out of memory");
    return false;
  }
  *shared = exec;
  if (options->program_count == 0)
    return true; /* then none is ever started */
  exec->spawner = exec_spawner_open();
  if (exec->spawner == NULL) {
    snprintf(why, PROBE_WHY, "cannot prepare for exec checks: %s", strerror(errno));
    free(exec);
    return false;
  }
  if (options->run_as != NULL)
    find_user(exec, options->run_as);
  else if (geteuid() == 0)
    snprintf(exec->refused, sizeof exec->refused,
             "checks do not run as root: name a user in healthd: run-as");
  if (exec->refused[0] != '\0')
    log_warning("exec checks: %s", exec->refused);
  look_at_programs(options);
  keep_exit_statuses();
  return true;
}

/* Processes that are being ended need nothing of it any more. */
static void close_exec(void *shared) {
  struct exec *exec = shared;
  exec_spawner_close(exec->spawner);
  free(exec);
}

const struct probe_kind probe_kind_exec = {
    .open = open_exec, .close = close_exec, .start = start_exec, .stop = stop_exec};

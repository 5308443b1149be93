/* SPDX-License-Identifier: Apache-2.0 */
#include "base/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
  ROOM = SECRET_MAX + 3, /* the line's end, and one more to see that it is too long */
  ARGUMENTS_MAX = 64,
  SHOWN = 100, /* octets of a name in a message */
  FORBIDDEN_MODE = 0027,
};

extern char **environ;

void secret_wipe_text(char *text) {
  if (text == NULL)
    return;
  explicit_bzero(text, strlen(text));
  free(text);
}

void secret_wipe(struct secret *secret) {
  if (secret->text != NULL)
    explicit_bzero(secret->text, secret->length);
  free(secret->text);
  *secret = (struct secret){NULL, 0};
}

/* ---- what the settings say --------------------------------------------------------------------
 */

static bool is_text(const json_t *json) {
  const char *text = json_string_value(json);
  return text != NULL && text[0] != '\0' && strlen(text) == json_string_length(json);
}

static bool is_command(const json_t *json) {
  size_t count = json_array_size(json);
  if (count == 0 || count > ARGUMENTS_MAX)
    return false;
  for (size_t i = 0; i < count; i++)
    if (!json_is_string(json_array_get(json, i)))
      return false;
  const json_t *program = json_array_get(json, 0);
  return is_text(program) && json_string_value(program)[0] == '/';
}

static bool check_one(const char *name, const json_t *place, char *why) {
  const json_t *file = json_object_get(place, "file");
  const json_t *env = json_object_get(place, "env");
  const json_t *command = json_object_get(place, "command");
  if (json_object_size(place) != 1 || (file == NULL && env == NULL && command == NULL))
    snprintf(why, SECRET_WHY,
             "secret %.*s needs one of `file: PATH`, `env: VARIABLE` or `command: [PATH, ...]`",
             SHOWN, name);
  else if (file != NULL && !(is_text(file) && json_string_value(file)[0] == '/'))
    snprintf(why, SECRET_WHY, "secret %.*s: `file` must be an absolute path", SHOWN, name);
  else if (env != NULL && !is_text(env))
    snprintf(why, SECRET_WHY, "secret %.*s: `env` must be the name of a variable", SHOWN, name);
  else if (command != NULL && !is_command(command))
    snprintf(why, SECRET_WHY,
             "secret %.*s: `command` must be a list of texts that begins with an absolute path",
             SHOWN, name);
  else
    return true;
  return false;
}

bool secret_check(const json_t *secrets, char *why) {
  if (secrets == NULL || json_is_null(secrets))
    return true;
  if (!json_is_object(secrets)) {
    snprintf(why, SECRET_WHY, "`secrets` must be a map of names and places");
    return false;
  }
  const char *name;
  json_t *place;
  json_object_foreach((json_t *)secrets, name, place) {
    if (!check_one(name, place, why))
      return false;
  }
  return true;
}

/* ---- places -----------------------------------------------------------------------------------
 */

/* Each reads at most ROOM - 1 octets to `out`; SIZE_MAX with a reason if it cannot. */

static size_t read_file(const char *path, char *out, char *why) {
  size_t used = SIZE_MAX;
  struct stat st;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0 || fstat(fd, &st) != 0) {
    snprintf(why, SECRET_WHY, "cannot read %s: %s", path, strerror(errno));
  } else if (!S_ISREG(st.st_mode)) {
    snprintf(why, SECRET_WHY, "%s is not a regular file", path);
  } else if (st.st_uid != 0 && st.st_uid != geteuid()) {
    snprintf(why, SECRET_WHY, "%s belongs to user %u; it must be root's or this program's own",
             path, (unsigned)st.st_uid);
  } else if ((st.st_mode & FORBIDDEN_MODE) != 0) {
    snprintf(why, SECRET_WHY, "%s is open to others (mode %04o); make it 0600 or 0640", path,
             (unsigned)st.st_mode & 07777);
  } else {
    ssize_t got;
    used = 0;
    while (used < ROOM - 1 && (got = read(fd, out + used, ROOM - 1 - used)) != 0) {
      if (got > 0) {
        used += (size_t)got;
      } else if (errno != EINTR) {
        snprintf(why, SECRET_WHY, "cannot read %s: %s", path, strerror(errno));
        used = SIZE_MAX;
        break;
      }
    }
  }
  if (fd >= 0)
    close(fd);
  return used;
}

static size_t read_env(const char *variable, char *out, char *why) {
  const char *value = getenv(variable);
  if (value == NULL) {
    snprintf(why, SECRET_WHY, "the environment variable %s is not set", variable);
    return SIZE_MAX;
  }
  size_t length = strnlen(value, ROOM - 1);
  memcpy(out, value, length);
  return length;
}

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Its own process group, default signals, nothing to read; what it says of errors may hold the
 * secret and goes nowhere. */
static int start(const char *const *argv, int out, pid_t *pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  int rc = posix_spawn_file_actions_init(&actions);
  if (rc != 0)
    return rc;
  rc = posix_spawnattr_init(&attributes);
  if (rc != 0) {
    posix_spawn_file_actions_destroy(&actions);
    return rc;
  }
  short flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
  rc = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (rc == 0)
    rc = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  if (rc == 0)
    rc = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  if (rc == 0)
    rc = posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  if (rc == 0)
    rc = posix_spawnattr_setflags(&attributes, flags);
  if (rc == 0)
    rc = posix_spawnattr_setpgroup(&attributes, 0);
  if (rc == 0)
    rc = posix_spawnattr_setsigmask(&attributes, &none);
  if (rc == 0)
    rc = posix_spawnattr_setsigdefault(&attributes, &all);
  if (rc == 0)
    rc = posix_spawn(pid, argv[0], &actions, &attributes, (char *const *)argv, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return rc;
}

/* Reads until the end, the limit or the deadline; false at the deadline. */
static bool collect(int fd, char *out, size_t *used, int64_t deadline) {
  while (*used < ROOM - 1) {
    int64_t left = deadline - now_ms();
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    if (left <= 0 || (poll(&wait, 1, (int)left) == 0))
      return false;
    ssize_t got = read(fd, out + *used, ROOM - 1 - *used);
    if (got == 0)
      return true;
    if (got > 0)
      *used += (size_t)got;
    else if (errno != EINTR && errno != EAGAIN)
      return true;
  }
  return true;
}

/* Waits for the end of the program until the deadline; false if it had to be killed.  What it has
 * started and left behind is killed with it, while its number is still its own. */
static bool reap(pid_t pid, int64_t deadline, int *status) {
  bool ended = false;
  while (!ended) {
    siginfo_t info = {.si_pid = 0};
    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno != EINTR)
      break;
    ended = info.si_pid == pid;
    if (!ended && now_ms() >= deadline)
      break;
    if (!ended)
      poll(NULL, 0, 5);
  }
  kill(-pid, SIGKILL);
  while (waitpid(pid, status, 0) < 0 && errno == EINTR)
    continue;
  return ended;
}

static size_t read_command(const json_t *command, char *out, char *why) {
  const char *argv[ARGUMENTS_MAX + 1] = {NULL};
  for (size_t i = 0; i < json_array_size(command); i++)
    argv[i] = json_string_value(json_array_get(command, i));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    snprintf(why, SECRET_WHY, "cannot make a pipe: %s", strerror(errno));
    return SIZE_MAX;
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK); /* a signal that ends the waiting must not make it endless */
  pid_t pid;
  int rc = start(argv, ends[1], &pid);
  close(ends[1]);
  if (rc != 0) {
    close(ends[0]);
    snprintf(why, SECRET_WHY, "cannot run %s: %s", argv[0], strerror(rc));
    return SIZE_MAX;
  }
  size_t used = 0;
  int status = 0;
  int64_t deadline = now_ms() + SECRET_COMMAND_MS;
  bool in_time = collect(ends[0], out, &used, deadline);
  close(ends[0]);
  in_time = reap(pid, in_time ? deadline : 0, &status) && in_time;
  bool good = in_time && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (good || used == ROOM - 1) /* too long is said by who judges the text */
    return used;
  if (!in_time)
    snprintf(why, SECRET_WHY, "%s did not end within %d s", argv[0], SECRET_COMMAND_MS / 1000);
  else if (WIFEXITED(status))
    snprintf(why, SECRET_WHY, "%s failed with exit status %d", argv[0], WEXITSTATUS(status));
  else
    snprintf(why, SECRET_WHY, "%s was ended by signal %d", argv[0], WTERMSIG(status));
  return SIZE_MAX;
}

/* ---- reading ----------------------------------------------------------------------------------
 */

/* Drops the line's end; NULL, or static text of what is wrong. */
static const char *judge(const char *text, size_t *length) {
  while (*length > 0 && (text[*length - 1] == '\n' || text[*length - 1] == '\r'))
    (*length)--;
  if (*length == 0)
    return "it is empty";
  if (*length > SECRET_MAX)
    return "it is longer than 8192 octets";
  for (size_t i = 0; i < *length; i++)
    if (text[i] < ' ' || text[i] > '~')
      return "it must be one line of printable ASCII";
  return NULL;
}

static size_t read_place(const json_t *place, char *out, char *why) {
  const json_t *value;
  if ((value = json_object_get(place, "file")) != NULL)
    return read_file(json_string_value(value), out, why);
  if ((value = json_object_get(place, "env")) != NULL)
    return read_env(json_string_value(value), out, why);
  return read_command(json_object_get(place, "command"), out, why);
}

bool secret_read(const json_t *secrets, const char *name, struct secret *out, char *why) {
  *out = (struct secret){NULL, 0};
  const json_t *place = json_object_get(secrets, name);
  if (place == NULL) {
    snprintf(why, SECRET_WHY,
             "secret %.*s is not in the machine's settings; add it under `secrets`", SHOWN, name);
    return false;
  }
  if (!check_one(name, place, why))
    return false;
  char *text = malloc(ROOM);
  if (text == NULL) {
    snprintf(why, SECRET_WHY, "out of memory");
    return false;
  }
  char reason[SECRET_WHY];
  size_t length = read_place(place, text, reason);
  const char *problem = length == SIZE_MAX ? reason : judge(text, &length);
  if (problem == NULL) {
    text[length] = '\0';
    *out = (struct secret){text, length};
    return true;
  }
  explicit_bzero(text, ROOM);
  free(text);
  snprintf(why, SECRET_WHY, "secret %.*s: %.300s", SHOWN, name, problem);
  return false;
}

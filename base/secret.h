/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets by name, for programs that log in somewhere (webhooks, DNS providers).
 *
 * The machine's settings say where each one is kept (`secrets:`):
 *   NAME: {file: PATH}            a regular file of root or of the program's own user, without any
 *                                 right for others and not writable by its group
 *   NAME: {env: VARIABLE}         an environment variable
 *   NAME: {command: [PATH, ...]}  what a program prints; an absolute path, no shell
 *
 * One line, 1 to SECRET_MAX printable octets (line ends at the end are dropped), so that a secret
 * can stand in a header or a URL.  Values never reach a log, a message, an argument vector or an
 * error text; errors name the secret and its place only.  Memory that held one is wiped here;
 * whoever copies a value wipes the copy (secret_wipe_text()).
 */
#ifndef SLUICE_BASE_SECRET_H
#define SLUICE_BASE_SECRET_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum {
  SECRET_MAX = 8192,
  SECRET_WHY = 512,
  SECRET_COMMAND_MS = 10000, /* how long a command may take; then its process group is killed */
};

struct secret {
  char *text; /* ends with NUL; NULL: none */
  size_t length;
};

/* True if `secrets` (NULL: none) is well formed: names and one place for each.  Reads none of them.
 * Else one line in `why` (SECRET_WHY octets). */
bool secret_check(const json_t *secrets, char *why);

/*
 * Reads the secret `name` of the section `secrets`, from its place, now.  May block as long as a
 * command may take: not for loops.  Any thread.  False with one line in `why` (SECRET_WHY octets),
 * then `out` is empty.  Freed by secret_wipe().
 */
bool secret_read(const json_t *secrets, const char *name, struct secret *out, char *why);

/* Overwrites and frees the value; an empty one is allowed. */
void secret_wipe(struct secret *secret);

/* Overwrites and frees a malloc'd text that holds a copy of a secret; NULL is allowed. */
void secret_wipe_text(char *text);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which programs may be run as checks: those that nobody but root and the checker's own user can
 * have put there.
 */
#ifndef SLUICE_HEALTHCHECK_PROBES_EXEC_PROGRAM_H
#define SLUICE_HEALTHCHECK_PROBES_EXEC_PROGRAM_H

#include <stdbool.h>
#include <sys/types.h>

enum { EXEC_PROGRAM_WHY = 160 };

/*
 * Follows `path`, which must be absolute, through folders and symbolic links to a regular,
 * executable file.  Each on the way must belong to root or to `own`; folders and the file must not
 * be writable by group or others.  (A folder on the way may be if it is sticky, as /tmp: what is in
 * it has an owner, too.  The one that holds the program may not.)
 *
 * False with one line in `why` (EXEC_PROGRAM_WHY octets).  To be asked when settings are read, and
 * again before each run.
 */
bool exec_program_check(const char *path, uid_t own, char *why);

#endif

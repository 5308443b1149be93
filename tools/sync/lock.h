/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps two runs apart that would change the same zone at the same provider at the same time, on
 * one machine: a file for each, locked by flock(2), so that the lock of a process that died is free
 * by itself.  The file's text says who holds it, for the message of who has to wait.
 *
 * The folder is the machine's (SYNC_LOCK_FOLDER, or `locks:` of the section `syncd:`), writable for
 * the group whose members change providers.  Who cannot use it gets one of his own in
 * $XDG_RUNTIME_DIR, or in /tmp with his user number, and is kept apart from his own runs only.
 *
 * Nothing in a folder is believed: files are opened without following links, must be plain files
 * with one name, and their text is bounded and only shown.
 */
#ifndef SLUICE_TOOLS_SYNC_LOCK_H
#define SLUICE_TOOLS_SYNC_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SYNC_LOCK_FOLDER "/run/sluice/locks"

enum { SYNC_LOCK_WHY = 512, SYNC_LOCK_NAME = 200, SYNC_LOCK_WAIT_MS = 10000 };

struct sync_lock;

/* Makes the machine's folder if it is missing, with the rights of a group's: for sluice-syncd. */
bool sync_lock_make_folder(const char *folder, char *why);

/*
 * A descriptor of the folder to be used, to be closed: `folder`, or where that cannot be the
 * caller's own.  -1 with `why` if there is none at all.  `note` (SYNC_LOCK_WHY octets) is "", or
 * one line where others' runs are not seen though they should be.  A missing default folder is no
 * such case: then nobody keeps locks there.
 */
int sync_lock_open_folder(const char *folder, char *note, char *why);

/* The file's name for a zone at what is reached by `kind` and `place` (URL or address; may be "").
 * The same provider under two names has one lock. */
void sync_lock_name(const char *kind, const char *place, const char *zone,
                    char out[SYNC_LOCK_NAME]);

enum sync_lock_result { SYNC_LOCK_TAKEN, SYNC_LOCK_HELD, SYNC_LOCK_FAILED };

/*
 * Takes the lock, waiting until `until_ms` of the monotonic clock.  SYNC_LOCK_HELD: another has it,
 * and `why` (SYNC_LOCK_WHY octets) says who and for how long: "process 4711 of alice (sluice), for
 * 12 s".  SYNC_LOCK_FAILED: it cannot be taken at all.
 */
enum sync_lock_result sync_lock_take(int folder, const char *name, int64_t until_ms,
                                     struct sync_lock **out, char *why);
void sync_lock_release(struct sync_lock *lock);

/* The monotonic clock in ms. */
int64_t sync_lock_now(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the checker knew last, on disk, so that a restart serves nothing that was known to be dead.
 *
 * One JSON document:
 *   {"format":1,"checks":[[TARGET,ID,TYPE,PORT,"up"|"down",SINCE,HELD,WHY],...]}
 * TARGET: text of the address or the host name; ID: of the settings (list_check.id); SINCE: Unix
 * seconds, only to be shown; HELD: ms that damping still holds; WHY: the last result.
 *
 * A saved state is found again by target and settings; one whose settings have changed, by its
 * target.
 */
#ifndef SLUICE_HEALTHCHECK_STATE_FILE_H
#define SLUICE_HEALTHCHECK_STATE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "healthcheck/list.h"
#include "healthcheck/state_machine.h"

enum { STATE_FILE_WHY = 512, STATE_FILE_MAX = 256 << 20 };

struct state_file;

struct state_saved {
  char id[LIST_ID];
  uint8_t type;  /* enum check_type */
  uint8_t state; /* enum machine_state, never unknown */
  uint16_t port;
  uint32_t held; /* ms */
  int64_t since;
  const char *why;
};

/* Reads the text of a state file; NULL with one line in `why` (STATE_FILE_WHY octets) that says
 * where it is wrong.  Trusts nothing in it. */
struct state_file *state_file_parse(const char *text, size_t len, char *why);

/*
 * Reads the file.  One that is not there gives an empty one.  One that cannot be used is renamed to
 * PATH.damaged, and gives an empty one too, with `damaged` (STATE_FILE_WHY octets) telling what was
 * wrong; else that is "".  NULL with a reason in `why` if it cannot be read at all.
 */
struct state_file *state_file_read(const char *path, char *damaged, char *why);
void state_file_free(struct state_file *file);
size_t state_file_count(const struct state_file *file);

/* An empty one, in memory; NULL without memory. */
struct state_file *state_file_new(void);

/* Adds a state; texts are copied.  False without memory. */
bool state_file_put(struct state_file *file, const char *target, const struct state_saved *saved);

/* The state of exactly this probe, or NULL; it is not found as similar to others afterwards. */
const struct state_saved *state_file_take(struct state_file *file, const struct list_probe *probe);

/* The state of a probe whose settings have changed: of what was not taken, that of the same target
 * with the same type and port, or with any; or NULL. */
const struct state_saved *state_file_similar(const struct state_file *file,
                                             const struct list_probe *probe);

/* Writing: begin, one for each check with a state, end; then the buffer holds the document (unless
 * it failed). */
void state_file_begin(struct buf *out);
void state_file_add(struct buf *out, const char *target, const struct state_saved *saved);
void state_file_end(struct buf *out);

#endif

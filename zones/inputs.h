/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which zones of a commit need not be read, since a build of an earlier commit was made of the same
 * files.
 *
 * git names the content of a directory by a hash, so two commits whose trees have the same id for a
 * zone's directory have the same zone.  A build of a commit keeps these ids beside it, in
 * inputs.json: {"format":1, "key": hash of all else that zones depend on (defaults.yaml, the
 * builder, the machine's exec checks), "zones": {directory: tree id}}.  A zone that takes records
 * from outside of its directory is not listed, so it is always read; and where a zone changed, the
 * zones above and below it are read as well, since they are checked against each other.
 */
#ifndef SLUICE_ZONES_INPUTS_H
#define SLUICE_ZONES_INPUTS_H

#include "base/buf.h"
#include "zones/source_git.h"

struct inputs;

/* Of an open source of a commit; `machine` is any text that stands for what else matters.  NULL
 * without memory. */
struct inputs *inputs_new(struct config_source *source, const char *machine);
void inputs_free(struct inputs *inputs);

/*
 * Finds the zones that are as in the live build of a data folder, whose id goes to `base` (17
 * octets; "" if there is none).  Anything that does not fit means that nothing is kept.
 */
void inputs_keep(struct inputs *inputs, const char *data_dir, char *base);

/* For config_source.is_kept; `inputs` is a struct inputs. */
bool inputs_is_kept(const void *inputs, const char *directory);

/* The text of inputs.json for a model that was read from the source; false without memory. */
bool inputs_dump(const struct inputs *inputs, const struct model *model, struct buf *out);

#endif

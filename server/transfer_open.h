/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens what a zone transfer needs: the records of the build that is served, and for IXFR those of
 * an earlier build that has the client's serial.
 *
 * Builds lie side by side (zones/build.h), and the last ones are kept; unchanged zones are one file
 * with several names.  So the history of a zone is looked up in the headers of its files, and a
 * difference is computed from two of them when it is asked for.  This reads files, so it belongs to
 * a thread that may wait.
 */
#ifndef SLUICE_SERVER_TRANSFER_OPEN_H
#define SLUICE_SERVER_TRANSFER_OPEN_H

#include "server/transfer_stream.h"

enum { TRANSFER_WHY = 512 };

struct transfer_data {
  enum transfer_kind kind;
  struct records now;
  struct records old;        /* TRANSFER_DIFF */
  struct transfer_diff diff; /* TRANSFER_DIFF */
};

/* What is asked for. */
struct transfer_wish {
  const char *path; /* DATA/builds/<id>/zones/<file> of the build that is served */
  uint32_t serial;  /* that is served; the file must have it */
  bool incremental; /* IXFR */
  uint32_t have;    /* the client's serial */
};

/*
 * False with a one-line reason in `why` (TRANSFER_WHY octets) if the served records cannot be read.
 * An earlier version that cannot be used (gone, damaged, ambiguous, or so different that the
 * difference is larger than the zone) makes it a transfer of the whole zone (RFC 1995 section 2).
 */
bool transfer_data_open(struct transfer_data *data, const struct transfer_wish *wish, char *why);
void transfer_data_close(struct transfer_data *data);

/* True if a client that has `have` needs nothing (RFC 1982 order; equal or newer). */
bool transfer_is_current(uint32_t have, uint32_t serial);

#endif

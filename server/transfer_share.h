/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records files that transfers have open, each in memory once, however many transfers read it.
 *
 * They are read, not mapped: what is done to a file afterwards cannot hurt.  May be called from any
 * thread.
 */
#ifndef SLUICE_SERVER_TRANSFER_SHARE_H
#define SLUICE_SERVER_TRANSFER_SHARE_H

#include "zones/records.h"

/* As records_open(), for transfer_share_close(). */
bool transfer_share_open(struct records *records, const char *path, char *why);
void transfer_share_close(struct records *records);

#endif

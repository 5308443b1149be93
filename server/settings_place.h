/* SPDX-License-Identifier: Apache-2.0 */
/* Where a value of the machine's settings is written, for what turns out to be wrong with it later,
 * when the file has long been read. */
#ifndef SLUICE_SERVER_SETTINGS_PLACE_H
#define SLUICE_SERVER_SETTINGS_PLACE_H

/* Line and column count from 1; 0: it is not from the file (a flag, or not set at all). */
struct settings_place {
  unsigned line, column;
};

#endif
